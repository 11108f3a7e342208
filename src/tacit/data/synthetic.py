"""Generators with known truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit._core.check import Integer, check
from tacit._core.rng import generator

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["HOSPITAL_BOUNDS", "hospital_tables"]

# Public ranges of the columns below, as a laboratory handbook would state them.
HOSPITAL_BOUNDS: dict[str, tuple[float, float]] = {
    "age": (0.0, 110.0),
    "systolic": (60.0, 240.0),
    "stay": (0.0, 60.0),
}


def hospital_tables(
    sizes: dict[str, int], seed: int = 0
) -> dict[str, dict[str, NDArray[np.float64]]]:
    """Return one table of patients per hospital: age, systolic pressure and days of stay.

    Parameters
    ----------
    sizes
        Hospital → number of patients.
    seed
        Seed of the generator.

    Examples
    --------
    >>> sorted(hospital_tables({"North": 10})["North"])
    ['age', 'stay', 'systolic']
    """
    tables = {}
    for hospital, size in sizes.items():
        check(f"size of {hospital!r}", size, Integer(1))
        rng = generator(seed, f"hospital {hospital}")
        shift = rng.normal(0.0, 4.0)
        age = np.clip(rng.normal(58.0 + shift, 17.0, size), 0.0, 105.0)
        systolic = np.clip(rng.normal(105.0 + 0.45 * age, 14.0, size), 70.0, 230.0)
        stay = np.minimum(rng.gamma(1.6, 2.0 + age / 60.0, size), 59.0)
        tables[hospital] = {"age": age, "systolic": systolic, "stay": stay}
    return tables
