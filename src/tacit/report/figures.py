"""A picture as a figure of the page: drawn, with its numbers in a table that is folded below."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from tacit._core.html import Html, table, tag
from tacit._core.pictures import Bars, HeatMap, Histogram, Intervals, Lines, Picture
from tacit.report.charts import draw_histogram, draw_lines
from tacit.report.drawing import number, short
from tacit.report.heatmap import draw_heat_map, largest_part
from tacit.report.rows import MOST_ROWS, draw_bars, draw_intervals

__all__ = ["figure"]

_MOST_NUMBERS = 100  # rows of the table below a picture


def figure(picture: Picture, note: str = "", *, numbers: bool = True, **how: Any) -> Html:
    """Return a figure with a caption, and its numbers folded.

    Parameters
    ----------
    picture
        What is drawn.
    note
        A sentence for the caption.
    numbers
        Whether its numbers follow as a table; False where one stands beside it.
    **how
        Options of the drawing.

    Examples
    --------
    >>> "Numbers of “Weights”" in figure(Bars("Weights", "share", ["a"], [0.4]))
    True
    """
    drawn = _DRAWN[type(picture)](picture, **how)
    title = short(picture.title, 120)
    caption = [tag("strong", title)] + ([f" {note}"] if note else [])
    if not drawn:
        return tag("p", *caption, " There is nothing finite to draw.", class_="soft")
    left = _left_out(picture)
    if left:
        caption.append(f" {left}")
    parts = [tag("figcaption", *caption), drawn]
    if numbers:
        heads, rows, kind = _NUMBERS[type(picture)](picture)
        told = table(f"Numbers of “{title}”", heads, itertools.islice(rows, _MOST_NUMBERS), kind)
        parts.append(tag("details", tag("summary", f"The numbers of “{title}”"), told))
    return tag("figure", *parts)


def _left_out(picture: Picture) -> str:
    if isinstance(picture, HeatMap) and len(picture.rows) > MOST_ROWS:
        return f"The {MOST_ROWS} largest of {len(picture.rows):,} rows."
    if isinstance(picture, Intervals | Bars) and len(picture.labels) > MOST_ROWS:
        return f"The first {MOST_ROWS} of {len(picture.labels):,}."
    return ""


_Numbers = tuple[list[str], Iterable[list[str]], int]


def _of_rows(picture: Any) -> _Numbers:
    names = [short(label, 120) for label in picture.labels]
    columns = [picture.values, *(ends for ends in (picture.lows, picture.highs) if len(ends))]
    heads = ["name", "value", "from", "to"][: 1 + len(columns)]
    rows = ([n, *map(number, v)] for n, *v in zip(names, *columns, strict=False))
    return heads, rows, len(columns)


def _of_histogram(picture: Histogram) -> _Numbers:
    columns = [picture.heights, *([picture.errors] if len(picture.errors) else [])]
    heads = ["from … to", "rows", "standard error"][: 1 + len(columns)]
    edges = itertools.pairwise(picture.edges)
    rows = (
        [f"{number(a)} … {number(b)}", *map(number, v)]
        for (a, b), *v in zip(edges, *columns, strict=False)
    )
    return heads, rows, len(columns)


def _of_lines(picture: Lines) -> _Numbers:
    points = {name: dict(points) for name, points in picture.series.items()}
    points |= {name: {} for name in picture.levels}
    places = sorted({x for found in points.values() for x in found})
    heads = [short(picture.across, 60), *(short(name, 60) for name in points)]

    def height(name: str, x: float) -> Any:
        return picture.levels[name] if name in picture.levels else points[name].get(x)

    rows = ([number(x), *(number(height(name, x)) for name in points)] for x in places)
    return heads, rows, len(points)


def _of_heat_map(picture: HeatMap) -> _Numbers:
    rows, columns, values = largest_part(picture)
    told = ([short(n, 120), *map(number, v)] for n, v in zip(rows, values, strict=True))
    return ["name", *(short(name, 40) for name in columns)], told, len(columns)


_DRAWN: dict[type, Callable[..., Html]] = {
    Intervals: draw_intervals,
    Histogram: draw_histogram,
    Bars: draw_bars,
    Lines: draw_lines,
    HeatMap: draw_heat_map,
}
_NUMBERS: dict[type, Callable[[Any], _Numbers]] = {
    Intervals: _of_rows,
    Histogram: _of_histogram,
    Bars: _of_rows,
    Lines: _of_lines,
    HeatMap: _of_heat_map,
}
