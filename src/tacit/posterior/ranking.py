"""A ranking of statistics by what a private release of each tells about the parameters.

F(θ) is the Fisher information of a candidate's release at one (ε, δ). Candidates are ranked by the
mean over θ of tr F⁻¹(θ), which the posterior variance approaches (thesis 6.5). Beside it stands
the expected posterior variance tr (F(θ) + J)⁻¹ with J the prior's precision, which never exceeds
what is known without data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit._core.answers import Answer, Answering
from tacit._core.arrays import Array
from tacit._core.rng import generator
from tacit.posterior.answers import ranking_answer
from tacit.posterior.numerics.infer import ParameterPosterior, infer
from tacit.posterior.numerics.information import Information, information
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic
from tacit.posterior.numerics.populations.laws import Population
from tacit.posterior.numerics.priors import ScalarPrior
from tacit.posterior.numerics.splines import clip_to_range, scale_codes
from tacit.posterior.numerics.statistics import Statistic
from tacit.privacy.guarantee import Privacy

__all__ = ["DRAWN", "Candidate", "Comparison", "Ranking"]

_LEARNED = 0.05  # the share of the prior variance that has to go for a release to be informative
_POINTS = 17  # parameters at which candidates are compared
DRAWN = 2 * _POINTS  # draws of a posterior at which they are
_OUTER, _INNER = 300, 200  # Monte Carlo, where nothing else applies: values of y, particles


@dataclass(frozen=True)
class Candidate:
    """One candidate: F(θ) at each parameter, and what it leaves uncertain on average.

    ``variance`` is the mean of tr F⁻¹, ``posterior_variance`` the mean of tr (F + J)⁻¹, and
    ``error`` the standard error of ``variance`` from Monte Carlo, 0 where nothing is simulated.
    """

    statistic: Statistic
    mechanism: str
    information: tuple[Information, ...]
    variance: float
    posterior_variance: float
    error: float
    place: int = 0

    @property
    def name(self) -> str:
        """The statistic's name."""
        return self.statistic.name


@dataclass(frozen=True)
class Ranking(Answering):
    """Candidates, the most informative first.

    ``parameters`` are the θ at which they were compared, ``prior_variance`` what is uncertain
    without data, ``request`` the (ε, δ) and n in words.
    """

    candidates: tuple[Candidate, ...]
    parameters: Array
    prior_variance: float
    request: str

    @property
    def best(self) -> Candidate:
        """The most informative candidate."""
        return self.candidates[0]

    @property
    def informative(self) -> bool:
        """Whether the best candidate would take away at least 5 % of the prior variance."""
        return self.best.posterior_variance <= (1.0 - _LEARNED) * self.prior_variance

    @property
    def advice(self) -> str:
        """What to do, in a sentence or two."""
        best = self.best
        if not self.informative:
            left = min(best.posterior_variance / self.prior_variance, 1.0)
            return (
                f"No candidate is informative {self.request}: even {best.name} would leave "
                f"{left:.0%} of the prior variance. Raise epsilon or the number of people, or "
                "state narrower bounds."
            )
        text = f"Release {best.name} with {best.mechanism} noise {self.request}"
        if len(self.candidates) == 1:
            return text + "."
        second = self.candidates[1]
        ratio = second.variance / best.variance if best.variance > 0.0 else math.inf
        room = 3.0 * math.hypot(best.error / best.variance, second.error / second.variance)
        if math.isfinite(ratio) and ratio - 1.0 <= max(room, 1e-9):
            return text + f"; {second.name} does as well, as far as this can tell."
        more = f"{ratio:.3g} times the variance" if math.isfinite(ratio) else "far more variance"
        return text + f"; the next best, {second.name}, leaves {more}."

    def table(self) -> list[dict[str, Any]]:
        """Return one row for each candidate."""
        return [
            {
                "rank": rank,
                "statistic": c.name,
                "mechanism": c.mechanism,
                "mean tr F⁻¹": c.variance,
                "standard error": c.error,
                "expected posterior variance": c.posterior_variance,
            }
            for rank, c in enumerate(self.candidates, 1)
        ]

    def _answer(self, level: float) -> Answer:
        return ranking_answer(self, level)


@dataclass(frozen=True)
class Comparison:
    """Under which model statistics are compared and inferred from; no release depends on it."""

    population: Population
    prior: ScalarPrior | Sequence[ScalarPrior] | None  # None: flat over what bounds leave possible
    bounds: tuple[float, float]  # of a person's number, public
    parameters: Any = None  # the θ at which to compare; None spreads 17 over the prior
    chains: int = 4
    draws: int = 2000
    warmup: int = 1000

    @property
    def priors(self) -> tuple[ScalarPrior, ...]:
        """One prior for each parameter."""
        if self.prior is None:
            return self.population.default_prior(self.bounds)
        return (self.prior,) if isinstance(self.prior, ScalarPrior) else tuple(self.prior)

    @property
    def points(self) -> Array:
        """The parameters at which candidates are compared before any data, (points, p)."""
        if self.parameters is not None:
            return np.asarray(self.parameters, np.float64).reshape(-1, self.population.dimension)
        levels = (np.arange(_POINTS) + 0.5) / _POINTS
        columns = []
        scales = scale_codes(self.population.scales)
        for k, (prior, scale) in enumerate(zip(self.priors, scales, strict=True)):
            # a different order for each parameter, so that together they fill the prior
            turn = np.argsort((np.arange(_POINTS) * (5 * k + 1)) % _POINTS)
            columns.append(clip_to_range(prior, int(scale), prior.quantile(levels)[turn]))
        return np.column_stack(columns)

    def drawn(self, posterior: ParameterPosterior, rng: np.random.Generator) -> Array:
        """Return the parameters at which candidates are compared given a first release."""
        picked = rng.choice(len(posterior.flat), DRAWN, replace=False)
        return posterior.flat[picked]

    def rank(
        self, planned: Sequence[NoisyStatistic], thetas: Array, privacy: Privacy, seed: int | None
    ) -> Ranking:
        """Return the ranking of planned releases at parameters (points, p)."""
        at = f"ε = {privacy.epsilon:g}, δ = {privacy.delta:g}"
        request = f"at {at} for {planned[0].size} people"
        rng = generator(seed, "information")
        precision = np.array([1.0 / prior.variance for prior in self.priors])
        found = [
            replace(_candidate(plan, self.population, precision, thetas, rng), place=place)
            for place, plan in enumerate(planned)
        ]
        ordered = tuple(sorted(found, key=lambda c: (c.variance, c.posterior_variance)))
        with np.errstate(divide="ignore"):
            return Ranking(ordered, thetas, float(np.sum(1.0 / precision)), request)

    def infer(
        self, releases: Sequence[NoisyStatistic], rng: np.random.Generator
    ) -> ParameterPosterior:
        """Return the posterior given what was released."""
        return infer(
            releases,
            self.population,
            self.prior,
            chains=self.chains,
            draws=self.draws,
            warmup=self.warmup,
            rng=rng,
        )


def _candidate(
    planned: NoisyStatistic,
    population: Population,
    precision: Array,
    thetas: Array,
    rng: np.random.Generator,
) -> Candidate:
    parts = tuple(
        information(planned, population, theta, rng=rng, outer=_OUTER, inner=_INNER)
        for theta in thetas
    )
    variances = np.array([part.variance for part in parts])
    # Monte-Carlo error of tr F⁻¹, whose differential is −tr(F⁻¹·dF·F⁻¹)
    errors = [
        part.variance**2 * float(np.abs(part.error).max()) if math.isfinite(part.variance) else 0.0
        for part in parts
    ]
    after = [_left(part.matrix, precision) for part in parts]
    return Candidate(
        planned.statistic,
        planned.noise.name,
        parts,
        float(variances.mean()),
        float(np.mean(after)),
        float(np.linalg.norm(errors)) / len(thetas),
    )


def _left(matrix: Array, precision: Array) -> float:
    """Return tr (F + J)⁻¹ with what Monte Carlo left below 0 in F taken as 0."""
    levels, axes = np.linalg.eigh(matrix)
    whole = (axes * np.maximum(levels, 0.0)) @ axes.T + np.diag(precision)
    levels = np.linalg.eigvalsh(whole)
    return float(np.sum(1.0 / levels)) if levels[0] > 0.0 else math.inf
