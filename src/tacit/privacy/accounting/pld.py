"""ε and δ of bags of events, by privacy-loss distributions.

The least of the valid bounds is stated: the tilted convolution (`composition.convolved`) and
Rényi's (`composition.renyi_epsilon`), for the worse of the two directions. Unsampled Gaussians are
one Gaussian, whose 1/σ² is the sum of theirs.

A convolution is planned for a decade of δ and answers for all of it, so within a decade ε falls
with δ by construction; at the border to the next smaller one its answer there bounds ε too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import NamedTuple

from scipy import special

from tacit.privacy.accounting import composition, gaussian, losses
from tacit.privacy.accounting.composition import (
    Bag,
    bag_of,
    convolved,
    renyi_delta,
    renyi_epsilon,
    sides,
)
from tacit.privacy.accounting.curves import Curve
from tacit.privacy.accounting.jumps import JumpCurve, has_jumps, with_jumps
from tacit.privacy.accounting.pairs import UNIT, replaced_place
from tacit.privacy.amounts import as_float, float_above
from tacit.privacy.events import (
    REPLACE,
    ApproximateDpEvent,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    _unsampled,
    pure_epsilon,
)

__all__ = [
    "clear_caches",
    "composed_delta",
    "composed_epsilon",
    "ever_sampled",
    "gaussian_mu",
    "rough_epsilon",
]

_MOST_EVENTS = 10**14  # beyond, rounding errors of a convolution exceed what it says
_END = 10**200  # beyond, numbers end
_LEAST_NOISE = 1e-3  # below, nothing is gained by sampling or by being exact
_LEAST_RATE = 1e-100  # of sampling, for which quotients are numbers
_SMALLEST_DELTA = 1e-280  # that a convolution resolves
_HOPELESS = 1e6  # an ε of one event beyond which nobody needs more than the sum
_RARELY = 0.1  # probability of being sampled at all below which losses are jumps
_NEAR = 1.02  # a δ this close to the end of its decade is compared with the next


def gaussian_mu(counts: Mapping[DpEvent, int]) -> float:
    """Return μ of a bag of Gaussians: their squares add."""
    return math.sqrt(
        math.fsum(
            as_float(n) * gaussian.inverse_square(leaf.noise_multiplier)
            for leaf, n in counts.items()
            if isinstance(leaf, GaussianDpEvent)
        )
    )


class _Prepared(NamedTuple):
    """A bag to be convolved, with what is only added up: ε, δ, and the μ of a large Gaussian."""

    bag: Bag
    epsilon: float
    delta: float
    mu: float


def _prepared(counts: Mapping[DpEvent, int]) -> _Prepared:
    """Return a bag with at most one Gaussian and without events that are hardly private."""
    plain: dict[DpEvent, int] = {}
    epsilon = delta = 0.0
    for leaf, n in counts.items():
        match leaf:
            case PoissonSampledDpEvent(_, GaussianDpEvent(noise) as child, neighbours) if (
                noise < _LEAST_NOISE
            ):  # quasi-convexity: a sample costs at most the whole
                single = _unsampled(child, neighbours)
            case SampledWithoutReplacementDpEvent(_, _, GaussianDpEvent(noise) as child) if (
                noise < _LEAST_NOISE
            ):
                single = child
            case ApproximateDpEvent(own, slack) if own > _HOPELESS:
                epsilon, delta = epsilon + as_float(n) * own, delta + as_float(n) * slack
                continue
            case _:
                single = leaf
        pure = pure_epsilon(single)
        if pure is not None and pure > _HOPELESS:
            epsilon += as_float(n) * float_above(pure)
        else:
            plain[single] = plain.get(single, 0) + n
    rest = {leaf: n for leaf, n in plain.items() if not isinstance(leaf, GaussianDpEvent)}
    mu = gaussian_mu(plain) * (1.0 + 1e-15)
    if mu > 1.0 / _LEAST_NOISE:
        return _Prepared(bag_of(rest), epsilon, delta, mu)
    if mu > 0.0 and not math.isinf(1.0 / mu):
        rest[GaussianDpEvent(1.0 / mu)] = 1
    return _Prepared(bag_of(rest), epsilon, delta, 0.0)


def ever_sampled(counts: Mapping[DpEvent, int]) -> float:
    """Return how probably a unit is part of any sample, from above; 1 if all are looked at once.

    Where it is in none, outputs have one law: this is a δ at ε = 0, whatever the noise.
    """
    missed = 0.0  # ln of the probability
    for leaf, n in counts.items():
        match leaf:
            case PoissonSampledDpEvent(rate, _, _) if rate < 1.0:
                missed += as_float(n) * math.log1p(-rate)
            case SampledWithoutReplacementDpEvent() if leaf.upper.sampling_probability < 1.0:
                missed += as_float(n) * math.log1p(-leaf.upper.sampling_probability)
            case _:
                return 1.0
    return min(-math.expm1(missed) * (1.0 + 1e-12), 1.0)


def composed_epsilon(counts: Mapping[DpEvent, int], delta: float) -> float:
    """Return the ε of a bag at δ > 0, which ledger and certificate of a run both ask for."""
    if ever_sampled(counts) <= delta:
        return 0.0
    bag, added, own, mu = _prepared(counts)
    left = (delta - own) * (1.0 - 1e-15 if own else 1.0)
    if left <= 0.0 or math.isinf(mu):
        return math.inf
    if mu > 0.0:
        left /= 2.0
        added += gaussian.gdp_to_dp(mu, left) if left > 0.0 else math.inf
    return (added + (_epsilon(bag, left) if bag else 0.0)) * (1.0 + 1e-15 if added else 1.0)


def rough_epsilon(counts: Mapping[DpEvent, int], delta: float) -> float:
    """Return Rényi's bound on the ε of a bag, where a search begins."""
    if ever_sampled(counts) <= delta:
        return 0.0
    bag, added, own, mu = _prepared(counts)
    if mu > 0.0 or delta <= own or sum(n for _, n in bag) > _END:
        return math.inf
    return added + max((renyi_epsilon(bag, side, delta - own) for side in sides(bag)), default=0.0)


def composed_delta(counts: Mapping[DpEvent, int], epsilon: float) -> float:
    """Return the δ of a bag at ε."""
    bag, added, own, mu = _prepared(counts)
    most = ever_sampled(counts)
    left = epsilon - added * (1.0 + 1e-15)
    if left < 0.0 or math.isinf(mu):
        return most
    if mu > 0.0:
        left /= 2.0
        own += gaussian.gdp_delta(mu, left)
    return min(most, own + (_delta(bag, left) if bag else 0.0))


def _one_sampled(bag: Bag) -> Callable[[float], float] | None:
    """Return δ(ε) of a single sampled Gaussian in closed form, or None.

    With P = (1 − q)·N₀ + q·N₁, (P − e^ε·N₀)₊ = q·(N₁ − e^y·N₀)₊ where e^y = 1 + (e^ε − 1)/q, and
    (N₀ − e^ε·P)₊ = c·(N₀ − e^y·N₁)₊ where c = q − (1 − q)·(e^ε − 1) and e^y = q·e^ε/c.
    Without replacement the curve is that of the first; of a replaced unit `_one_replaced`.
    """
    both = True
    match bag:
        case ((SampledWithoutReplacementDpEvent(_, _, GaussianDpEvent(noise)) as leaf, 1),):
            rate, mu, both = leaf.upper.sampling_probability, 1.0 / noise, False
        case ((PoissonSampledDpEvent(rate, GaussianDpEvent(noise), neighbours), 1),) if (
            rate > _LEAST_RATE
        ):
            mu = 1.0 / noise
            if neighbours == REPLACE:
                return partial(_one_replaced, rate, mu)
        case _:
            return None

    def delta(epsilon: float) -> float:
        if epsilon > 700.0:
            return rate * gaussian.gdp_delta(mu, epsilon) * (1.0 + 1e-12)
        grown = math.expm1(epsilon)
        worst = rate * gaussian.gdp_delta(mu, math.log1p(grown / rate))
        rest = rate - (1.0 - rate) * grown
        if both and rest > 0.0:
            shifted = epsilon + math.log(rate) - math.log(rest)
            worst = max(worst, rest * gaussian.gdp_delta(mu, shifted))
        return worst * (1.0 + 1e-12)

    return delta


def _one_replaced(rate: float, mu: float, epsilon: float) -> float:
    """Return δ(ε) of one sampled Gaussian where a unit is replaced.

    The loss grows with z and is ε at z(ε) (`pairs.replaced_gaussian`), so that with Φ̄ = 1 − Φ
    δ = q·Φ̄(z − μ) − q·e^ε·Φ̄(z + μ) − (1 − q)·(e^ε − 1)·Φ̄(z). An error of z counts in second order
    only, one of Φ̄ by some roundings times z².
    """
    whole = rate * gaussian.gdp_delta(2.0 * mu, epsilon)  # without what both laws share
    if epsilon > 700.0:
        return whole * (1.0 + 1e-12)
    z = replaced_place(rate, mu, epsilon)
    # e^ε·Φ̄(z + μ) does not overflow as an exponential
    minus = math.exp(epsilon + float(special.log_ndtr(-z - mu)))
    terms = (
        rate * float(special.ndtr(mu - z)),
        -rate * minus,
        -(1.0 - rate) * math.expm1(epsilon) * float(special.ndtr(-z)),
    )
    rounding = 64.0 * UNIT * (1.0 + (z + mu) ** 2) * math.fsum(map(abs, terms))
    return min(max(math.fsum(terms), 0.0) + rounding, whole * (1.0 + 1e-12))


def _convolves(bag: Bag) -> bool:
    return sum(n for _, n in bag) <= _MOST_EVENTS


def _decade(delta: float) -> int:
    return math.floor(0.5 - math.log10(delta))


def _by_need(bounds: dict[bool, float]) -> list[bool]:
    """Return the directions of a bag, the one with the larger bound first."""
    return sorted(bounds, key=lambda swapped: -bounds[swapped])


@lru_cache(maxsize=512)
def _epsilon(bag: Bag, delta: float) -> float:
    if sum(n for _, n in bag) > _END:
        return math.inf
    if (exact := _one_sampled(bag)) is not None:
        if exact(0.0) <= delta:
            return 0.0
        most = max(renyi_epsilon(bag, side, delta) for side in sides(bag))
        if math.isfinite(most) and delta > _SMALLEST_DELTA:
            return gaussian.solve_decreasing(exact, delta, most / 2.0, most)
    bounds = {side: renyi_epsilon(bag, side, delta) for side in sides(bag)}
    if not _convolves(bag) or delta < _SMALLEST_DELTA:
        return max(bounds.values())
    worst = 0.0
    for side in _by_need(bounds):
        if bounds[side] > worst:
            worst = max(worst, min(bounds[side], _convolved_epsilon(bag, side, delta)))
    return worst


@lru_cache(maxsize=64)
def _curves(bag: Bag, side: bool, decade: int) -> list[Curve | JumpCurve]:
    """Return valid curves of one side of a bag for a decade of δ: the least of them counts."""
    if ever_sampled(dict(bag)) < _RARELY and (jumps := with_jumps(bag, side, decade)):
        return [jumps]
    curve = convolved(bag, side, decade)
    found: list[Curve | JumpCurve] = [] if curve is None else [curve]
    ends = (10.0 ** -(decade + 0.5), min(10.0 ** -(decade - 0.5), 0.5))
    if has_jumps(bag) and not (curve and all(curve.is_tight(end) for end in ends)):
        jumps = with_jumps(bag, side, decade)
        found += [] if jumps is None else [jumps]
    return found


def _convolved_epsilon(bag: Bag, side: bool, delta: float) -> float:
    decade = _decade(delta)
    found = [max(0.0, curve.epsilon(delta)) for curve in _curves(bag, side, decade)]
    border = 10.0 ** -(decade + 0.5)
    if delta < border * _NEAR:
        found += [max(0.0, curve.epsilon(border)) for curve in _curves(bag, side, decade + 1)]
    return min(found, default=math.inf)


@lru_cache(maxsize=512)
def _delta(bag: Bag, epsilon: float) -> float:
    if sum(n for _, n in bag) > _END:
        return 1.0
    if (exact := _one_sampled(bag)) is not None:
        return exact(epsilon)
    bounds = {side: renyi_delta(bag, side, epsilon) for side in sides(bag)}
    if not _convolves(bag):
        return max(bounds.values())
    worst = 0.0
    for side in _by_need(bounds):
        if bounds[side] > worst:
            worst = max(worst, _convolved_delta(bag, side, epsilon, bounds[side]))
    return worst


def _convolved_delta(bag: Bag, side: bool, epsilon: float, bound: float) -> float:
    """Return δ by the convolution of the decade that it turns out to lie in."""
    for _ in range(4):
        if not _SMALLEST_DELTA < bound < 1.0:
            break
        decade = max(_decade(bound), 0)
        found = min((curve.delta(epsilon) for curve in _curves(bag, side, decade)), default=1.0)
        if found >= bound:
            break
        bound = found
        if _decade(bound) == decade:
            break
    return bound


def clear_caches() -> None:
    """Forget computed distributions, for measurements of speed."""
    for cached in (
        _epsilon,
        _delta,
        _curves,
        convolved,
        with_jumps,
        renyi_delta,
        renyi_epsilon,
        composition._orders,
    ):
        cached.cache_clear()
    losses.sketch.cache_clear()
