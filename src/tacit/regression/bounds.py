"""From the public bounds that a caller states to the design of a release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import SIZE, Range, Real, check
from tacit.data.features import labels_of
from tacit.data.kinds import Category
from tacit.data.matrices import row_shape
from tacit.data.schema import Columns
from tacit.errors import NotCertified, ParameterError, UnboundedData
from tacit.estimators.features import rows_seen
from tacit.privacy.events import ADD_REMOVE
from tacit.regression.design import CONSTANT, Design, constant_for
from tacit.regression.found import FoundDesign, RawRows
from tacit.regression.rows import SiteSum, collect, read_columns, summarise
from tacit.regression.search import FindBounds, followed

_FOUND = (-1.0, 1.0)  # until ranges are found

__all__ = ["PublicBounds", "as_pairs", "as_stated", "plain_bounds"]


@dataclass(frozen=True)
class PublicBounds:
    """What is public about the range of features and response.

    >>> PublicBounds.of([(0, 10)], 5.0).design(True, ADD_REMOVE).half
    (5.0, 5.0)
    """

    features: Any  # column → (low, high), a sequence of pairs, or one number, the norm of a row
    response: Any  # (low, high), or the largest |y|
    columns: Columns | None = None
    target: str | None = None
    search: FindBounds | None = None  # how ranges are found; those above then hold no place

    @classmethod
    def of(
        cls, bounds: Any, y_bounds: Any, columns: Any = None, target: str | None = None
    ) -> PublicBounds:
        """Return what a caller stated; arrays and NumPy's numbers as lists and Python's."""
        if columns is not None:
            return cls._of_columns(Columns.of(columns), target, bounds, y_bounds)
        if (search := FindBounds.of(bounds)) is not None:
            pairs = [_FOUND] * len(search.names)
            own = dict(zip(search.names, pairs, strict=True)) if search.by_name else pairs
            return cls(own, _FOUND if y_bounds is None else y_bounds, None, target, search)
        features, response = (
            part.tolist() if isinstance(part, np.ndarray | np.generic) else part
            for part in (bounds, y_bounds)
        )
        return cls(features, response, None, target)

    @classmethod
    def _of_columns(
        cls, columns: Columns, target: str | None, bounds: Any, y_bounds: Any
    ) -> PublicBounds:
        """Return the ranges of what a model sees of a table's columns."""
        if bounds is not None or y_bounds is not None:
            raise ParameterError("columns hold the ranges: leave bounds and y_bounds out")
        name = target or columns.target
        if name is None or name not in columns:
            raise ParameterError(
                f"target must be one of the columns, got {name!r}: pass target='the column to "
                "explain'"
            )
        for own, kind in columns.items():
            if not kind.modelled:
                raise ParameterError(
                    f"column {own!r} is {kind.word}, which a regression does not read"
                )
        if isinstance(columns[name], Category):
            raise ParameterError(f"the target {name!r} must be a number, not a category")
        features = columns.encoded([own for own in columns if own != name])
        if not features:
            raise ParameterError("columns must name a feature besides the target")
        return cls(features, columns[name].range, columns, name)

    def check(self) -> None:
        """Raise where a bound is missing or is none."""
        features, response = self.features, self.response
        if features is None or (isinstance(features, Mapping | Sequence) and not features):
            raise UnboundedData(
                "bounds must be given: pass bounds={feature: (low, high)} or a list of pairs, the "
                "public range of each feature, or a number, the public norm of a row; "
                "bounds=tacit.FindBounds([features]) finds them with a part of the budget"
            )
        if not isinstance(features, Mapping | Sequence | int | float):
            raise ParameterError(
                "bounds must be a mapping of feature to (low, high), a list of pairs or a number, "
                f"got {type(features).__name__}"
            )
        if response is None:
            raise UnboundedData(
                "y_bounds must be given: pass y_bounds=(low, high), the public range of the "
                "response"
            )
        if not isinstance(response, int | float):
            check("y_bounds", response, Range())

    @property
    def by_name(self) -> bool:
        """Whether features go by their names, not by their order."""
        return isinstance(self.features, Mapping)

    @property
    def is_norm(self) -> bool:
        """Whether only the norm of a row is public."""
        return isinstance(self.features, int | float)

    def width(self, data: Any) -> int | None:
        """Return how many features a holder's data have, where only a norm is public."""
        if not self.is_norm:
            return None
        if not isinstance(data, tuple):
            raise ParameterError(
                "a public norm alone goes with arrays, and requires y to be passed, but the "
                "target y is None: pass pairs (X, y), with two axes of X"
            )
        return row_shape(data[0])[1]

    def pairs(self) -> dict[str, tuple[float, float]]:
        """Return the public range of every feature by name, checked."""
        if isinstance(self.features, Mapping):
            named = {str(name): pair for name, pair in self.features.items()}
        else:
            named = {f"x{k}": pair for k, pair in enumerate(self.features)}
        for name, pair in named.items():
            check(f"bounds[{name!r}]", pair, Range())
        return {name: (float(low), float(high)) for name, (low, high) in named.items()}

    def names(self, design: Design) -> tuple[str, ...]:
        """Return the names of the features and, last, of the response."""
        named = list(self.pairs()) if isinstance(self.features, Mapping | Sequence) else []
        named = named or [f"x{k}" for k in range(design.features)]
        return (*named, self.target or "y")

    @property
    def notes(self) -> tuple[str, ...]:
        """What else is public about the rows, for certificates."""
        return () if self.columns is None else self.columns.assumptions()

    def read(self, data: Any, design: Design) -> SiteSum | RawRows:
        """Add up a holder's rows; what cannot be used is refused, to the holder."""
        if self.search is not None:
            names = self.search.names if self.by_name else len(self.search.names)
            return RawRows(*collect(data, names, self.target))
        if self.columns is not None:
            assert self.target is not None
            return read_columns(data, self.columns, self.target, design)
        return summarise(
            data, design, self.names(design)[:-1] if self.by_name else None, self.target
        )

    def taken(self, labels: Sequence[Any], design: Design) -> tuple[int, list[Any]]:
        """Return how many columns a row to predict for has, and how they are called.

        Parameters
        ----------
        labels
            How the columns of the holders' frames are called, where bounds go by their order.
        design
            What is public about the sums of rows.
        """
        if self.columns is not None:
            own = [name for name in self.columns if name != self.target]
            return len(own), own
        return design.features, list(self.pairs()) if self.by_name else list(labels)

    def features_of(self, model: Any, X: Any) -> Array:
        """Return what a fitted model sees of rows to predict for."""
        if self.columns is not None:
            return self.columns.encode(X, model._names_in)
        known, names = model._names_in, model.columns_[:-1]
        if not known and set(names) <= set(labels_of(X)):  # what the model itself calls them
            known = names
        found = np.ascontiguousarray(rows_seen(model, X, known), np.float64)
        if not isinstance(model.design_, FoundDesign):
            return found
        # a range that was found may be narrow by chance, and its slope steep
        design = model.design_
        assert self.search is not None
        low, high = followed(self.search, design.middle[:-1], design.half[:-1])
        return np.clip(found, low, high)

    def design(
        self,
        intercept: bool,
        neighbours: str,
        statistics: str = "weighted",
        clip: float | None = None,
        features: int | None = None,
        *,
        scaled: bool = True,
        noise_multiplier: float = 0.0,
        weights: Any = None,
    ) -> Design:
        """Return everything public about a release; see `Design`.

        The number of features is needed where only a norm is public. Rows are ``scaled`` to the
        rule's norm where no ``clip`` is given. The noise relative to a sensitivity decides how
        large the constant is (`constant_for`). ``weights`` of features count by their ratios.
        """
        if weights is not None and self.is_norm:
            raise ParameterError("weights need the range of every feature: pass bounds by feature")
        if self.is_norm:
            check("bounds", self.features, SIZE)
            if features is None:
                raise NotCertified(
                    "bounds do not name the features: the price is known at fit only"
                )
            scales = [(0.0, float(self.features))] * features
            square = 1.0  # ‖x‖ ≤ 1 after the map
        else:
            scales = [_scale(pair, intercept) for pair in self.pairs().values()]
            square = len(scales) / 3.0
        weighted = () if weights is None else self._weighted(weights)
        if weighted:
            square = sum(one * one for one in weighted) / 3.0
        constant = CONSTANT
        if intercept and statistics == "weighted":
            constant = constant_for(square, noise_multiplier)
        counted = constant if intercept or neighbours == ADD_REMOVE else 0.0
        if clip is None and self.is_norm:
            clip = math.sqrt(counted**2 + square + (statistics == "moments") / 3.0)
        if isinstance(self.response, int | float):
            check("y_bounds", self.response, SIZE)
            scales.append((0.0, float(self.response)))
        else:
            scales.append(_scale(self.response, intercept))
        whole: dict[str, float] = {}
        if clip is None and not scaled:
            clip = math.sqrt(constant**2 + len(scales)) * 1.01
            whole = {"response": 1.0}
        return (Design if self.search is None else FoundDesign)(
            tuple(middle for middle, _ in scales),
            tuple(half for _, half in scales),
            intercept,
            neighbours,
            statistics,
            clip,
            1 if self.columns is None else self.columns.rows_per_unit,
            constant,
            weighted=weighted,
            **whole,
        )

    def _weighted(self, weights: Any) -> tuple[float, ...]:
        """Return the weight of every feature, the largest 1; who is not named counts as 1."""
        names = list(self.pairs())
        if isinstance(weights, Mapping):
            strange = sorted(set(weights) - set(names))
            if strange:
                raise ParameterError(f"weights name {strange[0]!r}: the features are {names[:20]}")
            weights = [weights.get(name, 1.0) for name in names]
        found = [float(one) for one in weights]
        if len(found) != len(names):
            raise ParameterError(
                f"weights must hold one for each of {len(names)} features, got {len(found)}"
            )
        for one in found:
            check("weights", one, Real(0.0, open_low=True))
        if min(found) < 1e-3 * max(found):
            raise ParameterError("weights must not differ by more than a thousand times")
        return tuple(one / max(found) for one in found)


def _scale(pair: tuple[float, float], intercept: bool) -> tuple[float, float]:
    """Return middle and half-range; without an intercept zero stays zero."""
    low, high = float(pair[0]), float(pair[1])
    if intercept:
        return (low + high) / 2.0, (high - low) / 2.0
    return 0.0, max(abs(low), abs(high))


def plain_bounds(value: Any) -> Any:
    """Return bounds as JSON has them."""
    if isinstance(value, FindBounds):
        return value.stated
    if isinstance(value, Mapping):
        return {str(name): plain_bounds(pair) for name, pair in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [plain_bounds(part) for part in value] if isinstance(value, list | tuple) else value


def as_pairs(value: Any) -> Any:
    """Return bounds from JSON as a caller gives them, ranges as pairs."""
    if isinstance(value, Mapping):
        return {name: as_pairs(pair) for name, pair in value.items()}
    return tuple(as_pairs(part) for part in value) if isinstance(value, list) else value


def as_stated(settings: Mapping[str, Any], stored: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that a release holds as a caller gives them.

    Parameters
    ----------
    settings
        Of the release; its ``names`` are in order, which JSON's mappings are not.
    stored
        Which of them are parameters.
    """
    given = {name: as_pairs(settings[name]) for name in stored if name != "columns"}
    if settings.get("columns"):
        given["columns"] = Columns.of(settings["columns"]).in_order(settings["names"])
    search = FindBounds.of(given.get("bounds"))
    if search is not None:
        given["bounds"] = search
    elif isinstance(given.get("bounds"), Mapping):
        given["bounds"] = {name: given["bounds"][name] for name in settings["names"][:-1]}
    return given
