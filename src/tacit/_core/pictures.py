"""Pictures as data: what is drawn, and not how.

A result says which pictures it has; `tacit._core.plotting` draws them with matplotlib, the report
as SVG. Each is a frozen record of plain numbers and names, and none reads anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Bars", "HeatMap", "Histogram", "Intervals", "Later", "Lines", "Picture"]


@dataclass(frozen=True)
class Intervals:
    """Estimates with intervals, one below the other.

    Attributes
    ----------
    title, axis
        What is shown, and what the numbers are, with their unit.
    labels, values, lows, highs
        One of each per estimate.
    reference
        A number to compare with, such as 0; None draws none.
    """

    title: str
    axis: str
    labels: Sequence[str]
    values: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]
    reference: float | None = None


@dataclass(frozen=True)
class Histogram:
    """Heights of cells between edges, with standard errors.

    Attributes
    ----------
    title, axis
        What is shown, and what lies along the edges.
    edges
        One more than heights.
    heights, errors
        Of each cell; errors may be empty.
    marks
        Name → where on the axis, such as quantiles.
    """

    title: str
    axis: str
    edges: Sequence[float]
    heights: Sequence[float]
    errors: Sequence[float] = ()
    marks: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Bars:
    """A number for each name, with intervals where they are known.

    Attributes
    ----------
    title, axis
        What is shown, and what the numbers are.
    labels, values, lows, highs
        One of each per bar; lows and highs may be empty.
    """

    title: str
    axis: str
    labels: Sequence[str]
    values: Sequence[float]
    lows: Sequence[float] = ()
    highs: Sequence[float] = ()


@dataclass(frozen=True)
class Lines:
    """Curves over one axis.

    Attributes
    ----------
    title, across, upwards
        What is shown, and what the axes are.
    series
        Name → points (x, y).
    levels
        Name → a height that does not depend on x.
    logarithmic
        Whether x is drawn on a logarithmic scale.
    """

    title: str
    across: str
    upwards: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    levels: Mapping[str, float] = field(default_factory=dict)
    logarithmic: bool = False


@dataclass(frozen=True)
class HeatMap:
    """A matrix of numbers as shades.

    Attributes
    ----------
    title, axis
        What is shown, and what the numbers are.
    rows, columns
        Their names.
    values
        (rows, columns).
    """

    title: str
    axis: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]


Picture = Intervals | Histogram | Bars | Lines | HeatMap


class Later(Mapping[str, Picture]):
    """Pictures that take a while: each is made when it is asked for, and kept.

    >>> pictures = Later({"bars": lambda: Bars("Wards", "rows", ["a"], [1.0])})
    >>> list(pictures), pictures["bars"].title
    (['bars'], 'Wards')
    """

    def __init__(self, made_by: Mapping[str, Callable[[], Picture]]) -> None:
        self._made_by, self._made = dict(made_by), dict[str, Picture]()

    def __getitem__(self, name: str) -> Picture:
        if name not in self._made:
            self._made[name] = self._made_by[name]()
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made_by)

    def __len__(self) -> int:
        return len(self._made_by)
