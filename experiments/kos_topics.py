"""Topics of the KOS blog entries, private and not, with held-out perplexity and coherence.

3,430 documents over 6,906 words (public vocabulary), mostly about one election year. Every fifth
document is held out. Knowing nothing has a perplexity of 6,906. Privacy is for whole documents,
δ = 1e-5, add-remove.

**What it must not lose to** (A9). *one unigram*: one word distribution for all documents, by one
Gaussian release of Σ c/L with all of the budget, an L2 sensitivity of one, projected to the
simplex. *better unigram*: the same of Σ c/‖c‖, to which long documents bring ten times more. Both
are scored with 5 % uniform probability.

**Public text.** None of this kind is at hand, so a fifth of the entries that are learned from
plays it: it is taken to be public, and leaves the private documents. Beside it stands what it
gives alone: its own word distribution, which costs nothing. Means over noise of its own, with
standard errors; topics of the first run are shown.

Coherence is that of the held-out documents (normalised mutual information of ten words). All
scores here are of public data; on private data they would be the holder's own. The quick form has
500 words.
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
from tacit.moments.numerics.groups import public_probabilities
from tacit.moments.numerics.whitening import onto_simplex
from tacit.moments.topics import SingleTopicModel
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

TOPICS = 5
DELTA = 1e-5
QUICK_WORDS = 500
EPSILONS = (0.01, 0.1, 0.3, 1.0, 3.0, 10.0)
PUBLIC_FROM = 1.0  # the ε from which topics with a public text beat all that is without them


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    documents, words = kos(data_folder("uci-kos"))
    if quick:
        words = words[:QUICK_WORDS]
    train, test = _split(documents, len(words), np.arange(len(documents)) % 5 == 4)
    uniform = float(len(words))
    outcome.rows.append({"method": "knowing nothing", "perplexity": uniform})
    plain, one = _fitted(words, train, test, None, 0), _unigram(train, test, None, 0)
    outcome.rows.append({"method": "not private", "one unigram": one, **plain})
    outcome.check("perplexity without privacy against one unigram", plain["perplexity"],
                  f"< {one:.0f}", plain["perplexity"] < one)  # fmt: skip
    own, text = _split(train, len(words), np.arange(len(train)) % 5 == 2)
    known = _perplexity(public_probabilities(text), test)
    outcome.rows.append({"method": "public text alone", "perplexity": known})
    for epsilon in (10.0,) if quick else EPSILONS:
        _row(outcome, words, train, test, epsilon, quick, uniform)
        _row(outcome, words, own, test, epsilon, quick, uniform, text, known)
    return outcome


def _row(
    outcome: Outcome, words: Any, train: Documents, test: Documents, epsilon: float, quick: bool,
    uniform: float, text: Documents | None = None, known: float | None = None,
) -> None:  # fmt: skip
    runs = 1 if quick else 4
    fits = [_fitted(words, train, test, epsilon, seed, text) for seed in range(runs)]
    ours = _mean([fit["perplexity"] for fit in fits])
    one, better = (
        _mean([_unigram(train, test, epsilon, seed, how) for seed in range(runs)])
        for how in ("sum", "length")
    )
    method = "certified" if text is None else "certified, public text"
    row: dict[str, Any] = {
        "method": method, "epsilon": epsilon, **fits[0], "perplexity": ours[0],
        "standard error": ours[1], "one unigram": one[0], "better unigram": better[0],
    }  # fmt: skip
    outcome.rows.append(row)
    free = {"knowing nothing": (uniform, 0.0), "one unigram": one, "better unigram": better}
    if known is not None:
        free["public text alone"] = (known, 0.0)
    name, (value, error) = min(free.items(), key=lambda item: item[1][0])
    room = 2.0 * float(np.hypot(ours[1], error))
    outcome.check(
        f"{method}, ε = {epsilon:g}, against {name}", f"{ours[0]:.0f} ± {ours[1]:.0f}",
        f"≤ {value:.0f} + {room:.0f}", ours[0] <= value + max(room, 1e-3 * value),
    )  # fmt: skip
    if text is None and epsilon == 10.0 and not quick:
        outcome.check("better than both at ε = 10", ours[0], f"< {min(one[0], uniform):.0f}",
                      ours[0] < min(one[0], uniform))  # fmt: skip
    if text is not None and epsilon >= PUBLIC_FROM:
        outcome.check(f"with public text, better than all from ε = {PUBLIC_FROM:g} on, at "
                      f"{epsilon:g}", ours[0], f"< {value:.0f}", ours[0] < value)  # fmt: skip


def _mean(values: list[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(error)


def _fitted(
    words: Any, train: Documents, test: Documents, epsilon: float | None, seed: int,
    text: Documents | None = None,
) -> dict[str, Any]:  # fmt: skip
    privacy = None if epsilon is None else Privacy(epsilon, DELTA, unit="document")
    model = SingleTopicModel(
        TOPICS, vocabulary=words, privacy=privacy, random_state=seed, public=text
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of topics that noise hides: the row says it
        model.fit(train)
    found: dict[str, Any] = {
        "perplexity": model.perplexity(test),
        "topics stand out": model.known_,
    }
    if model.known_:
        found["coherence"] = float(np.nanmean(model.coherence(test)))
    for k, top in enumerate(model.top_words(6)):
        found[f"topic {k}"] = f"{model.weights_[k]:.2f} " + (" ".join(top) or "(all documents)")
    return found


def _split(documents: Documents, size: int, held: Any) -> tuple[Documents, Documents]:
    """Return what is learned from and what is held out, with the first words only."""
    from scipy.sparse import csr_array

    table = csr_array(
        (documents.counts, documents.words, documents.starts),
        shape=(len(documents), documents.vocabulary),
    )[:, :size]
    return Documents.read(table[~held]), Documents.read(table[held])


def _unigram(
    train: Documents, test: Documents, epsilon: float | None, seed: int, how: str = "sum"
) -> float:
    """Return the held-out perplexity of one word distribution for all documents."""
    owner = np.repeat(np.arange(len(train)), np.diff(train.starts))
    counts = train.counts.astype(np.float64)
    size = (
        np.bincount(owner, counts)
        if how == "sum"
        else np.sqrt(np.bincount(owner, np.square(counts)))
    )
    total = np.bincount(train.words, counts / size[owner], minlength=train.vocabulary)
    if epsilon is not None:
        mechanism = Gaussian.for_privacy(epsilon, DELTA, 1.0, (train.vocabulary,))
        ledger = Ledger.memory(epsilon=epsilon, delta=DELTA)
        total = privatize(mechanism, total, ledger=ledger, rng=Noise(seed=seed + 1), delta=DELTA)
    return _perplexity(onto_simplex((total / max(float(total.sum()), 1.0))[None])[0], test)


def _perplexity(probability: Any, test: Documents) -> float:
    smooth = 0.95 * probability + 0.05 / len(probability)
    score = float((test.counts * np.log(smooth[test.words])).sum() / test.counts.sum())
    return float(np.exp(-score))
