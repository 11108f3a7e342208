"""Logistic and Poisson regression against DP-SGD and the base rate at the same ε.

Central trust unless said otherwise, add-remove-one, δ = 1e-5. `tacit.PrivateLogisticRegression`
and `tacit.PrivatePoissonRegression` as they are by default, with the number of rows public for
everybody. Rivals: for labels our own linear network with its default settings (private dropout,
from DP-SGD); for counts full-batch DP-SGD on the Poisson loss over a grid of step sizes and clips,
of which the best *on the test rows* is reported, which no honest rival could choose; the base
rate (without noise); and the regression without privacy.

Tables: breast cancer (scikit-learn's; bounds are column minima and maxima, which counts as public
for every method), MNIST's 3 against 8, hourly bike rentals as counts up to 1,000, and simulated
rows, at one site and at four. No constant was chosen on the real tables.

Bars, at every ε: a log loss (deviance, for counts) and an AUC at least as good as DP-SGD's, and a
log loss below the base rate's, up to two standard errors of paired differences; 90 % intervals of
coefficients cover at least 87 % of the truths where the model holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy.special import xlogy
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, PoissonRegressor

import tacit as tc
from experiments._dropout import mnist
from experiments.data import data_folder
from experiments.metrics import auc
from experiments.runner import Outcome
from tacit.networks import PrivateDropoutClassifier
from tacit.networks.uncertainty import calibration_error
from tacit.privacy.calibration import gaussian_noise_multiplier

EPSILONS = (0.5, 1.0, 3.0)
DELTA = 1e-5
STEPS = 200  # of DP-SGD on counts
GRID = [(step, clip) for step in (0.1, 0.3, 1.0) for clip in (0.02, 0.1, 0.5)]


class Split(NamedTuple):
    """Rows to learn from and rows to be judged by, and what is public about them."""

    x: Any
    y: Any
    test_x: Any
    test_y: Any
    bounds: Any
    sites: int = 1


def cancer(seed: int) -> Split:
    """Return a split of the breast cancer table: two thirds to learn from."""
    x, y = load_breast_cancer(return_X_y=True)
    return _split(x, y, list(zip(x.min(axis=0), x.max(axis=0), strict=True)), seed)


def digits(seed: int) -> Split:
    """Return MNIST's images of 3 and 8: all to learn from but a tenth that the seed leaves out."""
    found = []
    for name in ("train", "t10k"):
        images, labels = mnist(name)
        kept = np.isin(labels, (3, 8))
        found.append((images[kept].reshape(-1, 784), (labels[kept] == 8).astype(int)))
    (x, y), (test_x, test_y) = found
    part = np.random.default_rng(seed).permutation(len(y))[len(y) // 10 :]
    return Split(x[part], y[part], test_x, test_y, [(0.0, 255.0)] * 784)


def simulated(seed: int, sites: int = 1) -> Split:
    """Return correlated features, off the middle of their bounds, and labels by the model."""
    rng = np.random.default_rng([seed, sites])
    d, n = 10, 6000
    loads, middle = rng.normal(size=(d, 2)), rng.uniform(-0.5, 0.2, d)
    x = middle + 0.2 * (0.7 * rng.normal(size=(n, 2)) @ loads.T + 0.7 * rng.normal(size=(n, d)))
    x = np.clip(x, -1.0, 1.0)
    slope = rng.normal(size=d)
    eta = (x - middle) @ slope
    y = (rng.random(n) < 1.0 / (1.0 + np.exp(-1.5 * eta / eta.std()))).astype(int)
    return _split(x, y, [(-1.0, 1.0)] * d, seed)._replace(sites=sites)


def _split(x: Any, y: Any, bounds: Any, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(y))
    test, own = order[: len(y) // 3], order[len(y) // 3 :]
    return Split(x[own], y[own], x[test], y[test], bounds)


def log_loss(y: Any, share: Any) -> float:
    """Return the mean log loss of probabilities of 1."""
    share = np.clip(share, 1e-6, 1.0 - 1e-6)
    return -float(np.mean(xlogy(y, share) + xlogy(1 - y, 1.0 - share)))


def deviance(y: Any, mean: Any) -> float:
    """Return the mean Poisson deviance."""
    return float(np.mean(2.0 * (xlogy(y, y / mean) - y + mean)))


# -- labels ------------------------------------------------------------------------------------


def labels_row(split: Split, seed: int, epsilon: float) -> dict[str, float]:
    """Return how good every method's probabilities of labels are."""
    trust = "central" if split.sites == 1 else "site"
    asked: dict[str, Any] = {
        "privacy": tc.Privacy(epsilon, DELTA, trust=trust),
        "random_state": seed,
        "rows": float(len(split.y)),
        "classes": (0, 1),
    }
    pairs = zip(
        np.array_split(split.x, split.sites), np.array_split(split.y, split.sites), strict=True
    )
    held: Any = [tc.Site(f"site {k}", pair) for k, pair in enumerate(pairs)]
    alike = split.bounds[0] if len(set(split.bounds)) == 1 else split.bounds
    own = tc.PrivateLogisticRegression(bounds=split.bounds, **asked).fit(held)
    rival = PrivateDropoutClassifier((), bounds=alike, device="cpu", **asked).fit(held)
    low, high = np.array(split.bounds, float).T
    free = LogisticRegression(max_iter=300).fit((split.x - low) / (high - low), split.y)
    shares = {
        "ours": own.predict_proba(split.test_x)[:, 1],
        "DP-SGD": rival.predict_proba(split.test_x)[:, 1],
        "without privacy": free.predict_proba((split.test_x - low) / (high - low))[:, 1],
    }
    row = {
        "base rate, log loss": log_loss(split.test_y, np.full(len(split.test_y), split.y.mean()))
    }
    for name, share in shares.items():
        row[f"{name}, log loss"] = log_loss(split.test_y, share)
        row[f"{name}, AUC"] = auc(split.test_y, share)
        right = (share > 0.5) == (split.test_y > 0)
        row[f"{name}, ECE"] = calibration_error(right, np.maximum(share, 1.0 - share))
    return row


# -- counts ------------------------------------------------------------------------------------


def bikes(seed: int) -> tuple[dict[str, Any], Any, Any]:
    """Return hourly rentals: columns, and which rows are for learning and for judging."""
    path = data_folder("uci-bike-sharing") / "hour.csv.gz"
    table = np.genfromtxt(path, delimiter=",", skip_header=1, usecols=range(2, 17), dtype=float)
    names = ["season", "yr", "mnth", "hr", "holiday", "weekday", "workingday", "weathersit"]
    names += ["temp", "atemp", "hum", "windspeed", "casual", "registered", "cnt"]
    columns = dict(zip(names, table.T, strict=True))
    order = np.random.default_rng(seed).permutation(len(table))
    return columns, order[len(table) // 3 :], order[: len(table) // 3]


def bike_columns() -> tc.Columns:
    """Return what is public about them: a category for every hour, season and weather."""
    return tc.Columns(
        season=tc.category(1, 2, 3, 4), yr=tc.category(0, 1), hr=tc.category(*range(24)),
        workingday=tc.category(0, 1), weathersit=tc.category(1, 2, 3, 4), temp=tc.number(0, 1),
        hum=tc.number(0, 1), windspeed=tc.number(0, 1), cnt=tc.number(0, 1000),
    )  # fmt: skip


def counts_row(seed: int, epsilon: float) -> dict[str, float]:
    """Return the deviance of every method on bike rentals."""
    table, own, test = bikes(seed)
    columns = bike_columns()
    wanted = [name for name in columns if name != "cnt"]

    def part(rows: Any, names: list[str]) -> dict[str, Any]:
        return {n: table[n][rows] if n in _REAL else table[n][rows].astype(int) for n in names}

    model = tc.PrivatePoissonRegression(
        columns, target="cnt", privacy=tc.Privacy(epsilon, DELTA), random_state=seed,
        rows=float(len(own)),
    ).fit(part(own, [*wanted, "cnt"]))  # fmt: skip
    y, test_y = table["cnt"][own], table["cnt"][test]
    x, test_x = (columns.encode(part(rows, wanted), wanted) for rows in (own, test))
    free = PoissonRegressor(alpha=0.0, max_iter=1000).fit(x, y)
    rival = min(
        deviance(test_y, private_descent(x, y, test_x, epsilon, seed, *tried)) for tried in GRID
    )
    return {
        "ours, deviance": deviance(test_y, model.predict(part(test, wanted))),
        "DP-SGD, deviance": rival,
        "without privacy, deviance": deviance(test_y, free.predict(test_x)),
        "base rate, deviance": deviance(test_y, np.full(len(test_y), y.mean())),
        "dispersion": model.dispersion_,
    }


_REAL = ("temp", "hum", "windspeed")


def private_descent(
    x: Any, y: Any, test_x: Any, epsilon: float, seed: int, step: float, clip: float
) -> Any:
    """Return means by full-batch DP-SGD on the Poisson loss of y/1000.

    Rows have norm one or less, gradients are clipped to ``clip``, and it begins at the logarithm
    of the mean, which costs it nothing here. The second half of the iterates is averaged.
    """
    rng = np.random.default_rng(seed)

    def rows(table: Any) -> Any:
        return np.column_stack([np.ones(len(table)), 2.0 * table - 1.0]) / math.sqrt(
            table.shape[1] + 1.0
        )

    a, t = rows(x), y / 1000.0
    theta, found = np.zeros(a.shape[1]), np.zeros(a.shape[1])
    theta[0] = math.log(t.mean()) * math.sqrt(a.shape[1])
    noise = gaussian_noise_multiplier(epsilon, DELTA, steps=STEPS) * clip
    norms = np.linalg.norm(a, axis=1)
    for k in range(STEPS):
        mean = np.exp(np.minimum(a @ theta, 0.0))
        rest = mean - t
        rest *= np.minimum(1.0, clip / np.maximum(np.abs(rest) * norms, 1e-300))
        gradient = (rest @ a + noise * rng.standard_normal(len(theta))) / len(t)
        theta = theta - step / clip * len(theta) * gradient
        if 2 * k >= STEPS:
            found += theta / (STEPS / 2)
    return 1000.0 * np.exp(np.minimum(rows(test_x) @ found, 0.0))


# -- coverage ----------------------------------------------------------------------------------


def covered(link: str, seed: int, n: int, epsilon: float, narrow: bool) -> Iterator[bool]:
    """Yield whether the 90 % interval of every coefficient holds it.

    Parameters
    ----------
    link
        ``"logistic"`` or ``"poisson"``.
    seed
        Of the rows.
    n
        How many there are.
    epsilon
        Of the guarantee.
    narrow
        Whether features are correlated and use a small part of their ranges, away from the middle.
    """
    rng = np.random.default_rng(seed)
    d, middle = 4, np.zeros(4)
    x = rng.uniform(-1.0, 1.0, (n, d))
    if narrow:
        loads, middle = rng.normal(size=(d, 2)), rng.uniform(-0.5, 0.2, d)
        x = 0.14 * (rng.normal(size=(n, 2)) @ loads.T + rng.normal(size=(n, d)))
        x = np.clip(middle + x, -1.0, 1.0)
    truth = rng.normal(size=d)
    truth *= (1.5 if link == "logistic" else 0.7) / ((x - middle) @ truth).std()
    centre = rng.normal(0.0, 0.5) + (0.0 if link == "logistic" else 1.0)
    offset = centre - middle @ truth
    eta = x @ truth + offset
    asked: dict[str, Any] = {"privacy": tc.Privacy(epsilon, DELTA), "random_state": seed}
    if link == "logistic":
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int)
        model: Any = tc.PrivateLogisticRegression(bounds=[(-1, 1)] * d, classes=(0, 1), **asked)
    else:
        y = np.minimum(rng.poisson(np.exp(eta)), 60)
        model = tc.PrivatePoissonRegression(bounds=[(-1, 1)] * d, y_bounds=(0, 60), **asked)
    draws = model.fit(x, y).draws_.reshape(-1, d + 1)
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    yield from (low <= np.append(offset, truth)) & (np.append(offset, truth) <= high)


# rows, ε and whether features are narrow
_SETTINGS = ((4000, 1.0, False), (1000, 0.5, False), (1000, 0.5, True), (10000, 3.0, True))


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    tables: dict[str, tuple[Callable[[int], Split], int]] = {
        "breast cancer": (cancer, 4 if quick else 20),
        "simulated": (simulated, 2 if quick else 8),
        "simulated, 4 sites": (lambda seed: simulated(seed, 4), 2 if quick else 8),
        "MNIST 3 against 8": (digits, 0 if quick else 3),
    }
    for epsilon in (1.0,) if quick else EPSILONS:
        for name, (load, seeds) in tables.items():
            if seeds:
                rows = [labels_row(load(seed), seed, epsilon) for seed in range(seeds)]
                means = _means(rows)
                outcome.add({"table": name, "ε": epsilon, "seeds": seeds, **means})
                _bar(outcome, f"{name}, ε = {epsilon:g}", "DP-SGD", rows, "log loss")
                _bar(outcome, f"{name}, ε = {epsilon:g}", "DP-SGD", rows, "AUC", less=False)
                _bar(outcome, f"{name}, ε = {epsilon:g}", "base rate", rows, "log loss")
        rows = [counts_row(seed, epsilon) for seed in range(1 if quick else 5)]
        outcome.add({"table": "bike rentals", "ε": epsilon, "seeds": len(rows), **_means(rows)})
        _bar(outcome, f"bike rentals, ε = {epsilon:g}", "DP-SGD", rows, "deviance")
        _bar(outcome, f"bike rentals, ε = {epsilon:g}", "base rate", rows, "deviance")
    for link, (n, epsilon, narrow) in product(("logistic", "poisson"), _SETTINGS):
        seeds = range(30 if quick else 200)
        held = [hit for seed in seeds for hit in covered(link, seed, n, epsilon, narrow)]
        share = float(np.mean(held))
        where = f"{link}, n = {n:,}, ε = {epsilon:g}, {'narrow' if narrow else 'uniform'} features"
        outcome.add({"table": f"coverage, {where}", "intervals": len(held), "covered": share})
        # of few intervals chance takes its share: five coefficients of a fit are about independent
        room = 0.0 if not quick else 2.0 * math.sqrt(0.87 * 0.13 / len(held))
        outcome.check(
            f"90 % intervals, {where}", share, f"≥ 0.87 − {room:.2g}", share >= 0.87 - room
        )
    return outcome


def _means(rows: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def _bar(
    outcome: Outcome, where: str, rival: str, rows: list[dict[str, float]], what: str,
    less: bool = True,
) -> None:  # fmt: skip
    """Check that ours is as good as a rival up to two standard errors."""
    gaps = np.array([row[f"ours, {what}"] - row[f"{rival}, {what}"] for row in rows])
    gaps = gaps if less else -gaps
    room = 2.0 * float(gaps.std(ddof=1)) / math.sqrt(len(gaps)) if len(gaps) > 1 else 0.0
    means = _means(rows)
    bar = f"{'≤' if less else '≥'} {means[f'{rival}, {what}']:.4g}"
    outcome.check(
        f"{where}: {what} against {rival}", means[f"ours, {what}"],
        f"{bar} (two standard errors: {room:.2g})", float(gaps.mean()) <= room,
    )  # fmt: skip
