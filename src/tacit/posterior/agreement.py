"""What is released of a statistic, by which mechanism, and why that is private.

| statistic | who adds noise | mechanism | merged as | sensitivity, one person replaced |
|---|---|---|---|---|
| additive, k numbers | curator | Gaussian | sum of shares s/n | ‖w‖₂/n, w the widths of s |
| additive, k numbers | curator | Laplace | sum of shares s/n | Σw_k/n |
| order statistic | curator | exponential | values | `tacit.mechanisms.quantiles` |
| order statistic | curator | smooth Laplace | values | `tacit.mechanisms.smooth_quantile` |
| additive, one number | each person | Gaussian, Laplace | stack | w: one of n numbers moves |
| additive, one number | each person, and the mean leaves | Gaussian | stack | the same |
| 0/1 | each person | randomized response | stack | – |

**Proof.** The number n of people is public, and a neighbour replaces one person. In a mean one
term changes, and every coordinate k of s lies in an interval of width w_k that is public: the
mean moves by at most w_k/n in each, so by ‖w‖₂/n and Σw_k/n. In a vector of n answers one
coordinate changes, by at most w. Values are clipped to the interval first, whatever the data and
the caller's function give; that function sees one person at a time. Each person's share
(s − low)/n is rounded to the mechanism's grid before shares are added as whole numbers, so no sum
of doubles is ever released; what rounding adds to the sensitivity is the mechanism's own business
(`tacit.mechanisms.grid`). An order statistic of a power is that power of an order statistic of x
or |x|: the exponential mechanism draws the latter, and the power is post-processing. Nothing is
asked but the one statistic: a request holds no array. The mean of n answers is post-processing of
them: against whoever sees it alone much less is told, and the certificate claims the answers' own.

**People with several rows** count with one number, their average or one of their rows, chosen
without looking at what it holds: whoever is replaced changes that number and no other. Where
they stand matters for answers of each person, and for parts of the people: somebody else's rows
stand elsewhere in a table, and all between would move. So people who are told apart by their
names stand in a secret random order; with the same order for both of two neighbours, whoever is
replaced stands where the other did. More than one row of a person has no place among n numbers
of which n is public, and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.lazy import late
from tacit.estimators.agreement import Agreement, Ask, Coordinating, Neighbours, Start, Step
from tacit.estimators.executors import shards_of
from tacit.estimators.gate import Gate
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.quantiles import Quantiles
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.smooth_quantile import SmoothQuantile
from tacit.posterior.mechanism import least_noise
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic
from tacit.posterior.numerics.orders.simulated import level_of
from tacit.posterior.numerics.statistics import (
    Custom,
    OrderStatistic,
    Power,
    Statistic,
    as_statistic,
)
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Participant

__all__ = ["POWERS", "PosteriorAgreement"]

_LEAST = 1e-9  # noise where there is none, as a share of the sensitivity: likelihoods need some


@dataclass(frozen=True)
class PosteriorAgreement(Agreement):
    """One statistic of n people, released once with the least noise that meets a request.

    Parameters
    ----------
    statistic, bounds, size
        What, with which public bounds of the data, of how many people.
    privacy
        The request, under replace-one; ``trust="local"`` lets each person answer alone. None
        adds no noise.
    how
        One of `tacit.posterior.mechanism.MECHANISMS`.
    noise
        The kind of noise source.
    sites
        One: a statistic has one holder.
    notes
        What else is public about the table, in words.
    spacing
        How far apart people's possible numbers are; 0 for any number. Of an order statistic the
        exponential mechanism spreads them over their step.

    Examples
    --------
    >>> privacy = Privacy(1.0, 1e-6, neighbours="replace-one")
    >>> agreement = PosteriorAgreement(as_statistic("mean"), (0.0, 1.0), 100, privacy)
    >>> [step.name for step in agreement.steps], agreement.planned.noise.kind
    (['statistic'], 'laplace')
    """

    family = "posterior"
    trusts = ("central", "local")

    statistic: Statistic
    bounds: tuple[float, float]
    size: int
    privacy: Privacy | None
    how: str = "auto"
    noise: str = "exact"
    sites: int = 1
    notes: tuple[str, ...] = ()
    spacing: float = 0.0

    def __post_init__(self) -> None:
        if isinstance(self.statistic, Custom):
            self.statistic.check_range(self.bounds)

    @property
    def cites(self) -> tuple[str, ...]:
        """Smooth sensitivity has a source of its own."""
        found = {SmoothQuantile: ("nissim2007",), Quantiles: ("smith2011",)}
        return ("alparslan2022", *found.get(type(self.mechanism), ()))

    # -- which mechanism -------------------------------------------------------------------

    @property
    def local(self) -> bool:
        """Whether each person answers alone."""
        return self.privacy is not None and self.privacy.trust == "local"

    @property
    def averaged(self) -> bool:
        """Whether the mean of people's answers leaves, and not the answers."""
        return self.how == "averaged"

    @cached_property
    def mechanism(self) -> Mechanism:
        """The least noise for which releasing the statistic meets the request."""
        return least_noise(
            self.statistic,
            self.bounds,
            self.size,
            self.privacy,
            self.how,
            self.noise,
            self.spacing,
        )

    @property
    def width(self) -> int:
        """How many numbers leave."""
        if self.averaged:
            return 1
        return self.size if self.local else self.statistic.dimension(self.bounds)

    @property
    def merge(self) -> str:
        """How people's contributions become one value."""
        if isinstance(self.statistic, OrderStatistic):
            return "values"
        return "stack" if self.local else "sum"

    @cached_property
    def planned(self) -> NoisyStatistic:
        """What inference is told, before there are numbers."""
        mechanism = self.mechanism
        if isinstance(mechanism, SmoothQuantile):
            law = NoiseLaw("smooth", mechanism.epsilon, mechanism.beta)
        elif isinstance(mechanism, Quantiles):
            level = Fraction(level_of(mechanism.levels[0]))
            law = NoiseLaw("exponential", 1.0 / mechanism.rate(level, True), step=mechanism.step)
        elif isinstance(mechanism, RandomizedResponse):
            law = NoiseLaw("response", 1.0 - mechanism.lie / 2.0)
        else:
            assert isinstance(mechanism, Gaussian | Laplace)
            kind = "gaussian" if isinstance(mechanism, Gaussian) else "laplace"
            scale = mechanism.scale or _LEAST * mechanism.sensitivity
            # the mean of n normal numbers is normal, with 1/√n of their spread
            law = NoiseLaw(kind, scale / math.sqrt(self.size) if self.averaged else scale)
        apart = self.local and not self.averaged
        return NoisyStatistic.planned(self.statistic, self.bounds, self.size, law, apart)

    @property
    def low(self) -> Any:
        """What shares are counted from, added back after the release."""
        if isinstance(self.statistic, OrderStatistic) or self.local:
            return 0.0
        return self.statistic.range(self.bounds)[0]

    def told(self, values: NDArray[Any]) -> NoisyStatistic:
        """Return what was released, given the numbers that left."""
        numbers = values.astype(np.float64)
        if self.planned.noise.kind == "exponential":
            numbers = self.planned.domain.outward(numbers)
        return self.planned.replace(numbers + self.low)

    # -- what is charged and said ----------------------------------------------------------

    @property
    def replies(self) -> dict[str, ArraySpec]:
        """What leaves: 0/1 answers, or numbers."""
        if isinstance(self.mechanism, RandomizedResponse):
            return {"values": ArraySpec((self.width,), "int64", 0, 1)}
        return {"values": ArraySpec((self.width,))}

    @property
    def reach(self) -> float | str:
        """How near to the bound a neighbour comes; a caller's function may not come near it."""
        if isinstance(self.statistic, Power | OrderStatistic):
            return 1.0
        return "whether a person moves the statistic by the declared range is the function's"

    def step_called(self, name: str, **more: Any) -> Step:
        """Return the release as a step of an agreement, this one or a larger one."""
        more |= {"replies": self.replies, "merge": self.merge, "reach": self.reach}
        return Step(name, self.mechanism, **more)

    def _steps(self) -> tuple[Step, ...]:
        return (self.step_called("statistic"),)

    @property
    def ranges(self) -> tuple[str, ...]:
        """The public ranges of data and statistic."""
        low, high = self.bounds
        notes: tuple[str, ...] = (f"values in [{low:g}, {high:g}]",)
        if self.averaged:
            notes += ("every answer is noisy by itself, and only their mean leaves",)
        if isinstance(self.mechanism, RandomizedResponse):
            notes += ("answers are 0 or 1; what is not counts as the nearer of both",)
        if not isinstance(self.statistic, Power | OrderStatistic):
            pairs = zip(*self.statistic.range(self.bounds), strict=True)
            spans = ", ".join(f"[{a:g}, {b:g}]" for a, b in pairs)
            name = self.statistic.name
            notes += (f"{name} in {spans}", f"{name} remembers nothing from one person to another")
        return notes + self.notes

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The public inputs."""
        return (*self.ranges, f"the number of people, {self.size}, is public")

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return the holder of one number for each person."""
        made: Participant = late(f"{__package__}.sides").People(self, name, shards_of(data), gate)
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Ask once."""
        found = yield Ask("statistic")
        return self.told(found.total["values"])

    def shared(self, result: NoisyStatistic) -> dict[str, Any]:
        """The noisy numbers."""
        return {"values": result.values}

    def worst_case(self) -> Neighbours:
        """One person at that end of the range which moves the statistic most."""
        statistic = self.statistic
        scalar = statistic.of if isinstance(statistic, OrderStatistic) else statistic
        ends = np.linspace(*self.bounds, 3)
        if isinstance(scalar, Power):
            ends = scalar.ends(self.bounds)
        values = scalar.values(ends, self.bounds)[:, 0]
        least, most = ends[values.argmin()], ends[values.argmax()]
        data = np.full(self.size, least)
        if isinstance(self.mechanism, Quantiles):
            return self._two_gaps()
        if isinstance(statistic, OrderStatistic):  # whom it falls on is decided by one
            data[statistic.rank(self.size) :] = most
        other = data.copy()
        other[0] = most
        return Neighbours(data, other)

    def _two_gaps(self) -> Neighbours:
        """One person in the middle, on whom a rank falls, who leaves for the upper end.

        Before, one half of the range is a rank nearer than the other; after, both are alike.
        """
        statistic = self.statistic
        assert isinstance(statistic, OrderStatistic)
        points = np.linspace(*self.bounds, 257)
        if self.spacing:
            points = np.arange(*self.bounds, self.spacing)
        ends = np.append(points, [self.bounds[1], *([0.0] if self.bounds[0] < 0.0 else [])])
        base = self.planned.domain.base.values(ends, self.bounds)[:, 0]
        middle = ends[np.abs(base - 0.5 * (base.min() + base.max())).argmin()]
        data = np.full(self.size, ends[base.argmax()])
        data[: statistic.rank(self.size)] = ends[base.argmin()]
        other = data.copy()
        data[0], other[0] = middle, ends[base.argmax()]
        return Neighbours(data, other)

    @classmethod
    def examples(cls) -> Iterator[PosteriorAgreement]:
        """Every mechanism, both units, built-in and other functions."""
        central = Privacy(1.0, 1e-5, unit="row", neighbours=REPLACE)
        local = replace(central, trust="local")
        wide = (-2.0, 3.0)
        yield cls(as_statistic("mean"), wide, 5, central, "laplace", "grid")
        yield cls(as_statistic("|x|^2"), wide, 5, replace(central, unit="user"), "gaussian")
        yield cls(as_statistic("median |x|"), wide, 5, central, "smooth")
        yield cls(as_statistic("median |x|^2"), wide, 5, replace(central, delta=0.0))
        yield cls(as_statistic("quantile 0.7"), wide, 5, central, "exponential", spacing=1.0)
        yield cls(as_statistic("maximum"), wide, 5, central, "smooth", "grid")
        yield cls(as_statistic("mean"), wide, 5, local, "laplace", "grid")
        yield cls(as_statistic("x^3"), wide, 5, replace(local, unit="user"), "gaussian", "grid")
        yield cls(as_statistic("mean"), (0.0, 1.0), 5, local, "randomized-response")
        yield cls(as_statistic("|x|"), wide, 5, local, "averaged", "grid")
        yield cls(POWERS, wide, 5, central, "laplace", "grid")
        yield cls(as_statistic("mean"), wide, 5, None, noise="grid")


def _powers(x: Any) -> Any:
    return np.stack([x, x * x], axis=-1)


POWERS = Custom(_powers, ((-2.0, 10.0), (0.0, 100.0)), "x and x^2")
