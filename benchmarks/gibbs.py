"""Gibbs sampling of Gaussian factorizations: a sweep, and accuracy, against SMURFF's BPMF.

MovieLens 100K, a fifth of the ratings held out. Both use one thread and learn their noise; SMURFF
gets centred ratings, without which it loses several hundredths. Its sweep is a session's time over
its sweeps; sessions and tacit's sweeps take turns. A plain NumPy sampler of the same model stands
beside them, and is what remains where SMURFF is not installed (``make bench-setup``).
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from experiments.data import data_folder
from experiments.datasets import movielens
from experiments.runner import Outcome
from tacit import CoupledModel, Relation
from tacit._core.rng import generator
from tacit.factorization.alone.numerics.normal_gibbs import NormalGibbs
from tacit.factorization.alone.numerics.sums import Engine, estimates_at

MODEL_RANKS = (10, 16, 32)
CHECKED = 16


def run(quick: bool) -> Outcome:
    """Time sweeps in turns, then compare held-out errors over splits."""
    os.environ["TACIT_NUM_THREADS"] = "1"
    outcome = Outcome()
    ratings = movielens(data_folder("ml-100k"))
    for rank in (CHECKED,) if quick else MODEL_RANKS:
        _sweeps(outcome, *_split(ratings, 0), rank, 3 if quick else 7)
    _accuracy(outcome, ratings, 1 if quick else 3, 120 if quick else 500)
    return outcome


def _split(ratings: Relation, seed: int) -> tuple[Relation, Relation]:
    held = generator(seed, "split").random(ratings.cells) < 0.2
    return ratings.subset(np.flatnonzero(~held)), ratings.subset(np.flatnonzero(held))


def _kernel(train: Relation, rank: int) -> NormalGibbs:
    model = CoupledModel({"x": "user:k item:k"}, rank, "euclidean").bind({"x": train})
    return NormalGibbs(Engine(model, {"x": train}), learned={"x"})


def _seconds(work: Any) -> float:
    """Return processor time: other load on the machine does not count."""
    began = time.process_time()
    work()
    return time.process_time() - began


def _sweeps(outcome: Outcome, train: Relation, test: Relation, rank: int, turns: int) -> None:
    kernel, rng = _kernel(train, rank), generator(0, "chain")
    state = [kernel.init(rng)]
    plain = _Plain(train, rank)

    def ours(count: int) -> None:
        for _ in range(count):
            state[0], _ = kernel.step(rng, state[0])

    works = {"tacit": (ours, 30), "plain NumPy": (plain.sweeps, 1)}
    if _smurff() is not None:
        works["SMURFF"] = (lambda count: _session(train, test, rank, count, 0), 30)
    for work, _ in works.values():
        work(1)
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(turns):
        for name, (work, count) in works.items():
            times[name].append(_seconds(lambda work=work, count=count: work(count)) / count)
    found = {name: float(np.median(taken)) for name, taken in times.items()}
    for name, taken in found.items():
        outcome.add({"what": f"one sweep of {name}, rank {rank}", "ms": 1e3 * taken,
                     "times tacit's": taken / found["tacit"]})  # fmt: skip
    if rank == CHECKED and "SMURFF" in found:
        ratio = found["SMURFF"] / found["tacit"]
        outcome.check(f"SMURFF's sweep over tacit's, rank {rank}", ratio, "≥ 5", ratio >= 5.0)


def _accuracy(outcome: Outcome, ratings: Relation, splits: int, iterations: int) -> None:
    ours, theirs = [], []
    for seed in range(splits):
        train, test = _split(ratings, seed)
        kernel, rng = _kernel(train, CHECKED), generator(seed, "accuracy")
        state, total, kept = kernel.init(rng), np.zeros(test.cells), 0
        for step in range(iterations):
            state, _ = kernel.step(rng, state)
            if step >= iterations // 5:
                total += estimates_at(kernel.engine.model, "x", state.factors, test.indices)
                kept += 1
        ours.append(float(np.sqrt(np.mean((total / kept - test.values) ** 2))))
        row = {"what": f"held-out error, split {seed}, rank {CHECKED}", "tacit": ours[-1]}
        if _smurff() is not None:
            theirs.append(_session(train, test, CHECKED, iterations, seed))
            row["SMURFF"] = theirs[-1]
        outcome.add(row)
    if theirs:
        apart = float(np.mean(ours) - np.mean(theirs))
        outcome.check("tacit's held-out error minus SMURFF's", apart, "≤ 0.005", apart <= 0.005)
    else:
        outcome.check("SMURFF", "not installed", "installed (make bench-setup)", False)


def _smurff() -> Any:
    try:
        import smurff
    except ImportError:
        return None
    return smurff


def _session(train: Relation, test: Relation, rank: int, sweeps: int, seed: int) -> float:
    """Run a session of SMURFF on centred ratings; return its held-out error."""
    from scipy.sparse import csr_matrix

    smurff, mean = _smurff(), float(train.values.mean())

    def matrix(part: Relation) -> Any:
        return csr_matrix((part.values - mean, tuple(part.indices.T)), shape=part.shape)

    burn_in = max(1, sweeps // 5)
    session = smurff.TrainSession(
        priors=["normal", "normal"], num_latent=rank, burnin=burn_in,
        nsamples=max(1, sweeps - burn_in), seed=seed + 1, num_threads=1, verbose=0,
    )  # fmt: skip
    session.addTrainAndTest(matrix(train), matrix(test), smurff.AdaptiveNoise(1.0, 10.0))
    return float(smurff.calc_rmse(session.run()))


class _Plain:
    """The same sampler, row by row in NumPy."""

    def __init__(self, train: Relation, rank: int) -> None:
        rng = generator(0, "plain")
        self.rng, self.layouts = rng, train.layouts
        self.factors = [rng.normal(0.0, 0.5, (size, rank)) for size in train.shape]

    def sweeps(self, count: int) -> None:
        for _ in range(count):
            for mode in (0, 1):
                self._rows(mode)

    def _rows(self, mode: int) -> None:
        layout, rows, other = self.layouts[mode], self.factors[mode], self.factors[1 - mode]
        prior = np.diag(1.0 / (rows.var(axis=0) + 1e-3))
        for i in range(len(rows)):
            part = slice(layout.starts[i], layout.starts[i + 1])
            design = other[layout.indices[part, 1 - mode]]
            precision = prior + design.T @ design / 0.7
            root = np.linalg.cholesky(precision).T
            mean = np.linalg.solve(precision, design.T @ layout.values[part] / 0.7)
            rows[i] = mean + np.linalg.solve(root, self.rng.standard_normal(len(mean)))
