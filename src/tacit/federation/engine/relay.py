"""The relay inside the engine's sandbox: from a socket that jobs can find to the inherited one.

The engine starts its jobs without descriptors of ours, so they connect to a path in the sandbox's
private folder. The relay passes on one request at a time, whole: a job that dies in the middle
of one cannot leave the other side in the middle of a frame.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

from tacit.federation.engine import frames

__all__ = ["SOCKET", "Relay"]

SOCKET = "TACIT_SOCKET"  # in the engine's environment: where the data process, or we, listen


class Relay:
    """Passes frames from many connections on to one.

    Parameters
    ----------
    upstream
        The connection to the data process.
    listener
        Where jobs connect.
    lost
        Called once the data process is gone.
    connections
        How many jobs are served at once; others wait.
    """

    def __init__(
        self,
        upstream: socket.socket,
        listener: socket.socket,
        lost: Callable[[], None],
        connections: int = 4,
    ) -> None:
        self._upstream, self._listener, self._lost = upstream, listener, lost
        self._one_request = threading.Lock()
        self._places = threading.BoundedSemaphore(connections)

    def start(self) -> None:
        """Serve, in threads that end with the process."""
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            self._places.acquire()
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._visit, args=(connection,), daemon=True).start()

    def _visit(self, connection: socket.socket) -> None:
        try:
            with connection, contextlib.suppress(OSError, frames.FrameRefused):
                while (header := frames.read_header(connection)) is not None:
                    call, length = header
                    reply = self._ask(call, frames.read_body(connection, length))
                    frames.send(connection, call, reply)
        finally:
            self._places.release()

    def _ask(self, call: int, body: memoryview) -> memoryview:
        with self._one_request:
            try:
                return frames.ask(self._upstream, call, body)
            except (OSError, frames.FrameRefused):
                self._lost()
                raise
