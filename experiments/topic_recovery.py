"""Topics from noisy moments: Imtiaz & Sarwate (2017), Figure 1, and the same as it should be.

**Data.** The public single-topic data (10 words, 5 topics, 100,000 documents of three words, true
topics and weights known), and simulated single-topic documents and Gaussian mixtures.

**Errors.** *nearest*: the paper's, the mean distance of every recovered topic to the nearest true
one. *matched*: under the best one-to-one matching, which does not forgive duplicates. *weights*:
the largest error of a topic's weight under that matching. Means over 10 runs with noise of their
own (3 for the simulated data of 50 dimensions). Everything is under replace-one, as in the paper,
unless it says otherwise.

**Knowing nothing.** How the paper draws its random vectors is not printed. *random* is processed
as its recovered vectors are (normal, what is negative set to zero, normalised) and stands in the
order of Figure 1; *random, uniform* is uniform on the simplex, which is nearer to most topics.
*the mean* knows no topics: every one is the mean word distribution. It is shown without noise, so
a private one is no better.

**Moments.** The file's second moment is that of the first two words of a document; without
privacy it gives 0.037. tacit averages all pairs, which gives less.

**The order at ε = 0.01.** AGN, AVN and DP-TPM are ordered as in Figure 1, but DP-TPM and random
are not always: over 60 runs of AGN and AVN and 30 of DP-TPM the nearest errors are 0.397 ± 0.007,
0.421 ± 0.008 and 0.448 ± 0.015 (standard errors) against 0.441 of random. DP-TPM has learned
nothing there, its vectors have the law of random ones, and which of the two is ahead in ten runs,
whose mean has an error of 0.02, is a toss of a coin: in the paper's ten runs as in ours. Nor is
AVN far enough ahead for ten runs to show it every time.

**The fit.** Documents over ten words are released as pairs and triples (`tacit.moments.words`),
and topics that explain these best are fitted, instead of whitened tensors decomposed. The prior of
half a word in every place was chosen on simulated data of other seeds. δ = 0 (Laplace noise, pure
ε) is shown beside the others.

Bars: certified ≤ 0.10 / 0.058 / 0.042 / 0.040 at ε = 0.01 / 0.1 / 0.5 / 1 and δ = 0.01; AGN, AVN,
DP-TPM and random vectors are ordered as in Figure 1. The share of ½ is a rule, and the strategies
have the settings of their paper; the floor of whitening eigenvalues and the projection to the
simplex were compared on this data when they were built.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from experiments.data import data_folder
from experiments.datasets import topic_moments
from experiments.metrics import matched_error, matching, nearest_error
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.data.documents import Documents
from tacit.data.synthetic import spherical_mixture, topic_documents
from tacit.moments.mixture import GaussianMixture
from tacit.moments.numerics.power import symmetrise
from tacit.moments.tensor.estimator import OrthogonalDecomposition
from tacit.moments.topics import SingleTopicModel
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.published.imtiaz2017 import NoisyTopics
from tacit.published.imtiaz2017_noise import METHODS

EPSILONS = (0.01, 0.1, 0.5, 1.0)
BARS = dict(zip(EPSILONS, (0.10, 0.058, 0.042, 0.040), strict=True))
PRINTED = dict(zip(EPSILONS, (0.360, 0.180, 0.069, 0.051), strict=True))
STRATEGIES = ("certified", *METHODS)
# matched errors of the certified form when this issue of the table was begun, on the public data
BEFORE = {
    (0.01, 0.01): 0.1235, (0.1, 0.01): 0.0531, (0.5, 0.01): 0.0305, (1.0, 0.01): 0.0308,
    (0.01, 1e-6): 0.3004, (0.1, 1e-6): 0.1331, (0.5, 1e-6): 0.0463, (1.0, 1e-6): 0.0295,
}  # fmt: skip
A_FIFTH_BETTER = 0.106  # at ε = 0.1, δ = 1e-6


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of noise that hides topics: it is the table
        _public(outcome, quick)
        _simulated(outcome, quick)
        _mixtures(outcome, quick)
    return outcome


def errors(found: Any, weights: Any, truth: Any, true_weights: Any) -> dict[str, float]:
    order = matching(found, truth)
    gap = np.abs(np.asarray(weights)[order] - true_weights)
    return {**_distances(found, truth), "weights": float(gap.max())}


def mean(rows: list[dict[str, float]]) -> dict[str, float]:
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}


def topics(
    documents: Any, count: int, strategy: str, privacy: Privacy | None, seed: int
) -> SingleTopicModel:
    if strategy == "certified":
        return SingleTopicModel(count, privacy=privacy, random_state=seed).fit(documents)
    return NoisyTopics(count, method=strategy, privacy=privacy, random_state=seed).fit(documents)


def knowing_nothing(truth: Any, weights: Any, runs: int) -> dict[str, dict[str, float]]:
    """Return the errors of vectors that know nothing, and of the mean for every topic."""
    count, size = truth.shape
    drawn: dict[str, list[dict[str, float]]] = {"random": [], "random, uniform": []}
    for seed in range(runs):
        rng = generator(seed, "random topics")
        normal = np.maximum(rng.standard_normal((count, size)), 0.0) + 1e-12
        for name, found in (
            ("random", normal / normal.sum(axis=1, keepdims=True)),
            ("random, uniform", rng.dirichlet(np.ones(size), count)),
        ):
            drawn[name].append(_distances(found, truth))
    table = {name: mean(rows) for name, rows in drawn.items()}
    return {**table, "the mean": _distances(np.tile(weights @ truth, (count, 1)), truth)}


def _distances(found: Any, truth: Any) -> dict[str, float]:
    return {"nearest": nearest_error(found, truth), "matched": matched_error(found, truth)}


def _public(outcome: Outcome, quick: bool) -> None:
    data = topic_moments(data_folder("topic-moments"))
    truth, weights = data["topics"], data["weights"]
    documents = Documents.read(data["sites"])
    first = _first_pair(data)
    outcome.rows.append({"data": "public", "method": "not private, first pair", **first})
    whole = topics(documents, 5, "certified", None, 0)
    exact = errors(whole.topics_, whole.weights_, truth, weights)
    outcome.rows.append({"data": "public", "method": "not private", **exact})
    outcome.check("not private, the file's own moments", first["nearest"], "0.037 ± 0.001",
                  abs(first["nearest"] - 0.037) <= 0.001)  # fmt: skip
    outcome.check("not private", exact["nearest"], "≤ 0.038", exact["nearest"] <= 0.038)
    chance = knowing_nothing(truth, weights, 50)
    outcome.rows += [{"data": "public", "method": name, **row} for name, row in chance.items()]
    runs = 2 if quick else 10
    for delta in (0.01,) if quick else (0.01, 1e-6):
        for epsilon in (1.0,) if quick else EPSILONS:
            table: dict[str, dict[str, float]] = {}
            for strategy, neighbours in (
                *((s, REPLACE) for s in STRATEGIES), ("certified", ADD_REMOVE)
            ):  # fmt: skip
                privacy = Privacy(epsilon, delta, unit="document", neighbours=neighbours)
                fits = [topics(documents, 5, strategy, privacy, s) for s in range(runs)]
                found = mean([errors(m.topics_, m.weights_, truth, weights) for m in fits])
                table.setdefault(strategy, found)
                outcome.rows.append({
                    "data": "public", "method": strategy, "neighbours": neighbours,
                    "claimed": epsilon, "delta": delta, "epsilon": fits[0].certificate_.epsilon,
                    **found,
                })  # fmt: skip
            _judge(outcome, epsilon, delta, table, chance)
    for epsilon in () if quick else EPSILONS:
        privacy = Privacy(epsilon, 0.0, unit="document", neighbours=REPLACE)
        fits = [topics(documents, 5, "certified", privacy, s) for s in range(runs)]
        found = mean([errors(m.topics_, m.weights_, truth, weights) for m in fits])
        outcome.rows.append({
            "data": "public", "method": "certified, pure ε", "neighbours": REPLACE,
            "claimed": epsilon, "delta": 0.0, "epsilon": fits[0].certificate_.epsilon, **found,
        })  # fmt: skip
        bar = chance["the mean"]["matched"]
        outcome.check(f"pure ε = {epsilon}, matched, against the mean for every topic",
                      found["matched"], f"< {bar:.3f}", found["matched"] < bar)  # fmt: skip


def _judge(
    outcome: Outcome, epsilon: float, delta: float, table: dict[str, dict[str, float]],
    chance: dict[str, dict[str, float]],
) -> None:  # fmt: skip
    """Hold one column of the table against the bars."""
    if delta == 0.01:
        value, bar = table["certified"]["nearest"], BARS[epsilon]
        outcome.check(f"certified, ε = {epsilon}, δ = 0.01, replace-one (AGN as printed: "
                      f"{PRINTED[epsilon]})", value, f"≤ {bar}", value <= bar)  # fmt: skip
        order = [*(table[s]["nearest"] for s in STRATEGIES[1:]), chance["random"]["nearest"]]
        text = ", ".join(f"{x:.3f}" for x in order)
        outcome.check(f"order of AGN, AVN, DP-TPM, random at ε = {epsilon}", text,
                      "as in Figure 1", order == sorted(order))  # fmt: skip
    value, bar = table["certified"]["matched"], BEFORE[epsilon, delta]
    outcome.check(f"certified, matched, no worse than before, ε = {epsilon}, δ = {delta:g}",
                  value, f"≤ {bar}", value <= bar)  # fmt: skip
    if (epsilon, delta) == (0.1, 1e-6):
        outcome.check("certified, matched, at least a fifth better, ε = 0.1, δ = 1e-06", value,
                      f"≤ {A_FIFTH_BETTER}", value <= A_FIFTH_BETTER)  # fmt: skip
    bar = chance["the mean"]["matched"]
    outcome.check(f"certified, matched, against the mean for every topic, ε = {epsilon}, "
                  f"δ = {delta:g}", value, f"< {bar:.3f}", value < bar)  # fmt: skip


def _first_pair(data: dict[str, Any]) -> dict[str, float]:
    """Decompose the file's own moments, with the paper's projection."""
    second = (data["second"] + data["second"].T) / 2.0
    model = OrthogonalDecomposition(5, random_state=0).fit(symmetrise(data["third"]), second)
    found = np.maximum(model.components_, 0.0)
    found /= found.sum(axis=1, keepdims=True)
    return errors(found, model.weights_, data["topics"], data["weights"])


def _sweeps(quick: bool) -> list[tuple[int, int, int, tuple[float, ...]]]:
    """Return D, K, N and the ε of every sweep."""
    if quick:
        return [(10, 5, 50_000, (1.0,))]
    # below ε = 0.1 the steps of DP-TPM for ten topics need more noise than a grid has room for
    epsilons = {10: (0.01, 0.1, 1.0, 10.0), 50: (0.1, 1.0, 10.0)}
    return [
        (size, count, number, epsilons[size] if number == 100_000 else (1.0,))
        for size, count in ((10, 5), (50, 10))
        for number in (10_000, 100_000, 1_000_000)
    ]


def _simulated(outcome: Outcome, quick: bool) -> None:
    for size, count, number, epsilons in _sweeps(quick):
        runs = 1 if quick else (10 if size == 10 else 3)
        documents, truth, weights = topic_documents(number, size, count, seed=size)
        facts = {"data": f"topics {size}/{count}", "N": number}
        exact = topics(documents, count, "certified", None, 0)
        found = errors(exact.topics_, exact.weights_, truth, weights)
        outcome.rows.append({**facts, "method": "not private", **found})
        chance = knowing_nothing(truth, weights, 20)
        outcome.rows += [{**facts, "method": name, **row} for name, row in chance.items()]
        for epsilon in epsilons:
            for strategy in STRATEGIES[: 1 if quick else None]:
                privacy = Privacy(epsilon, 1e-6, unit="document", neighbours=REPLACE)
                fits = [topics(documents, count, strategy, privacy, s) for s in range(runs)]
                found = mean([errors(m.topics_, m.weights_, truth, weights) for m in fits])
                outcome.rows.append({
                    **facts, "method": strategy, "neighbours": REPLACE, "claimed": epsilon,
                    "delta": 1e-6, "epsilon": fits[0].certificate_.epsilon, **found,
                })  # fmt: skip
                if strategy == "certified":
                    bar = chance["the mean"]["matched"]
                    outcome.check(
                        f"{facts['data']}, N = {number}, ε = {epsilon}: against the mean",
                        found["matched"], f"≤ {bar:.3f}", found["matched"] <= bar,
                    )  # fmt: skip


def _mixtures(outcome: Outcome, quick: bool) -> None:
    """Gaussians; the trivial answers are K times the public centre, and K times the mean."""
    for size, count, number, epsilons in _sweeps(quick):
        samples, truth, weights = spherical_mixture(number, size, count, seed=size)
        facts = {"data": f"Gaussians {size}/{count}", "N": number}
        # a public radius: means of length about 2, noise of length ½·√D, with room
        radius = 2.5 + 0.5 * np.sqrt(size)
        exact = GaussianMixture(count, radius=radius, random_state=0).fit(samples)
        found = errors(exact.means_, exact.weights_, truth, weights)
        outcome.rows.append({**facts, "method": "not private", **found})
        for name, centre in (("the centre", 0.0 * truth[0]), ("the mean", weights @ truth)):
            trivial = _distances(np.tile(centre, (count, 1)), truth)
            outcome.rows.append({**facts, "method": name, **trivial})
        for epsilon in epsilons:
            rows = []
            for seed in range(1 if quick else (10 if size == 10 else 3)):
                model = GaussianMixture(
                    count, radius=radius, privacy=Privacy(epsilon, 1e-6), random_state=seed
                ).fit(samples)
                rows.append(errors(model.means_, model.weights_, truth, weights))
            outcome.rows.append({
                **facts, "method": "certified", "neighbours": ADD_REMOVE, "claimed": epsilon,
                "delta": 1e-6, "epsilon": model.certificate_.epsilon, **mean(rows),
            })  # fmt: skip
