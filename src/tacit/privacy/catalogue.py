"""Every mechanism by name: what an amount of noise gives, and what noise a target needs.

This is what ``tacit certify`` and ``tacit calibrate`` ask. A mechanism is described by its own
noise parameter (σ, a scale, the probability of a lie, …).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tacit._core.check import Integer, OneOf, Real, check
from tacit.errors import NotCertified, ParameterError
from tacit.privacy import calibration
from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import (
    ADD_REMOVE,
    MOST_CATEGORIES,
    REPLACE,
    ApproximateDpEvent,
    DiscreteLaplaceDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    repeat,
)
from tacit.privacy.guarantee import round_up

__all__ = ["CATALOGUE", "Entry", "Query"]

_DIGITS = 6  # of noise that is printed
_TRIES = 20
_AMOUNT = Real(1e-150, 1e150)  # quotients of two are numbers


@dataclass(frozen=True)
class Query:
    """The public facts of a release, apart from its noise.

    Parameters
    ----------
    sensitivity
        How far one unit moves the value when it is added or removed.
    neighbours
        Under replace-one an additive release and a utility move twice as far.
    rate, steps
        Poisson sampling probability and number of releases.
    delta
        The δ, which smooth sensitivity needs at each step.
    categories
        Answers of randomized response.
    """

    sensitivity: float = 1.0
    neighbours: str = ADD_REMOVE
    rate: float = 1.0
    steps: int = 1
    delta: float = 0.0
    categories: int = 2

    def __post_init__(self) -> None:
        check("sensitivity", self.sensitivity, _AMOUNT)
        check("neighbours", self.neighbours, OneOf(ADD_REMOVE, REPLACE))
        check("rate", self.rate, Real(0, 1, open_low=True))
        check("steps", self.steps, Integer(1))
        check("delta", self.delta, Real(0, 1, open_high=True))
        check("categories", self.categories, Integer(2, MOST_CATEGORIES))

    @property
    def reach(self) -> float:
        """How far one neighbour moves an additive release, or a utility."""
        return self.sensitivity * (2.0 if self.neighbours == REPLACE else 1.0)


@dataclass(frozen=True)
class Entry:
    """One mechanism.

    Attributes
    ----------
    parameter, meaning
        The name of the noise parameter and what it is.
    step
        (parameter, query) → the event of one unsampled release.
    from_epsilon
        (ε, query) → the parameter at which one release is ε-private, or None for Gaussian
        noise, which is searched directly.
    sampled
        Whether Poisson sampling can be accounted for.
    """

    parameter: str
    meaning: str
    step: Callable[[float, Query], DpEvent]
    from_epsilon: Callable[[float, Query], float] | None
    sampled: bool = False

    def event(self, value: float, query: Query) -> DpEvent:
        """Return the event of the whole schedule at one amount of noise."""
        check(self.parameter, value, _AMOUNT)
        if query.rate == 1.0:
            return repeat(self.step(value, query), query.steps)
        if not self.sampled:
            raise NotCertified("amplification by sampling is known here for gaussian and laplace")
        clip = Query(query.sensitivity)  # a sampled event states noise relative to the clip
        event = PoissonSampledDpEvent(query.rate, self.step(value, clip), query.neighbours)
        return repeat(event, query.steps)

    def calibrate(self, epsilon: float, query: Query, accountant: str = "pld") -> float:
        """Return the least noise of six digits for which the whole schedule is (ε, δ)-private.

        What is printed is what was confirmed, so it holds when it is typed in again.
        """
        value = self._least(epsilon, query, accountant)
        nearest = float(f"{value:.{_DIGITS}g}")
        if nearest < value and not self._meets(nearest, epsilon, query, accountant):
            nearest = round_up(value, _DIGITS)
        for _ in range(_TRIES):
            if self._meets(nearest, epsilon, query, accountant):
                return nearest
            nearest = round_up(nearest * (1.0 + 10.0**-_DIGITS), _DIGITS)
        raise NotCertified(f"no {self.parameter} of {_DIGITS} digits reaches ε = {epsilon:g}")

    def _meets(self, value: float, epsilon: float, query: Query, accountant: str) -> bool:
        try:
            event = self.event(value, query)
        except (NotCertified, ParameterError):
            return False
        return epsilon_of(event, query.delta, accountant) <= epsilon

    def _least(self, epsilon: float, query: Query, accountant: str) -> float:
        """Return the least noise as the search finds it."""
        check("epsilon", epsilon, _AMOUNT)
        if self.from_epsilon is None:
            return calibration.calibrate(
                lambda value: self.event(value, query),
                epsilon,
                query.delta,
                accountant=accountant,
                start=query.sensitivity,
            )
        from_epsilon = self.from_epsilon
        inverse = calibration.calibrate(
            lambda inverse: self.event(from_epsilon(1.0 / inverse, query), query),
            epsilon,
            query.delta,
            accountant=accountant,
            start=1.0 / epsilon,
        )
        return from_epsilon(1.0 / inverse, query)


def _smooth(scale: float, query: Query) -> DpEvent:
    if query.delta == 0.0 or query.neighbours != REPLACE:
        raise NotCertified("smooth sensitivity needs delta > 0 and replace-one neighbours")
    epsilon = 2.0 / scale
    if epsilon > 10.0:
        raise NotCertified("smooth-sensitivity Laplace noise is certified up to ε = 10")
    if query.delta > 0.1:
        raise NotCertified("smooth sensitivity is sound up to δ = 0.1: pass less")
    # what calibration leaves to the noise source is left here too
    share = (1.0 - 2.0 * calibration.SOURCE_SHARE) / query.steps
    if query.delta * share > 0.1:
        raise NotCertified("smooth-sensitivity Laplace noise is certified up to δ = 0.1 a release")
    return ApproximateDpEvent(epsilon, query.delta * share)


def _one_bit(magnitude: float, query: Query) -> DpEvent:
    if magnitude <= 1.0:
        raise NotCertified("magnitude must exceed 1: at 1 the bit is the value itself")
    return ApproximateDpEvent(2.0 * math.atanh(1.0 / magnitude))


def _piecewise(reach: float, query: Query) -> DpEvent:
    if reach <= 1.0:
        raise NotCertified("reach must exceed 1: at 1 the value itself is released")
    return ApproximateDpEvent(4.0 * math.atanh(1.0 / reach))


def _grown(epsilon: float) -> float:
    """Return e^ε, at most e^300: more noise than needed is still enough."""
    return math.exp(min(epsilon, 300.0))


def hybrid_deviation(epsilon: float) -> float:
    """Return the worst standard deviation of a hybrid answer (Wang et al. 2019, equation 10)."""
    bit = 1.0 / math.tanh(epsilon / 2.0) ** 2
    if epsilon <= 0.61:
        return math.sqrt(bit)
    half = _grown(epsilon / 2.0)
    return math.sqrt((half + 3.0) / (3.0 * half * (half - 1.0)) + bit / half)


def _hybrid(deviation: float, query: Query) -> DpEvent:
    least = hybrid_deviation(30.0)
    if deviation <= least:
        raise NotCertified(f"deviation must exceed {least:.2g}, that at ε = 30")
    # the least ε whose noise is no more than that, from above: no more is claimed than is there
    return ApproximateDpEvent(gaussian.solve_decreasing(hybrid_deviation, deviation, 0.5, 1.0))


_GAUSSIAN = Entry(
    "sigma",
    "standard deviation of the noise",
    lambda sigma, q: GaussianDpEvent(sigma / q.reach),
    None,
    sampled=True,
)

CATALOGUE: Mapping[str, Entry] = MappingProxyType(
    {
        "gaussian": _GAUSSIAN,
        "symmetric-gaussian": _GAUSSIAN,
        "laplace": Entry(
            "scale",
            "scale of the noise",
            lambda scale, q: LaplaceDpEvent(scale / q.reach),
            lambda epsilon, q: q.reach / epsilon,
            sampled=True,
        ),
        "geometric": Entry(
            "scale",
            "P(k) ∝ exp(−|k|/scale); the sensitivity is a whole number",
            lambda scale, q: DiscreteLaplaceDpEvent(1.0 / scale, math.ceil(q.reach)),
            lambda epsilon, q: math.ceil(q.reach) / epsilon,
        ),
        "k-norm": Entry(
            "scale",
            "density ∝ exp(−‖b‖/scale), for an L2 sensitivity",
            lambda scale, q: ApproximateDpEvent(q.reach / scale),
            lambda epsilon, q: q.reach / epsilon,
        ),
        "smooth-laplace": Entry(
            "scale",
            "scale of the noise in units of the smooth sensitivity",
            _smooth,
            lambda epsilon, q: 2.0 / epsilon,
        ),
        "randomized-response": Entry(
            "lie",
            "probability of a uniform answer",
            lambda lie, q: RandomizedResponseDpEvent(lie, q.categories),
            lambda epsilon, q: q.categories / (_grown(epsilon) + q.categories - 1.0),
        ),
        "one-bit": Entry(
            "magnitude",
            "every answer is plus or minus this, for values in [-1, 1]",
            _one_bit,
            lambda epsilon, q: 1.0 / math.tanh(epsilon / 2.0),
        ),
        "piecewise": Entry(
            "reach",
            "answers lie in plus or minus this, for values in [-1, 1]",
            _piecewise,
            lambda epsilon, q: 1.0 / math.tanh(epsilon / 4.0),
        ),
        "hybrid": Entry(
            "deviation",
            "worst standard deviation of an answer, for values in [-1, 1]",
            _hybrid,
            lambda epsilon, q: hybrid_deviation(epsilon),
        ),
        "exponential": Entry(
            "scale",
            "P(candidate) ∝ exp(utility/scale)",
            lambda scale, q: ApproximateDpEvent(2.0 * q.reach / scale),
            lambda epsilon, q: 2.0 * q.reach / epsilon,
        ),
    }
)
