"""Sequences: a recurrent and an attention classifier, private, on simulated data and film titles.

Simulated: sequences of 8 to 20 of four symbols: in one class a symbol is mostly followed by itself
and 1 is the most frequent, in the other 1 by 2, 2 by 1, 3 by 4 and 4 by 3, and 4 is.
Titles: the letters of MovieLens-100K's 1,682 film titles, whether the film is a comedy (30 %), as
AUC over splits of its own for each seed. How often letters stand in a title tells that with an AUC
of 0.57, three letters in a row with 0.61 (drama: 0.53 and 0.55), so there is not much to learn.
Settings are the defaults of `tacit.networks.training`, and the networks those of
`tacit.networks.recurrent` and `attentive`, but for the step size, which was chosen on simulated
sequences.
"""

from __future__ import annotations

import re
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
def titles() -> Rows:
    """Return the letters of film titles, filled up with zeros, and which films are comedies."""
    lines = (Path(data_folder("ml-100k")) / "u.item").read_text("latin-1").splitlines()
    rows, comedies = np.zeros((len(lines), LONGEST), np.int64), []
    for k, line in enumerate(lines):
        parts = line.split("|")
        name = re.sub(r"\(.*", "", parts[1]).strip().lower()
        known = [LETTERS.index(letter) + 1 for letter in name if letter in LETTERS][:LONGEST]
        rows[k, : len(known)] = known
        comedies.append(int(parts[5 + 5]))
    return rows, np.array(comedies)


def split_titles(seed: int) -> tuple[Rows, Rows]:
    """Return four fifths of the films, and the others."""
    rows, comedies = titles()
    order = generator(seed, "films").permutation(len(rows))
    first, last = order[len(rows) // 5 :], order[: len(rows) // 5]
    return (rows[first], comedies[first]), (rows[last], comedies[last])


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
    more: dict[str, Any] = {"steps": 40 if quick else 200, "step_size": _STEP}
    for data, symbols, positions in (("simulated", 4, 20), ("titles", len(LETTERS), LONGEST)):
        for name in ("recurrent", "attention"):
            found: dict[float | None, list[Any]] = {}
            for seed in range(seeds):
                if data == "simulated":
                    train, test = simulated(seed, rows), simulated(seed + 1000, 2000)
                else:
                    train, test = split_titles(seed)
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
                    "data": data, "network": name, "ε": "∞" if epsilon is None else epsilon,
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
