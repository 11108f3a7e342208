"""Rows as a network sees them: a function of each row alone, and of public bounds.

Inputs are clipped to their bounds and mapped to [0, 1], which is what fixed features and a module
of the caller's get; a perceptron gets rows of norm one or less.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.check import as_bounds
from tacit.errors import ParameterError
from tacit.mechanisms.clipping import clip_values
from tacit.networks.backend import nn, torch

__all__ = ["NORMALIZE", "PIECE", "seen_rows"]

PIECE = 2000  # rows that are predicted or mapped at once
_ALIKE = 16  # inputs that share one range and can be compared with each other, such as pixels


def seen_rows(
    X: Any, bounds: Any, *, features: nn.Module | None = None, normalize: str | None = None
) -> Any:
    """Return rows as a tensor.

    ``bounds`` is the public range (low, high) of every input, or one pair for each; ``features`` a
    fixed module that maps rows in [0, 1], row by row. ``normalize`` is what a perceptron sees
    without features, a name of `NORMALIZE` or ``"auto"``; None: rows in [0, 1], as they are.

    Examples
    --------
    >>> seen_rows([[0.0, 4.0]], (0, 4), normalize="none").tolist()
    [[-1.0, 1.0]]
    """
    array = np.asarray(X)
    if array.ndim < 2:
        raise ParameterError(f"X must have one row per example, got shape {array.shape}")
    one = np.isscalar(bounds[0])
    low, high = _ranges(bounds, array.shape[1])
    if normalize == "auto":
        alike = one and math.prod(array.shape[1:]) >= _ALIKE
        normalize = "row" if alike else "range"
    out = []
    for start in range(0, len(array), PIECE):
        piece = np.asarray(array[start : start + PIECE], np.float64)
        if one:
            mapped = (clip_values(piece, low, high) - low) / (high - low)
        else:
            mapped = clip_values((piece - low) / (high - low), 0.0, 1.0)
        rows = torch.from_numpy(mapped.astype(np.float32))
        if features is not None:
            with torch.no_grad():
                rows = features(rows)
        elif normalize is not None:
            rows = NORMALIZE[normalize](rows)
        out.append(rows)
    return torch.cat(out) if out else torch.zeros((0, *array.shape[1:]))


def _ranges(bounds: Any, width: int) -> tuple[Any, Any]:
    """Return low and high of every input."""
    if len(bounds) == 2 and all(np.isscalar(b) for b in bounds):
        return as_bounds("bounds", tuple(bounds), "the public range of every input")
    if len(bounds) != width:
        raise ParameterError(f"bounds must name {width} inputs, got {len(bounds)}")
    pairs = [as_bounds(f"bounds[{k}]", tuple(b), "its range") for k, b in enumerate(bounds)]
    low, high = np.array(pairs, np.float64).T
    return low, high


def _unit_rows(rows: Any) -> Any:
    """Return rows without their mean, with norm one."""
    flat = rows.flatten(1)
    flat = flat - flat.mean(1, keepdim=True)
    return flat / (flat.norm(dim=1, keepdim=True) + 1e-6)


def _ball_rows(rows: Any) -> Any:
    """Return rows in [0, 1] mapped to [−1, 1]/√inputs, so that no norm exceeds one."""
    flat = rows.flatten(1)
    return (2.0 * flat - 1.0) / math.sqrt(flat.shape[1])


def _as_is(rows: Any) -> Any:
    """Return rows in [0, 1] mapped to [−1, 1]."""
    return 2.0 * rows.flatten(1) - 1.0


NORMALIZE = {"range": _ball_rows, "row": _unit_rows, "none": _as_is}
