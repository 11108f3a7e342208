"""Fingerprints: what people read to each other over the telephone to compare public keys.

A fingerprint is the first 160 bits of a SHA-256: finding another key with the same one takes 2¹⁶⁰
trials, and making two keys that share one takes 2⁸⁰.
"""

from __future__ import annotations

import hashlib

__all__ = ["fingerprint_of", "same_fingerprint"]

_DIGITS = 40


def fingerprint_of(kind: bytes, content: bytes) -> str:
    """Return the fingerprint of public content: ten groups of four hexadecimal digits.

    >>> fingerprint_of(b"identity", bytes(32))
    'befe de0a 5a1e 928c 9bc0 7d34 ca38 f356 355b 180b'
    """
    digits = hashlib.sha256(b"tacit 1 " + kind + b"\n" + content).hexdigest()[:_DIGITS]
    return " ".join(digits[k : k + 4] for k in range(0, _DIGITS, 4))


def same_fingerprint(told: str, shown: str) -> bool:
    """Whether a fingerprint that somebody typed is the one that is shown.

    >>> same_fingerprint("BEFE-de0a", "befe de0a")
    True
    """
    plain = [text.lower().translate({ord(c): None for c in " -:\t"}) for text in (told, shown)]
    return plain[0] == plain[1] != ""
