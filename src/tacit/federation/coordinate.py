"""The coordinator of a federation: proposes, drives the rounds, collects certificates, concludes.

It knows nothing of what carries its messages: a `Transport` calls sites by name with bytes.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tacit._core.folders import check_writable
from tacit.errors import SiteFailure, TacitError
from tacit.federation import wire
from tacit.federation.computation import Computation
from tacit.federation.files import CoordinatorConfig, Step
from tacit.federation.proposal import Proposal, opening_text
from tacit.federation.secure import keys
from tacit.federation.secure.coordinator import SecureCoordinator
from tacit.federation.secure.exchange import check_partners
from tacit.privacy.certificate import Certificate
from tacit.rounds.checkpoint import Checkpoint, run_name
from tacit.rounds.messages import Message
from tacit.rounds.run import Request, drive
from tacit.rounds.sides import Coordinator, Failure, RunRecord

__all__ = ["Caller", "Result", "Transport", "coordinate", "run_proposal"]

Answers = Iterator[tuple[str, bytes | memoryview | Exception]]


class Transport(Protocol):
    """Whatever carries bytes to sites and back."""

    def call(
        self,
        method: str,
        data: bytes | Mapping[str, bytes],
        names: tuple[str, ...],
        timeout: float,
    ) -> Answers:
        """Call a method at every named site at once; yield what each gave, or why it did not.

        ``data`` is the same for all, or site → its own.
        """


@dataclass(frozen=True)
class Result:
    """What one computation gave."""

    model: Any
    outcome: Mapping[str, Any]
    record: RunRecord
    certificates: Mapping[str, Certificate]


class Caller:
    """Calls sites with messages instead of bytes, each bound to its run, site and request."""

    def __init__(self, transport: Transport, run: str, timeout: float) -> None:
        self.transport, self.run, self.timeout = transport, run, timeout

    def __call__(
        self, method: str, message: Request, names: tuple[str, ...]
    ) -> Iterator[tuple[str, Message | Exception]]:
        """Call a method at sites; yield each site's reply, or why there is none."""
        run = "open" if method == "open" else self.run
        data: bytes | dict[str, bytes]
        if isinstance(message, Message):
            data = wire.ask(message, run)
        else:
            data = {name: wire.ask(message[name], run) for name in names}
        left = set(names)
        for name, found in self.transport.call(method, data, names, self.timeout):
            if name not in left:
                continue  # somebody who was not asked, or has answered
            left.discard(name)
            answer: Message | Exception
            try:
                if isinstance(found, Exception):
                    raise found
                asked = data if isinstance(data, bytes) else data[name]
                answer = wire.read_answer(found, asked, run, name)
            except Exception as error:
                answer = error
            yield name, answer
        for name in sorted(left):
            yield name, SiteFailure(f"no answer within {self.timeout:g} s")


def _settle(
    caller: Caller,
    method: str,
    message: Message,
    names: tuple[str, ...],
    on_failure: str,
    minimum: int,
) -> tuple[dict[str, Message], dict[str, str]]:
    """Make one call to all; return who answered and why the others did not."""
    found, lost = {}, {}
    for name, answer in caller(method, message, names):
        if isinstance(answer, Exception):
            lost[name] = Failure.of(0, name, answer).reason
        else:
            found[name] = answer
    if lost and (on_failure == "stop" or len(found) < minimum):
        why = "; ".join(f"{name}: {reason}" for name, reason in lost.items())
        few = f"{len(found)} sites are left, {minimum} are needed: "
        raise SiteFailure(why if on_failure == "stop" else few + why)
    return found, lost


def run_proposal(
    proposal: Proposal,
    transport: Transport,
    *,
    timeout: float = 60.0,
    on_failure: str = "stop",
    minimum: int = 1,
    checkpoint: Path | None = None,
    progress: Callable[[RunRecord], None] | None = None,
    plugins: Sequence[str] = (),
    identity: bytes | None = None,
    partners: Mapping[str, bytes] | None = None,
) -> Result:
    """Run one computation over a transport.

    Parameters
    ----------
    proposal
        What to run, with whom.
    transport
        How to reach the sites.
    timeout
        Seconds for each call.
    on_failure, minimum
        As in `tacit.rounds.run.run`.
    checkpoint
        A folder that records every complete round; a run that died goes on from there.
    progress
        Called after every round.
    plugins
        Families besides tacit's own that may be proposed.
    identity
        The Ed25519 key that signs the proposal; sites that name coordinators ask for it.
    partners
        The public keys of the sites' identities; a secure sum is refused without them.
    """
    computation = Computation(proposal, plugins)
    pinned, terms = dict(partners or {}), computation.terms
    if terms is not None:
        check_partners("", None, pinned, terms.sites)
    minimum = max(minimum, proposal.threshold or 1)
    caller = Caller(transport, proposal.run, timeout)
    text = wire.text_array(proposal.to_json())
    opening = {"proposal": text, "digest": wire.text_array(computation.digest)}
    if identity is not None:
        whole = opening_text(*(array.tobytes() for array in opening.values()))
        opening["signature"] = np.frombuffer(keys.sign(identity, whole), np.uint8)
    asked, kept = Message(0, opening), None if checkpoint is None else Checkpoint(checkpoint)
    inner = computation.coordinator()
    coordinator: Coordinator = inner
    if terms is not None:
        coordinator = SecureCoordinator(inner, terms, pinned)
    try:
        _, lost = _settle(caller, "open", asked, proposal.sites, on_failure, minimum)
        names = tuple(name for name in proposal.sites if name not in lost)
        _, more = _settle(caller, "begin", Message(0), names, on_failure, minimum)
    except SiteFailure as error:
        raise SiteFailure(f"{error}{_remark(coordinator, kept)}") from None
    names, lost = tuple(name for name in names if name not in more), {**lost, **more}
    record = drive(
        coordinator,
        names,
        lambda request, left: caller("respond", request, left),
        on_failure=on_failure,
        minimum=minimum,
        checkpoint=kept,
        progress=progress,
        absent=tuple(name for name in proposal.sites if name not in names),
    )
    record.failures[:0] = [Failure(0, name, reason) for name, reason in lost.items()]
    certificates = _close(caller, computation, inner, record, on_failure, minimum, pinned)
    _dismiss(caller, asked, _closing(computation, inner), set(proposal.sites) - set(record.sites))
    model = computation.conclude(inner, record, certificates)
    return Result(model, computation.outcome(), record, certificates)


def _remark(coordinator: Coordinator, checkpoint: Checkpoint | None) -> str:
    """Return what there is to say about a run that cannot go on where it was."""
    saved = None if checkpoint is None else checkpoint.load()
    if saved is None:
        return ""
    coordinator.restore(saved[0].arrays)
    return coordinator.remark


def _close(
    caller: Caller,
    computation: Computation,
    coordinator: Coordinator,
    record: RunRecord,
    on_failure: str,
    minimum: int,
    pinned: Mapping[str, bytes],
) -> dict[str, Certificate]:
    """Hand out what was learned; take in certificates, each checked against what was asked.

    A site that gives none, or that of something else, is named. Where sites may be excluded the
    others' run is not lost by that, but what it gave is not released.
    """
    closing = _closing(computation, coordinator)
    found, lost = _settle(caller, "close", closing, record.sites, on_failure, minimum)
    certificates = {}
    for name, reply in found.items():
        try:
            certificates[name] = _certificate(computation, name, reply, pinned.get(name))
        except SiteFailure as error:
            lost[name] = str(error)
    if lost and (on_failure == "stop" or len(certificates) < minimum):
        raise SiteFailure("; ".join(f"{name}: {reason}" for name, reason in lost.items()))
    record.failures += [Failure(record.rounds, name, reason) for name, reason in lost.items()]
    public = computation.agreement.public_sites  # which promise nothing
    return {name: one for name, one in certificates.items() if name not in public}


def _closing(computation: Computation, coordinator: Coordinator) -> Message:
    shared = computation.shared(coordinator)
    return Message(0, {f"shared/{name}": array for name, array in shared.items()})


def _dismiss(caller: Caller, opening: Message, closing: Message, names: set[str]) -> None:
    """Tell sites that were left out that the run is over, as far as they can be reached.

    They hold one-time keys of the sum that went on without them, and erase them now.
    """
    for method, message in (("open", opening), ("close", closing)):
        answers = list(caller(method, message, tuple(sorted(names)))) if names else []
        names = {name for name, answer in answers if isinstance(answer, Message)}


def _certificate(
    computation: Computation, name: str, reply: Message, pinned: bytes | None
) -> Certificate:
    """Read a site's certificate; it must state what was agreed on, whoever sent it."""
    try:
        certificate = Certificate.from_json(reply["certificate"].tobytes().decode())
    except Exception:  # whatever a site makes up instead
        raise SiteFailure("sent no certificate that can be read") from None
    asked = computation.proposal.guarantee()
    assert asked is not None  # no site accepts a proposal without one
    same = all(
        getattr(certificate, field) == getattr(asked, field)
        for field in ("delta", "unit", "neighbours", "trust")
    )
    same = same and certificate.against == computation.against
    if not same or certificate.holder != name or certificate.event != computation.event(name):
        raise SiteFailure("sent the certificate of something else")
    try:
        certificate.verify()  # the events are those of the agreement, so this cannot take long
    except TacitError:
        raise SiteFailure("sent a certificate that does not agree with itself") from None
    if pinned is not None and certificate.identity and certificate.identity != pinned.hex():
        raise SiteFailure("sent a certificate that another identity vouches for")
    return certificate


# -- a whole file of computations ---------------------------------------------------------------


def coordinate(config: CoordinatorConfig, transport: Transport) -> dict[str, Result]:
    """Run every computation of a coordinator's file; what is complete is not run again.

    Results, the run record and the progress are written to the output folder.
    """
    results = {}
    for step in config.steps:  # all of them, before any site pays for the first
        check_writable(config.output / step.name, "the result")
    for step in config.steps:
        folder = config.output / step.name
        if (folder / "record.json").exists():
            continue
        proposal = step.proposal(config.sites, run_name(folder), config.rehearsal)
        started = time.time()

        def progress(record: RunRecord, step: Step = step, folder: Path = folder) -> None:
            line = {
                "step": step.name,
                "round": record.rounds,
                "sites": list(record.sites),
                "seconds": record.seconds[-1],
                "bytes": record.bytes_received,
            }
            with open(folder / "progress.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")

        result = run_proposal(
            proposal,
            transport,
            timeout=config.timeout,
            on_failure=config.on_failure,
            minimum=config.minimum,
            checkpoint=folder / "checkpoint",
            progress=progress,
            plugins=config.plugins,
            identity=config.key(),
            partners=config.partners,
        )
        results[step.name] = result
        _write(folder, step, proposal, result, time.time() - started)
    return results


def _write(folder: Path, step: Step, proposal: Proposal, result: Result, seconds: float) -> None:
    """Write the release and, last, the record that says that this step is complete.

    ``outcome.tacit`` is the coordinator's own copy; ``release`` is what may be passed on.
    """
    asked = proposal.guarantee()
    public = () if asked is None else asked.public_sites
    without = sorted(set(result.record.sites) - {*result.certificates, *public})
    reason = f"{', '.join(without)} gave no certificate" if without else None
    if proposal.rehearsal:
        reason = "a rehearsal, on made-up data"
    # without a record, what lies there is of a process that died while it wrote
    shutil.rmtree(folder / "release", ignore_errors=True)
    whole = Message(result.record.rounds, result.outcome)
    (folder / "outcome.tacit").write_bytes(whole.to_bytes())
    try:
        if reason is None:
            result.model.release(folder / "release")
    except TacitError as error:  # such as seeded noise, which is not for release
        reason = str(error)
    record = result.record
    content = {
        "step": step.name,
        "computation": proposal.computation,
        "run": proposal.run,
        "rounds": record.rounds,
        "resumed_at": record.resumed_at,
        "seconds": seconds,
        "seconds_per_round": record.seconds,
        "bytes_received": record.bytes_received,
        "sites": list(record.sites),
        "failures": [asdict(failure) for failure in record.failures],
        "epsilon": {name: c.epsilon for name, c in result.certificates.items()},
        "certificates": {n: json.loads(c.to_json()) for n, c in result.certificates.items()},
        "not_released": reason,
    }
    draft = folder / "record.json.new"
    draft.write_text(json.dumps(content, indent=1, ensure_ascii=False), encoding="utf-8")
    draft.replace(folder / "record.json")
