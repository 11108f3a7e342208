"""Artists for users on Last.fm: the tag tensor alone, and coupled with listening counts.

The tag tensor (user × artist × tag) and the play counts (user × artist, as log(1 + plays)) share
users and artists; KL, zeros observed, rank 10. For every user up to five artists that they tagged
are held out: their listed tag cells and their play counts with that artist become missing (the
tags that they did not give to it stay observed zeros, for every model alike).

**What is scored.** For each user and artist the score is the expected number of tags,
Σ_k user_k·artist_k·(Σ_tag tag_k). P@10 ranks all artists that are not among the user's training
artists; AUC compares held-out artists with 100 sampled ones for each, which the user has neither
tagged nor played. Both are averaged over users. Coupled must be better than single, and than what
needs no model: how many users tagged or played an artist. Coupled once more, with the weight of
the play counts chosen by held-out training cells of the tags (``dispersion="choose"``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.data import data_folder
from experiments.datasets import lastfm_tags
from experiments.metrics import auc
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.factorization.alone.estimator import CoupledFactorization

FORMS = {"tags": "user:k artist:k tag:k", "plays": "user:k artist:k"}
RANK, HELD = 10, 5
FREE = "popularity, no model"


def _pairs(relation: Relation) -> set[tuple[int, int]]:
    return set(map(tuple, relation.indices[:, :2].tolist()))


def _without(relation: Relation, gone: set[tuple[int, int]]) -> Relation:
    """Make all cells of some (user, artist) pairs missing; unlisted ones among them, too."""
    listed = np.array([tuple(pair) in gone for pair in relation.indices[:, :2].tolist()])
    kept = ~listed
    apart = relation.indices[listed]
    if relation.modes == 2:  # a pair without plays is missing as well
        known = set(map(tuple, apart.tolist()))
        more = [pair for pair in gone if pair not in known]
        apart = np.concatenate([apart, np.array(more, np.int32).reshape(-1, 2)])
    return Relation.from_cells(
        relation.entities, relation.indices[kept], relation.values[kept], shape=relation.shape,
        zeros="observed", held_out=apart,
    )  # fmt: skip


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    relations = lastfm_tags(data_folder("lastfm-2k"))
    plays = relations["plays"]
    relations["plays"] = Relation.from_cells(
        plays.entities, plays.indices, np.log1p(plays.values), shape=plays.shape, zeros="observed"
    )
    scores: dict[str, list[tuple[float, float]]] = {}
    for seed in range(1 if quick else 5):
        rng = generator(seed, "lastfm holdout")
        artists: dict[int, list[int]] = {}
        for user, artist in sorted(_pairs(relations["tags"])):
            artists.setdefault(user, []).append(artist)
        held = {
            user: rng.permutation(known)[: min(HELD, len(known) - 1)].tolist()
            for user, known in artists.items()
            if len(known) > 1
        }
        gone = {(user, artist) for user, found in held.items() for artist in found}
        train = {name: _without(relation, gone) for name, relation in relations.items()}
        seen = _pairs(train["tags"])
        touched = seen | _pairs(relations["plays"])
        popular = np.zeros(plays.shape[1])
        np.add.at(popular, np.array(sorted(seen | _pairs(train["plays"])))[:, 1], 1.0)
        alike = np.broadcast_to(popular, plays.shape)
        scores.setdefault(FREE, []).append(_score(alike, held, seen, touched, seed))
        for label, names, weigh, inference in (
            ("single", ["tags"], 1.0, "map"),
            ("coupled", ["tags", "plays"], 1.0, "map"),
            ("coupled, chosen", ["tags", "plays"], "choose", "map"),
            ("coupled, variational", ["tags", "plays"], 1.0, "vb"),
        ):
            if quick and weigh == "choose":
                continue
            fitted = CoupledFactorization(
                {name: FORMS[name] for name in names},
                rank=RANK,
                dispersion=weigh,
                inference=inference,
                adapt=inference == "vb",
                iterations=60 if quick else 200,
                random_state=seed,
            ).fit({name: train[name] for name in names})
            factors = fitted.factors_
            expected = (factors["user"] * factors["tag"].sum(axis=0)) @ factors["artist"].T
            scores.setdefault(label, []).append(_score(expected, held, seen, touched, seed))
    for label, values in scores.items():
        precision, area = np.mean(values, axis=0)
        outcome.rows.append({"model": label, "P@10": float(precision), "AUC": float(area)})
    mean = {label: np.mean(values, axis=0) for label, values in scores.items()}
    for better in [label for label in mean if label.startswith("coupled")]:
        for worse in ("single", FREE):
            for k, what in enumerate(("P@10", "AUC")):
                gain = float(mean[better][k] - mean[worse][k])
                outcome.check(f"{what} of {better} minus {worse}", gain, "> 0", gain > 0)
    return outcome


def _score(
    scores: Any,
    held: dict[int, list[int]],
    seen: set[tuple[int, int]],
    touched: set[tuple[int, int]],
    seed: int,
) -> tuple[float, float]:
    """Return P@10 over all candidate artists and AUC against sampled negatives."""
    rng = generator(seed, "lastfm negatives")
    trained: dict[int, list[int]] = {}
    for user, artist in seen:
        trained.setdefault(user, []).append(artist)
    precisions, areas = [], []
    for user, wanted in held.items():
        row = scores[user].copy()
        row[trained.get(user, [])] = -np.inf
        best = np.argpartition(-row, 10)[:10]
        precisions.append(len(set(best.tolist()) & set(wanted)) / 10)
        drawn = rng.integers(0, len(row), 130 * len(wanted)).tolist()
        others = [a for a in drawn if (user, a) not in touched and a not in wanted]
        sample = wanted + others[: 100 * len(wanted)]
        labels = np.r_[np.ones(len(wanted)), np.zeros(len(sample) - len(wanted))]
        areas.append(auc(labels, scores[user, sample]))
    return float(np.mean(precisions)), float(np.mean(areas))
