"""The key of a ledger: an Ed25519 key in a file of its own, which signs the head of the chain.

Whoever has the file of a ledger but not its key can read and verify it, and cannot add a row that
counts. The site's identity signs the ledger's public key, so that partners who pinned that one
fingerprint need no other. A signature proves which ledger's key signed; it does not prove that the
holder has no second ledger.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tacit._core.fingerprint import fingerprint_of, same_fingerprint
from tacit.errors import LedgerCorrupt, LedgerError, VerificationFailed

__all__ = [
    "Endorsement",
    "KeyFile",
    "Signing",
    "check_pin",
    "endorse",
    "head_text",
    "is_signed",
    "key_fingerprint",
]


class Endorsement(NamedTuple):
    """What an identity says about a ledger's key: its public key, and its signature."""

    identity: str
    signature: str


def head_text(ledger: str, counter: int, digest: str) -> bytes:
    """Return what a ledger's key signs of the end of its chain."""
    return f"tacit 1 ledger head\n{ledger}\n{counter}\n{digest}".encode()


def _endorsed_text(ledger: str, key: str) -> bytes:
    return f"tacit 1 ledger key\n{ledger}\n{key}".encode()


def key_fingerprint(key: str) -> str:
    """Return the fingerprint of a ledger's public key, in hexadecimal."""
    return fingerprint_of(b"ledger key", bytes.fromhex(key))


def identity_fingerprint(identity: str) -> str:
    """Return the fingerprint of an identity, as partners know it."""
    return fingerprint_of(b"identity", bytes.fromhex(identity))


@lru_cache(maxsize=64)
def _loaded(private: bytes) -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(private)


def _sign(private: bytes, text: bytes) -> str:
    signature: bytes = _loaded(private).sign(text)
    return signature.hex()


@lru_cache(maxsize=64)
def _public(private: bytes) -> str:
    public: bytes = _loaded(private).public_key().public_bytes_raw()
    return public.hex()


def is_signed(key: str, signature: str, text: bytes) -> bool:
    """Whether a signature is that of a public key's owner; both in hexadecimal."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(bytes.fromhex(signature), text)
    except (InvalidSignature, ValueError):
        return False
    return True


def endorse(identity: bytes, ledger: str, key: str) -> Endorsement:
    """Return an identity's word for the key of a ledger.

    Parameters
    ----------
    identity
        The 32 bytes of the identity's private key.
    ledger, key
        The ledger's id, and its public key in hexadecimal.
    """
    return Endorsement(_public(identity), _sign(identity, _endorsed_text(ledger, key)))


def check_endorsement(ledger: str, key: str, given: Endorsement) -> None:
    """Raise `VerificationFailed` unless an identity did sign the key of a ledger."""
    if not is_signed(given.identity, given.signature, _endorsed_text(ledger, key)):
        raise VerificationFailed(
            "forged: the ledger's key is not signed by the identity that is said to have signed it"
        )


def check_pin(pin: str, key: str, identity: str) -> None:
    """Raise unless a fingerprint that somebody was told is that of the key or of its identity."""
    shown = [key_fingerprint(key)] if key else []
    shown += [identity_fingerprint(identity)] if identity else []
    if not any(same_fingerprint(pin, one) for one in shown):
        raise VerificationFailed(
            f"forged, or of somebody else: you were told {pin!r}, this is signed by "
            + (" under ".join(shown) if shown else "nobody")
        )


@dataclass(frozen=True)
class Signing:
    """A key that is ready to sign."""

    private: bytes

    @property
    def public(self) -> str:
        """The public key, in hexadecimal."""
        return _public(self.private)

    def sign(self, text: bytes) -> str:
        """Return a signature, in hexadecimal."""
        return _sign(self.private, text)


class KeyFile:
    """Where the key of a ledger is kept: 32 bytes in hexadecimal, for its owner only.

    Parameters
    ----------
    path
        The file; made by `make`, once.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._known: tuple[int, int, Signing] | None = None

    def make(self) -> Signing:
        """Make the key unless it exists; of several processes that try, the first one's stays."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        if not self.path.exists():
            draft = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex}.new")
            try:
                number = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with open(number, "wb") as file:
                    private: bytes = Ed25519PrivateKey.generate().private_bytes_raw()
                    file.write(private.hex().encode() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
                with contextlib.suppress(FileExistsError):
                    os.link(draft, self.path)
            finally:
                draft.unlink(missing_ok=True)
        return self.read()

    def read(self) -> Signing:
        """Return the key, or say what to do without it."""
        try:
            state = os.stat(self.path)
            if self._known is None or self._known[:2] != (state.st_ino, state.st_mtime_ns):
                private = bytes.fromhex(self.path.read_text(encoding="ascii").strip())
                if len(private) != 32:
                    raise ValueError
                self._known = state.st_ino, state.st_mtime_ns, Signing(private)
        except OSError as error:
            raise LedgerError(
                f"the ledger's key {self.path} cannot be read ({error.strerror}): without it a "
                "ledger can be read and verified, not charged. Restore it, or pass key=… where it "
                "is. Nothing was released"
            ) from None
        except ValueError:
            raise LedgerCorrupt(f"{self.path} holds no key of a ledger") from None
        return self._known[2]

    def for_ledger(self, public: str) -> Signing:
        """Return the key, which must be the one that the ledger names."""
        found = self.read()
        if found.public != public:
            raise LedgerError(
                f"{self.path} is the key of another ledger: pass key=… with this one's. Nothing "
                "was released"
            )
        return found
