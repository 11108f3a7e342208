"""What a generalised linear model releases, and why that is private.

**Steps.** First every site releases noisy sums of products of its rows, once
(`tacit.regression.design`, with equal noise on all of them). They say where rows are and how they
spread, and so the frame in which gradients are asked for (`…generalised.numerics.frame`). Then
there are a few rounds: a request names a frame and coefficients, and a site releases the sum of
its rows' weighted, clipped gradients (`…generalised.gradients`). All rounds count in the end, each
by what it is worth (`…generalised.numerics.rounds`). With ``method="one-shot"`` there is none, and
the first release, with all of the budget, is all that the posterior rests on.

**Sensitivity.** The first step is that of a linear regression: one row moves Σ a·aᵀ by ‖a‖² ≤ B²,
another one instead of it by √2·B², whatever the request, which holds nothing. In a round one row
is worth a vector of length one at most, *for every frame and all coefficients that are accepted*,
those of a hostile coordinator included: lengths are bounded after everything that a request says
was applied. So a round moves by 1 where a row is added or removed. Another row instead moves it by
2: two rows that are nearly the same, on both sides of where coefficients that are large enough
separate them, with the labels that these exclude, have gradients that are nearly opposite. Whoever
has k rows moves everything k times as far; where k > 1 replacement is refused.

**Composition.** Every step is a Gaussian, chosen after those before it: with noise multipliers
σ_j they are together one of multiplier (Σ 1/σ_j²)^(−½), and that is what (ε, δ) asks for. The
share of the first step, the number of rounds and how their budgets grow are constants that were
chosen on simulated rows: the first rounds, which are asked far from where they lead, get less.
With more than sixty coefficients there are more rounds, of equal budgets
(`…generalised.numerics.wide`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tacit._core.lazy import late
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement, Coordinating, Neighbours, Start, Step
from tacit.estimators.executors import shards_of
from tacit.estimators.gate import Gate
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.regression.design import Design
from tacit.regression.generalised.gradients import numbers
from tacit.regression.generalised.rows import site_rows
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Participant

__all__ = ["GROWTH", "LARGEST", "ROUNDS", "SHARE", "GeneralisedAgreement", "rounds_for"]

ROUNDS = 10
MANY_ROUNDS = 40  # of equal budgets, where there are many coefficients
MANY = 60  # coefficients above which gradients are followed step by step
GROWTH = 1.3  # of the budget from one round to the next: the first ones only find the way
SHARE = 0.2  # of the budget for the first step, where rounds follow
LARGEST = 2.0**20  # number of a request
_ROOM = 1.0 + 2.0**-40  # for the rounding of multipliers


@dataclass(frozen=True)
class GeneralisedAgreement(Agreement):
    """A release of products of rows, and rounds of gradients.

    Parameters
    ----------
    link
        ``"logistic"`` or ``"poisson"``.
    design
        What a row becomes, and which sums of products are released.
    columns
        The names of the features and, last, of the response.
    privacy, sites
        As in `Agreement`.
    top
        The largest response.
    asked
        How often gradients are asked for; 0: everything follows from the first release.
    rows
        About how many rows all sites have together, where that is public.
    noise
        The kind of noise source.
    shares
        Into how many shares noise is split where only the sum over sites is seen.
    notes
        What else is public about the rows, for certificates.

    Examples
    --------
    >>> design = Design((0.0, 0.5), (1.0, 1.0), statistics="moments")
    >>> agreement = GeneralisedAgreement("logistic", design, ("age", "ill"), Privacy(1.0, 1e-6))
    >>> [step.name for step in agreement.steps][:3], agreement.rounds
    (['moments', 'gradient 1', 'gradient 2'], 11)
    """

    family = "regression"
    trusts = ("central", "site", "aggregator")
    cites: ClassVar[tuple[str, ...]] = ("dwork2006", "ganesh2023")

    link: str
    design: Design
    columns: tuple[str, ...]
    privacy: Privacy | None
    sites: int = 1
    top: float = 1.0
    asked: int = ROUNDS
    rows: float | None = None
    noise: str = "grid"
    shares: int = 1
    notes: tuple[str, ...] = ()

    @property
    def source(self) -> str:  # type: ignore[override]
        """The kind of noise source."""
        return self.noise

    @property
    def logs(self) -> bool:
        """Whether products are those of log(1 + y)."""
        return self.link == "poisson" and self.asked > 0

    @property
    def size(self) -> int:
        """How many coefficients there are, the intercept among them."""
        return self.design.coefficients

    @property
    def wide(self) -> bool:
        """Whether there are too many coefficients for Newton's method."""
        return self.asked > 0 and self.size > MANY

    # -- what is charged -------------------------------------------------------------------

    @cached_property
    def multiplier(self) -> float:
        """The noise of everything together, relative to a sensitivity; 0 without any."""
        privacy = self.privacy
        if privacy is None or math.isinf(privacy.epsilon):
            return 0.0
        if privacy.delta <= 0.0:
            raise ParameterError(
                "privacy.delta must be positive for Gaussian noise: pass Privacy(…, delta=1e-6)"
            )
        return gaussian_sigma(privacy.epsilon, privacy.delta)

    @cached_property
    def moments_noise(self) -> Gaussian:
        """The noise on products of rows."""
        if not self.multiplier:
            return self.design.mechanism(None, self.noise)
        share = SHARE if self.asked else 1.0
        whole = self.multiplier / math.sqrt(share) * _ROOM
        return self._gaussian(whole, self.design.sensitivity, self.design.size)

    @property
    def reach(self) -> float:
        """How far one unit moves the sum of a round."""
        return (2.0 if self.design.neighbours == REPLACE else 1.0) * self.design.rows_per_unit

    @cached_property
    def rounds_noise(self) -> tuple[Gaussian, ...]:
        """The noise of every round."""
        size = numbers(self.size, self.link)
        if not self.multiplier:
            how = self.design.neighbours, self.noise
            return (Gaussian(0.0, self.reach, (size,), *how),) * self.asked
        growth = 1.0 if self.wide else GROWTH
        parts = [growth**k for k in range(self.asked)]
        shares = [(1.0 - SHARE) * part / sum(parts) for part in parts]
        wholes = [self.multiplier / math.sqrt(share) * _ROOM for share in shares]
        return tuple(self._gaussian(whole, self.reach, size) for whole in wholes)

    def _gaussian(self, multiplier: float, sensitivity: float, size: int) -> Gaussian:
        how: dict[str, Any] = {"neighbours": self.design.neighbours, "source": self.noise}
        if self.shares > 1:
            how["shares"] = self.shares
            return GaussianShare.calibrated(multiplier, sensitivity, (size,), **how)
        return Gaussian.calibrated(multiplier, sensitivity, (size,), **how)

    def _steps(self) -> tuple[Step, ...]:
        first, size = self.moments_noise, self.size
        replies = {"sum": ArraySpec((self.design.size,), exponent=first.grid.exponent)}
        if self.design.knows_rows:
            replies["rows"] = ArraySpec((1,), "int64", low=0)
        reach = "the response leaves some of the bound of a row unused"
        moments = Step("moments", first, replies=replies, reach=reach)
        if not self.asked:
            return (moments,)
        asks = {
            "frame": ArraySpec((size, size), low=-LARGEST, high=LARGEST),
            "coefficients": ArraySpec((size,), low=-LARGEST, high=LARGEST),
        }
        if self.link == "poisson":
            asks["residual"] = ArraySpec((1,), low=1e-6 * self.top, high=self.top)
        reach = "coefficients that an honest coordinator asks for leave residuals below one"
        steps = [moments]
        for k, noise in enumerate(self.rounds_noise):
            reply = {"sum": ArraySpec(noise.shape, exponent=noise.grid.exponent)}
            steps.append(Step(f"gradient {k + 1}", noise, asks, reply, reach=reach))
        return tuple(steps)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Ranges, and what is public with them."""
        bounds = zip(self.columns[:-1], self.design.middle, self.design.half, strict=False)
        target = self.columns[-1]
        notes = [f"{name} lies in [{m - h:g}, {m + h:g}]" for name, m, h in bounds]
        if self.link == "poisson":
            notes.append(f"{target} lies in [0, {self.top:g}]")
        else:
            notes.append(f"the two classes of {target} are public")
        notes.append(
            f"rows are scaled to norm {self.design.rows.norm:.6g} after mapping to [-1, 1]"
        )
        if self.asked:
            notes.append("every row's gradient is weighted and clipped to length 1")
        if self.rows is not None:
            notes.append(f"about {self.rows:g} rows, a public number")
        if self.design.knows_rows:
            notes.append("the number of rows is public")
        if self.design.rows_per_unit > 1:
            notes.append(f"at most {self.design.rows_per_unit} rows of one person count")
        notes += self.notes
        if self.sites > 1:
            unit = "row" if self.privacy is None else self.privacy.unit
            notes.append(f"the sites hold different {'people' if unit == 'user' else 'rows'}")
        notes += getattr(self.moments_noise, "assumptions", ())
        return tuple(dict.fromkeys(notes))

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return a site with its rows."""
        made: Participant = late(f"{__package__}.sides").Rows(self, name, shards_of(data), gate)
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Ask for products of rows, and then for gradients where the posterior is."""
        made: Coordinating = late(f"{__package__}.learning").learn(self)
        return made

    def shared(self, result: Any) -> dict[str, Any]:
        """Return the coefficients, of features mapped to [−1, 1]."""
        return {"coefficients": result.mean}

    def worst_case(self) -> Neighbours:
        """One unit more, or another: rows in opposite corners, with opposite responses."""
        middle, half = np.array(self.design.middle[:-1]), np.array(self.design.half[:-1])
        rng = generator(0, "audit")
        x = rng.uniform(-0.5, 0.5, (4 * len(middle) + 4, len(middle)))
        y = self.top * (rng.random(len(x)) < 0.5)
        far = np.ones((1, len(middle)))

        def rows(*more: tuple[Any, float]) -> Any:
            table = np.vstack([x, *(part for part, _ in more)])
            found = np.append(y, [response for _, response in more])
            return site_rows(middle + half * table, found, self.design, self.top, self.logs)

        if self.design.neighbours == ADD_REMOVE:
            return Neighbours(rows(*[(far, self.top)] * self.design.rows_per_unit), rows())
        return Neighbours(rows((far, self.top)), rows((-far, self.top)))

    @classmethod
    def examples(cls) -> Iterator[GeneralisedAgreement]:
        """Both links, with and without rounds, both relations, several rows and shares."""
        names = ("age", "dose", "outcome")
        for link, top in (("logistic", 1.0), ("poisson", 10.0)):
            for neighbours in (ADD_REMOVE, REPLACE):
                privacy = Privacy(1.0, 1e-6, unit="row", neighbours=neighbours)
                design = _example(link, top, neighbours=neighbours)
                yield cls(link, design, names, privacy, top=top, asked=3)
            once = _example(link, top, False)
            bare = Privacy(1.0, 1e-6, unit="row", trust="site")
            yield cls(link, once, names, bare, 2, top=top, asked=0, noise="exact")
            several = _example(link, top, rows_per_unit=3)
            people = Privacy(1.0, 1e-6, unit="user")
            yield cls(link, several, names, people, top=top, asked=2, rows=50.0)


def rounds_for(coefficients: int) -> int:
    """Return how often gradients are asked for, by a public rule.

    >>> rounds_for(10), rounds_for(785)
    (10, 40)
    """
    return ROUNDS if coefficients <= MANY else MANY_ROUNDS


def _example(link: str, top: float, logs: bool = True, **more: Any) -> Design:
    """Return a design of two features."""
    counts = 0.0, math.log1p(top) if logs else top
    middle, half = (0.5, 1.0) if link == "logistic" else counts
    return Design((50.0, 0.0, middle), (50.0, 1.0, half), statistics="moments", **more)
