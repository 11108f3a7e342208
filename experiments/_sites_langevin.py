"""The Langevin parts of the synthetic experiment: Figures 7.7–7.10, Tables 7.4 and 7.5.

Source: Ermiş (2020), section 7.2.1. Ten sites with 100 × 50 matrices X = U·Vᵀ + noise, all normal
with variance one, K = 5; a fifth of the cells of each site is held out, and a score is the log
likelihood per held-out cell of site 1. The thesis sums log likelihoods on a scale that it does not
state, so its numbers stand beside ours and are not compared with them.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.estimators.site import Site
from tacit.factorization import Langevin, PrivateFactorization
from tacit.factorization.alone.estimator import CoupledFactorization
from tacit.privacy.calibration import gaussian_noise_multiplier
from tacit.privacy.guarantee import Privacy
from tacit.published.ermis2020 import PublishedLangevin
from tacit.published.noise import PRINTED, advanced_composition_noise, zcdp_noise

SITES, ROWS, COLUMNS, RANK, DELTA, BOUND = 10, 100, 50, 5, 1e-3, 8.0
COUNTS = (1, 2, 5, 10)
# Table 7.5: log likelihood / 1e5 for N = 1, 2, 5, 10
TABLE_75 = {
    ("NP", math.inf): (-3.37, -3.21, -3.06, -2.85),
    ("CTF-AC (site-level)", 10.0): (-6.65, -5.62, -4.86, -4.02),
    ("CTF-AC (site-level)", 1.0): (-11.50, -9.81, -8.73, -7.22),
    ("CTF-AC (site-level)", 0.1): (-14.42, -12.38, -11.04, -9.60),
    ("CTF-AC (user-level)", 10.0): (-7.98, -6.53, -5.74, -4.65),
    ("CTF-AC (user-level)", 1.0): (-12.76, -10.88, -9.06, -7.90),
    ("CTF-AC (user-level)", 0.1): (-15.31, -13.24, -11.87, -10.13),
    ("CTF-zCDP (site-level)", 10.0): (-5.37, -4.79, -4.31, -3.62),
    ("CTF-zCDP (site-level)", 1.0): (-9.06, -7.91, -7.18, -6.54),
    ("CTF-zCDP (site-level)", 0.1): (-12.05, -10.48, -9.14, -8.30),
    ("CTF-zCDP (user-level)", 10.0): (-6.13, -5.12, -4.59, -3.95),
    ("CTF-zCDP (user-level)", 1.0): (-10.32, -8.92, -8.04, -6.83),
    ("CTF-zCDP (user-level)", 0.1): (-13.25, -11.80, -10.26, -9.09),
}  # fmt: skip
# Table 7.4: (a₀, b₀) of the hyper-prior → log likelihood for NP and ε = 10, 1, 0.1
TABLE_74 = {
    (1.0, 0.01): (-3.21e5, -5.12e5, -8.92e5, -1.18e6),
    (10.0, 0.01): (-3.25e5, -5.18e5, -9.05e5, -1.35e6),
    (0.1, 10.0): (-3.29e5, -5.23e5, -9.11e5, -1.32e6),
    (10.0, 10.0): (-3.24e5, -5.15e5, -8.97e5, -1.24e6),
}
LEVELS_74 = (math.inf, 10.0, 1.0, 0.1)


def run_langevin(quick: bool, outcome: Outcome) -> None:
    """Add all tables and bars."""
    noise_table(quick, outcome)
    notions(quick, outcome)
    accountants(quick, outcome)
    settings(quick, outcome)


# -- the data ---------------------------------------------------------------------------------


@cache
def simulated(seed: int) -> tuple[list[Site], Any, Any]:
    """Return the sites, and the held-out cells of site 1 with their values."""
    rng = generator(seed, "sites-synthetic")
    shared = rng.standard_normal((COLUMNS, RANK))
    sites, held = [], None
    for k in range(SITES):
        own = rng.standard_normal((ROWS, RANK))
        values = own @ shared.T + rng.standard_normal((ROWS, COLUMNS))
        mask = rng.random(values.shape) < 0.2
        listed = np.where(mask, np.nan, values)
        sites.append(Site(f"site {k + 1}", Relation.from_dense(("row", "column"), listed)))
        if held is None:
            held = np.argwhere(mask), values[mask]
    assert held is not None
    return sites, *held


def score(method: Langevin, privacy: Privacy | None, count: int, seed: int, **more: Any) -> float:
    """Return the log likelihood per held-out cell of site 1 when ``count`` sites take part."""
    sites, cells, values = simulated(seed)
    model = PrivateFactorization(
        "row:k column:k", rank=more.pop("rank", RANK), bounds=(-BOUND, BOUND), privacy=privacy,
        method=method, random_state=seed, **more,
    ).fit(sites[:count])  # fmt: skip
    residual = values - model.predict("site 1", cells)
    return float(np.mean(-0.5 * residual**2 - 0.5 * math.log(2.0 * math.pi)))


def mean_score(seeds: range, *args: Any, **more: Any) -> float:
    """Return the score averaged over data sets."""
    return float(np.mean([score(*args, seed, **more) for seed in seeds]))


def asked(epsilon: float, unit: str, **more: Any) -> Privacy:
    """Return a request at the thesis's δ."""
    return Privacy(epsilon, DELTA, unit=unit, trust="site", **more)


# -- tables -----------------------------------------------------------------------------------


def noise_table(quick: bool, outcome: Outcome) -> None:
    """Noise multipliers for the thesis's four settings, and as a function of ε (Figure 7.7)."""
    seen: dict[tuple[float, int], dict[str, float]] = {}
    for name, printed in PRINTED.items():
        if quick and printed.steps > 1000:
            continue
        key = (printed.rate, printed.steps)
        if key not in seen:
            seen[key] = valid_noise(
                printed.claimed_epsilon, printed.delta, printed.rate, printed.steps
            )
        row: dict[str, Any] = {
            "table": "noise multiplier", "setting": name, "ε": printed.claimed_epsilon,
            "thesis": printed.noise_multiplier,
        }  # fmt: skip
        outcome.rows.append(row | seen[key])
    for (rate, steps), noise in seen.items():
        ordered = noise["pld"] <= noise["rdp"] <= noise["advanced"]
        outcome.check(
            f"noise for q={rate:g}, T={steps}",
            f"{noise['pld']:.3g} ≤ {noise['rdp']:.3g} ≤ {noise['advanced']:.3g}",
            "pld ≤ rdp ≤ advanced", ordered,
        )  # fmt: skip
    for epsilon in (1.0,) if quick else (0.1, 0.5, 1.0, 2.0, 5.0):
        recipes = {"rate": 0.02, "compositions": 300}
        zcdp = zcdp_noise(epsilon, DELTA, delta_iter=1e-5, **recipes)
        advanced = advanced_composition_noise(epsilon, DELTA, delta_iter=8e-5, **recipes)
        outcome.rows.append({
            "table": "Figure 7.7", "setting": "q=0.02, T=300", "ε": epsilon,
            "thesis": f"{zcdp.noise_multiplier:.3g} (zCDP), {advanced.noise_multiplier:.3g} (AC)",
            **valid_noise(epsilon, DELTA, 0.02, 300),
        })  # fmt: skip


@cache
def valid_noise(epsilon: float, delta: float, rate: float, steps: int) -> dict[str, float]:
    """Return the noise multiplier that each valid accountant asks for."""
    return {
        kind: gaussian_noise_multiplier(epsilon, delta, rate=rate, steps=steps, accountant=kind)
        for kind in ("pld", "rdp", "zcdp", "advanced")
    }


def notions(quick: bool, outcome: Outcome) -> None:
    """Table 7.5 and Figures 7.9, 7.10: log likelihood against N, ε and the notion."""
    seeds = range(2 if quick else 5)
    epsilons = (10.0, 1.0) if quick else (10.0, 1.0, 0.1)
    counts = (1, 10) if quick else COUNTS
    plain = Langevin()
    # the thesis's steps: E = 6 passes with samples of 0.02 (fewer rounds in the quick form)
    paper = {"rounds": 60 if quick else 300, "sampling_rate": 0.02}
    rows: list[tuple[str, float, Langevin, Privacy | None]] = [("NP", math.inf, plain, None)]
    for epsilon in epsilons:
        rows.append(("certified, unit=entry", epsilon, plain, asked(epsilon, "entry")))
        rows.append(("certified, unit=user", epsilon, plain, asked(epsilon, "user")))
    for epsilon in (1.0,) if quick else epsilons:
        rules = (("ermis-zcdp", "CTF-zCDP"), ("ermis-ac", "CTF-AC"))
        for rule, label in rules[:1] if quick else rules:
            for level, words in (("site", "site-level"), ("entry", "user-level")):
                method = PublishedLangevin(**paper, rule=rule, level=level, clip=2.0)
                rows.append((f"{label} ({words})", epsilon, method, asked(epsilon, "entry")))
    found: dict[tuple[str, float], list[float]] = {}
    for name, epsilon, method, privacy in rows:
        used = range(1) if quick and isinstance(method, PublishedLangevin) else seeds
        each = [[score(method, privacy, count, seed) for seed in used] for count in counts]
        scores = [float(np.mean(line)) for line in each]
        if name == "NP" or name.startswith("certified"):
            _against_free(outcome, f"{name}, ε={epsilon:g}", counts, each)
        found[name, epsilon] = scores
        row: dict[str, Any] = {"table": "Table 7.5", "setting": name, "ε": epsilon}
        row |= {f"N={n}": value for n, value in zip(counts, scores, strict=True)}
        printed = TABLE_75.get((name, epsilon))
        if printed is not None:
            row["thesis"] = "  ".join(f"{value:.2f}" for value in printed) + " (×1e5)"
        outcome.rows.append(row)
    zero = trivial(seeds)
    outcome.rows.append({"table": "Table 7.5", "setting": "knowing nothing (zero)", "N=1": zero})
    means = float(np.mean([own_means(seed) for seed in seeds]))
    outcome.rows.append({"table": "Table 7.5", "setting": "own row means, free", "N=1": means})
    best = max(zero, means)
    for key in (("NP", math.inf), ("certified, unit=user", 10.0), ("certified, unit=entry", 10.0)):
        first, last = found[key][0], found[key][-1]
        outcome.check(
            f"{key[0]}, ε={key[1]:g}: better with ten sites than with one", last - first, "> 0",
            last > first,
        )  # fmt: skip
    for unit in ("entry", "user"):
        at_ten = [found[f"certified, unit={unit}", e][-1] for e in epsilons]
        ordered = all(a >= b for a, b in pairwise(at_ten))
        outcome.check(
            f"unit={unit}: better with more ε (N=10)",
            "  ".join(f"{value:.3f}" for value in at_ten), "falls with ε", ordered,
        )  # fmt: skip
        outcome.check(
            f"unit={unit}, ε=10, N=10 beats what is free", at_ten[0] - best, "> 0",
            at_ten[0] > best,
        )  # fmt: skip


def _against_free(outcome: Outcome, what: str, counts: Any, each: list[list[float]]) -> None:
    """What costs nothing is never better by more than chance, data set by data set."""
    for label, free in (("knowing nothing", lambda s: trivial(range(s, s + 1))),
                        ("own row means", own_means)):  # fmt: skip
        for count, line in zip(counts, each, strict=True):
            above = np.array(line) - [free(seed) for seed in range(len(line))]
            bar = max(2.0 * float(above.std(ddof=1)) / math.sqrt(len(above)), 0.005)
            outcome.check(f"{what}, N={count}: minus {label}", float(above.mean()),
                          f"≥ −{bar:.4f}", above.mean() >= -bar)  # fmt: skip


def trivial(seeds: range) -> float:
    """Return the score of predicting zero."""
    return float(np.mean([
        np.mean(-0.5 * simulated(seed)[2] ** 2 - 0.5 * math.log(2.0 * math.pi)) for seed in seeds
    ]))  # fmt: skip


def own_means(seed: int) -> float:
    """Return the score of every row's own mean, shrunken, which is free."""
    sites, cells, values = simulated(seed)
    rows = sites[0].data.indices[:, 0]
    sums = np.bincount(rows, sites[0].data.values, ROWS)
    residual = values - (sums / (np.bincount(rows, minlength=ROWS) + 2.0))[cells[:, 0]]
    return float(np.mean(-0.5 * residual**2 - 0.5 * math.log(2.0 * math.pi)))


def accountants(quick: bool, outcome: Outcome) -> None:
    """At one target ε the valid accountants order the accuracy: pld ≥ rdp ≥ advanced."""
    seeds, method = range(3 if quick else 8), Langevin()
    scores = {
        kind: mean_score(seeds, method, asked(1.0, "user"), 10, accountant=kind)
        for kind in ("pld", "rdp", "zcdp", "advanced")
    }
    outcome.rows.append(
        {"table": "accountants", "setting": "log likelihood, unit=user, N=10", "ε": 1.0, **scores}
    )
    outcome.check(
        "accuracy at ε = 1 by accountant",
        f"{scores['pld']:.3f} ≥ {scores['rdp']:.3f} ≥ {scores['advanced']:.3f}",
        "pld ≥ rdp ≥ advanced", scores["pld"] >= scores["rdp"] >= scores["advanced"],
    )  # fmt: skip


def settings(quick: bool, outcome: Outcome) -> None:
    """Figure 7.8 and Table 7.4: one setting at a time, around the defaults."""
    seeds, privacy = range(1 if quick else 5), asked(1.0, "user")
    sweeps: dict[str, list[tuple[Any, Langevin, dict[str, Any]]]] = {
        "rounds": [(n, Langevin(rounds=n), {}) for n in (10, 25, 50, 100)],
        "rate": [
            (q, Langevin(rounds=50, sampling_rate=q), {})
            for q in ((1.0,) if quick else (0.2, 1.0))
        ],
        "latent factors": [(k, Langevin(), {"rank": k}) for k in (2, 5, 10)],
        "clip": [(g, Langevin(clip=g), {}) for g in (1.0, 10.0, 100.0)],
        "prior precision": [(p, Langevin(precision=p), {}) for p in (0.1, 1.0, 10.0)],
    }
    for name, choices in sweeps.items():
        for value, method, more in choices:
            outcome.rows.append({
                "table": "Figure 7.8 / Table 7.4", "setting": f"{name} = {value}", "ε": 1.0,
                "N=10": mean_score(seeds, method, privacy, 10, **more),
            })  # fmt: skip
    hyper_priors(quick, outcome, seeds)


def hyper_priors(quick: bool, outcome: Outcome, seeds: range) -> None:
    """Table 7.4: λ ~ Gamma(a₀, scale b₀), two sites; the thesis finds that it hardly matters.

    Without noise λ is drawn along with the factors (Gibbs sampling, both sites stacked). Under
    noise it is its prior mean a₀·b₀: rounds release gradients, and nothing else would pay for λ.
    """
    levels = LEVELS_74[:3] if quick else LEVELS_74
    found: dict[float, list[float]] = {epsilon: [] for epsilon in levels}
    for (a, b), printed in TABLE_74.items():
        row: dict[str, Any] = {"table": "Table 7.4", "setting": f"a₀ = {a:g}, b₀ = {b:g}"}
        for epsilon, thesis in zip(levels, printed, strict=False):
            if math.isinf(epsilon):
                value = float(np.mean([learned(seed, (a, a * b)) for seed in seeds]))
            else:
                value = mean_score(seeds, Langevin(precision=a * b), asked(epsilon, "user"), 2)
            found[epsilon].append(value)
            label = "NP" if math.isinf(epsilon) else f"ε={epsilon:g}"
            row |= {label: value, f"thesis {label}": f"{thesis:.3g}"}
        outcome.add(row)
    for epsilon, values in found.items():
        apart = (max(values) - min(values)) / abs(min(values))
        bar = 0.05 if epsilon >= 10.0 else 0.35  # as far as the thesis's own rows are apart
        outcome.check(f"Table 7.4, ε = {epsilon:g}: hyper-priors apart, relative", apart,
                      f"≤ {bar:g}", apart <= bar)  # fmt: skip


def learned(seed: int, prior: tuple[float, float]) -> float:
    """Return the score of Gibbs sampling with hyper-priors, of the first two sites stacked."""
    sites, cells, values = simulated(seed)
    parts = [sites[k].data for k in (0, 1)]
    indices = [part.indices + np.array([k * ROWS, 0]) for k, part in enumerate(parts)]
    both = Relation.from_cells(
        ("row", "column"), np.concatenate(indices), np.concatenate([p.values for p in parts]),
        shape=(2 * ROWS, COLUMNS),
    )  # fmt: skip
    fitted = CoupledFactorization(
        "row:k column:k", rank=RANK, divergence="euclidean", inference="gibbs", prior=prior,
        iterations=200, random_state=seed,
    ).fit(both)  # fmt: skip
    residual = values - fitted.predict("data", cells, positions=True)
    return float(np.mean(-0.5 * residual**2 - 0.5 * math.log(2.0 * math.pi)))
