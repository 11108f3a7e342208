"""Clicks without ratings: recall@20 and NDCG@100 with everything about a user protected.

MovieLens 100K (which films were rated) and Last.fm (which artists were listened to); a fifth of
every user's items is held out. Beside the certified method at user-level ε = 1, 3, 10
(replace-one, δ = 1e-6): popularity at the same ε, all of it spent there; popularity without
noise; and alternating least squares for implicit feedback (Hu, Koren & Volinsky 2008) without
privacy, rank 32, with constants from no search. All settings are defaults, chosen by what is
public. The variance of a user's taste, and from when on tastes are learned at all, were chosen on
simulated clicks of three kinds: no tastes, taste factors, and a liking for groups of items.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tacit as tc
from experiments.data import data_folder
from experiments.datasets import lastfm_plays, movielens
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.recommender import ImplicitFeedback

EPSILONS = (1.0, 3.0, 10.0)
DELTA = 1e-6
_RECALL, _NDCG = 20, 100


class Trial(NamedTuple):
    """Clicks to learn from and those held out, by user."""

    train: tc.Relation
    own: list[Any]
    held: list[Any]


def trial(clicks: tc.Relation, seed: int) -> Trial:
    """Hold out a fifth of every user's items; everybody keeps one."""
    users = clicks.indices[:, 0]
    rng = generator(seed, "clicks")
    order = rng.permutation(clicks.cells)
    order = order[np.argsort(users[order], kind="stable")]
    counts = np.bincount(users, minlength=clicks.shape[0])
    place = np.arange(clicks.cells) - np.repeat(np.cumsum(counts) - counts, counts)
    out = np.zeros(clicks.cells, bool)
    out[order] = place < np.minimum(counts // 5, counts - 1)[users[order]]

    def rows(kept: Any) -> list[Any]:
        mine, theirs = users[kept], clicks.indices[kept, 1]
        ends = np.cumsum(np.bincount(mine, minlength=clicks.shape[0]))[:-1]
        return np.split(theirs[np.argsort(mine, kind="stable")], ends)

    kept = np.flatnonzero(~out)
    return Trial(clicks.subset(kept), rows(kept), rows(np.flatnonzero(out)))


def ranked(given: Trial, score: Callable[[int], Any]) -> tuple[float, float]:
    """Return recall@20 and NDCG@100, averaged over users with held-out items."""
    discount = 1.0 / np.log2(np.arange(2, _NDCG + 2))
    recall, ndcg = [], []
    for user, held in enumerate(given.held):
        if not len(held):
            continue
        scores = np.array(score(user), np.float64)
        scores[given.own[user]] = -np.inf
        top = np.argpartition(-scores, _NDCG)[:_NDCG]
        top = top[np.argsort(-scores[top], kind="stable")]
        hit = np.isin(top, held)
        recall.append(hit[:_RECALL].sum() / min(_RECALL, len(held)))
        ndcg.append((hit * discount).sum() / discount[: min(_NDCG, len(held))].sum())
    return float(np.mean(recall)), float(np.mean(ndcg))


def certified(given: Trial, epsilon: float, seed: int, **settings: Any) -> tuple[float, float]:
    """Fit and rank on everybody's device."""
    asked = tc.Privacy(epsilon, DELTA, unit="user", trust="aggregator")
    model = tc.PrivateRecommender(
        method=ImplicitFeedback(**settings), items=given.train.shape[1], privacy=asked, rank=16,
        random_state=seed,
    ).fit(given.train)  # fmt: skip
    assert model._devices is not None
    base, features, rows = model.shared_["base"], model.shared_["features"], model._devices.rows
    return ranked(given, lambda user: base + features @ rows[user])


def least_squares(given: Trial, rank: int = 32, alpha: float = 10.0, ridge: float = 10.0) -> Any:
    """Alternating least squares without privacy: confidence 1 + α where something was taken."""
    users, items = given.train.shape
    rng = generator(0, "als")
    u, v = (0.1 * rng.standard_normal((n, rank)) for n in (users, items))
    pairs = given.train.indices

    def solved(mine: Any, size: int, mode: int) -> Any:
        gram = mine.T @ mine + ridge * np.eye(rank)
        order = np.argsort(pairs[:, mode], kind="stable")
        theirs = pairs[order, 1 - mode]
        ends = np.searchsorted(pairs[order, mode], np.arange(size + 1))
        found = np.zeros((size, rank))
        for k in range(size):
            own = mine[theirs[ends[k] : ends[k + 1]]]
            if len(own):
                found[k] = np.linalg.solve(gram + alpha * own.T @ own,
                                           (1.0 + alpha) * own.sum(axis=0))  # fmt: skip
        return found

    for _ in range(6):
        u = solved(v, users, 0)
        v = solved(u, items, 1)
    return ranked(given, lambda user: v @ u[user])


def run(quick: bool) -> Outcome:
    """Compare on both data sets."""
    outcome, seeds = Outcome(), range(1 if quick else 2)
    sets = {"MovieLens": movielens(data_folder("ml-100k"))}
    if not quick:
        sets["Last.fm"] = lastfm_plays(data_folder("lastfm-2k"))
    for name, clicks in sets.items():
        trials = [trial(clicks, seed) for seed in seeds]

        def add(method: str, found: Any, epsilon: Any = "", name: str = name) -> Any:
            each = np.array(found)
            sd = each.std(axis=0, ddof=1) if len(each) > 1 else np.zeros(2)
            outcome.add({"data": name, "method": method, "ε": epsilon,
                         "recall@20": each[:, 0].mean(), "± recall": sd[0],
                         "NDCG@100": each[:, 1].mean(), "± NDCG": sd[1]})  # fmt: skip
            return each

        counts = [np.bincount(t.train.indices[:, 1], minlength=t.train.shape[1]) for t in trials]
        add("popularity, no noise",
            [ranked(t, lambda user, c=c: c) for t, c in zip(trials, counts, strict=True)])  # type: ignore[misc]  # fmt: skip
        add("ALS, no privacy", [least_squares(t) for t in trials])
        for epsilon in EPSILONS:
            plain = add("private popularity",
                        [certified(t, epsilon, s, tastes=False)
                         for s, t in zip(seeds, trials, strict=True)], epsilon)  # fmt: skip
            both = not quick and name == "MovieLens"
            for ranking in ("listwise", "bpr") if both else ("listwise",):
                ours = add(f"certified, {ranking}",
                           [certified(t, epsilon, s, ranking=ranking)
                            for s, t in zip(seeds, trials, strict=True)], epsilon)  # fmt: skip
                gains = ours - plain
                error = gains.std(axis=0, ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else 0.0
                for k, what in enumerate(("recall@20", "NDCG@100")):
                    low = (
                        gains[:, k].mean() + 2.0 * np.atleast_1d(error)[k if len(gains) > 1 else 0]
                    )
                    above = gains[:, k].mean() > 0.0 if epsilon >= 3.0 else low >= 0.0
                    bar = "> 0" if epsilon >= 3.0 else "≥ 0 within 2 s.e."
                    outcome.check(
                        f"{name}, {ranking}, ε = {epsilon:g}: {what} above private popularity",
                        float(gains[:, k].mean()), bar, above,
                    )  # fmt: skip
    return outcome
