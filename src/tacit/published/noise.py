"""The papers' own calibrations, to reproduce their tables and to say what they really cost.

Everything here is used with ``calibration="published"``: its certificate shows the claimed ε
beside the recomputed one, and in words what the claim leaves out (PRIVACY A7, B1).

Sources: B. Ermiş (2020), chapters 4 and 5, appendices C and E, "the thesis" below; and for
`mistyped_gaussian_noise` B. Alparslan (2023), chapters 5.2 and 7 (PRIVACY B5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from tacit._core.check import Integer, Real, check
from tacit.errors import NotCertified, ParameterError
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.calibration import gaussian_event
from tacit.privacy.events import ADD_REMOVE, DpEvent

__all__ = [
    "PRINTED",
    "PublishedNoise",
    "advanced_composition_noise",
    "langevin_step_size",
    "mistyped_gaussian_noise",
    "zcdp_noise",
]

_SINGLE = "the recipe composes (ε, δ) bounds of single steps"


@dataclass(frozen=True)
class PublishedNoise:
    """A noise multiplier as a paper computes it, with what the paper claims for it.

    Attributes
    ----------
    noise_multiplier
        σ relative to the clip norm.
    claimed_epsilon, delta
        The claim.
    rate, steps
        The sampling probability and how many steps are really taken.
    claim
        What the claim leaves out, in words.
    """

    noise_multiplier: float
    claimed_epsilon: float
    delta: float
    rate: float
    steps: int
    claim: str

    def event(self, neighbours: str = ADD_REMOVE) -> DpEvent:
        """Return what is really done, for the accountant."""
        return gaussian_event(
            self.noise_multiplier, rate=self.rate, steps=self.steps, neighbours=neighbours
        )

    def epsilon(self, neighbours: str = ADD_REMOVE) -> float:
        """Return what it really gives, by the privacy-loss distribution."""
        return epsilon_of(self.event(neighbours), self.delta)


def _positive_root(a: float, b: float, c: float) -> float:
    """Return the positive root of a·x² + b·x − c = 0, without cancellation."""
    return 2.0 * c / (b + math.sqrt(b * b + 4.0 * a * c))


def _check(
    epsilon: float, delta: float, rate: float, compositions: int, delta_iter: float
) -> None:
    check("epsilon", epsilon, Real(0, open_low=True))
    check("delta", delta, Real(0, 1, open_low=True, open_high=True))
    check("rate", rate, Real(0, 1, open_low=True))
    check("compositions", compositions, Integer(1))
    check("delta_iter", delta_iter, Real(0, 1, open_low=True, open_high=True))


def advanced_composition_noise(
    epsilon: float,
    delta: float,
    *,
    rate: float,
    compositions: int,
    delta_iter: float,
    steps: int | None = None,
) -> PublishedNoise:
    """Return the noise of the thesis's advanced-composition recipe (appendix E, DPD-AC).

    In three steps, with T = ``compositions`` and δ' = δ − T·ν·δ_iter:

    1. σ' solves ε = sqrt(2T·ln(1/δ'))·σ' + T·σ'² (the root multiplies σ'; the printed
       quotient and the printed A = 2T are slips);
    2. ε_iter = ln((e^σ' − 1)/ν + 1) undoes the amplification by sampling;
    3. σ = sqrt(2·ln(1.25/δ_iter))/ε_iter, the classical Gaussian calibration.

    Parameters
    ----------
    epsilon, delta
        The claim.
    rate
        The sampling probability ν.
    compositions
        The T of the formulas. The printed MNIST values follow from the 200 *passes*, not from
        the 20,000 iterations.
    delta_iter
        The δ of one step, which the thesis leaves open.
    steps
        How many steps are really taken; ``compositions`` unless given.
    """
    _check(epsilon, delta, rate, compositions, delta_iter)
    delta_prime = delta - compositions * rate * delta_iter
    if delta_prime <= 0.0:
        raise ParameterError(
            f"delta_iter={delta_iter:g} uses up delta={delta:g}: pass less than "
            f"{delta / (compositions * rate):g}"
        )
    linear = math.sqrt(2.0 * compositions * math.log(1.0 / delta_prime))
    per_step = _positive_root(float(compositions), linear, epsilon)
    taken = compositions if steps is None else steps
    claimed = PublishedNoise(0.0, epsilon, delta, rate, taken, _SINGLE)
    return _finish(claimed, per_step, compositions, delta_iter)


def zcdp_noise(
    epsilon: float,
    delta: float,
    *,
    rate: float,
    compositions: int,
    delta_iter: float,
    steps: int | None = None,
) -> PublishedNoise:
    """Return the noise of the thesis's zCDP recipe (appendix E, DPD-zCDP).

    In three steps, with T = ``compositions`` and δ' = ν·δ_iter:

    1. ε' solves A·ε'² + B·ε' = ε with A = T/(4·ln(1.25/δ')) and
       B = sqrt(T·ln(1/δ)/ln(1.25/δ')), the root over the whole quotient;
    2. ε_iter = ln((e^ε' − 1)/ν + 1); 3. σ = sqrt(2·ln(1.25/δ_iter))/ε_iter.

    Parameters are those of `advanced_composition_noise`.
    """
    _check(epsilon, delta, rate, compositions, delta_iter)
    log_prime = math.log(1.25 / (rate * delta_iter))
    per_step = _positive_root(
        compositions / (4.0 * log_prime),
        math.sqrt(compositions * math.log(1.0 / delta) / log_prime),
        epsilon,
    )
    flaw = "amplification by sampling of (ε, δ) cannot be put into a zCDP composition"
    taken = compositions if steps is None else steps
    claimed = PublishedNoise(0.0, epsilon, delta, rate, taken, flaw)
    return _finish(claimed, per_step, compositions, delta_iter)


def _finish(
    claimed: PublishedNoise, per_step: float, compositions: int, delta_iter: float
) -> PublishedNoise:
    """Undo the amplification and apply the classical calibration: steps 2 and 3."""
    epsilon_iter = math.log(math.expm1(per_step) / claimed.rate + 1.0)
    sigma = math.sqrt(2.0 * math.log(1.25 / delta_iter)) / epsilon_iter
    claim, taken = claimed.claim, claimed.steps
    if taken != compositions:
        claim += f", and it counts {compositions} compositions where {taken} steps are taken"
    return replace(claimed, noise_multiplier=sigma, claim=claim)


def langevin_step_size(
    step: int,
    *,
    epsilon: float,
    delta: float,
    entries: int,
    passes: int,
    batch: int,
    lipschitz: float,
    alpha: float = 0.9,
) -> float:
    """Return the thesis's step size (4.27), meant to make plain Langevin noise private.

    η_t = α·ε² / (128·L²·ln(2.5·C·T/(B·δ))·ln(2/δ)·t), with C entries, T passes, batches of B.
    The claim rests on C.1–C.2; certify a run by each step's actual noise-to-clip ratio.
    """
    check("step", step, Integer(1))
    check("epsilon", epsilon, Real(0, open_low=True))
    check("delta", delta, Real(0, 1, open_low=True, open_high=True))
    check("lipschitz", lipschitz, Real(0, open_low=True))
    check("alpha", alpha, Real(0, 1, open_low=True))
    if batch < 1 or entries < batch or passes < 1:
        raise NotCertified("needs 1 ≤ batch ≤ entries and at least one pass")
    iterations = entries * passes / batch
    logs = math.log(2.5 * iterations / delta) * math.log(2.0 / delta)
    return alpha * epsilon**2 / (128.0 * lipschitz**2 * logs * step)


def mistyped_gaussian_noise(epsilon: float, delta: float) -> PublishedNoise:
    """Return the noise behind the regression tables of Alparslan (2023), relative to Δ.

    The reference code mistypes the analytic calibration: at ε = 1, the only ε of the tables, it
    returns 1.487 whatever δ is, where 3.19 is needed at δ = 1e-4.

    >>> round(mistyped_gaussian_noise(1.0, 1 / 7654).epsilon(), 2)
    2.34
    """
    check("delta", delta, Real(0, 1, open_low=True, open_high=True))
    if epsilon != 1.0:
        raise ParameterError(f"the published noise is known for epsilon = 1 only, got {epsilon:g}")
    return PublishedNoise(
        1.487,
        1.0,
        delta,
        1.0,
        1,
        "the calibration is mistyped and ignores δ, the sensitivity is that of adding or removing "
        "a row where neighbours are defined by replacement, and bounds and standardisation were "
        "read from the data: the ε computed here holds only if those were public",
    )


_PASSES = "the printed value counts 200 passes where 20,000 steps are taken"
_PASSES_MIXED = f"{_PASSES}, and mixes amplification by sampling into a zCDP composition"
_MIXED = "amplification by sampling of (ε, δ) is mixed into a zCDP composition"

# The values printed in the thesis (sections 7.2.1 and 8.1.1), with the steps really taken.
PRINTED: dict[str, PublishedNoise] = {
    "MNIST, zCDP": PublishedNoise(3.23, 0.5, 1e-4, 0.01, 20_000, _PASSES_MIXED),
    "MNIST, advanced composition": PublishedNoise(10.88, 0.5, 1e-4, 0.01, 20_000, _PASSES),
    "synthetic, zCDP": PublishedNoise(2.87, 1.0, 1e-3, 0.02, 300, _MIXED),
    "synthetic, advanced composition": PublishedNoise(8.14, 1.0, 1e-3, 0.02, 300, _SINGLE),
}
