"""Noise for a target: a monotone search over an accountant, and named budget splits.

Every search returns the side that meets the target, so the accountant confirms what was asked.
Calibration leaves 2⁻³⁰ of δ unused. That pays for the distance η of a noise source from its ideal
law, as long as (1 + e^ε)·draws·η stays below it (PRIVACY A5): always for the grid source
(η < 2⁻¹⁰⁰), and for thousands of draws of the exact one (η < 2⁻⁶⁶) from δ = 1e-7 on. Certificates
list η in any case.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache

from tacit._core.check import Integer, OneOf, Real, check
from tacit.errors import NotCertified, ParameterError
from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.accounting.pld import ever_sampled, rough_epsilon
from tacit.privacy.accounting.shuffled import LARGEST_LOCAL, shuffled_deltas
from tacit.privacy.amounts import as_exact, float_above, float_below
from tacit.privacy.claims import RenyiDpEvent
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    ShuffledDpEvent,
    leaves,
    repeat,
)

__all__ = [
    "SOURCE_SHARE",
    "calibrate",
    "gaussian_event",
    "gaussian_noise_multiplier",
    "gaussian_sigma",
    "laplace_noise_multiplier",
    "shuffled_local_epsilon",
    "split_budget",
]

SOURCE_SHARE = 2.0**-30  # the part of δ that is left for the noise source
_MANY = 20_000  # events whose convolution takes long
_ENOUGH = 1e-3  # of the noise where a search begins, of which no less is asked for if any will do
_RARELY = 0.5  # probability of being sampled at all below which digits of noise hardly matter
_COUNTLESS = 10**7  # events for which Rényi's bound is all that is asked


@lru_cache(maxsize=256)
def gaussian_sigma(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the smallest σ for which one Gaussian release is (ε, δ)-private.

    The analytic calibration of Balle & Wang (2018), valid for every ε.

    >>> round(gaussian_sigma(1.0, 1e-4), 2)
    3.19
    """
    check("sensitivity", sensitivity, Real(0, open_low=True))
    return sensitivity / gaussian.dp_to_gdp(epsilon, delta * (1.0 - SOURCE_SHARE))


def laplace_noise_multiplier(epsilon: float) -> float:
    """Return the smallest scale / sensitivity whose ε, as an exact rational, is at most ε."""
    check("epsilon", epsilon, Real(0, open_low=True))
    return float_above(1 / as_exact(epsilon))


def calibrate(
    event_for: Callable[[float], DpEvent],
    epsilon: float,
    delta: float = 0.0,
    *,
    accountant: str = "pld",
    start: float = 1.0,
) -> float:
    """Return the smallest noise parameter for which ``event_for(noise)`` is (ε, δ)-private.

    Parameters
    ----------
    event_for
        Maps a noise parameter to the event of the whole schedule; more noise, less ε.
    epsilon, delta
        The target.
    accountant
        Whose ε must meet it.
    start
        Where the search begins.

    Examples
    --------
    >>> from tacit.privacy.events import LaplaceDpEvent
    >>> round(calibrate(lambda scale: repeat(LaplaceDpEvent(scale), 10), 1.0), 6)
    10.0
    """
    check("epsilon", epsilon, Real(0, open_low=True))
    check("delta", delta, Real(0, 1, open_high=True))
    usable = delta * (1.0 - SOURCE_SHARE)
    events = leaves(event_for(start))
    start = min(max(start, 1e-290), 1e290)
    enough, rare = _ENOUGH * start, ever_sampled(events) < _RARELY
    if accountant == "pld" and usable > 0.0 and _convolved(events):
        # Rényi's bound is cheap, and its noise is rarely twice what is needed
        countless = sum(events.values()) > _COUNTLESS
        start = gaussian.solve_decreasing(
            lambda noise: rough_epsilon(leaves(event_for(noise)), usable),
            epsilon,
            start / 2.0,
            start,
            tolerance=1e-5 if countless else 1e-2,
            enough=enough,
        )
        if countless:
            return start
    # a ledger rounds ε up, and an ε on the grid of losses can be the target to the last digit
    target = math.nextafter(epsilon, 0.0) if usable > 0.0 else epsilon
    return gaussian.solve_decreasing(
        lambda noise: epsilon_of(event_for(noise), usable, accountant),
        target,
        start / 2.0,
        start,
        # what a longer convolution adds to ε exceeds a finer step
        tolerance=1e-4 if rare else 1e-7 if sum(events.values()) < _MANY else 1e-5,
        enough=enough,
    )


def _convolved(events: Mapping[DpEvent, int]) -> bool:
    """Whether the cost of events is neither a closed form nor of Rényi divergences."""
    if any(isinstance(event, RenyiDpEvent) for event in events):
        return False
    return not all(isinstance(event, GaussianDpEvent) for event in events)


def gaussian_event(
    noise_multiplier: float, *, rate: float = 1.0, steps: int = 1, neighbours: str = ADD_REMOVE
) -> DpEvent:
    """Return the event of Gaussian steps with noise relative to the clip norm of one unit.

    Under replace-one a unit moves the sum by up to twice its clip norm; for Poisson samples
    (``rate`` < 1) the accountant works with the exact mixture instead of a doubled clip.
    """
    check("neighbours", neighbours, OneOf(ADD_REMOVE, REPLACE))
    step = PoissonSampledDpEvent(rate, GaussianDpEvent(noise_multiplier), neighbours)
    return repeat(step, steps)


def gaussian_noise_multiplier(
    epsilon: float,
    delta: float,
    *,
    rate: float = 1.0,
    steps: int = 1,
    neighbours: str = ADD_REMOVE,
    accountant: str = "pld",
) -> float:
    """Return the smallest σ / clip for ``steps`` (Poisson-sampled) Gaussian steps.

    >>> round(gaussian_noise_multiplier(1.0, 1e-5, rate=0.01, steps=1000), 3)
    1.415
    """
    check("steps", steps, Integer(1))
    check("rate", rate, Real(0, 1, open_low=True))
    return calibrate(
        lambda noise: gaussian_event(noise, rate=rate, steps=steps, neighbours=neighbours),
        epsilon,
        delta,
        accountant=accountant,
    )


def split_budget(total: float, weights: Mapping[str, float]) -> dict[str, float]:
    """Split a budget by named weights so that the parts never add up to more than the total.

    The parts are rounded down as exact rationals (`tacit.privacy.amounts`).

    >>> split_budget(1.0, {"offsets": 1, "factors": 3})
    {'offsets': 0.25, 'factors': 0.75}
    """
    check("total", total, Real(0))
    if not weights:
        raise ParameterError("weights must name at least one part")
    for name, weight in weights.items():
        check(f"weight of {name!r}", weight, Real(0))
    whole = sum((as_exact(weight) for weight in weights.values()), Fraction(0))
    if whole == 0:
        raise ParameterError("at least one weight must be positive")
    return {
        name: float_below(as_exact(total) * as_exact(weight) / whole)
        for name, weight in weights.items()
    }


def shuffled_local_epsilon(epsilon: float, delta: float, people: int, rounds: int = 1) -> float:
    """Return the largest ε₀ whose messages, shuffled in every round, are (ε, δ)-private together.

    Parameters
    ----------
    epsilon, delta
        The target; δ > 0.
    people
        How many persons' messages are shuffled in each round.
    rounds
        How many rounds each person takes part in.

    Examples
    --------
    >>> 1.5 < shuffled_local_epsilon(0.1, 1e-6, 100_000) < 3.5
    True
    """
    check("epsilon", epsilon, Real(0, 30, open_low=True))
    check("people", people, Integer(1))
    check("rounds", rounds, Integer(1))
    if delta < 1e-12:
        raise NotCertified("amplification by shuffling needs δ of at least 1e-12")
    return _searched(float(epsilon), float(delta), people, rounds)


@lru_cache(maxsize=256)
def _searched(epsilon: float, delta: float, people: int, rounds: int) -> float:
    """Return the largest ε₀ by bisection, confirmed by the accountant."""
    usable = delta * (1.0 - 2.0**-20)

    def holds(local: float) -> bool:
        event = repeat(ShuffledDpEvent(local, people), rounds)
        return epsilon_of(event, usable) <= epsilon

    def seems(local: float) -> bool:  # without the accountant's grid of losses
        return float(shuffled_deltas(local, people, [epsilon])[0]) <= usable

    low, high = epsilon / rounds, LARGEST_LOCAL  # messages without a shuffler may have the least
    test = seems if rounds == 1 else holds
    while high > low * 1.001:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if test(middle) else (low, middle)
    while low > epsilon / rounds and not holds(low):
        low /= 1.001
    return max(low, epsilon / rounds)
