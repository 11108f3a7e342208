"""From the scale on which rows were summed back to the caller's own.

With t = (x − m)/h and y = m₀ + h₀·(c·b₀ + Σ b_k·t_k) the coefficient of feature k is h₀·b_k/h_k,
and the intercept is m₀ + h₀·c·b₀ − Σ coef_k·m_k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit._core.chains import inference_data
from tacit._core.check import Real, check
from tacit.errors import ParameterError
from tacit.regression.design import Design
from tacit.regression.numerics.moments import Moments
from tacit.regression.numerics.posterior import Posterior
from tacit.regression.summary import SiteSummary

__all__ = ["Line", "mean_weight", "noise_unit", "r_squared", "to_arviz", "to_callers_scale"]


@dataclass(frozen=True)
class Line:
    """What predictions need, on the caller's own scale: posterior means and their covariance."""

    coef: Array
    intercept: float
    covariance: Array  # of intercept and coefficients; NaN for a point estimate
    noise_sd: float  # of residuals; NaN where it is not known

    @classmethod
    def of(cls, posterior: Posterior, design: Design, summaries: Sequence[SiteSummary]) -> Line:
        """Return what a posterior says, on the caller's own scale."""
        back = to_callers_scale(design)
        mean = back @ posterior.mean
        variance = float(np.mean(posterior.noise_variance))
        if math.isnan(variance):
            variance = _residual_variance([s.moments for s in summaries], posterior.mean)
        unit = noise_unit(design, summaries)
        return cls(
            mean[1:],
            float(mean[0] + design.middle[-1]),
            back @ posterior.covariance @ back.T,
            unit * math.sqrt(variance) if variance >= 0.0 else math.nan,
        )

    @classmethod
    def zero(cls, features: int) -> Line:
        """Return the line of whoever knows nothing: zero, without intervals."""
        unknown = np.full((features + 1, features + 1), np.nan)
        return cls(np.zeros(features), 0.0, unknown, math.nan)

    @property
    def arrays(self) -> dict[str, Any]:
        """Everything by name, as a release keeps it."""
        return {
            "coef": self.coef,
            "coef_sd": self.sd[1:],
            "covariance": self.covariance,
            "intercept": np.array(self.intercept),
            "noise_sd": np.array(self.noise_sd),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Line:
        """Return it from what a release keeps."""
        return cls(
            arrays["coef"],
            float(arrays["intercept"]),
            arrays["covariance"],
            float(arrays["noise_sd"]),
        )

    @property
    def sd(self) -> Array:
        """Posterior standard deviations of the intercept and of each coefficient."""
        return np.asarray(np.sqrt(np.maximum(np.diag(self.covariance), 0.0)))

    def predict(self, matrix: Array, return_sd: bool, interval: float | None) -> Any:
        """Return the mean at each row, its standard deviation and an interval if asked for."""
        mean = matrix @ self.coef + self.intercept
        if not return_sd and interval is None:
            return mean
        if not np.isfinite(self.covariance).all():
            raise ParameterError("a point estimate has no intervals: use method='auto'")
        whole = np.column_stack([np.ones(len(matrix)), matrix])
        # the offset is known; the rest of the intercept is uncertain as the covariance says
        spread = np.einsum("ij,jk,ik->i", whole, self.covariance, whole)
        residual = self.noise_sd if math.isfinite(self.noise_sd) else 0.0
        sd = np.sqrt(np.maximum(spread, 0.0) + residual**2)
        out: list[Any] = [mean]
        if return_sd:
            out.append(sd)
        if interval is not None:
            check("interval", interval, Real(0, 1, open_low=True, open_high=True))
            from scipy.special import ndtri

            reach = float(ndtri(0.5 + interval / 2.0)) * sd
            out.append((mean - reach, mean + reach))
        return tuple(out)


def to_callers_scale(design: Design) -> Array:
    """Return the matrix from the model's coefficients to (intercept − middle of y, coef)."""
    response = design.half[-1]
    weights = np.array(design.weighted or (1.0,) * design.features)
    features = np.diag(response * design.stretch * weights / np.array(design.half[:-1]))
    middles = np.array(design.middle[:-1])
    back = np.zeros((design.features + 1, design.coefficients))
    back[1:, design.coefficients - design.features :] = features
    back[0] = -middles @ back[1:]
    if design.intercept:
        back[0, 0] = response * design.constant
    return back


def to_arviz(
    posterior: Posterior | None,
    design: Design,
    summaries: Sequence[SiteSummary],
    names: Sequence[str],
) -> Any:
    """Return all draws of coefficients, intercept and residuals as ArviZ ``InferenceData``."""
    if posterior is None:
        raise ParameterError("a release holds no draws: pass its summaries_ to fit")
    draws = np.asarray(posterior.draws) @ to_callers_scale(design).T
    variance = np.asarray(posterior.noise_variance).reshape(draws.shape[:2])
    values = {
        "coef": draws[..., 1:],
        "intercept": draws[..., 0] + design.middle[-1],
        "noise_sd": noise_unit(design, summaries) * np.sqrt(variance),
    }
    return inference_data(values, coords={"feature": list(names)}, dims={"coef": ["feature"]})


def r_squared(y: Any, found: Array) -> float:
    """Return the share of the responses' variance that was found."""
    y = np.asarray(y, np.float64)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.shape != (len(found),):
        raise ParameterError(f"y must have one value for each row of X, got shape {y.shape}")
    residual = np.sum(np.square(y - found))
    return float(1.0 - residual / np.sum(np.square(y - y.mean())))


def noise_unit(design: Design, summaries: Sequence[SiteSummary]) -> float:
    """Return what σ = 1 of the model is on the caller's own scale."""
    return design.half[-1] / math.sqrt(mean_weight(summaries))


def mean_weight(summaries: Sequence[SiteSummary]) -> float:
    """Return the mean weight s² of a row, from its share of the public number of rows.

    σ² of the model is the mean square of *scaled* residuals, s²·e² over n rows. Under add-remove
    the noisy count is Σ s² itself. Under replace-one the constant's own entry of S, c²·Σ s² +
    noise, says how much smaller than n it is: the mean of the normal law of that between the
    smallest weight a row can have and 1. Without an intercept there is no such entry, and rows
    count as not scaled.
    """
    known = [s for s in summaries if s.design.knows_rows and s.design.intercept]
    if len(known) < len(summaries):
        return 1.0
    rows = sum(s.moments.rows * s.design.rows_per_count for s in known)
    square = known[0].design.constant ** 2 * rows
    found = sum(float(s.moments.gram[0, 0]) for s in known) / square
    sd = math.sqrt(sum(s.moments.gram_sd**2 for s in known)) / square
    least = min(s.design.rows.least_weight for s in known)
    if sd < 1e-6 * (1.0 - least) or least >= 1.0:
        return min(max(found, least), 1.0)
    from scipy.stats import truncnorm

    return float(truncnorm.mean((least - found) / sd, (1.0 - found) / sd, found, sd))


def _residual_variance(moments: Sequence[Moments], coefficients: Array) -> float:
    """Return the mean square of residuals from exact sums; NaN where sums are noisy."""
    squares, freedom = 0.0, -float(len(coefficients))
    for part in moments:
        if part.gram_sd > 0.0 or part.square is None:
            return math.nan
        fitted = coefficients @ part.gram @ coefficients - 2.0 * coefficients @ part.cross
        squares += float(part.square + fitted)
        freedom += part.rows
    return max(squares, 0.0) / max(freedom, 1.0)
