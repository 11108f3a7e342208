"""Curves and histograms as SVG."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

from tacit._core.html import Html
from tacit._core.pictures import Histogram, Lines
from tacit.report.drawing import MARKS, WIDTH, Drawing, finite, margined, number, short, ticks

__all__ = ["draw_histogram", "draw_lines"]

_LEFT, _RIGHT, _TOP, _PLOT = 46.0, 12.0, 22.0, 186.0
_DASHES = (None, "7 3", "2 3", "9 3 2 3", "12 3", "4 4")
_MOST_SERIES, _MOST_POINTS = 12, 400
_Scale = Callable[[float], float]


def draw_lines(picture: Lines, *, steps: bool = False, zero: bool = False) -> Html:
    """Return curves with their legend below.

    Parameters
    ----------
    picture
        What to draw; what is not finite is left out.
    steps
        A value stays until the next point.
    zero
        The upward axis starts at zero.

    Examples
    --------
    >>> "North" in draw_lines(Lines("Cost", "run", "ε", {"North": [(1, 0.5), (2, 1.0)]}))
    True
    """
    series = {
        name: _thinned(found)
        for name, points in itertools.islice(picture.series.items(), _MOST_SERIES)
        if (found := _drawable(picture, points))
    }
    levels = {name: level for name, level in picture.levels.items() if finite(level)}
    xs = sorted({x for points in series.values() for x, _ in points})
    if not xs:
        return Html()
    legend = [*series, *levels]
    drawing = Drawing(_TOP + _PLOT + 42 + 17 * len(legend))
    heights = [y for points in series.values() for _, y in points]
    low, high = margined([*heights, *levels.values()], zero, share=0.08)

    def place(x: float) -> float:
        return math.log(x) if picture.logarithmic else x

    first, last = place(xs[0]), place(xs[-1])

    def across(x: float) -> float:
        share = (place(x) - first) / (last - first) if last > first else 0.5
        return _LEFT + 8 + share * (WIDTH - _LEFT - _RIGHT - 16)

    def down(y: float) -> float:
        return _TOP + _PLOT * (1 - (y - low) / (high - low))

    marks = xs if len(xs) <= 6 else [x for x in ticks(xs[0], xs[-1]) if xs[0] <= x <= xs[-1]]
    marks = _powers(xs) if picture.logarithmic and len(xs) > 6 else marks
    _axes(drawing, (low, high), marks or [xs[0], xs[-1]], (across, down))
    _names(drawing, picture.across, picture.upwards, _TOP + _PLOT)
    for k, level in enumerate(levels.values(), len(series)):
        ends = [(_LEFT, down(level)), (WIDTH - _RIGHT, down(level))]
        drawing.curve(ends, k, stroke_dasharray=_DASHES[1 + k % 5])
    for k, points in enumerate(series.values()):
        _series(drawing, [(across(x), down(y)) for x, y in points], k, steps)
    for k, name in enumerate(legend):
        y, level = _TOP + _PLOT + 48 + 17 * k, k >= len(series)
        dash = _DASHES[1 + k % 5] if level else _DASHES[k % MARKS]
        drawing.curve([(_LEFT, y - 4), (_LEFT + 26, y - 4)], k, stroke_dasharray=dash)
        if not level:
            drawing.point(_LEFT + 13, y - 4, k)
        drawing.text(_LEFT + 32, y, short(name, 48))
    return drawing.render(picture.title, _described(picture, series, levels))


def draw_histogram(picture: Histogram) -> Html:
    """Return cells between edges, with standard errors as whiskers and marks as lines.

    >>> "rect" in draw_histogram(Histogram("Age", "years", [0, 10, 20], [3.0, 5.0], [1.0, 1.0]))
    True
    """
    errors = list(picture.errors) or [0.0] * len(picture.heights)
    pairs = zip(itertools.pairwise(picture.edges), picture.heights, errors, strict=False)
    cells = [
        (float(a), float(b), float(h), float(e) if finite(e) else 0.0)
        for (a, b), h, e in pairs
        if finite(a) and finite(b) and finite(h)
    ]
    if not cells:
        return Html()
    marks = {name: float(at) for name, at in picture.marks.items() if finite(at)}
    marks = dict(itertools.islice(marks.items(), 7))
    rows = len(marks)  # a line of names for each, so that none hides another
    top = _TOP + 12 * rows
    drawing = Drawing(top + _PLOT + 42)
    tops = [h + e for _, _, h, e in cells] + [min(0.0, h - e) for _, _, h, e in cells]
    low, high = margined(tops, zero=True, share=0.04)
    start, end = cells[0][0], cells[-1][1]

    def across(x: float) -> float:
        share = (x - start) / (end - start) if end > start else 0.5
        return _LEFT + min(max(share, 0.0), 1.0) * (WIDTH - _LEFT - _RIGHT)

    def down(y: float) -> float:
        return top + _PLOT * (1 - (y - low) / (high - low))

    _axes(drawing, (low, high), ticks(start, end), (across, down))
    _names(drawing, picture.axis, "rows", top + _PLOT)
    for a, b, height, error in cells:
        left, right = across(a), across(b)
        upper, lower = sorted((down(height), down(0.0)))
        drawing.box(left + 0.4, upper, right - left - 0.8, lower - upper, class_="fill pale s0")
        if error:
            middle = (left + right) / 2
            drawing.line(middle, down(height - error), middle, down(height + error))
    for k, (name, at) in enumerate(marks.items()):
        x, y = across(at), _TOP + 12 * k
        drawing.line(x, y, x, top + _PLOT, class_="line s1", stroke_dasharray=_DASHES[1 + k % 5])
        late = x > WIDTH / 2
        words = f"{short(name, 18)}: {number(at)}"
        drawing.text(x - 4 if late else x + 4, y + 2, words, text_anchor="end" if late else None)
    words = "; ".join(f"{number(a)} to {number(b)}: {number(h)}" for a, b, h, _ in cells[:12])
    said = "; ".join(f"{name} at {number(at)}" for name, at in marks.items())
    return drawing.render(picture.title, f"Rows by {picture.axis}. {words}. {said}")


def _drawable(picture: Lines, points: object) -> list[tuple[float, float]]:
    assert isinstance(points, list | tuple)
    found = [(float(x), float(y)) for x, y in points if finite(x) and finite(y)]
    return sorted((x, y) for x, y in found if x > 0.0 or not picture.logarithmic)


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    step = -(-len(points) // _MOST_POINTS)
    return points if step <= 1 else [*points[:-1:step], points[-1]]


def _series(drawing: Drawing, places: list[tuple[float, float]], k: int, steps: bool) -> None:
    if steps:
        corners = [p for a, b in itertools.pairwise(places) for p in (a, (b[0], a[1]))]
        drawing.curve([*corners, places[-1]], k, stroke_dasharray=_DASHES[k % MARKS])
    else:
        drawing.curve(places, k, stroke_dasharray=_DASHES[k % MARKS])
    if len(places) <= 25:
        for x, y in places:
            drawing.point(x, y, k)


def _axes(
    drawing: Drawing,
    span: tuple[float, float],
    marks: list[float],
    scales: tuple[_Scale, _Scale],
) -> None:
    across, down = scales
    bottom = down(span[0])
    for y in ticks(*span):
        drawing.line(_LEFT, down(y), WIDTH - _RIGHT, down(y), class_="grid")
        drawing.text(_LEFT - 5, down(y) + 4, number(y), text_anchor="end")
    drawing.line(_LEFT, bottom, WIDTH - _RIGHT, bottom)
    for x in marks:
        drawing.line(across(x), bottom, across(x), bottom + 4)
        drawing.text(across(x), bottom + 16, number(x), text_anchor="middle")


def _names(drawing: Drawing, across: str, upwards: str, bottom: float) -> None:
    """Name the axes: upwards at the top left, across below the numbers."""
    drawing.text(2, 11, short(upwards, 56), class_="soft")
    middle = (_LEFT + WIDTH) / 2
    drawing.text(middle, bottom + 31, short(across, 50), text_anchor="middle", class_="soft")


def _powers(xs: list[float]) -> list[float]:
    """Return powers of ten in the range, at most seven."""
    low, high = math.ceil(math.log10(xs[0]) - 1e-9), math.floor(math.log10(xs[-1]) + 1e-9)
    step = max(1, -(-(high - low + 1) // 7))
    return [10.0**power for power in range(low, high + 1, step)]


def _described(
    picture: Lines, series: dict[str, list[tuple[float, float]]], levels: object
) -> str:
    parts = []
    for name, points in series.items():
        told = points if len(points) <= 12 else [points[0], points[-1]]
        values = ", ".join(f"{number(y)} at {number(x)}" for x, y in told)
        parts.append(f"{short(name, 80)}: {values}")
    assert isinstance(levels, dict)
    parts += [f"{short(name, 80)}: always {number(level)}" for name, level in levels.items()]
    return f"{picture.upwards} against {picture.across}. " + "; ".join(parts) + "."
