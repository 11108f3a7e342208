"""Networks of their own for the sites of a real federation, so that a line can be cut.

Every site lives in a network namespace and reaches the coordinator over a bridge, as it would over
a line. Needs Linux, root and the program ``ip``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Sequence


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def allowed() -> bool:
    """Whether this machine lets us make namespaces."""
    name = f"tacit-{os.getpid()}-try"
    try:
        ip("netns", "add", name)
        ip("netns", "del", name)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


class Lines:
    """A bridge with one line for each site; ``host`` is where the coordinator listens."""

    def __init__(self, sites: Sequence[str]) -> None:
        self.mark = f"t{os.getpid() % 1_000_000}"
        self.subnet = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"
        self.host = f"{self.subnet}.1"
        self.spaces = {site: f"{self.mark}-{k}" for k, site in enumerate(sites)}
        self.ends = {site: f"{self.mark}h{k}" for k, site in enumerate(sites)}

    def __enter__(self) -> Lines:
        bridge = f"{self.mark}b"
        ip("link", "add", bridge, "type", "bridge")
        ip("addr", "add", f"{self.host}/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for k, (site, space) in enumerate(self.spaces.items()):
            near, far = self.ends[site], f"{self.mark}s{k}"
            ip("netns", "add", space)
            ip("link", "add", near, "type", "veth", "peer", "name", far)
            ip("link", "set", near, "master", bridge)
            ip("link", "set", far, "netns", space)
            inside = ("-n", space)
            ip(*inside, "addr", "add", f"{self.subnet}.{k + 2}/24", "dev", far)
            ip(*inside, "link", "set", far, "up")
            ip(*inside, "link", "set", "lo", "up")
            ip("link", "set", near, "up")
        return self

    def __exit__(self, *error: object) -> None:
        for space in self.spaces.values():
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "del", space)  # takes its line along
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("link", "del", f"{self.mark}b")

    def within(self, site: str) -> tuple[str, ...]:
        """Return the command that runs a program at a site."""
        return ("ip", "netns", "exec", self.spaces[site])

    def cut(self, site: str, seconds: float) -> None:
        """Cut a site's line for a while."""
        ip("link", "set", self.ends[site], "down")
        time.sleep(seconds)
        ip("link", "set", self.ends[site], "up")


def free_port(host: str) -> int:
    """Return a port that nobody has at an address of this machine."""
    with socket.socket() as one:
        one.bind((host, 0))
        return int(one.getsockname()[1])
