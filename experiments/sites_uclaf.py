"""Does sharing more factors help? Models 1, 2 and 3 on UCLAF over sites: Table 7.8.

Source: Ermiş (2020), section 7.2.2, Figure 4.7. Visits (user × place × activity, the listed cells,
values 1 to 5) of tenths of the users at ten sites; a fifth of the cells is held out. Model 1
shares places, model 2 places and activities, model 3 also has the public place–feature matrix at
the coordinator. One entry is protected (``unit="entry"``, certified by PLD, δ = 1e-4): what the
thesis calls user-level. Settings are the defaults.

The first table has RMSE at the held-out cells of *all* ten sites (one site has some 28 of them, so
that its own figure is noise), with paired standard errors over seeds. Beside the models stand what
needs no privacy at all (PRIVACY A9): users' own means, shrunken, at their site, which is the bar;
and the same effects of members' own cells that predictions at a site use, without anything shared.
A private global mean is the trivial predictor that costs something. What can be gained at all by
knowing other sites' cells shows a fit without any privacy: crossed effects of users, places,
activities and their pairs, over all sites' training cells in one place. The second table is the
thesis's, over five seeds: site 1 as further sites join.
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
from tacit.factorization import PrivateFactorization
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.offsets.numerics.own_model import OwnModel, Seen
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.guarantee import Privacy

COUNTS, DELTA, RANK, LOW, HIGH, SITES = (1, 2, 5, 10), 1e-4, 5, 1.0, 5.0, 10
EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0, math.inf)
VISITS, POI = "user:k place:k activity:k", "place:k feature:k"
MODELS = {"Model-1": ["place"], "Model-2": ["place", "activity"], "Model-3": ["place", "activity"]}
OWN, ALONE, MEAN = "own means, free", "own cells alone, free", "private global mean"
CEILING = "all sites' cells in one place, no privacy"
# variances of the effects of user, place, activity, user × place and place × activity, and of
# noise: maximum likelihood on the training cells of the first split, all sites together
CROSSED = {(0,): 0.15, (1,): 0.013, (2,): 0.14, (0, 1): 2.26, (1, 2): 0.33}
NOISE = 0.039
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
    """Run both tables."""
    outcome, arrays = Outcome(), uclaf(data_folder("uclaf"))
    seeds = range(4 if quick else 20)
    splits = [split(arrays, seed) for seed in seeds]
    for epsilon in (1.0, 10.0) if quick else EPSILONS:
        _all_sites(outcome, arrays, splits, epsilon)
    if not quick:
        _site_one(outcome, arrays, splits[:5])
    return outcome


def _all_sites(outcome: Outcome, arrays: Any, splits: list[Any], epsilon: float) -> None:
    """One ε: every model at the held-out cells of all sites, beside what is free."""
    found: dict[str, Any] = {}
    for name in (*MODELS, OWN, ALONE, MEAN, CEILING):
        found[name] = np.array([
            _error([site[2] for site in sites], _predicted(arrays, name, epsilon, sites, seed))
            for seed, sites in enumerate(splits)
        ])  # fmt: skip
    for name, errors in found.items():
        row = {"table": "all ten sites", "model": name, "ε": epsilon, "RMSE": errors.mean()}
        for free in (OWN, ALONE):
            above = errors - found[free]
            row[f"above {free}"], row[f"± ({free})"] = above.mean(), _spread(above)
        outcome.add(row)
    for name, more, less in (
        ("gain of sharing activities", "Model-2", "Model-1"),
        ("gain of the public matrix", "Model-3", "Model-2"),
        ("gain of sharing anything", "Model-2", ALONE),
    ):
        gains = found[less] - found[more]
        outcome.add({"table": "what sharing brings", "model": name, "ε": epsilon,
                     "RMSE": gains.mean(), f"± ({OWN})": _spread(gains)})  # fmt: skip
    for model in MODELS:
        _bars(outcome, f"{model}, ε = {epsilon:g}", epsilon, found[model], found)


def _bars(outcome: Outcome, what: str, epsilon: float, errors: Any, found: Any) -> None:
    """Paired differences to users' own means, and to the best that is free."""
    above = errors - found[OWN]
    mean, spread = float(above.mean()), _spread(above)
    outcome.check(f"{what}: above own means", mean, f"≤ 2 · {spread:.4f}", mean <= 2.0 * spread)
    if epsilon == 3.0:
        outcome.check(f"{what}: below own means", -mean, f"≥ 2 · {spread:.4f}",
                      -mean >= 2.0 * spread)  # fmt: skip
    if epsilon == 10.0:
        outcome.check(f"{what}: below own means", -mean, "≥ 0.15", -mean >= 0.15)
    above = errors - found[ALONE]
    mean, spread = float(above.mean()), _spread(above)
    if epsilon == 3.0:
        outcome.check(f"{what}: below own cells alone", -mean, f"≥ 2 · {spread:.4f}",
                      spread > 0.0 and -mean >= 2.0 * spread)  # fmt: skip
    if epsilon == 10.0:
        outcome.check(f"{what}: below own cells alone", -mean, "≥ 0.15", -mean >= 0.15)
    bar = max(2.0 * spread, 0.005)  # seeds whose predictions are the same have no spread
    outcome.check(f"{what}: above own cells alone", mean, f"≤ {bar:.4f}", mean <= bar)


def _site_one(outcome: Outcome, arrays: Any, splits: list[Any]) -> None:
    """The thesis's table: site 1 as further sites join."""
    for epsilon in (math.inf, 10.0, 1.0, 0.1):
        for name in MODELS:
            runs = np.array([
                [_error([sites[0][2]], _predicted(arrays, name, epsilon, sites[:count], seed)[:1])
                 for count in COUNTS]
                for seed, sites in enumerate(splits)
            ])  # fmt: skip
            columns = zip(COUNTS, runs.mean(axis=0), strict=True)
            thesis = "  ".join(f"{value:.2f}" for value in TABLE_78[name, epsilon])
            outcome.add({"table": "Table 7.8, site 1", "model": name, "ε": epsilon}
                        | {f"N={n}": float(value) for n, value in columns}
                        | {"thesis": thesis})  # fmt: skip


def _spread(values: Any) -> float:
    """Return the standard error of a mean."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values)))


def _error(values: list[Any], predicted: list[Any]) -> float:
    """Return the root of the mean squared error over sites."""
    return float(np.sqrt(np.mean((np.concatenate(values) - np.concatenate(predicted)) ** 2)))


def split(arrays: dict[str, Any], seed: int) -> list[tuple[Relation, Any, Any]]:
    """Return each site's training cells, and its held-out cells with their values."""
    rng = generator(seed, "sites-uclaf")
    visits = arrays["visits"]
    users = rng.permutation(len(visits))
    found = []
    for part in np.array_split(users, SITES):
        table = visits[part]
        cells = np.argwhere(table > 0)
        values = np.clip(table[tuple(cells.T)], LOW, HIGH)
        test = rng.random(len(cells)) < 0.2
        relation = Relation.from_cells(
            ("user", "place", "activity"), cells[~test], values[~test], shape=table.shape
        )
        found.append((relation, cells[test], values[test]))
    return found


def _predicted(arrays: Any, name: str, epsilon: float, sites: list[Any], seed: int) -> list[Any]:
    """Return what is predicted of every site's held-out cells."""
    if name in MODELS:
        return _fitted(arrays, name, epsilon, sites, seed)
    if name == OWN:
        return [_own_means(relation, cells) for relation, cells, _ in sites]
    if name == ALONE:
        return [_alone(relation, cells) for relation, cells, _ in sites]
    if name == CEILING:
        return _together(sites)
    total = sum(float(relation.values.sum()) for relation, _, _ in sites)
    if math.isfinite(epsilon):  # each site's sum is released once
        sigma = math.sqrt(len(sites)) * gaussian_sigma(epsilon, DELTA, HIGH - LOW)
        total += sigma * float(generator(seed, "mean").standard_normal())
    mean = min(max(total / sum(relation.cells for relation, _, _ in sites), LOW), HIGH)
    return [np.full(len(cells), mean) for _, cells, _ in sites]


def _fitted(arrays: Any, model: str, epsilon: float, sites: list[Any], seed: int) -> list[Any]:
    """Return what a private factorization with the defaults predicts."""
    forms = {"visits": VISITS} | ({"poi": POI} if model == "Model-3" else {})
    public = {}
    if model == "Model-3":
        features = arrays["poi"] / np.maximum(arrays["poi"].max(axis=0), 1e-12)
        public["poi"] = Relation.from_dense(("place", "feature"), features)
    fitted = PrivateFactorization(
        CoupledModel(forms, RANK, "euclidean"), bounds={"visits": (LOW, HIGH)},
        privacy=Privacy(epsilon, DELTA, unit="entry", trust="site"), shared=MODELS[model],
        protected="user", random_state=seed,
    ).fit([Site(f"site {k}", {"visits": site[0]}) for k, site in enumerate(sites)],
          public=public)  # fmt: skip
    return [
        fitted.predict(f"site {k}", site[1], "visits", positions=True)
        for k, site in enumerate(sites)
    ]


def _own_means(relation: Relation, cells: Any) -> Any:
    """Return every user's own mean, shrunk towards that of its site."""
    users, mean = relation.indices[:, 0], float(relation.values.mean())
    counts = np.bincount(users, minlength=relation.shape[0])
    sums = np.bincount(users, relation.values - mean, relation.shape[0])
    return (mean + sums / (counts + 2.0))[cells[:, 0]]


def _alone(relation: Relation, cells: Any) -> Any:
    """Return what members' own cells say, with nothing shared."""
    none = np.zeros(relation.cells)
    seen = Seen(relation.indices, relation.shape, 0, relation.values, none, none[:, None][:, :0])
    found = OwnModel({"visits": seen}).predict("visits", cells, np.zeros(len(cells)))
    return np.clip(found, LOW, HIGH)


def _together(sites: list[Any]) -> list[Any]:
    """Return what crossed effects over all sites' cells predict: normal, of known variances."""
    first = np.cumsum([0, *(relation.shape[0] for relation, _, _ in sites)])
    moved = [np.array([shift, 0, 0]) for shift in first]
    known = np.concatenate([s[0].indices + by for s, by in zip(sites, moved, strict=False)])
    asked = np.concatenate([s[1] + by for s, by in zip(sites, moved, strict=False)])
    values = np.concatenate([relation.values for relation, _, _ in sites])
    mean = float(values.mean())
    own = _covariance(known, known) + NOISE * np.eye(len(known))
    found = mean + _covariance(asked, known) @ np.linalg.solve(own, values - mean)
    return np.split(np.clip(found, LOW, HIGH), np.cumsum([len(c) for _, c, _ in sites])[:-1])


def _covariance(ours: Any, theirs: Any) -> Any:
    """Return the covariance of cells' expected values: that of the effects they have in common."""
    found = np.zeros((len(ours), len(theirs)))
    for modes, variance in CROSSED.items():
        same = [ours[:, m][:, None] == theirs[:, m][None] for m in modes]
        found += variance * np.logical_and.reduce(same)
    return found
