"""Regression without bounds: ranges found privately, against TukeyEM and boosted AdaSSP.

One holder, trust central, add-remove-one, δ = 1e-6. Nobody states a range: `FindBounds` finds them
with three tenths of ε. The rivals need none (`experiments._unbounded_rivals`, simple forms of our
own at the ε that they claim): TukeyEM draws among fits of parts of the rows and gives nothing
where its test fails, which counts as zero here; boosted AdaSSP clips rows and residuals to norm 1.
Simulated tables have columns of very different sizes, one with a long tail; UCI's are as they
come. Errors are mean squares on a fifth of the rows, relative to least squares. "Stated" is the
default with the true ranges of the columns, which nobody has.

The rules of `tacit.regression.search` were chosen on the simulated tables.

Bars: at no setting worse than predicting zero, which is free, beyond two standard errors; where
the ranges are found, no worse than the better of the rivals, in geometric mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from experiments._unbounded_rivals import boosted_adassp, clipped, tukey_em
from experiments.data import data_folder
from experiments.runner import Outcome
from tacit.privacy.guarantee import Privacy
from tacit.regression.estimator import PrivateLinearRegression
from tacit.regression.search import FindBounds

EPSILONS = (1.0, 3.0, 10.0)
DELTA = 1e-6
TABLES = ("airfoil", "skillcraft", "parkinsons", "pol")


def simulated(rows: int) -> tuple[Any, Any]:
    """Return columns of sizes from a thousandth to a thousand, one of them with a long tail."""
    rng = np.random.default_rng(rows)
    x = np.column_stack([
        rng.uniform(20.0, 90.0, rows), rng.normal(1000.0, 5.0, rows),
        rng.lognormal(8.0, 0.7, rows), rng.random(rows) < 0.4, 1e-3 * rng.gamma(3.0, 1.0, rows),
    ])  # fmt: skip
    y = 200.0 + 2.0 * x[:, 0] + 5.0 * (x[:, 1] - 1000.0) + 0.02 * x[:, 2] + 40.0 * x[:, 3]
    return x, y + 2e4 * x[:, 4] + rng.normal(0.0, 30.0, rows)


def tables(quick: bool) -> Iterator[tuple[str, Any, Any]]:
    """Yield names, features and responses."""
    for rows in (10_000,) if quick else (1_000, 10_000, 100_000):
        yield f"simulated, n = {rows:,}", *simulated(rows)
    for name in () if quick else TABLES:
        table = np.loadtxt(data_folder("uci-regression") / f"{name}.csv.gz", delimiter=",")
        table = table[:, table.max(axis=0) > table.min(axis=0)]
        yield name, table[:, :-1], table[:, -1]


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    gains: dict[float, list[float]] = {}
    for name, x, y in tables(quick):
        for epsilon in (3.0,) if quick else EPSILONS:
            found = _errors(x, y, epsilon, 3 if quick else 10)
            means = {method: float(values.mean()) for method, values in found.items()}
            outcome.add({"table": name, "n": len(y), "d": x.shape[1], "ε": epsilon, **means})
            gap = found["found"] - found["zero"]
            room = 2.0 * float(gap.std(ddof=1)) / math.sqrt(len(gap))
            outcome.check(f"{name}, ε = {epsilon:g}: found against zero", means["found"],
                          f"≤ {means['zero']:.4g} + {room:.2g} (two standard errors)",
                          float(gap.mean()) <= room + 1e-9)  # fmt: skip
            if means["found"] < means["zero"]:
                best = min(means["TukeyEM"], means["boosted AdaSSP"])
                gains.setdefault(epsilon, []).append(math.log(means["found"] / best))
    for epsilon, logs in gains.items():
        ratio = math.exp(float(np.mean(logs)))
        outcome.check(f"ε = {epsilon:g}: relative to the better rival, {len(logs)} tables", ratio,
                      "≤ 1", ratio <= 1.0)  # fmt: skip
    return outcome


def _errors(x: Any, y: Any, epsilon: float, runs: int) -> dict[str, Any]:
    """Return every method's error on held-out rows, relative to least squares."""
    found: dict[str, list[float]] = {}
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        test = np.zeros(len(y), bool)
        test[rng.permutation(len(y))[: len(y) // 5]] = True
        whole = np.column_stack([np.ones(len(y)), x])
        least = np.linalg.lstsq(whole[~test], y[~test], rcond=None)[0]
        unit = float(np.mean(np.square(y[test] - whole[test] @ least)))
        predicted: dict[str, Any] = {"zero": np.zeros(int(test.sum()))}
        for bounds, name in ((FindBounds(x.shape[1]), "found"), (None, "stated")):
            ends = [(float(c.min()), float(c.max())) for c in x.T]
            model = PrivateLinearRegression(
                bounds=ends if bounds is None else bounds, noise="grid", chains=2, draws=200,
                y_bounds=(float(y.min()), float(y.max())) if bounds is None else None, warmup=200,
                privacy=Privacy(epsilon, DELTA), random_state=seed,
            ).fit(x[~test], y[~test])  # fmt: skip
            predicted[name] = model.predict(x[test])
        beta = tukey_em(rng, whole[~test], y[~test], epsilon, DELTA)
        predicted["TukeyEM"] = predicted["zero"] if beta is None else whole[test] @ beta
        beta = boosted_adassp(rng, whole[~test], y[~test], epsilon, DELTA)
        predicted["boosted AdaSSP"] = clipped(whole[test]) @ beta
        for name, guess in predicted.items():
            error = float(np.mean(np.square(y[test] - guess))) / unit
            found.setdefault(name, []).append(error)
    return {name: np.array(values) for name, values in found.items()}
