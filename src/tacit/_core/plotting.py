"""Pictures drawn with matplotlib (extra ``plots``), which is imported only when one is drawn."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tacit._core.pictures import Bars, HeatMap, Histogram, Intervals, Lines, Picture
from tacit.errors import MissingExtra

__all__ = ["figure_of"]

_MOST_LABELS = 40


def figure_of(picture: Picture, axes: Any = None) -> Any:
    """Draw a picture and return its matplotlib figure.

    Parameters
    ----------
    picture
        What to draw.
    axes
        Matplotlib axes to draw into; None makes a figure of its own.

    Examples
    --------
    >>> slopes = Intervals("Slopes", "per year", ["age"], [1.0], [0.5], [1.5], reference=0)
    >>> figure = figure_of(slopes)
    >>> figure.axes[0].get_title(loc="left")
    'Slopes'
    """
    if axes is None:
        figure = _figure_class()(figsize=_size(picture), layout="constrained")
        axes = figure.subplots()
    _HOW[type(picture)](picture, axes)
    axes.set_title(picture.title, loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    return axes.figure


@cache
def _figure_class() -> Any:
    """Return a figure that notebooks show without pyplot."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("a plot", "plots") from None

    class Drawing(Figure):
        """A figure that is shown as a picture wherever objects are."""

        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            FigureCanvasAgg(self)

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=110)
            return buffer.getvalue()

    return Drawing


def _size(picture: Picture) -> tuple[float, float]:
    """Return a size in inches that leaves room for every label."""
    if isinstance(picture, Intervals | Bars):
        return 6.4, min(1.4 + 0.28 * len(picture.labels), 12.0)
    if isinstance(picture, HeatMap):
        return 6.4, min(1.6 + 0.22 * len(picture.rows), 12.0)
    return 6.4, 3.6


def _intervals(picture: Intervals, axes: Any) -> None:
    places = np.arange(len(picture.labels))
    values = np.asarray(picture.values, float)
    below, above = values - np.asarray(picture.lows), np.asarray(picture.highs) - values
    axes.errorbar(
        values, places, xerr=np.maximum(0.0, [below, above]), fmt="o", ms=4, capsize=3, lw=1.4
    )
    if picture.reference is not None:
        axes.axvline(picture.reference, color="0.6", lw=0.9, ls="--", zorder=0)
    axes.set_yticks(places, [_short(label) for label in picture.labels])
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.set_xlabel(picture.axis)


def _histogram(picture: Histogram, axes: Any) -> None:
    edges, heights = np.asarray(picture.edges, float), np.asarray(picture.heights, float)
    axes.bar(edges[:-1], heights, np.diff(edges), align="edge", color="C0", alpha=0.55)
    if len(picture.errors):
        middle = (edges[1:] + edges[:-1]) / 2.0
        axes.errorbar(
            middle, heights, np.asarray(picture.errors), fmt="none", ecolor="0.35", lw=0.9
        )
    for name, place in picture.marks.items():
        axes.axvline(place, color="C1", lw=1.1)
        axes.annotate(
            name, (place, 1.0), xycoords=("data", "axes fraction"), fontsize=8, va="bottom"
        )
    axes.set_xlabel(picture.axis)
    axes.set_ylabel("rows")


def _bars(picture: Bars, axes: Any) -> None:
    places, values = np.arange(len(picture.labels)), np.asarray(picture.values, float)
    errors = None
    if len(picture.lows):
        below, above = values - np.asarray(picture.lows), np.asarray(picture.highs) - values
        errors = np.maximum(0.0, [below, above])
    axes.barh(places, values, xerr=errors, color="C0", alpha=0.55, error_kw={"ecolor": "0.35"})
    axes.set_yticks(places, [_short(label) for label in picture.labels])
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.set_xlabel(picture.axis)


def _lines(picture: Lines, axes: Any) -> None:
    for name, points in picture.series.items():
        along, height = zip(*points, strict=True) if points else ((), ())
        marker = "o" if len(points) < 30 else None
        axes.plot(along, height, marker=marker, ms=3.5, lw=1.4, label=name)
    for k, (name, level) in enumerate(picture.levels.items()):
        axes.axhline(level, color=f"C{len(picture.series) + k}", lw=1.0, ls="--", label=name)
    if picture.logarithmic:
        axes.set_xscale("log")
    if len(picture.series) + len(picture.levels) > 1:
        axes.legend(frameon=False, fontsize=8)
    axes.set_xlabel(picture.across)
    axes.set_ylabel(picture.upwards)


def _heat_map(picture: HeatMap, axes: Any) -> None:
    values = np.asarray(picture.values, float)
    signed = bool((values < 0.0).any())
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    low = -largest if signed else 0.0
    shades = "RdBu_r" if signed else "Blues"
    shown = axes.imshow(values, aspect="auto", cmap=shades, vmin=low, vmax=largest)
    if len(picture.rows) <= _MOST_LABELS:
        axes.set_yticks(range(len(picture.rows)), [_short(row) for row in picture.rows])
    axes.set_xticks(range(len(picture.columns)), [_short(name) for name in picture.columns])
    axes.figure.colorbar(shown, ax=axes, label=picture.axis)


def _short(label: object, most: int = 28) -> str:
    """Return a label that fits; ``$`` would begin a formula."""
    text = str(label).replace("$", r"\$")
    return text if len(text) <= most else text[: most - 1] + "…"


_HOW: dict[type, Callable[[Any, Any], None]] = {
    Intervals: _intervals,
    Histogram: _histogram,
    Bars: _bars,
    Lines: _lines,
    HeatMap: _heat_map,
}
