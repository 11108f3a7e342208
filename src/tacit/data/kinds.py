"""What one column may hold, and how each of its values is read.

A value is read by the kind that somebody stated for its column, never by what the rest of the
column looks like: a type inferred from a column is a fact about other people (PRIVACY A13). So
``"12"`` and ``12`` are the same number, ``"0012"`` and ``"12"`` are different ids, and one stray
text makes one bad value, not a column of text.
"""

from __future__ import annotations

import datetime as dt
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from tacit.data.values import (
    EPOCH,
    NA_WORDS,
    as_float,
    days,
    days_of,
    few,
    floats,
    is_real,
    lowered,
    missing_among,
    plain_text,
    read_texts,
    since_epoch,
    texts,
    trimmed,
    writable,
)
from tacit.errors import ParameterError, UnboundedData

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

__all__ = ["Category", "Date", "Kind", "Number", "Parsed"]


class Parsed(NamedTuple):
    """One column, read value by value.

    Attributes
    ----------
    values
        Numbers; NaN where there is none. Positions in a category's list, days since 1970; of text
        and of keys, the texts.
    missing, bad, outside
        Where nothing stands, where something stands that is no such value, and where a value is
        not in the public range or list.
    """

    values: NDArray[Any]
    missing: NDArray[np.bool_]
    bad: NDArray[np.bool_]
    outside: NDArray[np.bool_]


@dataclass(frozen=True)
class Kind(ABC):
    """What a column may hold; one of the kinds below.

    Attributes
    ----------
    word
        What it is called in files and errors.
    modelled
        Whether a value is a few numbers, which models read.
    listed
        Whether `Columns`' rule for what is unknown speaks of its values, or that for what is
        outside of a range.
    """

    word: ClassVar[str] = ""
    modelled: ClassVar[bool] = True
    listed: ClassVar[bool] = False

    @property
    def numeric(self) -> bool:
        """Whether its values are numbers, written as a file writes these."""
        return False

    @abstractmethod
    def parse(self, column: pl.Series, words: Sequence[str] = NA_WORDS) -> Parsed:
        """Read a column value by value; ``words`` stand for missing values."""

    @property
    @abstractmethod
    def remedy(self) -> str:
        """What to do about a value that cannot be read."""

    @property
    def remedy_outside(self) -> str:
        """What to do about a value that is not in the range or list."""
        return "widen the public range, or pass outside='clip'"

    @property
    @abstractmethod
    def range(self) -> tuple[float, float]:
        """The smallest and the largest number that a value becomes."""

    @property
    def grid(self) -> float:
        """How far apart neighbouring values are, from the lower end on; 0 where they are close."""
        return 0.0

    def encoded(self, name: str) -> list[str]:
        """Return the names of the numbers that a model sees of a value."""
        return [name]

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what a model sees of parsed values, (rows, numbers)."""
        return values[:, None]

    def show(self, value: float) -> str:
        """Return a parsed value as people write it."""
        return f"{value:g}"

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return everything as plain data, which `kind_of` reads."""


def _numbers(found: pl.Series) -> NDArray[np.float64]:
    import polars as pl

    return floats(found.cast(pl.Float64, strict=False))


def _places(found: pl.Series, names: Sequence[str]) -> NDArray[np.float64]:
    """Return the positions of texts in a list; NaN where there is none."""
    import polars as pl

    return floats(found.cast(pl.Enum(list(names)), strict=False).to_physical())


@dataclass(frozen=True)
class Number(Kind):
    """Numbers in a public range."""

    low: float
    high: float
    unit: str = ""
    step: float = 0.0  # between neighbouring values: 1 of whole numbers

    word: ClassVar[str] = "number"

    @property
    def numeric(self) -> bool:
        """They are."""
        return True

    def __post_init__(self) -> None:
        low, high = as_float("low", self.low), as_float("high", self.high)
        if not (math.isfinite(high - low) and low < high):
            raise ParameterError(f"a range must be finite with low < high, got ({low}, {high})")
        step = as_float("step", self.step)
        if step and not (step > 0.0 and 1.0 <= (high - low) / step <= 2.0**30):
            raise ParameterError(
                f"step must be positive and fit into the range ({low:g}, {high:g}), at most 2^30 "
                f"times, got {self.step}: whole numbers have step=1"
            )
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)
        object.__setattr__(self, "step", step)

    @property
    def grid(self) -> float:
        """How far apart neighbouring values are, as stated."""
        return self.step

    def parse(self, column: pl.Series, words: Sequence[str] = NA_WORDS) -> Parsed:
        """Read numbers; text is read as one with a decimal point."""
        import polars as pl

        if column.dtype.is_numeric() or column.dtype == pl.Boolean:
            found, values = column, floats(column)
            bad = np.zeros(len(values), bool)
            missing = np.isnan(values) | missing_among(found, words, values, _numbers)
        else:
            found, values = read_texts(column, _numbers)
            left = np.flatnonzero(np.isnan(values))
            if left.size:  # a truth value is a number, whether its neighbours are ones or not
                truth = {"true": 1.0, "false": 0.0}
                values[left] = floats(texts(found[left]).replace_strict(truth, default=None))
            missing = missing_among(found, words, values, _numbers)
            bad = np.isnan(values) & ~missing
        outside = ((values < self.low) | (values > self.high)) & ~missing
        values[missing] = np.nan
        return Parsed(values, missing, bad, outside)

    @property
    def remedy(self) -> str:
        """What to do about a value that cannot be read."""
        return "a number is needed: mend it, or pass decimal=',' for decimal commas"

    @property
    def range(self) -> tuple[float, float]:
        """The public range."""
        return self.low, self.high

    def described(self) -> dict[str, Any]:
        """Return everything as plain data."""
        unit = {"unit": self.unit} if self.unit else {}
        step = {"step": self.step} if self.step else {}
        return {"kind": self.word, "low": self.low, "high": self.high, **unit, **step}


@dataclass(frozen=True)
class Category(Kind):
    """One of a public list of values, matched one by one as text."""

    levels: tuple[Any, ...]

    word: ClassVar[str] = "category"
    listed: ClassVar[bool] = True

    @property
    def numeric(self) -> bool:
        """Whether the list has numbers only."""
        return all(is_real(level) for level in self.levels)

    def __post_init__(self) -> None:
        names = [writable(plain_text(level)) for level in self.levels]
        if not names:
            raise UnboundedData(
                "a category's values must be listed, as in tc.category('f', 'm'): the list is "
                "never read from the data. Where it is not public, tc.keys() counts in a summary "
                "those values that many people have"
            )
        if len(names) < 2 or len(set(names)) < len(names):
            raise ParameterError(
                f"a category needs two or more different values, got {list(self.levels)}"
            )

    def parse(self, column: pl.Series, words: Sequence[str] = NA_WORDS) -> Parsed:
        """Return positions in the list."""
        names = [plain_text(level) for level in self.levels]
        found, values = read_texts(column, lambda c: _places(c, names))
        left = np.flatnonzero(np.isnan(values))
        composed = [trimmed(name) for name in names]
        if left.size and len(set(composed)) == len(names):  # the same letters, written otherwise
            values[left] = _places(texts(found[left]), composed)
        known = ~np.isnan(values)
        missing = missing_among(found, [w for w in words if w not in lowered(names)], values)
        return Parsed(values, missing, np.zeros(len(values), bool), ~known & ~missing)

    @property
    def remedy(self) -> str:
        """What to do about a value that is not in the list."""
        return f"it is none of {few(self.levels)}: mend it, or pass unknown="

    @property
    def remedy_outside(self) -> str:
        """The same: to be unknown is the only way to be wrong."""
        return self.remedy

    @property
    def range(self) -> tuple[float, float]:
        """Positions in the list."""
        return 0.0, float(len(self.levels) - 1)

    def encoded(self, name: str) -> list[str]:
        """Return one name for every value but the first, which models compare with."""
        return [f"{name}={plain_text(level)}" for level in self.levels[1:]]

    def encode(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return an indicator for every value but the first."""
        return np.asarray(values[:, None] == np.arange(1, len(self.levels)), np.float64)

    def show(self, value: float) -> str:
        """Return the value of a position."""
        return plain_text(self.levels[int(value)])

    def described(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"kind": self.word, "levels": list(self.levels)}


@dataclass(frozen=True)
class Date(Kind):
    """Dates, or dates with times, in a public range; ISO unless ``formats`` say otherwise.

    Day and time are those of the place where they were written: an offset is not taken off.
    """

    low: dt.datetime
    high: dt.datetime
    formats: tuple[str, ...] = ()
    timed: bool = False

    word: ClassVar[str] = "date"
    _DATES: ClassVar[tuple[str, ...]] = ("%Y-%m-%d",)
    _TIMES: ClassVar[tuple[str, ...]] = (
        "%Y-%m-%dT%H:%M:%S%.f",
        "%Y-%m-%d %H:%M:%S%.f",
        "%Y-%m-%dT%H:%M",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M:%S%.f%z",
        "%Y-%m-%d %H:%M:%S%.f%z",
    )

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ParameterError(f"a range of dates must begin before it ends, got {self.low}")

    def parse(self, column: pl.Series, words: Sequence[str] = NA_WORDS) -> Parsed:
        """Return days since 1970, whole ones unless times count."""
        import polars as pl

        if column.dtype in (pl.Date, pl.Datetime):
            if getattr(column.dtype, "time_zone", None):  # the day is that of the place
                column = column.dt.replace_time_zone(None)
            found, values = column, self._counted(days(column.cast(pl.Datetime("us"))))
        else:
            found, values = read_texts(column, self._read)
        missing = missing_among(found, words, values, self._read)
        bad = np.isnan(values) & ~missing
        low, high = self.range
        outside = ((values < low) | (values > high)) & ~missing
        values[missing] = np.nan
        return Parsed(values, missing, bad, outside)

    def _read(self, found: pl.Series) -> NDArray[np.float64]:
        """Return days of texts in any of the forms; the first that fits counts."""
        first, *others = self.formats or (*self._DATES, *self._TIMES)
        when = days_of(found, first)
        for form in others:
            left = np.flatnonzero(np.isnan(when))
            if left.size:
                when[left] = days_of(found[left], form)
        return self._counted(when)

    def _counted(self, when: NDArray[np.float64]) -> NDArray[np.float64]:
        return when if self.timed else np.floor(when)

    @property
    def remedy(self) -> str:
        """What to do about a value that cannot be read."""
        asked = " or ".join(self.formats) or "2026-12-31"
        return f"a date like {asked} is needed: mend it, or pass its form, formats=('%d.%m.%Y',)"

    @property
    def range(self) -> tuple[float, float]:
        """Days since 1970."""
        return since_epoch(self.low), since_epoch(self.high)

    @property
    def grid(self) -> float:
        """One day, unless times count."""
        low, high = self.range
        return 0.0 if self.timed or low % 1.0 or high - low < 1.0 else 1.0

    def show(self, value: float) -> str:
        """Return the date."""
        moment = EPOCH + dt.timedelta(days=value)
        return moment.isoformat(" ", "minutes") if self.timed else moment.date().isoformat()

    def described(self) -> dict[str, Any]:
        """Return everything as plain data."""
        shown = [
            m.isoformat() if self.timed else m.date().isoformat() for m in (self.low, self.high)
        ]
        forms = {"formats": list(self.formats)} if self.formats else {}
        return {
            "kind": "time" if self.timed else "date",
            "low": shown[0],
            "high": shown[1],
            **forms,
        }
