"""A coordinator's job that calls sites for whoever is at the other end of a local socket.

It takes the place of `tacit.federation.engine.nvflare.CollabCoordinator`: the server's machine is
the coordinator's own, and a rogue one runs there what it likes.
"""

from __future__ import annotations

import contextlib
import os
import threading
from multiprocessing.connection import Client

from nvflare.collab import collab

from tacit.federation.engine.nvflare import CollabTransport

ADDRESS = "HOSTILE_BRIDGE"  # in the server's environment


class Bridge:
    """Carries calls until the other end is gone."""

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> None:
        """Call sites as told, one after another; each answer goes back at once."""
        with Client(os.environ[ADDRESS]) as orders, contextlib.suppress(EOFError, OSError):
            while True:
                method, data, names, timeout = orders.recv()
                for name, answer in CollabTransport().call(method, data, names, timeout):
                    told = str(answer) if isinstance(answer, Exception) else bytes(answer)
                    orders.send((name, told))
                orders.send(None)


class Idle:
    """Does nothing, for as long as a job may need to show what it can do."""

    @collab.main  # type: ignore[untyped-decorator]
    def run(self) -> None:
        """Wait."""
        threading.Event().wait(60.0)
