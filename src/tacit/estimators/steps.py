"""`Step`: one thing that may be asked of a site, what it may hold, what it costs, what leaves."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from tacit._core.check import AnyOf, Integer, OneOf, Text, check
from tacit.errors import ParameterError, RequestRefused
from tacit.mechanisms.base import Mechanism
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import (
    ApproximateDpEvent,
    DpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    repeat,
)
from tacit.rounds.messages import ArraySpec, Message, check_arrays

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Asked", "Kind", "Step"]

MERGES = ("sum", "stack", "values")
_MOST_UNITS = 2.0**40  # that one site holds: more than there are people
_NOISE = 2.0**12  # no draw is so many scales away
_LARGEST = 2.0**62  # of any number: whole numbers are summed as 64-bit integers
_ROOM = 1.0 + 1e-9  # between a kind's sensitivity and its mechanism's: the rounding of products


@dataclass(frozen=True)
class Kind:
    """One of the alternatives that a step may be asked for.

    Attributes
    ----------
    asks
        What a request of this kind holds.
    sensitivity
        How far one neighbour moves the sum, in the mechanism's norm and for its relation; a
        mechanism of its own says that itself.
    reach
        As in `Step`.
    mechanism, merge
        Its own, where a later part of the units may choose among mechanisms that cost no more
        than the step; else the step's.
    """

    asks: Mapping[str, ArraySpec]
    sensitivity: float = 0.0
    reach: float | str = 1.0
    mechanism: Mechanism | None = None
    merge: str | None = None

    def __post_init__(self) -> None:
        check("merge", self.merge, AnyOf(OneOf(*MERGES), None))


@dataclass(frozen=True)
class Step:
    """One thing that may be asked of a site: what it may hold, what it costs, what leaves.

    Parameters
    ----------
    name
        Its name, distinct among the steps of an agreement.
    mechanism
        What the gate draws with. None where nothing private leaves: for an ``open`` step, and for
        another look at an earlier release.
    asks, replies
        The arrays of a request and of its reply. A named size that stands in both is the same.
    times
        Asked at most so often in a row.
    kinds
        Alternatives; a request names one. None may move the sum further than the mechanism's
        sensitivity, or cost more than the step where it has a mechanism of its own.
    optional
        May be skipped; charged all the same.
    part
        The part of the units that it is about. Disjoint parts are charged by the dearest.
    merge
        How the shards' contributions become one value: ``"sum"``, ``"stack"`` (one answer per
        unit, in the order of units) or ``"values"`` (sorted inside the holder).
    open
        What leaves as it is, in words, where the step is public.
    view_of
        The step whose release this is another look at: free, the same noise.
    sent
        Which of the replies leave; the rest is the site's own released state. All unless given.
    cost
        What one draw is charged, where that is not the mechanism's own event: an (ε, δ) that the
        mechanism and those of all kinds meet.
    reach
        The share of the sensitivity that the agreement's worst case reaches, or why it is less
        than 0.99.
    """

    name: str
    mechanism: Mechanism | None = None
    asks: Mapping[str, ArraySpec] = field(default_factory=dict)
    replies: Mapping[str, ArraySpec] = field(default_factory=dict)
    times: int = 1
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    optional: bool = False
    part: str | None = None
    merge: str = "sum"
    open: str | None = None
    view_of: str | None = None
    sent: tuple[str, ...] | None = None
    cost: ApproximateDpEvent | None = None
    reach: float | str = 1.0

    def __post_init__(self) -> None:
        check("name", self.name, Text())
        check("times", self.times, Integer(1))
        check("merge", self.merge, OneOf(*MERGES))
        given = [self.mechanism is not None, self.open is not None, self.view_of is not None]
        if sum(given) != 1:
            raise ParameterError(
                f"step {self.name!r} must have a mechanism, or be open, or a view of another step"
            )
        if "[" in self.name:
            raise ParameterError(f"a step's name must not hold '[', got {self.name!r}")
        largest = getattr(self.mechanism, "sensitivity", math.inf)
        for name, kind in self.kinds.items():
            if kind.mechanism is None and kind.sensitivity > largest * _ROOM:
                raise ParameterError(
                    f"step {self.name!r} is calibrated for {largest:g}, and its kind {name!r} "
                    f"moves a sum by {kind.sensitivity:g}"
                )
        if not all(self.affords(other) for other in self._mechanisms):
            raise ParameterError(f"a mechanism of step {self.name!r} costs more than the step")

    @property
    def _mechanisms(self) -> tuple[Mechanism, ...]:
        found = (self.mechanism, *(kind.mechanism for kind in self.kinds.values()))
        return tuple(mechanism for mechanism in found if mechanism is not None)

    def mechanism_of(self, kind: str) -> Mechanism | None:
        """Return what a kind is drawn with; no kind is ``""``."""
        own = self.kinds[kind].mechanism if kind else None
        return self.mechanism if own is None else own

    def merge_of(self, kind: str) -> str:
        """Return how contributions to a kind become one value."""
        own = self.kinds[kind].merge if kind else None
        return self.merge if own is None else own

    @property
    def price(self) -> DpEvent:
        """What one draw is charged."""
        if self.mechanism is None:
            return NoOpDpEvent()
        return self.mechanism.event if self.cost is None else self.cost

    @property
    def event(self) -> DpEvent:
        """What all its releases cost."""
        one = self.price
        free = isinstance(one, NonPrivateDpEvent | NoOpDpEvent)
        return one if free or self.times == 1 else repeat(one, self.times)

    def affords(self, mechanism: Mechanism) -> bool:
        """Whether a mechanism costs no more than what the step is charged."""
        event = mechanism.event
        if event == self.price:
            return True
        if self.cost is None or isinstance(event, NonPrivateDpEvent):
            return False
        return epsilon_of(event, self.cost.delta) <= self.cost.epsilon * _ROOM

    @property
    def leaving(self) -> Mapping[str, ArraySpec]:
        """The arrays that leave."""
        if self.sent is None:
            return self.replies
        return {name: self.replies[name] for name in self.sent}

    def read(self, request: Message) -> Asked:
        """Return what a request asks for; refused unless it is exactly what the step names.

        Everything is looked at before any numerics sees it, and nothing but the request.
        """
        arrays = dict(request.arrays)
        asks, chosen = self.asks, ""
        if self.kinds:
            names = list(self.kinds)
            check_arrays(
                {"kind": arrays.pop("kind", None)},
                {"kind": ArraySpec((1,), "int64", 0, len(names) - 1)},
                RequestRefused,
            )
            chosen = names[int(request["kind"][0])]
            asks = self.kinds[chosen].asks
        sizes = check_arrays(arrays, asks, RequestRefused)
        return Asked(self.name, chosen, arrays, sizes)

    def resolved(self, sizes: Mapping[str, int]) -> dict[str, ArraySpec]:
        """Return what leaves, with the sizes that the request fixed and a range for every number.

        Where a step states none, a sum of bounded contributions and its noise still has one: no
        site can make a total infinite, or drown all others by orders of magnitude.
        """
        found = {}
        for name, spec in self.leaving.items():
            most = self._most if spec.dtype.startswith("float") else _LARGEST
            low, high = max(spec.low, -most), min(spec.high, most)
            if most == _LARGEST:  # little is known: a range that the step states may be wider
                low = spec.low if math.isfinite(spec.low) else low
                high = spec.high if math.isfinite(spec.high) else high
            found[name] = dataclasses.replace(spec.resolved(sizes), low=low, high=high)
        return found

    @property
    def _most(self) -> float:
        """The largest number that a release of one site can hold."""
        inner = getattr(self.mechanism, "mechanism", self.mechanism)  # of a sampled one
        reach, noise = getattr(inner, "sensitivity", None), getattr(inner, "scale", None)
        if reach is None or noise is None:  # of an order statistic: its values have a range
            ends = getattr(inner, "bounds", (0.0, 0.0))
            return max(_LARGEST, _MOST_UNITS * max(abs(float(end)) for end in ends))
        most = _MOST_UNITS * float(reach) + _NOISE * float(noise)
        if not math.isfinite(most):
            return _LARGEST
        return most if self.merge == "sum" and not self.kinds else max(most, _LARGEST)

    def described(self) -> dict[str, Any]:
        """Return everything that both sides have to agree on, as plain data."""
        kinds = {
            name: [_plain(kind.asks), kind.sensitivity, repr(kind.mechanism), kind.merge]
            for name, kind in self.kinds.items()
        }
        return {
            "name": self.name,
            "mechanism": repr(self.mechanism),
            "asks": _plain(self.asks),
            "replies": _plain(self.replies),
            "times": self.times,
            "kinds": kinds,
            "optional": self.optional,
            "part": self.part,
            "merge": self.merge,
            "open": self.open,
            "view_of": self.view_of,
            "sent": self.sent,
            "cost": repr(self.cost),
        }


def _plain(specs: Mapping[str, ArraySpec]) -> dict[str, str]:
    return {name: spec.text for name, spec in specs.items()}


class Asked(NamedTuple):
    """What a request asks for, checked against its step.

    Attributes
    ----------
    step, kind
        Their names.
    arrays
        By name; read-only.
    sizes
        The named sizes that the request fixed.
    """

    step: str
    kind: str
    arrays: Mapping[str, NDArray[Any]]
    sizes: Mapping[str, int]

    def __getitem__(self, name: Any) -> Any:
        return self.arrays[name]
