"""The array type that annotations name most."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Array"]

Array: TypeAlias = NDArray[np.float64]
