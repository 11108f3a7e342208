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
import threading
from pathlib import Path
from typing import Any

from tacit.data.tables import read_source
from tacit.errors import (
    BudgetExceeded,
    ParameterError,
    PolicyRefused,
    RequestRefused,
    SiteFailure,
)
from tacit.estimators.fit import SiteSide
from tacit.federation import wire
from tacit.federation.computation import Computation
from tacit.federation.engine.frames import CALLS
from tacit.federation.files import SiteConfig
from tacit.federation.policy import Permission
from tacit.federation.proposal import Proposal
from tacit.federation.secure.site import SecureParticipant
from tacit.rounds.checkpoint import Outbox, Remembering
from tacit.rounds.messages import Message
from tacit.rounds.sides import Participant

__all__ = ["CALLS", "SiteService"]

_OPENING = "open"  # stands for the run before a site knows it


class SiteService:
    """A site of a federation.

    Parameters
    ----------
    config
        What the site's file says.
    """

    def __init__(self, config: SiteConfig) -> None:
        self.config = config
        self._lock = threading.Lock()
        self._proposal: Proposal | None = None
        self._computation: Computation | None = None
        self._permission: Permission | None = None
        self._side: SiteSide | None = None
        self._participant: Participant | None = None
        self._closed: tuple[bytes, Message] | None = None
        self.result: Any = None

    @property
    def name(self) -> str:
        """The site's name."""
        return self.config.name

    def call(self, method: str, data: bytes | memoryview) -> bytes:
        """Answer one call; whatever goes wrong becomes a refusal that may be sent."""
        proposal = self._proposal
        run = _OPENING if method == "open" or proposal is None else proposal.run
        with self._lock:  # one request at a time: a repeated one must find the first one's reply
            try:
                if method not in CALLS:
                    raise SiteFailure(f"there is no call {method!r}")
                if method != "open" and proposal is None:
                    raise SiteFailure("no run is open")
                request = wire.read_request(data, run, self.config.largest)
                reply: Message = getattr(self, f"_{method}")(request)
            except Exception as error:
                self._note(method, error)
                return wire.refusal(error, data, run, self.name, public=method == "open")
        return wire.answer(reply, data, run, self.name)

    def _note(self, method: str, error: Exception) -> None:
        """Keep what went wrong, for the holder only."""
        self.config.state.mkdir(parents=True, exist_ok=True)
        with open(self.config.state / "refused.log", "a", encoding="utf-8") as file:
            file.write(f"{method}: {type(error).__name__}: {error}\n")

    def _run_folder(self, proposal: Proposal) -> Path:
        return self.config.state / hashlib.sha256(proposal.run.encode()).hexdigest()[:32]

    # -- the calls ----------------------------------------------------------------------------

    def _open(self, request: Message) -> Message:
        proposal = Proposal.from_json(request["proposal"].tobytes())
        if self.name not in proposal.sites:
            raise PolicyRefused(f"{self.name!r} is not among the sites of the proposal")
        plugins = self.config.plugins
        permission = self.config.policy.check(proposal, plugins)
        computation = Computation(proposal, plugins)
        if computation.rounds > permission.rounds:
            raise PolicyRefused(
                f"the site's policy refuses: {computation.rounds} rounds are more than "
                f"{permission.rounds}"
            )
        if request["digest"].tobytes().decode() != computation.digest:
            raise PolicyRefused("the two sides do not agree on what is public: compare versions")
        kept = self._run_folder(proposal) / "proposal.json"
        if kept.exists() and kept.read_text(encoding="utf-8") != proposal.to_json():
            raise PolicyRefused("this run was opened before, with another proposal")
        self._check_budget(proposal, computation)
        if proposal != self._proposal:  # a coordinator that came back finds the run as it was
            self._side = self._participant = self._closed = None
        self._proposal, self._computation, self._permission = proposal, computation, permission
        return Message(0, {"accepted": wire.text_array(self.name)})

    def _check_budget(self, proposal: Proposal, computation: Computation) -> None:
        ledger, privacy = self.config.open_ledger(), proposal.guarantee()
        assert privacy is not None  # no permission covers a proposal without one
        if not ledger.holds(proposal.run) and not ledger.admits(
            computation.event(), delta=privacy.delta, asked=privacy.epsilon
        ):
            raise BudgetExceeded("the site's ledger does not admit this run. Nothing was charged")

    def _begin(self, request: Message) -> Message:
        if self._participant is None:
            self._participant = self._build()
        return Message(0, {"ready": wire.text_array(self.name)})

    def _build(self) -> Participant:
        proposal, computation, permission = self._proposal, self._computation, self._permission
        assert proposal is not None and computation is not None and permission is not None
        folder = self._run_folder(proposal)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "proposal.json").write_text(proposal.to_json(), encoding="utf-8")
        tables = {}
        for name in permission.tables or tuple(self.config.data):
            if name not in self.config.data:
                raise ParameterError(f"the policy names the table {name!r}, which [data] lacks")
            source = self.config.data[name]
            table = read_source(source, self.config.folder)
            tables[name] = {
                "table": table,
                "columns": source.get("columns", {}),
                "value": source.get("value"),
            }
        ledger = self.config.open_ledger()
        self._side = computation.site(self.name, tables, ledger, folder / "standing")
        participant = self._side.participant
        if proposal.threshold is not None:
            key = self.config.key()
            participant = SecureParticipant(
                participant,
                minimum=max(2, permission.partners if permission.secure else 2),
                identity=key,
                partners=self.config.partners if key else None,
                agreed=(proposal.sites, proposal.threshold),
            )
        return Remembering(participant, Outbox(folder / "outbox"))

    def _respond(self, request: Message) -> Message:
        if self._participant is None or self._computation is None:
            raise SiteFailure("asked to respond before the run began")
        if not 0 <= request.round < self._computation.rounds:
            raise PolicyRefused(
                f"round {request.round} is beyond the {self._computation.rounds} that were agreed"
            )
        return self._participant.respond(request)

    def _close(self, request: Message) -> Message:
        if self._side is None:
            raise SiteFailure("asked to close before the run began")
        if self._closed is not None:
            digest, reply = self._closed
            if digest != request.digest:
                raise RequestRefused("the run was closed already, with something else")
            return reply
        shared = {n.removeprefix("shared/"): a for n, a in request.arrays.items()}
        try:  # for the holder's own use: how it went is nobody else's business
            self._side.finish(shared)
        except Exception as error:
            self._note("close", error)
        self.result = self._side.participant
        text = self._side.certificate().to_json()
        self._side.close()
        reply = Message(0, {"certificate": wire.text_array(text)})
        self._closed = request.digest, reply
        return reply
