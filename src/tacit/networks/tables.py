"""What a network reads: rows of arrays, or a table by what is public about its columns.

With `Columns` every feature is found by its name, read by its kind and mapped by its range;
categories become indicators. Where ranges are stated by position, a table's columns go by the
names of the first one that was seen, and arrays by their order.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.data.features import Features, common_names, labels_of, numbers, one_column, settled
from tacit.data.kinds import Category, Kind, Number
from tacit.data.matrices import row_shape, warn_of_column
from tacit.data.problems import gathered
from tacit.data.reading import read_rows
from tacit.data.schema import Columns
from tacit.data.shards import Shards
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.features import rows_seen
from tacit.estimators.site import Site
from tacit.networks.training import Training

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Facts", "TableNetwork", "by_person", "together"]


def together(X: Any, y: Any, weights: Any) -> Any:
    """Return rows, targets and weights as a holder's data are passed."""
    warn_of_column(y)
    if y is None and weights is not None:
        raise ParameterError(
            "sample_weight goes with y: pass both, or weights='the column that holds them'"
        )
    return X if y is None else (X, y) if weights is None else (X, y, weights)


class Facts(NamedTuple):
    """What is public about a holder's rows, and which columns of a table they are."""

    shape: tuple[int, ...]
    rows: int = 0  # read only where there is no guarantee
    columns: tuple[str, ...] = ()
    target: str = ""
    largest: float = 1.0  # what a row counts, read only where there is no guarantee


def by_person(people: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order that puts each person's rows side by side, and where each person begins.

    >>> [part.tolist() for part in by_person(np.array([7, 3, 7]))]
    [[1, 0, 2], [0, 1, 3]]
    """
    order = np.argsort(people, kind="stable")
    owners = people[order]
    starts = np.flatnonzero(np.concatenate([[True], owners[1:] != owners[:-1]]))
    return order, np.append(starts, len(owners))


class TableNetwork(PrivateEstimator):
    """The part of a network that knows where its rows come from."""

    columns: Any
    target: str | None
    bounds: Any
    rows: float | None
    normalize: str
    weights: float | str | None
    privacy: Any

    # -- what is public ------------------------------------------------------------------------

    @property
    def _table(self) -> Features | None:
        """The columns that are read, where they are stated."""
        columns = self._stated_columns
        if columns is None:
            return None
        beside = (self.weights,) if isinstance(self.weights, str) else ()
        positions = self.normalize == "embed"
        return Features.of(columns, self.target, "a network", positions=positions, beside=beside)

    @property
    def _response(self) -> Kind:
        """The kind of the target, where columns are stated."""
        table = self._table
        assert table is not None
        return table.response

    @property
    def _ranges(self) -> Any:
        """The public range of every input, or one of all."""
        table = self._table
        return self.bounds if table is None else tuple(table.ranges.values())

    @property
    def _levels(self) -> tuple[int, ...]:
        """How many values each column has that is looked up; 0 of the others."""
        table = self._table
        if table is None or not table.positions:
            return ()
        kinds = (table.columns[name] for name in table.names)
        return tuple(len(kind.levels) if isinstance(kind, Category) else 0 for kind in kinds)

    @property
    def _rows_per_unit(self) -> int:
        columns = self._stated_columns
        return 1 if columns is None else columns.rows_per_unit

    def _check_table(self) -> None:
        """Raise where what is stated about the table does not go together."""
        if isinstance(self.weights, str):
            self._check_weights(self.weights)
        table = self._table
        if table is None:
            for name, wrong in {
                "target": self.target is not None,
                "normalize='embed'": self.normalize == "embed",
            }.items():
                if wrong:
                    raise ParameterError(f"{name} goes with columns: pass columns=Columns(…)")
            return
        if table.positions and table.columns.averaged:
            raise ParameterError(
                "an average of categories cannot be looked up: pass rows_per_person=…, not "
                "averages, or another normalize"
            )
        if self.bounds is not None:
            raise ParameterError("columns hold the ranges: leave bounds out")
        self._check_response(table.response, table.columns.averaged)

    def _check_weights(self, name: str) -> None:
        """Raise where a column cannot say what rows count."""
        columns = self._stated_columns
        kind = None if columns is None else columns.get(name)
        if not isinstance(kind, Number) or kind.low < 0.0 or name == self.target:
            raise ParameterError(
                f"weights must be the largest weight, or one of the columns, with numbers of 0 "
                f"and more, got {name!r}"
            )

    def _largest_weight(self, facts: Sequence[Facts]) -> float:
        """Return what a row counts at most."""
        if isinstance(self.weights, str):
            columns = self._stated_columns
            assert columns is not None
            return float(columns[self.weights].range[1])
        if self.weights is None:
            return max((fact.largest for fact in facts), default=1.0)
        return float(self.weights)

    def _counts(self, weights: Any, targets: Any) -> Any:
        """Return what rows count, given their weights, one by one; None: all the same."""
        return weights

    def _check_response(self, kind: Kind, averaged: bool) -> None:
        """Raise where the target cannot be learned."""

    @abstractmethod
    def _targets(self, y: Any) -> Any:
        """Return targets as a tensor; with columns they are numbers, positions of a category."""

    def _input_notes(self) -> tuple[str, tuple[str, ...]]:
        """Return what is public about the inputs, in words."""
        table = self._table
        if table is None:
            one = np.isscalar(self.bounds[0])
            return f"inputs lie in {self.bounds if one else 'their bounds'}", ()
        ranges = [
            f"{name} lies in [{kind.low:g}, {kind.high:g}]"
            for name, kind in table.columns.items()
            if isinstance(kind, Number) and name in table.names
        ]
        return "inputs lie in their bounds", (*ranges, *table.columns.assumptions())

    # -- a holder's data -----------------------------------------------------------------------

    def _as_sites(self, data: Any) -> list[Site]:
        found = []
        for site in super()._as_sites(data):
            held = site.data
            pair = isinstance(held, tuple | list) and len(held) in (2, 3)
            held = (settled(held[0]), *held[1:]) if pair else settled(held)
            found.append(replace(site, data=held))
        return found

    def _parts(self, data: Any) -> tuple[Any, Any, Any]:
        """Return rows, targets, and what each row counts."""
        if not (isinstance(data, tuple | list) and len(data) in (2, 3)):
            raise ParameterError(
                "data must be (X, y), rows and one target for each, or pass columns=Columns(…): a "
                "network requires y to be passed, but the target y is None"
            )
        if len(data) == 2 or data[2] is None:
            return data[0], data[1], None
        if isinstance(self.weights, str):
            raise ParameterError(
                f"weights={self.weights!r} is a column: leave sample_weight out, or pass "
                "weights=…, the largest of them"
            )
        if self.weights is None and self.privacy is not None:
            raise UnboundedData(
                "weights must be given with sample_weight: pass weights=…, the public number that "
                "no weight exceeds; it is not read from the data"
            )
        return data[0], data[1], data[2]

    def _facts(self, data: Any) -> Facts:
        table = self._table
        if table is not None:
            rows = 0 if self.rows is not None else len(table.read(data))
            return Facts((len(table.ranges),), rows, tuple(table.ranges))
        X, _, weights = self._parts(data)
        labels, most = labels_of(X), 1.0
        if weights is not None and self.weights is None:
            most = float(np.max(numbers({"weights": one_column(weights)}), initial=1e-9))
        if labels:
            rows = 0 if self.rows is not None else read_rows(X).rows
            return Facts((len(labels),), rows, labels, largest=most)
        shape = row_shape(X, images=True)
        return Facts(tuple(shape[1:]), shape[0], largest=most)

    def _facts_held(self, data: Any) -> Facts:
        if not isinstance(data, Shards) or self.rows is not None:
            found: Facts = super()._facts_held(data)
            return found
        each = [self._facts(piece.read()) for piece in data]
        most = max(one.largest for one in each)
        return each[0]._replace(rows=sum(one.rows for one in each), largest=most)

    @staticmethod
    def _common(facts: Sequence[Facts]) -> tuple[str, ...]:
        """Return what the inputs are called at all sites."""
        return common_names([fact.columns for fact in facts])

    def _held(self, data: Any, names: Sequence[str]) -> tuple[Any, Any, Any, Any]:
        """Return inputs as numbers, targets, where each person begins, and what rows count.

        Persons are told apart only where several rows of each count.
        """
        table = self._table
        if table is None:
            X, y, own = self._parts(data)
            inputs, targets, weights = gathered(
                lambda: numbers(X, names, images=True, finite=False),
                lambda: self._targets(one_column(y)),
                lambda: None if own is None else numbers({"weights": one_column(own)})[:, 0],
            )
            if weights is not None and not (weights > 0.0).any():
                raise ParameterError("sample_weight must let some row count: all are zero")
            return inputs, targets, None, self._counts(weights, targets)
        assert table.target is not None
        found = table.read(data)

        def column(name: str) -> Any:
            return found.units(found.values[name][:, None])[:, 0]

        X, y = table.matrix(found), column(table.target)
        weights = column(self.weights) if isinstance(self.weights, str) else None
        order: Any = slice(None)
        starts: Any = None
        if self._rows_per_unit > 1 and found.people is not None:
            order, starts = by_person(found.people)
        targets = self._targets(y[order])
        weights = None if weights is None else weights[order]
        return X[order], targets, starts, self._counts(weights, targets)

    def _rows_to_predict(self, X: Any) -> Any:
        """Return rows as numbers, found by the names of the fit."""
        table = self._table
        if table is not None:
            return table.encode(X)
        return rows_seen(self, X, images=True, finite=False)

    def _true(self, X: Any, y: Any) -> Any:
        """Return the targets of rows to judge by: beside them, or a column of their table."""
        table = self._table
        if table is None:
            return one_column(y)
        assert table.target is not None
        own = read_rows(X if y is None else {table.target: one_column(y)})
        return (
            Columns({table.target: table.response}, outside="clip").read(own).values[table.target]
        )

    # -- files and proposals -------------------------------------------------------------------

    @classmethod
    def _stated(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], Facts | None]:
        """Return the parameters of a file or a proposal, and which columns are read.

        ``columns`` say what is public about the table, and ``target`` what is explained. Or
        ``inputs`` names the columns that are read, in order, and ``bounds`` their ranges.
        ``training`` is a table.
        """
        found = dict(settings)
        for name in ("module", "features", "device"):
            if name in found:
                raise ParameterError(f"a file or a proposal does not set {name!r}")
        for name in ("hidden", "bounds", "classes", "y_bounds"):
            if isinstance(found.get(name), list):
                found[name] = tuple(
                    tuple(part) if isinstance(part, list) else part for part in found[name]
                )
        if isinstance(found.get("training"), Mapping):
            given = dict(found["training"])
            if isinstance(given.get("clip"), list):
                given["clip"] = tuple(given["clip"])
            found["training"] = Training(**given)
        if "columns" in found:
            table = Features.of(Columns.of(found["columns"]), found.get("target"), "a network")
            return found, Facts((len(table.ranges),), 0, tuple(table.ranges))
        columns, target = found.pop("inputs", None), found.pop("target", None)
        if not isinstance(columns, list) or not isinstance(target, str):
            raise ParameterError(
                "a network needs columns, or inputs = [column, …], and a target column"
            )
        return found, Facts((len(columns),), 0, tuple(columns), target)

    def _tables(self, tables: Mapping[str, Any], facts: Facts) -> Any:
        """Return (X, y) from the columns of a site's table, or the table where columns are."""
        table = super()._tables(tables, facts)
        if self.columns is not None:
            return table
        found = read_rows(table)
        return numbers(found, facts.columns, finite=False), found.column(facts.target)
