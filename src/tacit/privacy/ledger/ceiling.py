"""The ceiling of a ledger under its rule: what fits, what is left, what is promised."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tacit.privacy.amounts import as_exact, float_above, float_below
from tacit.privacy.curve import Curve, curve_of
from tacit.privacy.events import ApproximateDpEvent, DpEvent, GaussianDpEvent, ZCDpEvent
from tacit.privacy.ledger.filters import rule_ceiling, rule_epsilon
from tacit.privacy.ledger.rows import Head

__all__ = ["Budget", "Ceiling"]


@dataclass(frozen=True)
class Budget:
    """An amount of (ε, δ)."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Ceiling:
    """The (ε, δ) that a ledger never exceeds, under the rule by which its charges add up."""

    epsilon: float
    delta: float
    rule: str

    def amount(self, delta: Fraction) -> Fraction:
        """Return the largest admissible amount once ``delta`` is gone: -1 if that is too much."""
        if delta > as_exact(self.delta):
            return Fraction(-1)
        left = self.delta - float_above(delta) if delta else self.delta
        return rule_ceiling(self.rule, self.epsilon, left)

    def as_epsilon(self, amount: Fraction, delta: Fraction) -> float:
        """Return the (ε at the ledger's δ) that an amount stands for."""
        left = self.delta - float_above(delta) if delta else self.delta
        return rule_epsilon(self.rule, float_above(amount), left)

    def spent(self, head: Head) -> Budget:
        """Return what has been spent, rounded up: bookkeeping, no guarantee of its own.

        Runs may be chosen by what earlier ones showed, so that only the ceiling, which was fixed
        before, is a guarantee.
        """
        return Budget(self.as_epsilon(head.amount, head.delta), float_above(head.delta))

    def remaining(self, head: Head) -> Budget:
        """Return what is left, rounded down; under ``gdp`` and ``zcdp`` the ε at δ."""
        if self.rule == "basic":
            return Budget(
                float_below(as_exact(self.epsilon) - head.amount),
                float_below(as_exact(self.delta) - head.delta),
            )
        spent = self.spent(head)
        return Budget(max(0.0, self.epsilon - spent.epsilon), self.delta - spent.delta)

    def shown(self, amount: Fraction, delta: Fraction) -> float:
        """Return the cumulative ε that a row shows to people."""
        if self.rule == "basic":
            return math.nextafter(float(amount), math.inf) if amount else 0.0
        return self.as_epsilon(amount, delta)

    def curve(self) -> Curve:
        """Return ε(δ) of the ceiling: that of its (ε, δ), of its μ or of its ρ."""
        event: DpEvent = ApproximateDpEvent(self.epsilon, self.delta)
        accountant = "pld"
        largest = float_above(self.amount(Fraction(0)))
        if self.rule == "gdp":
            event = GaussianDpEvent(1.0 / math.sqrt(largest))
        elif self.rule == "zcdp":
            event, accountant = ZCDpEvent(largest), "zcdp"
        return curve_of(event, accountant=accountant)
