"""Single values as text, numbers and moments: nothing here looks at more than one at a time."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

import numpy as np

from tacit.errors import ParameterError

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

__all__ = [
    "DAY",
    "EPOCH",
    "NA_WORDS",
    "as_float",
    "days",
    "days_of",
    "few",
    "floats",
    "is_real",
    "lowered",
    "missing_among",
    "moment",
    "plain_text",
    "read_texts",
    "repeated",
    "since_epoch",
    "texts",
    "trimmed",
    "writable",
]

# words for a value that is not there, compared without case
NA_WORDS = ("", "na", "n/a", "nan", "null", "none", "nil", "#n/a", "-", ".")
DAY = 86_400.0
EPOCH = dt.datetime(1970, 1, 1)
_OFFSET = r"(?:Z|[+-]\d{2}:?\d{2})$"  # from universal time


def plain_text(value: Any) -> str:
    """Return a value as the text that stands for it; a whole float is the whole number."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, dt.datetime) and value.time() == dt.time():
        return value.date().isoformat()
    if isinstance(value, dt.date):
        return value.isoformat()
    return str(value).strip()


def trimmed(text: str) -> str:
    """Return a text without blanks around, its letters composed (NFC).

    >>> trimmed(" Zoe\u0308 ") == "Zo\u00eb"
    True
    """
    plain = text.strip()
    return plain if plain.isascii() else normalize("NFC", plain)


def writable(text: str) -> str:
    """Return a name if it can be written, or say that it cannot: half a character is none."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ParameterError(f"{text!r} holds half a character, which no file can hold") from None
    return text


def texts(column: pl.Series) -> pl.Series:
    """Return a column as text without blanks around, value by value; null where there is none.

    Letters are composed: the same word is the same value, however a machine wrote its accents.
    """
    import polars as pl

    kind = column.dtype
    if kind == pl.String:
        plain = column.str.strip_chars()
        wide = (plain.str.len_bytes() != plain.str.len_chars()).any()  # else it is composed
        return plain.str.normalize("NFC") if wide else plain
    if kind.is_integer() or kind in (pl.Categorical, pl.Enum, pl.Date):
        return column.cast(pl.String)
    if kind == pl.Null:
        return column.cast(pl.String)
    found = [None if v is None or v != v else trimmed(plain_text(v)) for v in column.to_list()]
    return pl.Series(column.name, found, dtype=pl.String)


def read_texts(
    column: pl.Series, read: Callable[[pl.Series], NDArray[np.float64]]
) -> tuple[pl.Series, NDArray[np.float64]]:
    """Return a column as text, and its numbers by a reader; NaN where there is none.

    Blanks around a value are taken off only where it could not be read at once.
    """
    import polars as pl

    found = column if column.dtype == pl.String else texts(column)
    values = read(found)
    left = np.flatnonzero(np.isnan(values))
    if left.size:
        values[left] = read(texts(found[left]))
    return found, values


def missing_among(
    found: pl.Series,
    words: Sequence[str],
    values: NDArray[np.float64],
    read: Callable[[pl.Series], NDArray[np.float64]] | None = None,
) -> NDArray[np.bool_]:
    """Return where a value is missing: null, or one of the words.

    With ``read`` a word that reads as a value, such as ``-99``, stands for that value however it
    is written; without, only what could not be read is compared with the words.
    """
    import polars as pl

    missing: NDArray[np.bool_] = found.is_null().to_numpy().copy()
    left = np.flatnonzero(np.isnan(values) & ~missing)
    if left.size:
        marks = texts(found[left]).str.to_lowercase().is_in(lowered(words)).to_numpy()
        missing[left] = marks
    if read is not None:
        meant = read(pl.Series(lowered(words), dtype=pl.String))
        meant = meant[~np.isnan(meant)]
        if meant.size:
            missing |= np.isin(values, meant)
    return missing


def repeated(names: Sequence[str], *more: str) -> list[str]:
    """Return the names that stand twice, and those of ``more`` that stand there at all."""
    return sorted(name for name, n in Counter(names).items() if n > 1 or name in more)


def lowered(words: Sequence[str]) -> list[str]:
    """Return words in small letters."""
    return [str(word).lower() for word in words]


def floats(column: pl.Series) -> NDArray[np.float64]:
    """Return numbers, NaN where there is none; the array may be written to."""
    import polars as pl

    found = column if column.dtype == pl.Float64 else column.cast(pl.Float64)
    return np.asarray(found.to_numpy(writable=True), np.float64)  # null becomes NaN


def days_of(found: pl.Series, form: str) -> NDArray[np.float64]:
    """Return the days since 1970 of texts of one form, NaN where it does not fit.

    A form without hours names whole days.
    """
    if not any(mark in form for mark in ("%H", "%I", "%T", "%R")):
        return floats(found.str.to_date(form, strict=False).to_physical())
    if form.endswith("%z"):  # the time is that of the place, as of a frame with time zones
        found, form = found.str.replace(_OFFSET, ""), form.removesuffix("%z")
    return days(found.str.to_datetime(form, time_unit="us", strict=False))


def days(moments: pl.Series) -> NDArray[np.float64]:
    """Return the days since 1970 of moments, with their fraction."""
    return floats(moments.dt.epoch("us")) / (DAY * 1e6)


def moment(value: Any) -> dt.datetime:
    """Return what somebody wrote as a moment."""
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, dt.date):
        return dt.datetime(value.year, value.month, value.day)
    try:
        return dt.datetime.fromisoformat(str(value)).replace(tzinfo=None)
    except ValueError:
        raise ParameterError(f"{value!r} is no date: write it as 2026-12-31") from None


def since_epoch(when: dt.datetime) -> float:
    """Return the days since 1970."""
    return (when - EPOCH).total_seconds() / DAY


def is_real(value: Any) -> bool:
    """Whether a value is a number, and not a truth value."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(
        value, bool
    )


def as_float(name: str, value: Any) -> float:
    """Return a number as Python's own."""
    if not is_real(value):
        raise ParameterError(f"{name} must be a number, got {value!r}")
    return float(value)


def few(values: Sequence[Any]) -> str:
    """Return the first of some values, for an error."""
    shown = ", ".join(plain_text(value) for value in values[:8])
    return shown + (" …" if len(values) > 8 else "")
