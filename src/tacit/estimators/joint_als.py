"""Offsets first, then factors by alternating least squares, for matrices of bounded values.

Values are mapped to [−2, 2] by their public bounds. A site's members (users) keep their own offset
and factor at the site; what leaves are sums over members about items, in rounds:

=============  ====================================================  ==========================
round          what a site sends                                     Δ (L2)
=============  ====================================================  ==========================
pattern        item counts, then NᵀN·Q (`tacit.inference.pattern`)   0: public for entries
mean           entry: Σ x                                            4
               user: Σ (own mean/2, 1)                               √2
offsets        entry: per item Σ clip(x − b_i, ±c)                   √(min(2c, 4)² + 4/κ)
               user: per item Σ scaled (clip(x − b_i, ±c), ½)        1
covariance     Σ x_i·x_iᵀ over popular items, ‖x_i‖ ≤ 1              user 1, entry √2
factors        per item Σ scaled e_ij·û_i, ‖û_i‖ = 1                 user 1, entry 2
=============  ====================================================  ==========================

**Entry: offsets.** With b_i = (Σ_j x_ij + κ·r₀)/(n_i + κ), r₀ released before, replacing one value
moves its own term by at most min(2c, 4) and the user's n_i − 1 others by at most 4/(n_i + κ) each
through b_i; (n − 1)/(n + κ)² ≤ 1/(4κ), hence Δ² = min(2c, 4)² + 4/κ (PRIVACY B2). Counts are
public.

**User.** Every member's whole message is scaled below norm one (`tacit.inference.messages`), so
adding or removing a member moves the sum by at most one; replacing one entry replaces at most one
member's message, which moves a sum of messages by at most two and a sum of outer products of unit
vectors by at most √2. A member's own mean and factor are functions of its own cells and of what
was released before, so the bound covers them.

**What the coordinator makes of it** is post-processing: item offsets and factors shrunk by the
known noise (`tacit.inference.shrinkage`). **At the site**, each member's offset and factor are a
ridge regression of its own cells on the released features, with penalties chosen by leaving cells
out; that is prediction at the site, and never leaves it.

The rounds on factors are alternating least squares after Chien et al. (2021): users solve for
their factor from the released item factors, items from the users' noisy sums. There each item has
a noisy Gram matrix; here it is the weight C_j that the offsets' round released, times the
identity: columns are made orthogonal after every round, and rank/2 times fewer numbers share the
budget.
(A released Gram matrix pooled over items made predictions worse on simulated ratings.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.joint import JointCoordinator, JointMethod, Problem, SitePart
from tacit.mechanisms.additive import Gaussian
from tacit.privacy.calibration import calibrate, gaussian_sigma
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    compose,
)

if TYPE_CHECKING:
    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

__all__ = ["AlternatingLeastSquares", "is_matrix"]

HALF = 2.0  # values are mapped to [−2, 2]
PATTERN_ROUNDS = 6
_SLACK = 1.0 + 2.0**-30  # on sensitivities: the rounding of norms
# shares of the squared noise multiplier, by round; see `AlternatingLeastSquares.plan`
_MEAN = {"entry": 0.02, "user": 0.05}
_FACTORS = 0.5
_COVARIANCE = 0.25
# the part of members' energy along one common taste, as a rule: what must stand out from noise
_VISIBLE = 0.05


@dataclass(frozen=True)
class AlternatingLeastSquares(JointMethod):
    """Offsets, and factors by alternating least squares, for one matrix of bounded values.

    Parameters
    ----------
    rounds
        Rounds of alternating least squares after the covariance.
    factors
        Whether factors are learned from private values at all; ``"auto"``: where they would stand
        out from the noise, by ε and the number of members (public for entries, released for
        users).
    pattern
        Whether, for entries, item features are taken from which cells are observed, which is
        public then and costs nothing.
    popular
        Over how many items, the most popular ones, the covariance is taken.
    clip
        c, where a value's distance from its member's mean is clipped, of a half-range of 2.
    prior_weight
        κ, the number of cells that the overall mean counts for in a member's own mean.
    """

    rounds: int = 2
    factors: bool | str = "auto"
    pattern: bool = True
    popular: int = 300
    clip: float = 1.5
    prior_weight: float = 5.0

    def __post_init__(self) -> None:
        check("rounds", self.rounds, Integer(0))
        check("factors", self.factors, OneOf("auto", True, False))
        check("pattern", self.pattern, OneOf(True, False))
        check("popular", self.popular, Integer(2))
        check("clip", self.clip, Real(0, 2 * HALF, open_low=True))
        check("prior_weight", self.prior_weight, Real(0, open_low=True))

    # -- what is public -------------------------------------------------------------------

    def check(self, problem: Problem) -> None:
        """Raise unless there is one matrix with one shared factor."""
        if not is_matrix(problem):
            raise ParameterError(
                "this method factorizes one matrix, such as 'user:k item:k': use method='sgld'"
            )
        if problem.unit not in ("entry", "user"):
            raise ParameterError(
                f"privacy.unit must be 'entry' or 'user' for a factorization, got {problem.unit!r}"
            )
        if problem.unit == "entry" and problem.noisy and neighbours_of(problem) != REPLACE:
            raise ParameterError("entries are replaced: pass neighbours='replace-one'")
        if problem.noisy and problem.privacy is not None and problem.privacy.delta == 0.0:
            raise ParameterError("this method adds Gaussian noise: pass Privacy(…, delta=1e-6)")
        if problem.calibration != "certified":
            raise ParameterError("there is no published calibration of this method")

    def plan(self, problem: Problem) -> dict[str, float]:
        """Return the noisy rounds in order, each with its share of the budget.

        Of users it is not public how many there are, so a round after the offsets is only called
        ``later``: once the first round has released their number, the coordinator has it spent on
        factors, or on the offsets again.
        """
        mean = _MEAN[problem.unit]
        if self.factors is False or (problem.unit == "entry" and not self.planned(problem)):
            return {"mean": mean, "offsets": 1.0 - mean}
        plan = {"mean": mean, "offsets": round(1.0 - mean - _FACTORS, 12)}
        plan["later 0"] = _COVARIANCE if self.rounds else _FACTORS
        for k in range(1, self.rounds + 1):
            plan[f"later {k}"] = (_FACTORS - _COVARIANCE) / self.rounds
        return plan

    def planned(self, problem: Problem) -> bool:
        """Whether factors are learned, where that is known beforehand: by what is public."""
        if self.factors != "auto" or not problem.noisy:
            return self.factors is not False
        return problem.members is not None and self.visible(problem, problem.members)

    def visible(self, problem: Problem, members: float) -> bool:
        """Whether a common taste of that many members would stand out from the noise.

        The covariance of M members has an eigenvalue of about 0.05·M along a common taste; noise
        of standard deviation σ from each of N sites on p items has eigenvalues up to σ·√(2pN).
        """
        privacy = problem.privacy
        if privacy is None or not problem.noisy:
            return True
        noise = gaussian_sigma(privacy.epsilon, privacy.delta) / math.sqrt(_COVARIANCE)
        noise *= self.sensitivities(problem)["covariance"]
        edge = noise * math.sqrt(2.0 * self.width(problem) * problem.sites)
        return _VISIBLE * members > edge

    def width(self, problem: Problem) -> int:
        """Return over how many items the covariance is taken."""
        return min(self.popular, problem.sizes[problem.shared[0]])

    def sensitivities(self, problem: Problem) -> dict[str, float]:
        """Return the L2 sensitivity of every kind of round; see the module."""
        if problem.unit == "entry":
            own = min(2.0 * self.clip, 2.0 * HALF)
            reach = math.sqrt(own**2 + 4.0 / self.prior_weight)
            return {"mean": 2.0 * HALF, "offsets": reach, "covariance": math.sqrt(2.0),
                    "factors": 2.0}  # fmt: skip
        if neighbours_of(problem) == REPLACE:
            return {"mean": 2.0, "offsets": 2.0, "covariance": math.sqrt(2.0), "factors": 2.0}
        return {"mean": math.sqrt(2.0), "offsets": 1.0, "covariance": 1.0, "factors": 1.0}

    def mechanisms(self, problem: Problem) -> dict[str, Gaussian]:
        """Return the mechanism of every noisy round.

        Later rounds have room for either kind of sum and the larger sensitivity, so that what
        they cost does not depend on which of them they turn out to be.
        """
        plan = self.plan(problem)
        items, width = problem.sizes[problem.shared[0]], self.width(problem)
        user = problem.unit == "user"
        bounds = self.sensitivities(problem)
        later = {"covariance": width * (width + 1) // 2, "factors": items * rank_of(problem)}
        if user:
            later["offsets"] = 2 * items
        scale = self._calibrated(problem, plan) if problem.noisy else math.inf
        found = {}
        for name, share in plan.items():
            if name.startswith("later"):
                size, bound = max(later.values()), max(bounds[kind] for kind in later)
            else:
                size = (1 if name == "mean" else items) * (2 if user else 1)
                bound = bounds[name]
            if math.isinf(scale):
                found[name] = Gaussian(0.0, bound * _SLACK, (size,), neighbours_of(problem))
            else:
                found[name] = Gaussian.calibrated(
                    scale / math.sqrt(share), bound * _SLACK, (size,),
                    neighbours=neighbours_of(problem),
                )  # fmt: skip
        return found

    @staticmethod
    def _calibrated(problem: Problem, plan: Mapping[str, float]) -> float:
        """Return the noise multiplier that all rounds together have."""
        privacy = problem.privacy
        assert privacy is not None
        if problem.accountant == "pld":  # Gaussians compose into one: the analytic calibration
            return gaussian_sigma(privacy.epsilon, privacy.delta)
        return calibrate(
            lambda scale: compose(GaussianDpEvent(scale / math.sqrt(s)) for s in plan.values()),
            privacy.epsilon, privacy.delta, accountant=problem.accountant,
        )  # fmt: skip

    def schedule(self, problem: Problem) -> DpEvent:
        """Return every noisy round, composed."""
        if not problem.noisy:
            return NonPrivateDpEvent()
        return compose(m.event for m in self.mechanisms(problem).values())

    def budget(self, problem: Problem) -> dict[str, float]:
        """Return the shares of the rounds."""
        return self.plan(problem)

    def assumptions(self, problem: Problem) -> tuple[str, ...]:
        """Say what members keep to themselves."""
        notes = [
            f"members of {problem.protected!r} keep their own offset and factor at the site: "
            "predictions are the site's own, and are no release"
        ]
        if problem.unit == "entry" and self.pattern:
            notes.append("item features from which cells are observed are shared as they are")
        return tuple(notes)

    # -- the two sides --------------------------------------------------------------------

    def length(self, problem: Problem) -> int:
        """Return how many rounds a fit has, public ones included."""
        return len(self.stages(problem))

    def coordinator(
        self, problem: Problem, public: Mapping[str, Relation], rng: np.random.Generator
    ) -> JointCoordinator:
        """Return the coordinator."""
        from tacit.estimators.joint_als_parts import ItemCoordinator

        return ItemCoordinator(self, problem, rng)

    def part(
        self,
        problem: Problem,
        name: str,
        relations: Mapping[str, Relation],
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> SitePart:
        """Return a site's part."""
        from tacit.estimators.joint_als_parts import MemberPart

        return MemberPart(self, problem, name, relations, reservation, noise)

    def stages(self, problem: Problem) -> list[str]:
        """Return all rounds in order, public ones included."""
        stages = list(self.plan(problem))
        if problem.unit == "entry" and self.pattern:
            stages = ["counts", *(f"pattern {k}" for k in range(PATTERN_ROUNDS)), *stages]
        elif problem.unit == "entry":
            stages = ["counts", *stages]
        return stages


def is_matrix(problem: Problem) -> bool:
    """Return whether there is one matrix whose other factor is shared."""
    forms = problem.model.forms
    tokens = next(iter(forms.values()))
    plain = len(forms) == 1 and len(tokens) == 2 and tokens[0][1] == tokens[1][1]
    return plain and len(problem.shared) == 1


def rank_of(problem: Problem) -> int:
    """Return how many factors are asked for."""
    return math.prod(
        problem.model.ranks[k] for k in dict(next(iter(problem.model.forms.values()))).popitem()[1]
    )


def neighbours_of(problem: Problem) -> str:
    """Return the neighbour relation."""
    return ADD_REMOVE if problem.privacy is None else str(problem.privacy.neighbours)
