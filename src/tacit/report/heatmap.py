"""Factors as heat maps: one row per named member, one column per component."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.html import Html, join, table, tag
from tacit.report.drawing import WIDTH, Drawing, number

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["heat_map"]

_ROWS, _COLUMNS = 40, 24  # a person reads no more of one picture
_ROW, _LABEL, _TOP, _KEY = 15.0, 130.0, 22.0, 34.0
_BLUE, _WHITE, _ORANGE = (np.array(c) for c in ((33, 102, 172), (247, 247, 247), (179, 88, 6)))


def heat_map(title: str, values: Any, names: Sequence[object] | None = None) -> Html:
    """Return a factor as a heat map with a key, and as a table below it.

    Values are (members, components), or one number per member; the members with the largest rows
    are shown, by number where they have no names.

    Examples
    --------
    >>> "LDL" in heat_map("test", [[1.0, -1.0], [0.5, 0.0]], ["LDL", "HDL"])
    True
    """
    array = np.asarray(values, np.float64)
    array = array.reshape(len(array), -1)
    labels = [str(name) for name in (range(len(array)) if names is None else names)]
    order = _shown(array)
    part = array[order][:, :_COLUMNS]
    kept = [labels[k] for k in order]
    reach = float(np.nanmax(np.abs(part), initial=0.0)) or 1.0
    drawing = Drawing(_TOP + _ROW * len(part) + _KEY)
    width = (WIDTH - _LABEL) / part.shape[1]
    for c in range(part.shape[1] if part.shape[1] > 1 else 0):
        drawing.text(_LABEL + (c + 0.5) * width, _TOP - 6, c + 1, text_anchor="middle")
    for r, (label, row) in enumerate(zip(kept, part, strict=True)):
        y = _TOP + r * _ROW
        drawing.text(_LABEL - 5, y + _ROW - 4, _short(label), text_anchor="end")
        for c, value in enumerate(row):
            drawing.box(
                _LABEL + c * width,
                y,
                width,
                _ROW,
                fill=_colour(value / reach),
                stroke="#fff",
                stroke_width=0.5,
            )
    _key(drawing, _TOP + _ROW * len(part) + 10, reach)
    largest = np.unravel_index(np.argmax(np.abs(part)), part.shape)
    words = (
        f"{len(part)} members and {part.shape[1]} components, from {number(float(part.min()))} to "
        f"{number(float(part.max()))}; the largest is {kept[int(largest[0])]} in component "
        f"{int(largest[1]) + 1}. The numbers are in the table that follows."
    )
    rest = len(array) - len(part)
    note = f" The {len(part)} largest of {len(array)} members." if rest else ""
    numbers = table(
        f"{title}, in numbers",
        ["member", *range(1, part.shape[1] + 1)],
        (
            [label, *(number(round(float(v), 4)) for v in row)]
            for label, row in zip(kept, part, strict=True)
        ),
        numbers=part.shape[1],
    )
    return tag(
        "figure",
        tag("figcaption", f"Factor “{title}”.{note}"),
        drawing.render(f"Heat map of {title}", words),
        tag("details", tag("summary", f"The numbers of {title}"), numbers),
    )


def _shown(array: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return the rows to show, in their own order."""
    if len(array) <= _ROWS:
        return np.arange(len(array))
    length = np.linalg.norm(np.nan_to_num(array), axis=1)
    return np.sort(np.argsort(-length, kind="stable")[:_ROWS])


def _colour(share: float) -> str:
    end = _ORANGE if share > 0 else _BLUE
    mixed = _WHITE + min(abs(share), 1.0) * (end - _WHITE) if np.isfinite(share) else _WHITE
    return "#" + "".join(f"{round(float(c)):02x}" for c in mixed)


def _key(drawing: Drawing, y: float, reach: float) -> None:
    steps = np.linspace(-1.0, 1.0, 21)
    width = (WIDTH - _LABEL) / len(steps)
    for k, share in enumerate(steps):
        drawing.box(_LABEL + k * width, y, width + 0.3, 7, fill=_colour(float(share)))
    for place, value, side in ((0.0, -reach, "start"), (0.5, 0.0, "middle"), (1.0, reach, "end")):
        x = _LABEL + place * (WIDTH - _LABEL)
        drawing.text(x, y + 20, number(float(f"{value:.3g}")), text_anchor=side)


def _short(label: str) -> Html:
    return join([label if len(label) <= 20 else label[:19] + "…"])
