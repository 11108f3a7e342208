"""Line charts: accuracy against ε, budgets over time, convergence."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tacit._core.html import Html
from tacit.report.drawing import COLOURS, GRID, WIDTH, Drawing, number, ticks

__all__ = ["Chart", "line_chart"]

_LEFT, _RIGHT, _TOP, _PLOT = 44.0, 12.0, 14.0, 190.0
_DASHES = ("", "7 3", "2 3", "9 3 2 3")


@dataclass(frozen=True)
class Chart:
    """What a line chart shows.

    ``series`` maps names to points (x, y), ``levels`` names to constants to compare with, drawn as
    dashed lines. ``logarithmic``: x is spaced by ratios; ``steps``: a value stays until the next
    point; ``zero``: the y axis starts at zero.
    """

    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    levels: Mapping[str, float] = field(default_factory=dict)
    logarithmic: bool = False
    steps: bool = False
    zero: bool = False


def line_chart(chart: Chart) -> Html:
    """Return the chart as SVG, with its legend below and all numbers in its description.

    >>> "role=" in line_chart(Chart("Cost", "run", "ε", {"North": [(1, 0.5), (2, 1.0)]}))
    True
    """
    xs = [x for points in chart.series.values() for x, _ in points]
    ys = [y for points in chart.series.values() for _, y in points] + list(chart.levels.values())
    legend = [*chart.series, *chart.levels]
    drawing = Drawing(_TOP + _PLOT + 44 + 16 * len(legend))
    low, high = (0.0 if chart.zero else min(ys)), max(ys)
    margin = 0.08 * (high - low) or abs(high) * 0.1 or 1.0
    low, high = (low if chart.zero else low - margin), high + margin
    first, last = _place(chart, min(xs)), _place(chart, max(xs))

    def across(x: float) -> float:
        share = (_place(chart, x) - first) / (last - first) if last > first else 0.5
        return _LEFT + 8 + share * (WIDTH - _LEFT - _RIGHT - 16)

    def down(y: float) -> float:
        return _TOP + _PLOT * (1 - (y - low) / (high - low))

    _axes(drawing, chart, (low, high), sorted(set(xs)), across, down)
    for k, (_, level) in enumerate(chart.levels.items()):
        drawing.line(_LEFT, down(level), WIDTH - _RIGHT, down(level), **_dash(chart, k))
    for k, points in enumerate(chart.series.values()):
        colour = COLOURS[k % len(COLOURS)]
        places = [(across(x), down(y)) for x, y in sorted(points)]
        if chart.steps:
            places = [
                p for a, b in itertools.pairwise(places) for p in (a, (b[0], a[1]))
            ] + places[-1:]
        drawing.curve(places, colour)
        if len(points) <= 25:
            for x, y in points:
                drawing.dot(across(x), down(y), colour)
    for k, name in enumerate(legend):
        y = _TOP + _PLOT + 48 + 16 * k
        style = (
            {"stroke": COLOURS[k % len(COLOURS)], "stroke_width": 3}
            if k < len(chart.series)
            else _dash(chart, k - len(chart.series))
        )
        drawing.line(_LEFT, y - 4, _LEFT + 24, y - 4, **style)
        drawing.text(_LEFT + 30, y, name)
    return drawing.render(chart.title, describe(chart))


def describe(chart: Chart) -> str:
    """Return what a chart shows in words and numbers."""
    parts = []
    for name, points in chart.series.items():
        shown = points if len(points) <= 12 else [points[0], points[-1]]
        values = ", ".join(f"{number(y)} at {number(x)}" for x, y in shown)
        parts.append(f"{name}: {values}")
    parts += [f"{name}: always {number(level)}" for name, level in chart.levels.items()]
    return f"{chart.y} against {chart.x}. " + "; ".join(parts) + "."


def _place(chart: Chart, x: float) -> float:
    return math.log(x) if chart.logarithmic else x


def _dash(chart: Chart, k: int) -> dict[str, object]:
    colour = COLOURS[(len(chart.series) + k) % len(COLOURS)]
    return {"stroke": colour, "stroke_width": 2, "stroke_dasharray": _DASHES[1 + k % 3]}


def _axes(
    drawing: Drawing,
    chart: Chart,
    span: tuple[float, float],
    xs: list[float],
    across: object,
    down: object,
) -> None:
    assert callable(across) and callable(down)
    bottom = _TOP + _PLOT
    for y in ticks(*span):
        drawing.line(_LEFT, down(y), WIDTH - _RIGHT, down(y), stroke=GRID)
        drawing.text(_LEFT - 5, down(y) + 4, number(y), text_anchor="end")
    drawing.line(_LEFT, bottom, WIDTH - _RIGHT, bottom)
    marks = xs if len(xs) <= 7 else _inner(ticks(xs[0], xs[-1]), xs)
    for x in marks:
        drawing.line(across(x), bottom, across(x), bottom + 4)
        drawing.text(across(x), bottom + 16, number(x), text_anchor="middle")
    drawing.text((_LEFT + WIDTH) / 2, bottom + 31, chart.x, text_anchor="middle")
    drawing.text(2, 10, chart.y)


def _inner(marks: list[float], xs: list[float]) -> list[float]:
    inside = [m for m in marks if xs[0] <= m <= xs[-1]]
    return inside or [float(np.min(xs)), float(np.max(xs))]
