"""Posteriors as pictures: an interval for each parameter, and the density of its draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.html import Html, table, tag
from tacit.report.drawing import COLOURS, GRID, WIDTH, Drawing, number, ticks

__all__ = ["Parameter", "intervals"]

_LEFT, _ROW, _SHOWN = 110.0, 26.0, 40


@dataclass(frozen=True)
class Parameter:
    """The posterior of one parameter: mean, standard deviation, 90 % interval, some draws."""

    name: str
    mean: float
    sd: float
    low: float
    high: float
    draws: Any = None

    @classmethod
    def summarised(cls, name: str, mean: float, sd: float) -> Parameter:
        """Return a parameter of which only mean and standard deviation are known."""
        return cls(name, mean, sd, mean - 1.645 * sd, mean + 1.645 * sd)

    @classmethod
    def sampled(cls, name: str, draws: Any) -> Parameter:
        """Return a parameter from its draws."""
        flat = np.asarray(draws, np.float64).ravel()
        low, high = np.quantile(flat, [0.05, 0.95])
        return cls(name, float(flat.mean()), float(flat.std()), float(low), float(high), flat)


def intervals(parameters: Sequence[Parameter]) -> Html:
    """Return a picture of parameters with 90 % intervals (and densities), and their table.

    >>> "slope" in intervals([Parameter.summarised("slope", 1.0, 0.2)])
    True
    """
    shown = [p for p in parameters if np.isfinite([p.low, p.high]).all()][:_SHOWN]
    rows = table(
        "Posterior of each parameter",
        ["parameter", "mean", "sd", "5 %", "95 %"],
        ([p.name, *(number(v) for v in (p.mean, p.sd, p.low, p.high))] for p in parameters),
        numbers=4,
    )
    if not shown:
        return rows
    drawing = Drawing(_ROW * len(shown) + 34)
    low, high = min(p.low for p in shown), max(p.high for p in shown)
    margin = 0.05 * (high - low) or 1.0
    low, high = low - margin, high + margin

    def across(x: Any) -> Any:
        return _LEFT + (x - low) / (high - low) * (WIDTH - _LEFT - 10)

    bottom = _ROW * len(shown) + 8
    for x in ticks(low, high, 4):
        drawing.line(across(x), 4, across(x), bottom, stroke=GRID)
        drawing.text(across(x), bottom + 14, number(x), text_anchor="middle")
    for k, parameter in enumerate(shown):
        y = _ROW * (k + 0.5) + 6
        name = parameter.name if len(parameter.name) <= 17 else parameter.name[:16] + "…"
        drawing.text(_LEFT - 6, y + 4, name, text_anchor="end")
        if parameter.draws is not None:
            _density(drawing, parameter, across, y)
        drawing.line(
            across(parameter.low), y, across(parameter.high), y, stroke=COLOURS[0], stroke_width=3
        )
        drawing.dot(across(parameter.mean), y, COLOURS[1])
    words = "; ".join(f"{p.name} {number(p.low)} to {number(p.high)}" for p in shown[:12])
    picture = drawing.render("Posterior intervals", f"90 % intervals: {words}.")
    caption = tag("figcaption", "Means and 90 % intervals; shaded where there are draws.")
    return tag("div", tag("figure", picture, caption), rows)


def _density(drawing: Drawing, parameter: Parameter, across: Any, y: float) -> None:
    """Draw the histogram of the draws above the interval."""
    inside = parameter.draws[
        (parameter.draws >= parameter.low) & (parameter.draws <= parameter.high)
    ]
    if len(inside) < 20 or parameter.high <= parameter.low:
        return
    heights, edges = np.histogram(inside, bins=24)
    middles = (edges[:-1] + edges[1:]) / 2
    tops = y - heights / heights.max() * (_ROW * 0.5)
    points = [
        (across(parameter.low), y),
        *zip(across(middles), tops, strict=True),
        (across(parameter.high), y),
    ]
    drawing.area(points, COLOURS[0])
