"""What must hold after a run with faults, from the ledgers, outboxes and lines of its sites."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from tacit.errors import SiteFailure, TacitError
from tacit.estimators.coordinator import Asking
from tacit.estimators.fit import coordinator
from tacit.federation import wire
from tacit.federation.computation import Computation
from tacit.federation.proposal import Proposal
from tacit.federation.secure.coordinator import SecureCoordinator
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.reservation import claimed_positions, row_leaves
from tacit.rounds.aggregate import PlainAggregator
from tacit.rounds.checkpoint import Checkpoint, Outbox
from tacit.rounds.messages import Message, check_reply


def run_folder(home: Path, run: str) -> Path:
    """Return where a site keeps what it paid for in a run."""
    return home / "state" / hashlib.sha256(run.encode()).hexdigest()[:32]


def replies(home: Path, run: str) -> dict[int, bytes]:
    """Return the digest of every request that was answered, and the reply to it, as bytes."""
    folder = run_folder(home, run) / "outbox"
    if not folder.exists():
        return {}
    found = {}
    for round in Outbox(folder).rounds():  # a state behind a reply may be erased as we look
        data = (folder / f"round-{round:06d}.tacit").read_bytes()
        reply = Message.from_bytes(data[40 : 40 + int.from_bytes(data[32:40], "little")])
        found[round] = data[:32] + reply.to_bytes()
    return found


def paid_once(home: Path, proposal: Proposal, *, began: bool) -> bool:
    """Whether a run was charged its ε once, and every draw claimed and paid for at most once.

    A site that never began, because it was left out before, may have paid nothing.
    """
    rows = list(Ledger.open(home / "ledger.db")._store.run_rows(proposal.run))
    charges = [row for row in rows if row.kind == "charge"]
    if not charges and not began:
        return not rows
    paid, last = set(), {}
    for row in rows:
        named = claimed_positions(row.purpose) if row.kind == "claim" else None
        if named is None:
            continue
        for position in range(named.first, named.stop):
            place = named.step, position
            if place in last and (not named.after or last[place] != named.after):
                return False
            if place in last and row_leaves(row):
                return False
            last[place] = named.name
            paid.add(place)
    # what counts in the ledger's own unit is never less than what was asked for
    return len(charges) == 1 and float(charges[0].cost) >= proposal.epsilon_of() * (1.0 - 1e-9)


def released_once(
    home: Path, proposal: Proposal, site: str, left: Iterable[tuple[str, bytes, bytes]]
) -> bool:
    """Whether no request was answered by two messages, and what left is what was kept."""
    kept, answers = replies(home, proposal.run), {}
    for method, request, answer in left:
        if method != "respond":
            continue
        try:
            reply = wire.read_answer(answer, request, proposal.run, site)
        except TacitError:
            continue  # a refusal, or another run's
        asked = wire.read_request(request, proposal.run)
        body = asked.digest + reply.to_bytes()
        if answers.setdefault(asked.round, body) != body or kept.get(asked.round) != body:
            return False
    return True


def seed_of(checkpoint: Path) -> int:
    """Return the seed of the coordinator's own randomness, as it kept it."""
    saved = Checkpoint(checkpoint).load()
    assert saved is not None
    arrays = saved[0].arrays
    note = arrays["note"] if "note" in arrays else arrays["inner/note"]
    return int(json.loads(note.tobytes())["seed"])


def implied(
    proposal: Proposal,
    homes: Mapping[str, Path],
    seed: int,
    members: Mapping[int, list[str]],
    partners: Mapping[str, bytes],
) -> Asking | None:
    """Return a coordinator that has learned from the messages in the outboxes, in one process.

    None where a round was asked for that a site has not answered in these words, or not as it
    had to.

    Parameters
    ----------
    proposal, homes, partners
        What was run, by whom.
    seed
        Of the coordinator's own randomness.
    members
        Round → whose answers it took in.
    """
    computation = Computation(proposal)
    inner = coordinator(computation.agreement, seed)
    terms = computation.terms
    outer: Any = inner if terms is None else SecureCoordinator(inner, terms, partners)
    outboxes = {s: Outbox(run_folder(h, proposal.run) / "outbox") for s, h in homes.items()}
    with threadpool_limits(1):  # as in the job: threads would change the last bits
        return inner if _heard(outer, outboxes, members) else None


def _heard(outer: Any, outboxes: Mapping[str, Outbox], members: Mapping[int, list[str]]) -> bool:
    """Take in what was answered, as a coordinator does; False where it would refuse something."""
    round = 0
    while (request := outer.request(round)) is not None:
        found = {}
        for site in members.get(round, ()):
            own = request if isinstance(request, Message) else request[site]
            digest, reply, _ = outboxes[site].read(round)
            if digest != own.digest:
                return False
            try:
                check_reply(reply, round, outer.replies)
                outer.check(site, reply)
            except SiteFailure:
                return False
            found[site] = reply
        if not found:
            return False
        outer.absorb(round, PlainAggregator().collect(found))
        round += 1
    return True


def arrays_of(found: Any, name: str = "") -> dict[str, Any]:
    """Return every array and number of what a coordinator learned, by its path."""
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        found = {one.name: getattr(found, one.name) for one in dataclasses.fields(found)}
    elif hasattr(found, "_asdict"):
        found = found._asdict()
    elif isinstance(found, list | tuple):
        found = dict(enumerate(found))
    elif hasattr(found, "__dict__") and type(found).__module__.startswith("tacit."):
        found = vars(found)
    if isinstance(found, Mapping):
        parts = [arrays_of(part, f"{name}/{key}") for key, part in found.items()]
        return {path: array for part in parts for path, array in part.items()}
    array = np.asarray(found)
    return {name: array} if array.dtype.kind in "biuf" else {}


def agree(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two results hold arrays, and the same ones."""
    if not one or set(one) != set(other):
        return False
    return all(np.array_equal(one[n], other[n], equal_nan=True) for n in one)
