"""Strangers at the engine's server: with any certificate, none, or plain TCP.

None of them may hear a word of the engine's protocol. The control is a server that lets anybody
in (``welcoming``, see `experiments._hostile.rogue_engine`).
"""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgpack

from experiments._hostile.got import Got
from tacit.federation.members import certificates

_HELLO, _READY = 4, 5  # the engine's frames of greeting


def credentials(startup: Path, side: str = "client") -> tuple[Path, Path]:
    """Return the certificate and the key of a kit."""
    return startup / f"{side}.crt", startup / f"{side}.key"


def certified(
    federation: Path, folder: Path, now: datetime, name: str = "North"
) -> tuple[Path, Path]:
    """Return credentials that the authority signed at another time."""
    home = federation / "authority"
    root = (
        certificates.load_private((home / "root.key").read_bytes()),
        certificates.load_certificate((home / "root.pem").read_bytes()),
    )
    key = certificates.new_key()
    made = certificates.member_certificate(root, name, key.public_key(), now, identity=bytes(32))
    found = folder / "client.crt", folder / "client.key"
    found[0].write_bytes(certificates.public_pem(made))
    found[1].write_bytes(certificates.private_pem(key))
    return found


def knock(port: int, shown: Any, text: bytes, host: str = "127.0.0.1") -> bytes:
    """Call a server that the caller believes whatever it shows; return what it answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if isinstance(shown, tuple):
        context.load_cert_chain(*shown)
    with socket.create_connection((host, port), 60) as plain, contextlib.suppress(OSError):
        if shown == "plain":
            plain.sendall(text)
            found = plain.recv(1000)
            return b"" if found.startswith(b"\x15\x03") else found  # the alert of TLS: go away
        with context.wrap_socket(plain) as caller:
            caller.sendall(text)
            return caller.recv(1000)
    return b""


def hello(name: str) -> bytes:
    """Return the engine's greeting, to which a server answers with its own."""
    body = msgpack.packb({"endpoint_name": name, "timestamp": 0.0})
    return struct.pack(">IHBBHHHH", 16 + len(body), 0, _HELLO, 0, 0, 0, 1, 1) + body


def greeted(answer: bytes) -> bool:
    """Whether a server has answered in the engine's protocol."""
    return len(answer) >= 16 and answer[6] in (_HELLO, _READY)


def strangers(federation: Path, other: Path, name: str, folder: Path) -> dict[str, Any]:
    """Return who knocks, and what each shows.

    Parameters
    ----------
    federation, other
        Whose server it is, and a federation with another authority.
    name
        A site of both.
    folder
        Where to put what is made up.
    """
    return {
        "plain TCP": "plain",
        "no certificate": None,
        "another authority": credentials(other / "sites" / name / "kit" / "startup"),
        "expired": certified(federation, folder, datetime(2020, 1, 1, tzinfo=UTC), name),
    }


def turned_away(port: int, shown: Any, name: str) -> Got:
    """Knock as a stranger, greeting as a site would."""
    return Got(1, other=int(greeted(knock(port, shown, hello(name)))))
