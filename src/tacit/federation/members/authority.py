"""The authority of a federation: who may connect, and under which identity.

It makes the root, the server's keys and those of who submits. A site's private key never comes
here: a site sends a request, the authority signs it, and whatever it keeps and sends is public
but for its own keys. Whoever holds ``authority/`` can let further members in: keep it offline.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey

from tacit.errors import ParameterError, VerificationFailed
from tacit.federation import kits, templates
from tacit.federation.folders import make_folder, replace_file, write_new
from tacit.federation.members import certificates
from tacit.federation.members.documents import (
    Approval,
    Invitation,
    Member,
    Request,
    Roster,
    check_host,
)
from tacit.federation.members.identity import Confirm, fingerprint, new_identity, read_identity
from tacit.federation.secure import keys

__all__ = ["Approved", "approve", "init_authority", "members", "renew_server", "revoke"]


@dataclass(frozen=True)
class Approved:
    """One request that was approved: the file for the site, and what it says."""

    name: str
    fingerprint: str
    file: Path
    ends: datetime


def init_authority(
    folder: Path,
    *,
    host: str = "localhost",
    port: int = 8002,
    name: str | None = None,
    now: datetime | None = None,
) -> Invitation:
    """Make a federation without sites: authority, coordinator, and an invitation for sites.

    Parameters
    ----------
    folder
        Where to; must not exist.
    host, port
        Where sites reach the coordinator.
    name
        Of the federation; the folder's unless given.
    now
        The time; of the machine's clock unless given.
    """
    check_host(host, port)
    if folder.exists():
        raise ParameterError(f"{folder} exists already: choose another place")
    now = now or datetime.now(UTC)
    make_folder(folder)
    root = certificates.make_root(now)
    write_new(folder / "authority" / "root.key", certificates.private_pem(root[0]))
    text = certificates.public_pem(root[1])
    write_new(folder / "authority" / "root.pem", text)
    authority = new_identity(folder / "authority" / "identity.key")
    coordinator = new_identity(folder / "coordinator" / "identity.key")
    invitation = Invitation(
        name or folder.resolve().name, host, port, text.decode(), authority, coordinator
    )
    signer = read_identity(folder / "authority" / "identity.key")
    write_new(folder / "invitation.json", invitation.to_text(signer))
    file = templates.coordinator_file([])
    write_new(folder / "coordinator" / "coordinator.toml", file)
    _Office(folder, now, {"version": 0, "members": [], "withdrawn": []}).furnish()
    return invitation


def approve(
    folder: Path,
    requests: Sequence[Path],
    confirm: Confirm,
    *,
    days: int = certificates.DAYS,
    replace: bool = False,
    now: datetime | None = None,
) -> tuple[list[Approved], list[str]]:
    """Sign requests of sites, and put the sites on the roster; all of them or none.

    Parameters
    ----------
    folder
        The federation's.
    requests
        The files that sites sent.
    confirm
        Says whether the fingerprint of a request is the one that its site told; not asked about
        members who renew a key, as the identity that is known signed the request.
    days
        How long the certificates last.
    replace
        Whether older certificates of the same sites are revoked: where a key may be stolen.
    now
        The time; of the machine's clock unless given.

    Returns
    -------
    approved
        What was signed.
    left
        What must be done by hand, in words.
    """
    office = _Office.open(folder, now)
    found = [Request.read(path, office.invitation) for path in requests]
    for request in found:
        known = office.check(request)
        if not known and not confirm(request.name, fingerprint(request.identity)):
            raise ParameterError(
                f"the fingerprint of {request.name} was not confirmed: ask {request.name} for it "
                f"by telephone, and pass --pin {request.name}=FINGERPRINT"
            )
    issued = []
    for request in found:
        office.check(request)  # also against the others of this list
        issued.append((request, office.sign(request, days, replace)))
    left = office.publish()
    roster = office.roster()
    approved = []
    for request, certificate in issued:
        file = office.approval_file(request.name, certificate)
        replace_file(file, Approval.make(request.name, certificate, roster))
        ends = certificate.not_valid_after_utc
        approved.append(Approved(request.name, fingerprint(request.identity), file, ends))
    return approved, left


def revoke(folder: Path, name: str, *, now: datetime | None = None) -> list[str]:
    """Take a site off the roster: its certificates are refused from now on.

    Parameters
    ----------
    folder
        The federation's.
    name
        The site.
    now
        The time; of the machine's clock unless given.

    Returns
    -------
    left
        What must be done by hand, in words.
    """
    office = _Office.open(folder, now)
    entry = office.active(name)
    if entry is None:
        raise ParameterError(f"{name!r} is no member: members are {sorted(office.names())}")
    entry["revoked"] = office.today
    for certificate in entry["certificates"]:
        certificate["revoked"] = certificate["revoked"] or office.today
    return office.publish()


def renew_server(
    folder: Path, *, days: int = certificates.DAYS, now: datetime | None = None
) -> datetime:
    """Make new keys and certificates for the server and for who submits; return their end."""
    office = _Office.open(folder, now)
    old = folder / "coordinator" / "admin" / "startup" / "client.crt"
    serial = certificates.load_certificate(old.read_bytes()).serial_number
    office.record["withdrawn"].append(f"{serial:x}")
    return office.furnish(days)


def members(folder: Path, *, now: datetime | None = None) -> list[dict[str, Any]]:
    """Return everybody's name, fingerprint, end of certificate, and when it was revoked."""
    office = _Office.open(folder, now)
    rows = [
        {"name": who, "fingerprint": None, "ends": _ends(path), "revoked": None}
        for who, path in (
            ("root", folder / "authority" / "root.pem"),
            ("server", folder / "coordinator" / "server" / "startup" / "server.crt"),
            ("admin", folder / "coordinator" / "admin" / "startup" / "client.crt"),
        )
        if path.exists()
    ]
    for entry in office.record["members"]:
        rows.append(
            {
                "name": entry["name"],
                "fingerprint": fingerprint(bytes.fromhex(entry["identity"])),
                "ends": entry["certificates"][-1]["ends"],
                "revoked": entry["revoked"],
            }
        )
    return rows


def _ends(path: Path) -> str:
    return certificates.load_certificate(path.read_bytes()).not_valid_after_utc.isoformat()


class _Office:
    """The authority's folder, opened: its keys, and its record of members."""

    def __init__(self, folder: Path, now: datetime, record: dict[str, Any]) -> None:
        self.folder, self.now, self.record = folder, now, record
        self.today = now.astimezone(UTC).date().isoformat()
        home = folder / "authority"
        self.root: tuple[RSAPrivateKey, x509.Certificate] = (
            certificates.load_private((home / "root.key").read_bytes()),
            certificates.load_certificate((home / "root.pem").read_bytes()),
        )
        self.identity = read_identity(home / "identity.key")
        self.invitation = Invitation.read(folder / "invitation.json")
        if keys.identity_public(self.identity) != self.invitation.authority:
            raise VerificationFailed(f"{folder / 'invitation.json'} is of another authority")

    @classmethod
    def open(cls, folder: Path, now: datetime | None) -> _Office:
        file = folder / "authority" / "members.json"
        if not file.exists():
            raise ParameterError(
                f"{folder} holds no authority: `tacit federation init` makes one, and only where "
                "it lies can members be approved or revoked"
            )
        record = json.loads(file.read_text(encoding="utf-8"))
        return cls(folder, now or datetime.now(UTC), record)

    def active(self, name: str) -> dict[str, Any] | None:
        current = (e for e in self.record["members"] if e["revoked"] is None)
        return next((e for e in current if e["name"].lower() == name.lower()), None)

    def names(self) -> list[str]:
        return list(self.identities())

    def identities(self) -> dict[str, str]:
        """Return members who are not revoked → their public identities, in hexadecimal."""
        members = self.record["members"]
        return {e["name"]: e["identity"] for e in members if e["revoked"] is None}

    def check(self, request: Request) -> bool:
        """Refuse a name or a key that is somebody else's or revoked; whether it is a member's."""
        entry, public = self.active(request.name), request.identity.hex()
        shown = fingerprint(request.identity)
        if entry is not None and (entry["name"], entry["identity"]) != (request.name, public):
            raise VerificationFailed(
                f"THE NAME {request.name} IS TAKEN by {entry['name']} with the identity "
                f"{fingerprint(bytes.fromhex(entry['identity']))}; this request has {shown}. If "
                "the institution lost its key, `tacit federation revoke` frees the name"
            )
        key = certificates.key_digest(request.signing)
        for other in self.record["members"]:
            if other["identity"] == public and other is not entry:
                state = "revoked" if other["revoked"] else "a member"
                raise VerificationFailed(f"the identity {shown} is {state}, as {other['name']}")
            for known in other["certificates"]:
                if known["key"] == key and (other is not entry or known["revoked"]):
                    raise VerificationFailed(
                        f"the key of TLS in the request of {request.name} is another's, or revoked"
                    )
        return entry is not None

    def sign(self, request: Request, days: int, replace: bool) -> x509.Certificate:
        """Return a certificate for a request; for one that was signed already, the same again."""
        entry = self.active(request.name)
        if entry is None:
            entry = {
                "name": request.name,
                "identity": request.identity.hex(),
                "approved": self.today,
                "revoked": None,
                "certificates": [],
            }
            self.record["members"].append(entry)
        key = certificates.key_digest(request.signing)
        for known in entry["certificates"]:
            if known["key"] == key:
                return certificates.load_certificate(known["certificate"])
            if replace:
                known["revoked"] = known["revoked"] or self.today
        public = request.signing.public_key()
        assert isinstance(public, RSAPublicKey)  # as the request was checked
        certificate = certificates.member_certificate(
            self.root, request.name, public, self.now, days, identity=request.identity
        )
        entry["certificates"].append(
            {
                "key": key,
                "serial": f"{certificate.serial_number:x}",
                "ends": certificate.not_valid_after_utc.isoformat(),
                "revoked": None,
                "certificate": certificates.public_pem(certificate).decode(),
            }
        )
        return certificate

    def furnish(self, days: int = certificates.DAYS) -> datetime:
        """Write the kits of the server and of who submits, with keys made now."""
        host, port = self.invitation.host, self.invitation.port
        root = certificates.public_pem(self.root[1])
        key = certificates.new_key()
        server = certificates.server_certificate(self.root, host, key, self.now, days)
        place = self.folder / "coordinator"
        kits.install_server(
            place / "server",
            host,
            port,
            key=certificates.private_pem(key),
            certificate=certificates.public_pem(server),
            root=root,
        )
        key = certificates.new_key()
        admin = certificates.member_certificate(
            self.root, kits.ADMIN, key.public_key(), self.now, days, role=kits.ROLE
        )
        kits.install_admin(
            place / "admin",
            host,
            port,
            key=certificates.private_pem(key),
            certificate=certificates.public_pem(admin),
            root=root,
        )
        self.publish()
        return server.not_valid_after_utc

    def roster(self) -> dict[str, Any]:
        """Return the roster, signed."""
        listed = tuple(
            Member(entry["name"], entry["identity"], entry["approved"], entry["revoked"])
            for entry in self.record["members"]
        )
        found = Roster(self.invitation.authority, self.record["version"], listed)
        return found.to_json(self.identity)

    def publish(self) -> list[str]:
        """Write the record, the roster, the list for the server, and the coordinator's sites."""
        self.record["version"] += 1
        replace_file(self.folder / "authority" / "members.json", _pretty(self.record))
        refused = [int(serial, 16) for serial in self.record["withdrawn"]]
        for entry in self.record["members"]:
            gone = (c for c in entry["certificates"] if c["revoked"] is not None)
            refused += [int(certificate["serial"], 16) for certificate in gone]
        text = certificates.revocation_list(self.root, refused, self.now)
        replace_file(self.folder / "authority" / "revoked.pem", text)
        replace_file(self.folder / "roster.json", _pretty(self.roster()))
        return self._tell_coordinator(text)

    def _tell_coordinator(self, revoked: bytes) -> list[str]:
        place = self.folder / "coordinator"
        names = json.dumps(self.names())
        if not (place / "server" / "startup").is_dir():
            return [
                f"copy {self.folder / 'authority' / 'revoked.pem'} into server/startup at the "
                f"coordinator, and write sites = {names} into its coordinator.toml"
            ]
        kits.install_revoked(place / "server", revoked)
        file = place / "coordinator.toml"
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        changed = templates.with_sites(before, self.names())
        if changed is not None:
            changed = templates.with_partners(changed, self.identities())
        if changed is None:
            return [f"write sites = {names}, and their keys under [partners], into {file}"]
        if changed != before:
            replace_file(file, changed)
        return []

    def approval_file(self, name: str, certificate: x509.Certificate) -> Path:
        """Return where the answer with a certificate goes: each has a file of its own."""
        entries = (e for e in self.record["members"] if e["name"].lower() == name.lower())
        serials = [known["serial"] for entry in entries for known in entry["certificates"]]
        number = serials.index(f"{certificate.serial_number:x}") + 1
        again = "" if number == 1 else f"-{number}"
        return self.folder / "approvals" / f"{name}.approval{again}.json"


def _pretty(data: dict[str, Any]) -> str:
    return json.dumps(data, indent=1) + "\n"
