"""How sure a network may be: one factor for its outputs, from a release about its own rows.

Noise stops training before log-odds have grown, so predictions are too modest, the more the fewer
rows there are. What outputs must be multiplied by shows where the mean confidence equals the
share of rows that are right, and both are means over rows: one more noisy sum, at the network that
was learned. With the probabilities p(s) of a row, a mean over posterior samples of softmax(s·o),
its label y, and scales s₁ … s_m, a row contributes

    v = ( a·(1[argmax p(1) = y] − ½),  max p(s₁) − ½,  …,  max p(s_m) − ½ ),   ‖v‖ ≤ ½·√(a² + m),

because a probability and an indicator lie in [0, 1]. That bound holds for all weights that may be
asked about, and a row with outputs that are not finite contributes nothing. a² = √m makes the
noise of the differences least: their variance (1 + 1/a²)·(a² + m)/4 is stationary there.

From the sums V the gap D(s_j) = V₀/a − V_j, the number of rows that are right less the sum of
confidences, needs no count of rows. It falls in s, so the nearest falling sequence replaces it,
and a smooth falling curve joins its points. Below the smallest of the scales confidences come down
to one over the number of classes, in proportion to s: there the public number of rows says what is
left. Normal errors of the known variance and a normal prior say how likely each scale is.

**Too sure costs more than too modest**, without a bound, so what is taken is not the middle of
these scales but one that `_CARE` of them lie below. Where few noisy rows say nothing the prior
decides: outputs are then mostly noise, and a network that is sure of them does worse than knowing
nothing (PRIVACY A9). Prior and care were chosen on simulated tables. All of that is
post-processing.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from sklearn.isotonic import isotonic_regression

from tacit.networks.backend import torch

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["NORM", "PARTS", "contributions", "scale_of"]

_LOGS = np.array([-1.0, 0.5, 2.0, 3.5, 5.0])  # log₂ of the scales: few, with little noise each
PARTS = 1 + len(_LOGS)  # numbers of a release
_WEIGHT = len(_LOGS) ** 0.25  # a
NORM = 0.5 * math.sqrt(_WEIGHT**2 + len(_LOGS))  # of a row's part of the sum
SPREAD = math.sqrt(1.0 + 1.0 / _WEIGHT**2)  # of a gap, over the noise of one number
_LEAST = -6.0  # log₂ of the smallest scale that is looked at, under which nothing is left
_PRIOR = -2.0, 2.0  # mean and standard deviation of log₂ s
_CARE = 0.2


def contributions(outputs: Any, targets: Any) -> Any:
    """Return what rows contribute, (rows, `PARTS`), in float64.

    Parameters
    ----------
    outputs
        Of every posterior sample, (samples, rows, classes).
    targets
        The numbers of the true classes.

    Examples
    --------
    >>> found = contributions(torch.zeros(1, 2, 2), torch.tensor([0, 1]))
    >>> found.shape, bool((found.norm(dim=1) <= NORM).all())
    (torch.Size([2, 6]), True)
    """
    wide = outputs.to(torch.float64)
    right = _shares(wide, 1.0).argmax(1) == targets
    parts = [_WEIGHT * (right.to(torch.float64) - 0.5)]
    for log in _LOGS:
        parts.append(_shares(wide, 2.0**log).amax(1).clamp(0.0, 1.0) - 0.5)
    found = torch.stack(parts, 1)
    usable = torch.isfinite(wide).all(2).all(0) & torch.isfinite(found).all(1)
    return torch.where(usable[:, None], found, 0.0)


def _shares(outputs: Any, scale: float) -> Any:
    return torch.softmax(scale * outputs, 2).mean(0)


def scale_of(sums: NDArray[np.float64], noise: float, rows: float, classes: int) -> float:
    """Return what outputs are multiplied by before they become probabilities.

    Parameters
    ----------
    sums
        What was released, `PARTS` numbers.
    noise
        The standard deviation of the noise on each of them.
    rows
        About how many rows were asked, a public number.
    classes
        How many there are.

    Examples
    --------
    >>> outputs, classes = torch.tensor([[[1.0, 0.0]] * 100]), torch.zeros(100, dtype=torch.int64)
    >>> found = contributions(outputs, classes).sum(0).numpy()
    >>> scale_of(found, 0.1, 100, 2) > 8.0  # all are right
    True
    >>> round(scale_of(np.zeros(PARTS), 1e9, 100, 2), 1)  # nothing was learned
    0.1
    """
    gaps = sums[0] / _WEIGHT - sums[1:]
    falling = isotonic_regression(gaps, increasing=False)
    fine = np.linspace(_LEAST, _LOGS[-1], 1101)
    away = PchipInterpolator(_LOGS, falling)(np.maximum(fine, _LOGS[0]))
    # what confidences have above chance at the smallest scale, and less of below it
    above = np.clip(sums[1] + 0.5 * rows, rows / classes, rows) - rows / classes
    away += above * np.maximum(0.0, 1.0 - 2.0 ** (fine - _LOGS[0]))
    spread = SPREAD * max(noise, 1e-9)
    middle, width = _PRIOR
    logs = -0.5 * (away / spread) ** 2 - 0.5 * ((fine - middle) / width) ** 2
    chances = np.exp(logs - logs.max())
    reached = np.cumsum(chances) / chances.sum()
    return float(2.0 ** fine[int(np.searchsorted(reached, _CARE))])
