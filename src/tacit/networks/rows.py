"""Rows as a network sees them: a function of each row alone, and of public bounds.

Inputs are clipped to their bounds and mapped to [0, 1], which is what fixed features and a module
of the caller's get; a perceptron gets rows of norm one or less. Whole numbers that stand for
something, such as letters, stay as they are. Fixed features run as functions of one row with
buffers frozen, and all of torch's work is done in tiles (`tacit.networks.tiles`), so that a row is
seen as it would be beside others, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tacit._core.check import as_bounds
from tacit.errors import ParameterError
from tacit.mechanisms.clipping import clip_values
from tacit.networks.backend import nn, torch
from tacit.networks.frozen import check_frozen, copied
from tacit.networks.layers import check_rows_independent, made_up
from tacit.networks.single_rows import RowFunction
from tacit.networks.tiles import Tiles, UnlikeSlots

__all__ = ["NORMALIZES", "PIECE", "check_normalize", "seen_rows"]

PIECE = 2000  # rows that are predicted or mapped at once
_TILE = 256  # of them a batch for torch
_ALIKE = 16  # inputs that share one range and can be compared with each other, such as pixels


def seen_rows(
    X: Any,
    bounds: Any,
    *,
    features: nn.Module | None = None,
    normalize: str | None = None,
    levels: Sequence[int] = (),
) -> Any:
    """Return rows as a tensor.

    ``bounds`` is the public range (low, high) of every input, or one pair for each; ``features`` a
    fixed module that maps rows in [0, 1], row by row. ``normalize`` is what a perceptron sees, one
    of `NORMALIZES`: of features ``"auto"`` scales each row to norm one, ``"row"`` centres it too,
    and ``"none"`` leaves it; None: rows as they are. ``levels`` says for
    ``"embed"`` how many values each column has that is looked up, 0 of the others.

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
    if normalize == "auto" and features is None:
        alike = one and math.prod(array.shape[1:]) >= _ALIKE
        normalize = "row" if alike else "range"
    if normalize == "whole":
        return torch.from_numpy(_whole(array, low, high))
    if normalize == "embed":
        return torch.from_numpy(_embedded(array, low, high, levels))
    shape = array.shape[1:]
    see = _seeing(features, normalize, shape)
    out = []
    for start in range(0, len(array), PIECE):
        piece = np.asarray(array[start : start + PIECE], np.float64)
        if one:
            mapped = (clip_values(piece, low, high) - low) / (high - low)
        else:
            mapped = clip_values((piece - low) / (high - low), 0.0, 1.0)
        out.append(see(torch.from_numpy(mapped.astype(np.float32))))
    return torch.cat(out) if out else see(torch.zeros((0, *shape)))


def _whole(array: Any, low: Any, high: Any) -> Any:
    """Return whole numbers within their bounds; what is no number is the least."""
    clean = np.where(np.isfinite(np.asarray(array, np.float64)), array, low)
    return np.clip(np.rint(clean.astype(np.float64)), low, high).astype(np.int64)


def _embedded(array: Any, low: Any, high: Any, levels: Sequence[int]) -> Any:
    """Return numbers mapped to [−1, 1] and positions of categories as they are."""
    places = np.array(levels) > 0
    mapped = (
        2.0 * clip_values((np.asarray(array, np.float64) - low) / (high - low), 0.0, 1.0) - 1.0
    )
    return np.where(places, _whole(array, low, high), mapped).astype(np.float32)


def _seeing(
    features: nn.Module | None, normalize: str | None, shape: Sequence[int]
) -> Callable[[Any], Any]:
    """Return what maps rows in [0, 1] to what a network sees, each by itself."""
    if features is None:
        if normalize is None:
            return lambda rows: rows
        kind: Callable[[Any], Any] = NORMALIZE[normalize]
    else:
        features = copied(features).eval()
        check_frozen(features, "features")
        try:
            check_rows_independent(features, shape)
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            if isinstance(error, ParameterError):
                raise
            raise ParameterError(f"features do not take rows of shape {shape}: {error}") from None
        kind = _after(RowFunction(features), normalize)

    if features is None:
        tiles = _tiles_of(normalize, tuple(shape), torch.get_num_threads())
    else:
        tiles = _probed(kind, shape)

    def see(rows: Any) -> Any:
        parts = [kind(tile)[torch.from_numpy(used)] for tile, used in tiles.of(rows)]
        return torch.cat(parts) if parts else kind(made_up(shape, torch.float32, 1))[:0]

    return see


def _after(features: Callable[[Any], Any], normalize: str | None) -> Callable[[Any], Any]:
    """Return features as a perceptron sees them, each row by itself."""
    if normalize in (None, "none"):
        return features
    scaled = _unit_rows if normalize == "row" else _of_norm_one
    return lambda rows: scaled(features(rows))


def _probed(kind: Callable[[Any], Any], shape: Sequence[int]) -> Tiles:
    """Return tiles in which what torch does to a row depends on that row alone."""

    def draw(count: int, number: int) -> list[Any]:
        return [made_up(shape, torch.float32, count * (number + 1))[-count:]]

    try:
        return Tiles.probed(lambda rows: [kind(rows)], draw, _TILE)
    except UnlikeSlots as error:
        text = str(error).replace("the gradient of", "what features make of")
        raise UnlikeSlots(text) from None


@lru_cache(maxsize=256)
def _tiles_of(normalize: str, shape: tuple[int, ...], threads: int) -> Tiles:
    return _probed(NORMALIZE[normalize], shape)


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


def _of_norm_one(rows: Any) -> Any:
    """Return rows with norm one."""
    flat = rows.flatten(1)
    return flat / (flat.norm(dim=1, keepdim=True) + 1e-6)


def _ball_rows(rows: Any) -> Any:
    """Return rows in [0, 1] mapped to [−1, 1]/√inputs, so that no norm exceeds one."""
    flat = rows.flatten(1)
    return (2.0 * flat - 1.0) / math.sqrt(flat.shape[1])


def _as_is(rows: Any) -> Any:
    """Return rows in [0, 1] mapped to [−1, 1]."""
    return 2.0 * rows.flatten(1) - 1.0


NORMALIZE = {"range": _ball_rows, "row": _unit_rows, "none": _as_is}
NORMALIZES = ("auto", *NORMALIZE, "whole", "embed")


def check_normalize(normalize: str, module: Any, features: Any) -> None:
    """Raise where nothing would read how rows are to be seen."""
    if normalize == "whole" and (module is None or features is not None):
        raise ParameterError(
            "normalize='whole' is for a module that takes whole numbers, and no features"
        )
    if normalize not in ("auto", "whole") and module is not None:
        raise ParameterError(
            "normalize is for perceptrons: it is not read where a module is given"
        )
    if normalize in ("range", "embed") and features is not None:
        raise ParameterError(
            "normalize must be 'auto', 'row' or 'none' with features: what they make of a row has "
            "no range, and no categories"
        )
