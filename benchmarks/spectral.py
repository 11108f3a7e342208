"""Spectral topics at scale: a million documents, ten thousand words, private.

**Scale.** One million documents of ten words, D = 10,000, K = 20, in a process of its own, so that
its peak memory is that of the fit and its data: under 120 s and 3 GB on two cores. Topics are
Dirichlet with concentration 0.01: about a hundred common words each. Without privacy the data
determine them; with it the noise of the second moment reaches τ·√(2D) and must stay below its
20th eigenvalue, about N·w·‖a‖² ≈ N/2000. So the ε at which topics appear falls as √D/N where it is
small. The bar is a matched error below half of that of random topics, which are drawn from the
same law as the true ones. Seconds are those of the clock; processor seconds and the load of the
machine stand beside them.

**Time** is measured at three numbers of documents: what depends on N is linear, and the noise,
D²/2 numbers in every round, does not depend on it.

**Against the dense path**, D = 200: M₂ and M₃ as arrays and a dense eigensolver, without noise, in
processes of their own: the same topics, and the ratios of time and memory. The dense path is the
plain one, matrix products over pieces of 2,000 documents.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from experiments.data import ROOT
from experiments.runner import Outcome

_HEAD = """
import json, os, resource, sys, time, warnings
import numpy as np
from tacit.data.synthetic import topic_documents
from tacit.moments.topics import SingleTopicModel
from tacit.privacy.guarantee import Privacy
from experiments.metrics import matched_error, nearest_error
warnings.simplefilter("ignore", UserWarning)
settings = json.loads(sys.argv[1])
N, D, K, L = (settings[k] for k in "NDKL")
documents, truth, weights = topic_documents(
    N, D, K, words=L, concentration=settings["concentration"], seed=1)
for size in (20, 600):  # compile
    SingleTopicModel(2, random_state=0, privacy=Privacy(5.0, 1e-6, unit="document")).fit(
        topic_documents(100, size, 2, words=10)[0])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
started, used = time.perf_counter(), time.process_time()
"""
_FIT = """
epsilon = settings["epsilon"]
privacy = Privacy(epsilon, 1e-6, unit="document") if epsilon else None
model = SingleTopicModel(K, common="all", privacy=privacy, random_state=0).fit(documents)
topics, rounds = model.topics_, model.record_.rounds
"""
_DENSE = """
from tacit.moments.numerics.power import power_method, symmetrise
from tacit.moments.numerics.whitening import onto_simplex, whiten
counts = np.zeros((N, D))
np.add.at(counts, (np.repeat(np.arange(N), np.diff(documents.starts)), documents.words),
          documents.counts)
second, third = np.zeros((D, D)), np.zeros((D, D, D))
pairs, triples = L * (L - 1), L * (L - 1) * (L - 2)
for start in range(0, N, 2000):
    c = counts[start:start + 2000]
    second += (c.T @ c - np.diag(c.sum(axis=0))) / pairs
    outer = (c[:, :, None] * c[:, None, :]).reshape(len(c), -1)
    third += (c.T @ outer).reshape(D, D, D) / triples
    square = c.T @ c / triples
    i = np.arange(D)
    third[i, i, :] -= square
    third[i, :, i] -= square
    third[:, i, i] -= square.T
    third[i, i, i] += 2.0 * c.sum(axis=0) / triples
values, vectors = np.linalg.eigh(second)
white = whiten(values[::-1][:K], vectors[:, ::-1][:, :K], 0.0)
u = white.basis
small = np.einsum("abc,ai,bj,ck->ijk", third, u, u, u, optimize=True)
found = power_method(white.tensor(small), K, np.random.default_rng(0))
order = np.argsort(found.values)
topics, rounds = onto_simplex(white.components(found.values, found.vectors))[order], 1
"""
_TAIL = """
seconds, cpu = time.perf_counter() - started, time.process_time() - used
rng = np.random.default_rng(0)
chance = np.mean([matched_error(rng.dirichlet(np.full(D, settings["concentration"]), K), truth)
                  for _ in range(5)])
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({
    "seconds": seconds, "CPU seconds": cpu, "load": os.getloadavg()[0], "peak MB": after / 1024,
    "fit MB": (after - before) / 1024, "rounds": rounds,
    "matched": matched_error(topics, truth), "random": float(chance),
    "nearest": nearest_error(topics, truth),
    "topics": topics.tolist() if D <= 200 else None}))
"""


def fit(program: str = _FIT, **settings: Any) -> dict[str, Any]:
    """Fit once in a process of its own."""
    reply = subprocess.run(
        [sys.executable, "-c", _HEAD + program + _TAIL, json.dumps(settings)],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    if reply.returncode:
        raise RuntimeError(reply.stderr[-2000:])
    found: dict[str, Any] = json.loads(reply.stdout.splitlines()[-1])
    return found


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    _scale(outcome, quick)
    _growth(outcome, quick)
    _dense(outcome, quick)
    return outcome


def _row(outcome: Outcome, what: str, found: dict[str, Any], **facts: Any) -> None:
    shown = {key: value for key, value in found.items() if key != "topics"}
    outcome.rows.append({"what": what, **facts, **shown})


def _scale(outcome: Outcome, quick: bool) -> None:
    base = {"N": 100_000 if quick else 1_000_000, "D": 2_000 if quick else 10_000,
            "K": 10 if quick else 20, "L": 10, "concentration": 0.01}  # fmt: skip
    tried = (10.0,) if quick else (2.0, 4.0)
    met: float | None = None
    slowest = peak = 0.0
    for epsilon in tried:
        found = fit(**base, epsilon=epsilon)
        _row(outcome, "scale", found, epsilon=epsilon, **base)
        slowest, peak = max(slowest, found["seconds"]), max(peak, found["peak MB"])
        if met is None and found["matched"] < 0.5 * found["random"]:
            met = epsilon
    size = f"{base['N']:,} documents, {base['D']:,} words, {base['K']} topics"
    outcome.check(f"seconds, {size}, private", slowest, "< 120", slowest < 120.0)
    outcome.check("peak MB of the whole process", peak, "< 3000", peak < 3000.0)
    outcome.check("ε at which the matched error is below half of random", met or "none",
                  f"one of {tried}", met is not None)  # fmt: skip
    if not quick:
        changes = ({"D": 2_500}, 1.0), ({"D": 2_500, "N": 250_000}, 1.0), ({"D": 2_500,
                   "N": 250_000}, 4.0)  # fmt: skip
        for change, epsilon in changes:
            other = {**base, **change}
            _row(outcome, "how N and D move it", fit(**other, epsilon=epsilon), epsilon=epsilon,
                 **other)  # fmt: skip


def _growth(outcome: Outcome, quick: bool) -> None:
    base = {"D": 1_000, "K": 10, "L": 10, "concentration": 0.05, "epsilon": 5.0}
    sizes = (50_000, 100_000, 200_000) if quick else (250_000, 500_000, 1_000_000)
    seconds = []
    for size in sizes:
        found = fit(**base, N=size)
        # up to 2,000 words the noise is small beside the documents
        _row(outcome, "growth", found, N=size, **base)
        seconds.append(found["CPU seconds"])
    ratio = (seconds[2] - seconds[1]) / max(seconds[1] - seconds[0], 1e-9)
    outcome.check("processor seconds at twice the documents over those", seconds[2] / seconds[1],
                  "≤ 2.4", seconds[2] / seconds[1] <= 2.4)  # fmt: skip
    outcome.rows.append(
        {"what": "growth", "added seconds over added seconds (2 is linear)": ratio}
    )


def _dense(outcome: Outcome, quick: bool) -> None:
    import numpy as np

    base = {"N": 20_000 if quick else 30_000, "D": 200, "K": 8, "L": 10, "concentration": 0.1,
            "epsilon": None}  # fmt: skip
    streamed, dense = fit(**base), fit(_DENSE, **base)
    _row(outcome, "streaming, D = 200", streamed, **base)
    _row(outcome, "dense, D = 200", dense, **base)
    gap = float(np.abs(np.array(streamed["topics"]) - np.array(dense["topics"])).max())
    outcome.check("largest difference of a probability", gap, "< 1e-4", gap < 1e-4)
    ratio = dense["CPU seconds"] / streamed["CPU seconds"]
    outcome.check("processor time of the dense path over that of the streaming one", ratio, "> 1",
                  ratio > 1)  # fmt: skip
    # the streaming fit takes less than the process had reached before: whole processes, then
    memory = dense["peak MB"] / streamed["peak MB"]
    outcome.check("peak memory of the dense process over that of the streaming one", memory,
                  "> 1", memory > 1)  # fmt: skip
