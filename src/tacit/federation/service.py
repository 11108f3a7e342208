"""A site's service: checks its policy, pays from its ledger, answers, and keeps what it paid for.

It takes bytes and gives bytes, whatever carries them. Four calls, in this order:

=======  =======================================================================================
open     a proposal: policy and budget are checked; no data is read and nothing is charged
begin    data is read and the whole schedule is reserved under the run's name
respond  one round: a repeated request gets the bytes of the first time
close    what all learned together comes in, the certificate goes out
=======  =======================================================================================

A site that was restarted begins again under the same name and goes on: it is not charged again.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from tacit._core.reasons import told_to_holder
from tacit.data.tables import read_source
from tacit.errors import (
    BudgetExceeded,
    NotCertified,
    ParameterError,
    PolicyRefused,
    RequestRefused,
    TacitError,
)
from tacit.estimators.checking import Findings, tried
from tacit.estimators.fit import SiteSide
from tacit.estimators.loading import closing_shards
from tacit.federation import wire
from tacit.federation.computation import Computation
from tacit.federation.engine.frames import CALLS
from tacit.federation.files import SiteConfig
from tacit.federation.history import History
from tacit.federation.policy import Permission
from tacit.federation.proposal import Proposal, opening_text
from tacit.federation.secure import keys
from tacit.federation.secure.exchange import check_partners
from tacit.federation.secure.site import SecureParticipant
from tacit.privacy.ledger.terms import Terms
from tacit.rounds.checkpoint import Outbox, Remembering
from tacit.rounds.messages import Message
from tacit.rounds.sides import Participant

__all__ = ["CALLS", "SiteService"]

_OPENING = "open"  # stands for the run before a site knows it
_ROOM = 1 << 16  # bytes of a message beside its arrays
_LEARNED = 1 << 24  # bytes of what was learned, where requests are small
_LOG = 1 << 20  # bytes of a log before the older half goes


class SiteService:
    """A site of a federation.

    Parameters
    ----------
    config
        What the site's file says.
    tell
        Called with what happens and its details, for the holder's own screen.
    """

    def __init__(
        self, config: SiteConfig, tell: Callable[[str, Mapping[str, Any]], None] | None = None
    ) -> None:
        self.config = config
        self._tell = tell or (lambda what, details: None)
        self._lock = threading.Lock()
        self._proposal: Proposal | None = None
        self._computation: Computation | None = None
        self._permission: Permission | None = None
        self._side: SiteSide | None = None
        self._participant: Remembering | None = None
        self._closed: tuple[bytes, Message] | None = None
        self._coordinator = ""
        self.result: Any = None

    @property
    def name(self) -> str:
        """The site's name."""
        return self.config.name

    def call(self, method: str, data: bytes | memoryview) -> bytes:
        """Answer one call; whatever goes wrong becomes a refusal that may be sent."""
        due = time.monotonic() + self.config.answer_after
        answer = self._answer(method, data)
        if (left := due - time.monotonic()) > 0:
            time.sleep(left)
        return answer

    def _answer(self, method: str, data: bytes | memoryview) -> bytes:
        proposal = self._proposal
        run = _OPENING if method == "open" or proposal is None else proposal.run
        with self._lock:  # one request at a time: a repeated one must find the first one's reply
            try:
                if method not in CALLS:
                    raise RequestRefused(f"there is no call {method[:40]!r}", "call")
                if method != "open" and proposal is None:
                    raise RequestRefused("no run is open", "order")
                request = wire.read_request(data, run, self.limit(method))
                reply: Message = getattr(self, f"_{method}")(request)
            except Exception as error:
                self._note(method, error)
                self._tell("refused", {"call": method[:40], "why": told_to_holder(error)[:200]})
                return wire.refusal(error, data, run, self.name)
        return wire.answer(reply, data, run, self.name)

    def limit(self, method: str) -> int:
        """Return the longest message that is read for a call, by what is public at this point.

        A proposal has to repeat the policy's settings, so it is not much longer than the policy;
        a round's request holds what a step may be asked.
        """
        if method == "open":
            return _ROOM + 4 * self.config.policy.length
        if method == "begin" or self._computation is None:
            return _ROOM
        asked = self._computation.largest_request
        if asked is None:
            return self.config.largest
        # what was learned may hold as much as many requests did, such as draws of a posterior
        most = asked if method == "respond" else _LEARNED + 1024 * asked
        return min(self.config.largest, most + _ROOM)

    def _note(self, method: str, error: Exception) -> None:
        """Keep what went wrong, for the holder only; nobody can fill a disk with it."""
        self.config.state.mkdir(parents=True, exist_ok=True)
        path = self.config.state / "refused.log"
        if path.exists() and path.stat().st_size > _LOG:
            os.replace(path, path.with_suffix(".log.old"))
        line = {
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "call": method[:40],
            "error": type(error).__name__,
            "text": told_to_holder(error),
        }
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")

    def _run_folder(self, proposal: Proposal) -> Path:
        if proposal.rehearsal:  # one for all: nobody can fill a disk with them
            return self.config.state / "rehearsal"
        return self.config.state / hashlib.sha256(proposal.run.encode()).hexdigest()[:32]

    # -- the calls ----------------------------------------------------------------------------

    def _open(self, request: Message) -> Message:
        proposal = _proposal_in(request)
        coordinator = self._signed_by(request)
        if self.name not in proposal.sites:
            raise PolicyRefused(f"{self.name!r} is not among the sites", "sites")
        plugins = self.config.plugins
        permission = self.config.policy.check(
            proposal, plugins, self.name
        )  # before anything is built of it
        if proposal.threshold is not None:
            self._check_identities(proposal)
        computation = _computation(proposal, plugins)
        if computation.rounds > permission.rounds:
            raise PolicyRefused(
                f"{computation.rounds} rounds are more than {permission.rounds}", "rounds"
            )
        if request["digest"].tobytes() != computation.digest.encode():
            raise PolicyRefused("the two sides do not agree on what is public", "version")
        kept = self._run_folder(proposal) / "proposal.json"
        known = kept.exists() and not proposal.rehearsal
        if known and kept.read_text(encoding="utf-8") != proposal.to_json():
            raise PolicyRefused("this run was opened before, with another proposal", "opened")
        self._check_budget(proposal, computation)
        self._check_limits(proposal, coordinator)
        if proposal != self._proposal:  # a coordinator that came back finds the run as it was
            self._side = self._participant = self._closed = None
        self._proposal, self._computation, self._permission = proposal, computation, permission
        self._coordinator = coordinator
        told = {
            "run": proposal.run,
            "computation": proposal.computation,
            "with": [name for name in proposal.sites if name != self.name],
            "for": coordinator or "a coordinator",
            "epsilon": proposal.epsilon_of(self.name),
            "rehearsal": proposal.rehearsal,
        }
        self._tell("opened", told)
        return Message(0, {"accepted": wire.text_array(self.name)})

    def _check_budget(self, proposal: Proposal, computation: Computation) -> None:
        ledger, asked = self.config.open_ledger(), proposal.guarantee()
        assert asked is not None  # no permission covers a proposal without one
        if proposal.rehearsal or ledger.holds(proposal.run) or self.name in asked.public_sites:
            return
        privacy = asked.at(self.name)
        try:
            fits = ledger.admits(
                computation.event(self.name),
                delta=privacy.delta,
                asked=privacy.epsilon,
                terms=Terms.of(privacy),
            )
        except NotCertified as error:  # another unit, or noise without a price
            raise BudgetExceeded(f"the site's ledger cannot count this run: {error}") from None
        if not fits:
            raise BudgetExceeded("the site's ledger does not admit this run. Nothing was charged")

    def _signed_by(self, request: Message) -> str:
        """Return which known coordinator signed an opening; nobody's, where none is named."""
        known = self.config.coordinators
        if not known:
            return ""
        text = opening_text(request["proposal"].tobytes(), request["digest"].tobytes())
        signature = request.arrays.get("signature")
        for name, public in known.items():
            if signature is not None and keys.is_signed(public, signature.tobytes(), text):
                return name
        raise PolicyRefused("no known coordinator has signed the proposal", "coordinator")

    def _check_identities(self, proposal: Proposal) -> None:
        """Refuse a secure sum unless everybody in it is pinned here."""
        try:
            check_partners(self.name, self.config.key(), self.config.partners, proposal.sites)
        except ParameterError as error:
            raise PolicyRefused(str(error), "identities") from None

    def _check_limits(self, proposal: Proposal, coordinator: str) -> None:
        if proposal.rehearsal:
            return
        earlier = History(self.config.state).earlier(proposal.run, coordinator)
        objection = self.config.policy.limits.objection(earlier, self._cost(proposal))
        if objection is not None:
            raise PolicyRefused(objection, "period")

    def _cost(self, proposal: Proposal) -> float:
        """Return what a run may cost here; nothing where the policy takes the data for public."""
        epsilon = proposal.epsilon_of(self.name)
        return epsilon if math.isfinite(epsilon) else 0.0

    def _begin(self, request: Message) -> Message:
        if self._participant is None:
            self._participant = self._build()
            left = self.config.open_ledger().remaining
            self._tell("began", {"epsilon left": left.epsilon, "delta left": left.delta})
        return Message(0, {"ready": wire.text_array(self.name)})

    def _build(self) -> Remembering:
        proposal, computation, permission = self._proposal, self._computation, self._permission
        assert proposal is not None and computation is not None and permission is not None
        folder = self._run_folder(proposal)
        if proposal.rehearsal:
            shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "proposal.json").write_text(proposal.to_json(), encoding="utf-8")
        outbox = Outbox(folder / "outbox")  # what can fail is tried before anything is paid
        if proposal.rehearsal:
            self._side = computation.rehearsing(self.name)
        else:
            key = self.config.people_key()  # what can be wrong is said before it counts as begun
            data = computation.read(self._tables(permission), self.name, key)
            ledger = self.config.open_ledger()
            self.config.name_ledger(ledger)
            cost = self._cost(proposal)
            History(self.config.state).begin(proposal.run, self._coordinator, cost)
            self._side = computation.answering(
                self.name,
                data,
                ledger,
                folder / "standing",
                (self._timing,),
                key,
            )
        participant: Participant = self._side.participant
        if computation.terms is not None:
            identity = self.config.key()
            assert identity is not None  # a proposal without it is refused
            participant = SecureParticipant(
                participant, computation.terms, identity, self.config.partners
            )
        return Remembering(participant, outbox)

    def _tables(self, permission: Permission) -> dict[str, Any]:
        """Read what a permission names; what is wrong with it is for the holder alone."""
        tables = {}
        for name in permission.tables or tuple(self.config.data):
            if name not in self.config.data:
                raise ParameterError(f"the policy names the table {name!r}, which [data] lacks")
            source = self.config.data[name]
            tables[name] = {
                "table": read_source(source, self.config.folder),
                "columns": source.get("columns", {}),
                "value": source.get("value"),
            }
        return tables

    def problems(self) -> Findings:
        """Return what would go wrong with this site's own data, by computation; nothing is paid.

        It is for the holder: `tacit check` prints it at home, before anything is proposed.
        """

        def read(permission: Permission) -> None:
            computation = Computation(permission.proposal(), self.config.plugins)
            key = self.config.people_key()
            with closing_shards([computation.read(self._tables(permission), self.name, key)]):
                pass

        allowed = enumerate(self.config.policy.permissions, 1)
        return tried({f"{k}: {p.computation}": partial(read, p) for k, p in allowed})

    @property
    def _timing(self) -> str:
        """What leaves besides messages, for the certificate."""
        after = self.config.answer_after
        times = (
            f"answers leave after {after:g} s, or later where they take longer"
            if after
            else "how long an answer takes grows with the data"
        )
        return (
            f"that a site can take part is one bit about it, and {times}: both are not protected"
        )

    def _respond(self, request: Message) -> Message:
        if self._participant is None or self._computation is None:
            raise RequestRefused("asked to respond before the run began", "order")
        most = self._computation.messages
        if not 0 <= request.round < most:
            raise RequestRefused(f"round {request.round} is beyond the {most} agreed on", "order")
        reply = self._participant.respond(request)
        self._tell("answered", {"round": request.round + 1, "of": most})
        return reply

    def _close(self, request: Message) -> Message:
        proposal = self._proposal
        assert proposal is not None
        began = not proposal.rehearsal and self.config.open_ledger().holds(proposal.run)
        if self._participant is None and began:  # in a process that died
            self._participant = self._build()
        if self._side is None or self._participant is None:
            raise RequestRefused("asked to close before the run began", "order")
        if self._closed is not None:
            digest, reply = self._closed
            if digest != request.digest:
                raise RequestRefused("the run was closed already", "opened")
            return reply
        shared = {n.removeprefix("shared/"): a for n, a in request.arrays.items()}
        try:  # for the holder's own use: how it went is nobody else's business
            self._side.finish(shared)
        except Exception as error:
            self._note("close", error)
        self.result = self._side.participant
        text = self._side.certificate().to_json()
        self._side.close()
        self._participant.close()
        reply = Message(0, {"certificate": wire.text_array(text)})
        self._closed = request.digest, reply
        self._tell("closed", {"run": proposal.run})
        return reply


def _proposal_in(request: Message) -> Proposal:
    """Read the proposal of an opening request, or refuse."""
    if set(request.arrays) - {"signature"} != {"proposal", "digest"}:
        raise RequestRefused("an opening holds a proposal and a digest", "proposal")
    try:
        return Proposal.from_json(request["proposal"].tobytes())
    except TacitError as error:
        raise RequestRefused(str(error), "proposal") from None


def _computation(proposal: Proposal, plugins: tuple[str, ...]) -> Computation:
    """Build what a policy has accepted, or refuse."""
    try:
        return Computation(proposal, plugins)
    except TacitError as error:
        raise PolicyRefused(str(error), "settings") from None
