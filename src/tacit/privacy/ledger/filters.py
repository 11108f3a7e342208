"""Admission rules of a ledger: what a run costs, and how much of it fits under a ceiling.

Each rule is a filter that holds under full adaptivity: the sum of (ε, δ), of μ² (Gaussian noise;
Koskela et al. 2022) or of ρ (Whitehouse et al. 2023, approximate zCDP) along the path taken may
be compared with a ceiling although each run was chosen after seeing the releases before it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from tacit.errors import BudgetExceeded, NotCertified, ParameterError
from tacit.privacy.accounting import gaussian
from tacit.privacy.accounting.accountants import concentration, epsilon_of, pure_total
from tacit.privacy.amounts import as_exact
from tacit.privacy.events import (
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    leaves,
)

__all__ = ["RULES", "refused", "rule_ceiling", "rule_epsilon", "run_cost"]

RULES = ("basic", "gdp", "zcdp")
_UP, _DOWN = 1.0 + 1e-12, 1.0 - 1e-12


def refused(reason: str) -> BudgetExceeded:
    """Return the error of a refused charge."""
    return BudgetExceeded(f"the ledger refused the charge: {reason}. Nothing was released")


@lru_cache(maxsize=4096)
def run_cost(event: DpEvent, delta: float | None, rule: str) -> tuple[Fraction, Fraction]:
    """Return what a run costs under a rule: (ε, μ² or ρ; δ), exact or rounded up.

    ``event`` is the whole schedule, ``delta`` the δ at which it is counted under ``basic``.
    """
    if rule == "gdp":
        return _gdp_cost(event), Fraction(0)
    if rule == "zcdp":
        return _zcdp_cost(event)
    pure = pure_total(leaves(event))
    if pure is not None:
        return pure, Fraction(0)
    if delta is None:
        raise ParameterError(
            "delta must be given: this noise is not purely private, so state the δ at which the "
            "run is counted, or open the ledger with filter='gdp'"
        )
    epsilon = epsilon_of(event, delta)
    if math.isinf(epsilon):
        raise refused(f"the run has no finite ε at δ = {delta:g}")
    return as_exact(math.nextafter(epsilon, math.inf)), as_exact(delta)


def _gdp_cost(event: DpEvent) -> Fraction:
    total = 0.0
    for leaf, n in leaves(event).items():
        if not isinstance(leaf, GaussianDpEvent):
            raise NotCertified(
                f"a ledger with filter='gdp' admits Gaussian noise only, not {leaf}: use one "
                "with filter='basic'"
            )
        total += n * gaussian.inverse_square(leaf.noise_multiplier)
    if math.isinf(total):
        raise refused("the run has no finite ε")
    return Fraction(total * _UP)


def _zcdp_cost(event: DpEvent) -> tuple[Fraction, Fraction]:
    counts = leaves(event)
    sampled = PoissonSampledDpEvent | SampledWithoutReplacementDpEvent
    if any(isinstance(leaf, sampled) for leaf in counts):
        raise NotCertified(
            "sampled noise has no useful ρ: use a ledger with filter='basic', which counts the "
            "run's (ε, δ)"
        )
    parts = [(n, *concentration(leaf)) for leaf, n in counts.items()]
    rho = math.fsum(n * r for n, r, _ in parts)
    if math.isinf(rho):
        raise refused("the run has no finite ε")
    return Fraction(rho * _UP), as_exact(math.fsum(n * d for n, _, d in parts))


@lru_cache(maxsize=4096)
def rule_epsilon(rule: str, amount: float, delta: float) -> float:
    """Return the ε that an amount stands for when ``delta`` of δ is left for the conversion."""
    if rule == "basic" or amount == 0.0:
        return amount
    if delta <= 0.0:
        return math.inf
    if rule == "gdp":
        return gaussian.gdp_to_dp(math.sqrt(amount), delta)
    return gaussian.zcdp_to_dp(amount, delta)


@lru_cache(maxsize=4096)
def rule_ceiling(rule: str, epsilon: float, delta: float) -> Fraction:
    """Return the largest admissible amount under (ε, δ), rounded down."""
    if rule == "basic":
        return as_exact(epsilon)
    if delta <= 0.0:
        return Fraction(-1)
    if rule == "gdp":
        return Fraction(gaussian.dp_to_gdp(epsilon, delta) ** 2 * _DOWN)
    return Fraction(gaussian.dp_to_zcdp(epsilon, delta) * _DOWN)
