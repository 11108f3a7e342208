"""Does sharing more factors help? Models 1, 2 and 3 on UCLAF over sites: Table 7.8.

Source: Ermiş (2020), section 7.2.2, Figure 4.7. Visits (user × place × activity, the listed cells,
values 1 to 5) of tenths of the users at ten sites; RMSE at a fifth of the cells of site 1, held
out. Model 1 shares places, model 2 places and activities, model 3 also has the public
place–feature matrix at the coordinator. One entry is protected (``unit="entry"``, certified by
PLD, δ = 1e-3): what the thesis calls user-level. Beside it the private global mean of the sites'
cells, which any model has to beat (PRIVACY A9), and what sharing more brings, paired over seeds.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from experiments.data import data_folder
from experiments.datasets import uclaf
from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.estimators.site import Site
from tacit.factorization import Langevin, PrivateFactorization
from tacit.factorization.language.structure import CoupledModel
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.guarantee import Privacy

COUNTS, DELTA, RANK, LOW, HIGH = (1, 2, 5, 10), 1e-3, 5, 1.0, 5.0
VISITS, POI = "user:k place:k activity:k", "place:k feature:k"
MODELS = {"Model-1": ["place"], "Model-2": ["place", "activity"], "Model-3": ["place", "activity"]}
TABLE_78 = {
    ("Model-1", math.inf): (0.77, 0.65, 0.55, 0.47),
    ("Model-2", math.inf): (0.77, 0.62, 0.51, 0.43),
    ("Model-3", math.inf): (0.68, 0.54, 0.44, 0.37),
    ("Model-1", 10.0): (0.89, 0.77, 0.66, 0.57),
    ("Model-2", 10.0): (0.89, 0.72, 0.60, 0.51),
    ("Model-3", 10.0): (0.80, 0.64, 0.53, 0.46),
    ("Model-1", 1.0): (1.04, 0.94, 0.84, 0.75),
    ("Model-2", 1.0): (1.04, 0.89, 0.81, 0.73),
    ("Model-3", 1.0): (0.97, 0.83, 0.76, 0.70),
    ("Model-1", 0.1): (1.83, 1.66, 1.52, 1.40),
    ("Model-2", 0.1): (1.83, 1.74, 1.68, 1.64),
    ("Model-3", 0.1): (1.64, 1.60, 1.57, 1.57),
}


def run(quick: bool) -> Outcome:
    outcome, arrays = Outcome(), uclaf(data_folder("uclaf"))
    seeds = range(2 if quick else 10)
    counts = (1, 10) if quick else COUNTS
    last = len(counts) - 1
    found: dict[tuple[str, float], Any] = {}
    for epsilon in (math.inf, 10.0, 1.0, 0.1):
        for model in MODELS:
            runs = np.array([[score(arrays, model, epsilon, count, seed) for count in counts]
                             for seed in seeds])  # fmt: skip
            found[model, epsilon] = runs
            row = _row(model, epsilon, counts, runs.mean(axis=0))
            row["thesis"] = "  ".join(f"{value:.2f}" for value in TABLE_78[model, epsilon])
            outcome.rows.append(row)
        means = [float(np.mean([private_mean(arrays, epsilon, n, s) for s in seeds]))
                 for n in counts]  # fmt: skip
        outcome.rows.append(_row("private global mean", epsilon, counts, means))
        for name, more, less in (
            ("gain of sharing activities", "Model-2", "Model-1"),
            ("gain of the public matrix", "Model-3", "Model-2"),
        ):
            gains = found[less, epsilon] - found[more, epsilon]
            row = _row(name, epsilon, counts, gains.mean(axis=0))
            row["± at the last N, paired"] = _error(gains[:, last])
            outcome.rows.append(row)
    for model in MODELS:
        gains = found[model, math.inf][:, 0] - found[model, math.inf][:, last]
        outcome.check(f"{model} without noise: better with ten sites", float(gains.mean()), "> 0",
                      bool(gains.mean() > 0.0))  # fmt: skip
    gains = found["Model-2", 10.0][:, last] - found["Model-3", 10.0][:, last]
    outcome.check("the public matrix helps ten sites at ε = 10", float(gains.mean()), "> 0",
                  bool(gains.mean() > 0.0))  # fmt: skip
    return outcome


def _row(name: str, epsilon: float, counts: tuple[int, ...], values: Any) -> dict[str, Any]:
    """Return a row with one column per number of sites."""
    columns = {f"N={n}": float(value) for n, value in zip(counts, values, strict=True)}
    return {"model": name, "ε": epsilon, **columns}


def _error(values: Any) -> float:
    """Return the standard error of a mean."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


def split(arrays: dict[str, Any], seed: int) -> tuple[list[Relation], Any, Any]:
    """Return each site's training cells, and the held-out cells of site 1 with their values."""
    rng = generator(seed, "sites-uclaf")
    visits = arrays["visits"]
    users = rng.permutation(len(visits))
    relations, held = [], None
    for k, part in enumerate(np.array_split(users, 10)):
        table = visits[part]
        cells = np.argwhere(table > 0)
        values = np.clip(table[tuple(cells.T)], LOW, HIGH)
        test = rng.random(len(cells)) < 0.2
        relations.append(Relation.from_cells(
            ("user", "place", "activity"), cells[~test], values[~test], shape=table.shape
        ))  # fmt: skip
        if k == 0:
            held = cells[test], values[test]
    assert held is not None
    return relations, *held


def score(arrays: dict[str, Any], model: str, epsilon: float, count: int, seed: int) -> float:
    """Return the RMSE at site 1's held-out cells."""
    relations, cells, values = split(arrays, seed)
    sites = [Site(f"site {k + 1}", {"visits": relations[k]}) for k in range(count)]
    forms = {"visits": VISITS} | ({"poi": POI} if model == "Model-3" else {})
    public = {}
    if model == "Model-3":
        features = arrays["poi"] / np.maximum(arrays["poi"].max(axis=0), 1e-12)
        public["poi"] = Relation.from_dense(("place", "feature"), features)
    fitted = PrivateFactorization(
        CoupledModel(forms, RANK, "euclidean"), bounds={"visits": (LOW, HIGH)},
        privacy=Privacy(epsilon, DELTA, unit="entry", trust="site"), shared=MODELS[model],
        protected="user", method=Langevin(offsets=True), random_state=seed,
    ).fit(sites, public=public)  # fmt: skip
    expected = fitted.parts_["site 1"].predict("visits", cells.astype(np.int32))
    return float(np.sqrt(np.mean((expected - values) ** 2)))


def private_mean(arrays: dict[str, Any], epsilon: float, count: int, seed: int) -> float:
    """Return the RMSE of the sites' mean value, each site's sum released once."""
    relations, _, values = split(arrays, seed)
    total = sum(float(r.values.sum()) for r in relations[:count])
    if math.isfinite(epsilon):
        rng = generator(seed, "mean")
        sigma = gaussian_sigma(epsilon, DELTA, HIGH - LOW)
        total += math.sqrt(count) * sigma * float(rng.standard_normal())
    mean = min(max(total / sum(r.cells for r in relations[:count]), LOW), HIGH)
    return float(np.sqrt(np.mean((mean - values) ** 2)))
