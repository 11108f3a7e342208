"""Matrices as heat maps: the deeper the shade, the larger the number, which stands in its cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.html import Html
from tacit._core.pictures import HeatMap
from tacit.report.drawing import WIDTH, Drawing, label_room, middle_cut, number, short

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["draw_heat_map", "largest_part"]

_ROWS, _COLUMNS = 40, 24  # a person reads no more of one picture
_ROW, _KEY = 16.0, 34.0
_DEEPEST = 0.62  # letters can still be read on it


def largest_part(picture: HeatMap) -> tuple[list[str], list[str], NDArray[np.float64]]:
    """Return what of a matrix is shown: its first columns, the rows with the largest numbers."""
    array = np.asarray(picture.values, np.float64)
    array = array.reshape(len(picture.rows), -1)[:, :_COLUMNS]
    order = _shown(array)
    rows = [str(picture.rows[k]) for k in order]
    return rows, [str(name) for name in picture.columns[:_COLUMNS]], array[order]


def draw_heat_map(picture: HeatMap) -> Html:
    """Return a matrix with a key; signs by colour and in the numbers.

    >>> "LDL" in draw_heat_map(HeatMap("test", "", ["LDL", "HDL"], ["1"], [[1.0], [-0.5]]))
    True
    """
    rows, columns, part = largest_part(picture)
    sound = part[np.isfinite(part)]
    if not sound.size:
        return Html()
    reach = float(np.abs(sound).max()) or 1.0
    left, letters = label_room(rows)
    longest = max(map(len, columns), default=0)
    slanted = longest * 6.0 * part.shape[1] > WIDTH - left
    lean = min(longest, 14) if slanted else 0  # letters that lean over the next columns
    width = (WIDTH - left - 2.2 * lean) / part.shape[1]
    top = 22.0 + 4.6 * lean
    drawing = Drawing(top + _ROW * len(part) + _KEY)
    for c, name in enumerate(columns):
        _column(drawing, left + (c + 0.5) * width, top - 6, name, slanted)
    for r, (label, row) in enumerate(zip(rows, part, strict=True)):
        y = top + r * _ROW
        drawing.text(left - 5, y + _ROW - 4, middle_cut(label, letters), text_anchor="end")
        for c, value in enumerate(row):
            _cell(drawing, (left + c * width, y, width), float(value), reach)
    signed = bool((sound < 0.0).any())
    _key(drawing, (left, top + _ROW * len(part) + 10), reach, signed)
    at = np.unravel_index(
        np.nanargmax(np.where(np.isfinite(part), np.abs(part), -1.0)), part.shape
    )
    words = (
        f"{picture.axis}: {len(rows)} rows and {len(columns)} columns, from "
        f"{number(float(sound.min()))} to {number(float(sound.max()))}; the largest is "
        f"{short(rows[int(at[0])], 60)}, {short(columns[int(at[1])], 60)}."
    )
    return drawing.render(picture.title, words)


def _shown(array: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the rows to show, in their own order."""
    if len(array) <= _ROWS:
        return np.arange(len(array))
    length = np.abs(np.nan_to_num(array, posinf=0.0, neginf=0.0)).max(axis=1)
    return np.sort(np.argsort(-length, kind="stable")[:_ROWS])


def _column(drawing: Drawing, x: float, y: float, name: str, slanted: bool) -> None:
    if slanted:
        turn = f"rotate(-50 {x:.1f} {y:.1f})"
        drawing.text(x, y, short(name, 14), 10, transform=turn)
    else:
        drawing.text(x, y, name, 10, text_anchor="middle")


def _cell(drawing: Drawing, place: tuple[float, float, float], value: float, reach: float) -> None:
    x, y, width = place
    drawing.box(x + 0.3, y + 0.3, width - 0.6, _ROW - 0.6, **_shade(value / reach))
    if width >= 27:
        middle = x + width / 2
        drawing.text(middle, y + _ROW - 4.5, _brief(value), 9, text_anchor="middle")


def _brief(value: float) -> str:
    """Return a number in five letters."""
    if not np.isfinite(value):
        return number(value)
    text = f"{value:.2f}" if 0.01 <= abs(value) < 10 else f"{value:.2g}"
    return ("0" if not value else text).replace("-", "−").replace("e+0", "e").replace("e−0", "e−")


def _shade(share: float) -> dict[str, Any]:
    if not np.isfinite(share):
        return {"class_": "nothing"}
    depth = f"{min(abs(share), 1.0) * _DEEPEST:.2f}"
    return {"class_": "above" if share >= 0 else "below", "fill_opacity": depth}


def _key(drawing: Drawing, place: tuple[float, float], reach: float, signed: bool) -> None:
    (left, y), start = place, -1.0 if signed else 0.0
    steps: Sequence[float] = np.linspace(start, 1.0, 21).tolist()
    width = (WIDTH - left - 4) / len(steps)
    for k, share in enumerate(steps):
        drawing.box(left + k * width, y, width, 7, **_shade(share))
    middle = (start + 1.0) / 2
    for at, share, side in ((0.0, start, "start"), (0.5, middle, "middle"), (1.0, 1.0, "end")):
        x = left + at * (WIDTH - left - 4)
        drawing.text(x, y + 20, number(float(f"{share * reach:.3g}")), text_anchor=side)
