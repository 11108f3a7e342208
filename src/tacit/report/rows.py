"""Estimates with intervals, and bars, as SVG: one row for each name, its number at the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tacit._core.html import Html
from tacit._core.pictures import Bars, Intervals
from tacit.report.drawing import (
    WIDTH,
    Drawing,
    finite,
    label_room,
    margined,
    middle_cut,
    number,
    short,
    ticks,
)

__all__ = ["MOST_ROWS", "draw_bars", "draw_intervals"]

MOST_ROWS = 40  # a person reads no more of one picture
_RIGHT, _ROW, _TOP, _BELOW = 58.0, 22.0, 6.0, 36.0


def draw_intervals(picture: Intervals) -> Html:
    """Return estimates as points with intervals; one that is open goes on to the edge.

    >>> "slope" in draw_intervals(Intervals("Slopes", "", ["slope"], [1.0], [0.5], [1.5], 0.0))
    True
    """
    rows = _drawable(picture.labels, picture.values, picture.lows, picture.highs)
    if not rows:
        return Html()
    reference = picture.reference if finite(picture.reference) else None
    frame = _Frame(rows, picture.axis, [reference], zero=False)
    if reference is not None:
        frame.upright(reference, stroke_dasharray="4 3")
    for k, (_, value, low, high) in enumerate(rows):
        frame.whisker(k, low, high)
        frame.drawing.point(frame.across(value), frame.height(k), 1)
    return frame.drawing.render(picture.title, _described(picture.axis, rows))


def draw_bars(picture: Bars) -> Html:
    """Return bars from zero, with intervals where there are any.

    >>> "rect" in draw_bars(Bars("Weights", "share", ["a", "b"], [0.4, 0.6]))
    True
    """
    lows = picture.lows if len(picture.lows) else picture.values
    highs = picture.highs if len(picture.highs) else picture.values
    rows = _drawable(picture.labels, picture.values, lows, highs)
    if not rows:
        return Html()
    frame = _Frame(rows, picture.axis, [], zero=True)
    for k, (_, value, low, high) in enumerate(rows):
        left, right = sorted((frame.across(0.0), frame.across(value)))
        frame.drawing.box(left, frame.height(k) - 7, right - left, 14, class_="fill pale s0")
        if low != high:
            frame.whisker(k, low, high)
    frame.upright(0.0)
    return frame.drawing.render(picture.title, _described(picture.axis, rows))


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


class _Frame:
    """A drawing with names to the left, numbers to the right, and an axis below."""

    def __init__(
        self, rows: Sequence[_Row], axis: str, more: Sequence[float | None], zero: bool
    ) -> None:
        self.left, letters = label_room(row[0] for row in rows)
        self.bottom = _TOP + _ROW * len(rows) + 4
        self.drawing = drawing = Drawing(self.bottom + _BELOW)
        self.span = margined([*more, *(end for row in rows for end in row[1:])], zero)
        for x in ticks(*self.span, 4):
            self.upright(x, class_="grid")
            drawing.text(self.across(x), self.bottom + 14, number(x), text_anchor="middle")
        middle = (self.left + WIDTH - _RIGHT) / 2
        words = short(axis, 52)
        drawing.text(
            max(middle, 3.1 * len(words)),
            self.bottom + 30,
            words,
            text_anchor="middle",
            class_="soft",
        )
        for k, (label, value, _, _) in enumerate(rows):
            y = self.height(k) + 4
            drawing.text(self.left - 6, y, middle_cut(label, letters), text_anchor="end")
            drawing.text(WIDTH, y, number(value), text_anchor="end")

    def height(self, k: int) -> float:
        """Return where a row is drawn."""
        return _TOP + _ROW * (k + 0.5)

    def across(self, x: float) -> float:
        """Return where a number is drawn."""
        share = (x - self.span[0]) / (self.span[1] - self.span[0])
        return self.left + min(max(share, 0.0), 1.0) * (WIDTH - self.left - _RIGHT)

    def upright(self, x: float, **style: Any) -> None:
        """Draw a line through all rows."""
        self.drawing.line(self.across(x), 3, self.across(x), self.bottom, **style)

    def whisker(self, k: int, low: float, high: float) -> None:
        """Draw an interval; an end that is not finite becomes an arrow at the edge."""
        y, drawing = self.height(k), self.drawing
        left = self.across(low if finite(low) else self.span[0])
        right = self.across(high if finite(high) else self.span[1])
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
