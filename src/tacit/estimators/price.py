"""`Price`: what a fit would cost each site, known before any data is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tacit.estimators.agreement import Agreement
from tacit.estimators.site import Site
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.guarantee import shown, shown_left
from tacit.privacy.ledger.terms import Terms

__all__ = ["Price", "SitePrice", "price_of"]


@dataclass(frozen=True)
class SitePrice:
    """What a fit would cost one site."""

    site: str
    epsilon: float
    delta: float
    remaining_epsilon: float | None
    affordable: bool


@dataclass(frozen=True)
class Price:
    """What a fit would cost each site, known before any data is read."""

    sites: tuple[SitePrice, ...]

    @property
    def affordable(self) -> bool:
        """Whether every site's ledger admits it."""
        return all(site.affordable for site in self.sites)

    def __str__(self) -> str:
        lines = []
        for site in self.sites:
            left = site.remaining_epsilon
            budget = "no ledger" if left is None else f"ε = {shown_left(left, 4)} left"
            verdict = "affordable" if site.affordable else "refused by its ledger"
            lines.append(
                f"{site.site}: ε = {shown(site.epsilon, 4)}, δ = {shown(site.delta)} ({budget}: "
                f"{verdict})"
            )
        return "\n".join(lines)


def price_of(agreement: Agreement, sites: Sequence[Site]) -> Price:
    """Return what an agreement costs each site; nothing is charged."""
    event, privacy = agreement.event, agreement.charged
    delta = 0.0 if privacy is None else privacy.delta
    asked = None if privacy is None else privacy.epsilon
    epsilon = epsilon_of(event, delta)
    terms = None if privacy is None else Terms.of(privacy)
    rows = []
    for site in sites:
        ledger = site.ledger
        fits = (
            ledger is None
            or agreement.is_free
            or ledger.admits(event, delta=delta, asked=asked, terms=terms)
        )
        left = None if ledger is None else ledger.remaining.epsilon
        rows.append(SitePrice(site.name, epsilon, delta, left, fits))
    return Price(tuple(rows))
