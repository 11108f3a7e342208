"""What is answered about a released model; no HTTP here.

A model that was released is public: whatever is said of it is. Predictions from rows that
somebody sends are that person's own: they are answered, and forgotten.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Iterable
from threading import Lock
from typing import Any

import numpy as np

from tacit._core.check import Integer, Real, check
from tacit.data.reading import read_rows
from tacit.data.written import read_names
from tacit.errors import ParameterError
from tacit.estimators.release.layout import tables_of
from tacit.estimators.release.promise import promises
from tacit.estimators.released_models import opened

__all__ = ["MOST_ROWS", "Served", "Unknown"]

MOST_ROWS = 10_000
_LONGEST = 1_000  # characters of a cell or a name


class Unknown(ParameterError):
    """What was asked for is not there."""


class Served:
    """A released model, ready to answer.

    Parameters
    ----------
    folder
        The release; every byte and certificate of it is verified first.
    plugins
        Packages with families of their own.

    Examples
    --------
    >>> import tempfile, tacit as tc
    >>> model = tc.PrivateSummary({"age": (0, 100)}, privacy=tc.Privacy(1, 1e-6))
    >>> with tempfile.TemporaryDirectory() as place:
    ...     folder = model.fit({"age": [40.0, 50.0]}).release(f"{place}/release")
    ...     Served(folder).about()["estimator"]
    'PrivateSummary'
    """

    def __init__(self, folder: str | os.PathLike[str], plugins: Iterable[str] = ()) -> None:
        found, model = opened(folder, plugins)
        self.release = found
        self.model: Any = model
        self.schema = self.model._row_schema()
        dims, coords = self.release.dims, self.release.coords
        self._tables = tables_of(self.release.arrays, dims, coords)
        self._alone = Lock()  # one prediction at a time: a network's weights are put in place

    @property
    def recommends(self) -> bool:
        """Whether somebody's own ratings are answered with items."""
        return hasattr(self.model, "recommend")

    @property
    def draws(self) -> bool:
        """Whether there are draws of a posterior."""
        return hasattr(getattr(self.model, "posterior_", None), "names")

    def about(self) -> dict[str, Any]:
        """Return what this is and what it promises."""
        manifest = self.release.manifest
        told = ("estimator", "date", "learned", "purpose", "contact", "settings", "versions")
        return {
            **{name: manifest[name] for name in told},
            "promises": [str(promise) for promise in promises(self.release.certificates)],
            "signed by": [signer["by"] for signer in self.release.signers],
            "columns": self.schema,
            "tables": [name.removesuffix(".csv") for name in self._tables],
            "note": "What you send is answered and forgotten. Predictions from your own values "
            "are your own: they are no release, and no certificate covers them.",
        }

    def certificates(self) -> dict[str, Any]:
        """Return every certificate, and in words."""
        return {
            name: {"words": str(found), "certificate": json.loads(found.to_json())}
            for name, found in self.release.certificates.items()
        }

    def table(self, name: str) -> dict[str, Any]:
        """Return a table of the release: column → cells."""
        content = self._tables.get(f"{name}.csv")
        if content is None:
            known = ", ".join(self.about()["tables"]) or "none"
            raise Unknown(f"there is no such table: there is {known}")
        head, *rows = csv.reader(io.StringIO(content.decode()))
        first, *others = head
        columns: dict[str, list[Any]] = {first: [row[0] for row in rows]}
        for k, column in enumerate(others, 1):
            columns[column] = _plain([_number(row[k]) for row in rows])
        return {"table": name, "columns": columns}

    def predict(self, asked: Any) -> dict[str, Any]:
        """Return predictions for rows.

        Parameters
        ----------
        asked
            ``{"rows": [{column: value, …}, …], "interval": 0.9}``.
        """
        if not self.schema:
            raise ParameterError(
                f"{self.release.estimator} predicts nothing: its numbers are in /v1/tables"
            )
        given = _only(asked, ("rows", "interval"))
        interval = given.get("interval")
        if interval is not None:
            check("interval", interval, Real(0, 1, open_low=True, open_high=True))
        table = read_rows(_columns(given.get("rows")))
        with self._alone:
            found = self.model._predict_table(table, None, interval)
        return {"columns": {name: _plain(values) for name, values in found.items()}}

    def recommend(self, asked: Any) -> dict[str, Any]:
        """Return the items with the highest expected rating, for own ratings.

        Parameters
        ----------
        asked
            ``{"ratings": {item: rating, …}, "n": 10}``.
        """
        given = _only(asked, ("ratings", "n"))
        count, ratings = given.get("n", 10), given.get("ratings", {})
        check("n", count, Integer(1, 1000))
        if not isinstance(ratings, dict) or len(ratings) > MOST_ROWS:
            raise ParameterError(
                f"ratings must be {{item: rating, …}}, {MOST_ROWS} of them at most"
            )
        for item, rating in ratings.items():
            check(f"the rating of {item[:_LONGEST]!r}", rating, Real())
        with self._alone:
            found = self.model.device(ratings).top(count)
        items, scores = [item for item, _ in found], [score for _, score in found]
        return {"columns": {"item": _plain(items), "prediction": _plain(scores)}}

    def posterior(self, level: float) -> dict[str, Any]:
        """Return means, standard deviations and central intervals of the parameters."""
        check("level", level, Real(0, 1, open_low=True, open_high=True))
        found = self.model.posterior_
        ends = np.asarray(found.interval(level))
        columns = {"parameter": list(found.names), "mean": found.mean, "sd": found.sd}
        columns |= {"low": ends[:, 0], "high": ends[:, 1]}
        return {"level": level, "columns": {n: _plain(values) for n, values in columns.items()}}

    def coordinates(self, most: int = 200) -> dict[str, list[Any]]:
        """Return some names of every named dimension, for the page."""
        coords = self.release.manifest["coords"]
        return {dim: [str(n) for n in read_names(names[:most])] for dim, names in coords.items()}


def _only(asked: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return what was asked; raise where it is no object of these names."""
    known = list(names)
    if not isinstance(asked, dict):
        raise ParameterError(f"the body must be a JSON object with {', '.join(known)}")
    odd = sorted(set(asked) - set(known))
    if odd:
        raise ParameterError(f"{odd[0][:_LONGEST]!r} is not known here: there is {known}")
    return asked


def _columns(rows: Any) -> dict[str, list[Any]]:
    """Return rows as columns; cells are numbers, words, truth values or nothing."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise ParameterError('rows must be a list of objects: {"rows": [{"column": value, …}]}')
    if len(rows) > MOST_ROWS:
        raise ParameterError(f"there are {len(rows)} rows: send at most {MOST_ROWS} at once")
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not names or len(names) > _LONGEST:
        raise ParameterError(f"rows must have 1 to {_LONGEST} columns, got {len(names)}")
    for number, row in enumerate(rows, 1):
        for name, cell in row.items():
            if not (cell is None or isinstance(cell, str | int | float)):
                raise ParameterError(
                    f"row {number}: {name[:_LONGEST]!r} must be a number, a word, true, false or "
                    "null"
                )
            if isinstance(cell, str) and len(cell) > _LONGEST:
                raise ParameterError(f"row {number}: {name[:_LONGEST]!r} is too long")
            if isinstance(cell, int) and abs(cell) > 1 << 62:
                raise ParameterError(f"row {number}: {name[:_LONGEST]!r} is too large")
    # a value is read by the kind of its column, whatever stands beside it
    return {name: [_text(row.get(name)) for row in rows] for name in names}


def _text(cell: Any) -> str | None:
    return None if cell is None else cell if isinstance(cell, str) else _word(cell)


def _word(cell: Any) -> str:
    return str(cell).lower() if isinstance(cell, bool) else repr(cell)


def _number(cell: str) -> float | bool:
    return cell == "True" if cell in ("True", "False") else float(cell)


def _plain(values: Any) -> list[Any]:
    """Return values as JSON has them; what is not finite is null."""
    found = values.tolist() if isinstance(values, np.ndarray) else list(values)
    cells = [v.item() if isinstance(v, np.generic) else v for v in found]
    return [
        None
        if isinstance(v, float) and not math.isfinite(v)
        else v
        if isinstance(v, str | int | float | bool | None)
        else str(v)
        for v in cells
    ]
