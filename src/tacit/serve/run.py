"""A socket, a server, and an orderly end."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from tacit.errors import ParameterError
from tacit.serve.answers import Served
from tacit.serve.app import application

__all__ = ["LOOPBACK", "run"]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
_MOST_AT_ONCE = 1000  # connections; more are told to come back
_PATIENCE = 15.0  # seconds in which a request must have been made


class Patient(H11Protocol):
    """Connections on which no request comes are closed: silent ones would take all places."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        self._waits()

    def data_received(self, data: bytes) -> None:
        """Read on; a byte now and then does not make anybody wait longer."""
        super().data_received(data)
        self._waits()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._ends()
        super().connection_lost(exc)

    def _waits(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._ends()  # a request is there; its body has its own time
        elif self._late is None:
            self._late = self.loop.call_later(_PATIENCE, self.transport.close)

    def _ends(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def run(served: Served, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve a model until the process is told to end.

    Parameters
    ----------
    served
        The model.
    host, port
        Where; port 0 takes a free one.
    ready
        Told the address, once it is taken.
    """
    place = _bound(host, port)
    number = place.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    hosts = LOOPBACK if host in LOOPBACK else ()
    server = uvicorn.Server(
        uvicorn.Config(
            application(served, hosts),
            log_level="error",
            access_log=False,  # what people ask is theirs
            server_header=False,
            http=Patient,
            limit_concurrency=_MOST_AT_ONCE,
            timeout_keep_alive=15,
            timeout_graceful_shutdown=5,
            h11_max_incomplete_event_size=1 << 16,
        )
    )
    ready(f"http://{shown}:{number}")
    server.run(sockets=[place])


def _bound(host: str, port: int) -> socket.socket:
    try:
        (family, *_, address), *_ = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        place = socket.socket(family, socket.SOCK_STREAM)
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        place.bind(address)
        place.listen(_MOST_AT_ONCE)  # who comes while the server starts waits
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ParameterError(
            f"nothing can be served at {host}:{port} ({reason}): pass another --port or --host"
        ) from None
    return place
