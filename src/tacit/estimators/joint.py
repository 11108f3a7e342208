"""A factorization over sites: what is public about it, and what a method has to provide.

Every method over sites is two small pieces that exchange named arrays in rounds
(`tacit.rounds`): a `SitePart`, which holds a site's relations and its private factors, and a
`Coordinator`, which holds the shared factors. Whatever a part sends has passed the gate at the
site. `JointMethod` makes both from what is public, and says beforehand what they release.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.relations import Relation
from tacit.errors import ParameterError, UnboundedData
from tacit.models.binding import as_relations
from tacit.models.structure import BoundModel, CoupledModel
from tacit.privacy.events import DpEvent
from tacit.privacy.guarantee import Privacy
from tacit.rounds.protocol import Coordinator, Participant

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

    Arrays = dict[str, NDArray[np.float64]]

__all__ = [
    "JointCoordinator",
    "JointMethod",
    "Problem",
    "SitePart",
    "check_agreement",
    "site_relations",
    "state_problem",
]


@dataclass(frozen=True)
class Problem:
    """What is public about a factorization over sites.

    Attributes
    ----------
    model
        The forms, ranks, divergences and dispersions.
    protected
        The entity whose members a guarantee is for (users, patients); its factor is private.
    shared
        The factors that all sites learn together.
    sizes
        Entity → members, of all entities but the protected one, whose members belong to sites.
    bounds
        Relation → the public range of its values.
    privacy
        What every site asks for; None runs the same computation without noise.
    sites
        How many sites take part.
    members
        How many members of the protected entity all sites have; public for entries only, else
        None.
    calibration, accountant
        ``"certified"`` or ``"published"``, and whose ε must meet the request.
    labels
        Entity → names of its members, where given.
    """

    model: CoupledModel
    protected: str
    shared: tuple[str, ...]
    sizes: Mapping[str, int]
    bounds: Mapping[str, tuple[float, float]]
    privacy: Privacy | None
    sites: int = 1
    members: int | None = None
    calibration: str = "certified"
    accountant: str = "pld"
    labels: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @property
    def noisy(self) -> bool:
        """Whether noise is added at all."""
        return self.privacy is not None and bool(np.isfinite(self.privacy.epsilon))

    @property
    def unit(self) -> str:
        """The unit of the guarantee; of the clipping where nothing is asked for."""
        return "user" if self.privacy is None else self.privacy.unit

    def bound(self, relations: Mapping[str, Relation]) -> BoundModel:
        """Return the model with a site's sizes, restricted to the relations that it holds."""
        model = self.model
        if set(relations) != set(model.forms):
            forms = {n: " ".join(f"{f}:{k}" for f, k in model.forms[n]) for n in relations}
            model = CoupledModel(
                forms, model.ranks, {n: model.powers[n] for n in relations},
                {n: model.dispersions[n] for n in relations},
            )  # fmt: skip
        return model.bind(relations)


class SitePart(Participant):
    """A site's part: answers with what passed the gate, and predicts at the site."""

    @abstractmethod
    def finish(self, shared: Mapping[str, NDArray[np.float64]]) -> None:
        """Take in the final shared factors; what is derived from them here never leaves."""

    @abstractmethod
    def predict(self, relation: str, cells: NDArray[np.int32]) -> NDArray[np.float64]:
        """Return the expected values of a relation's cells, from all that the site knows."""


class JointCoordinator(Coordinator):
    """A coordinator that ends with shared factors."""

    @abstractmethod
    def shared(self) -> Arrays:
        """Return what was learned together: all of it was released, or derived from releases."""


class JointMethod(ABC):
    """A way to factorize over sites; a frozen dataclass of its public settings."""

    @abstractmethod
    def check(self, problem: Problem) -> None:
        """Raise where the method cannot solve the problem as it is stated."""

    @abstractmethod
    def schedule(self, problem: Problem) -> DpEvent:
        """Return everything that one site releases in a fit."""

    @abstractmethod
    def length(self, problem: Problem) -> int:
        """Return how many rounds a fit has."""

    @abstractmethod
    def coordinator(
        self, problem: Problem, public: Mapping[str, Relation], rng: np.random.Generator
    ) -> JointCoordinator:
        """Return the coordinator; ``public`` holds relations that are no secret."""

    @abstractmethod
    def part(
        self,
        problem: Problem,
        name: str,
        relations: Mapping[str, Relation],
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> SitePart:
        """Return a site's part."""

    def assumptions(self, problem: Problem) -> tuple[str, ...]:
        """Return what a certificate has to list besides the bounds and sizes."""
        return ()

    def budget(self, problem: Problem) -> dict[str, float]:
        """Return how a release is split between named parts, as shares of μ² (one part: 1)."""
        return {}

    def claim(self, problem: Problem) -> tuple[float, str] | None:
        """Return the ε that a paper claims and what the claim leaves out, where published."""
        return None


def state_problem(
    model: CoupledModel,
    data: Sequence[Mapping[str, Relation]],
    *,
    bounds: Any,
    privacy: Privacy | None,
    protected: str | None = None,
    shared: Sequence[str] | None = None,
    public: Sequence[str] = (),
    calibration: str = "certified",
    accountant: str = "pld",
) -> Problem:
    """Return what is public about the sites' data, checked; no value is read.

    Parameters
    ----------
    model
        The model of all relations, public ones included.
    data
        Each site's relations; only entities, sizes and labels are looked at.
    bounds
        (low, high) for all relations, or relation → (low, high).
    privacy, calibration, accountant
        As in `Problem`.
    protected
        The protected entity; the first one named in the first relation's form unless given.
    shared
        The factors to share; unless given, those of every other entity, and cores.
    public
        The relations that are public; they need no bounds.
    """
    first = next(name for name in model.forms if name not in public)
    protected = protected or model.forms[first][0][0]
    names = {factor for tokens in model.forms.values() for factor, _ in tokens}
    if protected not in names:
        raise ParameterError(f"protected names {protected!r}, which is no entity of the model")
    sizes: dict[str, int] = {}
    labels: dict[str, tuple[Any, ...]] = {}
    for relations in data:
        for name, found in relations.items():
            for entity, size in zip(found.entities, found.shape, strict=True):
                if entity == protected:
                    continue
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
    everything = tuple(dict.fromkeys(
        factor for tokens in model.forms.values() for factor, _ in tokens if factor != protected
    ))  # fmt: skip
    chosen = everything if shared is None else tuple(shared)
    unknown = [name for name in chosen if name not in everything]
    if unknown:
        raise ParameterError(
            f"shared names {unknown[0]!r}: choose from {list(everything)}, all factors but that "
            f"of the protected entity {protected!r}"
        )
    members = None
    if privacy is not None and privacy.unit == "entry":  # who is observed is public then
        members = sum(
            max((f.shape[f.entities.index(protected)] for f in relations.values()
                 if protected in f.entities), default=0)
            for relations in data
        )  # fmt: skip
    return Problem(
        model, protected, chosen, sizes, _bounds(bounds, model, public), privacy, len(data),
        members, calibration, accountant, labels,
    )  # fmt: skip


def _bounds(
    bounds: Any, model: CoupledModel, public: Sequence[str]
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
        try:
            low, high = (float(part) for part in pair)
        except (TypeError, ValueError):
            low, high = 0.0, 0.0
        if not (np.isfinite(low) and np.isfinite(high) and low < high):
            raise ParameterError(f"bounds of {name!r} must be (low, high), low < high: {pair!r}")
        found[name] = (low, high)
    return found


def site_relations(model: CoupledModel, name: str, data: Any) -> dict[str, Relation]:
    """Return a site's data as relations of the model."""
    try:
        found = as_relations(model, data)
    except ParameterError as error:
        raise ParameterError(f"site {name!r}: {error}") from None
    unknown = [relation for relation in found if relation not in model.forms]
    if unknown:
        raise ParameterError(f"site {name!r}: the model has no relation {unknown[0]!r}")
    return found


def check_agreement(problem: Problem, name: str, relations: Mapping[str, Relation]) -> None:
    """Raise where a site's relations disagree with what all sides take for public."""
    for relation, found in relations.items():
        for entity, size in zip(found.entities, found.shape, strict=True):
            if entity == problem.protected:
                continue
            if problem.sizes.get(entity) != size:
                raise ParameterError(
                    f"site {name!r}: {relation!r} has {size} members of {entity!r}, and all sides "
                    f"agreed on {problem.sizes.get(entity)}"
                )
            known = problem.labels.get(entity)
            if known is not None and found.labels.get(entity, known) != known:
                raise ParameterError(
                    f"site {name!r} lists the members of {entity!r} differently from what all "
                    "sides agreed on"
                )
