"""What reaches into tacit: the recorder of releases and replies. Adapt it here, and only here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from tacit.mechanisms.base import watched
from tacit.rounds import run as loop


class Recorder:
    """Digests of everything that passed the gate, and of every reply a coordinator took in."""

    def __init__(self) -> None:
        self._digests: dict[str, hashlib._Hash] = {}
        self._counts: dict[str, int] = {}

    def add(self, name: str, data: bytes) -> None:
        """Take in the next piece under a name."""
        self._digests.setdefault(name, hashlib.sha256()).update(
            len(data).to_bytes(8, "little") + data
        )
        self._counts[name] = self._counts.get(name, 0) + 1

    def array(self, name: str, value: object) -> None:
        """Take in an array: type, shape and bytes."""
        found = np.ascontiguousarray(value)
        self.add(name, f"{found.dtype.str} {found.shape}".encode() + found.tobytes())

    def found(self) -> dict[str, str]:
        """Return name → how many pieces, and the digest of all of them in order."""
        return {
            name: f"{self._counts[name]} pieces, sha256 {digest.hexdigest()}"
            for name, digest in sorted(self._digests.items())
        }


@contextmanager
def recorded_replies(*, replies: bool = True) -> Iterator[Recorder]:
    """Record what passes the gate, and what coordinators accept as replies.

    ``replies=False`` leaves the latter out: replies under masks differ from run to run.
    """
    recorder = Recorder()

    def at_the_gate(mechanism, value, noise):
        released = mechanism.draw(value, noise)
        if isinstance(released, np.ndarray | float | int | np.generic):
            recorder.array("gate", released)
        else:  # an operator, whose products are in the replies
            recorder.add("gate", b"no array")
        return released

    original = loop.check_reply

    def checked(reply, *expected):
        original(reply, *expected)
        if replies:
            recorder.add("replies", reply.to_bytes())
            for name, array in reply.arrays.items():
                recorder.array(f"reply {name}", array)

    loop.check_reply = checked
    try:
        with watched(at_the_gate):
            yield recorder
    finally:
        loop.check_reply = original
