"""`Langevin`: private stochastic gradient Langevin dynamics over sites.

Source: Ermiş (2020), Algorithms 1 and 2, with the changes of PRIVACY B1.

**What leaves a site.** In every round a site draws a Poisson sample of its units from the secret
stream, adds up the clipped gradients of the sampled units (`tacit.inference.clipped`), and passes
the sum over *all* gated factors through the gate as one Gaussian release. Only the shared factors'
part is sent. Everything the next round depends on is that release, or came from the coordinator.

**Sensitivity.** ``unit="entry"``: all factors are gated, the protected entity's included. Given
them, one entry contributes one gradient, scaled to a norm of at most G after all its factors are
put together. ``unit="user"``: the protected entity's factor is not kept at all; a user's row is
solved anew from its own cells and the gated factors, and the user's gradient over all other
factors is scaled to G. Either way the sum, given earlier releases, is Σ f(unit; released) over the
sample with ‖f‖ ≤ G: adding or removing a unit moves it by at most G (rounding included), and
replacing a value swaps one f for another, which the accountant treats as the Poisson-sampled
Gaussian under replacement. Every round is an adaptive Gaussian release, and rounds compose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.joint import JointMethod, Problem
from tacit.estimators.joint_als import is_matrix
from tacit.estimators.joint_rules import RULES, PublishedSteps, published_steps
from tacit.estimators.joint_sides import LangevinCoordinator, LangevinPart
from tacit.estimators.joint_walk import TYPICAL, combinations_of, relation_scale, relation_weight
from tacit.mechanisms.additive import Gaussian, PoissonSampled
from tacit.privacy.calibration import calibrate
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    compose,
    repeat,
)

if TYPE_CHECKING:
    import numpy as np

    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

__all__ = ["Langevin"]


@dataclass(frozen=True)
class Langevin(JointMethod):
    """DP-SGLD over sites; all settings are public.

    Parameters
    ----------
    rounds, rate
        How many rounds, and the probability with which a unit is sampled in each.
    clip
        The largest L2 norm G of one unit's gradient; None: `default_clip`.
    step, decay
        κ₀ and ρ of κ_t = κ₀/t^ρ; without κ₀ steps adapt to the released gradients.
    reach
        How far one adaptive step moves a factor, relative to its scale.
    langevin
        Whether inference noise fills up to the variance 2κ_t (otherwise: DP-SGD).
    burn_in
        The share of rounds before iterates are averaged.
    precision
        Prior precision of a factor entry, relative to its public scale (normal model).
    shape, mean
        Gamma prior (KL): shape ≥ 1, and mean relative to the factor's public scale.
    inner
        Multiplicative steps for a user's own row (KL, ``unit="user"``).
    limit
        The most cells of one user that count towards its gradient (``unit="user"``).
    offsets
        Whether two columns are held constant, so that the others' offsets and the user's offset
        have columns of their own (Euclidean, plain CP, rank of at least 3); ``"auto"``: for a
        matrix where that is possible.
    start
        Shared factors to start from, by name.
    rule, level
        With ``calibration="published"``: whose steps and noise (`joint_rules.RULES`), and
        ``"entry"`` (the thesis's user-level protocol) or ``"site"`` (its site-level one).

    Examples
    --------
    >>> Langevin(rounds=50, rate=0.2).clip is None
    True
    """

    rounds: int = 50
    rate: float = 1.0
    clip: float | None = None
    step: float | None = None
    decay: float = 0.51
    reach: float = 0.5
    langevin: bool = True
    burn_in: float = 0.5
    precision: float = 1.0
    shape: float = 1.0
    mean: float = 2.0
    inner: int = 10
    limit: int | None = None
    offsets: bool | str = "auto"
    start: Mapping[str, Any] | None = None
    rule: str | None = None
    level: str = "entry"

    def __post_init__(self) -> None:
        positive = Real(0, open_low=True)
        check("rounds", self.rounds, Integer(1))
        check("rate", self.rate, Real(2.0**-40, 1))
        check("clip", self.clip, AnyOf(positive, None))
        check("step", self.step, AnyOf(positive, None))
        check("decay", self.decay, Real(0, 1))
        check("reach", self.reach, positive)
        check("langevin", self.langevin, OneOf(True, False))
        check("burn_in", self.burn_in, Real(0, 1, open_high=True))
        check("precision", self.precision, positive)
        check("shape", self.shape, Real(1))
        check("mean", self.mean, positive)
        check("inner", self.inner, Integer(1))
        check("limit", self.limit, AnyOf(Integer(1), None))
        check("offsets", self.offsets, OneOf("auto", True, False))
        check("rule", self.rule, AnyOf(OneOf(*RULES), None))
        check("level", self.level, OneOf("entry", "site"))

    # -- what is public ---------------------------------------------------------------------

    def check(self, problem: Problem) -> None:
        """Raise where the method cannot solve the problem as it is stated."""
        powers = {problem.model.powers[name] for name in problem.model.forms}
        if len(powers) > 1 or not powers <= {0.0, 1.0}:
            raise ParameterError(
                "divergence must be 'euclidean' or 'kl', the same for all relations, for 'sgld'"
            )
        if problem.unit not in ("entry", "user"):
            raise ParameterError(f"privacy.unit must be 'entry' or 'user', got {problem.unit!r}")
        if problem.privacy is not None and problem.privacy.trust not in ("central", "site"):
            raise ParameterError(
                f"privacy.trust must be 'central' or 'site', got {problem.privacy.trust!r}"
            )
        for name, (low, _) in problem.bounds.items():
            if powers == {1.0} and low < 0.0:
                raise ParameterError(f"bounds of {name!r} must not be negative for 'kl': {low:g}")
            if problem.unit == "user" and problem.protected not in problem.model.names(name):
                raise ParameterError(
                    f"relation {name!r} does not name the protected entity "
                    f"{problem.protected!r}: pass it as public, or ask for unit='entry'"
                )
        for name in problem.model.forms:
            if name not in problem.bounds and problem.protected in problem.model.names(name):
                raise ParameterError(
                    f"the public relation {name!r} names the protected entity "
                    f"{problem.protected!r}, whose factor never leaves a site"
                )
        if not self.sent(problem):
            raise ParameterError(
                "shared must name at least one factor of a private relation: there is nothing to "
                "learn together"
            )
        self._check_noise(problem)
        self._check_offsets(problem)

    def _check_noise(self, problem: Problem) -> None:
        privacy = problem.privacy
        if problem.calibration == "published":
            if self.rule is None:
                raise ParameterError(f"calibration='published' needs rule=…, one of {list(RULES)}")
            if not problem.noisy or problem.unit != "entry":
                raise ParameterError(
                    "published rules are for unit='entry' and a finite epsilon: what the thesis "
                    "calls user-level protects one entry"
                )
        elif self.rule is not None or self.level != "entry":
            raise ParameterError("rule and level='site' exist with calibration='published' only")
        if problem.noisy and privacy is not None:
            if privacy.delta == 0.0:
                raise ParameterError("privacy.delta must be above 0 for Gaussian noise")
            replaced = privacy.neighbours == REPLACE and self.rate < 1.0
            if replaced and problem.accountant == "rdp":
                raise ParameterError(
                    "the rdp accountant does not cover Poisson samples under replace-one: pass "
                    "accountant='pld', neighbours='add-remove-one', or rate=1"
                )

    def _check_offsets(self, problem: Problem) -> None:
        if self.offsets is True and not self._can_offset(problem):
            raise ParameterError(
                "offsets=True needs divergence='euclidean', forms that share one latent index, "
                "and a rank of at least 3"
            )

    @staticmethod
    def _can_offset(problem: Problem) -> bool:
        model = problem.model
        letters = {latents for tokens in model.forms.values() for _, latents in tokens}
        plain = len(letters) == 1 and len(next(iter(letters))) == 1
        return plain and min(model.ranks.values()) >= 3 and 1.0 not in model.powers.values()

    def has_offsets(self, problem: Problem) -> bool:
        """Return whether columns are held constant for offsets."""
        if self.offsets == "auto":
            one = len(problem.model.forms) == 1 and self.rule is None
            return one and is_matrix(problem) and self._can_offset(problem)
        return bool(self.offsets)

    def sent(self, problem: Problem) -> tuple[str, ...]:
        """Return the shared factors that private relations use: those that sites send."""
        used = {f for name in problem.bounds for f in problem.model.names(name)}
        return tuple(name for name in problem.shared if name in used)

    def default_clip(self, problem: Problem) -> float:
        """Return G: ``clip``, or an eighth of the typical gradient at the factors' public scale.

        That gradient is a residual of 0.4 (values mapped to [−1, 1]; KL: a slope of one) times the
        norm of the products of the other factors' rows, for the weight 1/φ. A user's cells add up;
        their number is private, so it is taken to be √(cells that a user can have). Most gradients
        are then clipped: steps adapt to the length of the sum, so that only directions count, and
        the noise is as small as the clip.
        """
        if self.clip is not None:
            return self.clip
        norms = []
        for name, (low, high) in problem.bounds.items():
            tokens, scale = problem.model.forms[name], relation_scale(problem, name)
            combinations = combinations_of(problem.model, name)
            row = scale ** (len(tokens) - 1) * math.sqrt(combinations * len(tokens))
            slope = TYPICAL if problem.model.powers[name] == 0.0 else 1.0
            norm = slope * row * relation_weight(problem, name, low, high)
            if problem.unit == "user":
                cells = math.prod(problem.sizes.get(f, 1) for f, _ in tokens)
                cells = min(cells, (self.limit or cells) ** 2)
                norm *= math.sqrt(math.sqrt(cells))
            norms.append(norm)
        return max(norms) / 8.0

    def published(self, problem: Problem) -> PublishedSteps | None:
        """Return a paper's steps and noise, where published."""
        if problem.calibration != "published" or self.rule is None or problem.privacy is None:
            return None
        # the largest squared loss of a value in [−1, 1]
        bound = max(2.0 * relation_weight(problem, n, *b) for n, b in problem.bounds.items())
        return published_steps(
            self.rule, epsilon=problem.privacy.epsilon, delta=problem.privacy.delta,
            rate=self.rate, rounds=self.rounds, clip=self.default_clip(problem), step=self.step,
            bound=bound,
        )  # fmt: skip

    def multiplier(self, problem: Problem, round: int) -> float:
        """Return the noise multiplier of a round, 0 where there is no noise."""
        if not problem.noisy or problem.privacy is None:
            return 0.0
        published = self.published(problem)
        if published is not None:
            return published.multipliers[round]
        privacy = problem.privacy
        return _calibrated(
            privacy.epsilon, privacy.delta, self.rate, self.rounds, self.default_clip(problem),
            str(privacy.neighbours), problem.accountant,
        )  # fmt: skip

    def mechanism(self, problem: Problem, round: int, size: int) -> PoissonSampled:
        """Return the release of one round of ``size`` numbers.

        Sites release vectors of different lengths, yet one price holds for all: scale and event
        follow from G alone, and the clip of a unit is G less what rounding to the grid may add.
        """
        clip = self.default_clip(problem)
        multiplier = self.multiplier(problem, round)
        neighbours = ADD_REMOVE if problem.privacy is None else str(problem.privacy.neighbours)
        inner = Gaussian.within(multiplier, clip, (size,))
        return PoissonSampled(inner, self.rate, neighbours)

    def schedule(self, problem: Problem) -> DpEvent:
        """Return everything that one site releases in a fit."""
        if not problem.noisy or problem.privacy is None:
            return NonPrivateDpEvent()
        clip = self.default_clip(problem)
        published = self.published(problem)
        multipliers = (
            [self.multiplier(problem, 0)] * self.rounds
            if published is None
            else list(published.multipliers)
        )
        neighbours = str(problem.privacy.neighbours)
        return compose(_round_event(m, clip, self.rate, neighbours) for m in multipliers)

    def assumptions(self, problem: Problem) -> tuple[str, ...]:
        """Return what a certificate has to list besides the bounds and sizes."""
        what = "entry's" if problem.unit == "entry" else "user's"
        notes = [
            f"each {what} gradient is clipped to {self.default_clip(problem):g} and sampled with "
            f"probability {self.rate:g} in each of {self.rounds} rounds"
        ]
        if problem.unit == "entry" and self.level == "entry":
            notes.append(
                f"the factor of {problem.protected!r} follows from releases until the end; what a "
                "site then solves from its raw data for its own predictions stays there"
            )
        if self.level == "site":
            notes.append(
                f"the factor of {problem.protected!r} is updated from raw data and enters every "
                "message: ε is conditional on that factor being public, and no finite ε holds "
                "without that"
            )
        return tuple(notes)

    def claim(self, problem: Problem) -> tuple[float, str] | None:
        """Return the ε that a paper claims and what the claim leaves out, where published."""
        published = self.published(problem)
        if published is None or problem.privacy is None:
            return None
        text = published.claim
        if self.level == "site":
            text += (
                f". At site level the factor of {problem.protected!r} is unprotected and leaks "
                "through every gradient: the ε computed here holds only if that factor were public"
            )
        return problem.privacy.epsilon, text

    # -- the two sides ------------------------------------------------------------------------

    def length(self, problem: Problem) -> int:
        """Return how many rounds a fit has."""
        return self.rounds

    def coordinator(
        self, problem: Problem, public: Mapping[str, Relation], rng: np.random.Generator
    ) -> LangevinCoordinator:
        """Return the coordinator; ``public`` holds relations that are no secret."""
        return LangevinCoordinator(self, problem, public, rng)

    def part(
        self,
        problem: Problem,
        name: str,
        relations: Mapping[str, Relation],
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> LangevinPart:
        """Return a site's part."""
        return LangevinPart(self, problem, name, relations, reservation, noise, rng)


def _round_event(multiplier: float, clip: float, rate: float, neighbours: str) -> DpEvent:
    """Return the event of one round, as `Gaussian.within` has it."""
    noise = multiplier * clip * (1.0 + 2.0**-50) / clip
    return PoissonSampledDpEvent(rate, GaussianDpEvent(noise), neighbours)


@lru_cache(maxsize=64)
def _calibrated(
    epsilon: float,
    delta: float,
    rate: float,
    rounds: int,
    clip: float,
    neighbours: str,
    accountant: str,
) -> float:
    """Return the least noise whose very events meet the guarantee.

    An accountant's ε is not monotone in the last digits: it is asked about what will be charged.
    """
    return calibrate(
        lambda noise: repeat(_round_event(noise, clip, rate, neighbours), rounds),
        epsilon, delta, accountant=accountant,
    )  # fmt: skip
