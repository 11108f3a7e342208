"""Files of a holder: where a table is kept, and how its text is written.

Every column is read as text: its kind says how a value is read, not its neighbours
(`tacit.data.kinds`). The separator is found from the line of headings alone, which is public; a
decimal comma, another encoding or a mark for thousands is stated. Errors name file and row, to the
holder.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.data.values import NA_WORDS, repeated
from tacit.errors import ParameterError

if TYPE_CHECKING:
    import polars as pl

__all__ = ["FILES", "Source", "clear_numbers", "plain_numbers", "read_file", "source"]

_HEADINGS = 1 << 24  # bytes of the longest line of headings
_SEPARATORS = (",", ";", "\t", "|")
_TEXT_FILES = (".csv", ".tsv", ".txt", ".tab")
_ARROW_FILES = (".feather", ".arrow", ".ipc")
FILES = (*_TEXT_FILES, ".parquet", *_ARROW_FILES)


@dataclass(frozen=True)
class Source:
    """Where a table is kept, and how its text is written; made by `source`."""

    file: Any = None
    url: str | None = None
    query: str | None = None
    separator: str | None = None
    decimal: str = "."
    thousands: str | None = None
    encoding: str = "utf-8"
    na: tuple[str, ...] = NA_WORDS
    connection: Any = field(default=None, compare=False)

    def __post_init__(self) -> None:
        asked = self.query is not None and (self.url is not None or self.connection is not None)
        if (self.file is None) == (not asked):
            raise ParameterError("a source is a file, or a query with its url or connection")
        if self.decimal not in (".", ","):
            raise ParameterError(f"decimal must be '.' or ',', got {self.decimal!r}")
        if self.thousands is not None and (
            len(self.thousands) != 1 or self.thousands == self.decimal or self.thousands.isalnum()
        ):
            raise ParameterError(
                f"thousands must be one mark other than the decimal one, got {self.thousands!r}"
            )
        if self.separator is not None and len(self.separator) != 1:
            raise ParameterError(f"separator must be one character, got {self.separator!r}")
        try:
            codecs.lookup(self.encoding)
        except LookupError:
            raise ParameterError(f"there is no encoding {self.encoding!r}") from None


def source(
    file: Any = None,
    *,
    url: str | None = None,
    query: str | None = None,
    connection: Any = None,
    separator: str | None = None,
    decimal: str = ".",
    thousands: str | None = None,
    encoding: str = "utf-8",
    na: Sequence[str] | None = None,
) -> Source:
    """Say where a table is kept and how its text is written.

    Parameters
    ----------
    file
        A CSV, TSV, Parquet or Feather file, or a folder of files with the same columns.
    url, query, connection
        A database by SQLAlchemy's url (``$NAME`` is taken from the environment) or by an open
        DB-API connection, and what to ask it.
    separator
        What stands between cells; found from the line of headings if left out.
    decimal, thousands
        How numbers are written: ``decimal=","``, ``thousands="."``.
    encoding
        Of text files; a byte order mark is believed.
    na
        Words that stand for a missing value, instead of the usual ones.

    Examples
    --------
    >>> source("north.csv", separator=";", decimal=",").decimal
    ','
    """
    words = NA_WORDS if na is None else ("", *(str(word) for word in na))
    return Source(file, url, query, separator, decimal, thousands, encoding, words, connection)


def read_file(file: Path, where: Source) -> pl.DataFrame:
    """Return the table of one file."""
    import polars as pl

    ending = file.suffix.lower()
    try:
        if ending == ".parquet":
            return pl.read_parquet(file)
        if ending in _ARROW_FILES:
            return pl.read_ipc(file)
        if ending in _TEXT_FILES:
            return _from_text(file, where)
    except (OSError, pl.exceptions.PolarsError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ParameterError(f"{file.name} cannot be read: {reason}") from None
    raise ParameterError(f"{file.name} must end in one of {', '.join(FILES)}")


def _from_text(file: Path, where: Source) -> pl.DataFrame:
    import polars as pl

    with file.open("rb") as stream:
        start = stream.read(1 << 16)
        if b"\n" not in start:  # a long line of headings
            start += stream.read(_HEADINGS)
    encoding = _encoding(start, where.encoding)
    raw: Any = file
    if encoding != "utf-8":
        try:
            text = file.read_bytes().decode(encoding)
        except UnicodeDecodeError as error:
            row = file.read_bytes().count(b"\n", 0, error.start)
            raise ParameterError(
                f"{file.name}, row {row} is not written in {encoding}: byte {error.start} of the "
                "file does not fit"
            ) from None
        raw, start = io.BytesIO(text.encode()), text[: 1 << 14].encode()
    names, separator = _headings(file, start, where.separator)
    try:
        frame = pl.read_csv(
            raw,
            separator=separator,
            has_header=True,
            infer_schema=False,
            new_columns=names,
            quote_char='"',
            truncate_ragged_lines=False,
            raise_if_empty=False,
        )
    except pl.exceptions.PolarsError as error:
        raise ParameterError(
            _what_is_wrong(file, encoding, separator, len(names), error)
        ) from None
    return frame


def _encoding(start: bytes, stated: str) -> str:
    """Return the encoding: what a byte order mark says, else what was stated."""
    if start.startswith(codecs.BOM_UTF8):
        return "utf-8"  # the reader takes the mark off
    if start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    return codecs.lookup(stated).name


def _headings(file: Path, start: bytes, separator: str | None) -> tuple[list[str], str]:
    """Return the names of the columns and what stands between cells, from the first line alone."""
    line = start.decode("utf-8-sig", errors="replace")
    if not line.strip():
        raise ParameterError(f"{file.name} is empty: its first line must name the columns")
    if separator is None:
        first = line.splitlines()[0]
        counts = {mark: first.count(mark) for mark in _SEPARATORS}
        separator = max(counts, key=lambda mark: counts[mark])
        if file.suffix.lower() in (".tsv", ".tab") and counts["\t"]:
            separator = "\t"
    try:
        names = [name.strip() for name in next(csv.reader(io.StringIO(line), delimiter=separator))]
    except csv.Error as error:
        raise ParameterError(
            f"{file.name} must begin with a line of column names, and lines must end in a line "
            f"feed: {error}"
        ) from None
    if len(set(names)) < len(names) or not all(names):
        twice = sorted({name or "(no name)" for name in repeated(names, "")})
        raise ParameterError(
            f"{file.name} must begin with a line of distinct column names: {twice[:9]}"
        )
    return names, separator


def _what_is_wrong(file: Path, encoding: str, separator: str, width: int, error: Exception) -> str:
    """Return what is wrong with a text file and in which row, by going through it slowly."""
    content = file.read_bytes()
    try:
        text = content.decode("utf-8-sig" if encoding == "utf-8" else encoding)
    except UnicodeDecodeError as wrong:
        before = content.count(b"\n", 0, wrong.start)
        what = f"{file.name}, row {before} is not written in {encoding}"
        return f"{what}: pass its encoding, such as 'latin-1'"
    try:
        for number, row in enumerate(csv.reader(io.StringIO(text, ""), delimiter=separator)):
            if row and len(row) > width:
                what = f"{file.name}, row {number} has {len(row)} cells"
                return f"{what}: the headings name {width}"
            if any("\n" in cell and cell.count(separator) >= width - 1 for cell in row):
                return (
                    f"{file.name}, row {number} has a quote that does not end: mend it, or double "
                    "a quote that is meant"
                )
    except csv.Error:
        pass
    return f"{file.name} cannot be read: {str(error).splitlines()[0]}"


def clear_numbers(column: pl.Series, where: Source) -> pl.Series | None:
    """Return those cells of a column that are plainly numbers as such, the others as null.

    Plainly: there is no mark in it that could mean something else, and with a point for its
    decimal comma it reads as a finite number. `plain_numbers` says what the others are, cell by
    cell, and would say the same of these. None where numbers are written the plain way anyway.
    """
    import polars as pl

    if column.dtype != pl.String or (where.decimal == "." and not where.thousands):
        return None
    read = column
    if where.decimal != ".":
        read = column.str.replace(where.decimal, ".", literal=True)
    found = read.cast(pl.Float64, strict=False)
    clear = found.is_finite() & ~_holds(column, where.thousands)
    if where.decimal != "." and where.thousands != ".":
        clear &= ~_holds(column, ".")
    return found.set(~clear.fill_null(False), None)


def _holds(column: pl.Series, mark: str | None) -> pl.Series:
    import polars as pl

    if mark is None:
        return pl.repeat(False, len(column), eager=True)
    return column.str.contains(mark, literal=True)


def plain_numbers(column: pl.Series, where: Source) -> pl.Series:
    """Return text with numbers written the plain way, cell by cell; what is no number stays.

    A cell that is no number as it should be written, and would be one if it were read the plain
    way, is marked so that it cannot be read: with decimal commas ``1.500`` may mean either.
    """
    import polars as pl

    if column.dtype != pl.String or (where.decimal == "." and not where.thousands):
        return column
    mark, decimal = re.escape(where.thousands or ""), re.escape(where.decimal)
    whole = rf"\d{{1,3}}(?:{mark}\d{{3}})+|\d+" if where.thousands else r"\d+"
    pattern = rf"^\s*[+-]?(?:(?:{whole})(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?\s*$"
    plain = column
    if where.thousands:
        plain = plain.str.replace_all(where.thousands, "", literal=True)
    plain = plain.str.replace(where.decimal, ".", literal=True)
    fits = column.str.contains(pattern).fill_null(False)
    read = column.str.strip_chars().cast(pl.Float64, strict=False)
    odd = read.is_not_nan().fill_null(False)
    return plain.zip_with(fits, (column + "?").zip_with(odd, column))
