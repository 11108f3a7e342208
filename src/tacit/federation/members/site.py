"""A site in a federation: its keys are made here, and its partners are pinned here.

``join`` makes both private keys and a request. ``accept`` takes the answer: it checks it against
the keys made here and the root of the invitation, writes the engine's kit, and pins the
identities of partners whose fingerprints a person confirmed. Nobody is pinned on the authority's
word, and a partner's identity never changes silently.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tacit.errors import ParameterError, VerificationFailed
from tacit.federation import kits, templates
from tacit.federation.engine.deploy import write_forms
from tacit.federation.files import SiteConfig
from tacit.federation.folders import make_folder, read_small, replace_file, write_new
from tacit.federation.members import certificates
from tacit.federation.members.documents import Approval, Invitation, Request, Roster, check_name
from tacit.federation.members.identity import Confirm, fingerprint, new_identity, read_identity
from tacit.federation.members.standing import certificate_ends
from tacit.federation.secure import keys

__all__ = ["Accepted", "Joined", "accept", "join", "renew"]


@dataclass(frozen=True)
class Joined:
    """What a site sends, and what people compare.

    Attributes
    ----------
    request
        The file to send to the authority.
    fingerprint
        Of this site's identity: to be told to the authority and to every partner.
    invitation
        The fingerprint of the invitation: to be compared with the authority's.
    """

    request: Path
    fingerprint: str
    invitation: str


@dataclass(frozen=True)
class Accepted:
    """What an approval or a roster changed.

    Attributes
    ----------
    pinned, unpinned
        Sites whose identities were taken over, or dropped as revoked.
    waiting
        Sites that were not confirmed, with the fingerprints that came.
    ends
        When the certificate ends.
    """

    pinned: list[str] = field(default_factory=list)
    unpinned: list[str] = field(default_factory=list)
    waiting: dict[str, str] = field(default_factory=dict)
    ends: datetime | None = None


def join(invitation: Path, name: str, folder: Path | None = None) -> Joined:
    """Make a site's keys, its file, and a request to be let in.

    Parameters
    ----------
    invitation
        The file that the authority sent.
    name
        What this site is called.
    folder
        Where to; must not exist. Named after the site unless given.
    """
    found = Invitation.read(invitation)
    check_name(name, found.host)
    home = folder or Path(name)
    if home.exists():
        raise ParameterError(f"{home} exists already: choose another place")
    make_folder(home)
    write_new(home / "invitation.json", read_small(invitation))
    public = new_identity(home / "identity.key")
    file = templates.site_file(name, {name: public.hex()}, found.coordinator.hex())
    write_new(home / "site.toml", file)
    write_forms(home, name)
    return _ask(home, found, name, home / "identity.key")


def renew(folder: Path) -> Joined:
    """Make a new key of TLS and a request for it; the identity stays.

    The kit goes on working with the old one until the answer is accepted.
    """
    config, invitation = _home(folder)
    return _ask(folder, invitation, config.name, _identity_file(config))


def _ask(folder: Path, invitation: Invitation, name: str, identity: Path) -> Joined:
    private = read_identity(identity)
    waiting = folder / "pending" / "client.key"
    request = folder / f"{name}.request.json"
    if waiting.exists():
        raise ParameterError(
            f"{request} waits for its approval: delete {waiting.parent} to ask anew"
        )
    key = certificates.new_key()
    write_new(waiting, certificates.private_pem(key))
    replace_file(request, Request.make(name, invitation.authority, private, key))
    shown = fingerprint(keys.identity_public(private))
    return Joined(request, shown, invitation.fingerprint)


def accept(folder: Path, file: Path, confirm: Confirm, *, now: datetime | None = None) -> Accepted:
    """Take over an approval, or a newer roster; nothing changes unless all of it is right.

    Parameters
    ----------
    folder
        The site's.
    file
        What the authority sent.
    confirm
        Says whether a partner's fingerprint is the one that the partner told.
    now
        The time; of the machine's clock unless given.
    """
    config, invitation = _home(folder)
    found = Approval.read(file, invitation.authority)
    own = keys.identity_public(read_identity(_identity_file(config)))
    _check_roster(folder, found, config.name, own)
    key = None
    if found.certificate is not None:
        if found.name != config.name:
            raise VerificationFailed(f"{file} is for {found.name}, this is {config.name}")
        key = _own_key(folder, config, certificates.key_digest(found.certificate))
        root = certificates.load_certificate(invitation.root)
        certificates.check_certificate(
            found.certificate, root, key, config.name, own, now or datetime.now(UTC)
        )
    partners, result = _partners(config, own, found.roster, confirm)
    text = _with_partners(folder, partners)
    if found.certificate is not None and key is not None:
        kits.install_site(
            config.kit,
            config.name,
            invitation.host,
            invitation.port,
            key=certificates.private_pem(key),
            certificate=certificates.public_pem(found.certificate),
            root=invitation.root.encode(),
        )
    replace_file(folder / "site.toml", text)
    replace_file(folder / "roster.json", json.dumps(found.signed_roster, indent=1) + "\n")
    waiting = folder / "pending" / "client.key"
    if (
        key is not None
        and waiting.exists()
        and waiting.read_bytes() == (certificates.private_pem(key))
    ):
        waiting.unlink()
    return Accepted(result.pinned, result.unpinned, result.waiting, certificate_ends(config.kit))


def _home(folder: Path) -> tuple[SiteConfig, Invitation]:
    if not (folder / "site.toml").exists():
        raise ParameterError(f"{folder} holds no site.toml: `tacit federation join` makes one")
    return SiteConfig.read(folder / "site.toml"), Invitation.read(folder / "invitation.json")


def _identity_file(config: SiteConfig) -> Path:
    if config.identity is None:
        raise ParameterError('site.toml names no identity: write identity = "identity.key"')
    return config.identity


def _own_key(folder: Path, config: SiteConfig, digest: str) -> RSAPrivateKey:
    for place in (folder / "pending", config.kit / "startup"):
        if (place / "client.key").exists():
            key = certificates.load_private((place / "client.key").read_bytes())
            if certificates.key_digest(key) == digest:
                return key
    raise VerificationFailed("the certificate is for another key than the one made here")


def _check_roster(folder: Path, found: Approval, name: str, own: bytes) -> None:
    """Refuse a roster that is older than the last one, or that knows this site otherwise."""
    last = folder / "roster.json"
    if last.exists():
        before = json.loads(last.read_text(encoding="utf-8"))
        if found.roster.version < before["version"]:
            raise VerificationFailed(
                f"the roster is older (version {found.roster.version}) than the one accepted "
                f"before (version {before['version']}): ask the authority for the newest"
            )
        if found.roster.version == before["version"] and found.signed_roster != before:
            raise VerificationFailed(
                "THE AUTHORITY SIGNED TWO ROSTERS with one version: talk to your partners"
            )
    listed = found.roster.active().get(name)
    if listed != own:
        how = (
            "revoked"
            if found.roster.revoked(name, own)
            else "not listed"
            if listed is None
            else f"listed with another identity, {fingerprint(listed)}"
        )
        raise VerificationFailed(f"THIS SITE IS {how.upper()} on the roster: ask the authority")


def _partners(
    config: SiteConfig, own: bytes, roster: Roster, confirm: Confirm
) -> tuple[dict[str, bytes], Accepted]:
    """Return whom to pin: those pinned before, less the revoked, and those confirmed now."""
    result = Accepted()
    kept = {config.name: own}
    for name, identity in config.partners.items():
        if name == config.name:
            continue
        if roster.revoked(name, identity):
            result.unpinned.append(name)
        else:
            kept[name] = identity
    for name, identity in roster.active().items():
        if name not in kept:
            if confirm(name, fingerprint(identity)):
                kept[name] = identity
                result.pinned.append(name)
            else:
                result.waiting[name] = fingerprint(identity)
        elif kept[name] != identity:
            raise VerificationFailed(
                f"THE IDENTITY OF {name} HAS CHANGED, and the one that is pinned was not revoked. "
                f"Pinned: {fingerprint(kept[name])}. On the roster: {fingerprint(identity)}. "
                f"Nothing was accepted. Ask {name}, by a way that you trust"
            )
    return kept, result


def _with_partners(folder: Path, partners: Mapping[str, bytes]) -> str:
    public = {name: identity.hex() for name, identity in partners.items()}
    text = templates.with_partners((folder / "site.toml").read_text(encoding="utf-8"), public)
    if text is None:
        table = "\n".join(f'{name} = "{key}"' for name, key in public.items())
        raise ParameterError(
            f"{folder / 'site.toml'} is written in a way that cannot be changed safely; bring its "
            f"partners into this form and accept again:\n[partners]\n{table}"
        )
    return text
