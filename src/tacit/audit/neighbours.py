"""Small neighbouring data sets that reach as far as an estimator's bounds allow.

An audit needs no private data: how far one unit may move a release follows from public facts,
the estimator's own parameters. `worst_case` makes a handful of rows, documents or ratings and one
canary at the edge of the bounds. Where the best canary is known (one row or document at the edge
of its ball, an orthogonal one instead) it is that one; elsewhere it is a good one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.coupled import CoupledFactorization
from tacit.estimators.joint_local import LocalCounts
from tacit.estimators.mixture import GaussianMixture
from tacit.estimators.orthogonal import OrthogonalDecomposition
from tacit.estimators.posterior import PrivatePosterior
from tacit.estimators.recommender import PrivateRecommender
from tacit.estimators.regression import PrivateLinearRegression
from tacit.estimators.site import Site
from tacit.estimators.statistic import StatisticSelector
from tacit.estimators.summary import PrivateSummary
from tacit.estimators.topics import SingleTopicModel
from tacit.models.statistics import OrderStatistic, as_statistic
from tacit.privacy.events import REPLACE

__all__ = ["Neighbours", "worst_case"]

_MEMBERS, _ITEMS, _PEOPLE = 4, 6, 20


class Neighbours(NamedTuple):
    """D, its neighbour, and how an estimator is fitted to either."""

    data: Any
    neighbour: Any
    fit: Callable[[Any, Any], Any] | None = None


@singledispatch
def worst_case(estimator: Any) -> Neighbours:
    """Return neighbouring data at the edge of an estimator's bounds; no data is read.

    Parameters
    ----------
    estimator
        A private estimator.

    Examples
    --------
    >>> from tacit.privacy.guarantee import Privacy
    >>> found = worst_case(PrivateSummary({"x": (0, 9)}, privacy=Privacy(1.0)))
    >>> found.data["x"].tolist(), found.neighbour["x"].tolist()
    ([4.5, 4.5, 9.0], [4.5, 4.5])
    """
    raise ParameterError(
        f"there is no worst case for {type(estimator).__name__}: pass data and neighbour"
    )


def _replaces(estimator: Any) -> bool:
    if estimator.privacy is None:
        raise ParameterError("there is nothing to audit: pass an estimator with privacy=…")
    return bool(estimator.privacy.neighbours == REPLACE)


@worst_case.register
def _(estimator: PrivateSummary) -> Neighbours:
    estimator._check_parameters()
    assert estimator.bounds is not None
    rows: dict[str, list[float]] = {}
    for name, (low, high) in estimator.bounds.items():
        rows[name] = [(low + high) / 2.0] * 2 + [float(high)]
    other = {name: column[:2] for name, column in rows.items()}
    if _replaces(estimator):
        other = {n: [*c, float(estimator.bounds[n][0])] for n, c in other.items()}
    ours, theirs = ({n: np.array(c) for n, c in part.items()} for part in (rows, other))
    return Neighbours(ours, theirs)


@worst_case.register
def _(estimator: PrivateLinearRegression) -> Neighbours:
    """A row at a corner of the box; instead of it, one that is nearly orthogonal to it."""
    bounds, target = estimator.bounds, estimator.target
    names = list(bounds) if isinstance(bounds, Mapping) else None
    if bounds is None or estimator.y_bounds is None:
        raise ParameterError("bounds and y_bounds must be given: they decide what is the worst")
    if isinstance(bounds, int | float):
        box = np.array([[-bounds, bounds]] * 2) / np.sqrt(2.0)
    else:
        pairs = bounds.values() if isinstance(bounds, Mapping) else bounds
        box = np.array(list(pairs), float)
    edge = np.ravel(np.asarray(estimator.y_bounds, float))
    y_box = np.array([-edge[0], edge[0]]) if edge.size == 1 else edge
    box = np.vstack([box, y_box])
    middle, half = box.mean(axis=1), np.diff(box, axis=1)[:, 0] / 2.0
    size = 4 * len(box) * estimator.average
    rows = middle + half * generator(0, "audit").uniform(-0.5, 0.5, (size, len(box)))
    far = middle + half
    signs = np.where(np.arange(len(box)) % 2 == 0, -1.0, 1.0)
    other = rows if not _replaces(estimator) else np.vstack([rows[:-1], middle + half * signs])
    ours = np.vstack([rows, far]) if not _replaces(estimator) else np.vstack([rows[:-1], far])

    def shaped(table: Any) -> Any:
        if names is None:
            return table[:, :-1], table[:, -1]
        return {**dict(zip(names, table.T, strict=False)), str(target): table[:, -1]}

    return Neighbours(shaped(ours), shaped(other))


@worst_case.register
def _(estimator: SingleTopicModel) -> Neighbours:
    """A document that repeats one word: e⊗e and e⊗e⊗e have norm 1."""
    words = estimator._public_size() or max(estimator.topics + 1, 3)
    documents = [[k] * 4 for k in range(words) for _ in range(3)]
    if _replaces(estimator):
        return _with_vocabulary(words, [*documents, [0] * 4], [*documents, [words - 1] * 4])
    return _with_vocabulary(words, [*documents, [0] * 4], documents)


def _with_vocabulary(words: int, first: Any, second: Any) -> Neighbours:
    def counts(documents: Any) -> Any:
        return np.array([np.bincount(d, minlength=words) for d in documents])

    return Neighbours(counts(first), counts(second))


@worst_case.register
def _(estimator: GaussianMixture) -> Neighbours:
    """A sample at the edge of the ball; instead of it, the opposite one."""
    if estimator.radius is None:
        raise ParameterError("radius must be given: it decides what is the worst")
    features = estimator.features or estimator.components + 1
    centre = np.broadcast_to(np.asarray(estimator.centre, float), (features,))
    edges = estimator.radius * np.eye(features)
    rows = centre + np.vstack([0.6 * edges, -0.6 * edges, 0.3 * edges])
    far = centre + edges[:1]
    other = np.vstack([rows, centre - edges[:1]]) if _replaces(estimator) else rows
    return Neighbours(np.vstack([rows, far]), other)


@worst_case.register
def _(estimator: OrthogonalDecomposition) -> Neighbours:
    """Tensors whose difference has the stated norm."""
    if estimator.sensitivity is None:
        raise ParameterError("sensitivity must be given: it decides what is the worst")
    size = estimator.dimension or max(estimator.rank, 2)
    tensor = np.zeros((size,) * 3)
    for k in range(size):
        tensor[k, k, k] = (size - k) * estimator.sensitivity
    other = tensor.copy()
    other[0, 0, 0] -= estimator.sensitivity
    return Neighbours(tensor, other)


@worst_case.register(PrivatePosterior)
@worst_case.register(StatisticSelector)
def _(estimator: Any) -> Neighbours:
    """One person at that end of the range which moves the statistic most."""
    low, high = (float(end) for end in estimator.bounds)
    size = estimator.size or _PEOPLE
    selects = isinstance(estimator, StatisticSelector)
    if selects:
        start = estimator.first_statistic or estimator.candidates[0]
        place = max(2, round(estimator.first_share * size)) - 1  # in the first chunk
    else:
        start, place = estimator.statistic, size // 2
    statistic = as_statistic(start)
    scalar = statistic.of if isinstance(statistic, OrderStatistic) else statistic
    ends = np.array([low, (low + high) / 2.0, high])
    values = scalar.values(ends, (low, high))[:, 0]
    least, most = float(ends[values.argmin()]), float(ends[values.argmax()])
    data = np.full(size, least)
    if isinstance(
        statistic, OrderStatistic
    ):  # whom the order statistic falls on is decided by one
        data[int(np.ceil(statistic.quantile * size)) :] = most
        place = 0
    other = data.copy()
    other[place] = most
    return Neighbours(data, other)


@worst_case.register
def _(estimator: PrivateRecommender) -> Neighbours:
    estimator._check_parameters()
    assert estimator.bounds is not None and estimator.privacy is not None
    low, high = (float(end) for end in estimator.bounds)
    people = 64 if estimator.privacy.trust == "shuffler" else _MEMBERS
    table = generator(0, "audit").choice([low, high], (people, _ITEMS))
    other = table.copy()
    if estimator.privacy.unit == "user":
        table[0], other[0] = high, np.nan
        other[0, 0] = low
    else:
        table[0, 0], other[0, 0] = high, low
        method = estimator._method()
        if getattr(method, "trusts", ()) == (
            "local",
        ):  # whether a cell is rated is secret as well
            other[0, 0] = np.nan
    return Neighbours(table, other)


@worst_case.register
def _(estimator: CoupledFactorization) -> Neighbours:
    """One member of one site with all cells, or one cell; nobody else is there."""
    model = estimator.coupled_model()
    if len(model.forms) != 1 or estimator.privacy is None:
        raise ParameterError(
            "a worst case is known for one relation with privacy=…: pass data and neighbour"
        )
    (tokens,) = model.forms.values()
    entities = [entity for entity, indices in tokens if entity != "core"]
    protected = estimator.protected or entities[0]
    given = estimator.bounds
    if given is None:
        raise ParameterError("bounds must be given: they decide what is the worst")
    low, high = next(iter(given.values())) if isinstance(given, Mapping) else given
    table = _cells(estimator, float(low), float(high), len(entities))
    other = table.copy()
    if estimator.privacy.unit == "user":
        other[0] = np.nan
    else:
        first = (0,) * table.ndim
        table[first], other[first] = high, low
    axis = entities.index(protected)

    def site(cells: Any) -> list[Site]:
        return [Site("A", Relation.from_dense(entities, np.moveaxis(cells, 0, axis)))]

    return Neighbours(site(table), site(other))


def _cells(estimator: Any, low: float, high: float, modes: int) -> Any:
    """Return cells, (members, …), of which the first member has all."""
    shape = (_MEMBERS, *(_ITEMS for _ in range(modes - 1)))
    table = np.full(shape, np.nan)
    flat = table[0].reshape(-1)
    flat[:] = np.where(np.arange(flat.size) % 3 == 2, low, high)
    method = estimator.method
    if isinstance(method, LocalCounts) or method == "local":
        table[:] = low  # counts of everybody
        table[0] = high
    elif estimator.privacy.unit == "entry":
        table[1:] = generator(0, "audit").choice([low, high], table[1:].shape)
    return table
