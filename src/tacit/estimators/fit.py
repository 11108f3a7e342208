"""`fit`: agree, check, reserve, run, certify; the same code in one process and between sites.

A fit's order is fixed: every holder reads its own data and refuses what cannot be used, to itself
alone; the agreement is computed once; folders are tried, both sides are made, and the like of it
is rehearsed on made-up data (`tacit.estimators.rehearsal`); then the whole of it is reserved at
every site, and nobody is charged unless all can pay; then the rounds run. Between the charge and
the first release nothing is left that could fail whatever the data are. `take_part` is one site's
share of that, for a coordinator that is somewhere else.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from tacit._core.check import AnyOf, OneOf, check
from tacit._core.folders import check_writable
from tacit._core.progress import progress_bar
from tacit._core.reasons import told_to_holder
from tacit._core.rng import fresh_seed
from tacit.errors import BudgetExceeded, SiteFailure
from tacit.estimators.afterwards import Paid, keeping
from tacit.estimators.agreement import Agreement
from tacit.estimators.coordinator import Asking
from tacit.estimators.gate import Gate
from tacit.estimators.loading import closing_shards, own_part
from tacit.estimators.rehearsal import rehearse
from tacit.estimators.shards import Holder
from tacit.estimators.site import Site
from tacit.mechanisms.noise import Noise
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import NonPrivateDpEvent
from tacit.privacy.guarantee import Privacy, shown_left
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.reservation import Reservation
from tacit.privacy.ledger.terms import Terms
from tacit.rounds.aggregate import Aggregator, PlainAggregator, SumAggregator
from tacit.rounds.checkpoint import Checkpoint, Outbox, Remembering, run_name
from tacit.rounds.run import Turns, exhausted, turns
from tacit.rounds.sides import Participant, RunRecord

__all__ = [
    "Fitting",
    "Outcome",
    "Place",
    "SiteSide",
    "certify",
    "coordinator",
    "fit",
    "fitting",
    "paper_ledger",
    "reserve",
    "take_part",
]

_KEPT = "the checkpoint"
# The record after every complete round, and in the end what the fit gave.
Fitting: TypeAlias = "Generator[RunRecord, bool | None, Outcome]"


@dataclass(frozen=True)
class Outcome:
    """What a fit gave.

    Attributes
    ----------
    agreement
        What was agreed on.
    result
        What the coordinator returned.
    record
        What happened.
    certificates
        Site → its certificate.
    holders
        Site → its side, where the sites are in this process.
    heard
        What the coordinator was told in every round.
    """

    agreement: Agreement
    result: Any
    record: RunRecord
    certificates: Mapping[str, Certificate]
    holders: Mapping[str, Any] = field(default_factory=dict)
    heard: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Place:
    """How a fit runs; nothing here decides what is released.

    Attributes
    ----------
    purpose
        A few words for the ledgers.
    seed
        For tests: predictable noise and inference; None otherwise.
    noise
        The kind of noise source; the agreement's own unless given.
    on_failure
        ``"stop"``, or ``"exclude"`` sites that fail.
    checkpoint
        A folder that records every complete round; a run that died goes on from there.
    progress
        Whether a bar is shown.
    secret
        For audits, which repeat what is public with noise of its own: the seed of the noise.
    notes
        What certificates list besides the agreement's assumptions.
    """

    purpose: str
    seed: int | None = None
    noise: str | None = None
    on_failure: str = "stop"
    checkpoint: str | Path | None = None
    progress: bool = False
    secret: int | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check("on_failure", self.on_failure, OneOf("stop", "exclude"))
        check("noise", self.noise, AnyOf(OneOf("exact", "grid"), None))


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
    close
        Forgets what a restart would have needed: the run is over.
    """

    participant: Participant
    certificate: Callable[[], Certificate]
    finish: Callable[[Mapping[str, Any]], None] = lambda shared: None
    close: Callable[[], None] = lambda: None


def fit(
    agreement: Agreement, sites: Sequence[Site], data: Mapping[str, Any], place: Place
) -> Outcome:
    """Run an agreement over sites that are all in this process.

    Parameters
    ----------
    agreement
        What is public.
    sites
        Who takes part, each with the ledger that pays.
    data
        Site → what its holder takes.
    place
        How it runs.
    """
    return exhausted(fitting(agreement, sites, data, place))


def fitting(
    agreement: Agreement, sites: Sequence[Site], data: Mapping[str, Any], place: Place
) -> Fitting:
    """Yield the record after every round of a `fit`, which goes on when the next one is taken.

    Everything as in `fit`: the first round is taken after all that could fail has been tried, and
    everybody was charged for the whole run. Told True, an agreement that is ``stoppable`` comes to
    an end before its time; it costs what was reserved.
    """
    with closing_shards(data.values()):
        return (yield from _fitting(agreement, sites, data, place))


def _fitting(
    agreement: Agreement, sites: Sequence[Site], data: Mapping[str, Any], place: Place
) -> Fitting:
    folder = None if place.checkpoint is None else Path(place.checkpoint)
    kept_in = {site.name: _own_folder(folder, site.name) for site in sites}
    gates = {
        site.name: Gate(None, noise_of(agreement, place, site.name), kept_in[site.name])
        for site in sites
    }
    bound = {site.name: agreement.at(site.name) for site in sites}
    holders = {
        site.name: bound[site.name].holder(
            site.name, own_part(agreement, site, data[site.name]), gates[site.name], place.seed
        )
        for site in sites
    }
    for holder in holders.values():
        _check_room(holder)
    participants: list[Participant] = [
        holder if (kept := kept_in[name]) is None else Remembering(holder, Outbox(kept))
        for name, holder in holders.items()
    ]
    asking = coordinator(agreement, place.seed)
    asking.request(0)  # as a site would see it, were it the first
    checkpoint, name = None, None
    if folder is not None:
        checkpoint = Checkpoint(check_writable(folder / "coordinator", _KEPT))
        name = run_name(folder)
        if (saved := checkpoint.load()) is not None:  # of this very agreement, or refused
            coordinator(agreement, place.seed).restore(saved[0].arrays)
    privacy = agreement.privacy
    secure = privacy is not None and privacy.trust == "aggregator" and len(sites) > 1
    aggregator: Aggregator = SumAggregator(len(sites)) if secure else PlainAggregator()
    terms = {
        name: stated(bound[name], site, gates[name], holders[name], place.notes)
        for name, site in zip(bound, sites, strict=True)
    }
    for own in bound.values():
        rehearse(own)
    with progress_bar(place.progress, agreement.rounds, "rounds") as advance:
        # what can fail has been tried: only now is anybody charged
        for holding, reservation in reserve(agreement, sites, place.purpose, name, terms).items():
            gates[holding].reservation = reservation

        def promised(there: Sequence[str] = ()) -> dict[str, Certificate]:
            """Return the certificates of private sites that are there, or have paid."""
            return {
                name: certify(bound[name], site, gates[name], holders[name], place.notes)
                for name, site in zip(bound, sites, strict=True)
                if (name in there or gates[name].drew) and name not in agreement.public_sites
            }

        running = turns(
            asking,
            participants,
            aggregator=aggregator,
            on_failure=place.on_failure,
            checkpoint=checkpoint,
            own=len(sites) == 1,  # whoever fits several sites is not each of their holders
        )
        with keeping(lambda: Paid(promised(), asking.heard)):
            try:
                record = yield from _shown(running, advance)
            except SiteFailure as error:
                raise _told(error, sites) from error.__cause__
    certificates = promised(record.sites)
    for gate in gates.values():
        gate.close()
    return Outcome(agreement, asking.result, record, certificates, holders, asking.heard)


def _shown(taken: Turns, advance: Callable[[int], Any]) -> Turns:
    """Take turns, with a bar that shows each of them."""
    ended: bool | None = None
    while True:
        try:
            record = taken.send(ended)
        except StopIteration as end:
            found: RunRecord = end.value
            return found
        advance(1)
        ended = yield record


def _told(error: SiteFailure, sites: Sequence[Site]) -> SiteFailure:
    """Return the error of a run as its caller reads it: one table knows no sites or rounds."""
    cause = error.__cause__
    if len(sites) > 1 or not isinstance(cause, Exception):
        return error
    return SiteFailure(f"the fit stopped: {told_to_holder(cause)}")


def _check_room(holder: Participant) -> None:
    """Raise where a holder's data are too many for its sums."""
    if isinstance(holder, Holder):
        holder.check_room()


def coordinator(agreement: Agreement, seed: int | None) -> Asking:
    """Return the coordinator's side; without a seed it takes a fresh one and keeps it."""
    return Asking(agreement, fresh_seed() if seed is None else seed)


def take_part(
    agreement: Agreement,
    site: Site,
    data: Any,
    place: Place,
    run: str,
    folder: Path | None,
    notes: tuple[str, ...] = (),
    against: str | None = None,
) -> SiteSide:
    """Reserve the whole agreement and return one site's side of it.

    Parameters
    ----------
    agreement, site, data, place
        As in `fit`.
    run
        The name of the run: taken up again under its name, it is not charged again.
    folder
        Where keys of standing releases are kept.
    notes, against
        What the certificate lists besides the agreement's assumptions, and whom it holds against
        where that is not the request's.
    """
    kept = None if folder is None else check_writable(folder, "what a restart needs", 0o700)
    gate = Gate(None, noise_of(agreement, place, site.name), kept)
    own = agreement.at(site.name)
    holder = own.holder(site.name, own_part(agreement, site, data), gate, place.seed)
    _check_room(holder)
    words = {site.name: stated(own, site, gate, holder, notes, against)}
    rehearse(own)
    gate.reservation = reserve(agreement, [site], place.purpose, run, words)[site.name]

    def close() -> None:
        with closing_shards([data]):
            gate.close()

    return SiteSide(
        holder,
        lambda: certify(own, site, gate, holder, notes, against),
        holder.finish,
        close,
    )


def stated(
    agreement: Agreement,
    site: Site,
    gate: Gate,
    holder: Any,
    notes: tuple[str, ...] = (),
    against: str | None = None,
) -> Terms:
    """Return what a site's certificate will state, before anything is charged or drawn."""
    privacy = agreement.privacy
    assumptions = agreement.assumptions + holder.notes
    if agreement.charged is None or agreement.is_free or privacy is None:
        request = privacy or Privacy(epsilon=float("inf"))
        return Terms.of(request, assumptions=assumptions + notes, holder=site.name)
    if site.ledger is None or not site.ledger.durable:
        assumptions += ("the ledger lives in memory: earlier releases are not counted",)
    claimed, text = agreement.claim or (None, None)
    return Terms.of(
        privacy if against is None else replace(privacy, against=against),
        assumptions=assumptions + gate.noise.assumptions + notes,
        groups=holder.groups(),
        claimed_epsilon=claimed,
        claim=text,
        holder=site.name,
    )


def reserve(
    agreement: Agreement,
    sites: Sequence[Site],
    purpose: str,
    run: str | None = None,
    terms: Mapping[str, Terms] | None = None,
) -> dict[str, Reservation | None]:
    """Reserve all steps at every site; nobody is charged unless all can pay.

    A run that was reserved under its name before goes on, and is not charged again. ``terms`` are
    what each site's certificate will state.
    """
    bound = {site.name: agreement.at(site.name) for site in sites}
    due = {
        name: own.charged
        for name, own in bound.items()
        if own.charged is not None and not own.is_free
    }
    ledgers = {s.name: s.ledger or paper_ledger(due[s.name]) for s in sites if s.name in due}
    words = terms or {name: Terms.of(privacy) for name, privacy in due.items()}
    price: dict[str, dict[str, Any]] = {
        name: {"delta": privacy.delta, "asked": privacy.epsilon, "terms": words[name]}
        for name, privacy in due.items()
    }
    for ledger in ledgers.values():
        ledger.ready()
    refusing = [
        name
        for name, ledger in ledgers.items()
        if not ledger.holds(run) and not ledger.admits(bound[name].event, **price[name])
    ]
    if len(sites) > 1 and refusing:
        left = {n: shown_left(ledgers[n].remaining.epsilon, 4) for n in refusing}
        raise BudgetExceeded(
            f"the ledgers of {', '.join(refusing)} refuse this run (ε left: {left}). No site "
            "was charged and nothing was released"
        )
    run = run or uuid.uuid4().hex
    held: dict[str, Reservation | None] = {site.name: None for site in sites}
    for name, ledger in ledgers.items():
        event = bound[name].event
        held[name] = ledger.reserve(event, purpose=purpose, run=run, **price[name])
    return held


def paper_ledger(privacy: Privacy) -> Ledger:
    """Return a ledger in memory that admits one run of a request, and no more."""
    return Ledger.memory(
        epsilon=privacy.epsilon,
        delta=privacy.delta,
        unit=privacy.unit,
        neighbours=privacy.neighbours,
    )


def noise_of(agreement: Agreement, place: Place, site: str) -> Noise:
    """Return the noise source of one site; seeded only where the caller asked for it."""
    kind = place.noise or agreement.source
    if place.secret is not None:
        return Noise(kind, seed=place.secret)
    if place.seed is None:
        return Noise(kind)
    return Noise(kind, seed=int(place.seed) + (int.from_bytes(site.encode(), "little") << 64))


def certify(
    agreement: Agreement,
    site: Site,
    gate: Gate,
    holder: Any,
    notes: tuple[str, ...] = (),
    against: str | None = None,
) -> Certificate:
    """Return the certificate of one site's releases, signed where its ledger has a key.

    It states what was reserved. Only an audit that stood at the gate adds that its noise was
    seeded: its certificate is not for release, and no row confirms it.
    """
    terms = stated(agreement, site, gate, holder, notes, against)
    reservation = gate.reservation
    if reservation is None:
        event = NonPrivateDpEvent() if agreement.privacy is None else agreement.event
        return Certificate.of_terms(terms, event)
    given = Certificate.of_terms(terms, agreement.event, ledger=reservation.entry)
    return given.signed(reservation.ledger)


def _own_folder(folder: Path | None, site: str) -> Path | None:
    """Return where a site keeps what a restart needs, whatever its name holds; it can be used."""
    if folder is None:
        return None
    return check_writable(folder / "sites" / site.encode().hex(), _KEPT, 0o700)
