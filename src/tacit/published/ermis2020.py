"""Langevin dynamics over sites as published: noise, step sizes, protocols, and what they claim.

Source: Ermiş (2020), "the thesis" below: Theorems 4.1–4.5, (4.27), appendices B and C, and the
methods that it compares with. PRIVACY B1 says what is wrong with each. A step moves a factor by
η_t/q·(Σ of clipped gradients + z_t·G·N(0, 1)), with q the sampling rate and G the clip; a rule is
its η_t and its noise z_t. They serve the reproduction of tables alone: a ledger is charged what
they really cost, and a certificate shows that beside the claim.

At ``level="entry"`` (the thesis's user-level protocol) all factors pass the gate. At
``level="site"`` the protected entity's factor is updated from raw data and enters every message:
from the second round on one entry moves a release by more than the clip, so that ε is conditional
on that factor being public, and no finite ε holds without that.

Hua et al. (2015) perturb the objective, with another protocol: `tacit.published.hua2015_hu2023`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np

from tacit._core.check import OneOf, check
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.estimators.agreement import Asked, Step
from tacit.estimators.gate import Gate
from tacit.factorization.arrays import Arrays, Floats, Integers
from tacit.factorization.langevin.agreement import LangevinAgreement
from tacit.factorization.langevin.method import Langevin
from tacit.factorization.langevin.numerics.clipped_gradients import CellTable, entry_sums
from tacit.factorization.langevin.numerics.steps import StepRule, Walk
from tacit.factorization.langevin.scales import relation_weight
from tacit.factorization.langevin.sides import LangevinSite
from tacit.factorization.together.neighbours import small_problems
from tacit.factorization.together.problem import Problem
from tacit.mechanisms.grid import GridSum
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.guarantee import Privacy
from tacit.published.noise import advanced_composition_noise, langevin_step_size, zcdp_noise

__all__ = [
    "RULES",
    "PublishedLangevin",
    "PublishedLangevinAgreement",
    "PublishedSteps",
    "SiteLevelAgreement",
    "published_steps",
]

RULES = ("ermis-zcdp", "ermis-ac", "wang2015", "li2019", "li2019-fixed", "liu2015")


@dataclass(frozen=True)
class PublishedSteps:
    """What a paper does in each round."""

    multipliers: tuple[float, ...]  # z_t: the deviation of the noise over the clip of one unit
    sizes: tuple[float, ...]  # η_t on the estimated sum of gradients
    claim: str  # what the paper's claim leaves out


@lru_cache(maxsize=64)
def published_steps(
    rule: str,
    *,
    epsilon: float,
    delta: float,
    rate: float,
    rounds: int,
    clip: float,
    step: float | None,
    bound: float,
) -> PublishedSteps:
    """Return a rule's noise and step sizes for T rounds, with q, G, and the ε and δ of the claim.

    ``step`` is the η of ``"liu2015"``, which the paper leaves to the user, in place of 1e-3;
    ``bound`` the largest loss of one unit, which ``"liu2015"`` divides by.
    """
    times = range(1, rounds + 1)
    langevin = [
        langevin_step_size(
            t, epsilon=epsilon, delta=delta, entries=rounds, passes=1, batch=1, lipschitz=clip
        )
        for t in times
    ]
    if rule in ("ermis-zcdp", "ermis-ac"):
        # the thesis leaves δ_iter open; these shares reproduce its printed σ (2.87 and 8.14)
        recipe, share = (
            (zcdp_noise, 0.06) if rule == "ermis-zcdp" else (advanced_composition_noise, 0.48)
        )
        each = share * delta / (rounds * rate)
        noise = recipe(epsilon, delta, rate=rate, compositions=rounds, delta_iter=each)
        claim = f"{noise.claim}; clipping is per entry here, where the thesis clips the sum"
        return PublishedSteps((noise.noise_multiplier,) * rounds, tuple(langevin), claim)
    if rule == "wang2015":
        # plain Langevin noise of variance η_t: z·G·η/q = √η
        multipliers = tuple(rate / (clip * math.sqrt(size)) for size in langevin)
        return PublishedSteps(
            multipliers,
            tuple(langevin),
            "the step size is meant to make plain Langevin noise private by advanced composition "
            "of single steps, with a Lipschitz constant that is taken to be the clip",
        )
    if rule in ("li2019", "li2019-fixed"):
        # Theorem 4.1 (3), or Theorem 4.2 where the step is fixed, with their unknown constants 1.
        # The data size S cancels: the loss is an average there, and Langevin noise of variance
        # η_t/S meets a step of η_t/S on the sum.
        falls = 1 / 3 if rule == "li2019" else 0.0
        spread = clip**2 * rounds ** (1.0 - falls) * math.log(1.0 / delta)
        sizes = tuple(epsilon**2 * t**-falls / spread for t in times)
        return PublishedSteps(
            tuple(rate / (clip * math.sqrt(size)) for size in sizes),
            sizes,
            "the theorem's constants are never given (1 is used), and its conditions on ε, T and "
            "q are not checked",
        )
    if rule == "liu2015":
        size = 1e-3 if step is None else step
        scale = epsilon / (4.0 * bound)  # the temperature of the exponential mechanism
        return PublishedSteps(
            (rate / (clip * math.sqrt(size) * scale),) * rounds,
            (size * scale,) * rounds,
            "the claim is that of one exact sample from the posterior at a temperature of "
            "ε/4B: it assumes that the chain is stationary and charges its steps nothing",
        )
    raise ParameterError(f"rule must be one of {list(RULES)}, got {rule!r}")


@dataclass(frozen=True)
class PublishedLangevin(Langevin):
    """Langevin dynamics with a paper's own noise and steps, for `tacit.PrivateFactorization`.

    Parameters
    ----------
    rule
        Whose steps and noise: one of `RULES`. The other settings are those of `Langevin`.
    level
        ``"entry"`` (the thesis's user-level protocol) or ``"site"`` (its site-level one).

    Examples
    --------
    >>> PublishedLangevin(rounds=4, sampling_rate=0.3, rule="wang2015").level
    'entry'
    """

    clipped: str = "entry"
    own_effects: bool = False  # a paper predicts from factors alone
    rule: str = "ermis-zcdp"
    level: str = "entry"

    told: ClassVar[tuple[str, ...]] = (*Langevin.told, "rule", "level")

    def __post_init__(self) -> None:
        super().__post_init__()
        check("rule", self.rule, OneOf(*RULES))
        check("level", self.level, OneOf("entry", "site"))

    def agree(self, problem: Problem) -> PublishedLangevinAgreement:
        """Return what is public about a fit; raise where this cannot solve the problem."""
        if not problem.noisy or problem.unit != "entry":
            raise ParameterError(
                "published rules are for unit='entry' and a finite epsilon: what the thesis "
                "calls user-level protects one entry"
            )
        self._check(problem)
        if self.level == "site":
            return SiteLevelAgreement(problem, self)
        return PublishedLangevinAgreement(problem, self)


class PublishedWalk(Walk):
    """Factors that move by given step sizes; the noise of a release is all there is."""

    def __init__(
        self, rule: StepRule, values: Arrays, seed: int, sizes: tuple[float, ...]
    ) -> None:
        super().__init__(rule._replace(langevin=False), values, seed)
        self.sizes = sizes

    def step_size(self, name: str, gradient: Floats) -> float:
        """Return η_t."""
        return self.sizes[self.moves]


@dataclass(frozen=True)
class PublishedLangevinAgreement(LangevinAgreement):
    """Rounds with a paper's noise, each a step of its own."""

    differs = False  # no paper has an ε by site

    method: PublishedLangevin

    @cached_property
    def published(self) -> PublishedSteps:
        """The paper's noise and steps."""
        problem, privacy, method = self.problem, self._request, self.method
        # the largest squared loss of a value in [−1, 1]
        bound = max(2.0 * relation_weight(problem, n, *b) for n, b in problem.bounds.items())
        return published_steps(
            method.rule,
            epsilon=privacy.epsilon,
            delta=privacy.delta,
            rate=method.sampling_rate,
            rounds=method.rounds,
            clip=self.clip,
            step=method.step_size,
            bound=bound,
        )

    @property
    def _request(self) -> Privacy:
        assert self.problem.privacy is not None
        return self.problem.privacy

    @property
    def has_offsets(self) -> bool:
        """Whether columns are held constant: no paper does that by itself."""
        return self.method.offsets is True

    def walk(self, values: Arrays, seed: int) -> PublishedWalk:
        """Return factors that move by the paper's steps."""
        return PublishedWalk(self.rule, values, seed, self.published.sizes)

    def multiplier(self, round: int) -> float:
        """Return the paper's noise multiplier."""
        return self.published.multipliers[round]

    def step_name(self, round: int) -> str:
        """Return the name of a round: noise may differ between them."""
        return f"round {round}"

    def _steps(self) -> tuple[Step, ...]:
        return tuple(self._step(self.step_name(t), t, 1) for t in range(self.method.rounds))

    @property
    def claim(self) -> tuple[float, str]:
        """The ε that the paper claims, and what the claim leaves out."""
        return self._request.epsilon, self.published.claim

    @property
    def charged(self) -> Privacy:
        """What the noise really gives."""
        spent = epsilon_of(self.event, self._request.delta)
        return self._request.with_epsilon(spent * 1.001)

    @classmethod
    def examples(cls) -> Iterator[LangevinAgreement]:
        """Every rule."""
        problem = next(p for p in _entries() if 0.0 in p.model.powers.values())
        for rule in RULES:
            yield PublishedLangevin(2, clip=0.5, rule=rule).agree(problem)


@dataclass(frozen=True)
class SiteLevelAgreement(PublishedLangevinAgreement):
    """The thesis's site-level protocol, whose private factors follow from raw data."""

    conditional = True

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Those of the rounds, and the one that ε is conditional on."""
        protected = self.problem.protected
        released = f"the factor of {protected!r} follows from releases until the end"
        kept = tuple(n for n in super().assumptions if not n.startswith(released))
        return (
            *kept,
            f"the factor of {protected!r} is updated from raw data and enters every message: ε is "
            "conditional on that factor being public, and no finite ε holds without that",
        )

    @property
    def claim(self) -> tuple[float, str]:
        """The ε that the thesis claims, and what the claim leaves out."""
        epsilon, text = super().claim
        return epsilon, (
            f"{text}. At site level the factor of {self.problem.protected!r} is unprotected and "
            "leaks through every gradient: the ε computed here holds only if that factor were "
            "public"
        )

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> SiteLevelSite:
        """Return a site with its relations."""
        return SiteLevelSite(self, name, data, gate, generator(seed, f"site {name}"))

    @classmethod
    def examples(cls) -> Iterator[LangevinAgreement]:
        """One round: in later ones no bound holds, which is what is wrong with it."""
        for problem in _entries():
            yield PublishedLangevin(1, clip=0.01, level="site").agree(problem)


def _entries() -> Iterator[Problem]:
    found = small_problems(trusts=("site",), delta=1e-4)
    return (problem for problem in found if problem.unit == "entry")


class SiteLevelSite(LangevinSite):
    """A site whose private factors move along raw gradients, on purpose."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        # shared factors come first, and they alone are gated
        self.gated = sum(math.prod(self.layout.shapes[n]) for n in self.shared)
        self.counted = self._parts(lambda factor: factor in self.shared)
        self._raw = np.zeros(self.layout.size)

    def contribute(
        self, step: Step, asked: Asked, kept: Mapping[str, Any], shard: CellTable, picks: Integers
    ) -> GridSum:
        """Return the clipped gradients of the shared factors; note the raw ones of the others."""
        theta = self.theta(asked, kept)
        self._raw = entry_sums(picks, shard, theta, self.free, ~self.counted, math.inf, 0.0)
        return super().contribute(step, asked, kept, shard, picks)

    def settle(self, step: Step, asked: Asked, released: Any, kept: dict[str, Any]) -> None:
        """Move the private factors along raw gradients."""
        rate = self.agreement.method.sampling_rate
        moved = {n: self.layout.view(self._raw, n) / rate for n in self.walk.values}
        self.walk.move(moved, 0.0)
        kept.update(self.walk.state())
