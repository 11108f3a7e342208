"""Checkpoints: a run can be resumed, and a message that was paid for is never drawn again."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import SiteFailure
from tacit.rounds.messages import Message
from tacit.rounds.protocol import Participant

__all__ = ["Checkpoint", "Outbox", "Remembering", "run_name"]


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


def run_name(folder: str | os.PathLike[str]) -> str:
    """Return the name of the run that a folder holds, made and kept there at the first call.

    What was paid for is known by this name: two folders are two runs, whatever they are called.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "run").exists():
        _write(place / "run", uuid.uuid4().hex.encode())
    return (place / "run").read_text(encoding="utf-8").strip()


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

    def get(self, request: Message) -> tuple[Message, dict[str, Any]] | None:
        """Return the reply to a request that was answered before, and the state after it.

        A different request for an answered round is refused: it would need fresh noise.
        """
        path = self._path(request.round)
        if not path.exists():
            return None
        data = path.read_bytes()
        if data[:32] != request.digest:
            raise SiteFailure(f"round {request.round} was answered already, to another request")
        return _parts(data)

    def state_before(self, round: int) -> dict[str, Any] | None:
        """Return the state after the last answered round before a round."""
        answered = sorted(path for path in self.folder.glob("round-*.tacit")
                          if path < self._path(round))  # fmt: skip
        return _parts(answered[-1].read_bytes())[1] if answered else None

    def put(self, request: Message, reply: Message, state: Mapping[str, Any]) -> None:
        """Keep a reply and the participant's state, durably and at once, before it is sent."""
        body = reply.to_bytes()
        kept = Message(request.round, state).to_bytes()
        _write(
            self._path(request.round),
            request.digest + len(body).to_bytes(8, "little") + body + kept,
        )


def _parts(data: bytes) -> tuple[Message, dict[str, Any]]:
    """Return the reply and the state of an outbox file."""
    length = int.from_bytes(data[32:40], "little")
    reply = Message.from_bytes(data[40 : 40 + length])
    return reply, dict(Message.from_bytes(data[40 + length :]).arrays)


class Remembering(Participant):
    """A participant that answers a repeated request with the reply it already paid for.

    The participant's state is kept beside each reply, so that it goes on from there.
    """

    def __init__(self, participant: Participant, outbox: Outbox) -> None:
        self.participant, self.outbox = participant, outbox
        self.name = participant.name
        self._started = False

    def respond(self, request: Message) -> Message:
        """Answer from the outbox, or answer and keep the reply before it leaves."""
        known = self.outbox.get(request)
        if known is not None:
            reply, state = known
            self.participant.restore(state)
            self._started = True
            return reply
        if not self._started and (before := self.outbox.state_before(request.round)) is not None:
            self.participant.restore(before)
        self._started = True
        reply = self.participant.respond(request)
        self.outbox.put(request, reply, self.participant.state())
        return reply
