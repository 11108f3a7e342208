"""Per-unit clipping and contribution bounds.

What a unit contributes is bounded here, unit by unit and silently: the share that was clipped
is private too (PRIVACY A3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["bound_contributions", "clip_factors", "clip_rows", "clip_values", "factors_for"]


def clip_values(values: Any, low: float, high: float) -> NDArray[np.float64]:
    """Clip numbers to public bounds; what is not a number becomes the middle.

    >>> clip_values([-1.0, 0.5, float("nan")], 0, 1)
    array([0. , 0.5, 0.5])
    """
    array = np.array(values, dtype=np.float64)
    array[np.isnan(array)] = (low + high) / 2.0
    return np.clip(array, low, high)


def clip_factors(rows: Any, norm: float, *, order: int = 2) -> NDArray[np.float64]:
    """Return the factor ≤ 1 that brings each row's L1 or L2 norm within ``norm``.

    A row with a number that is not finite gets the factor 0.
    """
    check("norm", norm, Real(0, open_low=True))
    check("order", order, OneOf(1, 2))
    rows = np.asarray(rows, dtype=np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
        if order == 1:
            lengths = np.abs(rows).sum(axis=1)
        else:
            # scaled by the largest number, so that squares do not overflow
            largest = np.abs(rows).max(axis=1, initial=0.0)
            safe = np.where((largest > 0) & np.isfinite(largest), largest, 1.0)
            lengths = safe * np.sqrt(np.square(rows / safe[:, None]).sum(axis=1))
    return factors_for(lengths, norm, rows.shape[1])


def factors_for(lengths: Any, norm: float, size: int) -> NDArray[np.float64]:
    """Return the factor ≤ 1 that brings each of some computed norms within ``norm``.

    Norms are computed in float64; one that is not finite gets the factor 0. A sum of d = ``size``
    numbers is off by up to d parts in 2⁵³, in the norm and after scaling, and the factor leaves
    room for that.

    Examples
    --------
    >>> factors_for([0.5, 2.0, float("nan")], 1.0, 3).round(6).tolist()
    [1.0, 0.5, 0.0]
    """
    lengths = np.asarray(lengths, np.float64)
    room = 1.0 - (size + 8) * 2.0**-51
    with np.errstate(all="ignore"):
        factors = np.where(lengths > norm * room, norm * room / lengths, 1.0)
    # a factor this small has lost its digits; whoever sends such numbers counts as nothing
    usable = np.isfinite(lengths) & (factors > 1e-290)
    return np.where(usable, factors, 0.0)


def clip_rows(rows: Any, norm: float, *, order: int = 2) -> NDArray[np.float64]:
    """Scale each row down so that its L1 or L2 norm is at most ``norm``.

    >>> clip_rows([[3.0, 4.0], [0.3, 0.4]], 1.0).round(3).tolist()
    [[0.6, 0.8], [0.3, 0.4]]
    """
    factors = clip_factors(rows, norm, order=order)
    rows = np.nan_to_num(np.asarray(rows, dtype=np.float64), posinf=0.0, neginf=0.0)
    return np.asarray(rows * factors[:, None])


def bound_contributions(units: Any, limit: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Return a mask that keeps at most ``limit`` records of each unit, chosen at random.

    ``units`` is the unit (user, patient, …) of each record; ``rng`` an inference generator: the
    choice does not depend on the records' content.
    """
    check("limit", limit, Integer(1))
    # records without a unit (NaN) share one limit
    units = np.unique(np.asarray(units), return_inverse=True)[1].reshape(-1)
    order = rng.permutation(units.size)
    by_unit = order[np.argsort(units[order], kind="stable")]
    ordered = units[by_unit]
    first = np.ones(units.size, dtype=bool)
    first[1:] = ordered[1:] != ordered[:-1]
    starts = np.flatnonzero(first)
    position = np.arange(units.size)
    rank = position - np.repeat(starts, np.diff(np.r_[starts, units.size]))
    mask = np.zeros(units.size, dtype=bool)
    mask[by_unit[rank < limit]] = True
    return mask
