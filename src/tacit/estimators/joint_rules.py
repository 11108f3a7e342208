"""Published step rules for Langevin dynamics over sites: noise, step sizes, and what they claim.

Source: Ermiş (2020), "the thesis" below: Theorems 4.1–4.5, (4.27), appendices B and C, and the
methods that it compares with. PRIVACY B1 says what is wrong with each. They serve
``calibration="published"`` alone. A step moves a factor by η_t/q·(Σ of clipped gradients +
z_t·G·N(0, 1)), with q the sampling rate and G the clip; a rule is its η_t and its noise z_t.

Hua et al. (2015) perturb the objective, with another protocol: its place is here as well, as a
rule whose noise is drawn once, when the recommenders' mechanism for it exists.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tacit.errors import ParameterError
from tacit.privacy.published import advanced_composition_noise, langevin_step_size, zcdp_noise

__all__ = ["RULES", "PublishedSteps", "published_steps"]

RULES = ("ermis-zcdp", "ermis-ac", "wang2015", "li2019", "liu2015")


@dataclass(frozen=True)
class PublishedSteps:
    """What a paper does in each round.

    Attributes
    ----------
    multipliers
        z_t: the standard deviation of the noise over the clip of one unit.
    sizes
        η_t on the estimated sum of gradients.
    claim
        What the paper's claim leaves out.
    """

    multipliers: tuple[float, ...]
    sizes: tuple[float, ...]
    claim: str


@lru_cache(maxsize=64)  # a site asks for it in every round
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
    """Return a rule's noise and step sizes.

    Parameters
    ----------
    rule
        One of `RULES`.
    epsilon, delta
        The claim.
    rate, rounds, clip
        q, the number of rounds T, and G.
    step
        The η of ``"liu2015"``, which the paper leaves to the user, in place of 1e-3.
    bound
        The largest loss of one unit, which ``"liu2015"`` divides by.
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
        noise = recipe(
            epsilon, delta, rate=rate, compositions=rounds,
            delta_iter=share * delta / (rounds * rate),
        )  # fmt: skip
        claim = f"{noise.claim}; clipping is per entry here, where the thesis clips the sum"
        return PublishedSteps((noise.noise_multiplier,) * rounds, tuple(langevin), claim)
    if rule == "wang2015":
        # plain Langevin noise of variance η_t: z·G·η/q = √η
        multipliers = tuple(rate / (clip * math.sqrt(size)) for size in langevin)
        return PublishedSteps(
            multipliers, tuple(langevin),
            "the step size is meant to make plain Langevin noise private by advanced composition "
            "of single steps, with a Lipschitz constant that is taken to be the clip",
        )  # fmt: skip
    if rule == "li2019":
        # Theorem 4.1 (3) with its unknown constant c₂ = 1. The data size S cancels: the loss is an
        # average there, and Langevin noise of variance η_t/S meets a step of η_t/S on the sum.
        spread = clip**2 * rounds ** (2 / 3) * math.log(1.0 / delta)
        sizes = tuple(epsilon**2 * t ** (-1 / 3) / spread for t in times)
        return PublishedSteps(
            tuple(rate / (clip * math.sqrt(size)) for size in sizes), sizes,
            "the theorem's constants c₁ and c₂ are never given (1 is used), and its conditions "
            "on ε, T and q are not checked",
        )  # fmt: skip
    if rule == "liu2015":
        size = 1e-3 if step is None else step
        scale = epsilon / (4.0 * bound)  # the temperature of the exponential mechanism
        return PublishedSteps(
            (rate / (clip * math.sqrt(size) * scale),) * rounds, (size * scale,) * rounds,
            "the claim is that of one exact sample from the posterior at a temperature of "
            "ε/4B: it assumes that the chain is stationary and charges its steps nothing",
        )  # fmt: skip
    raise ParameterError(f"rule must be one of {list(RULES)}, got {rule!r}")
