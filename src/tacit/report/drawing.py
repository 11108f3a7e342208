"""Pictures as inline SVG: a canvas as wide as a phone, coloured by the page's style.

Shapes carry classes and no colours, so that light, dark and print are the style sheet's business:
``s0`` … ``s5`` are series, ``grid`` is a thin line, ``soft`` a pale letter, ``fill`` an area.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tacit._core.html import Html, join, tag

__all__ = [
    "MARKS",
    "WIDTH",
    "Drawing",
    "finite",
    "label_room",
    "margined",
    "middle_cut",
    "number",
    "short",
    "ticks",
]

WIDTH = 360  # units of a drawing; a phone shows about one CSS pixel for each
MARKS = 6  # series that differ in colour, and in the shape of their points and lines
_HUGE = 1e200  # differences of such numbers still are numbers


class Drawing:
    """A picture in the making, as wide as a phone."""

    def __init__(self, height: float) -> None:
        self.height = height
        self.parts: list[Html] = []

    def text(self, x: float, y: float, words: object, size: float = 11, **style: Any) -> None:
        """Write words; ``text_anchor="middle"`` or ``"end"`` sets them about x."""
        self.parts.append(tag("text", words, x=_round(x), y=_round(y), font_size=size, **style))

    def line(self, x: float, y: float, x2: float, y2: float, **style: Any) -> None:
        """Draw a line."""
        self.parts.append(
            tag("line", x1=_round(x), y1=_round(y), x2=_round(x2), y2=_round(y2), **style)
        )

    def box(self, x: float, y: float, width: float, height: float, **style: Any) -> None:
        """Draw a rectangle."""
        sides = {"x": x, "y": y, "width": max(width, 0.0), "height": max(height, 0.0)}
        self.parts.append(tag("rect", **{k: _round(v) for k, v in sides.items()}, **style))

    def point(self, x: float, y: float, series: int = 0, radius: float = 3.5) -> None:
        """Draw a point of a series: a disc, a square, a diamond or a triangle."""
        kind, shape = f"fill s{series % MARKS}", series % 4
        if shape == 0:
            self.parts.append(tag("circle", cx=_round(x), cy=_round(y), r=radius, class_=kind))
            return
        corners = {
            1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
            2: ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
            3: ((0, -1.2), (1.2, 1), (-1.2, 1)),
        }[shape]
        self.area([(x + radius * a, y + radius * b) for a, b in corners], kind)

    def curve(self, points: Any, series: int = 0, **style: Any) -> None:
        """Draw a line of a series through points."""
        places = " ".join(f"{_round(x)},{_round(y)}" for x, y in points)
        self.parts.append(
            tag("polyline", points=places, class_=f"line s{series % MARKS}", **style)
        )

    def area(self, points: Any, kind: str) -> None:
        """Fill the inside of a closed curve."""
        path = "M" + "L".join(f"{_round(x)} {_round(y)}" for x, y in points) + "Z"
        self.parts.append(tag("path", d=path, class_=kind))

    def render(self, title: str, description: str) -> Html:
        """Return the SVG, named and described for those who do not see it."""
        return tag(
            "svg",
            tag("title", title),
            tag("desc", description),
            join(self.parts),
            viewBox=f"0 0 {WIDTH} {_round(self.height)}",
            role="img",
            aria_label=title,
            xmlns="http://www.w3.org/2000/svg",
        )


def finite(value: Any) -> bool:
    """Whether a value can be drawn."""
    return value is not None and bool(abs(float(value)) < _HUGE)  # NaN is not less


def margined(values: Any, zero: bool = False, share: float = 0.06) -> tuple[float, float]:
    """Return a range with some room around the values that can be drawn.

    >>> margined([0.0, 1.0, float("nan")], share=0.5)
    (-0.5, 1.5)
    """
    found = [float(v) for v in values if finite(v)] + ([0.0] if zero else [])
    low, high = (min(found), max(found)) if found else (0.0, 1.0)
    room = share * (high - low)
    if room <= 1e-9 * max(abs(low), abs(high)):
        room = 0.1 * abs(high) or 1.0
    below = 0.0 if zero and low == 0.0 else room
    return low - below, high + (0.0 if zero and high == 0.0 and low < 0.0 else room)


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Return round numbers within a range.

    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high - low > 1e-12 * max(abs(low), abs(high), 1e-280):
        return [low]
    rough = (high - low) / wanted
    unit = 10.0 ** math.floor(math.log10(rough))
    step = unit * next(m for m in (1, 2, 5, 10) if m * unit >= rough * (1 - 1e-9))
    places = np.arange(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1) * step
    digits = min(300, max(0, 12 - math.floor(math.log10(step))))
    return [round(float(place), digits) for place in places]


def number(value: Any) -> str:
    """Return a number as a person would write it.

    >>> number(0.25), number(12000.0), number(float("inf")), number(None)
    ('0.25', '12,000', '∞', '–')
    """
    if value is None or math.isnan(float(value)):
        return "–"
    found = float(value) + 0.0  # no minus before zero
    if math.isinf(found):
        return "∞" if found > 0 else "−∞"
    text = f"{found:,.0f}" if 1000 <= abs(found) < 1e9 else f"{found:.4g}"
    return text.replace("-", "−")


def short(label: object, most: int) -> str:
    """Return a label that fits.

    >>> short("a very long name", 7)
    'a very…'
    """
    text = str(label)
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def label_room(labels: Iterable[object]) -> tuple[float, int]:
    """Return how wide a column of labels is, and how many letters of one fit in.

    >>> label_room(["age", "income"]), label_room(["x" * 100])
    ((58.0, 7), (168.0, 23))
    """
    longest = max((len(str(label)) for label in labels), default=0)
    letters = min(max(longest, 7), 23)
    return min(8.0 + 50.0 / 7.0 * letters, 168.0), letters


def middle_cut(label: object, most: int) -> str:
    """Return a label that fits, with its beginning and its end.

    >>> middle_cut("component 1 · feature 2", 15)
    'compon…eature 2'
    """
    text = str(label)
    if len(text) <= most:
        return text
    tail = (most - 1) // 2 + 1
    return f"{text[: most - 1 - tail]}…{text[-tail:]}"


def _round(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
