"""`Parafac2`: slices with rows of their own, such as the visits of each patient."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from pathlib import Path
from typing import Any, ClassVar, Self
from zipfile import BadZipFile

import numpy as np

from tacit._core.answers import Answer
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real
from tacit._core.rng import streams
from tacit.data.cells import relation_of, with_members
from tacit.data.members import Members, cells_of
from tacit.data.relations import Relation
from tacit.data.written import read_names, written_names
from tacit.errors import ParameterError, VerificationFailed
from tacit.estimators.features import check_fitted
from tacit.estimators.parameters import stores_parameters
from tacit.estimators.plain import Estimator
from tacit.factorization.alone.inference import best_descent
from tacit.factorization.alone.numerics.parafac2 import (
    Ragged,
    RaggedState,
    RaggedUpdates,
    row_estimates,
)
from tacit.factorization.answers import factors_answer
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.ranking import top_members

__all__ = ["Parafac2"]


@stores_parameters
class Parafac2(Estimator):
    """Factorize ragged slices: a cell is Σ_k rows[s][i, k]·weights[s, k]·columns[j, k].

    Rows belong to one slice, of which each may have any number from the rank on; what all slices
    share are the columns and the cross products of their rows (PARAFAC2). One holder, without a
    guarantee.

    Parameters
    ----------
    slices, rows, columns
        What the three are called: the columns of a table, and the modes of a `tacit.Relation`.
    rank
        Components.
    ridge
        ρ of a penalty ρ/2 on the squares of shared rows, weights and columns.
    nonnegative
        Whether weights may not be negative.
    iterations, tolerance
        The most iterations, and the relative change of the objective over ten of them below which
        they stop.
    restarts
        Starts, of which the best objective is kept: singular vectors, then random ones.
    progress, random_state
        Whether a progress bar is shown; the seed of random starts.

    Attributes
    ----------
    factors_
        ``weights`` (slices, rank), ``columns`` (columns, rank), each of unit length, and ``shape``
        (rank, rank), whose cross product is that of every slice's rows.
    history_, n_iter_, converged_
        The objective as looked at, iterations done, and whether the tolerance was reached.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> sizes = {"p0": 4, "p1": 6}
    >>> visits = {p: rng.normal(size=(n, 1)) @ [[1.0, 2.0, 3.0]] for p, n in sizes.items()}
    >>> fitted = Parafac2(rank=1).fit(visits)
    >>> bool(np.isclose(fitted.predict([["p1", 5, 2]])[0], visits["p1"][5, 2]))
    True
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "slices": InstanceOf(str),
        "rows": InstanceOf(str),
        "columns": InstanceOf(str),
        "rank": Integer(1),
        "ridge": Real(0),
        "nonnegative": OneOf(True, False),
        "iterations": Integer(1),
        "tolerance": Real(0),
        "restarts": Integer(1),
        "progress": OneOf(True, False),
        "random_state": AnyOf(Integer(0), None, InstanceOf(np.random.SeedSequence)),
    }

    slices: str = "slice"
    _: KW_ONLY
    rows: str = "row"
    columns: str = "column"
    rank: int = 3
    ridge: float = 0.0
    nonnegative: bool = False
    iterations: int = 1000
    tolerance: float = 1e-7
    restarts: int = 1
    progress: bool = False
    random_state: Any = None

    def fit(self, data: Any, y: None = None) -> Self:
        """Fit slices.

        Parameters
        ----------
        data
            Slice → (rows, columns) array with NaN for missing cells; a table with one row for each
            cell; or a `Relation` with the three modes.
        y
            Ignored.
        """
        self._check_parameters()
        self._take(self._relation(data))
        names = [f"start {k}" for k in range(1, self.restarts)]
        starts = [None, *streams(self.random_state, *names)]
        return self._run(starts, None)

    def _relation(self, data: Any) -> Relation:
        entities = self.slices, self.rows, self.columns
        if isinstance(data, Relation):
            if set(data.entities) != set(entities) or data.zeros == "observed":
                raise ParameterError(
                    f"data must have the modes {list(entities)} and zeros='missing', got "
                    f"{list(data.entities)} and zeros={data.zeros!r}"
                )
            order = [data.entities.index(entity) for entity in entities]
            shape = tuple(data.shape[m] for m in order)
            cells = np.ascontiguousarray(data.indices[:, order])
            return replace(data, entities=entities, shape=shape, indices=cells)
        if isinstance(data, Mapping) and all(np.ndim(part) == 2 for part in data.values()):
            return _of_arrays(entities, data)
        return relation_of(data, entities)

    def _try(self, data: Any) -> Any:
        return self._rows_of(self._relation(data))

    def _rows_of(self, found: Relation) -> tuple[Integers, Integers, Relation]:
        """Return the code of every row that a slice has, the slices of rows, and the cells."""
        listed = np.lexsort((found.indices[:, 2], found.indices[:, 1], found.indices[:, 0]))
        found = found.subset(listed)
        codes = found.indices[:, 0].astype(np.int64) * found.shape[1] + found.indices[:, 1]
        known = np.unique(codes)
        slices = known // found.shape[1]
        few = np.flatnonzero(np.bincount(slices, minlength=found.shape[0]) < self.rank)
        if few.size:
            members = Members(self.slices, found.shape[0], found.labels.get(self.slices))
            raise ParameterError(
                f"{self.slices} {members.name(int(few[0]))!r} and {few.size - 1} more have fewer "
                f"rows than the rank, {self.rank}: leave them out, or pass a smaller rank"
            )
        return known, slices, found

    def _take(self, found: Relation) -> None:
        self._codes, slices, found = self._rows_of(found)
        codes = found.indices[:, 0].astype(np.int64) * found.shape[1] + found.indices[:, 1]
        cells = np.column_stack([np.searchsorted(self._codes, codes), found.indices[:, 2]])
        self._data = Ragged(cells, found.values, slices, found.shape[2])
        self._sizes = found.shape
        self.labels_ = dict(found.labels)
        self._named = dict(found.columns)

    def _run(self, starts: list[Any], held: tuple[Floats, Floats] | None) -> Self:
        kernel = RaggedUpdates(
            self._data, self.rank, self.ridge, nonnegative=self.nonnegative, held=held
        )
        found = best_descent(kernel, starts, self.get_params(deep=False))
        self._state, self.history_, self.n_iter_, self.converged_ = found
        return self._publish()

    def _publish(self) -> Self:
        """Set `factors_`: columns and shape of unit length, weights positive on average."""
        state = self._state
        shape, columns = (np.maximum(np.linalg.norm(t, axis=0), 1e-300) for t in state[1:3])
        sign = np.where(state.weights.sum(axis=0) < 0.0, -1.0, 1.0)
        self.factors_ = {
            "weights": state.weights * sign * shape * columns,
            "columns": state.columns / columns,
            "shape": state.shape * sign / shape,
        }
        return self

    def slice_rows(self, name: Any) -> Floats:
        """Return the rows of a slice, (rows, rank), in the order of its members."""
        check_fitted(self, "factors_")
        (place,) = self._members()[0].find([name])
        own = np.flatnonzero(self._data.slices == place)
        return np.asarray(self._state.rows[own] @ self.factors_["shape"])

    def _members(self) -> list[Members]:
        names = self.slices, self.rows, self.columns
        return [
            Members(e, n, self.labels_.get(e)) for e, n in zip(names, self._sizes, strict=True)
        ]

    def predict(self, cells: Any, *, positions: bool = False) -> Floats:
        """Return the expected value of cells of known rows.

        Parameters
        ----------
        cells
            A table, or rows of (slice, row, column).
        positions
            Whether members are given by position.
        """
        check_fitted(self, "factors_")
        index = cells_of(cells, self._members(), self._named, positions=positions)
        codes = index[:, 0] * self._sizes[1] + index[:, 1]
        place = np.minimum(np.searchsorted(self._codes, codes), len(self._codes) - 1)
        lost = np.flatnonzero(self._codes[place] != codes)
        if lost.size:
            one = [m.name(int(i)) for m, i in zip(self._members(), index[lost[0]], strict=True)]
            raise ParameterError(
                f"{self.slices} {one[0]!r} has no {self.rows} {one[1]!r}: fold new slices in first"
            )
        return row_estimates(self._data, self._state, np.column_stack([place, index[:, 2]]))

    def top(
        self, given: Mapping[str, Any], n: int = 10, skip: Any = ()
    ) -> list[tuple[Any, float]]:
        """Return the n columns with the highest expected values of one row of a slice."""

        def values(cells: Any) -> Floats:
            return self.predict(cells, positions=True)

        check_fitted(self, "factors_")
        return top_members(values, self._members(), self.columns, given, n, skip)

    def fold_in(self, data: Any) -> Self:
        """Return the same model of new slices: columns and cross products as they were learned.

        Parameters
        ----------
        data
            As in `fit`; columns go by their names.
        """
        check_fitted(self, "factors_")
        fresh = type(self)(**self.get_params(deep=False))
        columns = self.labels_.get(self.columns) or self._sizes[2]
        fresh._take(with_members(fresh._relation(data), {self.columns: columns}))
        return fresh._run([None], (self._state.shape, self._state.columns))

    def score(self, data: Any, y: None = None) -> float:
        """Return minus the mean of half the squared errors at listed cells of known rows."""
        check_fitted(self, "factors_")
        stated = {m.entity: m.names or m.size for m in self._members()}
        found = with_members(self._relation(data), stated)
        errors = found.values - self.predict(found.indices, positions=True)
        return -0.5 * float(np.mean(errors**2))

    def _answer(self, level: float) -> Answer:
        check_fitted(self, "factors_")
        tables = {self.slices: self.factors_["weights"], self.columns: self.factors_["columns"]}
        title = f"{self._sizes[0]} ragged slices in {self.rank} components"
        note = "a point estimate has no errors"
        return factors_answer(title, tables, {}, self.labels_, level, note)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model: arrays and JSON, never pickle."""
        check_fitted(self, "factors_")
        arrays = {f"state/{n}": v for n, v in self._state._asdict().items() if n != "reach"}
        arrays |= {"codes": self._codes, "slices": self._data.slices}
        settings = {
            "format": 1,
            "parameters": self.get_params(deep=False),
            "labels": {e: written_names(names) for e, names in self.labels_.items()},
            "columns": self._named,
            "sizes": self._sizes,
            "history": self.history_,
            "n_iter": self.n_iter_,
            "converged": self.converged_,
        }
        text = np.frombuffer(json.dumps(settings).encode(), np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, settings=text, **arrays)
        Path(path).write_bytes(buffer.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a fitted model that `save` wrote."""
        try:
            with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            settings = json.loads(bytes(arrays.pop("settings")))
            state = RaggedState(*(arrays[f"state/{n}"] for n in RaggedState._fields[:4]))
            if settings["format"] != 1:
                raise ValueError(f"format {settings['format']} is unknown here")
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise VerificationFailed(f"{path} is not a saved Parafac2: {error}") from None
        fitted = cls(**settings["parameters"])
        fitted._sizes, fitted._codes = tuple(settings["sizes"]), arrays["codes"]
        nothing = np.empty((0, 2), np.int64)
        fitted._data = Ragged(nothing, np.empty(0), arrays["slices"], fitted._sizes[2])
        fitted.labels_ = {e: read_names(names) for e, names in settings["labels"].items()}
        fitted._named, fitted._state = settings["columns"], state
        fitted.history_, fitted.n_iter_ = settings["history"], settings["n_iter"]
        fitted.converged_ = settings["converged"]
        return fitted._publish()


def _of_arrays(entities: tuple[str, ...], data: Mapping[Any, Any]) -> Relation:
    """Return arrays by slice as one relation: rows are numbered within each slice."""
    arrays = {name: np.asarray(part, np.float64) for name, part in data.items()}
    widths = {part.shape[1] for part in arrays.values()}
    if len(widths) != 1:
        raise ParameterError(f"slices must have the same columns, got {sorted(widths)}")
    parts, values = [], []
    for k, part in enumerate(arrays.values()):
        cells = np.argwhere(~np.isnan(part))
        parts.append(np.column_stack([np.full(len(cells), k), cells]))
        values.append(part[tuple(cells.T)])
    shape = len(arrays), max(len(part) for part in arrays.values()), widths.pop()
    return Relation.from_cells(
        entities,
        np.concatenate(parts),
        np.concatenate(values),
        shape=shape,
        labels={entities[0]: tuple(arrays)},
    )
