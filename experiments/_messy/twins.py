"""Broken readers: each has one of the mistakes that the bars are there to catch."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np

from tacit.data import problems, rules, schema
from tacit.data.kinds import Category, Number, Parsed
from tacit.data.reading import Table


@dataclass(frozen=True)
class Twin:
    """A broken reader, the tables that show it, and how it must be caught."""

    name: str
    broken: Callable[[], AbstractContextManager[Any]]
    cases: tuple[str, ...]
    subjects: tuple[str, ...]
    verdicts: tuple[str, ...]


def _middle() -> AbstractContextManager[Any]:
    """Read a missing number as the middle of its range."""
    parse = Number.parse

    def guess(self: Number, *args: Any) -> Parsed:
        found = parse(self, *args)
        gap = found.missing
        values = np.where(gap, (self.low + self.high) / 2, found.values)
        return Parsed(values, np.zeros_like(gap), found.bad, found.outside)

    return mock.patch.object(Number, "parse", guess)


def _first_class() -> AbstractContextManager[Any]:
    """Read an unknown value as the first of its list."""
    parse = Category.parse

    def guess(self: Category, *args: Any) -> Parsed:
        found = parse(self, *args)
        values = np.where(found.outside, 0.0, found.values)
        return Parsed(values, found.missing, found.bad, np.zeros_like(found.outside))

    return mock.patch.object(Category, "parse", guess)


def _numbers_of_people() -> AbstractContextManager[Any]:
    """Read ids as numbers."""
    names = Table.names

    def as_numbers(self: Table, name: str) -> Any:
        found, absent = names(self, name)
        return found.str.strip_chars_start("0"), absent

    return mock.patch.object(Table, "names", as_numbers)


def _positions() -> AbstractContextManager[Any]:
    """Find columns by position, in the order of the clean table."""
    from experiments._messy.visits import COLUMNS

    column = Table.column

    def by_position(self: Table, name: str) -> Any:
        if name not in COLUMNS or self.frame.width != len(COLUMNS):
            return column(self, name)
        return self.frame.to_series(COLUMNS.index(name))

    return mock.patch.object(Table, "column", by_position)


def _first_error() -> AbstractContextManager[Any]:
    """Say only the first thing that is wrong."""
    whole = problems.BadTable.__init__

    def first(self: Any, found: Any, *more: Any) -> None:
        whole(self, list(found)[:1], *more)

    return mock.patch.object(problems.BadTable, "__init__", first)


def _no_places() -> AbstractContextManager[Any]:
    """Say that something is wrong, and not where."""

    def vague(*_: Any) -> Any:
        return [problems.Problem("something is wrong", "", (), 1, "mend it")]

    def where(table: Any, what: str, name: str, rows: Any, *more: Any) -> Any:
        return vague() if rows.any() else []

    return mock.patch.object(rules, "trouble", where)


def _every_row() -> AbstractContextManager[Any]:
    """Count every row of a record."""
    return mock.patch.object(schema, "counted_once", return_value=[])


def _bare() -> AbstractContextManager[Any]:
    """Let the errors of a cast through."""

    def strict(self: Number, column: Any, *_: Any) -> Parsed:
        values = np.array([float(text) for text in column.to_list()])
        none = np.zeros(len(values), bool)
        return Parsed(values, none, none, none)

    return mock.patch.object(Number, "parse", strict)


@contextlib.contextmanager
def _charge_first() -> Iterator[None]:
    """Charge before the table is read."""
    from tacit.estimators.base import PrivateEstimator
    from tacit.privacy.events import GaussianDpEvent

    run = PrivateEstimator._run

    def hasty(self: Any, sites: Any, *args: Any, **more: Any) -> Any:
        for site in sites:
            if site.ledger is not None:
                site.ledger.charge(GaussianDpEvent(5.0), purpose="hasty", delta=1e-5)
        return run(self, sites, *args, **more)

    with mock.patch.object(PrivateEstimator, "_run", hasty):
        yield


TABLES = ("summary", "regression")
TWINS = (
    Twin("reads what is missing as the middle of its range", _middle,
         ("missing", "missing, dropped"), TABLES, ("silently wrong",)),
    Twin("reads an unknown value as the first of its list", _first_class,
         ("an unknown ward", "unknown, dropped"), TABLES, ("silently wrong",)),
    Twin("reads ids as numbers", _numbers_of_people, ("leading zeros",), TABLES,
         ("silently wrong",)),
    Twin("finds columns by position", _positions, ("columns in reverse",), TABLES,
         ("silently wrong", "refused for nothing")),
    Twin("raises at the first error", _first_error, ("ten things at once",), TABLES,
         ("not in one pass",)),
    Twin("does not say where", _no_places, ("text among numbers",), TABLES, ("without a place",)),
    Twin("counts every row of a record", _every_row, ("rows that stand twice, counted once",),
         TABLES, ("silently wrong",)),
    Twin("lets a cast raise", _bare, ("text among numbers",), TABLES, ("bare exception",)),
    Twin("is asked after the charge", _charge_first, ("text among numbers",), TABLES,
         ("ε spent on a failure",)),
)  # fmt: skip
