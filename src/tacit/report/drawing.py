"""Pictures as inline SVG: a canvas as wide as a phone, that has a title and a description."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tacit._core.html import Html, join, tag

__all__ = ["COLOURS", "Drawing", "number", "ticks"]

WIDTH = 360  # units of a drawing; a phone shows about one CSS pixel for each
INK, GRID = "#1c2733", "#d5dbe1"
# Colours that differ for all common kinds of colour vision, each 3 : 1 or more against white
# (Okabe & Ito's palette, darkened).
COLOURS = ("#005a9c", "#b34700", "#00735c", "#8a3a7d", "#5f5f00", "#444444")
_NUMBERS = itertools.count(1)


class Drawing:
    """A picture in the making, as wide as a phone."""

    def __init__(self, height: float) -> None:
        self.height = height
        self.parts: list[Html] = []

    def text(self, x: float, y: float, words: object, size: float = 11, **style: Any) -> None:
        """Write words; ``text_anchor="middle"`` or ``"end"`` sets them about x."""
        style = {"fill": INK, **style}
        self.parts.append(tag("text", words, x=_round(x), y=_round(y), font_size=size, **style))

    def line(self, x: float, y: float, x2: float, y2: float, **style: Any) -> None:
        """Draw a line."""
        style = {"stroke": INK, **style}
        self.parts.append(
            tag("line", x1=_round(x), y1=_round(y), x2=_round(x2), y2=_round(y2), **style)
        )

    def box(self, x: float, y: float, width: float, height: float, **style: Any) -> None:
        """Draw a rectangle."""
        sides = {"x": x, "y": y, "width": width, "height": height}
        self.parts.append(tag("rect", **{k: _round(v) for k, v in sides.items()}, **style))

    def dot(self, x: float, y: float, colour: str, radius: float = 3.5) -> None:
        """Draw a point."""
        self.parts.append(tag("circle", cx=_round(x), cy=_round(y), r=radius, fill=colour))

    def curve(self, points: Any, colour: str, **style: Any) -> None:
        """Draw a line through points."""
        places = " ".join(f"{_round(x)},{_round(y)}" for x, y in points)
        style = {"stroke_width": 2, **style}
        self.parts.append(tag("polyline", points=places, fill="none", stroke=colour, **style))

    def area(self, points: Any, colour: str) -> None:
        """Fill the inside of a closed curve."""
        path = "M" + "L".join(f"{_round(x)} {_round(y)}" for x, y in points) + "Z"
        self.parts.append(tag("path", d=path, fill=colour, fill_opacity=0.3, stroke=colour))

    def render(self, title: str, description: str) -> Html:
        """Return the SVG, named and described for those who do not see it."""
        name = f"picture-{next(_NUMBERS)}"
        return tag(
            "svg",
            tag("title", title, id=f"{name}-title"),
            tag("desc", description, id=f"{name}-text"),
            join(self.parts),
            viewBox=f"0 0 {WIDTH} {_round(self.height)}",
            role="img",
            aria_labelledby=f"{name}-title",
            aria_describedby=f"{name}-text",
            xmlns="http://www.w3.org/2000/svg",
        )


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Return round numbers within a range.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    rough = (high - low) / wanted
    unit = 10.0 ** math.floor(math.log10(rough))
    step = unit * next(m for m in (1, 2, 5, 10) if m * unit >= rough * (1 - 1e-9))
    places = np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1) * step
    return [round(float(place), 12) for place in places]


def number(value: float) -> str:
    """Return a number as a person would write it.

    >>> number(0.25), number(12000.0), number(float("inf"))
    ('0.25', '12,000', '∞')
    """
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return text.replace("-", "−")


def _round(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
