"""Keys, seeds, streams and seals for secure aggregation: all primitives are `cryptography`'s.

=====================  ========================================================================
key agreement          X25519 (RFC 7748), then HKDF-SHA256 (RFC 5869) bound to session and names
stream of a seed       ChaCha20 (RFC 8439) with a 256-bit key; a key is used for one stream only
sealing of shares      ChaCha20-Poly1305, one key per direction and session
signature of keys      Ed25519, by identities that sites exchanged before
=====================  ========================================================================

This is the only file of `tacit.federation` that makes secrets, and it never sees data.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tacit.errors import SiteFailure
from tacit.federation.secure.shamir import PRIME

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "RINGS",
    "agree",
    "commitment",
    "fresh_coefficients",
    "fresh_identity",
    "fresh_key",
    "fresh_seed",
    "identity_public",
    "is_signed",
    "is_usable",
    "load_key",
    "open_sealed",
    "public_key",
    "seal",
    "sign",
    "stream",
]

RINGS: dict[int, Any] = {32: np.uint32, 64: np.uint64}
_NONCE = bytes(12)  # every sealing key is used once


def fresh_key() -> bytes:
    """Return the 32 bytes of a new X25519 private key."""
    return X25519PrivateKey.generate().private_bytes_raw()


def fresh_seed() -> bytes:
    """Return 256 random bits from the operating system."""
    return ChaCha20Poly1305.generate_key()


def fresh_identity() -> bytes:
    """Return the 32 bytes of a new Ed25519 private key."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def fresh_coefficients(count: int) -> list[int]:
    """Return uniform elements of the field of `tacit.federation.secure.shamir`.

    1,024 bits of stream modulo a 521-bit prime are within 2⁻⁵⁰⁰ of uniform.
    """
    words = stream(fresh_seed(), 16 * count, 64).tobytes()
    return [int.from_bytes(words[128 * k : 128 * (k + 1)], "little") % PRIME for k in range(count)]


def public_key(private: bytes) -> bytes:
    """Return the public key of an X25519 private key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def identity_public(private: bytes) -> bytes:
    """Return the public key of an Ed25519 private key."""
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def load_key(private: bytes) -> X25519PrivateKey:
    """Return a private key ready for many agreements: loading costs as much as one of them."""
    return X25519PrivateKey.from_private_bytes(private)


def agree(private: bytes | X25519PrivateKey, public: bytes, purpose: bytes) -> bytes:
    """Return the 256-bit key that two holders agree on for a purpose.

    >>> ours, theirs = fresh_key(), fresh_key()
    >>> agree(ours, public_key(theirs), b"mask") == agree(theirs, public_key(ours), b"mask")
    True
    """
    key = load_key(private) if isinstance(private, bytes) else private
    try:
        shared = key.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # a point of small order would give a secret that everybody knows
        raise SiteFailure("a public key is not usable") from None
    return HKDF(hashes.SHA256(), 32, salt=None, info=b"tacit 1 " + purpose).derive(shared)


def stream(seed: bytes, count: int, bits: int) -> NDArray[Any]:
    """Return ``count`` uniform numbers modulo 2^bits from a 256-bit seed.

    >>> stream(bytes(32), 2, 32).tolist()
    [2917185654, 2419978656]
    """
    found = np.zeros(count, RINGS[bits])
    room = found.view(np.uint8).data
    # encrypting zeros in place leaves the stream
    Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor().update_into(room, room)
    return found.astype(found.dtype.newbyteorder("<"), copy=False)


def seal(key: bytes, text: bytes, context: bytes) -> bytes:
    """Encrypt and authenticate under a key that is used once."""
    return ChaCha20Poly1305(key).encrypt(_NONCE, text, context)


def open_sealed(key: bytes, sealed: bytes, context: bytes) -> bytes:
    """Return what `seal` was given, or raise `SiteFailure`."""
    try:
        return ChaCha20Poly1305(key).decrypt(_NONCE, sealed, context)
    except InvalidTag:
        raise SiteFailure("a sealed share cannot be opened: it was changed on its way") from None


def commitment(seed: bytes) -> bytes:
    """Return a digest that a seed can be checked against; it says nothing about 256 fresh bits."""
    return hashlib.sha256(b"tacit 1 self mask" + seed).digest()


def sign(identity: bytes, text: bytes) -> bytes:
    """Return an Ed25519 signature."""
    return Ed25519PrivateKey.from_private_bytes(identity).sign(text)


def is_signed(public: bytes, signature: bytes, text: bytes) -> bool:
    """Whether a signature is that of a public key's owner."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, text)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_usable(public: bytes) -> bool:
    """Whether a key can be agreed with: a point of small order gives what everybody knows."""
    try:
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        return False
    return True
