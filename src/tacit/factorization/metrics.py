"""How good predictions of a factorization are: rankings, and how sure it may be.

Scores per cell (errors, AUC, average precision of one list) are scikit-learn's. These are what a
sparse relation needs beside them: lists of each member that leave out what it has seen, without an
array of members by items; and whether intervals and probabilities hold.

They are computed on raw data: a holder's own, and no part of a release (they are a function of the
private cells, whatever noise the model was fitted with).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import stats

from tacit._core.answers import Answer, Answering, Table
from tacit._core.check import Integer, Real, check
from tacit.errors import ParameterError
from tacit.estimators.features import check_fitted
from tacit.factorization.arrays import Floats
from tacit.factorization.divergences import LOGIT, NEGATIVE_BINOMIAL
from tacit.factorization.language.binding import as_relations, restricted
from tacit.factorization.ranking import best_unseen

__all__ = ["Calibration", "Ranking", "calibration", "ranking"]

_RAW = "computed on raw data: for their holder alone"
_BINS = 10


@dataclass(frozen=True)
class Ranking(Answering):
    """How good lists of the n best are, over the members that have something to be found.

    Attributes
    ----------
    n, members
        The length of lists, and how many members have one.
    ndcg
        Discounted gain over the best possible, with values as gains.
    recall, precision
        The share of what was to be found that is listed, and of the list that was to be found.
    average_precision
        Precision at every hit, averaged over min(n, what was to be found): MAP.
    coverage
        The share of all items that stand in any list.
    """

    n: int
    members: int
    ndcg: float
    recall: float
    precision: float
    average_precision: float
    coverage: float

    def _answer(self, level: float) -> Answer:
        names = ["NDCG", "recall", "MAP", "precision", "coverage"]
        values = [self.ndcg, self.recall, self.average_precision, self.precision, self.coverage]
        table = Table("ranking", f"Lists of {self.n}", {"metric": names, "value": values}, (_RAW,))
        head = f"NDCG@{self.n} {self.ndcg:.3f} over the lists of {self.members} members."
        return Answer("Rankings at held-out cells", head, (table,))


def ranking(
    model: Any,
    relation: str,
    held_out: Any,
    *,
    member: str,
    item: str,
    n: int = 10,
    seen: Any = None,
    given: Mapping[str, int] | None = None,
) -> Ranking:
    """Rank all items for each member that has held-out cells.

    Parameters
    ----------
    model
        A fitted `tacit.CoupledFactorization`.
    relation
        Which one.
    held_out
        Its held-out cells, as in ``fit``; values above 0 are to be found, and are their gains.
    member, item
        Whose lists, and of what: two of the relation's modes.
    n
        The length of lists.
    seen
        Cells to leave out of them, such as those of the fit.
    given
        The member of every other mode, by position.

    Examples
    --------
    >>> import numpy as np, tacit as tc
    >>> clicks = tc.Relation.from_cells(("u", "i"), [[0, 0], [0, 1], [1, 2]], shape=(2, 4))
    >>> fitted = tc.CoupledFactorization("u:k i:k", rank=1, random_state=0).fit(clicks)
    >>> late = tc.Relation.from_cells(("u", "i"), [[0, 2]], shape=(2, 4))
    >>> ranking(fitted, "data", late, member="u", item="i", n=2, seen=clicks).recall
    1.0
    """
    check("n", n, Integer(1))
    bound, found = _cells(model, relation, held_out)
    modes = list(bound.entities)
    others = set(modes) - {member, item}
    if member == item or not {member, item} <= set(modes) or set(given or {}) != others:
        raise ParameterError(
            f"member and item must be two of {modes}, and given hold one of each of the others"
        )
    at, of = modes.index(member), modes.index(item)
    wanted = found.values > 0.0
    for name, place in (given or {}).items():
        wanted &= found.indices[:, modes.index(name)] == place
    cells, gains = found.indices[wanted].astype(np.int64), found.values[wanted]
    order = np.lexsort((-gains, cells[:, at]))
    cells, gains = cells[order], gains[order]
    members, starts = np.unique(cells[:, at], return_index=True)
    if not len(members):
        raise ParameterError("held_out has no cell with a value above 0: nothing to be found")
    ends = np.append(starts[1:], len(cells))
    listed = (
        np.empty((0, len(modes)), np.int64)
        if seen is None
        else _cells(model, relation, seen)[1].indices.astype(np.int64)
    )
    values = partial(model.predict, relation, positions=True)
    named = [model._members(mode) for mode in modes]
    lists = best_unseen(values, named, (member, members), item, given or {}, n, listed)
    discounts = 1.0 / np.log2(np.arange(2, n + 2))
    scores, shown = np.empty((len(members), 4)), np.zeros(named[of].size, bool)
    for row, (low, high, (best, _)) in enumerate(zip(starts, ends, lists, strict=True)):
        shown[best] = True
        scores[row] = _list_scores(best, cells[low:high, of], gains[low:high], n, discounts)
    means = [float(mean) for mean in scores.mean(axis=0)]
    return Ranking(n, len(members), means[0], means[1], means[2], means[3], float(shown.mean()))


def _list_scores(best: Any, wanted: Any, gains: Floats, n: int, discounts: Floats) -> list[float]:
    """Return NDCG, recall, precision and average precision of one list."""
    gain = dict(zip(wanted.tolist(), gains.tolist(), strict=True))
    got = np.array([gain.get(int(one), 0.0) for one in best])
    ideal = float(gains[:n] @ discounts[: len(gains[:n])])
    hits = got > 0.0
    precision = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return [
        float(got @ discounts[: len(got)]) / ideal,
        float(hits.sum()) / len(gains),
        float(hits.sum()) / n,
        float(precision[hits].sum()) / min(n, len(gains)),
    ]


@dataclass(frozen=True)
class Calibration(Answering):
    """Whether a fit is as sure as it may be.

    Attributes
    ----------
    levels, coverage
        Levels of intervals, and the share of held-out cells that lie in theirs; under a logit
        link, mean probabilities of ten groups, and how often what they are of happened.
    cells
        Held-out cells.
    gap
        The mean absolute difference of the two, weighted by cells.
    """

    levels: tuple[float, ...]
    coverage: tuple[float, ...]
    cells: int
    gap: float

    def _answer(self, level: float) -> Answer:
        columns = {"stated": list(self.levels), "held": list(self.coverage)}
        table = Table("calibration", "Stated and held", columns, (_RAW,))
        head = f"{self.cells} cells; what is stated is off by {self.gap:.3f} on average."
        return Answer("Calibration at held-out cells", head, (table,))


def calibration(
    model: Any, relation: str, held_out: Any, levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95)
) -> Calibration:
    """Compare intervals for new observations, or probabilities, with held-out cells.

    Parameters
    ----------
    model
        A fitted `tacit.CoupledFactorization` with a posterior; with a logit link, any.
    relation
        Which one.
    held_out
        Its held-out cells, as in ``fit``.
    levels
        Of central intervals. Their variance is that of the posterior and φ·x̂^p of the likelihood,
        taken as a normal law's.
    """
    for one in levels:
        check("levels", one, Real(0, 1, open_low=True, open_high=True))
    bound, found = _cells(model, relation, held_out)
    if not found.cells:
        raise ParameterError("held_out has no cells")
    if bound.power == LOGIT:
        chances = model.predict(relation, found.indices, positions=True)
        groups = np.array_split(np.argsort(chances, kind="stable"), min(_BINS, found.cells))
        stated = [float(chances[group].mean()) for group in groups]
        held = [float(found.values[group].mean()) for group in groups]
        sizes = np.array([len(group) for group in groups]) / found.cells
    else:
        mean, variance = model.predict(
            relation, found.indices, positions=True, return_variance=True
        )
        phi = float(model.dispersion_[relation])
        spread = np.sqrt(variance + _noise(mean, bound.power, phi))
        inside = np.abs(found.values - mean) / np.maximum(spread, 1e-300)
        stated = [float(one) for one in levels]
        held = [float((inside <= stats.norm.ppf(0.5 + one / 2)).mean()) for one in stated]
        sizes = np.full(len(stated), 1.0 / len(stated))
    gap = float(sizes @ np.abs(np.subtract(stated, held)))
    return Calibration(tuple(stated), tuple(held), found.cells, gap)


def _noise(mean: Floats, power: float, phi: float) -> Floats:
    """Return the variance of an observation, given its expected value."""
    if power == NEGATIVE_BINOMIAL:
        return np.asarray(mean + phi * mean**2)
    size = np.ones_like(mean) if power == 0.0 else np.maximum(mean, 0.0) ** power
    return np.asarray(phi * size)


def _cells(model: Any, relation: str, data: Any) -> tuple[Any, Any]:
    """Return the bound relation of a fitted model, and cells of it."""
    check_fitted(model, "factors_")
    bound = model._relation(relation)
    part = restricted(model.coupled_model(), [relation])
    stated = {e: names for e, names in model._stated_members().items() if e in part.latents}
    return bound, as_relations(part, {relation: data}, stated)[relation]
