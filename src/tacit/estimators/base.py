"""The common base of estimators: parameters, price, reservations and certificates."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.base import BaseEstimator

from tacit._core.check import Constraint, check_table
from tacit._core.html import Html, join
from tacit.errors import BudgetExceeded, ParameterError
from tacit.estimators.site import Site, check_sites
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting import epsilon_of
from tacit.privacy.events import DpEvent, NonPrivateDpEvent, NoOpDpEvent
from tacit.privacy.guarantee import Certificate, Privacy, round_up
from tacit.privacy.ledger import Ledger, Reservation
from tacit.rounds.protocol import Participant

__all__ = ["Estimator", "Price", "PrivateEstimator", "SitePrice", "SiteSide"]


@dataclass(frozen=True)
class SiteSide:
    """A site's side of a fit whose coordinator is somewhere else.

    Attributes
    ----------
    participant
        Answers requests; what it releases is reserved in the site's ledger already.
    certificate
        Returns the certificate of what was released.
    finish
        Takes what all learned together, for the site's own use.
    """

    participant: Participant
    certificate: Callable[[], Certificate]
    finish: Callable[[Mapping[str, Any]], None] = lambda shared: None


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
            budget = "no ledger" if left is None else f"ε = {left:.4g} left"
            verdict = "affordable" if site.affordable else "refused by its ledger"
            lines.append(
                f"{site.site}: ε = {round_up(site.epsilon, 4):g}, δ = {site.delta:g} ({budget}: "
                f"{verdict})"
            )
        return "\n".join(lines)


class Estimator(BaseEstimator):  # type: ignore[misc]
    """Base of all estimators: ``__init__`` only stores, `_constraints` is checked at ``fit``."""

    _constraints: ClassVar[Mapping[str, Constraint]] = {}

    def _check_parameters(self) -> None:
        check_table(self.get_params(deep=False), self._constraints)


class PrivateEstimator(Estimator):
    """Base of private estimators, with scikit-learn's habits.

    A subclass stores its parameters untouched, constrains them in ``_constraints`` (checked at
    ``fit``) and says in `schedule` what a fit releases, from public facts alone. Clones share
    the ledger of the original: fitting twice is charged twice.
    """

    def _repr_html_inner(self) -> str:
        """Return scikit-learn's picture of the parameters, and the certificates below it."""
        found = getattr(self, "certificates_", {})
        certificates = [Html(certificate._repr_html_()) for certificate in found.values()]
        return str(super()._repr_html_inner()) + join(certificates)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        shown: dict[str, Any] = super()._repr_mimebundle_(**options)
        return {**shown, "text/html": self._repr_html_inner()} if "text/html" in shown else shown

    def schedule(self) -> DpEvent:
        """Return everything that one fit releases at one site."""
        raise TypeError(f"{type(self).__name__} does not say what it releases")

    def _request(self) -> Privacy | None:
        privacy: Privacy | None = self.get_params(deep=False)["privacy"]
        return privacy

    def _charged(self) -> Privacy | None:
        """Return what a ledger is charged: the request, unless the noise gives less than that."""
        return self._request()

    def _check_row_privacy(self, what: str) -> None:
        """Raise unless the request is one for rows, held by a curator or by sites."""
        privacy = self._request()
        if privacy is not None and privacy.unit != "row":
            raise ParameterError(f"privacy.unit must be 'row' for {what}, got {privacy.unit!r}")
        if privacy is not None and privacy.trust not in ("central", "site"):
            raise ParameterError(
                f"privacy.trust must be 'central' or 'site', got {privacy.trust!r}"
            )

    def price(self, sites: Sequence[Site] | Site | None = None) -> Price:
        """Return what `fit` would cost each site; no data is read.

        Parameters
        ----------
        sites
            The sites; without them, the price for one holder.
        """
        self._check_parameters()
        event, privacy = self.schedule(), self._charged()
        delta = privacy.delta if privacy is not None else 0.0
        asked = None if privacy is None or _is_free(event) else privacy.epsilon
        epsilon = epsilon_of(event, delta)
        own = self.get_params(deep=False).get("ledger")
        if isinstance(sites, Site):
            sites = [sites]
        holders = list(sites) if sites is not None else [Site("the data", None, own)]
        rows = []
        for site in holders:
            ledger = site.ledger
            fits = (
                ledger is None or _is_free(event) or ledger.admits(event, delta=delta, asked=asked)
            )
            left = None if ledger is None else ledger.remaining.epsilon
            rows.append(SitePrice(site.name, epsilon, delta, left, fits))
        return Price(tuple(rows))

    def _as_sites(self, data: Any) -> list[Site]:
        """Return the sites to fit on; a single table is one holder with the own ledger."""
        if isinstance(data, Site):
            own = self.get_params(deep=False).get("ledger")
            data = [data if data.ledger is not None else Site(data.name, data.data, own)]
        if isinstance(data, list | tuple) and data and all(isinstance(s, Site) for s in data):
            sites = list(data)
            privacy = self._request()
            if len(sites) > 1 and privacy is not None and privacy.trust == "central":
                raise ParameterError(
                    "several sites do not share a curator: pass Privacy(…, trust='site')"
                )
        else:
            sites = [Site("the data", data, self.get_params(deep=False).get("ledger"))]
        check_sites(sites)
        return sites

    def _reserve(
        self, sites: Sequence[Site], purpose: str, run: str | None = None
    ) -> dict[str, Reservation | None]:
        """Reserve the whole schedule at every site; nobody is charged unless all can pay.

        A run that was reserved under its name before goes on, and is not charged again.
        """
        event, privacy = self.schedule(), self._charged()
        if privacy is None or _is_free(event):
            return {site.name: None for site in sites}
        ledgers = {
            site.name: site.ledger or Ledger.memory(epsilon=privacy.epsilon, delta=privacy.delta)
            for site in sites
        }
        refusing = [
            name
            for name, ledger in ledgers.items()
            if not ledger.holds(run)
            and not ledger.admits(event, delta=privacy.delta, asked=privacy.epsilon)
        ]
        if len(sites) > 1 and refusing:
            left = {n: f"{ledgers[n].remaining.epsilon:.4g}" for n in refusing}
            raise BudgetExceeded(
                f"the ledgers of {', '.join(refusing)} refuse this run (ε left: {left}). No site "
                "was charged and nothing was released"
            )
        run = run or uuid.uuid4().hex
        return {
            name: ledger.reserve(
                event, purpose=purpose, delta=privacy.delta, asked=privacy.epsilon, run=run
            )
            for name, ledger in ledgers.items()
        }

    def _noise(self, kind: str, site: str) -> Noise:
        """Return the noise source of one site; seeded only where the caller asked for it."""
        seed = self.get_params(deep=False).get("random_state")
        if seed is None:
            return Noise(kind)
        named = int.from_bytes(site.encode(), "little")
        return Noise(kind, seed=int(seed) + (named << 64))

    def _certify(
        self,
        site: Site,
        reservation: Reservation | None,
        noise: Noise,
        assumptions: tuple[str, ...],
        claim: tuple[float, str] | None = None,
    ) -> Certificate:
        """Return the certificate of one site's releases; ``claim`` is a paper's own ε."""
        privacy = self._request()
        if reservation is None or privacy is None:
            open_request = privacy or Privacy(epsilon=float("inf"))
            event = NonPrivateDpEvent() if privacy is None else self.schedule()
            return Certificate.issue(
                open_request, event, assumptions=assumptions, holder=site.name
            )
        if not reservation.ledger.durable:
            assumptions += ("the ledger lives in memory: earlier releases are not counted",)
        return Certificate.issue(
            privacy,
            self.schedule(),
            assumptions=assumptions + noise.assumptions,
            claimed_epsilon=None if claim is None else claim[0],
            claim=None if claim is None else claim[1],
            holder=site.name,
            ledger=reservation.entry,
        )


def _is_free(event: DpEvent) -> bool:
    """Whether there is nothing to charge: no noise at all, or nothing private."""
    return isinstance(event, NonPrivateDpEvent | NoOpDpEvent)
