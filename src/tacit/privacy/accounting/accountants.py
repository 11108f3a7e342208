"""Accountants: what a bag of events costs.

An accountant is a value: a multiset of elementary events to which events are added and from
which they are removed. A handler returns the cost of *one* event; composition multiplies.

==========  =================================================================================
pld         privacy-loss distributions, the headline; exact for Gaussians alone and, at δ = 0,
            the sum of pure ε
rdp         Rényi divergences, converted with the best order
zcdp        sums of ρ; Poisson sampling is counted without amplification (a valid bound)
advanced    heterogeneous advanced composition (Kairouz, Oh & Viswanath 2015)
basic       ε and δ add up
==========  =================================================================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from types import MappingProxyType
from typing import ClassVar, Self

from tacit._core.check import Integer, OneOf, Real, check
from tacit.errors import NotCertified, ParameterError
from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.composition import log_moments, renyi, sides
from tacit.privacy.accounting.pld import composed_delta, composed_epsilon, gaussian_mu
from tacit.privacy.amounts import as_exact, as_float, float_above
from tacit.privacy.claims import RenyiDpEvent
from tacit.privacy.events import (
    REPLACE,
    ApproximateDpEvent,
    DiscreteGaussianDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    ShuffledDpEvent,
    ZCDpEvent,
    _unsampled,
    leaves,
    pure_epsilon,
)

__all__ = [
    "ACCOUNTANTS",
    "Accountant",
    "AdvancedAccountant",
    "BasicAccountant",
    "PLDAccountant",
    "RDPAccountant",
    "ZCDPAccountant",
    "accountant",
    "epsilon_of",
]

_DELTA = Real(0, 1, open_high=True)


def _cannot(name: str, event: DpEvent) -> NotCertified:
    return NotCertified(f"the {name} accountant cannot account for {event}")


class Accountant(ABC):
    """A multiset of elementary events and what it costs.

    >>> spent = accountant("pld").add(GaussianDpEvent(2.0), 3)
    >>> round(spent.epsilon(1e-5), 3)
    3.709
    >>> spent.remove(GaussianDpEvent(2.0), 3).epsilon(1e-5)
    0.0
    """

    name: ClassVar[str]

    def __init__(self, counts: Mapping[DpEvent, int] | None = None) -> None:
        self._counts = dict(counts or {})

    @property
    def counts(self) -> Mapping[DpEvent, int]:
        """The elementary events with how often each occurred."""
        return MappingProxyType(self._counts)

    def add(self, event: DpEvent, count: int = 1) -> Self:
        """Return an accountant that has also seen ``event``, ``count`` times.

        Raises
        ------
        NotCertified
            If a part of the event cannot be accounted for; nothing has changed then.
        """
        check("count", count, Integer(0))
        added = leaves(SelfComposedDpEvent(event, count))
        for leaf in added:
            self.check_supported(leaf)
        merged = dict(self._counts)
        for leaf, times in added.items():
            merged[leaf] = merged.get(leaf, 0) + times
        return type(self)(merged)

    def remove(self, event: DpEvent, count: int = 1) -> Self:
        """Return an accountant that has seen ``event`` that much less often."""
        merged = dict(self._counts)
        for leaf, times in leaves(SelfComposedDpEvent(event, count)).items():
            left = merged.get(leaf, 0) - times
            if left < 0:
                raise ParameterError(f"cannot remove {leaf}: it was not added that often")
            if left:
                merged[leaf] = left
            else:
                del merged[leaf]
        return type(self)(merged)

    def check_supported(self, leaf: DpEvent) -> None:
        """Raise `NotCertified` if this accountant does not know the elementary event."""

    def epsilon(self, delta: float) -> float:
        """Return an ε such that everything seen is (ε, δ)-private."""
        check("delta", delta, _DELTA)
        if any(isinstance(leaf, NonPrivateDpEvent) for leaf in self._counts):
            return math.inf
        private = {leaf: n for leaf, n in self._counts.items() if not _is_free(leaf)}
        return self._epsilon(private, delta) if private else 0.0

    def delta(self, epsilon: float) -> float:
        """Return a δ such that everything seen is (ε, δ)-private."""
        check("epsilon", epsilon, Real(0, allow_inf=True))
        if self.epsilon(0.0) <= epsilon:
            return 0.0
        if self.epsilon(0.5) > epsilon:
            return 1.0
        return gaussian.solve_decreasing(
            self.epsilon, epsilon, 1e-6, 1e-3, tolerance=1e-9
        )  # ε(δ) decreases

    @abstractmethod
    def _epsilon(self, counts: Mapping[DpEvent, int], delta: float) -> float:
        """Return ε for private, non-free events."""


def _is_free(leaf: DpEvent) -> bool:
    """Whether an event costs nothing (infinite noise, ε = δ = 0)."""
    match leaf:
        case GaussianDpEvent(multiplier) | LaplaceDpEvent(multiplier):
            return math.isinf(multiplier)
        case PoissonSampledDpEvent(_, child, _) | SampledWithoutReplacementDpEvent(_, _, child):
            return _is_free(child)
        case ApproximateDpEvent(0.0, 0.0) | ZCDpEvent(0.0) | RandomizedResponseDpEvent(1.0):
            return True
        case _:
            return False


def pure_total(counts: Mapping[DpEvent, int]) -> Fraction | None:
    """Return the exact sum of pure ε, or None unless every event is pure."""
    total = Fraction(0)
    for leaf, n in counts.items():
        part = pure_epsilon(leaf)
        if part is None:
            return None
        total += part * n
    return total


def _pure_total(counts: Mapping[DpEvent, int]) -> float:
    """Return the sum of pure ε as a float from above; infinite unless every event is pure."""
    total = pure_total(counts)
    return math.inf if total is None else float_above(total)


def _added_total(counts: Mapping[DpEvent, int], delta: float) -> float:
    """Return the sum of ε of events that are pure but for δ of their own, if δ covers those."""
    total = own = Fraction(0)
    for leaf, n in counts.items():
        if isinstance(leaf, ApproximateDpEvent):
            part: Fraction | None = as_exact(leaf.epsilon)
            own += as_exact(leaf.delta) * n
        else:
            part = pure_epsilon(leaf)
        if part is None:
            return math.inf
        total += part * n
    return float_above(total) if own <= as_exact(delta) else math.inf


def _approximate_epsilon(epsilon: float, own: float, delta: float) -> float:
    """Return the ε at δ of one (ε₀, δ₀)-private event, with δ₀ ≤ δ.

    The worst has δ(ε) = δ₀ + (1 − δ₀)·(1 − e^(ε − ε₀))/(1 + e^(−ε₀)) (Kairouz, Oh & Viswanath
    2015).
    """
    spare = (delta - own) * (1.0 - 1e-9) * (1.0 + math.exp(-epsilon)) / (1.0 - own)
    return max(0.0, epsilon + math.log1p(-spare)) if spare < 1.0 else 0.0


def _times(count: int, cost: float) -> float:
    """Return the cost of many events, infinite where numbers end."""
    return as_float(count) * cost if cost else 0.0


class BasicAccountant(Accountant):
    """ε and δ add up; events without a δ of their own share what is left of it equally."""

    name = "basic"

    def _epsilon(self, counts: Mapping[DpEvent, int], delta: float) -> float:
        return _pure_total(counts) if delta == 0.0 else _shares(counts, delta)[0]


def _shares(counts: Mapping[DpEvent, int], delta: float) -> tuple[float, list[tuple[float, int]]]:
    """Return the total ε and the (ε_i, count_i), with δ shared among the events."""
    own = math.fsum(
        _times(n, leaf.delta) for leaf, n in counts.items() if isinstance(leaf, ApproximateDpEvent)
    )
    sharing = sum(
        n
        for leaf, n in counts.items()
        if pure_epsilon(leaf) is None and not isinstance(leaf, ApproximateDpEvent)
    )
    left = delta - own
    if left < 0.0 or (left == 0.0 and sharing):
        return math.inf, []
    share = left / as_float(sharing) if sharing else 0.0
    if sharing and share == 0.0:
        return math.inf, []
    costs = [(_single_epsilon(leaf, share), n) for leaf, n in counts.items()]
    return math.fsum(_times(n, cost) for cost, n in costs) * (1.0 + 1e-12), costs


class AdvancedAccountant(Accountant):
    """Advanced composition: a share of δ buys a square-root growth of ε.

    ε = Σ ε_i·tanh(ε_i/2) + sqrt(2·ln(1/δ')·Σ ε_i²), over several splits of δ; never worse than
    adding up.
    """

    name = "advanced"

    def _epsilon(self, counts: Mapping[DpEvent, int], delta: float) -> float:
        if delta == 0.0:
            return _pure_total(counts)
        best = _shares(counts, delta)[0]
        for slack in (0.05, 0.25, 0.5, 0.75, 0.95):
            _, costs = _shares(counts, delta * (1.0 - slack))
            rest = delta * slack
            if not costs or rest == 0.0 or any(math.isinf(cost) for cost, _ in costs):
                continue
            drift = math.fsum(_times(n, cost * math.tanh(cost / 2.0)) for cost, n in costs)
            spread = math.fsum(_times(n, cost * cost) for cost, n in costs)
            best = min(best, drift + math.sqrt(2.0 * -math.log(rest) * spread))
        return best


class ZCDPAccountant(Accountant):
    """Sums of ρ; a mechanism known by (ε, δ) is δ-approximately ε²/2-concentrated."""

    name = "zcdp"

    def _epsilon(self, counts: Mapping[DpEvent, int], delta: float) -> float:
        rho = math.fsum(_times(n, concentration(leaf)[0]) for leaf, n in counts.items())
        own = math.fsum(_times(n, concentration(leaf)[1]) for leaf, n in counts.items())
        pure = _pure_total(counts)
        return min(pure, gaussian.zcdp_to_dp(rho, delta - own)) if delta > own else pure


def concentration(leaf: DpEvent) -> tuple[float, float]:
    """Return (ρ, δ) such that the event is δ-approximately ρ-zCDP."""
    match leaf:
        case GaussianDpEvent(multiplier):
            return 0.5 * gaussian.inverse_square(multiplier), 0.0
        case DiscreteGaussianDpEvent(sigma, moved):  # Canonne, Kamath & Steinke 2020
            return 0.5 * gaussian.inverse_square(sigma / moved * (1.0 - 2.0**-52)), 0.0
        case ZCDpEvent(rho):
            return rho, 0.0
        case ApproximateDpEvent(epsilon, delta):
            return gaussian.pure_to_zcdp(epsilon), delta
        case PoissonSampledDpEvent(_, child, neighbours):
            # quasi-convexity of Rényi divergences: a sample costs at most the whole
            return concentration(_unsampled(child, neighbours))
        case SampledWithoutReplacementDpEvent(_, _, child):
            return concentration(child)
        case NonPrivateDpEvent():
            return math.inf, 0.0
    exact = pure_epsilon(leaf)
    if exact is None:
        raise _cannot("zcdp", leaf)
    return gaussian.pure_to_zcdp(float_above(exact)), 0.0


class RDPAccountant(Accountant):
    """Rényi divergences at a range of orders."""

    name = "rdp"

    def check_supported(self, leaf: DpEvent) -> None:
        """Refuse (ε, δ) mechanisms, shuffled messages and sampled events under replacement."""
        if isinstance(leaf, ShuffledDpEvent):
            raise _cannot("rdp", leaf)
        if isinstance(leaf, ApproximateDpEvent) and leaf.delta > 0.0:
            raise _cannot("rdp", leaf)
        if isinstance(leaf, PoissonSampledDpEvent) and leaf.neighbours == REPLACE:
            raise _cannot("rdp", leaf)

    def _epsilon(self, counts: Mapping[DpEvent, int], delta: float) -> float:
        pure = _pure_total(counts)
        if delta == 0.0:
            return pure
        claimed = {t for leaf in counts if isinstance(leaf, RenyiDpEvent) for t in leaf.excesses}
        orders = tuple(sorted({*_ORDERS, *claimed})) if claimed else _ORDERS
        moments = [0.0] * len(orders)
        for leaf, n in counts.items():
            parts, own = _rdp_of(leaf, orders)
            delta -= _times(n, own)
            moments = [k + _times(n, part) for k, part in zip(moments, parts, strict=True)]
        if delta <= 0.0:
            return pure
        tried = [renyi(k, t, math.log(delta)) for k, t in zip(moments, orders, strict=True)]
        return min(pure, max(0.0, min(tried)))


_CURVE_SHARES = (0.01, 0.1, 0.5, 0.9, 0.99)  # of δ for Rényi curves beside other events

# Rényi orders, less one
_ORDERS = (
    *(k / 10.0 for k in range(1, 100)),
    *(float(k) for k in range(10, 63)),
    *(2.0**k - 1.0 for k in range(6, 31)),
)


@lru_cache(maxsize=256)
def _rdp_of(leaf: DpEvent, orders: tuple[float, ...]) -> tuple[tuple[float, ...], float]:
    """Return (α − 1)·(Rényi divergence) of one event at each order, and the δ beside it."""
    match leaf:
        case RenyiDpEvent():
            return tuple(leaf.log_moment(t) for t in orders), 0.0
        case GaussianDpEvent() | DiscreteGaussianDpEvent() | ZCDpEvent():
            rho = concentration(leaf)[0]
            return tuple(t * (1.0 + t) * rho for t in orders), 0.0
    bag = ((leaf, 1),)
    found = [log_moments(bag, side, orders) for side in sides(bag)]
    worst = tuple(max(at_order) for at_order in zip(*(k for k, _ in found), strict=True))
    return worst, max(infinite for _, infinite in found)


class PLDAccountant(Accountant):
    """Privacy-loss distributions; the headline of every certificate.

    Unsampled Gaussians merge into one exactly (their 1/σ² add), and a bag of Gaussians alone
    is answered in closed form. Everything else is convolved (`tacit.privacy.accounting.pld`). At
    δ = 0 the answer is the sum of pure ε.
    """

    name = "pld"

    def check_supported(self, leaf: DpEvent) -> None:
        """Refuse ρ-zCDP events, which have no privacy-loss distribution of their own."""
        if isinstance(leaf, ZCDpEvent):
            raise _cannot("pld", leaf)

    def _epsilon(self, counts: Mapping[DpEvent, int], delta: float) -> float:
        added = _added_total(counts, delta)
        if delta == 0.0:
            return added
        if any(isinstance(leaf, RenyiDpEvent) for leaf in counts):
            return _with_curves(counts, delta)
        if all(isinstance(leaf, GaussianDpEvent) for leaf in counts):
            return gaussian.gdp_to_dp(gaussian_mu(counts), delta)
        match list(counts.items()):
            case [(ApproximateDpEvent(epsilon, own), 1)] if own <= delta:
                return _approximate_epsilon(epsilon, own, delta)
        return min(added, composed_epsilon(counts, delta))

    def delta(self, epsilon: float) -> float:
        """Return the δ of the composed distribution, in closed form for Gaussians alone."""
        check("epsilon", epsilon, Real(0, allow_inf=True))
        counts = {leaf: n for leaf, n in self._counts.items() if not _is_free(leaf)}
        if any(isinstance(leaf, NonPrivateDpEvent) for leaf in counts):
            return 1.0
        if not counts or _pure_total(counts) <= epsilon or math.isinf(epsilon):
            return 0.0
        if any(isinstance(leaf, RenyiDpEvent) for leaf in counts):
            return super().delta(epsilon)
        if all(isinstance(leaf, GaussianDpEvent) for leaf in counts):
            return gaussian.gdp_delta(gaussian_mu(counts), epsilon)
        return composed_delta(counts, epsilon)


def _with_curves(counts: Mapping[DpEvent, int], delta: float) -> float:
    """Return the least ε of adding up Rényi curves with the rest, and of sharing δ with it."""
    kinds = {leaf: isinstance(leaf, RenyiDpEvent) for leaf in counts}
    curves, rest = ({leaf: n for leaf, n in counts.items() if kinds[leaf] == k} for k in (1, 0))
    best = math.inf
    with suppress(NotCertified):  # of events without Rényi divergences
        for leaf in rest:
            RDPAccountant().check_supported(leaf)
        best = RDPAccountant(counts).epsilon(delta)
    for share in _CURVE_SHARES if rest else ():
        ours = RDPAccountant(curves).epsilon(delta * share)
        theirs = PLDAccountant(rest).epsilon(delta * (1.0 - share))
        best = min(best, (ours + theirs) * (1.0 + 1e-15))
    return best


@lru_cache(maxsize=4096)
def _single_epsilon(leaf: DpEvent, delta: float) -> float:
    """Return the ε of one elementary event at its share of δ."""
    if isinstance(leaf, ZCDpEvent):
        return gaussian.zcdp_to_dp(leaf.rho, delta) if delta > 0.0 else math.inf
    if isinstance(leaf, ApproximateDpEvent):
        return leaf.epsilon
    return PLDAccountant({leaf: 1}).epsilon(delta)


ACCOUNTANTS: Mapping[str, type[Accountant]] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            PLDAccountant,
            RDPAccountant,
            ZCDPAccountant,
            AdvancedAccountant,
            BasicAccountant,
        )
    }
)


def accountant(name: str = "pld") -> Accountant:
    """Return an accountant that has seen nothing yet."""
    check("accountant", name, OneOf(*ACCOUNTANTS))
    return ACCOUNTANTS[name]()


def epsilon_of(event: DpEvent, delta: float, name: str = "pld") -> float:
    """Return the ε of an event at δ.

    >>> round(epsilon_of(PoissonSampledDpEvent(0.02, GaussianDpEvent(2.87)), 1e-3), 3)
    0.006
    """
    return accountant(name).add(event).epsilon(delta)
