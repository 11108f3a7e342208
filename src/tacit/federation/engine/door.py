"""The door of a site's data process: answers frames, one at a time, and does nothing else."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from tacit.federation.engine import frames

__all__ = ["Door"]


class Door:
    """Answers frames on connections.

    Bodies are read and answered one at a time, over all connections, so that memory is bounded by
    one request and one reply however many knock.

    Parameters
    ----------
    answer
        From a call's name and its bytes to the reply's bytes: `SiteService.call`.
    largest
        The longest body in either direction, in bytes.
    limit
        The longest body of a call at this point (`SiteService.limit`). A longer one is read past,
        not kept, and answered as an empty one is.
    connections
        How many may be open at once; further ones are closed at once.
    patience
        Seconds that the other side may pause within a frame.
    """

    def __init__(
        self,
        answer: Callable[[str, memoryview], bytes],
        *,
        largest: int = frames.LARGEST,
        limit: Callable[[str], int] | None = None,
        connections: int = 8,
        patience: float = 60.0,
    ) -> None:
        self._answer, self._largest, self._patience = answer, largest, patience
        self._limit = limit or (lambda call: largest)
        self._one_body = threading.Lock()
        self._places = threading.BoundedSemaphore(connections)

    def attend(self, connection: socket.socket) -> None:
        """Answer one connection until it ends, stalls or breaks the protocol; then close it."""
        with connection, contextlib.suppress(OSError, frames.FrameRefused):
            while True:
                connection.settimeout(None)
                header = frames.read_header(connection, self._largest)
                if header is None:
                    return
                call, length = header
                connection.settimeout(self._patience)
                with self._one_body:
                    name = frames.CALLS[call]
                    if length > self._limit(name):  # longer than any honest one: not kept
                        frames.skip_body(connection, length)
                        body = memoryview(b"")
                    else:
                        body = frames.read_body(connection, length)
                    reply = self._answer(name, body)
                    if len(reply) > self._largest:
                        return
                    frames.send(connection, call, reply)

    def welcome(self, doorman: socket.socket) -> None:
        """Answer every connection that the doorman hands in, until the doorman is gone."""
        with doorman:
            while True:
                told, handed, _, _ = socket.recv_fds(doorman, 1, 1)
                if not told:
                    return
                for number in handed:
                    connection = socket.socket(fileno=number)
                    if not self._places.acquire(blocking=False):
                        connection.close()
                        continue
                    threading.Thread(target=self._visit, args=(connection,), daemon=True).start()

    def _visit(self, connection: socket.socket) -> None:
        try:
            self.attend(connection)
        finally:
            self._places.release()
