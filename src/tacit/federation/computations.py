"""Which computations a federation can run, and how each is put together on the two sides.

A computation is an estimator of tacit whose coordinator and sites are in different places. Both
sides build it from the same `Proposal`, so they agree on everything public or do not start.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from tacit.data.relations import Relation
from tacit.data.sources import numeric_columns
from tacit.errors import ParameterError, TacitError
from tacit.estimators.base import SiteSide
from tacit.estimators.coupled import CoupledFactorization
from tacit.estimators.joint import JointCoordinator, Problem, state_problem
from tacit.estimators.joint_als import AlternatingLeastSquares
from tacit.estimators.joint_langevin import Langevin
from tacit.estimators.joint_local import LocalCounts
from tacit.estimators.mixture import GaussianMixture
from tacit.estimators.regression import PrivateLinearRegression
from tacit.estimators.regression_rounds import Collector
from tacit.estimators.site import Site
from tacit.estimators.spectral import SpectralEstimator
from tacit.estimators.spectral_rounds import MOST_ROUNDS, Spectrum
from tacit.estimators.topics import SingleTopicModel
from tacit.federation.proposal import Proposal
from tacit.models.structure import CoupledModel
from tacit.privacy.events import DpEvent
from tacit.privacy.guarantee import Certificate
from tacit.privacy.ledger import Ledger
from tacit.rounds.protocol import Coordinator, RunRecord

__all__ = ["COMPUTATIONS", "Computation", "computation_of"]


class Computation(ABC):
    """One proposed computation, as both sides see it.

    Parameters
    ----------
    proposal
        What is proposed; raises where it makes no sense.
    """

    sums_only: ClassVar[bool] = False  # whether a secure sum is enough
    inference_only: ClassVar[tuple[str, ...]] = ()  # settings that no release depends on

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        if proposal.threshold is not None and not self.sums_only:
            raise ParameterError(
                f"{proposal.computation!r} needs every site's own release: it has no secure sum"
            )

    @property
    @abstractmethod
    def rounds(self) -> int:
        """How often a site is asked at most."""

    @property
    @abstractmethod
    def bounds(self) -> Any:
        """The public bounds, as a policy states them."""

    @abstractmethod
    def event(self) -> DpEvent:
        """Return everything that one site releases."""

    @abstractmethod
    def coordinator(self) -> Coordinator:
        """Return the coordinator's side."""

    @abstractmethod
    def site(self, name: str, tables: Mapping[str, Any], ledger: Ledger | None) -> SiteSide:
        """Return a site's side; the whole schedule is reserved by then.

        Parameters
        ----------
        name
            The site.
        tables
            Name → a table of named columns, with ``"columns"`` saying what they are.
        ledger
            Who pays.
        """

    def shared(self, coordinator: Coordinator) -> dict[str, Any]:
        """Return what every site gets in the end."""
        return {}

    @abstractmethod
    def conclude(
        self, coordinator: Coordinator, record: RunRecord, certificates: Mapping[str, Certificate]
    ) -> Any:
        """Return the fitted estimator."""

    @abstractmethod
    def outcome(self) -> dict[str, Any]:
        """Return what was learned, as named arrays."""


def _estimator(kind: type, settings: Mapping[str, Any], more: Mapping[str, Any]) -> Any:
    """Build an estimator from public settings, refusing what a proposal must not set."""
    closed = {"privacy", "ledger", "random_state", "progress", "checkpoint", "noise",
              "on_failure", "calibration"}  # fmt: skip
    wrong = sorted(closed & set(settings))
    if wrong:
        raise ParameterError(f"a proposal does not set {wrong[0]!r}")
    try:
        return kind(**settings, **more)
    except TypeError as error:
        raise ParameterError(f"settings do not fit {kind.__name__}: {error}") from None


class Regression(Computation):
    """`PrivateLinearRegression`: one release per site."""

    inference_only = ("method", "chains", "draws", "warmup")

    def __init__(self, proposal: Proposal) -> None:
        super().__init__(proposal)
        settings = dict(proposal.settings)
        bounds = settings.get("bounds")
        if not isinstance(bounds, Mapping) or "target" not in settings:
            raise ParameterError("regression needs bounds = {feature: [low, high]} and a target")
        settings["bounds"] = {name: tuple(pair) for name, pair in bounds.items()}
        if isinstance(settings.get("y_bounds"), list):
            settings["y_bounds"] = tuple(settings["y_bounds"])
        self.model: PrivateLinearRegression = _estimator(
            PrivateLinearRegression, settings,
            {"privacy": proposal.guarantee(), "random_state": proposal.seed},
        )  # fmt: skip
        self.model.coordinator_side()  # refuses what makes no sense, on either side

    @property
    def rounds(self) -> int:
        """One."""
        return 1

    @property
    def bounds(self) -> Any:
        """Features' and response's ranges."""
        settings = self.proposal.settings
        return {**settings["bounds"], settings["target"]: settings.get("y_bounds")}

    def event(self) -> DpEvent:
        """One release."""
        return self.model.schedule()

    def coordinator(self) -> Collector:
        """Ask every site once."""
        return self.model.coordinator_side()

    def site(self, name: str, tables: Mapping[str, Any], ledger: Ledger | None) -> SiteSide:
        """Add up the rows of the one table."""
        if len(tables) != 1:
            raise ParameterError("regression takes one table: name one under [data]")
        (table,) = tables.values()
        return self.model.site_side(Site(name, table["table"], ledger), self.proposal.run)

    def conclude(
        self, coordinator: Coordinator, record: RunRecord, certificates: Mapping[str, Certificate]
    ) -> PrivateLinearRegression:
        """Infer the coefficients from all summaries."""
        assert isinstance(coordinator, Collector)
        summaries = [
            self.model.summary_of(name, reply, certificates[name])
            for name, reply in coordinator.replies_by_site.items()
        ]
        self.model.record_ = record
        return self.model.fit(summaries)

    def outcome(self) -> dict[str, Any]:
        """Coefficients, intercept and their standard deviations."""
        found = self.model
        return {"coef": found.coef_, "coef_sd": found.coef_sd_,
                "intercept": np.array([found.intercept_, found.intercept_sd_])}  # fmt: skip


_METHODS = {
    "als": AlternatingLeastSquares, "local": LocalCounts, "sgld": Langevin,
}  # fmt: skip


class Factorization(Computation):
    """`CoupledFactorization` over sites."""

    sums_only = True

    def __init__(self, proposal: Proposal) -> None:
        super().__init__(proposal)
        settings = dict(proposal.settings)
        self._entities = settings.pop("entities", {})
        members = settings.pop("members", 0)
        method = settings.pop("method", "auto")
        options = settings.pop("options", {})
        if options and method in _METHODS:
            try:
                method = _METHODS[method](**options)
            except TypeError as error:
                raise ParameterError(
                    f"options do not fit the method {method!r}: {error}"
                ) from None
        elif options:
            raise ParameterError(f"options go with a method, one of {sorted(_METHODS)}")
        self.model: CoupledFactorization = _estimator(
            CoupledFactorization, settings,
            {"method": method, "privacy": proposal.guarantee(), "random_state": proposal.seed},
        )  # fmt: skip
        self.model._over_sites = True
        self.problem = self._state(self.model.coupled_model(), int(members))
        if isinstance(self.model.method, str) and self.model.method == "local":
            raise ParameterError("pass options for method 'local'")
        self.model.coordinator_side(self.problem)

    def _modes(self, model: CoupledModel, relation: str, protected: str) -> list[str]:
        """Return the entities of a relation: what is protected or has public members."""
        names = [factor for factor, _ in model.forms[relation]]
        return [name for name in names if name == protected or name in self._entities]

    def _state(self, model: CoupledModel, members: int) -> Problem:
        """Return what is public, from the proposal alone."""
        protected = self.model.protected or next(iter(model.forms.values()))[0][0]
        if protected in self._entities:
            raise ParameterError(f"the members of {protected!r} are protected: do not list them")
        sizes, labels = {}, {}
        for entity, found in self._entities.items():
            sizes[entity] = found if isinstance(found, int) else len(found)
            if not isinstance(found, int):
                labels[entity] = tuple(found)
        data = []
        for k in range(len(self.proposal.sites)):
            relations = {}
            for name in model.forms:
                modes = self._modes(model, name, protected)
                shape = [(members if k == 0 else 0) if e == protected else sizes[e] for e in modes]
                # sizes and labels are all that is looked at
                relations[name] = Relation(
                    tuple(modes), tuple(shape), np.empty((0, len(modes)), np.int32), np.empty(0),
                    labels={e: labels[e] for e in modes if e in labels},
                )  # fmt: skip
            data.append(relations)
        settings = self.model
        return state_problem(
            model, data, bounds=settings.bounds, privacy=self.proposal.guarantee(),
            protected=protected, shared=settings.shared, accountant=settings.accountant,
        )  # fmt: skip

    @property
    def rounds(self) -> int:
        """As many as the method has, four exchanges each under secure aggregation."""
        return self.model.rounds_of(self.problem) * (1 if self.proposal.threshold is None else 4)

    @property
    def bounds(self) -> Any:
        """Each relation's range."""
        return {name: list(pair) for name, pair in self.problem.bounds.items()}

    def event(self) -> DpEvent:
        """The method's whole schedule."""
        return self.model.schedule()

    def coordinator(self) -> JointCoordinator:
        """Hold the shared factors."""
        return self.model.coordinator_side(self.problem)

    def site(self, name: str, tables: Mapping[str, Any], ledger: Ledger | None) -> SiteSide:
        """Turn tables into relations, one row per cell."""
        known = {e: f for e, f in self._entities.items() if not isinstance(f, int)}
        relations = {}
        for relation, found in tables.items():
            if relation not in self.problem.model.forms:
                raise ParameterError(f"the model has no relation {relation!r}")
            modes = self._modes(self.problem.model, relation, self.problem.protected)
            columns = {e: found["columns"].get(e, e) for e in modes}
            labels = {e: known[e] for e in modes if e in known}
            labels |= {
                e: range(self._entities[e])
                for e in modes
                if isinstance(self._entities.get(e), int)
            }
            relation_found = Relation.from_frame(
                found["table"], columns, found.get("value"), labels=labels
            )
            kept = {e: n for e, n in relation_found.labels.items()
                    if e in known or e == self.problem.protected}  # fmt: skip
            relations[relation] = Relation.from_cells(
                relation_found.entities, relation_found.indices, relation_found.values,
                shape=relation_found.shape, labels=kept,
            )  # fmt: skip
        return self.model.site_side(self.problem, Site(name, relations, ledger), self.proposal.run)

    def shared(self, coordinator: Coordinator) -> dict[str, Any]:
        """Return the shared factors."""
        assert isinstance(coordinator, JointCoordinator)
        return dict(coordinator.shared())

    def conclude(
        self, coordinator: Coordinator, record: RunRecord, certificates: Mapping[str, Certificate]
    ) -> CoupledFactorization:
        """Keep the shared factors with their certificates."""
        assert isinstance(coordinator, JointCoordinator)
        self.model.conclude(coordinator, record, certificates)
        return self.model

    def outcome(self) -> dict[str, Any]:
        """The shared factors."""
        return dict(self.model.shared_factors_)


class Spectral(Computation):
    """`SingleTopicModel` and `GaussianMixture`: moments of documents or rows."""

    sums_only = True
    inference_only = ("restarts", "iterations", "smoothing")
    kind: ClassVar[type[SpectralEstimator]]

    def __init__(self, proposal: Proposal) -> None:
        super().__init__(proposal)
        privacy = proposal.guarantee()
        secure = privacy is not None and privacy.trust == "aggregator"
        if secure != (proposal.threshold is not None):
            raise ParameterError(
                "trust = 'aggregator' goes with a threshold for secure aggregation, and only it"
            )
        self._columns = tuple(proposal.settings.get("columns", ()))
        settings = {k: v for k, v in proposal.settings.items() if k != "columns"}
        self.model: SpectralEstimator = _estimator(
            self.kind, settings, {"privacy": privacy, "random_state": proposal.seed}
        )
        self.coordinator()

    @property
    def _shares(self) -> int:
        return self.proposal.threshold or 1

    @property
    def rounds(self) -> int:
        """The most products it may take, and the third moment."""
        return (MOST_ROUNDS + 1) * (1 if self.proposal.threshold is None else 4)

    def event(self) -> DpEvent:
        """Second and third moments."""
        return self.model.schedule()

    def coordinator(self) -> Spectrum:
        """Look for the leading eigenvectors of the sum."""
        return self.model.coordinator_side(len(self.proposal.sites), self._shares)

    def site(self, name: str, tables: Mapping[str, Any], ledger: Ledger | None) -> SiteSide:
        """Read documents or rows from the one table."""
        if len(tables) != 1:
            raise ParameterError("one table is read: name it in the permission's tables")
        (found,) = tables.values()
        site = Site(name, self._data(found), ledger)
        return self.model.site_side(
            site, len(self.proposal.sites), self._shares, self.proposal.run
        )

    @abstractmethod
    def _data(self, found: Mapping[str, Any]) -> Any:
        """Return a table's content as the estimator takes it."""

    def conclude(
        self, coordinator: Coordinator, record: RunRecord, certificates: Mapping[str, Certificate]
    ) -> SpectralEstimator:
        """Learn the components."""
        assert isinstance(coordinator, Spectrum)
        self.model.conclude(coordinator, record, certificates)
        return self.model


class Topics(Spectral):
    """Documents, one row per document and word: columns ``document``, ``word``, ``count``."""

    kind = SingleTopicModel

    @property
    def bounds(self) -> Any:
        """The vocabulary."""
        return self.proposal.settings.get("vocabulary")

    def _data(self, found: Mapping[str, Any]) -> Any:
        from scipy.sparse import coo_array

        words = self.proposal.settings.get("vocabulary")
        names = {e: found["columns"].get(e, e) for e in ("document", "word")}
        cells = Relation.from_frame(
            found["table"], names, found.get("value"),
            labels={"word": range(words) if isinstance(words, int) else words or ()},
        )  # fmt: skip
        return coo_array((cells.values, tuple(cells.indices.T)), shape=cells.shape).tocsr()

    def outcome(self) -> dict[str, Any]:
        """Topics and their weights."""
        assert isinstance(self.model, SingleTopicModel)
        return {"topics": self.model.topics_, "weights": self.model.weights_}


class Mixture(Spectral):
    """Rows of numbers; ``columns`` names the features in their order."""

    kind = GaussianMixture

    @property
    def bounds(self) -> Any:
        """The radius about the centre."""
        return self.proposal.settings.get("radius")

    def _data(self, found: Mapping[str, Any]) -> Any:
        return np.column_stack(list(numeric_columns(found["table"], self._columns).values()))

    def outcome(self) -> dict[str, Any]:
        """Means, weights and the common variance."""
        assert isinstance(self.model, GaussianMixture)
        return {"means": self.model.means_, "weights": self.model.weights_,
                "variance": np.array([self.model.variance_])}  # fmt: skip


COMPUTATIONS: dict[str, type[Computation]] = {
    "factorization": Factorization,
    "mixture": Mixture,
    "regression": Regression,
    "topics": Topics,
}


def computation_of(proposal: Proposal) -> Computation:
    """Build the computation that is proposed, or say why it cannot be run."""
    if proposal.computation not in COMPUTATIONS:
        raise ParameterError(
            f"there is no computation {proposal.computation!r}: choose from {sorted(COMPUTATIONS)}"
        )
    try:
        return COMPUTATIONS[proposal.computation](proposal)
    except TacitError:
        raise
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise ParameterError(f"the settings cannot be used: {error}") from None
