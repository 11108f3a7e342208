"""The coordinator's side of one secure aggregation: see `tacit.federation.secure.exchange`.

Whatever a site sends is checked when it comes, so that a fault of the protocol is put down to the
site that made it; what nobody can tell (a wrong vector) is not guessed at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import SiteFailure
from tacit.federation.secure import keys, shamir
from tacit.federation.secure.arrays import SIGNED
from tacit.federation.secure.exchange import (
    BOX,
    COMMITMENT,
    SHORT,
    add_mask,
    check_advert,
    check_partners,
    confirmation,
    mask_context,
    share_digest,
)
from tacit.federation.secure.terms import Terms

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Gatherer"]


class Gatherer:
    """Relays, checks, and adds up.

    Parameters
    ----------
    terms
        What all parties know.
    partners
        The public keys of all sites' identities.
    """

    def __init__(self, terms: Terms, partners: Mapping[str, bytes]) -> None:
        check_partners("", None, partners, terms.sites)
        self.terms, self.partners = terms, partners
        self.adverts: dict[str, bytes] = {}
        self._owners: dict[bytes, str] = {}  # of every key that was advertised
        self.commitments: dict[str, bytes] = {}
        self.boxes: dict[str, Mapping[str, bytes]] = {}  # sender → receiver → box
        self.masked: dict[str, NDArray[Any]] = {}
        self.accused: dict[str, tuple[str, ...]] = {}  # receiver → senders of bad boxes
        self.signatures: dict[str, bytes] = {}

    # -- advertise ---------------------------------------------------------------------------

    def check_advert(self, site: str, advert: bytes) -> None:
        """Raise `SiteFailure` unless a site's keys can be used."""
        check_advert(self.terms, site, advert, self.partners)
        if not keys.is_usable(advert[:32]) or not keys.is_usable(advert[32:64]):
            raise SiteFailure(f"the keys of {site!r} are not usable")
        for key in (advert[:32], advert[32:64]):
            if self._owners.setdefault(key, site) != site:
                raise SiteFailure(f"the keys of {site!r} are those of another site")

    def take_adverts(self, adverts: Mapping[str, bytes]) -> None:
        """Take in what sites advertise."""
        self.terms.enough(adverts, "advertise")
        self.adverts = dict(adverts)

    # -- share -------------------------------------------------------------------------------

    def take_shares(self, shares: Mapping[str, tuple[bytes, Mapping[str, bytes]]]) -> None:
        """Take in commitments and sealed shares."""
        self.terms.enough(shares, "share")
        self.commitments = {site: found[0] for site, found in shares.items()}
        self.boxes = {site: found[1] for site, found in shares.items()}

    def boxes_for(self, site: str) -> dict[str, bytes]:
        """Return the sealed shares for a site, of all others who shared."""
        return {sender: boxes[site] for sender, boxes in self.boxes.items() if sender != site}

    # -- mask --------------------------------------------------------------------------------

    def take_masked(
        self, masked: Mapping[str, NDArray[Any]], accused: Mapping[str, tuple[str, ...]]
    ) -> None:
        """Take in masked vectors, and who got bad boxes from whom."""
        self.terms.enough(masked, "mask")
        self.masked = dict(masked)
        self.accused = {site: tuple(found) for site, found in accused.items() if found}

    @property
    def faulty(self) -> tuple[str, ...]:
        """Senders whom more accuse than can lie, or whose secrets too few could give back."""
        counts: dict[str, int] = {}
        for found in self.accused.values():
            for sender in found:
                counts[sender] = counts.get(sender, 0) + 1
        most = min(self.terms.colluding, len(self.masked) - self.terms.threshold)
        return tuple(sorted(sender for sender, count in counts.items() if count > most))

    # -- confirm -----------------------------------------------------------------------------

    @property
    def text(self) -> bytes:
        """What sites confirm."""
        return confirmation(self.terms, self.adverts, self.boxes, self.masked)

    def check_signature(self, site: str, signature: bytes) -> None:
        """Raise `SiteFailure` unless a site confirmed the list."""
        if not keys.is_signed(self.partners[site], signature, self.text):
            raise SiteFailure(f"{site!r} did not sign the list that it was asked to confirm")

    def take_signatures(self, signatures: Mapping[str, bytes]) -> None:
        """Take in confirmations; as many as needed are shown to the sites."""
        signers = self.terms.enough(signatures, "confirm")
        self.signatures = {site: signatures[site] for site in signers[: self.terms.threshold]}

    # -- unmask ------------------------------------------------------------------------------

    def helpers_of(self, sender: str, revealed: Mapping[str, Any]) -> tuple[str, ...]:
        """Return who holds a share of a sender's; last the sender, whom no digest binds."""
        holders = [
            helper
            for helper in self.terms.sites
            if helper in revealed and sender not in self.accused.get(helper, ())
        ]
        return tuple(sorted(holders, key=sender.__eq__))

    def check_shares(self, helper: str, shown: Mapping[str, bytes]) -> None:
        """Raise `SiteFailure` unless shares are those that their senders gave to a helper."""
        for sender, boxes in self.boxes.items():
            if sender == helper or sender in self.accused.get(helper, ()):
                continue
            at = SHORT if sender in self.masked else 0
            if share_digest(shown[sender]) != boxes[helper][at : at + SHORT]:
                raise SiteFailure(f"{helper!r} shows another share than it was given")

    def total(self, revealed: Mapping[str, Mapping[str, bytes]]) -> NDArray[Any]:
        """Return the sum of the vectors that arrived, as signed numbers.

        Parameters
        ----------
        revealed
            Helper → sender → share, from at least t helpers.
        """
        terms = self.terms
        terms.enough(revealed, "unmask")
        weights: dict[tuple[str, ...], list[int]] = {}
        bound = mask_context(terms, self.adverts, self.boxes)
        result = self._sum()
        for sender in self.boxes:
            helpers = self.helpers_of(sender, revealed)[: terms.threshold]
            if len(helpers) < terms.threshold:
                raise SiteFailure(
                    f"fewer than {terms.threshold} sites hold a share of {sender!r}: this sum is "
                    "lost"
                )
            if helpers not in weights:
                weights[helpers] = shamir.weights_at_zero([terms.point(h) for h in helpers])
            found = self._secret(sender, helpers, weights[helpers], revealed)
            if sender in self.masked:
                result -= keys.stream(found, result.size, terms.bits)
                continue
            key = keys.load_key(found)
            for other in self.masked:  # what the site that dropped out would have cancelled
                public = self.adverts[other][32:64]
                add_mask(result, terms, key, sender, public, other, bound)
        signed: NDArray[Any] = result.view(SIGNED[terms.bits])
        return signed

    def _secret(
        self,
        sender: str,
        helpers: tuple[str, ...],
        weights: list[int],
        revealed: Mapping[str, Mapping[str, bytes]],
    ) -> bytes:
        """Return the seed of a site that arrived, or the key of one that dropped out."""
        parts = [int.from_bytes(revealed[helper][sender], "little") for helper in helpers]
        secret = sum(w * p for w, p in zip(weights, parts, strict=True)) % shamir.PRIME
        if secret < 1 << 256:
            found = secret.to_bytes(32, "little")
            if sender in self.masked:
                right = keys.commitment(found) == self.commitments[sender]
            else:
                right = keys.public_key(found) == self.adverts[sender][32:64]
            if right:
                return found
        raise SiteFailure(
            f"the shares that {sender!r} dealt do not fit together: this sum is lost"
        )

    def _sum(self) -> NDArray[Any]:
        parts = list(self.masked.values())
        ring = keys.RINGS[self.terms.bits]
        if len({part.shape for part in parts}) > 1 or any(part.dtype != ring for part in parts):
            raise SiteFailure("masked vectors have different lengths or kinds")
        result: NDArray[Any] = parts[0].copy()
        for part in parts[1:]:
            result += part
        return result

    # -- restarts ----------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what the exchanges gave so far, as named arrays."""
        order = sorted(self.adverts)
        kept: dict[str, NDArray[Any]] = {
            f"advert {s}": np.frombuffer(a, np.uint8) for s, a in self.adverts.items()
        }
        for site, boxes in self.boxes.items():
            row = b"".join(boxes.get(other, bytes(BOX)) for other in order)
            kept[f"boxes {site}"] = np.frombuffer(self.commitments[site] + row, np.uint8)
        for site, masked in self.masked.items():
            kept[f"masked {site}"] = masked.view(SIGNED[self.terms.bits])
            kept[f"accused {site}"] = self.terms.marks(self.accused.get(site, ()))
        for site, signature in self.signatures.items():
            kept[f"signature {site}"] = np.frombuffer(signature, np.uint8)
        return kept

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state."""
        found: dict[str, dict[str, NDArray[Any]]] = {}
        for name, array in state.items():
            kind, _, site = name.partition(" ")
            found.setdefault(kind, {})[site] = array
        self.adverts = {s: a.tobytes() for s, a in found.get("advert", {}).items()}
        order = sorted(self.adverts)
        for site, array in found.get("boxes", {}).items():
            data = array.tobytes()
            self.commitments[site], rows = data[:COMMITMENT], data[COMMITMENT:]
            self.boxes[site] = {o: rows[k * BOX : (k + 1) * BOX] for k, o in enumerate(order)}
        ring = np.dtype(keys.RINGS[self.terms.bits])
        self.masked = {s: a.view(ring) for s, a in found.get("masked", {}).items()}
        self.accused = {
            s: self.terms.marked(a) for s, a in found.get("accused", {}).items() if a.any()
        }
        self.signatures = {s: a.tobytes() for s, a in found.get("signature", {}).items()}
