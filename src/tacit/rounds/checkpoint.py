"""Checkpoints: a run can be resumed, and a message that was paid for is never drawn again."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import numpy as np

from tacit.errors import SiteFailure
from tacit.rounds.messages import Message
from tacit.rounds.protocol import Participant

__all__ = ["Checkpoint", "Outbox", "Remembering"]


def _write(path: Path, data: bytes) -> None:
    """Replace a file durably: either the old or the new content survives a crash."""
    draft = path.with_name(path.name + ".new")
    with open(draft, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class Checkpoint:
    """The coordinator's side: its state after the last complete round."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def save(self, state: Message, excluded: tuple[str, ...]) -> None:
        """Record that ``state.round`` rounds are complete, and which sites are out."""
        note = np.frombuffer(json.dumps(list(excluded)).encode(), np.uint8)
        whole = Message(state.round, {f"state/{n}": a for n, a in state.arrays.items()}
                        | {"excluded": note})  # fmt: skip
        _write(self.folder / "run.tacit", whole.to_bytes())

    def load(self) -> tuple[Message, tuple[str, ...]] | None:
        """Return the last recorded state, or None."""
        path = self.folder / "run.tacit"
        if not path.exists():
            return None
        whole = Message.from_bytes(path.read_bytes())
        arrays = dict(whole.arrays)
        excluded = json.loads(arrays.pop("excluded").tobytes())
        state = {name.removeprefix("state/"): array for name, array in arrays.items()}
        return Message(whole.round, state), tuple(excluded)


class Outbox:
    """A participant's side: the replies it has paid for, by round."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def _path(self, round: int) -> Path:
        return self.folder / f"round-{round:06d}.tacit"

    def get(self, request: Message) -> Message | None:
        """Return the reply to a request that was answered before.

        A different request for an answered round is refused: it would need fresh noise.
        """
        path = self._path(request.round)
        if not path.exists():
            return None
        data = path.read_bytes()
        if data[:32] != _digest(request):
            raise SiteFailure(f"round {request.round} was answered already, to another request")
        return Message.from_bytes(data[32:])

    def put(self, request: Message, reply: Message) -> None:
        """Keep a reply, durably, before it is sent."""
        _write(self._path(request.round), _digest(request) + reply.to_bytes())


def _digest(request: Message) -> bytes:
    return hashlib.sha256(request.to_bytes()).digest()


class Remembering(Participant):
    """A participant that answers a repeated request with the reply it already paid for."""

    def __init__(self, participant: Participant, outbox: Outbox) -> None:
        self.participant, self.outbox = participant, outbox
        self.name = participant.name

    def respond(self, request: Message) -> Message:
        """Answer from the outbox, or answer and keep the reply before it leaves."""
        known = self.outbox.get(request)
        if known is not None:
            return known
        reply = self.participant.respond(request)
        self.outbox.put(request, reply)
        return reply
