"""The data process of a site: has data, ledger, keys and policy, and no network.

It walls itself in before it loads anything but the standard library, builds the site's service,
says that it is ready, and answers frames until the other side is gone. It never loads the engine.

``python -m tacit.federation.engine.data FILE STATUS DOOR PARENT``: STATUS is a descriptor that is
told one line of JSON, DOOR one that leads to the engine, or to the doorman where the engine is
another user.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.federation.engine import linux
from tacit.federation.engine.wall import Wall

__all__ = ["main", "wall_in"]


def wall_in(wall: Wall, parent: int) -> None:
    """Give up the network, privileges and capabilities; refuse to go on with a network."""
    with contextlib.suppress(OSError):
        linux.die_with_parent(signal.SIGKILL, parent)
        linux.forgo_privileges()
    if not wall.allow:
        try:
            linux.leave_network()
        except OSError as error:
            if wall.engine != "trusted":
                raise TacitError(
                    f"the data process cannot give up its network ({error}). Allow user "
                    "namespaces on this machine, or start it without network (systemd: "
                    "PrivateNetwork=yes, a container: network_mode none), or write engine = "
                    '"trusted" into the site\'s file, which takes the wall away'
                ) from None
    with contextlib.suppress(OSError):
        linux.drop_capabilities(linux.FILES if os.geteuid() == 0 else ())
        linux.die_with_parent(signal.SIGKILL, parent)  # a change of credentials unsets it


def main(file: Path, status: int, door: int, parent: int) -> None:
    """Run the data process."""

    def _show(what: str, told: Mapping[str, Any]) -> None:
        print(repr(line_about(what, told))[1:-1], file=sys.stderr, flush=True)

    with open(status, "w", encoding="utf-8") as told:
        try:
            wall = Wall.read(file)
            wall_in(wall, parent)
            from tacit.federation.activity import line_about
            from tacit.federation.engine.door import Door
            from tacit.federation.files import SiteConfig
            from tacit.federation.service import SiteService

            config = SiteConfig.read(file)
            service = SiteService(config, _show)
        except TacitError as error:
            told.write(json.dumps({"refused": str(error)}) + "\n")
            raise SystemExit(1) from None
        told.write(json.dumps({"ready": True}) + "\n")
    answering = Door(service.call, largest=config.largest, limit=service.limit)
    connection = socket.socket(fileno=door)
    if wall.engine == "user":
        answering.welcome(connection)
    else:
        answering.attend(connection)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
