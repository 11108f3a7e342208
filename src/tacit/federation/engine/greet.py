"""The doorman of a site whose engine is another Unix user: who is it, and in they go.

The data process may live in a user namespace, from where every other user looks the same. So the
command that started it stands at the door: it asks the kernel who connects, and hands connections
of the engine's user on, unread.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import socket
import stat

from tacit.errors import TacitError
from tacit.federation.engine.linux import peer_user
from tacit.federation.engine.wall import Wall

__all__ = ["greet", "listener_for"]


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
    except OSError as error:
        listener.close()
        raise TacitError(f"{wall.socket} cannot be opened: {error}") from None
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


def greet(listener: socket.socket, user: int, inside: socket.socket) -> None:
    """Hand connections of one user on for as long as both ends are open."""
    with contextlib.suppress(OSError):
        while True:
            connection, _ = listener.accept()
            with connection:
                if peer_user(connection) == user:
                    socket.send_fds(inside, [b"\0"], [connection.fileno()])
