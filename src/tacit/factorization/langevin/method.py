"""`Langevin`: the settings of private stochastic gradient Langevin dynamics over sites."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit._core.lazy import late
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.factorization.together.problem import Problem
from tacit.factorization.together.shape import FactorizationMethod
from tacit.privacy.events import REPLACE

__all__ = ["Langevin", "can_offset", "sent_factors"]


@dataclass(frozen=True)
class Langevin(FactorizationMethod):
    """DP-SGLD over sites; all settings are public.

    Parameters
    ----------
    rounds, sampling_rate
        How many rounds, and the probability with which a unit is sampled in each.
    clip
        The largest L2 norm G of one unit's gradient; None: `LangevinAgreement.clip`.
    step_size, decay
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
    iterations
        Multiplicative steps for a user's own row (KL, ``unit="user"``).
    rows
        Whether a user's row is ``"solved"`` from its cells in every round, or ``"drawn"`` from its
        law given them, as a posterior asks for (Euclidean, ``unit="user"``).
    clipped
        Whose gradient is clipped where one entry is protected: ``"user"``, all of a user's cells
        together, its row solved anew from them (an entry then is replaced as part of its user);
        or ``"entry"``, each cell by itself, with users' factors that follow noisy gradients.
        ``"auto"``: users, where every private relation names them.
    limit
        The most cells of one user that count towards its gradient (``unit="user"``).
    offsets
        Whether two columns are held constant, so that the others' offsets and the user's offset
        have columns of their own (Euclidean, plain CP, rank of at least 3); ``"auto"``: for a
        matrix where that is possible.
    own_effects
        Whether predictions at a site also rest on what its own cells say by themselves: a
        member's mean, and its mean at one place or for one activity (`numerics.own_effects`);
        under KL factors of members, and of items over the site's members
        (`numerics.own_rates`). Learned factors count as far as they help there. Without it
        predictions are those of the factors alone.
    start
        Shared factors to start from, by name: public ones, or those of an earlier release. The
        certificate lists that they were chosen without looking at the data.

    Examples
    --------
    >>> Langevin(rounds=50, sampling_rate=0.2).clip is None
    True
    """

    rounds: int = 50
    sampling_rate: float = 1.0
    clip: float | None = None
    step_size: float | None = None
    decay: float = 0.51
    reach: float = 0.5
    langevin: bool = True
    burn_in: float = 0.5
    precision: float = 1.0
    shape: float = 1.0
    mean: float = 2.0
    iterations: int = 10
    rows: str = "solved"
    clipped: str = "auto"
    limit: int | None = None
    offsets: bool | str = "auto"
    own_effects: bool = True
    start: Mapping[str, Any] | None = None

    parts: ClassVar[bool] = True
    # where a fit began is no setting of what came of it
    told: ClassVar[tuple[str, ...]] = (
        "rounds", "sampling_rate", "clip", "step_size", "decay", "reach", "langevin", "burn_in",
        "precision", "shape", "mean", "iterations", "rows", "clipped", "limit", "offsets",
        "own_effects",
    )  # fmt: skip

    def __post_init__(self) -> None:
        positive = Real(0, open_low=True)
        check("rounds", self.rounds, Integer(1))
        check("sampling_rate", self.sampling_rate, Real(2.0**-40, 1))
        check("clip", self.clip, AnyOf(positive, None))
        check("step_size", self.step_size, AnyOf(positive, None))
        check("decay", self.decay, Real(0, 1))
        check("reach", self.reach, positive)
        check("langevin", self.langevin, OneOf(True, False))
        check("burn_in", self.burn_in, Real(0, 1, open_high=True))
        check("precision", self.precision, positive)
        check("shape", self.shape, Real(1))
        check("mean", self.mean, positive)
        check("iterations", self.iterations, Integer(1))
        check("rows", self.rows, OneOf("solved", "drawn"))
        check("clipped", self.clipped, OneOf("auto", "entry", "user"))
        check("limit", self.limit, AnyOf(Integer(1), None))
        check("offsets", self.offsets, OneOf("auto", True, False))
        check("own_effects", self.own_effects, OneOf(True, False))

    def agree(self, problem: Problem) -> Agreement:
        """Return what is public about a fit; raise where this cannot solve the problem."""
        self._check(problem)
        found: Agreement = late(f"{__package__}.agreement").LangevinAgreement(problem, self)
        return found

    def by_user(self, problem: Problem) -> bool:
        """Return whether all cells of a user are one contribution.

        For entries that is sound where one is replaced, and not added or removed: a replaced value
        replaces its user's contribution by another.
        """
        if problem.unit == "user":
            return True
        named = all(problem.protected in problem.model.names(name) for name in problem.bounds)
        return self.clipped != "entry" and named and problem.neighbours == REPLACE

    def _check(self, problem: Problem) -> None:
        powers = {problem.model.powers[name] for name in problem.model.forms}
        if len(powers) > 1 or not powers <= {0.0, 1.0}:
            raise ParameterError(
                "divergence must be 'euclidean' or 'kl', the same for all relations, for 'sgld'"
            )
        if problem.unit not in ("entry", "user"):
            raise ParameterError(f"privacy.unit must be 'entry' or 'user', got {problem.unit!r}")
        by_user = self.by_user(problem)
        if self.limit is not None and not by_user:
            raise ParameterError("limit bounds what a user contributes: ask for unit='user'")
        if self.rows == "drawn" and (problem.unit != "user" or powers != {0.0}):
            raise ParameterError(
                "rows='drawn' is for unit='user' under divergence='euclidean': elsewhere rows "
                "are not solved, or not normal"
            )
        if self.clipped != "auto" and by_user != (self.clipped == "user"):
            raise ParameterError(
                f"clipped={self.clipped!r} does not fit: a user's gradient is clipped for "
                "unit='user', and for entries that are replaced where all relations name users"
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
        if not sent_factors(problem):
            raise ParameterError(
                "shared must name at least one factor of a private relation: there is nothing to "
                "learn together"
            )
        if problem.weights:
            raise ParameterError("weights go with method='als' or 'offsets'")
        kept = (
            {*problem.used}
            - {*sent_factors(problem)}
            - ({problem.protected} if by_user else set())
        )
        if problem.open and kept:
            raise ParameterError(
                f"members of {problem.protected!r} can be public where all other factors are "
                f"shared: {sorted(kept)} stay at sites"
            )
        if self.offsets is True and not can_offset(problem):
            raise ParameterError(
                "offsets=True needs divergence='euclidean', forms that share one latent index, "
                "and a rank of at least 3"
            )
        self._check_privacy(problem)

    def _check_privacy(self, problem: Problem) -> None:
        privacy = problem.privacy
        if privacy is None:
            return
        if privacy.trust not in ("central", "site"):
            raise ParameterError(
                f"privacy.trust must be 'central' or 'site', got {privacy.trust!r}"
            )
        if problem.noisy and privacy.delta == 0.0:
            raise ParameterError("privacy.delta must be above 0 for Gaussian noise")
        replaced = privacy.neighbours == REPLACE and self.sampling_rate < 1.0
        if problem.noisy and replaced and problem.accountant == "rdp":
            raise ParameterError(
                "the rdp accountant does not cover Poisson samples under replace-one: pass "
                "accountant='pld', neighbours='add-remove-one', or sampling_rate=1"
            )


def can_offset(problem: Problem) -> bool:
    """Return whether columns can be held constant for offsets."""
    model = problem.model
    letters = {latents for tokens in model.forms.values() for _, latents in tokens}
    plain = len(letters) == 1 and len(next(iter(letters))) == 1
    return plain and min(model.ranks.values()) >= 3 and 1.0 not in model.powers.values()


def sent_factors(problem: Problem) -> tuple[str, ...]:
    """Return the shared factors that private relations use: those that sites send."""
    return tuple(name for name in problem.shared if name in problem.used)
