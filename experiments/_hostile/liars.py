"""Rogue sites against a coordinator and the other sites: they poison, forge, crash and collude.

The coordinator is tacit's own, asked to go on without those at fault. The control is a coordinator
that believes what it is sent; against colluding sites it is sites that forget about them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import scipy.stats

from experiments._hostile import builds
from experiments._hostile.coordinator import IN_SHARES, PRIVACY
from experiments._hostile.got import Got
from experiments._hostile.homes import ITEMS, RECOMMENDER, SETTINGS, SHELF
from experiments._hostile.parties import Sites
from tacit.errors import SiteFailure
from tacit.federation import wire
from tacit.federation.computation import Computation
from tacit.federation.coordinate import Result, run_proposal
from tacit.federation.files import SiteConfig
from tacit.federation.proposal import Proposal
from tacit.federation.secure.coordinator import SecureCoordinator
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    SelfComposedDpEvent,
)
from tacit.rounds.checkpoint import Outbox
from tacit.rounds.messages import Message

_counter = itertools.count()
Lie = Callable[[Message], Message | bytes | Exception]


class Lying:
    """Carries calls, and changes what one site answers.

    Parameters
    ----------
    sites
        Who is called.
    liar
        Who lies.
    method
        In which call.
    lie
        From an honest answer to what is sent instead.
    run
        Of which run.
    """

    def __init__(self, sites: Sites, liar: str, method: str, lie: Lie, run: str) -> None:
        self.sites, self.liar, self.method, self.lie, self.run = sites, liar, method, lie, run

    def call(
        self, method: str, data: Any, names: tuple[str, ...], timeout: float
    ) -> Iterator[tuple[str, bytes | Exception]]:
        """Carry a call."""
        for name, answer in self.sites.call(method, data, names, timeout):
            if name != self.liar or method != self.method or isinstance(answer, Exception):
                yield name, answer
                continue
            own = data if isinstance(data, bytes) else data[name]
            told = self.lie(Message.from_bytes(answer[40:], sealed=False))
            if isinstance(told, Message):
                told = wire.answer(told, own, self.run, name)
            yield name, told


def _every(change: Callable[[Any], Any]) -> Lie:
    """Change every array of an answer."""
    return lambda told: Message(told.round, {n: change(a) for n, a in told.arrays.items()})


POISON: dict[str, Lie] = {
    "out of range": _every(lambda array: np.full_like(array, 2.0**60)),
    "not finite": _every(lambda array: np.full(array.shape, np.nan)),
    "another shape": _every(lambda array: np.vstack([array, array])),
    "another kind": _every(lambda array: array.astype(np.float32)),
    "no arrays": lambda told: Message(told.round),
    "another round": lambda told: Message(told.round + 1, told.arrays),
    "a replay": lambda told: wire.answer(told, b"0" * 80, "another run", "another site"),
    "no message": lambda told: b"\x80\x04K\x01.",
    "nothing": lambda told: b"",
    "a long message": lambda told: Message(0, {"x": np.zeros(1 << 20)}),
}


def _spoilt(exchange: str) -> Lie:
    """Fill what one exchange sends with other bytes."""

    def lie(told: Message) -> Message:
        if exchange not in told.arrays:
            return told
        other = np.full_like(told[exchange], 7)
        return Message(told.round, {**told.arrays, exchange: other})

    return lie


PROTOCOL = {name: _spoilt(name) for name in ("advert", "boxes", "signature", "shares")}


def _certified(change: Mapping[str, Any]) -> Lie:
    """Change a certificate, as one who can make its digest anew."""

    def lie(told: Message) -> Message:
        given = Certificate.from_json(told["certificate"].tobytes().decode())
        forged = dataclasses.replace(given, **change)
        return Message(0, {"certificate": wire.text_array(forged.to_json())})

    return lie


FORGED: dict[str, Lie] = {
    "a smaller epsilon": _certified({"epsilon": 0.01}),
    "a smaller delta": _certified({"delta": 1e-12}),
    "another unit": _certified({"unit": "entry"}),
    "against everybody": _certified({"against": "everybody, for ever"}),
    "of another holder": _certified({"holder": "somebody"}),
}


def _run(
    sites: Sites, method: str, lie: Lie, build: str, *, secure: bool = False, stop: bool = False
) -> tuple[str, Result | None]:
    """Run four sites, the second of whom lies; return who, and what came of it."""
    names, run = sites.names[:4], f"lie {next(_counter)}"
    proposal = Proposal(
        "factorization", SETTINGS, PRIVACY, names, run, 3 if secure else None, colluding=0
    )
    pinned = SiteConfig.read(sites.homes[names[0]].file).partners
    transport = Lying(sites, names[1], method, lie, run)
    try:
        with builds.taken(build if sites.control else ""):
            return names[1], run_proposal(
                proposal, transport, on_failure="stop" if stop else "exclude", minimum=2,
                partners={name: pinned[name] for name in names}, timeout=20.0,
            )  # fmt: skip
    except Exception:  # whatever a believing coordinator trips over: the others' run is lost
        return names[1], None


def _harmed(liar: str, found: Result | None) -> bool:
    """Whether a run was lost, or went on with the one who lied, or without an honest one."""
    if found is None:
        return True
    named = {failure.site for failure in found.record.failures}
    finite = all(np.isfinite(array).all() for array in found.outcome.values())
    return not finite or named != {liar} or len(found.certificates) != 3


def poison(sites: Sites) -> Got:
    """Send numbers, shapes and bytes that are none of the step's."""
    got = Got(len(POISON))
    for lie in POISON.values():
        got.other += _harmed(*_run(sites, "respond", lie, "believing"))
    return got


def break_sums(sites: Sites) -> Got:
    """Send keys, shares and signatures that are none."""
    got = Got(len(PROTOCOL))
    for lie in PROTOCOL.values():
        got.other += _harmed(*_run(sites, "respond", lie, "unwatchful", secure=True))
    return got


def forge(sites: Sites) -> Got:
    """Certify less than what was released."""
    got = Got(len(FORGED))
    for lie in FORGED.values():
        liar, found = _run(sites, "close", lie, "believing")
        got.certificates += found is None or liar in found.certificates
    return got


def vanish(sites: Sites) -> Got:
    """Be gone at any call, for good: the others go on."""
    got = Got()
    for secure in (False, True):
        for method in ("begin", "respond", "close"):
            lost: list[bool] = []

            def gone(told: Message, lost: list[bool] = lost) -> Exception:
                lost.append(True)
                return SiteFailure("gone")

            found = _run(sites, method, gone, "", secure=secure, stop=sites.control)
            got.other += _harmed(*found)
            got.attempts += 1
    return got


def crash(sites: Sites) -> Got:
    """Be killed between two exchanges of a secure sum: the others see it through."""
    process = sites.pid(sites.names[1])

    def killed(told: Message) -> Message:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        return told

    found = _run(sites, "respond", killed, "", secure=True, stop=sites.control)
    return Got(1, other=int(_harmed(*found)))


# -- colluding ------------------------------------------------------------------------------------


class _Colluding:
    """Carries calls; those who collude show what they hold before it is wiped."""

    def __init__(self, sites: Sites, colluding: tuple[str, ...]) -> None:
        self.sites, self.colluding = sites, colluding
        self.values: dict[str, list[Any]] = {name: [] for name in colluding}

    def call(
        self, method: str, data: Any, names: tuple[str, ...], timeout: float
    ) -> Iterator[tuple[str, bytes | Exception]]:
        """Carry a call."""
        for name, answer in self.sites.call(method, data, names, timeout):
            if name in self.colluding and method == "respond":
                folders = self.sites.homes[name].folder.glob("state/*/outbox")
                last = Outbox(max(folders, key=lambda path: path.stat().st_mtime_ns)).last()
                mine = None if last is None else last[2].get("values")
                seen = self.values[name]
                if mine is not None and (not seen or not np.array_equal(seen[-1], mine)):
                    seen.append(mine)
            yield name, answer


def collude(sites: Sites) -> Got:
    """Take off what two of three sites know; see how much noise is left for the third.

    The certificate's ε is for noise of variance σ² that nobody of them knows. What is left is
    measured on items that nobody has rated, where a sum is noise alone; the ε that follows from
    the largest variance that the measurement admits (to 99.9 %) is below the truth.
    """
    got, names, named = Got(), sites.names[:3], SecureCoordinator._named
    pinned = SiteConfig.read(sites.homes[names[0]].file).partners
    for colluding in (1, 2):
        # with c = 1 the control is two thirds of the noise, with c = 2 a third of it
        spies = names[1 : 1 + colluding]
        proposal = Proposal(
            "recommender", RECOMMENDER, IN_SHARES, names, f"collude {next(_counter)}", 3,
            colluding=colluding,
        )  # fmt: skip
        carrier, totals = _Colluding(sites, spies), []
        SecureCoordinator._named = _listening(totals)  # type: ignore[method-assign]
        try:
            with builds.taken("alone" if sites.control else ""):
                found = run_proposal(
                    proposal, carrier, partners={name: pinned[name] for name in names}
                )
                stated = found.certificates[names[0]]
                truth = _truth(proposal, totals, carrier.values, stated.event)
        finally:
            SecureCoordinator._named = named  # type: ignore[method-assign]
        got.attempts += 1
        got.certificates += truth > stated.epsilon
    return got


def _listening(totals: list[Any]) -> Callable[[Any, Any], Any]:
    """Return a coordinator's last step that writes down every sum."""
    named = SecureCoordinator._named

    def listening(self: Any, total: Any) -> Any:
        totals.append(total.astype(np.int64))
        return named(self, total)

    return listening


def _truth(
    proposal: Proposal, totals: list[Any], known: Mapping[str, list[Any]], event: DpEvent
) -> float:
    """Return an ε that is surely not above the real one, by the noise that is left."""
    step = Computation(proposal).agreement.step("offsets")
    (spec,) = step.leaving.values()
    at = next(k for k, total in enumerate(totals) if total.size == len(SHELF))
    left = totals[at] - sum(values[at] for values in known.values())
    noise = np.ldexp(left[len(ITEMS) :].astype(float), spec.exponent or 0)
    largest = (noise**2).sum() / scipy.stats.chi2.ppf(0.001, noise.size)
    share = largest / step.mechanism.scale**2
    return epsilon_of(
        GaussianDpEvent(math.sqrt(share / _squared(event))), proposal.privacy["delta"]
    )


def _squared(event: DpEvent) -> float:
    """Return μ² of Gaussian releases together (Dong, Roth and Su 2022)."""
    if isinstance(event, ComposedDpEvent):
        return sum(_squared(one) for one in event.events)
    if isinstance(event, SelfComposedDpEvent):
        return float(event.count * _squared(event.event))
    assert isinstance(event, GaussianDpEvent)
    return float(event.noise_multiplier**-2)


ATTACKS: dict[str, tuple[Callable[[Sites], Got], str]] = {
    "poison a sum in clear": (poison, ""),
    "break the protocol of secure sums": (break_sums, ""),
    "forge certificates": (forge, ""),
    "be gone": (vanish, ""),
    "collude": (collude, "alone"),
}
