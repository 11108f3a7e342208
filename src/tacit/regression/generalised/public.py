"""From what a caller states to what is public about a generalised linear model's rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.data.features import Features, one_column
from tacit.data.kinds import Category, Kind
from tacit.data.problems import raise_for, trouble
from tacit.data.reading import read_rows
from tacit.data.schema import Columns
from tacit.data.truth import Boolean
from tacit.data.values import few, plain_text, texts
from tacit.errors import ParameterError, UnboundedData
from tacit.regression.bounds import PublicBounds
from tacit.regression.design import Design, constant_for

__all__ = ["design_for", "labels_as_numbers", "public_counts", "public_labels"]

_LABELS = (-0.5, 1.5)  # 0 and 1 in the middle of it: a label then takes little of a row's norm


def public_labels(
    bounds: Any, classes: Sequence[Any] | None, columns: Any, target: str | None
) -> tuple[PublicBounds, tuple[Any, ...]]:
    """Return what is public where the response is one of two labels, and the labels."""
    if columns is None:
        if classes is None:
            raise UnboundedData(
                "classes must be given: pass classes=(no, yes), the two public labels, or "
                "columns=Columns(…); they are not read from the data"
            )
        stated = _listed(bounds)
        return PublicBounds(stated, _LABELS, None, target), _two(tuple(classes))
    if bounds is not None or classes is not None:
        raise ParameterError("columns hold ranges and labels: leave bounds and classes out")
    known, name, kind = _of_columns(columns, target)
    if not isinstance(kind, Category | Boolean):
        raise ParameterError(
            f"the target must be a category of two values or a truth value, not a {kind.word}: "
            "counts are for PrivatePoissonRegression, numbers for PrivateLinearRegression"
        )
    if known.columns.averaged:
        raise ParameterError(
            "an average of labels is no label: pass rows_per_person=…, not averages"
        )
    labels = kind.levels if isinstance(kind, Category) else (False, True)
    return PublicBounds(known.ranges, _LABELS, known.columns, name), _two(tuple(labels))


def public_counts(bounds: Any, y_bounds: Any, columns: Any, target: str | None) -> PublicBounds:
    """Return what is public where the response is a count."""
    if columns is None:
        if y_bounds is None:
            raise UnboundedData(
                "y_bounds must be given: pass y_bounds=(0, high), the range of a count"
            )
        return PublicBounds(_listed(bounds), _range(y_bounds), None, target)
    if bounds is not None or y_bounds is not None:
        raise ParameterError("columns hold the ranges: leave bounds and y_bounds out")
    known, name, kind = _of_columns(columns, target)
    if not kind.numeric:
        raise ParameterError(
            f"the target must be a number from 0 on, not a {kind.word}: a category of two values "
            "is for PrivateLogisticRegression"
        )
    return PublicBounds(known.ranges, _range(kind.range), known.columns, name)


def _of_columns(columns: Any, target: str | None) -> tuple[Features, str, Kind]:
    known = Features.of(Columns.of(columns), target, "a regression")
    assert known.target is not None
    return known, known.target, known.response


def _listed(bounds: Any) -> Any:
    return bounds.tolist() if isinstance(bounds, np.ndarray | np.generic) else bounds


def _two(labels: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(labels) != 2 or plain_text(labels[0]) == plain_text(labels[1]):
        raise ParameterError(
            f"classes must be two different labels, got {list(labels)}: more than two are for "
            "tacit.networks.PrivateDropoutClassifier(hidden=())"
        )
    return labels


def _range(stated: Any) -> tuple[float, float]:
    low, high = (0.0, stated) if isinstance(stated, int | float) else stated
    if not 0.0 <= float(low) < float(high) < np.inf:
        raise ParameterError(
            f"y_bounds must be (low, high) with 0 ≤ low < high for counts, got {stated!r}"
        )
    return 0.0, float(high)


def design_for(
    public: PublicBounds, neighbours: str, features: int | None, link: str, logs: bool
) -> Design:
    """Return what a row becomes and which products are released.

    Parameters
    ----------
    public
        Ranges.
    neighbours
        The neighbour relation.
    features
        How many there are, where only a norm is public.
    link
        ``"logistic"`` or ``"poisson"``.
    logs
        Whether products are those of log(1 + y), of counts.
    """
    found = public.design(True, neighbours, "moments", None, features)
    if link == "poisson":  # most counts are small: zero is where a response takes no room
        top = math.log1p(public.response[1]) if logs else public.response[1]
        found = replace(found, middle=(*found.middle[:-1], 0.0), half=(*found.half[:-1], top))
    if public.is_norm:
        return found
    return replace(found, constant=constant_for(found.features / 3.0, 0.0))


def labels_as_numbers(y: Any, labels: Sequence[Any]) -> Any:
    """Return 0 and 1 for labels, one by one; one that is not stated is refused, to the holder.

    >>> labels_as_numbers(["ill", "well", "ill"], ("well", "ill")).tolist()
    [1.0, 0.0, 1.0]
    """
    place = {plain_text(one): float(k) for k, one in enumerate(labels)}
    table = read_rows({"y": one_column(y)})
    found = texts(table.column("y"))
    known = found.is_in(list(place)).fill_null(False).to_numpy()
    remedy = (
        f"it is none of the classes {few(list(place))}: mend it, or name the class; a count is "
        "for PrivatePoissonRegression"
    )
    raise_for(trouble(table, "unknown label", "y", ~known, found, remedy))
    return np.array([place[label] for label in found.to_list()], np.float64)
