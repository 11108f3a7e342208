"""From the scale on which rows were summed back to the caller's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tacit.estimators.regression_release import CONSTANT, Design
from tacit.estimators.regression_summary import SiteSummary
from tacit.models.regression import Moments
from tacit.privacy.events import REPLACE

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["back_matrix", "mean_weight", "residual_variance"]


def back_matrix(design: Design) -> NDArray[np.float64]:
    """Return the matrix from the model's coefficients to (intercept − middle of y, coef)."""
    response, scale = design.half[-1], design.published or 1.0
    features = np.diag([response * scale / half for half in design.half[:-1]])
    middles = np.array(design.middle[:-1])
    back = np.zeros((design.features + 1, design.coefficients))
    back[1:, design.coefficients - design.features :] = features
    back[0] = -middles @ back[1:]
    if design.intercept:
        back[0, 0] = response * CONSTANT
    return back


def mean_weight(summaries: Sequence[SiteSummary]) -> float:
    """Return the mean weight s² of a row, from its share of the public number of rows.

    σ² of the model is the mean square of *scaled* residuals, s²·e² over n rows. Under add-remove
    the noisy count is Σ s² itself. Under replace-one the constant's own entry of S, c²·Σ s² +
    noise, says how much smaller than n it is: the mean of the normal law of that between the
    smallest weight a row can have and 1. Without an intercept there is no such entry, and rows
    count as not scaled.
    """
    known = [s for s in summaries if s.design.neighbours == REPLACE and s.design.intercept]
    if len(known) < len(summaries):
        return 1.0
    rows = sum(s.moments.rows * s.design.average for s in known)
    found = sum(float(s.moments.gram[0, 0]) for s in known) / CONSTANT**2 / rows
    sd = math.sqrt(sum(s.moments.gram_sd**2 for s in known)) / CONSTANT**2 / rows
    least = min(s.design.rows.least_weight for s in known)
    if sd < 1e-6 * (1.0 - least) or least >= 1.0:
        return min(max(found, least), 1.0)
    from scipy.stats import truncnorm

    return float(truncnorm.mean((least - found) / sd, (1.0 - found) / sd, found, sd))


def residual_variance(moments: Sequence[Moments], coefficients: NDArray[np.float64]) -> float:
    """Return the mean square of residuals from exact sums; NaN where sums are noisy."""
    squares, freedom = 0.0, -float(len(coefficients))
    for part in moments:
        if part.gram_sd > 0.0 or part.square is None:
            return math.nan
        fitted = coefficients @ part.gram @ coefficients - 2.0 * coefficients @ part.cross
        squares += float(part.square + fitted)
        freedom += part.rows
    return max(squares, 0.0) / max(freedom, 1.0)
