"""Coupled factorization: time per iteration, time to the same likelihood, memory and scaling.

Peers (pyttb, TensorLy) run in the same process on the same data where they are installed
(`make bench-setup`, then ``.venv-bench/bin/python -m benchmarks coupled --json``); without them
their rows say so and their bars count as missed.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import median_seconds
from experiments.data import data_folder
from experiments.datasets import lastfm_tags, uclaf
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.factorization.alone.numerics.cells import estimate_cells, sweep
from tacit.factorization.alone.numerics.multiplicative import MultiplicativeUpdates, UpdateState
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tacit.factorization.language.structure import CoupledModel

RANK = 10


def kernel(form: dict[str, str], data: dict[str, Relation], rank: int, **options: Any) -> Any:
    """Return a multiplicative-update kernel for some relations."""
    model = CoupledModel(form, rank, options.pop("divergence", "kl"))
    return MultiplicativeUpdates(Engine(model.bind(data), data))


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    _against_pyttb(outcome, quick)
    _against_tensorly(outcome)
    _coupled_peers(outcome)
    _against_gcp(outcome)
    _digg(outcome, quick)
    _scaling(outcome, quick)
    _bandwidth(outcome)
    return outcome


# -- the tag tensor against CP-APR ------------------------------------------------------------


def _tag_tensor() -> Relation:
    return lastfm_tags(data_folder("lastfm-2k"))["tags"]


def _log_likelihood(relation: Relation, expanded: Expanded, engine: Engine) -> float:
    """Return Σ x·log x̂ − Σ x̂ over all cells, the part that depends on the model."""
    bound = engine.model.relations[0]
    rates = estimate_cells(relation.indices, expanded.banks[bound.name])
    return float(relation.values @ np.log(np.maximum(rates, 1e-100))) - engine.total_estimate(
        expanded, bound
    )


def _against_pyttb(outcome: Outcome, quick: bool) -> None:
    tags = _tag_tensor()
    updates = kernel({"tags": "user:k artist:k tag:k"}, {"tags": tags}, RANK)
    state = updates.init(generator(0))

    def one() -> None:
        nonlocal state
        state, _ = updates.step(state, objective=False)

    ours = median_seconds(one, 15)
    if importlib.util.find_spec("pyttb") is None:
        outcome.check(
            "speed-up per sweep over pyttb CP-APR", "pyttb is not installed", "≥ 10×", False
        )
        return
    import pyttb

    tensor = pyttb.sptensor(tags.indices.astype(np.int64), tags.values[:, None], tags.shape)
    start = updates.init(generator(0))
    factors = [start.factors[name] for name in ("user", "artist", "tag")]

    def peer(iterations: int) -> Any:
        guess = pyttb.ktensor([f.copy() for f in factors], np.ones(RANK))
        return pyttb.cp_apr(tensor, RANK, algorithm="mu", init=guess, maxiters=iterations,
                            maxinneriters=1, stoptol=0.0, printitn=0)  # fmt: skip

    few, many = 2, 6 if quick else 22
    theirs, long = np.inf, np.inf
    for _ in range(3):  # in turns, and the quietest moment of each: other work shares the cores
        short = median_seconds(lambda: peer(few), 1)
        started = time.perf_counter()
        found = peer(many)[0]
        took = time.perf_counter() - started
        long, theirs = min(long, took), min(theirs, (took - short) / (many - few))
        ours = min(ours, median_seconds(one, 15))
    outcome.rows.append({"what": "tag tensor, rank 10: one ML sweep, tacit", "ms": ours * 1e3})
    outcome.rows.append(
        {"what": "tag tensor, rank 10: one sweep, pyttb CP-APR", "ms": theirs * 1e3}
    )
    ratio = theirs / ours
    outcome.check("speed-up per sweep over pyttb CP-APR", ratio, "≥ 10×", ratio >= 10)

    # time until our log-likelihood reaches theirs
    bound = updates.engine.model
    weights = np.asarray(found.weights) ** (1 / 3)
    reached = {
        name: np.asarray(found.factor_matrices[m]) * weights
        for m, name in enumerate(("user", "artist", "tag"))
    }
    target = _log_likelihood(tags, Expanded(bound, reached), updates.engine)
    # sweeps are timed on their own and looked at afterwards, both sides after a warm-up
    median_seconds(one, 5)
    state, times, reached_by = UpdateState(dict(start.factors)), [], []
    for _ in range(2 * many):
        began = time.perf_counter()
        state, _ = updates.step(state, objective=False)
        times.append(time.perf_counter() - began)
        reached_by.append(state)
    values = (
        _log_likelihood(tags, Expanded(bound, found.factors), updates.engine)
        for found in reached_by
    )
    sweeps = next((k + 1 for k, value in enumerate(values) if value >= target), 0)
    took = sum(times[:sweeps])
    outcome.rows.append(
        {"what": f"to the log-likelihood of {many} CP-APR sweeps: tacit ({sweeps} sweeps)",
         "ms": took * 1e3}
    )  # fmt: skip
    outcome.rows.append({"what": "the same: pyttb CP-APR", "ms": long * 1e3})
    ratio = long / took if sweeps else 0.0
    outcome.check("speed-up to the same likelihood over CP-APR", ratio, "≥ 10×", ratio >= 10)


# -- UCLAF against TensorLy ---------------------------------------------------------------------


def _against_tensorly(outcome: Outcome) -> None:
    visits = (uclaf(data_folder("uclaf"))["visits"] > 0).astype(float)
    mask = generator(0).random(visits.shape) < 0.6
    cells = np.argwhere(mask)
    listed = Relation.from_cells(
        ("user", "place", "activity"), cells, visits[mask], shape=visits.shape
    )
    form = {"visits": "user:k place:k activity:k"}
    held = np.argwhere(~mask)
    ones = np.argwhere((visits > 0) & mask)
    zeros = Relation.from_cells(("user", "place", "activity"), ones, shape=visits.shape,
                                zeros="observed", held_out=held)  # fmt: skip
    times = {}
    for label, relation, divergence in (
        ("Euclidean, cells listed", listed, "euclidean"),
        ("Euclidean, zeros observed", zeros, "euclidean"),
        ("KL, zeros observed", zeros, "kl"),
    ):
        updates = kernel(form, {"visits": relation}, 2, divergence=divergence)
        state = [updates.init(generator(0))]

        def one(updates: Any = updates, state: list[Any] = state) -> None:
            state[0], _ = updates.step(state[0], objective=False)

        times[label] = median_seconds(one, 15)
        outcome.rows.append(
            {"what": f"UCLAF, rank 2: one sweep, tacit ({label})", "ms": times[label] * 1e3}
        )
    best = min(times["Euclidean, cells listed"], times["Euclidean, zeros observed"])
    if importlib.util.find_spec("tensorly") is None:
        outcome.check("speed-up over TensorLy's masked non-negative CP",
                      "TensorLy is not installed", "≥ 5×", False)  # fmt: skip
        return
    import tensorly as tl
    from tensorly.decomposition import non_negative_parafac, parafac

    filled = tl.tensor(np.where(mask, visits, 0.0))

    def each(method: Any) -> float:
        def iterate(n: int) -> None:
            method(filled, 2, n_iter_max=n, init="random", tol=0, random_state=0, mask=mask)

        return (
            median_seconds(lambda: iterate(22), 3) - median_seconds(lambda: iterate(2), 3)
        ) / 20

    non_negative, plain = each(non_negative_parafac), each(parafac)
    outcome.rows.append(
        {"what": "one iteration, TensorLy non-negative CP", "ms": non_negative * 1e3}
    )
    outcome.rows.append({"what": "one iteration, TensorLy masked CP", "ms": plain * 1e3})
    outcome.check("speed-up over TensorLy's masked non-negative CP", non_negative / best, "≥ 5×",
                  non_negative / best >= 5)  # fmt: skip
    outcome.check("speed-up over TensorLy's unconstrained masked CP", plain / best,
                  "no slower (≥ 1×)", plain / best >= 1)  # fmt: skip


def _sweep_seconds(updates: Any) -> float:
    """Return the seconds of one sweep from a random start."""
    state = [updates.init(generator(0))]

    def one() -> None:
        state[0], _ = updates.step(state[0], objective=False)

    return median_seconds(one, 15)


def _coupled_peers(outcome: Outcome) -> None:
    """Coupled Euclidean factorization of UCLAF: TensorLy's matrix–tensor ALS and MatCoupLy.

    TensorLy's factors may be negative, ours may not; MatCoupLy's are non-negative, too.
    """
    arrays = uclaf(data_folder("uclaf"))
    visits = (arrays["visits"] > 0).astype(float)
    gps = (arrays["gps"] > 0).astype(float)
    features = arrays["poi"] / np.maximum(arrays["poi"].sum(axis=0), 1e-12)
    known = {
        "visits": Relation.from_dense(("user", "place", "activity"), visits, zeros="observed"),
        "gps": Relation.from_dense(("user", "place2"), gps, zeros="observed"),
    }
    form = {"visits": "user:k place:k activity:k", "gps": "user:k place2:k"}
    ours = _sweep_seconds(kernel(form, known, 2, divergence="euclidean"))
    outcome.rows.append({"what": "UCLAF tensor and matrix: one sweep, tacit", "ms": ours * 1e3})
    if importlib.util.find_spec("tensorly") is not None:
        from tensorly.decomposition import coupled_matrix_tensor_3d_factorization as cmtf

        def iterate(n: int) -> None:
            cmtf(visits, gps, 2, init="random", n_iter_max=n)

        theirs = _difference(iterate)
        outcome.rows.append({"what": "the same: TensorLy coupled ALS", "ms": theirs * 1e3,
                             "times tacit's": theirs / ours})  # fmt: skip

    matrices = {
        "visits": Relation.from_dense(("user", "place"), visits.sum(axis=2), zeros="observed"),
        "poi": Relation.from_dense(("feature", "place"), features.T, zeros="observed"),
    }
    form = {"visits": "user:k place:k", "poi": "feature:k place:k"}
    ours = _sweep_seconds(kernel(form, matrices, 2, divergence="euclidean"))
    outcome.rows.append({"what": "UCLAF, two matrices: one sweep, tacit", "ms": ours * 1e3})
    if importlib.util.find_spec("matcouply") is not None:
        from matcouply.decomposition import cmf_aoadmm

        pair = [visits.sum(axis=2), features.T.copy()]

        def solve(n: int) -> None:
            cmf_aoadmm(pair, 2, non_negative=True, n_iter_max=n, tol=0, absolute_tol=0,
                       random_state=0)  # fmt: skip

        theirs = _difference(solve)
        outcome.rows.append({"what": "the same: MatCoupLy AO-ADMM", "ms": theirs * 1e3,
                             "times tacit's": theirs / ours})  # fmt: skip


def _difference(iterate: Any, few: int = 2, many: int = 22) -> float:
    """Return the seconds of one iteration, without what happens once."""
    long = median_seconds(lambda: iterate(many), 3)
    return (long - median_seconds(lambda: iterate(few), 3)) / (many - few)


def _against_gcp(outcome: Outcome) -> None:
    """Poisson CP of the whole UCLAF tensor: time until our cost is pyttb's GCP result."""
    if importlib.util.find_spec("pyttb") is None:
        outcome.rows.append({"what": "pyttb GCP: not installed"})
        return
    import logging

    import pyttb
    from pyttb.gcp.handles import Objectives
    from pyttb.gcp.optimizers import LBFGSB

    logging.getLogger().setLevel(logging.ERROR)  # it warns at every step
    visits = (uclaf(data_folder("uclaf"))["visits"] > 0).astype(float)
    relation = Relation.from_dense(("user", "place", "activity"), visits, zeros="observed")
    updates = kernel({"visits": "user:k place:k activity:k"}, {"visits": relation}, 2)
    start = updates.init(generator(0))
    names = ("user", "place", "activity")
    began = time.perf_counter()
    found = pyttb.gcp_opt(
        pyttb.tensor(visits), 2, Objectives.POISSON, LBFGSB(maxiter=30, iprint=-1),
        init=pyttb.ktensor([start.factors[n].copy() for n in names], np.ones(2)), printitn=0,
    )[0]  # fmt: skip
    theirs = time.perf_counter() - began
    weights = np.asarray(found.weights) ** (1 / 3)
    factors = {n: np.asarray(found.factor_matrices[m]) * weights for m, n in enumerate(names)}
    target = updates.objective(UpdateState(factors))
    state, sweeps = start, 0
    updates.step(start)  # compiled before it is timed
    began = time.perf_counter()
    while sweeps < 2000:
        state, info = updates.step(state)
        sweeps += 1
        if info.objective <= target:
            break
    ours = time.perf_counter() - began
    reached = updates.objective(state) <= target
    outcome.rows.append({"what": "UCLAF: pyttb GCP (30 L-BFGS steps)", "ms": theirs * 1e3,
                         "times tacit's": theirs / ours if reached else 0.0})  # fmt: skip
    outcome.rows.append({"what": f"to the same cost: tacit ({sweeps} sweeps)", "ms": ours * 1e3})


# -- the sizes of Digg ----------------------------------------------------------------------------

_DIGG = """
import json, resource, sys, time
from benchmarks.coupled import digg_relations, FORM
from tacit._core.rng import generator
from tacit.factorization.alone.numerics.sums import Engine
from tacit.factorization.alone.numerics.multiplicative import MultiplicativeUpdates
from tacit.factorization.alone.numerics.variational import VariationalBayes
from tacit.factorization.language.structure import CoupledModel
iterations = int(sys.argv[2])
data = digg_relations(1.0)
engine = Engine(CoupledModel(FORM, 10).bind(data), data)
method = (MultiplicativeUpdates if sys.argv[1] == "ml" else VariationalBayes)(engine)
state = method.init(generator(0))
state, _ = method.step(state, objective=False)
started = time.perf_counter()
for _ in range(iterations):
    state, _ = method.step(state, objective=False)
seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps({"seconds": seconds, "gb": peak}))
"""
FORM = {"comments": "user:k story:k comment:k", "stories": "story:k keyword:k topic:k"}


def digg_relations(share: float) -> dict[str, Relation]:
    """Return a synthetic copy of the Digg sizes, with popular and unpopular members."""
    rng = generator(0, "digg")

    def cells(count: int, sizes: tuple[int, ...]) -> Any:
        columns = [np.minimum((n * rng.random(2 * count) ** 2).astype(int), n - 1) for n in sizes]
        distinct = np.unique(np.column_stack(columns), axis=0)
        return distinct[rng.permutation(len(distinct))[:count]]

    first, second = (9_583, 44_005, 241_800), (44_005, 13_714, 51)
    return {
        "comments": Relation.from_cells(
            ("user", "story", "comment"), cells(int(151_779 * share), first), shape=first,
            zeros="observed",
        ),
        "stories": Relation.from_cells(
            ("story", "keyword", "topic"), cells(int(1_157_529 * share), second), shape=second,
            zeros="observed",
        ),
    }  # fmt: skip


def _digg(outcome: Outcome, quick: bool) -> None:
    iterations = 10 if quick else 100
    for method, limit in (("ml", 60.0), ("vb", 90.0)):
        reply = subprocess.run(
            [sys.executable, "-c", _DIGG, method, str(iterations)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        result = json.loads(reply.stdout.splitlines()[-1])
        seconds = result["seconds"] * 100 / iterations
        outcome.rows.append(
            {"what": f"Digg sizes, rank 10: 100 {method} iterations", "seconds": seconds,
             "peak GB": result["gb"]}
        )  # fmt: skip
        outcome.check(f"100 coupled {method} iterations at Digg sizes [s]", seconds,
                      f"under {limit:.0f} s", seconds < limit)  # fmt: skip
        outcome.check(f"peak memory of {method} [GB]", result["gb"], "under 1 GB",
                      result["gb"] < 1.0)  # fmt: skip


# -- scaling and bandwidth ------------------------------------------------------------------------


def _scaling(outcome: Outcome, quick: bool) -> None:
    rng = generator(0, "scaling")
    shape = (100_000, 50_000, 500)
    sizes = [300_000, 1_000_000, 3_000_000] + ([] if quick else [10_000_000, 20_000_000])
    times = []
    for size in sizes:
        cells = np.column_stack([rng.integers(0, n, size, dtype=np.int32) for n in shape])
        relation = Relation(("a", "b", "c"), shape, cells, np.ones(size))
        updates = kernel({"x": "a:k b:k c:k"}, {"x": relation}, RANK)
        state = [updates.init(generator(0))]

        def one(updates: Any = updates, state: list[Any] = state) -> None:
            state[0], _ = updates.step(state[0], objective=False)

        times.append(median_seconds(one, 3))
        outcome.rows.append({"what": f"{size:,} cells: one sweep", "seconds": times[-1]})
    exponent = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    outcome.check("fitted exponent of time in observed cells", exponent, "≤ 1.1", exponent <= 1.1)
    _plot(sizes, times, exponent)


def _plot(sizes: list[int], times: list[float], exponent: float) -> None:
    """Draw time against cells into benchmarks/results/."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5, 4), layout="constrained")
    axes = figure.add_subplot()
    axes.loglog(sizes, times, "o", label="one sweep over three modes, rank 10")
    fitted = times[-1] * (np.array(sizes) / sizes[-1]) ** exponent
    axes.loglog(sizes, fitted, label=f"exponent {exponent:.2f}")
    axes.set(xlabel="observed cells", ylabel="seconds")
    axes.legend()
    folder = Path(__file__).parent / "results"
    folder.mkdir(exist_ok=True)
    figure.savefig(folder / "coupled-scaling.png", dpi=120)


def _bandwidth(outcome: Outcome) -> None:
    """Compare what a sweep has to read with what a streaming copy moves in the same time."""
    rng = generator(0, "bandwidth")
    size, shape = 4_000_000, (20_000, 20_000, 500)
    cells = np.column_stack([rng.integers(0, n, size, dtype=np.int32) for n in shape])
    relation = Relation(("a", "b", "c"), shape, cells, np.ones(size))
    updates = kernel({"x": "a:k b:k c:k"}, {"x": relation}, RANK)
    state = updates.init(generator(0))
    expanded = Expanded(updates.engine.model, state.factors)
    bank, layout = expanded.banks["x"], relation.layouts[0]
    took = median_seconds(lambda: sweep(layout, bank, bank.mode(0), bank.weights, 0, 1.0), 3)
    moved = layout.indices.nbytes + layout.values.nbytes + 2 * size * RANK * 8  # two factor rows
    block = np.zeros(1 << 25)
    target = np.empty_like(block)
    copy = median_seconds(lambda: np.copyto(target, block), 3)
    rate, limit = moved / took / 1e9, 2 * block.nbytes / copy / 1e9
    outcome.rows.append({"what": "main kernel: bytes touched, GB/s", "GB/s": rate})
    outcome.rows.append({"what": "streaming copy on one core, GB/s", "GB/s": limit,
                         "share of it": rate / limit})  # fmt: skip
