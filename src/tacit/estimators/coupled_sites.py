"""`OverSites`: how `CoupledFactorization` fits over sites, with or without a guarantee.

What is public is stated first (`tacit.estimators.joint`), every site's whole schedule is reserved
before anything is drawn, and the rounds run until the coordinator is done. With a checkpoint
folder a run that died is resumed: a site answers a repeated request with the bytes it paid for.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.errors import NotCertified, ParameterError
from tacit.estimators.base import Price, PrivateEstimator, SiteSide
from tacit.estimators.joint import (
    JointCoordinator,
    JointMethod,
    Problem,
    SitePart,
    check_agreement,
    site_relations,
    state_problem,
)
from tacit.estimators.joint_als import AlternatingLeastSquares
from tacit.estimators.joint_methods import METHODS, choose_method
from tacit.estimators.progress import progress_bar
from tacit.estimators.release import write_release
from tacit.estimators.site import Site
from tacit.mechanisms.noise import Noise
from tacit.models.structure import CoupledModel
from tacit.privacy.accounting import epsilon_of
from tacit.privacy.events import DpEvent
from tacit.privacy.guarantee import Certificate, Privacy
from tacit.rounds.checkpoint import Checkpoint, Outbox, Remembering, run_name
from tacit.rounds.inprocess import run
from tacit.rounds.protocol import Participant, RunRecord

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

__all__ = ["OverSites"]


class OverSites(PrivateEstimator, ABC):
    """The part of `CoupledFactorization` that fits over sites; see there."""

    privacy: Any
    method: Any
    bounds: Any
    protected: str | None
    shared: Sequence[str] | None
    calibration: str
    accountant: str
    on_failure: str
    checkpoint: str | os.PathLike[str] | None
    progress: bool
    random_state: Any
    _over_sites = False

    @abstractmethod
    def coupled_model(self) -> CoupledModel:
        """Return the model that the parameters describe."""

    # -- what is public -------------------------------------------------------------------

    def _stated(
        self, sites: Sequence[Site], public: Mapping[str, Relation]
    ) -> tuple[Problem, dict[str, dict[str, Relation]]]:
        """Return the problem and every site's relations."""
        model = self.coupled_model()
        data = {site.name: site_relations(model, site.name, site.data) for site in sites}
        problem = state_problem(
            model, list(data.values()), bounds=self.bounds, privacy=self.privacy,
            protected=self.protected, shared=self.shared, public=tuple(public),
            calibration=self.calibration, accountant=self.accountant,
        )  # fmt: skip
        self._joint_method(problem).check(problem)
        return problem, data

    def _joint_method(self, problem: Problem) -> JointMethod:
        if isinstance(self.method, JointMethod):
            return self.method
        if self.method == "auto":
            return choose_method(problem)
        return METHODS[self.method]()

    def schedule(self) -> DpEvent:
        """Return everything that one fit releases at one site."""
        problem: Problem | None = getattr(self, "problem_", None)
        if problem is None:
            raise NotCertified("the price depends on the sites' public sizes: call price(sites)")
        return self._joint_method(problem).schedule(problem)

    def _charged(self) -> Privacy | None:
        """Return the request; a published calibration costs what it really gives."""
        privacy: Privacy | None = self.privacy
        if self.calibration == "certified" or privacy is None:
            return privacy
        return privacy.with_epsilon(epsilon_of(self.schedule(), privacy.delta) * 1.001)

    def price(self, sites: Sequence[Site] | Site | None = None) -> Price:
        """Return what `fit` would cost each site; of the data only sizes are looked at.

        Parameters
        ----------
        sites
            The sites.
        """
        if sites is None:
            raise ParameterError("pass the sites: the price depends on their public sizes")
        self._check_parameters()
        self._over_sites = True
        holders = self._as_sites(sites)
        self.problem_, _ = self._stated(holders, {})
        return super().price(holders)

    # -- fitting --------------------------------------------------------------------------

    def _fit_sites(self, data: Any, public: Mapping[str, Relation]) -> None:
        sites = self._as_sites(data)
        problem, relations = self._stated(sites, public)
        self.problem_ = problem
        method = self._joint_method(problem)
        folder = None if self.checkpoint is None else Path(self.checkpoint)
        name = None if folder is None else run_name(folder)
        reservations = self._reserve(sites, "coupled factorization", name)
        sources = {site.name: self._noise("grid", site.name) for site in sites}
        parts = {
            site.name: self._part(
                site.name, relations[site.name], reservations[site.name], sources[site.name]
            )
            for site in sites
        }
        coordinator = self._coordinator(public)
        participants: list[Participant] = list(parts.values())
        if folder is not None:
            participants = [
                Remembering(part, Outbox(folder / "sites" / _file_name(name)))
                for name, part in parts.items()
            ]
        with progress_bar(self.progress, method.length(problem), "rounds") as advance:
            self.record_ = run(
                coordinator, participants, on_failure=self.on_failure,
                checkpoint=None if folder is None else Checkpoint(folder / "coordinator"),
                progress=lambda _: advance(1),
            )  # fmt: skip
        certificates = {
            site.name: self._part_certificate(site, reservations[site.name], sources[site.name])
            for site in sites
        }
        self.conclude(coordinator, self.record_, certificates)
        for name in self.record_.sites:  # they finish on their own, with the shared factors
            parts[name].finish(self.shared_factors_)
            self.parts_[name] = parts[name]

    def _part(
        self,
        name: str,
        relations: Mapping[str, Relation],
        reservation: Reservation | None,
        noise: Noise,
    ) -> SitePart:
        problem = self.problem_
        rng = generator(self.random_state, f"site {name}")
        return self._joint_method(problem).part(problem, name, relations, reservation, noise, rng)

    def _coordinator(self, public: Mapping[str, Relation]) -> JointCoordinator:
        rng = generator(self.random_state, "coordinator")
        return self._joint_method(self.problem_).coordinator(self.problem_, public, rng)

    def _part_certificate(
        self, site: Site, reservation: Reservation | None, noise: Noise
    ) -> Certificate:
        problem, method = self.problem_, self._joint_method(self.problem_)
        assumptions = _public_inputs(problem) + method.assumptions(problem)
        return self._certify(site, reservation, noise, assumptions, method.claim(problem))

    # -- sides in different places --------------------------------------------------------

    def coordinator_side(self, problem: Problem) -> JointCoordinator:
        """Return the coordinator of a fit whose sites are elsewhere; see `conclude`.

        Parameters
        ----------
        problem
            What is public, as all sides know it.
        """
        self._check_parameters()
        self._over_sites, self.problem_ = True, problem
        self._joint_method(problem).check(problem)
        return self._coordinator({})

    def site_side(self, problem: Problem, site: Site, run: str) -> SiteSide:
        """Reserve the whole schedule and return this site's side of a fit.

        Parameters
        ----------
        problem
            What is public, as all sides know it; the site's relations must agree with it.
        site
            The site's relations and its ledger.
        run
            The name of the run: taken up again under its name, it is not charged again.
        """
        self._check_parameters()
        self._over_sites, self.problem_ = True, problem
        self._joint_method(problem).check(problem)
        relations = site_relations(problem.model, site.name, site.data)
        check_agreement(problem, site.name, relations)
        reservation = self._reserve([site], "coupled factorization", run)[site.name]
        noise = self._noise("grid", site.name)
        part = self._part(site.name, relations, reservation, noise)
        return SiteSide(
            part, lambda: self._part_certificate(site, reservation, noise), part.finish
        )

    def rounds_of(self, problem: Problem) -> int:
        """Return how many rounds a fit has."""
        return self._joint_method(problem).length(problem)

    def conclude(
        self,
        coordinator: JointCoordinator,
        record: RunRecord,
        certificates: Mapping[str, Certificate],
    ) -> None:
        """Take in what the rounds gave, with every site's certificate.

        Parameters
        ----------
        coordinator, record, certificates
            After the last round.
        """
        problem, method = self.problem_, self._joint_method(self.problem_)
        self.shared_factors_ = coordinator.shared()
        self.parts_: dict[str, SitePart] = {}
        self.record_, self.failures_ = record, record.failures
        self.method_, self.budget_ = method, method.budget(problem)
        self.certificates_: dict[str, Certificate] = dict(certificates)
        self.certificate_: Certificate = max(
            self.certificates_.values(), key=lambda certificate: certificate.epsilon
        )

    # -- using it -------------------------------------------------------------------------

    def adopt(
        self, shared: Mapping[str, NDArray[np.float64]], sites: Sequence[Site] | Site
    ) -> Self:
        """Take in factors that were released earlier, to predict at sites, and return this.

        Nothing is released and nothing is charged: a site's members are fitted at the site, from
        its own cells and what is public by now. Members and cells may be new.

        Parameters
        ----------
        shared
            The arrays of a release (``read_release(folder).arrays``), by least squares.
        sites
            Who predicts.
        """
        self._check_parameters()
        self._over_sites = True
        holders = [sites] if isinstance(sites, Site) else list(sites)
        problem, relations = self._stated(holders, {})
        method = self._joint_method(problem)
        if not isinstance(method, AlternatingLeastSquares):
            raise ParameterError("factors are adopted by least squares only: method='als'")
        item = problem.shared[0]
        if np.shape(shared.get(f"{item} offset", 0.0)) != (problem.sizes[item],):
            raise ParameterError(
                f"what was released is not about the {problem.sizes[item]} members of {item!r}: "
                "pass the labels of the fit"
            )
        self.problem_ = problem
        self.parts_ = {
            site.name: method.part(
                problem, site.name, relations[site.name], None, Noise("grid"),
                generator(self.random_state, f"site {site.name}"),
            )
            for site in holders
        }  # fmt: skip
        for part in self.parts_.values():
            part.finish(shared)
        return self

    def _predict_at(self, site: str, cells: Any, relation: str | None) -> NDArray[np.float64]:
        """Return the expected values of cells of a site's relation."""
        if site not in self.parts_:
            raise ParameterError(f"there is no site {site!r}: the fit has {list(self.parts_)}")
        held = list(self.problem_.model.forms)
        if relation is None and len(held) > 1:
            raise ParameterError(f"pass relation=…, one of {held}")
        index = np.asarray(cells)
        if index.ndim != 2 or (index.size and not (index == np.floor(index)).all()):
            raise ParameterError("cells must be a table of whole numbers, one row per cell")
        return self.parts_[site].predict(relation or held[0], index.astype(np.int32))

    def release(self, folder: str | os.PathLike[str]) -> Path:
        """Write the shared factors with their certificates: arrays and JSON, never pickle.

        Parameters
        ----------
        folder
            Where to; created if need be.
        """
        if not hasattr(self, "shared_factors_"):
            raise NotCertified("there is nothing to release: fit over sites, with privacy=…")
        settings = {
            "model": {
                n: " ".join(f"{f}:{k}" for f, k in tokens)
                for n, tokens in self.problem_.model.forms.items()
            },
            "method": repr(self.method_),
            "bounds": {n: list(pair) for n, pair in self.problem_.bounds.items()},
            "calibration": self.calibration,
            # the public lists of members, which every site was given
            "labels": {
                e: [str(name) for name in names] for e, names in self.problem_.labels.items()
            },
        }
        return write_release(
            folder, type(self).__name__, self.shared_factors_, self.certificates_, settings
        )


def _public_inputs(problem: Problem) -> tuple[str, ...]:
    ranges = ", ".join(f"{n} in [{low:g}, {high:g}]" for n, (low, high) in problem.bounds.items())
    sizes = ", ".join(f"{size} of {entity}" for entity, size in problem.sizes.items())
    notes = [f"public bounds: {ranges} (values outside are clipped)", f"public sizes: {sizes}"]
    if problem.unit == "entry":
        notes.append("which cells are observed is public")
    if problem.sites > 1:
        notes.append(f"the sites hold different members of {problem.protected!r}")
    return tuple(notes)


def _file_name(site: str) -> str:
    """Return a folder name for a site, whatever its name holds."""
    return site.encode().hex()
