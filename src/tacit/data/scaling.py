"""`PublicScaler`: features to one range by what is public about them, and by nothing else.

A scaler that learns a mean or a largest value from private rows has released it to whatever comes
after (PRIVACY A3, A13). This one knows its ranges before it sees a row, and maps each row by
itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin

from tacit._core.check import InstanceOf, Range, check
from tacit.data.features import by_position, labels_of, numbers
from tacit.data.kinds import Category, Number
from tacit.data.matrices import row_shape
from tacit.data.schema import Columns
from tacit.data.truth import Boolean
from tacit.errors import ParameterError, UnboundedData

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PublicScaler"]


class PublicScaler(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Map features from their public ranges to one range, looking at no data.

    Parameters
    ----------
    columns
        `tacit.Columns`, a mapping of such or a file's path: categories become indicators, dates
        days. Its target is not a feature. Instead of ``bounds``.
    bounds
        The public range (low, high) of every feature, a list with one pair for each, or a mapping
        of column to pair.
    feature_range
        Where to: (0, 1), (−1, 1) or another range.
    clip
        Whether what lies outside its range is moved to its end, row by row.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        How many columns a row has, and how they are called.

    Examples
    --------
    >>> scaler = PublicScaler(bounds=[(0, 10), (20, 90)], feature_range=(-1, 1))
    >>> scaler.fit_transform([[0.0, 55.0], [10.0, 200.0]])
    array([[-1.,  0.],
           [ 1.,  1.]])
    """

    def __init__(
        self,
        columns: Columns | Mapping[str, Any] | str | None = None,
        *,
        bounds: Any = None,
        feature_range: tuple[float, float] = (0.0, 1.0),
        clip: bool = True,
    ) -> None:
        self.columns = columns
        self.bounds = bounds
        self.feature_range = feature_range
        self.clip = clip

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False  # everything is known before
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.columns is None  # what follows says what it does of them
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True

    # -- what is public ------------------------------------------------------------------------

    def _stated(self) -> Columns | None:
        """Return the columns, checked: a scaler gives one row for each that it gets."""
        if self.columns is None:
            if self.bounds is None:
                raise UnboundedData(
                    "bounds must be given: pass bounds=(low, high), one pair for each feature, or "
                    "columns=…; a range is never read from the data"
                )
            return None
        if self.bounds is not None:
            raise ParameterError("columns hold the ranges: leave bounds out")
        columns = Columns.of(self.columns)
        if columns.person is not None:
            raise ParameterError(
                "a scaler would lose whose row is whose: pass columns with a person to the "
                "estimator itself"
            )
        if columns.drops or columns.key is not None:
            raise ParameterError(
                "a scaler leaves no row out: pass missing='impute', unknown=… and outside='clip', "
                "or columns to the estimator itself"
            )
        for name, kind in columns.items():
            if not kind.modelled:
                raise ParameterError(f"column {name!r} is {kind.word}, no feature to scale")
        return columns

    def _names(self) -> list[str]:
        """Return how features are called, where that is stated."""
        columns = self._stated()
        if columns is not None:
            return [name for name in columns if name != columns.target]
        return [str(n) for n in self.bounds] if isinstance(self.bounds, Mapping) else []

    def _ranges(self, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return low and high of every number that comes out."""
        columns = self._stated()
        if columns is not None:
            pairs: Sequence[Any] = list(columns.encoded(self._names()).values())
        elif isinstance(self.bounds, Mapping):
            pairs = list(self.bounds.values())
        else:
            given = np.asarray(self.bounds, object)
            one = given.shape == (2,) and all(np.isscalar(end) for end in given)
            pairs = [tuple(given)] * width if one else list(self.bounds)
        for k, pair in enumerate(pairs):
            check(f"bounds[{k}]", tuple(pair), Range())
        low, high = np.array([(float(a), float(b)) for a, b in pairs], np.float64).T
        return low, high

    def _check_width(self, width: int) -> None:
        names = self._names()
        known = len(names) if names else getattr(self, "n_features_in_", None)
        pairs = len(self._ranges(width)[0]) if self.columns is None else width
        for expected in (known, pairs):
            if expected is not None and width != expected:
                raise ParameterError(
                    f"X has {width} features, but PublicScaler is expecting {expected} features "
                    "as input"
                )

    # -- scikit-learn's verbs ------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None) -> Self:
        """Remember how many columns there are and how they are called; nothing is learned.

        Parameters
        ----------
        X
            Rows.
        y
            Ignored.
        """
        check("feature_range", tuple(self.feature_range), Range())
        check("clip", self.clip, InstanceOf(bool))
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                delattr(self, name)
        found = labels_of(X)
        names = self._names() or ([] if by_position(found) else list(found))
        width = len(names or found) or row_shape(X)[1]
        self._check_width(width)
        self.n_features_in_ = width
        if names:
            self.feature_names_in_ = np.array(names, object)
        if self.columns is None:
            self._rows(X)  # what is no table of numbers is refused here already
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return every row on the new range: a function of that row and of public ranges.

        Parameters
        ----------
        X
            Rows, or a frame with the columns that were stated.
        """
        rows = self._rows(X)
        low, high = self._ranges(rows.shape[1])
        to_low, to_high = (float(end) for end in self.feature_range)
        share = (rows - low) / (high - low)
        if self.clip:
            share = np.clip(share, 0.0, 1.0)
        return np.asarray(to_low + share * (to_high - to_low), np.float64)

    def _rows(self, X: Any) -> NDArray[np.float64]:
        """Return what is scaled, on the caller's own scale."""
        columns, names = self._stated(), list(getattr(self, "feature_names_in_", self._names()))
        if columns is not None:
            if not labels_of(X):
                self._check_width(row_shape(X)[1])
            return columns.read(X, names).matrix(names)
        if not labels_of(X):
            self._check_width(row_shape(X)[1])
        fitted = hasattr(self, "n_features_in_")
        rows = numbers(X, names, fitted=fitted, finite=not self.clip, missing=True)
        self._check_width(rows.shape[1])
        return np.asarray(rows, np.float64)

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return rows on the caller's own scale; what was clipped stays at its end.

        Parameters
        ----------
        X
            Rows as `transform` returns them. Of columns that are no numbers the values come back:
            a category's nearest level, a date as text.
        """
        rows = numbers(X, finite=False, missing=True)
        low, high = self._ranges(rows.shape[1])
        if rows.shape[1] != len(low):
            raise ParameterError(f"X must have {len(low)} columns, got {rows.shape[1]}")
        to_low, to_high = (float(end) for end in self.feature_range)
        share = (np.asarray(rows, np.float64) - to_low) / (to_high - to_low)
        found = low + share * (high - low)
        columns = self._stated()
        return found if columns is None else _values(columns, self._names(), found)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return how the numbers that come out are called: ``sex=m`` of a category.

        Parameters
        ----------
        input_features
            How the columns of an array are called.
        """
        columns, names = self._stated(), self._names()
        known = list(getattr(self, "feature_names_in_", names))
        if input_features is not None:
            given = [str(name) for name in input_features]
            if known and given != known:
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(given) != getattr(self, "n_features_in_", len(given)):
                raise ValueError(
                    "input_features should have length equal to number of features "
                    f"({self.n_features_in_}), got {len(given)}"
                )
            known = known or given
        if columns is not None:
            return np.array(list(columns.encoded(names)), object)
        if not known and not hasattr(self, "n_features_in_"):
            raise ParameterError("the features have no names before fit: pass input_features")
        return np.array(known or [f"x{k}" for k in range(self.n_features_in_)], object)


def _values(columns: Columns, names: Sequence[str], encoded: NDArray[Any]) -> NDArray[Any]:
    """Return what encoded numbers stand for, column by column."""
    found, place = [], 0
    plain = all(isinstance(columns[name], Number | Boolean) for name in names)
    for name in names:
        kind = columns[name]
        width = len(kind.encoded(name))
        part = encoded[:, place : place + width]
        place += width
        if plain:
            found.append(part[:, 0])
        elif isinstance(kind, Category):
            # the first level has no indicator: it is what no indicator of the others says
            scores = np.column_stack([np.full(len(part), 0.5), part])
            found.append(np.array([kind.levels[k] for k in scores.argmax(axis=1)], object))
        elif isinstance(kind, Number | Boolean):
            found.append(part[:, 0].astype(object))
        else:
            shown = [kind.show(v) if math.isfinite(v) else None for v in part[:, 0].tolist()]
            found.append(np.array(shown, object))
    return np.column_stack(found)
