"""Sites as processes of their own, to be killed, paused and restarted, and what carries bytes."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

CONTEXT = get_context("forkserver")  # a site is forked from a process that has run nothing


def serve(file: str, connection: Connection) -> None:
    """Be a site: answer calls until the other end is gone."""
    from tacit.federation.files import SiteConfig
    from tacit.federation.service import SiteService

    service = SiteService(SiteConfig.read(file))
    while True:
        try:
            number, method, data = connection.recv()
        except EOFError:
            return
        connection.send((number, service.call(method, data)))


class Processes:
    """A transport to sites that are processes; ``disturb`` is told of every call before it goes.

    Attributes
    ----------
    answers
        (site, request) → every answer that was ever given to it.
    """

    def __init__(self, files: Mapping[str, Path]) -> None:
        self.files = dict(files)
        self.running: dict[str, tuple[Any, Connection]] = {}
        self.answers: dict[tuple[str, bytes], set[bytes]] = {}
        self.disturb: Callable[[str, str], Any] = lambda method, site: None
        self.change: Callable[[str, str, bytes, bytes], bytes] = lambda m, s, q, answer: answer
        self.number = 0
        for site in files:
            self.start(site)

    def start(self, site: str) -> None:
        """Start a site, ending what is left of an earlier process."""
        self.end(site)
        ours, theirs = CONTEXT.Pipe()
        process = CONTEXT.Process(target=serve, args=(str(self.files[site]), theirs), daemon=True)
        process.start()
        theirs.close()
        self.running[site] = process, ours

    def end(self, site: str) -> None:
        """Kill a site's process, also a paused one."""
        if site in self.running:
            process, connection = self.running.pop(site)
            process.kill()
            process.join()
            connection.close()

    def signal(self, site: str, kind: signal.Signals) -> None:
        """Send a signal to a site's process."""
        os.kill(self.running[site][0].pid, kind)

    def call(
        self,
        method: str,
        data: bytes | Mapping[str, bytes],
        names: tuple[str, ...],
        timeout: float,
    ) -> Iterator[tuple[str, bytes | Exception]]:
        """Call sites at once; yield answers as they come, and failures at the timeout."""
        self.number += 1
        waiting, own = (
            {},
            {site: data if isinstance(data, bytes) else data[site] for site in names},
        )
        for site in names:
            late = self.disturb(method, site)
            try:
                self.running[site][1].send((self.number, method, own[site]))
                waiting[self.running[site][1]] = site
                if late is not None:
                    late()
            except (KeyError, OSError):
                yield site, ConnectionError("the site is gone")
        deadline = time.monotonic() + timeout
        while waiting and (left := deadline - time.monotonic()) > 0:
            for connection in wait(list(waiting), left):
                site = waiting[connection]
                try:
                    number, answer = connection.recv()
                except (EOFError, OSError):
                    del waiting[connection]
                    yield site, ConnectionError("the site died")
                    continue
                if number != self.number:
                    continue  # too late: an answer to a call that was given up
                del waiting[connection]
                if method == "respond":
                    self.answers.setdefault((site, own[site]), set()).add(answer)
                yield site, self.change(method, site, own[site], answer)
        for site in waiting.values():
            yield site, TimeoutError("no answer in time")

    def close(self) -> None:
        """End all sites."""
        for site in list(self.running):
            self.end(site)
