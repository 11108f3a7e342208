"""One statistic of every site, whose number of people is no part of what is agreed on.

Each site draws once with noise of its own and pays from its own ledger; the posterior is that of
all releases together, whose likelihoods multiply because the sites hold different people.

| neighbours | of n is known | an additive statistic releases | an order statistic |
|---|---|---|---|
| replace-one | each site's number leaves as it is | Σ(s − m) | one draw |
| add-remove-one | a noisy number, released with the rest | (Σ(s − m), Σw) | Σ1, then one draw |

m is the middle of the range of s, and h half of its width, coordinate by coordinate.

**Proof.** *Replace-one*: one term of the sum changes, in coordinate k by at most 2h_k: by 2‖h‖₂
and by 2Σh_k. n does not change. A sum does not depend on n otherwise, so that all sites have one
mechanism. *Add-remove-one*: one person adds the vector (s − m, w) or takes it away, whose norms
are at most √(‖h‖₂² + w²) and Σh_k + w, reached where s lies at an end in every coordinate. The
vector is one release. Of an order statistic a count moves by one, and the rank's loss as
`tacit.mechanisms.quantiles` says; both are drawn of the same people and compose: their ε add up.
Rounding each person's vector to the grid is the mechanism's business (`tacit.mechanisms.grid`).

**The weight w.** Of k numbers, T/n estimates μ − m with an error whose variance is that of the
noise on T, and ((μ − m)_k/w)² times as much from the noise on the count. Where μ lies anywhere in
its range alike, (μ − m)_k² is h_k²/3 on average. With Gaussian noise, in proportion to ‖h‖₂² + w²,
(‖h‖² + w²)(k + ‖h‖²/(3w²)) is least at w² = ‖h‖²/√(3k); with Laplace noise, in proportion to
(Σh + w)², at w³ = Σh·‖h‖²/(3k).

**The share of the count** of an order statistic is a twentieth of ε: how many people there are
decides how wide a posterior is, not where it lies, and the posterior counts what is left open.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit._core.lazy import late
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement, Ask, Coordinating, Neighbours, Start, Step
from tacit.estimators.executors import shards_of
from tacit.estimators.gate import Gate
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.quantiles import Quantiles
from tacit.posterior.agreement import POWERS
from tacit.posterior.mechanism import of_sums, ordered
from tacit.posterior.numerics.counts import NoisyCount
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic
from tacit.posterior.numerics.orders.domain import Domain
from tacit.posterior.numerics.orders.simulated import level_of
from tacit.posterior.numerics.statistics import (
    Additive,
    Custom,
    OrderStatistic,
    Power,
    Statistic,
    as_statistic,
)
from tacit.privacy.calibration import split_budget
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Participant

__all__ = ["UncountedAgreement"]

_LEAST = 1e-9  # noise where there is none, as a share of the sensitivity: likelihoods need some
_COUNT = 0.05  # of ε, for the number of people beside an order statistic
_CROWD = 40  # people of the worst case of an order statistic, at most


@dataclass(frozen=True)
class UncountedAgreement(Agreement):
    """One statistic of each of some sites, of as many people as there are.

    Parameters
    ----------
    statistic, bounds
        What, with which public bounds of the data.
    privacy
        The request. None adds no noise.
    how
        One of `tacit.posterior.mechanism.MECHANISMS`.
    noise
        The kind of noise source.
    sites
        How many holders there are.
    notes
        What else is public about the tables, in words.
    spacing
        How far apart people's possible numbers are; 0 for any number.

    Examples
    --------
    >>> privacy = Privacy(1.0, 1e-6, unit="row", trust="site")
    >>> agreement = UncountedAgreement(as_statistic("median"), (0.0, 1.0), privacy, sites=3)
    >>> [step.name for step in agreement.steps], agreement.counted
    (['people', 'statistic'], False)
    """

    family = "posterior"
    trusts = ("central", "site")

    statistic: Statistic
    bounds: tuple[float, float]
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
    def source(self) -> str:  # type: ignore[override]
        """The kind of noise source."""
        return self.noise

    @property
    def apart(self) -> bool:
        """Every site's own release is looked at: its likelihood is its own."""
        return True

    @property
    def cites(self) -> tuple[str, ...]:
        """What it builds on."""
        drawn = isinstance(self.statistic, OrderStatistic)
        return ("alparslan2022", "smith2011") if drawn else ("alparslan2022", "dwork2006")

    @property
    def counted(self) -> bool:
        """Whether a site's number of people is public."""
        return self.privacy is None or self.privacy.neighbours == REPLACE

    @property
    def merge(self) -> str:
        """How people's contributions become one value."""
        return "values" if isinstance(self.statistic, OrderStatistic) else "sum"

    # -- which mechanisms ------------------------------------------------------------------

    @cached_property
    def _epsilons(self) -> dict[str, float]:
        """ε of the count beside an order statistic, and of its draw."""
        assert self.privacy is not None
        if self.counted:
            return {"statistic": self.privacy.epsilon}
        if math.isinf(self.privacy.epsilon):
            return {"people": math.inf, "statistic": math.inf}
        weights = {"people": _COUNT, "statistic": 1.0 - _COUNT}
        return split_budget(self.privacy.epsilon, weights)

    @cached_property
    def mechanism(self) -> Gaussian | Laplace | Quantiles:
        """The least noise for which releasing the statistic meets the request."""
        privacy = self.privacy
        if isinstance(self.statistic, OrderStatistic):
            if privacy is None or math.isinf(privacy.epsilon):
                raise ParameterError(
                    f"{self.statistic.name} needs a finite epsilon: pass Privacy(epsilon)"
                )
            own, relation = self._epsilons["statistic"], REPLACE if self.counted else ADD_REMOVE
            return ordered(self.statistic, self.bounds, own, self.how, self.spacing, relation)
        return of_sums(self.statistic, self.bounds, privacy, self.how, self.noise, self.weight_for)

    @cached_property
    def count_noise(self) -> Laplace:
        """The noise on the number of people beside an order statistic."""
        return Laplace.for_privacy(self._epsilons["people"], 1.0, (1,), source=self.noise)

    @property
    def half(self) -> Array:
        """Half of the range of every coordinate."""
        assert isinstance(self.statistic, Additive)
        low, high = self.statistic.range(self.bounds)
        return np.asarray((high - low) / 2.0)

    @property
    def middle(self) -> Array:
        """The middle of the range of every coordinate."""
        assert isinstance(self.statistic, Additive)
        low, high = self.statistic.range(self.bounds)
        return np.asarray((low + high) / 2.0)

    def weight_for(self, norm: int) -> float:
        """Return w under noise for an L1 or L2 sensitivity; 0 where the count is public."""
        if self.counted:
            return 0.0
        square, total = float(self.half @ self.half), float(self.half.sum())
        k = len(self.half)
        if norm == 2:
            return math.sqrt(square / math.sqrt(3.0 * k))
        return float(np.cbrt(total * square / (3.0 * k)))

    @property
    def weight(self) -> float:
        """How much a person really adds to the count: w on the mechanism's grid."""
        mechanism = self.mechanism
        assert isinstance(mechanism, Gaussian | Laplace)
        found = mechanism.grid.values(mechanism.grid.round(self.weight_for(mechanism.norm)))
        return float(found)

    def planned_for(self, people: int) -> NoisyStatistic:
        """Return what inference is told of a site with so many people, before there are numbers.

        Parameters
        ----------
        people
            A guess; nothing that is released depends on it.
        """
        mechanism, count = self.mechanism, None
        if isinstance(mechanism, Quantiles):
            assert isinstance(self.statistic, OrderStatistic)
            level = Fraction(level_of(self.statistic.quantile))
            law = NoiseLaw("exponential", 1.0 / mechanism.rate(level, True), step=mechanism.step)
            if not self.counted:
                count = NoisyCount(float(people), "laplace", self.count_noise.scale)
        else:
            kind = "gaussian" if isinstance(mechanism, Gaussian) else "laplace"
            scale = mechanism.scale or _LEAST * mechanism.sensitivity
            law = NoiseLaw(kind, scale / people)
            if not self.counted:
                count = NoisyCount(float(people), kind, scale / self.weight)
        return NoisyStatistic.planned(self.statistic, self.bounds, people, law, count=count)

    # -- what was released -----------------------------------------------------------------

    def told(self, values: Array, people: float) -> NoisyStatistic:
        """Return what a site released.

        Parameters
        ----------
        values
            The noisy sums, or what was drawn.
        people
            How many there are, or a noisy number of them.
        """
        number = max(1, round(people))
        plan = self.planned_for(number)
        if plan.count is not None:
            plan = NoisyStatistic(
                plan.statistic,
                plan.bounds,
                number,
                plan.noise,
                plan.values,
                count=NoisyCount(people, plan.count.kind, plan.count.scale),
            )
        if isinstance(self.statistic, OrderStatistic):
            return plan.replace(
                Domain.of(self.statistic, self.bounds, self.spacing).outward(values)
            )
        return plan.replace(values / number + self.middle)

    # -- what is charged and said ----------------------------------------------------------

    def _steps(self) -> tuple[Step, ...]:
        count = {"people": ArraySpec((1,), "int64", 1)} if self.counted else {}
        replies = {"values": ArraySpec(getattr(self.mechanism, "shape", None) or (1,))}
        if isinstance(self.statistic, OrderStatistic):
            draw = Step(
                "statistic", self.mechanism, replies=replies | count, merge="values", reach=1.0
            )
            if self.counted:
                return (draw,)
            spec = {"people": ArraySpec((1,))}
            return Step("people", self.count_noise, replies=spec), draw
        reach: float | str = 1.0
        if not isinstance(self.statistic, Power):
            reach = "whether a person moves the statistic by the declared range is the function's"
        return (Step("statistic", self.mechanism, replies=replies | count, reach=reach),)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The public inputs."""
        low, high = self.bounds
        notes: tuple[str, ...] = (f"values in [{low:g}, {high:g}]",)
        if isinstance(self.statistic, Custom):
            pairs = zip(*self.statistic.range(self.bounds), strict=True)
            spans, name = ", ".join(f"[{a:g}, {b:g}]" for a, b in pairs), self.statistic.name
            notes += (f"{name} in {spans}", f"{name} remembers nothing from one person to another")
        notes += tuple(note for note in self.notes if note not in notes)
        if self.counted:
            notes += ("the number of people is public, and leaves with the statistic",)
        if self.sites > 1:
            notes += (
                "the sites hold different people: whoever is at several is protected by what "
                "these charge together",
            )
        return notes

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return a site with one number for each person."""
        made: Participant = late(f"{__package__}.sides").Crowd(self, name, shards_of(data), gate)
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Ask for the number of people where it is a release of its own, and for the statistic."""
        counts = None
        if "people" in [step.name for step in self.steps]:
            counts = (yield Ask("people")).by_site
        found = (yield Ask("statistic")).by_site
        assert found is not None
        told: dict[str, NoisyStatistic] = {}
        for site, reply in found.items():
            values = reply["values"].astype(np.float64)
            if counts is not None:
                people = float(counts[site]["people"][0])
            elif self.counted:
                people = float(reply["people"][0])
            else:
                values, people = values[:-1], float(values[-1]) / self.weight
            told[site] = self.told(values, people)
        return told

    def shared(self, result: dict[str, NoisyStatistic]) -> dict[str, Any]:
        """The noisy numbers of every site."""
        numbers = ("", *(f"/{k}" for k in range(2, len(result) + 1)))
        each = result.values()
        return {f"values{k}": one.values for k, one in zip(numbers, each, strict=True)}

    def worst_case(self) -> Neighbours:
        """One person at an end of the range more; or, where n is public, at the other end."""
        if isinstance(self.statistic, OrderStatistic):
            return self._two_gaps(self.statistic)
        ends = np.linspace(*self.bounds, 3)
        if isinstance(self.statistic, Power):
            ends = self.statistic.ends(self.bounds)
        values = self.statistic.values(ends, self.bounds)[:, 0]
        least, most = ends[values.argmin()], ends[values.argmax()]
        data, others = np.full(5, least), np.full(4, least)
        if self.counted:
            return Neighbours(np.append(others, most), data)
        return Neighbours(data, others)

    def _two_gaps(self, statistic: OrderStatistic) -> Neighbours:
        """Two gaps on either side of the rank, of which one comes nearer and one goes farther.

        The rank that is looked for lies between two people in the middle. One more at an end, or
        one who leaves an end for the other, brings one of the gaps beside them nearer to it and
        takes the other farther. Of the first or last rank only one side counts: there it is one
        in the middle, more or leaving for that end.
        """
        domain, level = Domain.of(statistic, self.bounds, self.spacing), statistic.quantile
        points = np.linspace(*self.bounds, 257)
        if self.spacing:
            points = np.arange(*self.bounds, self.spacing)
        ends = np.append(points, [self.bounds[1], *([0.0] if self.bounds[0] < 0.0 else [])])
        base = domain.base.values(ends, self.bounds)[:, 0]
        low, high = ends[base.argmin()], ends[base.argmax()]
        middle = ends[np.abs(base - 0.5 * (base.min() + base.max())).argmin()]
        inner = 1 if level in (0.0, 1.0) else 2
        size = min(
            range(inner + 1, _CROWD), key=lambda n: abs(level * n - round(level * n)) + 1e-3 * n
        )
        below = int(np.clip(round(level * size) - 1, 0, size - inner))
        data = np.full(size, high)
        data[:below], data[below : below + inner] = low, middle
        if self.counted:
            other = data.copy()
            if inner == 1:
                other[below] = high if level >= 0.5 else low
            elif below:
                other[0] = high
            else:
                other[-1] = low
            return Neighbours(data, other)
        more = middle if inner == 1 else (high if level >= 0.5 else low)
        return Neighbours(np.append(data, more), data)

    @classmethod
    def examples(cls) -> Iterator[UncountedAgreement]:
        """Both relations, one site and several, each mechanism."""
        wide = (-2.0, 3.0)
        for neighbours in (ADD_REMOVE, REPLACE):
            site = Privacy(1.0, 1e-5, unit="row", neighbours=neighbours, trust="site")
            alone = Privacy(1.0, 1e-5, unit="user", neighbours=neighbours)
            yield cls(as_statistic("mean"), wide, alone, "laplace", "grid")
            yield cls(as_statistic("|x|^2"), wide, site, "gaussian", sites=2)
            yield cls(POWERS, wide, site, "gaussian", "grid", 2)
            yield cls(as_statistic("median |x|^2"), wide, site, sites=2)
            yield cls(as_statistic("quantile 0.7"), wide, alone, spacing=1.0)
        yield cls(as_statistic("mean"), wide, None, noise="grid", sites=2)
