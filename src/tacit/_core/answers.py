"""Answers: the result first, with its uncertainty; then the promise; then how it was made.

Whatever a person may ask "and what came out?" derives from `Answering` and says one thing,
`_answer`: a headline, tables, pictures, one line of promise, and details that are folded. The
terminal, notebooks, data frames, plots and reports all show that same answer.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tacit._core.check import OneOf, Real, check
from tacit._core.html import Html, join, tag
from tacit._core.html import table as html_table
from tacit._core.pictures import Picture
from tacit._core.plotting import figure_of
from tacit.errors import MissingExtra, ParameterError

__all__ = ["ERROR", "NOISE", "SPREAD", "Answer", "Answering", "Table", "shown_number"]

# the columns by which the others of a row are rounded
ERROR, SPREAD = "standard error", "posterior sd"
_UNITLESS = ("R-hat",)  # what an error of the estimate says nothing about
NOISE = "share of noise"  # the column that says how much of a row's variance is privacy noise
LEVEL = 0.9
_MOST_ROWS = 30  # in a terminal or a notebook; a frame has them all
_LONGEST = 160  # characters of a name on a page


@dataclass(frozen=True)
class Table:
    """A table of results.

    Attributes
    ----------
    name
        A short name to ask for it by.
    caption
        What it shows, in a few words.
    columns
        Heading → values, all of one length: text, numbers, or None where there is nothing.
    notes
        What a reader of its numbers should know, such as which of them are mostly noise.
    shown
        How many rows are printed at most; 0 says only that they are there.

    Examples
    --------
    >>> table = Table("means", "Means", {"column": ["age"], "mean": [49.8123],
    ...               "standard error": [0.213]})
    >>> print(table)
    Means
     column    mean   standard error
    ─────────────────────────────────
     age      49.81             0.21
    """

    name: str
    caption: str
    columns: Mapping[str, Sequence[Any]]
    notes: tuple[str, ...] = ()
    shown: int = _MOST_ROWS

    def __post_init__(self) -> None:
        if len({len(values) for values in self.columns.values()}) > 1:
            raise ParameterError(f"the columns of table {self.name!r} must have one length")

    def __len__(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    @property
    def cells(self) -> list[list[str]]:
        """The rows as text; numbers to the precision that their standard error leaves them."""
        errors = self.columns.get(ERROR, self.columns.get(SPREAD, [None] * len(self)))
        return [
            [
                _percent(values[k])
                if heading == NOISE
                else shown_number(values[k], None if heading in _UNITLESS else errors[k])
                for heading, values in self.columns.items()
            ]
            for k in range(len(self))
        ]

    @property
    def numbers(self) -> list[bool]:
        """Whether each column holds numbers."""
        return [
            any(_is_number(value) for value in values)
            and all(_is_number(value) or value is None for value in values)
            for values in self.columns.values()
        ]

    def to_frame(self, backend: str = "polars") -> Any:
        """Return the whole table as a data frame.

        Parameters
        ----------
        backend
            ``"polars"``, or ``"pandas"`` (extra ``frames``).
        """
        check("backend", backend, OneOf("polars", "pandas"))
        data = {heading: list(values) for heading, values in self.columns.items()}
        if backend == "pandas":
            try:
                import pandas
            except ImportError:
                raise MissingExtra("a pandas frame", "frames") from None
            return pandas.DataFrame(data)
        import polars

        return polars.DataFrame(data, strict=False)

    def __str__(self) -> str:
        from rich import box
        from rich.table import Table as Drawn
        from rich.text import Text

        if not self.shown:
            return f"{self.caption}: {len(self)} rows, see to_frame({self.name!r})"
        drawn = Drawn(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=True)
        for heading, number in zip(self.columns, self.numbers, strict=True):
            drawn.add_column(Text(heading), justify="right" if number else "left")
        for row in self.cells[: self.shown]:
            drawn.add_row(*(Text(cell) for cell in row))  # names are no markup
        lines = [self.caption, _printed(drawn)]
        if len(self) > self.shown:
            lines.append(f" … and {len(self) - self.shown} more rows: see to_frame()")
        return "\n".join([*lines, *(f" {note}" for note in self.notes)])

    def html(self, most: int = _MOST_ROWS, more: str = "see to_frame()") -> Html:
        """Return the table as HTML.

        Parameters
        ----------
        most
            How many rows it has at most.
        more
            Where the others are.
        """
        rows = [[_cut(cell) for cell in row] for row in self.cells[:most]]
        heads = [_cut(heading) for heading in self.columns]
        told = html_table(_cut(self.caption), heads, rows, self.numbers)
        left = len(self) - most
        rest = [f"… and {left:,} more rows: {more}"] if left > 0 else []
        return join([told, *(tag("p", note, class_="soft") for note in [*rest, *self.notes])])


@dataclass(frozen=True)
class Answer:
    """What was learned, as a person reads it.

    Attributes
    ----------
    title
        What this is, in a few words.
    headline
        The result in one sentence, with its uncertainty.
    tables
        The results, the most important first.
    warnings
        What must not be overlooked, such as a number that is mostly noise.
    promise
        The guarantee in one line.
    details
        What is folded: heading → a text or tables.
    pictures
        Name → picture, the most important first.
    """

    title: str
    headline: str = ""
    tables: tuple[Table, ...] = ()
    warnings: tuple[str, ...] = ()
    promise: str = ""
    details: Mapping[str, str | Sequence[Table]] = field(default_factory=dict)
    pictures: Mapping[str, Picture] = field(default_factory=dict)

    def table(self, name: str | None = None) -> Table:
        """Return a table by its name; without one, the first."""
        found = {table.name: table for table in self.tables}
        return found[_named("table", found, name)]

    def picture(self, name: str | None = None) -> Picture:
        """Return a picture by its name; without one, the first."""
        return self.pictures[_named("picture", self.pictures, name)]

    def __str__(self) -> str:
        parts = [self.title, self.headline, *(str(table) for table in self.tables)]
        parts += [f"! {warning}" for warning in self.warnings]
        return "\n\n".join(part for part in [*parts, self.promise] if part)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return self.html()

    def html(self, *more: tuple[str, Html]) -> Html:
        """Return the answer as HTML without a script; ``more`` is folded below the details."""
        parts: list[Html] = [tag("p", tag("strong", self.title))]
        parts += [tag("p", self.headline)] if self.headline else []
        parts += [table.html() for table in self.tables]
        parts += [tag("p", f"⚠ {warning}", role="note") for warning in self.warnings]
        parts += [tag("p", self.promise)] if self.promise else []
        folded: list[tuple[str, Html]] = [
            (
                heading,
                tag("p", inner)
                if isinstance(inner, str)
                else join(table.html() for table in inner),
            )
            for heading, inner in self.details.items()
        ]
        parts += [
            tag("details", tag("summary", heading), inner) for heading, inner in [*folded, *more]
        ]
        return tag("div", tag("style", Html(_STYLE)), *parts, class_="tacit")


class Answering:
    """Base of whatever has an answer to show; a child says `_answer`."""

    def _answer(self, level: float) -> Answer:
        """Return what there is to show, with intervals of a level."""
        raise TypeError(f"{type(self).__name__} has no answer to show")

    def summary(self, level: float = LEVEL) -> Answer:
        """Return the result as a table, with its uncertainty, the promise and details.

        Parameters
        ----------
        level
            The probability that intervals are made for.
        """
        check("level", level, Real(0, 1, open_low=True, open_high=True))
        return self._answer(level)

    def to_frame(
        self, table: str | None = None, *, level: float = LEVEL, backend: str = "polars"
    ) -> Any:
        """Return the result as a data frame.

        Parameters
        ----------
        table
            Which of the tables of `summary`, by its name; None takes the first.
        level
            The probability that intervals are made for.
        backend
            ``"polars"``, or ``"pandas"`` (extra ``frames``).
        """
        return self.summary(level).table(table).to_frame(backend)

    def plot(self, picture: str | None = None, *, level: float = LEVEL, axes: Any = None) -> Any:
        """Draw the result (extra ``plots``) and return the matplotlib figure.

        Parameters
        ----------
        picture
            Which of the pictures of `summary`, by its name; None takes the first.
        level
            The probability that intervals are made for.
        axes
            Matplotlib axes to draw into; None makes a figure.
        """
        return figure_of(self.summary(level).picture(picture), axes)

    def _repr_html_(self) -> str:
        return self.summary().html()


def shown_number(value: Any, error: Any = None) -> str:
    """Return a number with the digits that its standard error leaves meaningful; text as it is.

    >>> shown_number(49.8123, 0.213), shown_number(1234567.0, 5321.0), shown_number(0.5)
    ('49.81', '1,234,600', '0.5')
    """
    if value is None:
        return "–"
    if not _is_number(value) or isinstance(value, bool):
        return str(value)
    number = float(value)
    if not math.isfinite(number):
        return str(number)
    if isinstance(value, int) or (number.is_integer() and error is None and abs(number) < 1e15):
        return f"{int(number):,}"
    if error is None or not _is_number(error) or not 0.0 < error < math.inf:
        return f"{number:,.4g}" if 1e-4 <= abs(number) < 1e6 or not number else f"{number:.4g}"
    digits = 1 - math.floor(math.log10(error))  # two digits of the error
    if digits > 12 or digits < -12:
        return f"{number:.4g}"
    return f"{round(number, digits):,.{max(0, digits)}f}"


def _percent(share: float | None) -> str:
    """Return a share in percent."""
    return "–" if share is None else f"{100.0 * share:.0f} %"


def _named(what: str, found: Iterable[str], name: str | None) -> str:
    """Return a name that is there; without one, the first."""
    names = list(found)
    if not names:
        raise ParameterError(f"there is no {what} to show")
    if name is None:
        return names[0]
    check(what, name, OneOf(*names))
    return name


def _cut(text: str) -> str:
    """Return a name of a length that a page can hold."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or hasattr(value, "__float__")


def _printed(drawn: Any) -> str:
    """Return what rich draws as plain text, without colours."""
    from rich.console import Console

    target = io.StringIO()
    Console(
        file=target,
        width=100,
        color_system=None,
        legacy_windows=False,
        force_jupyter=False,  # a notebook's cell would show the tables on its own
    ).print(drawn)
    return "\n".join(line.rstrip() for line in target.getvalue().rstrip("\n").split("\n"))


_STYLE = (
    ".tacit table{border-collapse:collapse}.tacit td,.tacit th{padding:.15em .7em;"
    "text-align:left}.tacit .number{text-align:right;font-variant-numeric:tabular-nums}"
    ".tacit caption{text-align:left;font-weight:600}.tacit .soft{opacity:.75;font-size:90%}"
    ".tacit .scroll{overflow-x:auto;max-width:100%}.tacit .long{overflow-wrap:anywhere;"
    "min-width:12rem}.tacit p{overflow-wrap:anywhere}"
)
