"""`Computation`: any estimator whose coordinator and sites are in different places.

Both sides build it from the same `Proposal`, so they agree on everything public or do not start.
There is one class for all families: what may be asked and what that costs follows from the
agreement, what is read and what is made of it from the estimator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tacit.errors import ParameterError, TacitError
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.coordinator import Asking
from tacit.estimators.families import estimator_of
from tacit.estimators.fit import Outcome, SiteSide, coordinator, paper_ledger, take_part
from tacit.estimators.loading import held_by
from tacit.estimators.site import Site
from tacit.federation.proposal import Proposal
from tacit.federation.secure.exchange import EXCHANGES
from tacit.federation.secure.terms import Terms
from tacit.federation.secure.threshold import said_of_colluding
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import DpEvent
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.sides import Coordinator, RunRecord

__all__ = ["Computation"]

_BY_VALUE = ("columns", "public", "embeddings")  # settings that may be files in a holder's hands
_PER_SITE = 1024  # bytes of keys, shares and signatures about one site


class Computation:
    """One proposed computation, as both sides see it.

    Parameters
    ----------
    proposal
        What is proposed; raises where it makes no sense. No data is read.
    plugins
        Families besides tacit's own that this party's file enables.
    """

    def __init__(self, proposal: Proposal, plugins: Sequence[str] = ()) -> None:
        self.proposal = proposal
        privacy, threshold = proposal.guarantee(), proposal.threshold
        trust = "site" if privacy is None else privacy.trust
        if trust != "site" and (trust == "aggregator") != (threshold is not None):
            raise ParameterError(
                "trust = 'aggregator' goes with a threshold for secure aggregation, and only it"
            )
        # under trust 'site' it is a sum of what is private already: nobody's noise is a share
        self._in_shares = trust == "aggregator"
        kind = estimator_of(proposal.computation, plugins)
        for name in _BY_VALUE:
            if isinstance(proposal.settings.get(name), str):
                raise ParameterError(
                    f"a proposal holds {name} as they are, not the name of a file: every site "
                    "would read one of its own"
                )
        try:
            self.model, self._facts = kind._proposed(proposal.settings, privacy, proposal.seed)
            parts = (threshold or 1) - proposal.colluding if self._in_shares else 1
            agreed = self.model._agree([self._facts] * len(proposal.sites), parts)
            self.agreement = agreed.among(proposal.sites)
        except TacitError:
            raise
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise ParameterError(f"the settings cannot be used: {error}") from None
        if self.agreement.conditional:
            raise ParameterError("what is built from data never runs in a federation")
        if threshold is None:
            return
        if not self._in_shares and not _sums(self.agreement):
            raise ParameterError(
                f"{proposal.computation!r} needs every site's own release: it has no secure sum"
            )
        sites = len(proposal.sites)
        if threshold < sites and any(step.view_of for step in self.agreement.steps):
            # two sums with and without a site would show its part under its own share of the noise
            raise ParameterError(
                f"one release is looked at several times, so all {sites} sites must be in every "
                f"sum: pass threshold = {sites}"
            )

    @property
    def inference_only(self) -> tuple[str, ...]:
        """Settings that no release depends on."""
        return self.model._inference_only

    @property
    def in_clear(self) -> str | None:
        """What leaves a site as it is, being public."""
        return "; ".join(self.agreement.opened) or None

    @property
    def rounds(self) -> int:
        """How often a site is asked at most; a secure sum counts once."""
        return self.agreement.rounds

    @property
    def messages(self) -> int:
        """How many requests a site gets at most, every try of every secure sum counted."""
        whole, opened, terms = self.agreement.rounds, self.agreement.open_rounds, self.terms
        if terms is None:
            return whole
        return opened + (whole - opened) * len(EXCHANGES) * (terms.drop_outs + 1)

    @cached_property
    def terms(self) -> Terms | None:
        """What all secure sums of this run are bound to; None without them."""
        proposal = self.proposal
        if proposal.threshold is None:
            return None
        text = proposal.to_json().encode() + self.digest.encode()
        return Terms(
            hashlib.sha256(text).digest(),
            tuple(sorted(proposal.sites)),
            proposal.threshold,
            proposal.colluding,
        )

    def said(self, site: str = "") -> tuple[str, ...]:
        """Return what a site's certificate, and a policy, say about secure sums."""
        own = self.agreement.at(site)
        terms, privacy = self.terms, own.charged
        if terms is None:
            return ()
        shared = self._in_shares and privacy is not None and not own.is_free
        return said_of_colluding(
            len(terms.sites),
            terms.threshold,
            terms.colluding,
            own.event if shared else None,
            0.0 if privacy is None else privacy.delta,
        )

    @property
    def largest_request(self) -> int | None:
        """The longest request that a site may get, in bytes of arrays; None if there is none."""
        asked = self.agreement.largest_request
        if asked is None or self.proposal.threshold is None:
            return asked
        return asked + _PER_SITE * len(self.proposal.sites)

    @property
    def digest(self) -> str:
        """What two sides compare before anything is read."""
        return self.agreement.digest

    def event(self, site: str = "") -> DpEvent:
        """Return everything that one site releases."""
        return self.agreement.at(site).event

    def coordinator(self) -> Asking:
        """Return the coordinator's side."""
        return coordinator(self.agreement, self.proposal.seed)

    def site(
        self,
        name: str,
        tables: Mapping[str, Any],
        ledger: Ledger | None,
        folder: Path | None = None,
        notes: tuple[str, ...] = (),
    ) -> SiteSide:
        """Return a site's side; the whole agreement is reserved by then.

        Parameters
        ----------
        name
            The site.
        tables
            Name → a table of named columns, with ``"columns"`` saying what they are.
        ledger
            Who pays.
        folder
            Where what a restart needs is kept.
        notes
            What the certificate lists besides the agreement's assumptions.
        """
        return self.answering(name, self.read(tables, name), ledger, folder, notes)

    def answering(
        self,
        name: str,
        data: Any,
        ledger: Ledger | None,
        folder: Path | None = None,
        notes: tuple[str, ...] = (),
        key: bytes | None = None,
    ) -> SiteSide:
        """Return the same for data that were read already (`read`); ``key`` as in `Site`."""
        return self._side(Site(name, None, ledger, key), data, folder, notes)

    def read(self, tables: Mapping[str, Any], name: str = "here", key: bytes | None = None) -> Any:
        """Return a site's data as its side takes them, or raise what is wrong, to the holder.

        ``name`` and ``key`` as in `Site`.
        """
        own = self.model._tables(tables, self._facts)
        return held_by(self.model, Site(name, own, key=key), self.agreement)

    def rehearsing(self, name: str) -> SiteSide:
        """Return a site's side on made-up data, which pays from nothing."""
        own = self.agreement.at(name)
        assert own.charged is not None  # no permission covers a proposal without one
        paper = None if own.is_free else paper_ledger(own.charged)
        note = "a rehearsal on made-up data: it says nothing about any data"
        made_up = self.agreement.worst_case().data
        return self._side(Site(name, None, paper), made_up, None, (note,))

    def _side(
        self, site: Site, data: Any, folder: Path | None, notes: tuple[str, ...]
    ) -> SiteSide:
        return take_part(
            self.agreement,
            site,
            data,
            self.model._place(),
            self.proposal.run,
            folder,
            (*self.said(site.name), *notes),
            self.against,
        )

    @property
    def against(self) -> str:
        """Whom certificates hold against: made here, and never taken from a proposal."""
        privacy, terms = self.agreement.privacy, self.terms
        assert privacy is not None and privacy.against is not None
        if terms is None or not self._in_shares:
            return privacy.against
        return (
            f"the coordinator, with {terms.colluding} of the other sites on its side, and the "
            "public"
        )

    def shared(self, coordinator: Coordinator) -> dict[str, Any]:
        """Return what every site gets in the end."""
        assert isinstance(coordinator, Asking)
        return self.agreement.shared(coordinator.result)

    def conclude(
        self, coordinator: Coordinator, record: RunRecord, certificates: Mapping[str, Certificate]
    ) -> PrivateEstimator:
        """Return the fitted estimator."""
        assert isinstance(coordinator, Asking)
        self.model._keep(Outcome(self.agreement, coordinator.result, record, certificates))
        return self.model

    def outcome(self) -> dict[str, Any]:
        """Return what was learned, as named arrays."""
        return dict(self.model.shared_)


def _sums(agreement: Agreement) -> bool:
    """Whether a coordinator needs nothing but sums of fixed lengths."""
    if agreement.apart:
        return False
    private = [step for step in agreement.steps if step.open is None]
    specs = [spec for step in private for spec in step.leaving.values()]
    fixed = all(isinstance(n, int) for spec in specs for n in spec.shape)
    return fixed and all(step.merge == "sum" for step in agreement.steps)
