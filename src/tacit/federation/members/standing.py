"""How a site stands in its federation: its own fingerprint, its partners', and what ends when."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from tacit.federation.files import SiteConfig
from tacit.federation.members.certificates import load_certificate
from tacit.federation.members.identity import fingerprint, read_identity
from tacit.federation.secure import keys

__all__ = ["certificate_ends", "expiry", "identities", "identities_page"]

_SOON = 30  # days before its end from which a certificate is warned about


def certificate_ends(kit: Path) -> datetime | None:
    """Return when the certificate of a site's kit ends, where there is one."""
    file = kit / "startup" / "client.crt"
    if not file.exists():
        return None
    return load_certificate(file.read_bytes()).not_valid_after_utc


def identities(config: SiteConfig) -> dict[str, str]:
    """Return the fingerprints of a site, first, and of the partners that it pinned."""
    found = {}
    if config.identity is not None and config.identity.exists():
        found[config.name] = fingerprint(keys.identity_public(read_identity(config.identity)))
    others = (name for name in config.partners if name != config.name)
    return found | {name: fingerprint(config.partners[name]) for name in others}


def identities_page(config: SiteConfig, now: datetime | None = None) -> str:
    """Return who the site is and whom it knows, in words, with warnings about what ends.

    Parameters
    ----------
    config
        The site's file.
    now
        The time; of the machine's clock unless given.
    """
    found = identities(config)
    lines = ["Identities, to be compared by telephone", ""]
    if config.name in found:
        lines.append(f"  {found.pop(config.name)}  {config.name} (this site)")
    else:
        lines.append(f"  {config.name} has no identity: secure sums are refused.")
    lines += [f"  {shown}  {name}" for name, shown in found.items()]
    if not found:
        lines.append("  No partner is pinned.")
    ends = certificate_ends(config.kit)
    if ends is not None:
        lines += ["", f"  {expiry('The certificate of this site', ends, now)}"]
    return "\n".join(lines)


def expiry(what: str, ends: datetime, now: datetime | None = None) -> str:
    """Return when something ends, louder from thirty days before.

    >>> expiry("It", datetime(2027, 1, 31, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC))
    'WARNING: It ends on 2027-01-31, in 30 days: renew it.'
    """
    left = (ends - (now or datetime.now(UTC))).days
    if left < 0:
        return f"WARNING: {what} ENDED on {ends.date()}: renew it."
    if left <= _SOON:
        return f"WARNING: {what} ends on {ends.date()}, in {left} days: renew it."
    return f"{what} ends on {ends.date()}."
