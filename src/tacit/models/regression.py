"""Linear regression from second moments: what a site's rows say about the coefficients.

With rows x and responses y, y = xᵀβ + e and e ~ N(0, σ²), the sums S = Σ x·xᵀ, z = Σ x·y and
u = Σ y² are all that the coefficients need. A `Moments` holds them for one site as they were
released, with the standard deviations of the noise on them, which are public.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Moments"]


@dataclass(frozen=True)
class Moments:
    """One site's second moments, as released, on the model's own scale.

    Parameters
    ----------
    gram
        S + noise, d × d and symmetric.
    cross
        z + noise.
    rows
        The number of rows n_j, or a released count.
    square
        u + noise, None where it was not released.
    gram_sd
        Standard deviation of the noise on S's diagonal. The noise is isotropic among symmetric
        matrices: its variance off the diagonal is half of that. 0 is no noise.
    cross_sd, square_sd, rows_sd
        Standard deviations of the independent noise on each entry of z, on u, on the count.
    """

    gram: NDArray[np.float64]
    cross: NDArray[np.float64]
    rows: float
    square: float | None = None
    gram_sd: float = 0.0
    cross_sd: float = 0.0
    square_sd: float = 0.0
    rows_sd: float = 0.0
