"""Callers for tests of a server: with any certificate, none, or plain TCP."""

from __future__ import annotations

import contextlib
import socket
import ssl
from datetime import datetime
from pathlib import Path

from tacit.federation.members import certificates


def credentials(startup: Path, side: str = "client") -> tuple[Path, Path]:
    return startup / f"{side}.crt", startup / f"{side}.key"


def certified(federation: Path, folder: Path, now: datetime, name: str = "North"):
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


def knock(port: int, shown, text: bytes, host: str = "127.0.0.1") -> bytes:
    """Call a server that the caller believes whatever it shows; return what it answers."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if isinstance(shown, tuple):
        context.load_cert_chain(*shown)
    with socket.create_connection((host, port), 60) as plain, contextlib.suppress(OSError):
        if shown == "plain":
            plain.sendall(text)
            plain.shutdown(socket.SHUT_WR)
            found = plain.recv(1000)
            return b"" if found.startswith(b"\x15\x03") else found  # the alert of TLS: go away
        with context.wrap_socket(plain) as caller:
            caller.sendall(text)
            return caller.recv(1000)
    return b""
