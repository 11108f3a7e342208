"""Identities for tests: every name has one key, the same in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Collection

from tacit.federation.secure import keys

__all__ = ["identity", "pinned", "pinned_toml"]


def identity(name: str) -> bytes:
    """Return the private key of a name."""
    return hashlib.sha256(f"identity of {name}".encode()).digest()


def pinned(names: Collection[str]) -> dict[str, bytes]:
    """Return the public keys of names."""
    return {name: keys.identity_public(identity(name)) for name in names}


def pinned_toml(names: Collection[str]) -> str:
    """Return the public keys of names in TOML's inline form."""
    return "{" + ", ".join(f'"{n}" = "{key.hex()}"' for n, key in pinned(names).items()) + "}"
