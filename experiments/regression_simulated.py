"""Bayesian regression over sites on simulated data: errors, calibration, distance to no privacy.

Source: Alparslan (2023), section 7.2, Figures 7.1 and 7.3. θ ~ N(0, I), x ~ N(0, Σ_x),
Σ_x ~ IW(VᵀV, d + 1) with V standard normal, n = 10⁵ rows over J sites.

**Moments.** With normal features Σ (x, y)(x, y)ᵀ over n_j rows is Wishart, and is drawn as such.
**Noise.** Isotropic symmetric Gaussian noise on that matrix at the exact σ for (ε, δ = 1/n) under
add-remove-one, for rows scaled to ‖(x, y)‖ ≤ B. B² is the (1 − 1/n) quantile of ‖(x, y)‖² under
its known law, so about one row would be scaled; that is left out. adaSSP spends three parts of
(ε/3, δ/3); every other method reads the same release.
**Priors.** All are told θ ~ N(0, I) and σ² ~ IG(3, 2); Figures 7.1 and 7.3 have σ² = 1.
MCMC-normalX and MCMC-B&S are told Λ and κ of Σ_x. For the figures `auto` is told nothing about the
features. For simulation-based calibration, where the truth has to come from the prior, it is told
Λ and κ, too; the row "auto, features unknown" shows it without, on features far more collinear
than its default prior expects.

**Through the estimator.** The last rows leave nothing out: rows with features of three laws,
public bounds, clipping, the gate and `PrivateLinearRegression` as it is by default.

**Clipped responses.** What an interval is for is named by the certificate: the least squares of
rows whose response lies within its range, each with its weight. Under responses with a long tail
on one side, and with heavy tails on both, that differs from the line of the unclipped rows, and no
second moment says by how much. Both coverages are shown.

Bars: coverage of central 50, 90 and 99 % intervals of θ₁ over independent data sets, drawn from
the prior, within three binomial standard deviations for `auto` and `MCMC-normalX`; MMD falls as ε
grows; `auto` is better than each published method at ε = 1 (mean excess prediction error). With
tails 90 % intervals hold the clipped target in at least 87 %, less two standard errors.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np

from experiments.runner import Outcome
from tacit._core.rng import generator
from tacit.estimators.site import Site
from tacit.mechanisms.gaussian import SymmetricGaussian
from tacit.mechanisms.noise import Noise
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.guarantee import Privacy
from tacit.regression.estimator import PrivateLinearRegression
from tacit.regression.numerics.discrepancy import mmd
from tacit.regression.numerics.moments import Moments, Prior
from tacit.regression.numerics.posterior import posterior
from tacit.regression.rows import summarise

ROWS = 100_000
LEVELS = (0.5, 0.9, 0.99)
METHODS = ("auto", "MCMC-normalX", "MCMC-fixedS", "Bayes-fixedS-fast", "MCMC-B&S", "adaSSP")


def wishart(rng: np.random.Generator, scale: Any, freedom: float) -> Any:
    """Draw from Wishart(scale, freedom) by Bartlett's decomposition."""
    side = len(scale)
    lower = np.tril(rng.standard_normal((side, side)), -1)
    lower += np.diag(np.sqrt(rng.chisquare(freedom - np.arange(side))))
    root = np.linalg.cholesky(scale) @ lower
    return root @ root.T


class Problem:
    """One simulated data set: the truth, exact moments, and what is released of them."""

    def __init__(self, seed: int, d: int, sites: int, variance: float | None) -> None:
        rng = generator(seed, f"problem {d} {sites}")
        v = rng.standard_normal((d, d))
        self.scale = v.T @ v
        self.features = np.linalg.inv(wishart(rng, np.linalg.inv(self.scale), d + 1))
        self.theta = rng.standard_normal(d)
        self.variance = 2.0 / rng.gamma(3.0) if variance is None else variance
        edge = self.features @ self.theta
        omega = np.block([[self.features, edge[:, None]],
                          [edge, self.theta @ edge + self.variance]])  # fmt: skip
        sample = rng.standard_normal((4 * ROWS, d + 1)) @ np.linalg.cholesky(omega).T
        self.bound = float(np.quantile((sample**2).sum(axis=1), 1.0 - 1.0 / ROWS))  # B²
        self.totals = [wishart(rng, omega, ROWS // sites) for _ in range(sites)]
        self.exact = [self._moments(total, 0.0) for total in self.totals]
        self.seed, self.d, self.sites = seed, d, sites

    def _moments(self, total: Any, sd: float, cross_sd: float | None = None) -> Moments:
        d = len(total) - 1
        cross_sd = sd / math.sqrt(2.0) if cross_sd is None else cross_sd
        return Moments(total[:d, :d], total[:d, d], ROWS // len(self.totals), total[d, d], sd,
                       cross_sd, sd)  # fmt: skip

    def release(self, epsilon: float, share: int = 1) -> list[Moments]:
        """Return what the sites release; ``share`` = 3 spends a third on each part."""
        sd = gaussian_sigma(epsilon / share, 1.0 / ROWS / share, self.bound)
        mechanism = SymmetricGaussian(1.0, 1.0, order=2, dimension=self.d + 1)
        source = Noise(seed=self.seed * 1000 + int(epsilon * 10))
        out = []
        for total in self.totals:
            noise = sd * mechanism.unpack(source.gaussian(mechanism.shape[0], 1.0))
            if share == 3:  # z alone: sensitivity B²/2, plain noise
                noise[-1, :-1] /= math.sqrt(2.0)
                noise[:-1, -1] = noise[-1, :-1]
                out.append(self._moments(total + noise, sd, 0.5 * sd))
            else:
                out.append(self._moments(total + noise, sd))
        return out

    def fit(
        self, method: str, epsilon: float, chains: int = 2, draws: int = 500, tell: bool = False
    ) -> Any:
        """Fit one method to the release; ``tell`` it the prior of the features."""
        told: dict[str, Any] = {"freedom": self.d + 1.0, "features": self.scale}
        if not tell and method not in ("MCMC-normalX", "MCMC-B&S"):
            told: dict[str, Any] = {}
        prior = Prior(sd=1.0, noise_shape=3.0, noise_scale=2.0, **told)
        moments = self.release(epsilon, 3 if method == "adaSSP" else 1)
        rng = generator(self.seed, f"{method} {epsilon}")
        return posterior(moments, method, prior=prior, chains=chains, draws=draws, rng=rng)


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    _errors(outcome, quick)
    _distance(outcome, quick)
    _coverage(outcome, quick)
    _estimator_coverage(outcome, quick)
    _misspecified(outcome, quick)
    return outcome


def _errors(outcome: Outcome, quick: bool) -> None:
    """Figure 7.1: 50 data sets at ε = 1, five of them elsewhere."""
    epsilons = (1.0,) if quick else (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
    for d in (2,) if quick else (2, 5):
        for sites in (1, 5) if quick else (1, 5, 10):
            problems = [Problem(seed, d, sites, 1.0) for seed in range(4 if quick else 50)]
            for epsilon in epsilons:
                runs = len(problems) if epsilon == 1.0 else 5
                excess: dict[str, list[float]] = {"zero": []}
                for problem in problems[:runs]:
                    truth, features = problem.theta, problem.features
                    excess["zero"].append(float(truth @ features @ truth))
                    for method in METHODS:
                        gap = problem.fit(method, epsilon).mean - truth
                        excess.setdefault(method, []).append(float(gap @ features @ gap))
                        excess.setdefault(f"{method} θ", []).append(float(gap @ gap) / d)
                for method in ("zero", *METHODS):
                    outcome.add(
                        {"figure": "7.1", "d": d, "J": sites, "ε": epsilon, "method": method,
                         "sets": runs,
                         "excess prediction MSE": float(np.mean(excess[method])),
                         "median": float(np.median(excess[method])),
                         "estimation MSE": float(np.mean(excess.get(f"{method} θ", [np.nan])))}
                    )  # fmt: skip
                if epsilon == 1.0 and not quick:
                    published = {m: float(np.mean(excess[m])) for m in METHODS[1:]}
                    best = min(published, key=published.__getitem__)
                    ours = float(np.mean(excess["auto"]))
                    outcome.check(
                        f"auto, d = {d}, J = {sites}, ε = 1: excess prediction MSE", ours,
                        f"≤ {published[best]:.3g} ({best}, the best published method)",
                        ours <= published[best],
                    )  # fmt: skip


def _distance(outcome: Outcome, quick: bool) -> None:
    """Figure 7.3: MMD² between private and non-private posteriors, d = 2."""
    runs, epsilons = (3, (0.1, 1.0, 10.0)) if quick else (10, (0.1, 0.5, 1.0, 2.0, 5.0, 10.0))
    for sites in (1, 5) if quick else (1, 5, 10):
        problems = [Problem(seed, 2, sites, 1.0) for seed in range(runs)]
        for method in METHODS[:2] if quick else METHODS[:-1]:
            found = []
            for epsilon in epsilons:
                values = []
                for seed, problem in enumerate(problems):
                    private = problem.fit(method, epsilon).flat
                    base = posterior(problem.exact, "conjugate", rng=generator(seed, "base"),
                                     prior=Prior(sd=1.0), chains=1, draws=500).flat  # fmt: skip
                    values.append(mmd(private[:: len(private) // 500][:500], base))
                found.append(float(np.mean(values)))
                outcome.add({"figure": "7.3", "d": 2, "J": sites, "ε": epsilon, "method": method,
                             "sets": runs, "MMD²": found[-1]})  # fmt: skip
            if method in ("auto", "MCMC-normalX"):
                outcome.check(
                    f"{method}, J = {sites}: MMD² at ε = {epsilons[0]:g} and {epsilons[-1]:g}",
                    f"{found[0]:.3g}, {found[-1]:.3g}", "falls", found[-1] < found[0],
                )  # fmt: skip


def _coverage(outcome: Outcome, quick: bool) -> None:
    """Simulation-based calibration: central intervals over data sets drawn from the prior.

    500 data sets for the methods that have a bar at ε = 1 over five sites, 100 otherwise.
    """
    settings = ((2, 5, 1.0),) if quick else ((2, 5, 1.0), (5, 5, 1.0), (2, 1, 1.0), (2, 5, 0.1))
    methods = METHODS[:2] if quick else (*METHODS[:-1], "auto, features unknown")
    for d, sites, epsilon in settings:
        most = 40 if quick else 500 if (sites, epsilon) == (5, 1.0) else 100
        problems = [Problem(10_000 + seed, d, sites, None) for seed in range(most)]
        for method in methods:
            sets = most if method in METHODS[:2] else min(most, 100)
            inside = np.empty((sets, len(LEVELS), d))
            for index, problem in enumerate(problems[:sets]):
                fitted = problem.fit(method.split(",")[0], epsilon, tell=method == "auto")
                for which, level in enumerate(LEVELS):
                    low, high = fitted.interval(level).T
                    inside[index, which] = (low < problem.theta) & (problem.theta < high)
            for which, level in enumerate(LEVELS):
                first, every = inside[:, which, 0].mean(), inside[:, which].mean()
                outcome.add({"figure": "coverage", "d": d, "J": sites, "ε": epsilon,
                             "method": method, "sets": sets, "level": level, "θ₁": float(first),
                             "all θ": float(every)})  # fmt: skip
                if method in ("auto", "MCMC-normalX"):
                    error = 3.0 * math.sqrt(level * (1.0 - level) / sets)
                    outcome.check(
                        f"{method}, d = {d}, J = {sites}, ε = {epsilon:g}: {level:.0%} intervals",
                        float(first), f"{level:g} ± {error:.3f}", abs(first - level) <= error,
                    )  # fmt: skip


def _rows(seed: int, law: str, d: int, n: int) -> tuple[Any, Any, Any]:
    """Return features, responses and coefficients; none of it depends on tacit."""
    rng = generator(seed, f"rows {law} {d}")
    if law == "uniform":
        x = rng.uniform(-1.0, 1.0, (n, d))
    else:
        together = 0.8 if law == "correlated" else 0.0
        root = np.linalg.cholesky((1.0 - together) * np.eye(d) + together)
        x = np.clip(0.35 * rng.standard_normal((n, d)) @ root.T, -1.0, 1.0)
    theta = 0.5 / math.sqrt(d) * rng.standard_normal(d)
    noise = rng.uniform(0.05, 0.3) * rng.standard_normal(n)
    return x, 0.2 * rng.standard_normal() + x @ theta + noise, theta


def _estimator_coverage(outcome: Outcome, quick: bool) -> None:
    """Coverage of the default estimator's intervals for the coefficients, from raw rows."""
    sets = 30 if quick else 100
    settings = ((2, 1, ROWS),) if quick else ((2, 1, ROWS), (5, 5, ROWS), (5, 5, 10_000))
    for law in ("uniform", "normal", "correlated"):
        for d, count, n in settings:
            gaps = []
            for seed in range(sets):
                x, y, theta = _rows(seed, law, d, n)
                parts = np.array_split(np.arange(n), count)
                model = PrivateLinearRegression(
                    bounds=[(-1.0, 1.0)] * d, y_bounds=(-2.0, 2.0), noise="grid", chains=2,
                    draws=500, privacy=Privacy(1.0, 1.0 / n, trust="site"), random_state=seed,
                ).fit([Site(f"site {k}", (x[p], y[p])) for k, p in enumerate(parts)])  # fmt: skip
                gaps.append((model.coef_ - theta) / model.coef_sd_)
            found = np.abs(np.array(gaps))
            for level in LEVELS:
                inside = found < NormalDist().inv_cdf(0.5 + level / 2.0)
                room = 3.0 * math.sqrt(level * (1.0 - level) / sets)
                first = float(inside[:, 0].mean())
                every = float(inside.mean())
                outcome.add({"figure": "estimator", "method": f"auto, {law} features", "d": d,
                             "J": count, "ε": 1.0, "sets": sets, "level": level, "θ₁": first,
                             "all θ": every})  # fmt: skip
                outcome.check(
                    f"default estimator, {law} features, d = {d}, J = {count}, n = {n:,}: "
                    f"coverage of {level:.0%} intervals", first, f"{level} ± {room:.3f}",
                    abs(first - level) <= room,
                )  # fmt: skip


def _tailed(rng: Any, n: int, law: str) -> tuple[Any, Any]:
    """Return features and responses, about one in a hundred beyond its range."""
    x = rng.uniform(-1.0, 1.0, (n, 2))
    if law == "skewed":
        residual = 0.1 * (rng.lognormal(0.0, 1.0, n) - math.exp(0.5))
    else:
        residual = 0.1 * rng.standard_t(2.5, n)
    return x, 0.1 + x @ np.array([0.3, -0.2]) + residual


def _misspecified(outcome: Outcome, quick: bool) -> None:
    """Coverage under tails: of the clipped target, and of the line behind unclipped rows."""
    sets = 40 if quick else 500
    for law in ("skewed", "heavy on both sides"):
        for n in (1_000,) if quick else (1_000, 10_000):
            settings: dict[str, Any] = {
                "bounds": [(-1.0, 1.0)] * 2, "y_bounds": (-1.0, 1.0), "noise": "grid", "chains": 2,
                "draws": 300, "warmup": 300, "privacy": Privacy(1.0, 1e-6),
            }  # fmt: skip
            design = PrivateLinearRegression(**settings)._agree([2]).design
            many = summarise(_tailed(generator(0, f"target {law}"), 1_000_000, law), design)
            whole = many.total.value()
            fitted = np.linalg.solve(whole[:-1, :-1], whole[:-1, -1])
            aims = {"clipped": np.array([design.constant * fitted[0], *fitted[1:]]),
                    "unclipped": np.array([0.1, 0.3, -0.2])}  # fmt: skip
            inside: dict[str, list[Any]] = {aim: [] for aim in aims}
            for seed in range(sets):
                rows = _tailed(generator(seed, f"rows {law}"), n, law)
                model = PrivateLinearRegression(**settings, random_state=seed).fit(*rows)
                told = model.summary().table("coefficients").columns
                low, high = np.array(told["low"]), np.array(told["high"])
                for aim, truth in aims.items():
                    inside[aim].append((low <= truth) & (truth <= high))
            for aim, found in inside.items():
                every = float(np.mean(found))
                outcome.add({"figure": "tails", "method": f"auto, {law}", "n": n, "ε": 1.0,
                             "sets": sets, "target": aim, "level": 0.9, "all θ": every,
                             "intercept": float(np.mean(found, axis=0)[0])})  # fmt: skip
                if aim == "clipped":
                    least = 0.87 - 2.0 * math.sqrt(0.87 * 0.13 / (3 * sets))
                    outcome.check(f"auto, {law}, n = {n:,}: 90 % intervals of the clipped target",
                                  every, f"≥ {least:.3f}", every >= least)  # fmt: skip
