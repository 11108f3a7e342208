"""Topics of the KOS blog entries, private and not, with held-out perplexity.

3,430 documents over 6,906 words (public vocabulary), mostly about one election year. Every fifth
document is held out. Perplexity is that of a mixture of unigrams with 5 % uniform probability; the
one of knowing nothing is 6,906. Beside the topics stand one unigram for all documents, and the
private one that knows no topics (A9): one Gaussian release of Σ c/L over documents, with an L2
sensitivity of one, projected to the simplex. Privacy is for whole documents, δ = 1e-5, add-remove.

A corpus of this size is small for the noise: the largest eigenvalue of its second moment is 4.4,
and the noise reaches 621, 231 and 83 at ε = 1, 3 and 10. The table says how many stand out, and
whether the topics lose to the one unigram at the same ε. Topics that noise hides are uniform. The
quick form has 500 words.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from experiments.data import data_folder
from experiments.datasets import kos
from experiments.runner import Outcome
from tacit.data.documents import Documents
from tacit.mechanisms.base import privatize
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.noise import Noise
from tacit.moments.numerics.whitening import onto_simplex
from tacit.moments.topics import SingleTopicModel
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

TOPICS = 5
DELTA = 1e-5
QUICK_WORDS = 500


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    documents, words = kos(data_folder("uci-kos"))
    if quick:
        words = words[:QUICK_WORDS]
    train, test = _split(documents, len(words))
    fits: list[tuple[str, float | None]] = [("not private", None)]
    fits += [("certified", e) for e in ((10.0,) if quick else (1.0, 3.0, 10.0))]
    uniform = float(len(words))
    outcome.rows.append({"method": "knowing nothing", "perplexity": uniform})
    for method, epsilon in fits:
        privacy = None if epsilon is None else Privacy(epsilon, DELTA, unit="document")
        model = SingleTopicModel(TOPICS, vocabulary=words, privacy=privacy, random_state=0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(train)
        perplexity = model.perplexity(test)
        one = _unigram(train, test, epsilon)
        edge = model.noise_edge_
        row: dict[str, Any] = {
            "method": method, "epsilon": epsilon, "perplexity": perplexity,
            "one unigram": one, "loses to it": perplexity >= one, "noise edge": edge,
            "visible topics": int((model.eigenvalues_ > edge).sum()),
            "warned": any("told from the noise" in str(w.message) for w in caught),
        }  # fmt: skip
        for k, top in enumerate(model.top_words(6)):
            row[f"topic {k}"] = f"{model.weights_[k]:.2f} " + (" ".join(top) or "(uniform)")
        outcome.rows.append(row)
        if method == "not private":
            outcome.check("perplexity without privacy against one unigram", perplexity,
                          f"< {one:.0f}", perplexity < one)  # fmt: skip
        else:
            outcome.check(f"perplexity at ε = {epsilon:g} against knowing nothing", perplexity,
                          f"≤ {uniform:.0f}", perplexity <= 1.001 * uniform)  # fmt: skip
            outcome.check(f"says so where topics are hidden, ε = {epsilon:g}",
                          f"{row['visible topics']} of {TOPICS} visible", "warned if hidden",
                          row["warned"] == (row["visible topics"] < TOPICS))  # fmt: skip
    return outcome


def _split(documents: Documents, size: int) -> tuple[Documents, Documents]:
    """Return what is learned from and what is held out, with the first words only."""
    from scipy.sparse import csr_array

    table = csr_array(
        (documents.counts, documents.words, documents.starts),
        shape=(len(documents), documents.vocabulary),
    )[:, :size]
    held = np.arange(len(documents)) % 5 == 4
    return Documents.read(table[~held]), Documents.read(table[held])


def _unigram(train: Documents, test: Documents, epsilon: float | None) -> float:
    """Return the held-out perplexity of one word distribution for all documents."""
    lengths = np.repeat(train.lengths, np.diff(train.starts))
    total = np.bincount(train.words, train.counts / lengths, minlength=train.vocabulary)
    if epsilon is not None:
        mechanism = Gaussian.for_privacy(epsilon, DELTA, 1.0, (train.vocabulary,))
        ledger = Ledger.memory(epsilon=epsilon, delta=DELTA)
        total = privatize(mechanism, total, ledger=ledger, rng=Noise(seed=1), delta=DELTA)
    probability = onto_simplex((total / max(float(total.sum()), 1.0))[None])[0]
    smooth = 0.95 * probability + 0.05 / train.vocabulary
    score = float((test.counts * np.log(smooth[test.words])).sum() / test.counts.sum())
    return float(np.exp(-score))
