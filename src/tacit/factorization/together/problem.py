"""`Problem`: what is public about a factorization over sites, whatever the method."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tacit._core.check import Range, check
from tacit.data.members import key
from tacit.data.relations import Relation
from tacit.errors import ParameterError, UnboundedData
from tacit.factorization.divergences import loss_name
from tacit.factorization.language.binding import restricted
from tacit.factorization.language.structure import BoundModel, CoupledModel
from tacit.privacy.events import ADD_REMOVE
from tacit.privacy.guarantee import Privacy

__all__ = [
    "ASSIGNED",
    "Problem",
    "check_agreement",
    "check_not_raw",
    "check_released",
    "members_in",
    "problem_of",
    "state_problem",
]


ASSIGNED = "assigned"
LEAST_WEIGHT = 1e-6  # below, somebody counts for nothing and no ε can be told from 0


@dataclass(frozen=True)
class Problem:
    """What is public about a factorization over sites."""

    model: CoupledModel
    protected: str  # whose members a guarantee is for (users, patients); its factor is private
    shared: tuple[str, ...]  # the factors that all sites learn together
    sizes: Mapping[str, int]  # entity → members, of all but the protected one
    bounds: Mapping[str, tuple[float, float]]  # relation → the public range of its values
    privacy: Privacy | None  # None runs the same computation without noise
    sites: int = 1
    members: int | None = None  # protected ones at all sites; public for entries only
    accountant: str = "pld"  # whose ε must meet the request
    labels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # where given
    public: Mapping[str, Relation] = field(default_factory=dict)  # sites hold the others
    # at most so many know one person (None: any may), or ASSIGNED: everybody counts at one
    sites_per_person: int | str | None = None
    duplicates: tuple[str, ...] = ()  # what sites do about cells that are listed several times
    names: tuple[str, ...] = ()  # of the sites, where they are known
    table: Privacy | None = None  # every site's ε, where this is what one site is bound by
    # cells of protected members who are no secret, by relation; the coordinator holds them
    open: Mapping[str, Relation] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)  # of members by name, below 1
    filled: tuple[str, ...] = ()  # private relations whose unlisted cells are observed zeros
    shares: int = 1  # into how many the noise is split under a secure sum

    @property
    def noisy(self) -> bool:
        """Whether noise is added at all."""
        asked = self.privacy
        return asked is not None and any(np.isfinite([asked.epsilon, *asked.by_site.values()]))

    @property
    def privacy_differs(self) -> bool:
        """Whether sites have an ε of their own."""
        return self.table is not None or (self.privacy is not None and bool(self.privacy.by_site))

    @property
    def is_assigned(self) -> bool:
        """Whether everybody counts at one site only, by a key that the sites share."""
        return self.sites_per_person == ASSIGNED

    @property
    def is_summed(self) -> bool:
        """Whether only sums over all sites are seen."""
        return self.privacy is not None and self.privacy.trust == "aggregator"

    @property
    def epsilons(self) -> tuple[float, ...]:
        """The ε of every site; of those without a name the one that all others have."""
        asked = self.table or self.privacy
        if asked is None:
            return (math.inf,) * self.sites
        named = self.names or tuple(asked.by_site)
        found = [asked.at(name).epsilon for name in named]
        return (*found, *[asked.epsilon] * (self.sites - len(named)))

    @property
    def calibrated(self) -> Privacy | None:
        """The request that noise is made for.

        A site's own; of all sites together the one with most noise, from which nothing but the
        range of replies follows. Under a secure sum the one with least: the others' contributions
        are scaled down instead.
        """
        asked = self.privacy
        if asked is None or (self.table is None and not asked.by_site):
            return asked
        finite = [epsilon for epsilon in self.epsilons if math.isfinite(epsilon)]
        if self.is_summed:
            return asked.with_epsilon(max(self.epsilons))
        return asked if self.table is not None else asked.with_epsilon(min(finite))

    def at(self, site: str) -> Problem:
        """Return what is public about one site's part; this where all have one ε."""
        asked = self.privacy
        if asked is None or not asked.by_site:
            return self
        return replace(self, privacy=asked.at(site), table=asked)

    @property
    def unit(self) -> str:
        """The unit of the guarantee; of the clipping where nothing is asked for."""
        return "user" if self.privacy is None else self.privacy.unit

    @property
    def neighbours(self) -> str:
        """The neighbour relation."""
        return ADD_REMOVE if self.privacy is None else str(self.privacy.neighbours)

    @property
    def is_matrix(self) -> bool:
        """Whether sites hold one matrix whose other factor is shared, beside public ones of it."""
        if len(self.bounds) != 1:
            return False
        tokens = self.model.forms[next(iter(self.bounds))]
        plain = len(tokens) == 2 and tokens[0][1] == tokens[1][1]
        return (
            plain
            and self.item in self.shared
            and all(
                len(self.model.forms[n]) == 2 and self.item in self.model.names(n)
                for n in self.public
            )
        )

    @property
    def item(self) -> str:
        """The entity beside the protected one in the first private relation."""
        names = self.model.names(next(iter(self.bounds)))
        return next(name for name in names if name != self.protected)

    @property
    def used(self) -> tuple[str, ...]:
        """The factors that private relations use."""
        return tuple(dict.fromkeys(f for name in self.bounds for f in self.model.names(name)))

    def columns(self, factor: str) -> int:
        """Return how many columns a factor has."""
        return math.prod(self.model.ranks[k] for k in self.model.latents[factor])

    def modes(self, relation: str) -> list[str]:
        """Return the entities of a relation in the order of its form; the others are cores."""
        names = self.model.names(relation)
        return [name for name in names if name == self.protected or name in self.sizes]

    def bound(self, relations: Mapping[str, Relation]) -> BoundModel:
        """Return the model with a site's sizes, restricted to the relations that it holds."""
        whole = set(relations) == set(self.model.forms)
        model = self.model if whole else restricted(self.model, relations)
        return model.bind(relations)


def state_problem(
    model: CoupledModel,
    data: Sequence[Mapping[str, Relation]],
    *,
    bounds: Any,
    privacy: Privacy | None,
    protected: str | None = None,
    shared: Sequence[str] | None = None,
    public: Mapping[str, Relation] | None = None,
    accountant: str = "pld",
    sites_per_person: int | str | None = None,
    duplicates: str = "error",
    weights: Mapping[Any, float] | None = None,
    shares: int = 1,
    names: tuple[str, ...] = (),
) -> Problem:
    """Return what is public about the sites' data, checked; of these, no value is read.

    Bounds are one pair for all private relations, or one each. Unless given, the protected entity
    is the first one of the first private relation's form, and all other factors are shared.
    """
    if model.repeated:
        raise ParameterError(
            f"relation {model.repeated[0]!r} names an entity more than once: what a unit changes "
            "would count in both modes, and no guarantee covers that. Name the second mode as "
            "an entity of its own, or use tacit.CoupledFactorization for the data of one holder"
        )
    odd = [name for name, power in model.powers.items() if power < 0.0]
    if odd:
        raise ParameterError(
            f"relation {odd[0]!r} has {loss_name(model.powers[odd[0]])}, which no private method "
            "learns: pass 'euclidean' or 'kl', or use tacit.CoupledFactorization for the data of "
            "one holder"
        )
    known, held = public or {}, {name for relations in data for name in relations}
    first = next(name for name in model.forms if name in held or name not in known)
    protected = protected or model.forms[first][0][0]
    # what is public of protected members stands beside what sites hold; the rest is about others
    opened = {n: found for n, found in known.items() if n in held and protected in found.entities}
    public = {n: found for n, found in known.items() if n not in opened}
    if protected not in model.latents:
        raise ParameterError(f"protected names {protected!r}, which is no entity of the model")
    noisy = privacy is not None and bool(np.isfinite(privacy.epsilon))
    sizes, labels = _members_of([*data, opened], protected, noisy)
    everything = tuple(name for name in model.latents if name != protected)
    chosen = everything if shared is None else tuple(shared)
    unknown = [name for name in chosen if name not in everything]
    if unknown:
        raise ParameterError(
            f"shared names {unknown[0]!r}: choose from {list(everything)}, all factors but that "
            f"of the protected entity {protected!r}"
        )
    members = None
    if privacy is not None and privacy.unit == "entry":  # who is observed is public then
        members = sum(members_in(relations, protected) for relations in data)
    return Problem(
        model,
        protected,
        chosen,
        sizes,
        _bounds(bounds, model, public),
        privacy,
        len(data),
        members,
        accountant,
        labels,
        public,
        sites_per_person,
        tuple(sorted({duplicates, *(r.duplicates for part in data for r in part.values())})),
        names,
        open=opened,
        weights=_weights(weights),
        filled=_filled([*data, opened]),
        shares=shares,
    )


def _members_of(
    data: Sequence[Mapping[str, Relation]], protected: str, noisy: bool
) -> tuple[dict[str, int], dict[str, tuple[Any, ...]]]:
    """Return how many members every entity has, and their names; all sites must agree."""
    sizes: dict[str, int] = {}
    labels: dict[str, tuple[Any, ...]] = {}
    for relations in data:
        for name, found in relations.items():
            for entity, size in zip(found.entities, found.shape, strict=True):
                if entity == protected:
                    continue
                if noisy and entity in found.unstated:
                    raise UnboundedData(
                        f"the members of {entity!r} must be stated, and are never read from "
                        f"private data: pass entities={{{entity!r}: […]}}, the public list of "
                        f"their names or how many there are (or labels or shape to the Relation)"
                    )
                if sizes.setdefault(entity, size) != size:
                    raise ParameterError(
                        f"sites disagree about {entity!r}: {sizes[entity]} and {size} members in "
                        f"{name!r}. Pass the public list of members as labels to every relation"
                    )
                listed = found.labels.get(entity)
                if listed is not None and labels.setdefault(entity, listed) != listed:
                    raise ParameterError(
                        f"sites list the members of {entity!r} differently: pass the same labels"
                    )
    return sizes, labels


def _filled(data: Sequence[Mapping[str, Relation]]) -> tuple[str, ...]:
    """Return the relations whose unlisted cells are observed zeros, at every site."""
    found: dict[str, str] = {}
    for relations in data:
        for name, relation in relations.items():
            if found.setdefault(name, relation.zeros) != relation.zeros:
                raise ParameterError(
                    f"unlisted cells of {name!r} are {found[name]} at one site and "
                    f"{relation.zeros} at another: pass the same zeros=… everywhere"
                )
    return tuple(name for name, zeros in found.items() if zeros == "observed")


def _weights(weights: Mapping[Any, float] | None) -> dict[str, float]:
    """Return public weights of members by the text of their names; of those that have not 1."""
    found = {key(name): float(weight) for name, weight in (weights or {}).items()}
    wrong = [name for name, weight in found.items() if not LEAST_WEIGHT <= weight <= 1.0]
    if wrong:
        raise ParameterError(
            f"weights must lie in (0, 1], and be at least {LEAST_WEIGHT:g}: that of {wrong[0]!r} "
            f"is {found[wrong[0]]:g}"
        )
    return {name: weight for name, weight in found.items() if weight < 1.0}


def problem_of(agreement: Any) -> Problem:
    """Return the problem that an agreement of this family is about."""
    return agreement.problem  # type: ignore[no-any-return]


def _bounds(
    bounds: Any, model: CoupledModel, public: Collection[str]
) -> dict[str, tuple[float, float]]:
    """Return the public range of every private relation."""
    found = {}
    for name in model.forms:
        if name in public:
            continue
        pair = bounds.get(name) if isinstance(bounds, Mapping) else bounds
        if pair is None:
            raise UnboundedData(
                "bounds must be given: pass bounds=(low, high), the range a value may take, or "
                f"{{{name!r}: (low, high), …}}"
            )
        pair = tuple(pair) if isinstance(pair, np.ndarray) else pair
        check(f"bounds of {name!r}", pair, Range())
        low, high = pair
        found[name] = (float(low), float(high))
    return found


def members_in(relations: Mapping[str, Relation], entity: str) -> int:
    """Return how many members of an entity the relations of one site have."""
    held = [found for found in relations.values() if entity in found.entities]
    return max((found.shape[found.entities.index(entity)] for found in held), default=0)


def check_agreement(problem: Problem, relations: Mapping[str, Relation]) -> None:
    """Raise where a site's relations disagree with what all sides take for public."""
    for relation, found in relations.items():
        if (found.zeros == "observed") != (relation in problem.filled):
            agreed = "observed" if relation in problem.filled else "missing"
            raise ParameterError(f"unlisted cells of {relation!r} must be {agreed} here")
        for entity, size in zip(found.entities, found.shape, strict=True):
            if entity == problem.protected:
                continue
            if problem.sizes.get(entity) != size:
                raise ParameterError(
                    f"{relation!r} has {size} members of {entity!r}, and all sides agreed on "
                    f"{problem.sizes.get(entity)}"
                )
            known = problem.labels.get(entity)
            if known is not None and found.labels.get(entity, known) != known:
                raise ParameterError(
                    f"the members of {entity!r} are listed differently from what all sides "
                    "agreed on"
                )


def check_not_raw(model: CoupledModel) -> None:
    """Raise where something that was read from raw data would decide what is released."""
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


def check_released(problem: Problem, shared: Mapping[str, Any]) -> None:
    """Raise unless what was released is about the members of a problem's entities."""
    for entity, size in problem.sizes.items():
        offset = shared.get(f"{entity} offset")
        if offset is not None and np.shape(offset) != (size,):
            raise ParameterError(
                f"what was released is not about the {size} members of {entity!r}: pass the "
                "labels of the fit"
            )
