"""`Agreement`: what is public about a fit, agreed before any data is read.

An agreement is frozen and computed once per fit, from public facts alone. Its ordered *steps* are
what is charged and what draws: there is no second place that says what a fit costs. The price, the
event, the certificate's assumptions, the policy's page and the worst case of an audit follow from
it. Both sides of a federation build the same one from the same proposal and compare its `digest`
before anything is read.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import takewhile
from typing import Any, ClassVar, NamedTuple

from tacit._version import __version__
from tacit.errors import ParameterError, RequestRefused
from tacit.estimators.gate import Gate
from tacit.estimators.site import Site
from tacit.estimators.steps import Asked, Kind, Step
from tacit.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    compose,
)
from tacit.privacy.guarantee import Privacy
from tacit.rounds.sides import Collected, Participant

__all__ = ["Agreement", "Ask", "Asked", "Coordinating", "Kind", "Neighbours", "Start", "Step"]


class Ask:
    """What a coordinator's generator yields: a step to ask for, with what it needs.

    Parameters
    ----------
    step, kind
        The step's name, and which of its kinds where it has some.
    keep
        Arrays from which the generator can begin again with this very question: for runs with
        many rounds, whose totals are then not recorded one by one.
    arrays
        What the request holds, by name.
    """

    def __init__(
        self, step: str, kind: str = "", *, keep: Mapping[str, Any] | None = None, **arrays: Any
    ) -> None:
        self.step, self.kind, self.keep, self.arrays = step, kind, keep, arrays


class Start(NamedTuple):
    """What a coordinator starts from.

    Attributes
    ----------
    seed
        Of its own randomness; kept before the first message.
    state
        What the last ``Ask(…, keep=…)`` kept, on resuming; else None.
    """

    seed: int
    state: Mapping[str, Any] | None = None


class Neighbours(NamedTuple):
    """Two data sets that differ by one unit, and where they are held."""

    data: Any
    neighbour: Any


Coordinating = Generator[Ask, Collected, Any]


class Agreement(ABC):
    """Everything public about a fit; a family's own is a frozen dataclass.

    A child has the attributes ``privacy`` (what every site is asked to give, or None) and
    ``sites`` (how many there are).
    """

    family: ClassVar[str] = ""
    version: ClassVar[int] = 1
    source: str = "grid"  # of noise
    conditional: ClassVar[bool] = False  # built from data, as some papers do
    trusts: ClassVar[tuple[str, ...]] = ("central", "site")  # that its holders really give
    stoppable: ClassVar[bool] = False  # `coordinate` comes to an end where it hears None
    differs: ClassVar[bool] = False  # whether sites may have an ε of their own (`at`)

    privacy: Privacy | None
    sites: int

    # -- what a family says ----------------------------------------------------------------

    @abstractmethod
    def _steps(self) -> tuple[Step, ...]:
        """Return all steps in order."""

    @property
    @abstractmethod
    def assumptions(self) -> tuple[str, ...]:
        """Every public input and caveat, for certificates."""

    @abstractmethod
    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return a site's side; ``data`` is what the estimator read from the site's."""

    @abstractmethod
    def coordinate(self, start: Start) -> Coordinating:
        """Ask, and return what was learned: a generator that reads as the algorithm does."""

    @abstractmethod
    def worst_case(self) -> Neighbours:
        """Return neighbouring data, as `holder` takes them, at the edge of the bounds."""

    @classmethod
    @abstractmethod
    def examples(cls) -> Iterator[Agreement]:
        """Yield small agreements that together have every step; contracts attack them."""

    @property
    def cites(self) -> tuple[str, ...]:
        """Keys of what it builds on, for citations."""
        return ()

    def shared(self, result: Any) -> dict[str, Any]:
        """Return what every site gets in the end, of what `coordinate` returned."""
        return {}

    @property
    def claim(self) -> tuple[float, str] | None:
        """The ε that a paper claims and what the claim leaves out, where published."""
        return None

    @property
    def parts_of_price(self) -> tuple[str, ...]:
        """What of the price is for something that a caller may want to leave out, in words."""
        return ()

    @property
    def charged(self) -> Privacy | None:
        """What a ledger is charged: the request, unless the noise gives less than that."""
        return self.privacy

    @property
    def apart(self) -> bool:
        """Whether a coordinator looks at every site's own release."""
        privacy = self.privacy
        return privacy is not None and bool(privacy.by_site) and privacy.trust != "aggregator"

    def at(self, site: str) -> Agreement:
        """Return what one site is bound by: with an ε of its own, its own noise and price.

        The whole agreement is the coordinator's; its digest is what both sides compare.
        """
        return self

    def among(self, sites: Sequence[str]) -> Agreement:
        """Return it where the names of the sites are known, for those that need them."""
        return self

    @property
    def public_sites(self) -> tuple[str, ...]:
        """The sites whose data are public: they add no noise, pay nothing and promise nothing."""
        return () if self.privacy is None else self.privacy.public_sites

    def own_part(self, site: Site, data: Any) -> Any:
        """Return what of a holder's data counts towards what is released; all, unless said."""
        return data

    # -- what follows ----------------------------------------------------------------------

    @cached_property
    def steps(self) -> tuple[Step, ...]:
        """All steps in order."""
        if self.privacy is not None and self.privacy.trust not in self.trusts:
            raise ParameterError(
                f"privacy.trust must be {' or '.join(map(repr, self.trusts))} here, got "
                f"{self.privacy.trust!r}: this method does not give it"
            )
        if self.privacy is not None and self.privacy.by_site and not self.differs:
            raise ParameterError("privacy.by_site: here all sites have one ε")
        steps = self._steps()
        names = [step.name for step in steps]
        if len(set(names)) != len(names):
            raise ParameterError(f"steps must have distinct names, got {names}")
        for step in steps:
            if step.view_of is not None and step.view_of not in names[: names.index(step.name)]:
                raise ParameterError(f"step {step.name!r} views {step.view_of!r}, no earlier step")
        return steps

    def step(self, name: str) -> Step:
        """Return a step by its name."""
        for step in self.steps:
            if step.name == name:
                return step
        raise RequestRefused("there is no such step in this agreement", "order")

    @cached_property
    def event(self) -> DpEvent:
        """Everything that one site releases in a fit."""
        private = [step for step in self.steps if step.mechanism is not None]
        if any(isinstance(step.event, NonPrivateDpEvent) for step in private):
            return NonPrivateDpEvent()
        parts: dict[str, list[DpEvent]] = {}
        for step in private:
            if step.part is not None:
                parts.setdefault(step.part, []).append(step.event)
        events = [step.event for step in private if step.part is None]
        if parts:
            events.append(_dearest([compose(part) for part in parts.values()]))
        return compose(events) if events else NoOpDpEvent()

    @property
    def is_free(self) -> bool:
        """Whether there is nothing to charge: no noise at all, or nothing private."""
        return isinstance(self.event, NonPrivateDpEvent | NoOpDpEvent)

    @property
    def rounds(self) -> int:
        """How often a site is asked at most."""
        return sum(step.times for step in self.steps)

    @cached_property
    def largest_request(self) -> int | None:
        """The bytes of arrays in the longest request that may be asked; None if there is none."""
        most = 0
        for step in self.steps:
            for asks in [step.asks, *(kind.asks for kind in step.kinds.values())]:
                sizes = [spec.most_bytes for spec in asks.values()]
                if None in sizes:
                    return None
                most = max(most, sum(size for size in sizes if size is not None))
        return most

    @property
    def open_rounds(self) -> int:
        """How many rounds, at the beginning, carry what is public."""
        return sum(step.times for step in takewhile(lambda s: s.open is not None, self.steps))

    @property
    def opened(self) -> tuple[str, ...]:
        """What leaves a site as it is, in words."""
        return tuple(dict.fromkeys(step.open for step in self.steps if step.open))

    @cached_property
    def digest(self) -> str:
        """A digest that two sides compare before anything is read."""
        privacy = self.privacy
        content = {
            "family": self.family,
            "version": self.version,
            "kind": type(self).__name__,
            "tacit": __version__,
            "privacy": None if privacy is None else repr(privacy),
            "sites": self.sites,
            "steps": [step.described() for step in self.steps],
            "assumptions": list(self.assumptions),
        }
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _dearest(parts: list[DpEvent]) -> DpEvent:
    """Return what disjoint parts of the units cost together: as much as the dearest of them."""
    if all(part == parts[0] for part in parts):
        return parts[0]
    gaussians = [part for part in parts if isinstance(part, GaussianDpEvent)]
    if len(gaussians) == len(parts):
        return min(gaussians, key=lambda part: part.noise_multiplier)
    raise ParameterError("parts of the units must cost the same, or be Gaussians")
