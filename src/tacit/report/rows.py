"""Estimates with intervals, and bars, as SVG: one row for each name, its number at the end."""

from __future__ import annotations

from collections.abc import Sequence

from tacit._core.html import Html
from tacit._core.pictures import Bars, Intervals
from tacit.report.drawing import WIDTH, Drawing, finite, margined, number, short, ticks

__all__ = ["MOST_ROWS", "draw_bars", "draw_intervals"]

MOST_ROWS = 40  # a person reads no more of one picture
_LEFT, _RIGHT, _ROW, _TOP, _BELOW = 112.0, 58.0, 22.0, 6.0, 36.0


def draw_intervals(picture: Intervals) -> Html:
    """Return estimates as points with intervals; one that is open goes on to the edge.

    >>> "slope" in draw_intervals(Intervals("Slopes", "", ["slope"], [1.0], [0.5], [1.5], 0.0))
    True
    """
    rows = _drawable(picture.labels, picture.values, picture.lows, picture.highs)
    if not rows:
        return Html()
    reference = picture.reference if finite(picture.reference) else None
    ends = [end for row in rows for end in row[1:]]
    drawing, span = _frame(rows, picture.axis, [*ends, reference], zero=False)
    if reference is not None:
        x = _across(reference, span)
        drawing.line(x, 2, x, _bottom(rows), stroke_dasharray="4 3")
    for k, (label, value, low, high) in enumerate(rows):
        y = _named(drawing, k, label, value)
        _whisker(drawing, y, low, high, span)
        drawing.point(_across(value, span), y, 1)
    return drawing.render(picture.title, _described(picture.axis, rows))


def draw_bars(picture: Bars) -> Html:
    """Return bars from zero, with intervals where there are any.

    >>> "rect" in draw_bars(Bars("Weights", "share", ["a", "b"], [0.4, 0.6]))
    True
    """
    lows, highs = picture.lows or picture.values, picture.highs or picture.values
    rows = _drawable(picture.labels, picture.values, lows, highs)
    if not rows:
        return Html()
    ends = [end for row in rows for end in row[1:]]
    drawing, span = _frame(rows, picture.axis, ends, zero=True)
    start = _across(0.0, span)
    for k, (label, value, low, high) in enumerate(rows):
        y, end = _named(drawing, k, label, value), _across(value, span)
        left, right = sorted((start, end))
        drawing.box(left, y - 7, right - left, 14, class_="fill pale s0")
        if low != high:
            _whisker(drawing, y, low, high, span)
    drawing.line(start, 2, start, _bottom(rows))
    return drawing.render(picture.title, _described(picture.axis, rows))


_Row = tuple[str, float, float, float]


def _drawable(
    labels: Sequence[object],
    values: Sequence[float],
    lows: Sequence[float],
    highs: Sequence[float],
) -> list[_Row]:
    """Return the first rows that have a number; ends without one are open."""
    rows = [
        (str(label), float(value), _end(low), _end(high))
        for label, value, low, high in zip(labels, values, lows, highs, strict=False)
        if finite(value)
    ]
    return rows[:MOST_ROWS]


def _end(end: float | None) -> float:
    return float("nan") if end is None else float(end)


def _bottom(rows: Sequence[_Row]) -> float:
    return _TOP + _ROW * len(rows) + 4


def _across(x: float, span: tuple[float, float]) -> float:
    share = (x - span[0]) / (span[1] - span[0])
    return _LEFT + min(max(share, 0.0), 1.0) * (WIDTH - _LEFT - _RIGHT)


def _frame(
    rows: Sequence[_Row], axis: str, ends: Sequence[float | None], zero: bool
) -> tuple[Drawing, tuple[float, float]]:
    """Return a drawing with grid and axis, and the range across."""
    span, bottom = margined(ends, zero), _bottom(rows)
    drawing = Drawing(bottom + _BELOW)
    for x in ticks(*span, 4):
        drawing.line(_across(x, span), 4, _across(x, span), bottom, class_="grid")
        drawing.text(_across(x, span), bottom + 14, number(x), text_anchor="middle")
    drawing.text(WIDTH / 2 + 20, bottom + 30, short(axis, 52), text_anchor="middle", class_="soft")
    return drawing, span


def _named(drawing: Drawing, k: int, label: str, value: float) -> float:
    """Write the name and the number of a row; return its height."""
    y = _TOP + _ROW * (k + 0.5)
    drawing.text(_LEFT - 6, y + 4, short(label, 19), text_anchor="end")
    drawing.text(WIDTH, y + 4, number(value), text_anchor="end")
    return y


def _whisker(
    drawing: Drawing, y: float, low: float, high: float, span: tuple[float, float]
) -> None:
    """Draw an interval; an end that is not finite becomes an arrow at the edge."""
    left = _across(low if finite(low) else span[0], span)
    right = _across(high if finite(high) else span[1], span)
    drawing.curve([(left, y), (right, y)], 0)
    for x, end, way in ((left, low, 1), (right, high, -1)):
        if finite(end):
            drawing.curve([(x, y - 4), (x, y + 4)], 0)
        else:
            drawing.area([(x, y), (x + 7 * way, y - 5), (x + 7 * way, y + 5)], "fill s0")


def _described(axis: str, rows: Sequence[_Row]) -> str:
    words = "; ".join(
        f"{short(label, 60)} {number(value)}"
        + (f", from {number(low)} to {number(high)}" if low != high else "")
        for label, value, low, high in rows[:12]
    )
    rest = f"; and {len(rows) - 12} more" if len(rows) > 12 else ""
    return f"{axis}: {words}{rest}."
