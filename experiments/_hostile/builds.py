"""Builds of tacit with one check taken out: negative controls, which attacks have to win against.

And builds that lie: sites that were taken over. A process that was started with `start` on its
path takes the build that the file ``build`` beside its site's file names, at every call anew.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tacit.federation import wire
from tacit.federation.service import SiteService

START = Path(__file__).parent / "start"
ROOT = Path(__file__).parents[2]
Patch = tuple[Any, str, Any]  # whose, which attribute, what instead


@contextlib.contextmanager
def taken(build: str) -> Iterator[None]:
    """Have a build for a while; none, where its name is empty."""
    before = []
    for owner, name, new in BUILDS[build]() if build else ():
        before.append((owner, name, getattr(owner, name)))
        setattr(owner, name, new)
    try:
        yield
    finally:
        for patch in reversed(before):
            setattr(*patch)


@contextlib.contextmanager
def started() -> Iterator[None]:
    """Have processes that are started meanwhile listen for builds."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(START), str(ROOT), before]))
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


_limit = SiteService.limit


def listen() -> None:
    """Look for a build before every call: how long it may be is asked first."""
    now, stack = [""], contextlib.ExitStack()

    def limit(self: SiteService, method: str) -> int:
        file = self.config.folder / "build"
        wanted = file.read_text() if file.exists() else ""
        if wanted != now[0]:
            stack.close()
            stack.enter_context(taken(wanted))
            now[0] = wanted
        return 1 << 30 if wanted == "reading all" else _limit(self, method)

    SiteService.limit = limit  # type: ignore[method-assign]


# -- at a site, against the coordinator -----------------------------------------------------------


def _speaking() -> list[Patch]:
    """Refusals say what went wrong."""
    from tacit.rounds.messages import Message

    def telling(error: Exception, request: bytes, run: str, site: str) -> bytes:
        return wire.answer(Message(0, {"text": wire.text_array(str(error))}), request, run, site)

    return [(wire, "refusal", telling)]


def _agreeing() -> list[Patch]:
    """The policy covers whatever comes, and so does every other check of a proposal."""
    from tacit.federation import proposal
    from tacit.federation.policy import Permission
    from tacit.federation.secure import terms

    return [
        (Permission, "objections", lambda self, proposal, plugins=(), site=None: []),
        (proposal, "check_threshold", lambda *numbers: None),
        (terms, "check_threshold", lambda *numbers: None),
    ]


def _going_back() -> list[Patch]:
    """Rounds may be asked again, and for something else."""
    from tacit.estimators import shards
    from tacit.rounds import checkpoint

    def admit(self: Any, round: int, name: str) -> Any:
        step = next(step for step in self._steps if step.name == name)
        return step, min(round, step.times - 1)

    def respond(self: Any, request: Any) -> Any:
        self.participant._last = None
        return self.participant.respond(request)

    return [(shards.Order, "admit", admit), (checkpoint.Remembering, "respond", respond)]


def _reading_all() -> list[Patch]:
    """Requests are not held against the step, and are as long as they like."""
    from tacit.estimators import steps
    from tacit.rounds import messages

    def read(self: Any, request: Any) -> Any:
        return steps.Asked(self.name, "", dict(request.arrays), {})

    return [
        (steps.Step, "read", read),
        (messages.ArraySpec, "problem", lambda self, array, sizes=None: None),
    ]


def _unpickling() -> list[Patch]:
    """Whatever comes is unpickled, and computations are imported by name."""
    from tacit.federation import service

    read, proposed = wire.read_request, service._proposal_in

    def read_request(data: Any, *more: Any) -> Any:
        with contextlib.suppress(Exception):
            pickle.loads(data)
        return read(data, *more)

    def evaluated(request: Any) -> Any:
        found = proposed(request)
        with contextlib.suppress(Exception):
            eval(found.computation)
        return found

    return [(wire, "read_request", read_request), (service, "_proposal_in", evaluated)]


# -- in secure sums -------------------------------------------------------------------------------


def _unconfirmed() -> list[Patch]:
    """Shares are shown whoever has confirmed the list."""
    from tacit.federation.secure.exchange import Member

    return [(Member, "_check_confirmed", lambda self, signatures: None)]


def _unbound_confirmations() -> list[Patch]:
    """A confirmation is of a list, in whatever run."""
    from tacit.federation.secure import exchange

    def loose(terms: Any, adverts: Any, sharers: Any, arrived: Any) -> Any:
        return terms.marks(arrived).tobytes()

    return [(exchange, "confirmation", loose)]


def _unconfirmed_sharers() -> list[Patch]:
    """A confirmation says who arrived, and not who shared."""
    from tacit.federation.secure import exchange

    def loose(terms: Any, adverts: Any, sharers: Any, arrived: Any) -> Any:
        return terms.about("confirm", terms.marks(arrived).tobytes())

    return [
        (exchange, "confirmation", loose),
        (exchange.Member, "_check_arrived", lambda self, arrived: None),
    ]


def _unsigned_keys() -> list[Patch]:
    """Keys are taken whoever signed them."""
    from tacit.federation.secure import exchange

    return [(exchange, "check_advert", lambda *arguments: None)]


def _unpinned() -> list[Patch]:
    """Partners are whoever the coordinator says, with the keys that it says."""
    from tacit.federation import service
    from tacit.federation.secure import exchange, site

    checking = (service, site, exchange)
    return [
        *_unsigned_keys(),
        *((module, "check_partners", lambda *arguments: None) for module in checking),
    ]


def _rolling_back() -> list[Patch]:
    """A repeated old request takes the site back to where it was then."""
    from tacit.federation import service
    from tacit.rounds.checkpoint import Remembering

    class Rolls(Remembering):
        def __init__(self, participant: Any, outbox: Any) -> None:
            super().__init__(participant, outbox)
            self.states: dict[bytes, Any] = {}

        def respond(self, request: Any) -> Any:
            if request.digest in self.states:
                reply, state = self.states[request.digest]
                self.participant.restore(state)
                return reply
            reply = self.participant.respond(request)
            kept = {name: array.copy() for name, array in self.participant.state().items()}
            self.states[request.digest] = reply, kept
            return reply

    return [(service, "Remembering", Rolls)]


def _retrying() -> list[Patch]:
    """An exchange is tried again after a list was confirmed, and even after a sum."""
    from tacit.federation.secure.site import SecureParticipant

    begin, end = SecureParticipant._advertise, SecureParticipant._unmask

    def advertise(self: Any, request: Any, attempt: int) -> Any:
        if self._member is not None:
            self._member.done = 0
        return begin(self, request, attempt)

    def unmask(self: Any, member: Any, arrays: Any) -> Any:
        kept = member, self._values, self._next
        found = end(self, member, arrays)
        self._member, self._values, self._next = kept
        return found

    return [
        (SecureParticipant, "_advertise", advertise),
        (SecureParticipant, "_unmask", unmask),
    ]


def _unbound_requests() -> list[Patch]:
    """Keys are not bound to what is asked: sites share whatever each of them was asked for."""
    from experiments._hostile import sums
    from tacit.federation.secure import site

    return [(module, "asked_digest", lambda *arguments: b"") for module in (site, sums)]


def _low_threshold() -> list[Patch]:
    """Two lists may reach the threshold."""
    return _agreeing()


def _alone() -> list[Patch]:
    """Noise is split among all who take part, whoever of them may know its own."""
    from tacit.estimators.families import estimator_of

    kind = estimator_of("recommender")
    agree = kind._agree

    def split(self: Any, facts: Any, shares: int = 1) -> Any:
        return agree(self, facts, len(facts))

    return [(kind, "_agree", split)]


# -- at the coordinator, against sites ------------------------------------------------------------


def _believing() -> list[Patch]:
    """Whatever a site sends is taken, with whatever numbers, for whatever it says it is."""
    from tacit.federation import coordinate
    from tacit.privacy.certificate import Certificate
    from tacit.rounds import messages

    def read(data: Any, binding: bytes, largest: int, *, sealed: bool) -> Any:
        return messages.Message.from_bytes(memoryview(data)[40:], sealed=sealed)

    def certificate(computation: Any, name: str, reply: Any) -> Any:
        return Certificate.from_json(reply["certificate"].tobytes().decode())

    return [
        (wire, "_unpack", read),
        (messages.ArraySpec, "problem", lambda self, array, sizes=None: None),
        (coordinate, "_certificate", certificate),
    ]


def _unwatchful() -> list[Patch]:
    """What sites send in secure sums is not checked when it comes."""
    from tacit.federation.secure.coordinator import SecureCoordinator

    return [(SecureCoordinator, "check", lambda self, site, reply: None)]


BUILDS: dict[str, Callable[[], list[Patch]]] = {
    "speaking": _speaking,
    "agreeing": _agreeing,
    "going back": _going_back,
    "reading all": _reading_all,
    "unpickling": _unpickling,
    "unconfirmed": _unconfirmed,
    "unbound confirmations": _unbound_confirmations,
    "unconfirmed sharers": _unconfirmed_sharers,
    "unsigned keys": _unsigned_keys,
    "unpinned": _unpinned,
    "rolling back": _rolling_back,
    "retrying": _retrying,
    "unbound requests": _unbound_requests,
    "low threshold": _low_threshold,
    "alone": _alone,
    "believing": _believing,
    "unwatchful": _unwatchful,
}
