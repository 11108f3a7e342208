"""From the success of an attack to a lower bound on ε.

**Two data sets.** An attacker sees a release of D or of its neighbour D′, computes a score, and
says D when the score exceeds a threshold. For an (ε, δ)-private release (Kairouz et al. 2015) the
false alarms α and the misses β of every such test satisfy

    α ≥ e^−ε·(1 − δ − β)   and   β ≥ e^−ε·(1 − δ − α).

So ε ≥ log((1 − δ − β)/α), with both rates replaced by Clopper–Pearson upper bounds. The threshold
is chosen on one half of the runs and judged on the other, so the confidence needs no correction.

**Gaussian trade-off.** A release that is μ-Gaussian private has Φ⁻¹(1 − α) − Φ⁻¹(β) ≤ μ for every
test, and hence μ is bounded from below in the same way; ε then follows at any δ. This bound is
much sharper, and rests on the claim that the release has a Gaussian trade-off (a composition of
Gaussian mechanisms without sampling has). It says what the *claimed* μ is worth; it does not
bound ε for any other mechanism, and the result records which bound it is.

**One run** (Steinke, Nasr and Jagielski 2023, Theorem 5.2). m canaries are included each with a
fair coin; the attacker guesses r of the coins from one release and v guesses are right. Under
(ε, δ) and f(v) = P(Binomial(r, e^ε/(1 + e^ε)) ≥ v),

    P(at least v are right) ≤ f(v) + 2·m·δ·max_{1 ≤ i ≤ v} (f(v − i) − f(v))/i.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import optimize, stats

from tacit._core.check import Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.privacy.accounting.gaussian import gdp_to_dp

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["ErrorRates", "LowerBound", "epsilon_at_least", "one_run_epsilon"]


@dataclass(frozen=True)
class ErrorRates:
    """How often a test was wrong about either data set.

    Parameters
    ----------
    alarms, alarm_runs
        How often it said D when D′ was true, and of how many runs.
    misses, miss_runs
        How often it said D′ when D was true, and of how many runs.

    Examples
    --------
    >>> rates = ErrorRates(2, 1000, 3, 1000)
    >>> 3.5 < rates.epsilon(delta=1e-6) < rates.gaussian_epsilon(delta=1e-6)
    True
    """

    alarms: int
    alarm_runs: int
    misses: int
    miss_runs: int

    def __post_init__(self) -> None:
        check("alarm_runs", self.alarm_runs, Integer(1))
        check("alarms", self.alarms, Integer(0, self.alarm_runs))
        check("miss_runs", self.miss_runs, Integer(1))
        check("misses", self.misses, Integer(0, self.miss_runs))

    def limits(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return upper limits of both rates that hold together with the given confidence."""
        level = (1.0 - confidence) / 2.0
        return (
            float(_at_most(self.alarms, self.alarm_runs, level)),
            float(_at_most(self.misses, self.miss_runs, level)),
        )

    def epsilon(self, delta: float, confidence: float = 0.95) -> float:
        """Return a lower bound on ε at δ, whatever the mechanism is."""
        return float(_pure_bound(*self.limits(confidence), delta))

    def gaussian_epsilon(self, delta: float, confidence: float = 0.95) -> float:
        """Return a lower bound on ε at δ, for a release with a Gaussian trade-off."""
        mu = float(_gaussian_bound(*self.limits(confidence)))
        return gdp_to_dp(mu, delta) if mu > 0.0 else 0.0


@dataclass(frozen=True)
class LowerBound:
    """What an attack proves.

    Parameters
    ----------
    epsilon
        ε is at least this, with the stated confidence.
    delta, confidence
        For which δ, and how certain.
    kind
        ``"any"`` holds for every mechanism, ``"gaussian"`` for a Gaussian trade-off.
    rates
        The errors of the test on the runs that judged it.
    threshold
        Of the score.
    """

    epsilon: float
    delta: float
    confidence: float
    kind: str
    rates: ErrorRates
    threshold: float


def epsilon_at_least(
    ours: Any, theirs: Any, *, delta: float, confidence: float = 0.95, kind: str = "any"
) -> LowerBound:
    """Bound ε from below by scores of releases of two neighbouring data sets.

    Parameters
    ----------
    ours, theirs
        Scores of independent runs on D and on D′; D should score higher.
    delta
        The δ of the guarantee that is checked.
    confidence
        Probability with which the bound holds.
    kind
        ``"any"`` or ``"gaussian"``, see the module.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ours, theirs = rng.normal(3, 1, 4000), rng.normal(0, 1, 4000)
    >>> bound = epsilon_at_least(ours, theirs, delta=1e-5)
    >>> 2.0 < bound.epsilon < 14.2  # what a Gaussian mechanism with σ = Δ/3 has
    True
    """
    check("delta", delta, Real(0, 1, open_high=True))
    check("confidence", confidence, Real(0, 1, open_low=True, open_high=True))
    check("kind", kind, OneOf("any", "gaussian"))
    first, second = (_scores(name, s) for name, s in (("ours", ours), ("theirs", theirs)))
    threshold = _best_threshold(first[::2], second[::2], delta, confidence, kind)
    ours, theirs = first[1::2], second[1::2]
    alarms, misses = int((theirs > threshold).sum()), int((ours <= threshold).sum())
    rates = ErrorRates(alarms, len(theirs), misses, len(ours))
    bound = rates.epsilon if kind == "any" else rates.gaussian_epsilon
    return LowerBound(bound(delta, confidence), delta, confidence, kind, rates, threshold)


def one_run_epsilon(
    right: int, guesses: int, canaries: int, *, delta: float, confidence: float = 0.95
) -> float:
    """Bound ε from below by how many canaries were told from one release.

    Parameters
    ----------
    right, guesses
        How many guesses were right, and how many were made (the attacker may abstain).
    canaries
        How many canaries were in or out by a fair coin each.
    delta, confidence
        As in `epsilon_at_least`.

    Examples
    --------
    >>> one_run_epsilon(500, 1000, 1000, delta=0.0)  # no better than coins
    0.0
    >>> 2.2 < one_run_epsilon(930, 1000, 1000, delta=1e-6) < math.log(0.93 / 0.07)
    True
    """
    check("canaries", canaries, Integer(1))
    check("guesses", guesses, Integer(0, canaries))
    check("right", right, Integer(0, guesses))
    check("delta", delta, Real(0, 1, open_high=True))
    check("confidence", confidence, Real(0, 1, open_low=True, open_high=True))
    level = 1.0 - confidence

    def chance(epsilon: float) -> float:
        """Return an upper bound on the probability of so many right guesses under ε."""
        p = 1.0 / (1.0 + math.exp(-epsilon))
        tails = stats.binom.sf(np.arange(right + 1) - 1, guesses, p)  # f(0) … f(right)
        extra = 0.0
        if right and delta > 0.0:
            steps = np.arange(1, right + 1)
            extra = float(np.max((tails[right - steps] - tails[right]) / steps))
        return float(tails[right] + 2.0 * canaries * delta * extra)

    if chance(0.0) >= level:
        return 0.0
    high = 1.0
    while chance(high) < level:
        if high > 100.0:
            return high
        high *= 2.0
    return float(optimize.brentq(lambda epsilon: chance(epsilon) - level, 0.0, high))


def _best_threshold(ours: Any, theirs: Any, delta: float, confidence: float, kind: str) -> float:
    """Return the threshold whose bound would be the largest on these scores."""
    if kind == "gaussian":
        # errors in balance: Φ⁻¹ of a rate is known best near ½, and nothing is picked by chance
        return float((np.mean(ours) + np.mean(theirs)) / 2.0)
    cuts = np.unique(np.quantile(np.concatenate([ours, theirs]), np.linspace(0.0, 1.0, 257)))
    alarms = len(theirs) - np.searchsorted(np.sort(theirs), cuts, side="right")
    misses = np.searchsorted(np.sort(ours), cuts, side="right")
    level = (1.0 - confidence) / 2.0
    limits = _at_most(alarms, len(theirs), level), _at_most(misses, len(ours), level)
    return float(cuts[np.argmax(_pure_bound(*limits, delta))])


def _at_most(wrong: Any, runs: int, level: float) -> Any:
    """Clopper–Pearson: the rate is at most this, except with probability ``level``."""
    some = np.minimum(wrong, runs - 1)
    return np.where(wrong < runs, stats.beta.isf(level, some + 1, runs - some), 1.0)


def _pure_bound(alarm: Any, miss: Any, delta: float) -> Any:
    """Return ε from upper limits of both error rates, zero where they say nothing."""
    ratios = (1.0 - delta - miss) / alarm, (1.0 - delta - alarm) / miss
    return np.log(np.maximum(np.maximum(*ratios), 1.0))


def _gaussian_bound(alarm: Any, miss: Any) -> Any:
    """Return μ from upper limits of both error rates."""
    return np.maximum(stats.norm.isf(alarm) - stats.norm.ppf(miss), 0.0)


def _scores(name: str, values: Any) -> NDArray[np.float64]:
    scores = np.asarray(values, np.float64)
    if scores.ndim != 1 or len(scores) < 4 or not np.isfinite(scores).all():
        raise ParameterError(f"{name} must hold at least four finite scores, one per run")
    return scores
