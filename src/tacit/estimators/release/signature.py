"""Signatures of a release: those of the ledgers that paid for it, over the list of digests.

``SHA256SUMS.sig`` has a line for each: the public key and the Ed25519 signature of the bytes of
``SHA256SUMS``, both in hexadecimal. The manifest says which ledger has which key, and which
identity vouches for it. A key counts only where it also signed a certificate of the release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.errors import NotCertified, VerificationFailed
from tacit.privacy.certificate import Certificate
from tacit.privacy.ledger.entry import Seal
from tacit.privacy.ledger.keys import (
    Endorsement,
    check_endorsement,
    identity_fingerprint,
    is_signed,
    key_fingerprint,
)
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["check_signatures", "signatures", "signers_of"]

_FIELDS = {"certificates", "ledger", "key", "fingerprint", "identity", "endorsement"}


def signers_of(
    ledgers: Sequence[Ledger], certificates: Mapping[str, Certificate]
) -> list[tuple[Ledger, dict[str, Any]]]:
    """Return the ledgers that can sign, and what the manifest says of each.

    Parameters
    ----------
    ledgers
        Each must have paid for something in the release.
    certificates
        What the release rests on.
    """
    found = []
    for ledger in ledgers:
        paid = [n for n, c in certificates.items() if c.ledger and c.ledger.ledger == ledger.id]
        if not paid:
            raise NotCertified(
                f"ledger {ledger.id[:8]} paid for nothing in this release: pass those that did"
            )
        seals = [seal for name in paid if (seal := certificates[name].seal) is not None]
        if seals:
            found.append((ledger, _said(ledger.id, seals[0], paid)))
    return found


def _said(ledger: str, seal: Seal, paid: list[str]) -> dict[str, Any]:
    return {
        "certificates": paid,
        "ledger": ledger,
        "key": seal.key,
        "fingerprint": key_fingerprint(seal.key),
        "identity": seal.identity,
        "endorsement": seal.endorsement,
    }


def signatures(signers: Sequence[tuple[Ledger, Mapping[str, Any]]], sums: bytes) -> bytes:
    """Return the lines of ``SHA256SUMS.sig``."""
    lines = []
    for ledger, said in signers:
        # what is signed are the bytes alone, so that they can be checked without tacit
        seal = ledger.seal(lambda seal: sums)
        if seal is None or seal.key != said["key"]:
            raise NotCertified(f"ledger {ledger.id[:8]} has no key to sign with")
        lines.append(f"{seal.key} {seal.signature}\n")
    return "".join(lines).encode()


def check_signatures(
    signers: Any, content: bytes | None, sums: bytes, certificates: Mapping[str, Certificate]
) -> tuple[Mapping[str, Any], ...]:
    """Return who signed, each with ``by`` in words; raise where anything about it is forged.

    Parameters
    ----------
    signers
        What the manifest says.
    content
        ``SHA256SUMS.sig``; None where there is none.
    sums
        ``SHA256SUMS``.
    certificates
        Those of the release, verified.
    """
    if not isinstance(signers, list):
        raise VerificationFailed("the manifest does not say who signed")
    if content is None or not signers:
        if content is not None or signers:
            raise VerificationFailed("the signature and the manifest do not go together")
        return ()
    lines = content.decode("ascii").splitlines(keepends=True)
    found = []
    for said, line in zip(signers, lines, strict=True):
        if not isinstance(said, dict) or set(said) != _FIELDS:
            raise VerificationFailed("the manifest does not say who signed")
        key, _, signature = line.removesuffix("\n").partition(" ")
        if key != said["key"] or line != f"{key} {signature}\n":
            raise VerificationFailed("the signature is of another key than the manifest names")
        if not is_signed(key, signature, sums):
            raise VerificationFailed("forged: SHA256SUMS is not what the key has signed")
        found.append(_checked(said, certificates))
    return tuple(found)


def _checked(said: dict[str, Any], certificates: Mapping[str, Certificate]) -> dict[str, Any]:
    """Return what is said of a key, if it is the one that signed the certificates it names."""
    key, identity = str(said["key"]), str(said["identity"])
    paid = [
        name
        for name, c in certificates.items()
        if c.ledger is not None and c.seal is not None and c.ledger.ledger == said["ledger"]
    ]
    seals = [seal for name in paid if (seal := certificates[name].seal) is not None]
    if not paid or paid != said["certificates"] or any(seal.key != key for seal in seals):
        raise VerificationFailed(
            "forged: the release is signed by a key that signed none of its certificates"
        )
    if said["fingerprint"] != key_fingerprint(key):
        raise VerificationFailed("the fingerprint is that of another key")
    by = f"the ledger's key {key_fingerprint(key)}"
    if identity:
        check_endorsement(said["ledger"], key, Endorsement(identity, str(said["endorsement"])))
        by += f", which the identity {identity_fingerprint(identity)} vouches for"
    return {**said, "by": by}
