"""What institutions send each other to form a federation: four files of JSON, all public.

==============  ======================================  ============================  ============
file            says                                    signed by                     goes to
==============  ======================================  ============================  ============
invitation      where the server is, who the authority  the authority                 every site
request         a site's public keys                    the site, by both its keys    the authority
approval        the site's certificate, and the roster  root and authority            that site
roster          all sites and their identities          the authority                 every site
==============  ======================================  ============================  ============
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from cryptography import x509

from tacit._core.check import Integer, check
from tacit.errors import ParameterError, VerificationFailed
from tacit.federation.folders import read_small
from tacit.federation.members import certificates
from tacit.federation.members.identity import check_signed, fingerprint, fingerprint_of, signed
from tacit.federation.secure import keys

__all__ = ["Approval", "Invitation", "Member", "Request", "Roster", "check_host", "check_name"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_RESERVED = {"server", "admin", "relay"}  # the engine's own words
_YES_OR_NO = {"yes", "true", "t", "y", "no", "false", "f", "n"}  # which it reads as such


def check_name(name: str, host: str = "") -> str:
    """Return a site's name, or raise: letters, digits, - and _, and no word of the engine's."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ParameterError(f"a site's name is made of letters, digits, - and _: got {name!r}")
    if name.lower() in _RESERVED | {host.lower()}:
        raise ParameterError(f"a site cannot be named {name!r}: the engine uses that name")
    if name.lower() in _YES_OR_NO or _is_number(name):
        raise ParameterError(
            f"a site cannot be named {name!r}: the engine reads it as a number, or as yes or no"
        )
    return name


def _is_number(text: str) -> bool:
    """Whether the engine would take a name for a number: 7, 1e3, nan, 1_000."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def check_host(host: str, port: int) -> None:
    """Raise unless sites can be told to call this address."""
    check("port", port, Integer(1, 65535))
    if not isinstance(host, str) or not _HOST.fullmatch(host):
        raise ParameterError(f"host must be a name or an IPv4 address, got {host!r}")


@dataclass(frozen=True)
class Invitation:
    """What a site must know to join: it holds nothing secret, but must come unchanged.

    Attributes
    ----------
    federation
        Its name.
    host, port
        Where the coordinator's server is.
    root
        The certificate that signs all others, as text.
    authority, coordinator
        Public identities of who approves members, and of who coordinates.
    """

    federation: str
    host: str
    port: int
    root: str
    authority: bytes
    coordinator: bytes

    @property
    def fingerprint(self) -> str:
        """What people compare: it covers every entry."""
        return fingerprint_of(b"invitation", json.dumps(self._content(), sort_keys=True).encode())

    def _content(self) -> dict[str, Any]:
        root = certificates.load_certificate(self.root)
        return {
            "federation": self.federation,
            "host": self.host,
            "port": self.port,
            "root": self.root,
            "root_fingerprint": fingerprint_of(b"root", certificates.public_pem(root)),
            "authority": self.authority.hex(),
            "authority_fingerprint": fingerprint(self.authority),
            "coordinator": self.coordinator.hex(),
            "coordinator_fingerprint": fingerprint(self.coordinator),
        }

    def to_text(self, identity: bytes) -> str:
        """Return it as a file, signed by the authority."""
        return _text(signed("invitation", self._content(), identity))

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read and check an invitation."""
        data = _load(path, "invitation")
        found = cls(
            _entry(data, "federation", str),
            _entry(data, "host", str),
            _entry(data, "port", int),
            _entry(data, "root", str),
            _public(data, "authority"),
            _public(data, "coordinator"),
        )
        check_host(found.host, found.port)
        check_signed("invitation", data, found.authority)
        if {"kind": "invitation", **found._content()} != _unsigned(data):
            raise VerificationFailed(f"{path} does not agree with itself")
        return found


@dataclass(frozen=True)
class Request:
    """A site's public keys, with proof that the asker holds both private ones.

    Attributes
    ----------
    name
        What the site is called.
    identity
        Its public identity.
    signing
        The certificate signing request of its key of TLS.
    """

    name: str
    identity: bytes
    signing: x509.CertificateSigningRequest

    @staticmethod
    def make(name: str, federation: bytes, identity: bytes, key: Any) -> str:
        """Return a request as a file, signed by the private keys of identity and TLS."""
        public = keys.identity_public(identity)
        content = {
            "federation": federation.hex(),
            "name": name,
            "identity": public.hex(),
            "signing_request": certificates.public_pem(
                certificates.make_request(key, name, public)
            ).decode(),
        }
        return _text(signed("request", content, identity))

    @classmethod
    def read(cls, path: Path, invitation: Invitation) -> Self:
        """Read a request and check both proofs, its name, and that it is for this federation."""
        data = _load(path, "request")
        name = check_name(_entry(data, "name", str), invitation.host)
        public = _public(data, "identity")
        check_signed("request", data, public)
        if _public(data, "federation") != invitation.authority:
            raise VerificationFailed(f"{path} asks another federation")
        text = _entry(data, "signing_request", str)
        return cls(name, public, certificates.check_request(text, name, public))


@dataclass(frozen=True)
class Member:
    """A site on the roster; dates are ISO 8601."""

    name: str
    identity: str
    approved: str
    revoked: str | None = None


@dataclass(frozen=True)
class Roster:
    """Who belongs to a federation, as its authority says; versions only grow.

    Attributes
    ----------
    federation
        The authority's public identity.
    version
        Larger than that of every earlier roster.
    members
        All who were ever approved, the revoked ones with their dates.
    """

    federation: bytes
    version: int
    members: tuple[Member, ...]

    def active(self) -> dict[str, bytes]:
        """Return the identities of all who are not revoked."""
        return {m.name: bytes.fromhex(m.identity) for m in self.members if m.revoked is None}

    def revoked(self, name: str, identity: bytes) -> bool:
        """Whether an identity of a site was revoked."""
        old = [m for m in self.members if (m.name, m.identity) == (name, identity.hex())]
        return bool(old) and all(member.revoked is not None for member in old)

    def to_json(self, identity: bytes) -> dict[str, Any]:
        """Return it as JSON, signed by the authority."""
        content = {
            "federation": self.federation.hex(),
            "version": self.version,
            "members": [asdict(member) for member in self.members],
        }
        return signed("roster", content, identity)

    @classmethod
    def from_json(cls, data: Any, authority: bytes) -> Self:
        """Read a roster that this authority signed."""
        if not isinstance(data, dict):
            raise VerificationFailed("a roster cannot be read")
        check_signed("roster", data, authority)
        try:
            members = tuple(Member(**entry) for entry in _entry(data, "members", list))
            sizes = {len(bytes.fromhex(member.identity)) for member in members}
            current = [m.name.lower() for m in members if m.revoked is None]
        except (TypeError, ValueError, AttributeError):
            raise VerificationFailed("a roster cannot be read") from None
        found = cls(_public(data, "federation"), _entry(data, "version", int), members)
        for member in members:
            check_name(member.name)
        if found.federation != authority or sizes - {32} or len(set(current)) != len(current):
            raise VerificationFailed("the roster does not agree with itself")
        return found


@dataclass(frozen=True)
class Approval:
    """What the authority answers: a certificate, and who else belongs.

    Attributes
    ----------
    name
        Whose it is.
    certificate
        Of that site's key of TLS; None where only the roster changed.
    roster
        Who belongs.
    signed_roster
        The same as the authority signed it.
    """

    name: str | None
    certificate: x509.Certificate | None
    roster: Roster
    signed_roster: dict[str, Any]

    @staticmethod
    def make(name: str, certificate: x509.Certificate, roster: dict[str, Any]) -> str:
        """Return an approval as a file."""
        text = certificates.public_pem(certificate).decode()
        return _text({"kind": "approval", "name": name, "certificate": text, "roster": roster})

    @classmethod
    def read(cls, path: Path, authority: bytes) -> Self:
        """Read an approval, or a roster alone."""
        data = _load(path, "approval", "roster")
        if data["kind"] == "roster":
            return cls(None, None, Roster.from_json(data, authority), data)
        certificate = certificates.load_certificate(_entry(data, "certificate", str))
        roster = data.get("roster")
        return cls(
            _entry(data, "name", str),
            certificate,
            Roster.from_json(roster, authority),
            roster or {},
        )


def _text(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def _load(path: Path, *kinds: str) -> dict[str, Any]:
    content = read_small(path)
    try:
        data = json.loads(content)
    except (ValueError, RecursionError):
        raise VerificationFailed(f"{path} is no JSON") from None
    if not isinstance(data, dict) or data.get("kind") not in kinds:
        raise VerificationFailed(f"{path} is no {' or '.join(kinds)} of a federation")
    return data


def _entry(data: dict[str, Any], name: str, kind: type) -> Any:
    value = data.get(name)
    if not isinstance(value, kind) or isinstance(value, bool):
        raise VerificationFailed(f"{name} is missing or no {kind.__name__}")
    return value


def _public(data: dict[str, Any], name: str) -> bytes:
    try:
        found = bytes.fromhex(_entry(data, name, str))
    except ValueError:
        found = b""
    if len(found) != 32:
        raise VerificationFailed(f"{name} is no public key")
    return found


def _unsigned(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != "signature"}
