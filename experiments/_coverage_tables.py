"""Simulated tables for `experiments.coverage`: columns of four shapes, rows of a regression."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

QUANTILES = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Shape:
    """A column: how it is drawn, its public range, and what is true of it."""

    draw: Callable[[np.random.Generator, int], Any]
    bounds: tuple[float, float]
    mean: float
    sd: float
    quantiles: tuple[float, ...]
    densities: tuple[float, ...]  # at the quantiles; none of a column of whole numbers
    step: float = 0.0  # between neighbouring values, as it is stated

    @property
    def whole(self) -> bool:
        """Whether a quantile is a value that many rows have: then no interval is too short."""
        return not self.densities

    def truth(self, statistic: str, rows: int) -> float:
        """Return what an interval should hold."""
        if statistic == "count":
            return float(rows)
        if statistic == "mean":
            return self.mean
        return self.quantiles[QUANTILES.index(float(statistic.split()[1]))]

    def oracle(self, statistic: str, rows: int) -> float | None:
        """Return the width of a 90 % interval without privacy, for who knows the law."""
        z = 2.0 * float(stats.norm.ppf(0.95))
        if statistic == "count":
            return None
        if statistic == "mean":
            return z * self.sd / math.sqrt(rows)
        if self.whole:
            return None
        k = QUANTILES.index(float(statistic.split()[1]))
        return z * math.sqrt(QUANTILES[k] * (1.0 - QUANTILES[k]) / rows) / self.densities[k]


def _smooth(law: Any, bounds: tuple[float, float]) -> Shape:
    """Return a column that follows a law of SciPy and is clipped to its bounds."""
    low, high = bounds

    def expected(power: int) -> float:
        inside = law.expect(lambda x: x**power, lb=low, ub=high)
        return float(inside + low**power * law.cdf(low) + high**power * law.sf(high))

    mean = expected(1)
    places = law.ppf(QUANTILES)
    return Shape(
        lambda rng, n: np.clip(law.rvs(n, random_state=rng), low, high),
        bounds,
        mean,
        math.sqrt(expected(2) - mean**2),
        tuple(float(x) for x in places),
        tuple(float(x) for x in law.pdf(places)),
    )


def shapes() -> dict[str, Shape]:
    """Return the columns: a bell, a long tail in two ranges, an even one, small whole numbers."""
    tail = stats.lognorm(1.0, scale=math.exp(3.0))
    poisson, most = stats.poisson(4.0), 20
    numbers = np.arange(200)
    chances = poisson.pmf(numbers)
    cut = np.minimum(numbers, most)
    mean = float(chances @ cut)
    return {
        "normal": _smooth(stats.norm(50.0, 10.0), (0.0, 100.0)),
        "lognormal": _smooth(tail, (0.0, 200.0)),
        "lognormal, wide range": _smooth(tail, (0.0, 1000.0)),
        "uniform": _smooth(stats.uniform(0.0, 100.0), (0.0, 100.0)),
        "whole numbers": Shape(
            lambda rng, n: np.minimum(rng.poisson(4.0, n), most).astype(float),
            (0.0, float(most)),
            mean,
            math.sqrt(float(chances @ cut**2) - mean**2),
            tuple(float(x) for x in poisson.ppf(QUANTILES)),
            (),
            step=1.0,
        ),
    }


FEATURES = {"a": (-1.0, 1.0), "b": (0.0, 10.0), "c": (0.0, 40.0)}
RESPONSE = (-200.0, 200.0)


def regression_rows(seed: int, n: int) -> tuple[dict[str, Any], dict[str, float]]:
    """Return a table and its coefficients.

    Coefficients are drawn anew for every table, on the scale on which ranges are [−1, 1], from the
    law that the estimator believes in: normal with a variance ~ IG(2, 0.2), residuals with a
    variance ~ IG(1.5, 0.01), up to 0.15². Features fill a part of their ranges, so that responses
    keep within theirs for nearly all coefficients; the few tables of which one does not are drawn
    again. What lies outside is clipped, and no interval counts that.
    """
    rng = np.random.default_rng([seed, n])
    scaled = np.column_stack(
        [
            rng.normal(0.0, 0.12, n),
            rng.uniform(-0.25, 0.25, n),
            0.6 * (rng.beta(2.0, 5.0, n) - 0.3),
        ]
    )
    while True:
        sd, residual_sd = math.sqrt(0.2 / rng.gamma(2.0)), math.sqrt(0.01 / rng.gamma(1.5))
        intercept, *slopes = sd * rng.standard_normal(4)
        y = 0.5 * intercept + scaled @ slopes + residual_sd * rng.standard_normal(n)
        if residual_sd < 0.15 and np.abs(y).max() < 1.0:
            break
    half_y, middle_y = (RESPONSE[1] - RESPONSE[0]) / 2.0, (RESPONSE[1] + RESPONSE[0]) / 2.0
    table, truth = {}, {"intercept": middle_y + half_y * 0.5 * intercept}
    for k, (name, (low, high)) in enumerate(FEATURES.items()):
        half, middle = (high - low) / 2.0, (high + low) / 2.0
        table[name] = middle + half * scaled[:, k]
        truth[name] = half_y * slopes[k] / half
        truth["intercept"] -= truth[name] * middle
    return {**table, "y": middle_y + half_y * y}, truth
