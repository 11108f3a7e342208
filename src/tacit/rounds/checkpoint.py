"""Checkpoints: a run can be resumed, and a message that was paid for is never drawn again."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import RequestRefused
from tacit.rounds.messages import Message
from tacit.rounds.sides import Attempt, Participant

__all__ = ["Checkpoint", "Outbox", "Remembering", "run_name", "write_durably"]


def write_durably(path: Path, data: bytes) -> None:
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
        write_durably(place / "run", uuid.uuid4().hex.encode())
    return (place / "run").read_text(encoding="utf-8").strip()


class Checkpoint:
    """The coordinator's side: its state after the last complete round."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def save(self, state: Message, excluded: tuple[str, ...]) -> None:
        """Record that ``state.round`` rounds are complete, and which sites are out."""
        note = np.frombuffer(json.dumps(list(excluded)).encode(), np.uint8)
        whole = Message(
            state.round, {f"state/{n}": a for n, a in state.arrays.items()} | {"excluded": note}
        )
        write_durably(self.folder / "run.tacit", whole.to_bytes())

    def keep_request(self, request: Message) -> None:
        """Keep a request before it is sent."""
        write_durably(self.folder / "asked.tacit", request.to_bytes())

    def asked(self, round: int) -> Message | None:
        """Return the request of a round as it was sent before, or None."""
        path = self.folder / "asked.tacit"
        if not path.exists():
            return None
        request = Message.from_bytes(path.read_bytes())
        return request if request.round == round else None

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
    """A participant's side: every reply that it paid for, and its state after the last."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._known: list[int] | None = None  # the last round, as this process knows it

    def rounds(self) -> list[int]:
        """Return which rounds were answered, in order."""
        return sorted(
            int(path.stem.removeprefix("round-")) for path in self.folder.glob("round-*.tacit")
        )

    def _path(self, round: int) -> Path:
        return self.folder / f"round-{round:06d}.tacit"

    def last(self) -> tuple[bytes, Message, dict[str, Any]] | None:
        """Return the digest of the last request, its reply and the state after it."""
        answered = self.rounds()
        self._known = answered[-1:]
        return self.read(answered[-1]) if answered else None

    def read(self, round: int) -> tuple[bytes, Message, dict[str, Any]]:
        """Return the digest of a round's request, its reply and the state after it."""
        data = self._path(round).read_bytes()
        length = int.from_bytes(data[32:40], "little")
        reply = Message.from_bytes(data[40 : 40 + length])
        state = data[40 + length :]
        erased = not state.strip(b"\0")  # cut off, or about to be when a process died
        return data[:32], reply, {} if erased else dict(Message.from_bytes(state).arrays)

    def put(self, request: Message, reply: Message, state: Mapping[str, Any]) -> None:
        """Keep a reply and the participant's state, durably and at once, before it is sent.

        Where another process of this participant has answered since the last look, its state is
        the later one, and nothing is kept.
        """
        with _locked(self.folder):
            if self._known is not None and self.rounds()[-1:] != self._known:
                raise RequestRefused("another process of this site has answered since")
            self._put(request.round, request.digest, reply, state)
            self._known = [request.round]

    def _put(self, round: int, digest: bytes, reply: Message, state: Mapping[str, Any]) -> None:
        body, kept = reply.to_bytes(), Message(round, state).to_bytes()
        write_durably(self._path(round), digest + len(body).to_bytes(8, "little") + body + kept)

    @property
    def _tries(self) -> Path:
        return self.folder / "tries"

    def attempt(self, request: Message) -> Attempt:
        """Return a try at a request that was never answered from here."""
        digest, kept = request.digest, b""
        if self._tries.exists():
            kept = self._tries.read_bytes()
        lost = kept[32:].decode("ascii").split() if kept[:32] == digest else []

        def keep(name: str) -> None:
            write_durably(self._tries, digest + " ".join([*lost, name]).encode())

        return Attempt(tuple(lost), keep)

    def forsake(self) -> None:
        """Forget tries that failed: what was drawn may have been why, so it is not drawn again."""
        write_durably(self._tries, b"")

    def erase(self, round: int) -> None:
        """Overwrite the state that stands behind a reply."""
        _erase(self._path(round))

    def close(self, round: int, state: Mapping[str, Any]) -> None:
        """Put another state in the place of the last one, which is overwritten."""
        with _locked(self.folder):
            digest, reply, _ = self.read(round)
            self.erase(round)
            self._put(round, digest, reply, state)
        self.erase_earlier()

    def erase_earlier(self) -> None:
        """Overwrite the states before the last one, and drafts that a crash left behind."""
        for round in self.rounds()[:-1]:
            self.erase(round)
        for draft in self.folder.glob("*.new"):
            _overwrite(draft, 0)
            draft.unlink()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock between processes, where the system has one; it ends with its process."""
    try:
        fcntl = importlib.import_module("fcntl")
    except ImportError:  # Windows has none; sites of a federation run elsewhere
        yield
        return
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)


def _erase(path: Path) -> None:
    with open(path, "rb") as file:
        start = 40 + int.from_bytes(file.read(40)[32:], "little")
    if path.stat().st_size > start:
        _overwrite(path, start)
        os.truncate(path, start)


def _overwrite(path: Path, start: int) -> None:
    with open(path, "r+b") as file:
        file.seek(start)
        file.write(bytes(max(0, path.stat().st_size - start)))
        file.flush()
        os.fsync(file.fileno())


class Remembering(Participant):
    """A participant that answers a repeated request with the reply it already paid for.

    Neither a live nor a restarted one goes back: an older round, or another content for the last
    one, would need fresh noise and is refused. The participant's state is kept beside the last
    reply, so that it goes on from there.

    A reply that was drawn and not kept never left. Where the process died in between, the next one
    draws again, under the same claim: when a process is killed does not depend on what it drew.
    Where answering *failed* after the claim, the noise may have been the reason, and drawing until
    it succeeds would be another law: that step stays lost.
    """

    def __init__(self, participant: Participant, outbox: Outbox) -> None:
        self.participant, self.outbox = participant, outbox
        self.name, self.open_rounds = participant.name, participant.open_rounds
        self._last = outbox.last()
        if self._last is not None and self._last[2]:
            participant.restore(self._last[2])
        if participant.one_time:
            outbox.erase_earlier()

    def respond(self, request: Message) -> Message:
        """Answer from the outbox, or answer and keep the reply before it leaves."""
        if self._last is not None:
            digest, reply, _ = self._last
            if request.round == reply.round and request.digest == digest:
                return reply
            if request.round <= reply.round:
                raise RequestRefused(
                    f"round {request.round} was answered already, to another request", "order"
                )
        attempt = self.outbox.attempt(request)
        self.participant.attempt = attempt
        try:
            reply = self.participant.respond(request)
        except Exception:
            if attempt.spent:
                self.outbox.forsake()
            raise
        self.outbox.put(request, reply, self.participant.state())
        if self.participant.one_time and self._last is not None:
            self.outbox.erase(self._last[1].round)
        self._last = request.digest, reply, {}
        return reply

    def close(self) -> None:
        """Have the participant forget what was for one use, here and on disk: the run is over."""
        if self.participant.one_time:
            self.participant.forget()
            if self._last is not None:
                self.outbox.close(self._last[1].round, self.participant.state())
