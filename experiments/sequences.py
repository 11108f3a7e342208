"""Sequences: a recurrent and an attention classifier, private, on simulated data and film titles.

Simulated: sequences of 8 to 20 of four symbols: in one class a symbol is mostly followed by itself
and 1 is the most frequent, in the other 1 by 2, 2 by 1, 3 by 4 and 4 by 3, and 4 is.
Titles: rows are MovieLens-100K's 100,000 ratings, each with the letters of the title of the film
that somebody rated, and whether that film is of a genre; one rating more or less is protected. For
each seed a fifth of the films are left out with all of their ratings, and AUC is over these films,
once each: memory of titles does not help. The genre is that of which letters tell most on the
training titles: by a logistic regression on two to four letters in a row, cross-validated, among
those that a tenth of the films have (action, with an AUC of about 0.7; the others 0.55 to 0.65).
With one row a film there were 1,345 rows, and names that few films have, such as "Star Trek", are
most of what letters tell.
Settings are the defaults of `tacit.networks.training`, and the networks those of
`tacit.networks.recurrent` and `attentive`, but for the step size, which was chosen on simulated
sequences, and for smaller samples of the many ratings.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.data import data_folder
from experiments.metrics import auc
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.networks import PrivateDropoutClassifier, Training, attentive, recurrent
from tacit.privacy.guarantee import Privacy

EPSILONS = (1.0, 10.0)
LETTERS = " abcdefghijklmnopqrstuvwxyz"
LONGEST = 24
_STEP = 4.0
Rows = tuple[Any, Any]


def simulated(seed: int, rows: int) -> Rows:
    """Return sequences (rows, 20) of symbols 1 … 4, filled up with zeros, and their classes."""
    rng = generator(seed, "sequences")
    classes = rng.integers(0, 2, rows)
    lengths = rng.integers(8, 21, rows)
    out = np.zeros((rows, 20), np.int64)
    out[:, 0] = rng.integers(1, 5, rows)
    for k in range(1, 20):
        before, drawn = out[:, k - 1], 1 + rng.choice(4, rows, p=[0.4, 0.2, 0.2, 0.2])
        drawn = np.where(classes == 0, 5 - drawn, drawn)
        partner = np.where(classes == 0, before + 2 * (before % 2) - 1, before)
        out[:, k] = np.where(rng.random(rows) < 0.8, partner, drawn)
    out[np.arange(20) >= lengths[:, None]] = 0
    return out, classes


@cache
def films() -> tuple[tuple[str, ...], Any, tuple[str, ...], Any]:
    """Return titles in plain letters, which genres films have, genres, and each rating's film."""
    folder = Path(data_folder("ml-100k"))
    lines = [line.split("|") for line in (folder / "u.item").read_text("latin-1").splitlines()]
    names = [re.sub(r"\(\d+\)", "", line[1]).lower() for line in lines]
    plain = tuple("".join(one for one in name if one in LETTERS).strip() for name in names)
    genres = (folder / "u.genre").read_text().split()
    with gzip.open(folder / "u.data.gz", "rt") as file:
        rated = np.array([int(line.split()[1]) - 1 for line in file])
    own = np.array([[int(one) for one in line[5:]] for line in lines])
    return plain, own, tuple(one.split("|")[0] for one in genres), rated


def letters(names: Iterable[str]) -> Any:
    """Return titles as rows of whole numbers, filled up with zeros."""
    found = [[LETTERS.index(one) + 1 for one in name[:LONGEST]] for name in names]
    return np.array([row + [0] * (LONGEST - len(row)) for row in found], np.int64)


def most_telling(names: Sequence[str], own: Any) -> int:
    """Return the genre of which letters in a row tell most, by cross-validation."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline

    rule = make_pipeline(
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), sublinear_tf=True),
        LogisticRegression(max_iter=300),
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    common = np.flatnonzero(own.mean(axis=0) >= 0.1)
    told = [
        cross_val_score(rule, names, own[:, k], cv=folds, scoring="roc_auc").mean() for k in common
    ]
    return int(common[np.argmax(told)])


@cache
def split_titles(seed: int, rows: int | None = None) -> tuple[Rows, Rows, str]:
    """Return ratings of four fifths of the films, the other films, and the genre."""
    names, own, genres, rated = films()
    rng = generator(seed, "films")
    order = rng.permutation(len(names))
    known, new = np.sort(order[len(names) // 5 :]), order[: len(names) // 5]
    genre = most_telling([names[k] for k in known], own[known])
    seen = rated[np.isin(rated, known)]
    if rows is not None:
        seen = rng.choice(seen, rows, replace=False)
    whole = letters(names)
    train, test = (whole[seen], own[seen, genre]), (whole[new], own[new, genre])
    return train, test, genres[genre]


def networks(symbols: int, positions: int, seed: int) -> dict[str, Any]:
    """Return both networks at a start of their own."""
    rng = generator(seed, "start of sequences")
    return {
        "recurrent": recurrent(symbols + 1, 2, rng=rng),
        "attention": attentive(symbols + 1, 2, positions=positions, rng=rng),
    }


def judged(
    module: Any, train: Rows, test: Rows, epsilon: float | None, seed: int, **more: Any
) -> Any:
    """Return AUC and accuracy of a fit, and the ε of its certificate."""
    model = PrivateDropoutClassifier(
        module=module, normalize="whole", bounds=(0, module.table.num_embeddings - 1),
        classes=(0, 1), rows=len(train[0]), training=Training(**more), random_state=seed,
        privacy=None if epsilon is None else Privacy(epsilon, 1e-5),
    ).fit(*train)  # fmt: skip
    shares = model.predict_proba(test[0])[:, 1]
    right = float(np.mean((shares > 0.5) == test[1]))
    return auc(test[1], shares), right, model.certificate_.epsilon


def run(quick: bool) -> Outcome:
    """Fit both networks on both data sets."""
    outcome = Outcome()
    rows, seeds = (1000, 1) if quick else (10_000, 3)
    common: dict[str, Any] = {"steps": 40 if quick else 200, "step_size": _STEP}
    for data, symbols, positions in (("simulated", 4, 20), ("titles", len(LETTERS), LONGEST)):
        for name in ("recurrent", "attention"):
            found: dict[float | None, list[Any]] = {}
            for seed in range(seeds):
                genre, more = "", common
                if data == "simulated":
                    train, test = simulated(seed, rows), simulated(seed + 1000, 2000)
                else:
                    train, test, genre = split_titles(seed, 8000 if quick else None)
                    more = common | {"sampling_rate": 0.05 if quick else 0.02}
                module = networks(symbols, positions, seed)[name]
                for epsilon in (None, *EPSILONS):
                    found.setdefault(epsilon, []).append(
                        judged(module, train, test, epsilon, seed, **more)
                    )
            means = {
                e: np.mean([part[:2] for part in parts], axis=0) for e, parts in found.items()
            }
            for epsilon, (area, right) in means.items():
                spread = float(np.std([part[0] for part in found[epsilon]]))
                outcome.add({
                    "data": data, "genre": genre, "network": name,
                    "ε": "∞" if epsilon is None else epsilon,
                    "certified ε": found[epsilon][0][2], "AUC": float(area), "sd": spread,
                    "accuracy": float(right), "seeds": seeds,
                })  # fmt: skip
            _bars(outcome, f"{name}, {data}", {e: float(m[0]) for e, m in means.items()})
    return outcome


def _bars(outcome: Outcome, what: str, areas: dict[float | None, float]) -> None:
    chance, near = 0.5, areas[None] - 0.05
    outcome.check(f"AUC at ε = 1 ({what})", areas[1.0], "above chance, 0.5", areas[1.0] > chance)
    outcome.check(
        f"AUC at ε = 10 ({what})", areas[10.0], f"near non-private: at least {near:.3f}",
        areas[10.0] >= near,
    )  # fmt: skip
