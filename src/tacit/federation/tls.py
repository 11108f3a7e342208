"""Both ends of a federation's connections: TLS 1.3, certificates of one authority, nothing else.

The engine's own connections trust every public certificate authority that the operating system
knows, do not compare the server's name, know no revocation, and greet one caller after another,
so that one who says nothing keeps everybody out. `tacit.federation.driver` puts these in place.
"""

from __future__ import annotations

import ssl
from pathlib import Path

__all__ = ["HANDSHAKE_SECONDS", "REVOKED", "client_context", "server_context"]

REVOKED = "revoked.pem"  # lies beside the root's certificate, at the server
HANDSHAKE_SECONDS = 20.0  # for a caller to prove who it is


def server_context(root: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what a server asks of callers: a certificate of the root that is not revoked.

    Parameters
    ----------
    root
        The authority's certificate; the list of revoked ones (`REVOKED`) must lie beside it.
    certificate, key
        The server's own.
    """
    context = _context(ssl.PROTOCOL_TLS_SERVER, root, certificate, key)
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(root.parent / REVOKED)
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    return context


def client_context(root: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """Return what a caller asks of a server: a certificate of the root, for the host called.

    Parameters
    ----------
    root
        The authority's certificate; no other authority is trusted.
    certificate, key
        The caller's own.
    """
    return _context(ssl.PROTOCOL_TLS_CLIENT, root, certificate, key)


def _context(protocol: int, root: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(root)
    context.load_cert_chain(certificate, key)
    return context
