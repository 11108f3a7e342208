"""A ranking of statistics by what a private release of each tells about the parameters.

F(θ) is the Fisher information of a candidate's release at one (ε, δ). Candidates are ranked by the
mean over θ of tr F⁻¹(θ), which the posterior variance approaches (thesis 6.5). Beside it stands
the expected posterior variance tr (F(θ) + J)⁻¹ with J the prior's precision, which never exceeds
what is known without data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.estimators.statistic_release import ReleasePlan
from tacit.inference.information import Information, information
from tacit.models.populations import Population
from tacit.models.priors import ScalarPrior
from tacit.models.statistics import Statistic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Candidate", "Ranking", "compare"]

_LEARNED = 0.05  # the share of the prior variance that has to go for a release to be informative
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

    @property
    def name(self) -> str:
        """The statistic's name."""
        return self.statistic.name


@dataclass(frozen=True)
class Ranking:
    """Candidates, the most informative first.

    ``parameters`` are the θ at which they were compared, ``prior_variance`` what is uncertain
    without data, ``request`` the (ε, δ) and n in words.
    """

    candidates: tuple[Candidate, ...]
    parameters: NDArray[np.float64]
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
                "rank": rank, "statistic": c.name, "mechanism": c.mechanism,
                "mean tr F⁻¹": c.variance, "standard error": c.error,
                "expected posterior variance": c.posterior_variance,
            }
            for rank, c in enumerate(self.candidates, 1)
        ]  # fmt: skip

    def plot(self, axes: Any = None) -> Any:
        """Draw tr F⁻¹ of every candidate over the first parameter; return the axes."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(6, 4)).subplots()
        order = np.argsort(self.parameters[:, 0])
        for c in self.candidates:
            values = np.array([found.variance for found in c.information])[order]
            axes.plot(self.parameters[order, 0], values, marker=".", label=c.name)
        axes.set_yscale("log")
        axes.set_xlabel("θ")
        axes.set_ylabel("1/F(θ), what a release leaves uncertain")
        axes.legend(fontsize="small")
        return axes


def compare(
    plans: Sequence[ReleasePlan],
    population: Population,
    priors: Sequence[ScalarPrior],
    thetas: NDArray[np.float64],
    request: str,
    rng: np.random.Generator,
) -> Ranking:
    """Return the ranking of planned releases at parameters (points, p)."""
    precision = np.array([1.0 / prior.variance for prior in priors])
    found = [_candidate(plan, population, precision, thetas, rng) for plan in plans]
    ordered = tuple(sorted(found, key=lambda c: (c.variance, c.posterior_variance)))
    with np.errstate(divide="ignore"):
        return Ranking(ordered, thetas, float(np.sum(1.0 / precision)), request)


def _candidate(
    plan: ReleasePlan, population: Population, precision: NDArray[np.float64],
    thetas: NDArray[np.float64], rng: np.random.Generator,
) -> Candidate:  # fmt: skip
    parts = tuple(
        information(plan.planned, population, theta, rng=rng, outer=_OUTER, inner=_INNER)
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
        plan.planned.statistic, plan.name, parts, float(variances.mean()), float(np.mean(after)),
        float(np.linalg.norm(errors)) / len(thetas),
    )  # fmt: skip


def _left(matrix: NDArray[np.float64], precision: NDArray[np.float64]) -> float:
    """Return tr (F + J)⁻¹ with what Monte Carlo left below 0 in F taken as 0."""
    levels, axes = np.linalg.eigh(matrix)
    whole = (axes * np.maximum(levels, 0.0)) @ axes.T + np.diag(precision)
    levels = np.linalg.eigvalsh(whole)
    return float(np.sum(1.0 / levels)) if levels[0] > 0.0 else math.inf
