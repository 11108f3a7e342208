"""`Problem`: what is public about a factorization over sites, whatever the method."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit._core.check import Range, check
from tacit.data.relations import Relation
from tacit.errors import ParameterError, UnboundedData
from tacit.factorization.language.binding import restricted
from tacit.factorization.language.structure import BoundModel, CoupledModel
from tacit.privacy.events import ADD_REMOVE
from tacit.privacy.guarantee import Privacy

__all__ = [
    "Problem",
    "check_agreement",
    "check_not_raw",
    "check_released",
    "members_in",
    "problem_of",
    "state_problem",
]


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
    sites_per_person: int | None = None  # at most so many know one person; None: any may
    duplicates: tuple[str, ...] = ()  # what sites do about cells that are listed several times

    @property
    def noisy(self) -> bool:
        """Whether noise is added at all."""
        return self.privacy is not None and bool(np.isfinite(self.privacy.epsilon))

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
    sites_per_person: int | None = None,
    duplicates: str = "error",
) -> Problem:
    """Return what is public about the sites' data, checked; of these, no value is read.

    Bounds are one pair for all private relations, or one each. Unless given, the protected entity
    is the first one of the first private relation's form, and all other factors are shared.
    """
    public = public or {}
    first = next(name for name in model.forms if name not in public)
    protected = protected or model.forms[first][0][0]
    if protected not in model.latents:
        raise ParameterError(f"protected names {protected!r}, which is no entity of the model")
    sizes: dict[str, int] = {}
    labels: dict[str, tuple[Any, ...]] = {}
    noisy = privacy is not None and bool(np.isfinite(privacy.epsilon))
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
                known = found.labels.get(entity)
                if known is not None and labels.setdefault(entity, known) != known:
                    raise ParameterError(
                        f"sites list the members of {entity!r} differently: pass the same labels"
                    )
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
        tuple(sorted({duplicates, *(r.duplicates for held in data for r in held.values())})),
    )


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
