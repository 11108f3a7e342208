"""What a site's file says about the wall between its data and the engine.

``engine``
    ``"isolated"`` (unless given): the strongest isolation that works on this machine, or nothing
    starts. ``"user:NAME"``: the engine runs as another Unix user and comes to ``socket``.
    ``"trusted"``: no wall at all.
``[network] allow``
    Databases and schedulers that the data process itself must reach. With any entry it keeps the
    machine's network; with none it has no network.
"""

from __future__ import annotations

import os
import pwd
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.errors import ParameterError

__all__ = ["ENTRIES", "Wall"]

ENTRIES = frozenset({"engine", "socket", "network"})  # of a site's file
_PLACE = re.compile(r"[A-Za-z0-9._\[\]:-]+:[0-9]{1,5}")


@dataclass(frozen=True)
class Wall:
    """What stands between the data and the network.

    Attributes
    ----------
    engine
        ``"isolated"``, ``"user"`` or ``"trusted"``.
    user
        The engine's Unix user, by number, where it has one of its own.
    socket
        Where that user finds the data process.
    allow
        What the data process may reach by network, ``host:port``.
    """

    engine: str = "isolated"
    user: int | None = None
    socket: Path | None = None
    allow: tuple[str, ...] = ()

    @classmethod
    def from_table(cls, data: Mapping[str, Any], folder: Path) -> Wall:
        """Read it from a site's file; paths are relative to the file's folder."""
        network = data.get("network", {})
        if not isinstance(network, dict) or set(network) - {"allow"}:
            raise ParameterError('[network] holds allow = ["host:port", …] and nothing else')
        allow = network.get("allow", [])
        if not isinstance(allow, list) or not all(
            isinstance(place, str) and _PLACE.fullmatch(place) for place in allow
        ):
            raise ParameterError(f'[network] allow must be a list of "host:port", got {allow!r}')
        engine, socket = data.get("engine", "isolated"), data.get("socket")
        if engine in ("isolated", "trusted"):
            if socket is not None:
                raise ParameterError('socket is for engine = "user:NAME" only')
            return cls(engine, allow=tuple(allow))
        if not isinstance(engine, str) or not engine.startswith("user:"):
            raise ParameterError(
                f'engine must be "isolated", "user:NAME" or "trusted", got {engine!r}'
            )
        if not isinstance(socket, str):
            raise ParameterError(
                f'engine = "{engine}" needs socket = "PATH", in a folder of mode 0750 whose group '
                "holds this user and that one"
            )
        return cls("user", _number(engine.removeprefix("user:")), folder / socket, tuple(allow))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Wall:
        """Read it from a site's file, and nothing else of that file."""
        file = Path(path).resolve()
        return cls.from_table(tomllib.loads(file.read_text(encoding="utf-8")), file.parent)

    def page(self) -> str:
        """Return what a security officer must know about it."""
        said = {
            "isolated": "The engine that has the network runs apart from data, ledger and keys, "
            "and reaches nothing of them but one local socket.",
            "user": f"The engine that has the network runs as the Unix user {self.user}, and "
            "reaches data, ledger and keys by one local socket only, as long as that user cannot "
            "read them.",
            "trusted": "THE ENGINE IS TRUSTED: WHOEVER SENDS IT MESSAGES (THE COORDINATOR, OTHER "
            "SITES BY WAY OF IT, WHOEVER HOLDS THE FEDERATION'S ROOT KEY) CAN READ EVERY FILE "
            "THAT THIS USER CAN READ, DATA, LEDGER AND KEYS INCLUDED, AND RUN PROGRAMS HERE. NO "
            "CERTIFICATE HOLDS AGAINST THEM.",
        }[self.engine]
        network = "The process that reads the data has no network."
        if self.allow:
            network = (
                "THE PROCESS THAT READS THE DATA KEEPS THE NETWORK OF THIS MACHINE, TO REACH "
                + ", ".join(place.upper() for place in self.allow)
                + ". NO PROPOSAL CAN ADD TO THIS."
            )
        elif self.engine == "trusted":
            network = "THE PROCESS THAT READS THE DATA MAY KEEP ITS NETWORK."
        return f"{said}\n{network}"


def _number(user: str) -> int:
    try:
        number = int(user) if user.isdecimal() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise ParameterError(f"engine names the Unix user {user!r}, whom nobody knows") from None
    if number in (0, os.geteuid()):
        raise ParameterError(
            f"engine names the Unix user {user!r}: it must be another one than root and than the "
            "one who holds the data"
        )
    return number
