"""`Price`: what a fit would cost each site, known before any data is read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tacit._core.answers import Answer, Answering, Table
from tacit._core.pictures import Bars
from tacit.estimators.agreement import Agreement
from tacit.estimators.site import Site
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.answers import left_number, spent_number
from tacit.privacy.events import DpEvent
from tacit.privacy.guarantee import Privacy, change_words, shown, shown_left
from tacit.privacy.ledger.terms import Terms
from tacit.privacy.promises import promise

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
class Price(Answering):
    """What a fit would cost each site, known before any data is read.

    Attributes
    ----------
    sites
        What each would pay.
    promise
        The guarantee as certificates will state it: ``unit``, ``neighbours``, ``trust`` and
        ``against``; empty without noise.
    filled_in
        Which of these nobody stated, so that the estimator filled them in.
    parts
        What of it is for something that could be left out, in words.
    """

    sites: tuple[SitePrice, ...]
    promise: Mapping[str, str] = field(default_factory=dict)
    filled_in: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

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
        lines += self.parts
        if self.promise:
            lines.append(self.stated)
        return "\n".join(lines)

    def _answer(self, level: float) -> Answer:
        names, costs = [one.site for one in self.sites], [one.epsilon for one in self.sites]
        spent = [spent_number(cost) for cost in costs]
        dearest = max(self.sites, key=lambda one: one.epsilon)
        refused = [one.site for one in self.sites if not one.affordable]
        left = [one.remaining_epsilon for one in self.sites]
        table = Table(
            "price",
            "What a fit costs",
            {
                "site": names,
                "ε": spent,
                "δ": [spent_number(one.delta) for one in self.sites],
                "ε left before": [None if one is None else left_number(one) for one in left],
                "affordable": ["yes" if one.affordable else "no" for one in self.sites],
            },
        )
        each = f"each of {len(names)} sites" if len(names) > 1 else names[0]
        head = f"A fit costs {each} at most ε = {shown(dearest.epsilon, 4)}, δ = "
        more = "".join(f" {part[0].upper()}{part[1:]}." for part in self.parts)
        return Answer(
            "The price of a fit",
            f"{head}{shown(dearest.delta)}; nothing is charged yet.{more}",
            (table,),
            (f"refused by the ledger of {', '.join(refused)}.",) if refused else (),
            f"Promise: {self.stated}." if self.promise else promise({}),
            pictures={"price": Bars("What a fit costs", "ε", names, _finite(spent))},
        )

    @property
    def stated(self) -> str:
        """The guarantee in words, and what of it was filled in."""
        told = self.promise
        change = change_words(told["unit"], told["neighbours"])
        words = f"when {change}; unit {told['unit']}, {told['neighbours']}, trust {told['trust']}"
        return f"{words} (filled in: {', '.join(self.filled_in)})" if self.filled_in else words


def _finite(costs: Sequence[float]) -> list[float]:
    """Return costs that can be drawn: no guarantee has no length."""
    return [cost if math.isfinite(cost) else math.nan for cost in costs]


_PROMISED = ("unit", "neighbours", "trust", "against")


def price_of(agreement: Agreement, sites: Sequence[Site], given: Privacy | None = None) -> Price:
    """Return what an agreement costs each site; nothing is charged.

    Parameters
    ----------
    agreement, sites
        What is public, and who would pay.
    given
        The request as the caller wrote it: what it leaves open was filled in.
    """
    rows, known = [], dict[DpEvent, float]()
    for site in sites:
        own, ledger = agreement.at(site.name), site.ledger
        event, privacy = own.event, own.charged
        delta = 0.0 if privacy is None else privacy.delta
        asked = None if privacy is None else privacy.epsilon
        if event not in known:
            known[event] = epsilon_of(event, delta)
        fits = (
            ledger is None
            or own.is_free
            or ledger.admits(
                event,
                delta=delta,
                asked=asked,
                terms=None if privacy is None else Terms.of(privacy),
            )
        )
        left = None if ledger is None else ledger.remaining.epsilon
        public = site.name in agreement.public_sites  # its data are no secret
        rows.append(SitePrice(site.name, 0.0 if public else known[event], delta, left, fits))
    privacy = agreement.privacy
    if privacy is None or all(agreement.at(site.name).is_free for site in sites):
        return Price(tuple(rows))
    promise = {name: str(getattr(privacy, name)) for name in _PROMISED}
    left_open = () if given is None else given.open
    filled_in = tuple(name for name in _PROMISED[:3] if name in left_open)
    return Price(tuple(rows), promise, filled_in, agreement.parts_of_price)
