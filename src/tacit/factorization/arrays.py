"""Names for the arrays that signatures speak of most."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["Arrays", "Factors", "Floats", "Integers"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Arrays = dict[str, Floats]  # one's own, by name
Factors = Mapping[str, Floats]  # to read only
