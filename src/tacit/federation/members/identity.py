"""Identities: the Ed25519 keys by which institutions know each other, and their fingerprints."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from tacit._core.fingerprint import fingerprint_of, same_fingerprint
from tacit.errors import VerificationFailed
from tacit.federation.folders import write_new
from tacit.federation.secure import keys

__all__ = [
    "Confirm",
    "as_told",
    "check_signed",
    "everybody",
    "fingerprint",
    "fingerprint_of",
    "new_identity",
    "read_identity",
    "same_fingerprint",
    "signed",
]

Confirm = Callable[[str, str], bool]  # of a name and the fingerprint that came with it


def fingerprint(public: bytes) -> str:
    """Return the fingerprint of a public identity: ten groups of four hexadecimal digits.

    >>> fingerprint(bytes(32))
    'befe de0a 5a1e 928c 9bc0 7d34 ca38 f356 355b 180b'
    """
    return fingerprint_of(b"identity", public)


def everybody(name: str, shown: str) -> bool:
    """Confirm every fingerprint unseen: for demonstrations and tests on one machine."""
    return True


def as_told(pins: Mapping[str, str], ask: Callable[[str], str] | None = None) -> Confirm:
    """Return a function that confirms fingerprints which people told each other.

    Parameters
    ----------
    pins
        Names → fingerprints, as they were told.
    ask
        Called with other names; returns what was told, or nothing to confirm that one later.
    """

    def confirm(name: str, shown: str) -> bool:
        told = pins.get(name) or ("" if ask is None else ask(name))
        if told.strip() and not same_fingerprint(told, shown):
            raise VerificationFailed(
                f"THE IDENTITY OF {name} IS NOT THE ONE YOU WERE TOLD: what came has the "
                f"fingerprint {shown}, you were told {told.strip()}. Nothing was accepted. Ask "
                f"{name}, by a way that you trust, before you go on"
            )
        return bool(told.strip())

    return confirm


def new_identity(path: Path) -> bytes:
    """Make an identity, write its private key for its owner only, return the public one."""
    private = keys.fresh_identity()
    write_new(path, private.hex() + "\n")
    return keys.identity_public(private)


def read_identity(path: Path) -> bytes:
    """Return the private key of an identity from its file."""
    try:
        private = bytes.fromhex(path.read_text(encoding="ascii").strip())
        keys.identity_public(private)
    except (OSError, ValueError):
        raise VerificationFailed(f"{path} holds no identity") from None
    return private


def signed(kind: str, content: Mapping[str, Any], identity: bytes) -> dict[str, Any]:
    """Return content with its kind and the signature of an identity."""
    body = {"kind": kind, **content}
    return {**body, "signature": keys.sign(identity, _text(body)).hex()}


def check_signed(kind: str, content: Mapping[str, Any], public: bytes) -> None:
    """Raise `VerificationFailed` unless content is of a kind, and an identity signed all of it."""
    body = {name: value for name, value in content.items() if name != "signature"}
    try:
        signature = bytes.fromhex(content["signature"])
        Ed25519PublicKey.from_public_bytes(public).verify(signature, _text(body))
        good = body["kind"] == kind
    except (KeyError, ValueError, TypeError, InvalidSignature):
        good = False
    if not good:
        raise VerificationFailed(f"the {kind} is not signed by the identity {fingerprint(public)}")


def _text(body: Mapping[str, Any]) -> bytes:
    return b"tacit 1 signed\n" + json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
