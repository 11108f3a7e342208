"""`PrivateFactorization`: one holder or several sites learn factors together, privately."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Self

import numpy as np

from tacit._core.answers import Answer
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf
from tacit.data.duplicates import RULES
from tacit.data.members import Members, cells_of
from tacit.data.reading import Table
from tacit.data.relations import Relation
from tacit.data.written import read_names
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.features import NothingFitted, check_fitted
from tacit.estimators.fit import Outcome
from tacit.estimators.gate import Gate
from tacit.estimators.parameters import stores_parameters
from tacit.estimators.release import Release
from tacit.estimators.site import ALONE, Site
from tacit.factorization.answers import arviz_of, sites_answer, without_deviations
from tacit.factorization.arrays import Arrays, Factors, Floats
from tacit.factorization.language.binding import as_relations, without_cells
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.simulation import simulated_error
from tacit.factorization.together import released
from tacit.factorization.together.blanks import TO_STATE
from tacit.factorization.together.methods import METHODS, choose_method, method_of
from tacit.factorization.together.predicting import answer, cell_schema
from tacit.factorization.together.problem import (
    Problem,
    check_agreement,
    check_released,
    problem_of,
    state_problem,
)
from tacit.factorization.together.shape import FactorizationMethod, SiteFactors
from tacit.factorization.together.stated import Stated
from tacit.mechanisms.noise import Noise
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.sides import Failure

__all__ = ["PrivateFactorization"]


_FEW_MEMBERS, _FEW_ITEMS = 4, 6  # of a holder that is only imagined


@stores_parameters
class PrivateFactorization(PrivateEstimator):
    """Factorize matrices and tensors that share entities, over sites that do not share data.

    What is public is stated first, every site pays for the whole fit before anything is drawn,
    and whatever leaves a site has passed its gate. One holder with privacy is one site.

    Parameters
    ----------
    model
        The forms in the model language, ``{"visits": "user:k place:k", …}`` or one string, or a
        `CoupledModel` (then the next three are taken from it).
    rank, divergence, dispersion
        As in `CoupledModel`.
    entities
        Entity → its public members, by name or as their number. With a guarantee they are never
        read from the data, except for the protected entity's.
    duplicates
        What a cell is that a table lists several times, as in `Relation.from_cells`.
    bounds
        The public range (low, high) of the values, for all relations or one each. What lies
        outside is clipped, silently.
    method
        ``"auto"``, ``"offsets"``, ``"als"``, ``"sgld"`` or ``"local"``; or a class with settings
        of its own, such as `tacit.factorization.AlternatingLeastSquares`.
    protected
        The entity whose members are protected; the first one of the first form unless given.
    shared
        The factors that sites learn together; all but the protected entity's unless given.
    accountant
        Whose ε must meet the request (``"pld"``, ``"rdp"``, ``"zcdp"``, ``"advanced"``).
    privacy
        The guarantee that every site asks for; None runs the same rounds without noise.
    ledger
        The budget of a single holder; sites have their own.
    on_failure
        ``"stop"`` at a site's first failure, or ``"exclude"`` it.
    checkpoint
        A folder that records every round; a run that died goes on from there.
    progress
        Whether a progress bar is shown.
    random_state
        A seed of inference and noise, for tests and tables; a certificate then says so.

    Attributes
    ----------
    shared_factors_
        What was learned together, factor → array; `factors` has the names of its rows.
    parts_
        Site → its side, which predicts there.
    method_, agreement_, labels_
        What ``"auto"`` took, what was agreed on, and the public names of members by entity.
    certificates_, certificate_, record_, failures_
        The certificate of each site and the weakest of them, and what happened in the rounds.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> ratings = [np.clip(rng.normal(3, 1, (50, 8)).round(), 1, 5) for _ in range(2)]
    >>> asked = Privacy(2.0, 1e-5, unit="user", trust="site")
    >>> model = PrivateFactorization("user:k item:k", rank=2, bounds=(1, 5), privacy=asked)
    >>> model = model.set_params(method="sgld")
    >>> model = model.fit([Site("north", ratings[0]), Site("south", ratings[1])])
    >>> model.shared_factors_["item"].shape, model.predict("south", [[0, 3]]).shape
    ((8, 2), (1,))
    """

    _raw_parts: ClassVar[Mapping[str, tuple[str, str]]] = {
        "parts_": ("its sites' cells", "from_release(folder).adopt(site)")
    }
    _purpose = "coupled factorization"
    _told = released.TOLD
    _to_state = TO_STATE
    _stated_facts = ("members", "options")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "privacy": AnyOf(InstanceOf(Privacy), None),
        "method": AnyOf(OneOf("auto", *METHODS), InstanceOf(FactorizationMethod)),
        "protected": AnyOf(InstanceOf(str), None),
        "accountant": OneOf("pld", "rdp", "zcdp", "advanced"),
        "ledger": AnyOf(InstanceOf(Ledger), None),
        "entities": AnyOf(InstanceOf(Mapping), None),
        "duplicates": OneOf(*RULES),
        "on_failure": OneOf("stop", "exclude"),
        "progress": OneOf(True, False),
        "random_state": AnyOf(Integer(0), None),
    }

    model: Any = "row:k column:k"
    _: KW_ONLY
    rank: Any = 5
    divergence: Any = "euclidean"
    dispersion: Any = 1.0
    entities: Mapping[str, Any] | None = None
    duplicates: str = "error"
    bounds: Any = None
    method: str | FactorizationMethod = "auto"
    protected: str | None = None
    shared: Sequence[str] | None = None
    accountant: str = "pld"
    privacy: Privacy | None = None
    ledger: Ledger | None = None
    on_failure: str = "stop"
    checkpoint: str | os.PathLike[str] | None = None
    progress: bool = False
    random_state: int | None = None

    def coupled_model(self) -> CoupledModel:
        """Return the model that the parameters describe."""
        if isinstance(self.model, CoupledModel):
            return self.model
        return CoupledModel(self.model, self.rank, self.divergence, self.dispersion)

    # -- what is public --------------------------------------------------------------------

    def _facts(self, data: Any) -> dict[str, Relation]:
        """Return a site's relations without their cells: entities, sizes and labels."""
        return without_cells(self._relations(data))

    def _relations(self, data: Any) -> dict[str, Relation]:
        return as_relations(self.coupled_model(), data, self.entities, self.duplicates)

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> Agreement:
        return self._agree_on(facts, {})

    def _agree_on(self, facts: Sequence[Any], public: Mapping[str, Relation]) -> Agreement:
        if any(found is None for found in facts):
            raise ParameterError("pass the sites: the price depends on their public sizes")
        model = self.coupled_model()
        self._check_not_raw(model)
        if isinstance(facts[0], Stated):
            facts = facts[0].facts(model, self._protected(model), len(facts))
        problem = state_problem(
            model,
            facts,
            bounds=self.bounds,
            privacy=self._request(len(facts)),
            protected=self.protected,
            shared=self.shared,
            public=public,
            accountant=self.accountant,
            duplicates=self.duplicates,
        )
        return self._method(problem).agree(problem)

    def _check_not_raw(self, model: CoupledModel) -> None:
        """Raise where something that was read from raw data would decide what is released."""
        if self.privacy is None:
            return
        if model.estimated:
            raise ParameterError(
                f"the dispersion of {model.estimated[0]!r} was estimated from raw data, and a "
                "clip follows from it: state it, as in CoupledModel(…, dispersion=1.0)"
            )
        if model.open:
            raise ParameterError(
                f"the dispersion of {model.open[0]!r} must be stated: with privacy it is not "
                "estimated from data"
            )

    @property
    def _stated_method(self) -> FactorizationMethod | None:
        """The method, unless it is chosen by what is public about the sites."""
        if isinstance(self.method, FactorizationMethod):
            return self.method
        return None if self.method == "auto" else method_of(self.method)

    @property
    def _default_unit(self) -> str:
        method = self._stated_method
        return "user" if method is None else method.unit

    @property
    def _default_neighbours(self) -> str | None:  # type: ignore[override]
        method = self._stated_method
        return None if method is None else method.relation

    @property
    def _default_trusts(self) -> tuple[str, ...]:
        method = self._stated_method
        return () if method is None else method.trusts

    def _method(self, problem: Problem) -> FactorizationMethod:
        return self._stated_method or choose_method(problem)

    def _protected(self, model: CoupledModel) -> str:
        return self.protected or next(iter(model.forms.values()))[0][0]

    def _imagined(self) -> Stated:
        model = self.coupled_model()
        protected = self._protected(model)
        public = [e for e, ks in model.latents.items() if len(ks) == 1 and e != protected]
        return Stated(dict.fromkeys(public, _FEW_ITEMS), _FEW_MEMBERS)

    @classmethod
    def _stated(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], Stated]:
        """Return the parameters and facts of a file or a proposal.

        Beside parameters it has ``entities`` (entity → its members' names, or how many),
        ``members`` (of the protected entity, where public) and ``options`` of a ``method`` that is
        named.
        """
        found = dict(settings)
        facts = Stated(found.get("entities") or {}, int(found.pop("members", 0)))
        options = found.pop("options", {})
        if options and found.get("method", "auto") not in METHODS:
            raise ParameterError(f"options go with a method, one of {sorted(METHODS)}")
        if options:
            found["method"] = method_of(found["method"], options)
        return found, facts

    def _tables(self, tables: Mapping[str, Any], facts: Any) -> dict[str, Relation]:
        """Return a site's tables as relations, one row per cell.

        The one table of a model with one relation may have any name.
        """
        model = self.coupled_model()
        assert isinstance(facts, Stated)
        if len(tables) == len(model.forms) == 1:
            tables = dict(zip(model.forms, tables.values(), strict=True))
        return facts.read(tables, model, self._protected(model), self.duplicates)

    # -- fitting ---------------------------------------------------------------------------

    def fit(
        self, data: Any, y: None = None, *, public: Mapping[str, Relation] | None = None
    ) -> Self:
        """Learn the shared factors together.

        Parameters
        ----------
        data
            A list of `Site`, each with relation name → `Relation`, a table with one row per cell,
            a wide frame of pandas, or an array in the order of the form (NaN for missing); for a
            single relation, just that. Or such data of one holder.
        y
            Ignored.
        public
            Relations that are no secret, which the coordinator holds.
        """
        self._check_parameters()
        sites = self._as_sites(data)
        self._keep(self._run(sites, self._agreed(sites, public)))
        return self

    def _agreed(
        self, sites: Sequence[Site], public: Mapping[str, Relation] | None = None
    ) -> Agreement:
        """Return the agreement with sites that are in this process."""
        facts = []
        for site in sites:
            try:
                facts.append(self._facts(site.data))
            except ParameterError as error:
                where = "" if site.name == ALONE else f"site {site.name!r}: "
                raise ParameterError(f"{where}{error}") from None
        return self._agree_on(facts, public or {})

    def _read(self, data: Any, agreement: Agreement) -> dict[str, Relation]:
        relations = self._relations(data)
        check_agreement(problem_of(agreement), relations)
        return relations

    def _load(
        self, sites: Sequence[Site], agreement: Agreement, exclude: bool
    ) -> tuple[dict[str, Any], list[Failure]]:
        loaded, failures = super()._load(sites, agreement, exclude)
        self._held = {name: without_cells(relations) for name, relations in loaded.items()}
        return loaded, failures

    def _conclude(self, outcome: Outcome) -> None:
        self.agreement_ = outcome.agreement
        problem = problem_of(outcome.agreement)
        self.method_, self.labels_ = self._method(problem), dict(problem.labels)
        self._about = released.fitted_settings(problem, self.method_)
        self.shared_ = outcome.agreement.shared(outcome.result)
        self.shared_factors_ = without_deviations(self.shared_)
        self.draws_: Arrays = dict(getattr(outcome.result, "draws", {}))
        self.parts_ = {}
        for name in outcome.record.sites:  # they finish on their own, with the shared factors
            side = outcome.holders.get(name)
            if isinstance(side, SiteFactors):
                side.finish(self.shared_)
                self.parts_[name] = side

    # -- using it --------------------------------------------------------------------------

    def adopt(self, sites: Sequence[Site] | Site, shared: Factors | None = None) -> Self:
        """Take in factors that were released earlier, to predict at sites, and return this.

        Nothing is released and nothing is charged: a site's members are fitted at the site, from
        its own cells and what is public by now. Members and cells may be new.

        Parameters
        ----------
        sites
            Who predicts.
        shared
            The arrays of a release (``read_release(folder).arrays``); those of this fit or
            release unless given.
        """
        self._check_parameters()
        found = getattr(self, "shared_", None) if shared is None else shared
        if found is None:
            raise NothingFitted("there is nothing to adopt: call fit, from_release or pass shared")
        holders = [sites] if isinstance(sites, Site) else list(sites)
        agreement = self._agreed(holders)
        check_released(problem_of(agreement), found)
        self.agreement_, self.parts_, self._held = agreement, {}, {}
        for site in holders:
            data, gate = self._read(site.data, agreement), Gate(None, Noise("grid"))
            self._held[site.name] = without_cells(data)
            side = agreement.holder(site.name, data, gate, self.random_state)
            assert isinstance(side, SiteFactors)
            side.adopt(found)
            self.parts_[site.name] = side
        return self

    def predict(
        self, site: str, cells: Any, relation: str | None = None, *, positions: bool = False
    ) -> Floats:
        """Return the expected values of cells of a site's relation.

        Parameters
        ----------
        site
            Where: predictions are the site's own, and are no release.
        cells
            A table with a column for each entity, in any order; or rows of members in the order
            of the form, (cells, modes). Members go by their names, where the data had any.
        relation
            Which one, where there are several.
        positions
            Whether members are given by position all the same.
        """
        if not getattr(self, "parts_", None):
            raise NothingFitted("there is no site to predict at: call fit, or adopt")
        if site not in self.parts_:
            raise ParameterError(f"there is no site {site!r}: the fit has {list(self.parts_)}")
        forms, held = list(self.coupled_model().forms), self._held[site]
        if relation is None and len(forms) > 1:
            raise ParameterError(f"pass relation=…, one of {forms}")
        name = relation or forms[0]
        if name not in held:
            raise ParameterError(f"site {site!r} has no relation {name!r}: it has {list(held)}")
        own, names = held[name], self.coupled_model().names(name)
        modes = [entity for entity in names if entity in own.entities]
        members = [own.members(entity) for entity in modes]
        index = cells_of(cells, members, own.columns, positions=positions).astype(np.int32)
        order = self.parts_[site].modes(name) or own.entities
        return self.parts_[site].predict(name, index[:, [modes.index(one) for one in order]])

    def factors(self, entity: str) -> dict[Any, Floats]:
        """Return the shared factor of an entity: member → its row; or its number without names."""
        check_fitted(self, "shared_")
        rows = self.shared_.get(entity)
        if rows is None:
            raise ParameterError(f"there is no shared factor {entity!r}: {list(self.shared_)}")
        return Members(entity, len(rows), self.labels_.get(entity)).named(rows)

    def to_arviz(self) -> Any:
        """Return draws of shared factors, of ``method="local"``, as ArviZ ``InferenceData``."""
        check_fitted(self, "shared_")
        return arviz_of(vars(self).get("draws_", {}))

    def _found(self, level: float) -> Answer:
        return sites_answer(self, level)

    def _predict_table(
        self, table: Table, data: Any = None, interval: float | None = None
    ) -> dict[str, list[Any]]:
        return answer(self, table, data)

    def _row_schema(self) -> dict[str, dict[str, Any]]:
        return cell_schema(self._about)

    _simulate = classmethod(simulated_error)

    # -- releases --------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        return dict(self._about)

    def _dimensions(self) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
        return released.dimensions_of(self.shared_, self.labels_)

    def _adopt(self, release: Release) -> None:
        found = self._about = release.settings
        PrivateFactorization.__init__(self, **released.fitted_parameters(found))
        self.labels_ = {entity: read_names(names) for entity, names in found["labels"].items()}
        self.entities = self.labels_ or None
        self.shared_factors_ = without_deviations(self.shared_)
