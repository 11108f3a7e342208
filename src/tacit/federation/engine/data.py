"""The data process of a site: has data, ledger, keys and policy, and no network.

It walls itself in before it loads anything but the standard library, builds the site's service,
says that it is ready, and answers frames until the other side is gone. It never loads the engine.

``python -m tacit.federation.engine.data FILE STATUS DOOR PARENT``: STATUS is a descriptor that is
told one line of JSON, DOOR one that leads to the engine, or -1 where the file names a socket.
"""

from __future__ import annotations

import contextlib
import grp
import json
import os
import pwd
import signal
import socket
import stat
import sys
from pathlib import Path

from tacit.errors import TacitError
from tacit.federation.engine import linux
from tacit.federation.engine.wall import Wall

__all__ = ["listener_for", "wall_in"]


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


def listener_for(wall: Wall) -> socket.socket:
    """Listen where the engine's user, and nobody else, may come."""
    assert wall.socket is not None and wall.user is not None
    folder = wall.socket.parent
    try:
        info = folder.stat()
    except OSError as error:
        raise TacitError(f"{folder}, the socket's folder, must exist: {error.strerror}") from None
    if info.st_uid not in (0, os.geteuid()) or stat.S_IMODE(info.st_mode) & 0o027:
        raise TacitError(f"{folder} must belong to this user and have mode 0750: it is the door")
    strangers = _members(info.st_gid) - {0, os.geteuid(), wall.user}
    if strangers:
        raise TacitError(
            f"the group of {folder} must hold this user and the engine's only, and holds "
            f"{sorted(strangers)} too"
        )
    wall.socket.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    before = os.umask(0o117)
    try:
        listener.bind(str(wall.socket))
    finally:
        os.umask(before)
    os.chown(wall.socket, -1, info.st_gid)
    listener.listen()
    return listener


def _members(group: int) -> set[int]:
    """Return the users of a group, as far as this machine knows it."""
    found = {entry.pw_uid for entry in pwd.getpwall() if entry.pw_gid == group}
    with contextlib.suppress(KeyError):
        for name in grp.getgrgid(group).gr_mem:
            with contextlib.suppress(KeyError):
                found.add(pwd.getpwnam(name).pw_uid)
    return found


def main(file: Path, status: int, door: int, parent: int) -> None:
    """Run the data process."""
    listener = None
    with open(status, "w", encoding="utf-8") as told:
        try:
            wall = Wall.read(file)
            wall_in(wall, parent)
            from tacit.federation.engine.door import Door
            from tacit.federation.files import SiteConfig
            from tacit.federation.service import SiteService

            config = SiteConfig.read(file)
            service = SiteService(config)
            if door < 0:
                listener = listener_for(wall)
        except TacitError as error:
            told.write(json.dumps({"refused": str(error)}) + "\n")
            raise SystemExit(1) from None
        told.write(json.dumps({"ready": True}) + "\n")
    answering = Door(service.call, largest=config.largest)
    if listener is None:
        answering.attend(socket.socket(fileno=door))
    else:
        assert wall.user is not None
        answering.listen(listener, wall.user)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
