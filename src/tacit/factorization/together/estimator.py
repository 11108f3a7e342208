"""`PrivateFactorization`: one holder or several sites learn factors together, privately."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

from tacit._core.answers import Answer
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf
from tacit.data.duplicates import RULES
from tacit.data.reading import Table
from tacit.data.relations import Relation
from tacit.data.shards import Shards
from tacit.data.written import read_names
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.executors import Loaded
from tacit.estimators.fit import Outcome
from tacit.estimators.parameters import stores_parameters
from tacit.estimators.price import Price, price_of
from tacit.estimators.release import Release
from tacit.estimators.site import Site
from tacit.factorization.answers import sites_answer
from tacit.factorization.arrays import Factors
from tacit.factorization.draws import estimates_of
from tacit.factorization.language.binding import as_relations, empty_relation, without_cells
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.simulation import simulated_error
from tacit.factorization.together import released
from tacit.factorization.together.blanks import TO_STATE
from tacit.factorization.together.methods import METHODS, choose_method, choose_trusted, method_of
from tacit.factorization.together.people_in_shards import (
    head_of_shards,
    joined_shards,
    members_together,
)
from tacit.factorization.together.predicting import answer, cell_schema
from tacit.factorization.together.problem import (
    ASSIGNED,
    Problem,
    check_agreement,
    check_not_raw,
    problem_of,
    state_problem,
)
from tacit.factorization.together.shape import FactorizationMethod, SiteFactors
from tacit.factorization.together.stated import Stated
from tacit.factorization.together.using import UsedAtSites, of_each
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.sides import Failure

__all__ = ["PrivateFactorization"]


_FEW_MEMBERS, _FEW_ITEMS = 4, 6  # of a holder that is only imagined


@stores_parameters
class PrivateFactorization(UsedAtSites):
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
    sites_per_person
        At how many sites one person is at most, where that is public; certificates state what
        that many sites release together, and that of all sites where nobody says. ``"assigned"``:
        everybody counts at one site only, which a key that the sites share decides (`Site.key`).
    weights
        Public privacy weights in (0, 1] of members of the protected entity, by name; others have
        1. Whoever has w is (w·μ)-private where others are μ-private (``"als"``, ``"offsets"``).
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

    _raw_parts: ClassVar[Mapping[str, tuple[str, str]]] = dict.fromkeys(
        ("parts_", "_held"), ("its sites' cells", "from_release(folder).adopt(site)")
    )
    _purpose = "coupled factorization"
    _takes_shards = True
    _told = released.TOLD
    _to_state = TO_STATE
    _stated_facts = ("members", "options", "public", "zeros")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "privacy": AnyOf(InstanceOf(Privacy), None),
        "method": AnyOf(OneOf("auto", *METHODS), InstanceOf(FactorizationMethod)),
        "protected": AnyOf(InstanceOf(str), None),
        "accountant": OneOf("pld", "rdp", "zcdp", "advanced"),
        "sites_per_person": AnyOf(Integer(1), OneOf(ASSIGNED), None),
        "weights": AnyOf(InstanceOf(Mapping), None),
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
    sites_per_person: int | str | None = None
    weights: Mapping[Any, float] | None = None
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
        if isinstance(data, Shards):
            return head_of_shards(data, self._relations, self._protected(self.coupled_model()))
        return without_cells(self._relations(data))

    def _as_sites(self, data: Any) -> list[Site]:
        """Return the sites; shards with each member of the protected entity in one of them."""
        return [replace(s, data=self._laid_out(s.data)) for s in super()._as_sites(data)]

    def _laid_out(self, shards: Any) -> Any:
        if not isinstance(shards, Shards):
            return shards
        model, method = self.coupled_model(), self._stated_method or choose_trusted(self.privacy)
        if method is not None and not method.parts:
            return joined_shards(shards, self._relations, self._protected(model))
        return members_together(shards, tuple(model.forms), self._protected(model))

    def _relations(self, data: Any) -> dict[str, Relation]:
        return as_relations(self.coupled_model(), data, self.entities, self.duplicates)

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> Agreement:
        first = facts[0]
        public = first.relations(self.coupled_model()) if isinstance(first, Stated) else {}
        return self._agree_on(facts, public, self._request(len(facts)), shares)

    def _agree_on(
        self,
        facts: Sequence[Any],
        public: Mapping[str, Relation],
        privacy: Privacy | None,
        shares: int = 1,
        names: tuple[str, ...] = (),
    ) -> Agreement:
        if any(found is None for found in facts):
            raise ParameterError("pass the sites: the price depends on their public sizes")
        model = self.coupled_model()
        if self.privacy is not None:
            check_not_raw(model)
        if isinstance(facts[0], Stated):
            facts = facts[0].facts(model, self._protected(model), len(facts))
        problem = state_problem(
            model,
            facts,
            bounds=self.bounds,
            privacy=privacy,
            protected=self.protected,
            shared=self.shared,
            public=public,
            accountant=self.accountant,
            sites_per_person=self.sites_per_person,
            duplicates=self.duplicates,
            weights=self.weights,
            shares=shares,
            names=names,
        )
        return self._method(problem).agree(problem)

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
        ``members`` (of the protected entity, where public), ``options`` of a ``method`` that is
        named, ``public`` (relation → its columns), which is no secret and costs nothing, and
        ``zeros`` (relation → ``"missing"`` or ``"observed"``: what cells are that are not listed).
        """
        found = dict(settings)
        public, zeros = found.pop("public", {}), found.pop("zeros", {})
        if not isinstance(zeros, Mapping) or set(zeros.values()) - {"missing", "observed"}:
            raise ParameterError(
                f"zeros must be by relation, 'missing' or 'observed', got {zeros}"
            )
        members = int(found.pop("members", 0))
        facts = Stated(found.get("entities") or {}, members, public, zeros)
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

    def price(
        self,
        sites: Sequence[Site] | Site | None = None,
        *,
        public: Mapping[str, Relation] | None = None,
    ) -> Price:
        """Return what `fit` would cost each site; no value is read and nothing changes.

        Parameters
        ----------
        sites
            The sites; the price depends on their public sizes.
        public
            As in `fit`.
        """
        if not public:
            return super().price(sites)
        self._check_parameters()
        holders = self._as_sites(sites)
        return price_of(self._agreed(holders, public), holders, self.privacy)

    def fit(
        self, data: Any, y: None = None, *, public: Mapping[str, Relation] | None = None
    ) -> Self:
        """Learn the shared factors together.

        Parameters
        ----------
        data
            A list of `Site`, each with relation name → `Relation`, a table with one row per cell,
            a wide frame of pandas, or an array in the order of the form (NaN for missing); for a
            single relation, just that. Or such data of one holder; or `Shards` of such.
        y
            Ignored.
        public
            Relations that are no secret, which the coordinator holds. Of a relation that names
            the protected entity and that sites hold: the cells of members who are no secret.
        """
        self._check_parameters()
        sites = self._as_sites(data)
        held = of_each(sites, self._read_once)
        sites = [replace(site, data=own) for site, own in zip(sites, held, strict=True)]
        self._keep(self._run(sites, self._agreed(sites, public)))
        return self

    def _agreed(
        self, sites: Sequence[Site], public: Mapping[str, Relation] | None = None
    ) -> Agreement:
        """Return the agreement with sites that are in this process."""
        privacy = self._request(len(sites))
        secure = privacy is not None and privacy.trust == "aggregator"
        names = tuple(site.name for site in sites)
        shares = len(sites) if secure else 1
        return self._agree_on(self._facts_of(sites), public or {}, privacy, shares, names)

    _facts_held = _facts

    def _facts_of(self, sites: Sequence[Site]) -> list[dict[str, Relation]]:
        return of_each(sites, self._facts)

    def _read_once(self, data: Any) -> Any:
        return data if isinstance(data, Shards) else self._relations(data)

    def _read(self, data: Any, agreement: Agreement) -> dict[str, Relation]:
        relations = self._relations(data)
        check_agreement(problem_of(agreement), relations)
        return relations

    def _load(
        self, sites: Sequence[Site], agreement: Agreement, exclude: bool
    ) -> tuple[dict[str, Any], list[Failure]]:
        loaded, failures = super()._load(sites, agreement, exclude)
        self._held = {name: own for name, own in loaded.items() if not isinstance(own, Loaded)}
        return loaded, failures

    def _conclude(self, outcome: Outcome) -> None:
        self.agreement_ = outcome.agreement
        problem = problem_of(outcome.agreement)
        self.method_, self.labels_ = self._method(problem), dict(problem.labels)
        self._about = released.fitted_settings(problem, self.method_)
        self.shared_ = outcome.agreement.shared(outcome.result)
        self._taken: Factors = self.shared_
        self.shared_factors_ = estimates_of(self.shared_)
        self.parts_, self._let_go = {}, ()
        for name in outcome.record.sites:  # they finish on their own, with the shared factors
            side = outcome.holders.get(name)
            if isinstance(side, SiteFactors) and side.is_elsewhere:
                self._let_go = (*self._let_go, name)
            elif isinstance(side, SiteFactors):
                side.finish(self.shared_)
                self.parts_[name] = side

    def _agreed_here(self, sites: Sequence[Site]) -> Agreement:
        """Return an agreement under which sites predict: nothing is asked or released."""
        known = vars(self).get("_about", {}).get("bounds", self.coupled_model().forms)
        public = {n: empty_relation((), ()) for n in self.coupled_model().forms if n not in known}
        asked = self._request(len(sites))
        if asked is None and hasattr(self, "certificate_") and self.certificate_.is_private:
            promised = self.certificate_
            asked = Privacy(1.0, 0.0, promised.unit, promised.neighbours, promised.trust)
        asked = None if asked is None else asked.with_epsilon(math.inf)
        return self._agree_on(self._facts_of(sites), public, asked)

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
        self.entities = {**found.get("sizes", {}), **self.labels_} or None
        self._taken, self.shared_factors_ = self.shared_, estimates_of(self.shared_)
