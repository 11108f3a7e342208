"""Secure aggregation: the coordinator learns the sum of the sites' vectors, and nothing else.

The protocol is that of Bonawitz et al. (CCS 2017), over integers modulo 2³² or 2⁶⁴, in four
exchanges that the coordinator relays:

=========  =====================================================================================
advertise  every site sends two fresh X25519 public keys, signed where identities are known
share      every site splits its masking key and a seed of its own into n Shamir shares, and sends
           each sealed to its receiver
mask       every site sends x + stream(own seed) ± streams that it agreed on with each partner,
           + towards sites with a later name and − towards earlier ones, which cancel in the sum
unmask     of a site whose vector arrived, t others reveal shares of its own seed; of a site that
           dropped out before, shares of its masking key. Never both of one site.
=========  =====================================================================================

**What the coordinator sees.** A vector that arrived is hidden by n − 1 streams of which no seed is
ever revealed as long as its sender and one partner are honest; given the sum, the view has one
law whatever the single vectors are. A site answers one unmasking request per session, so to
unmask a single vector takes t shares of its seed *and* t shares of its key. Sites that collude
with the coordinator give both: c of them do not suffice as long as **2t > n + c**, and 2t > n is
enforced. **Drop-outs**: up to n − t sites in all may fail, at whatever exchange; one more, and
nothing is revealed.

**One request for all.** The agreed streams are bound to what the sites were asked for, so that
answers to different requests add up to nothing: a coordinator that asks all sites but one for
something empty does not see that one's answer under its own share of the noise.

**What is checked.** Shares travel sealed and authenticated. A recovered key must belong to the
advertised public key and a recovered seed to its commitment, so a wrong share is noticed. A site
that sends a wrong *vector* cannot be noticed: nobody sees it. Without identities a coordinator
that invents sites or swaps keys could read vectors; with them (`tacit federation init` makes
them) it has to be honest only about who dropped out, which 2t > n covers.

**Noise.** With `GaussianShare(…, shares=t)` every site adds a t-th part of the variance: any sum
that the protocol reveals holds at least t parts, the central noise. If the aggregation is broken
(keys leak, more collude), a message alone still has noise of 1/√t of that scale: `alone` of the
mechanism says what that gives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, OneOf, check
from tacit.errors import ParameterError, SiteFailure
from tacit.federation.secure import keys, shamir

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from numpy.typing import NDArray

__all__ = ["ADVERT", "SEALED", "Gatherer", "Member", "Terms"]

ADVERT = 128  # two public keys and a signature
COMMITMENT = 32
SEALED = 2 * shamir.SHARE_BYTES + 16  # two shares and a tag


@dataclass(frozen=True)
class Terms:
    """What all parties of one aggregation know.

    Parameters
    ----------
    session
        Bytes that no other aggregation of these sites has.
    sites
        The names of all sites that were asked.
    threshold
        t: how many sites must see the aggregation through.
    bits
        The ring: numbers are added modulo 2^bits, 32 or 64.

    Examples
    --------
    >>> Terms(b"1", ("A", "B", "C", "D"), 3).drop_outs
    1
    """

    session: bytes
    sites: tuple[str, ...]
    threshold: int
    bits: int = 64
    _digest: bytes = field(init=False, repr=False, default=b"")  # of all of the above

    def __post_init__(self) -> None:
        check("bits", self.bits, OneOf(*keys.RINGS))
        n = len(self.sites)
        check("threshold", self.threshold, Integer(2))
        if tuple(sorted(set(self.sites))) != self.sites:
            raise ParameterError("sites must be distinct names in order")
        if not n / 2 < self.threshold <= n:
            raise ParameterError(
                f"threshold must be more than half of the {n} sites and at most all of them, got "
                f"{self.threshold}: with less, two halves could be asked for different secrets"
            )
        digest = hashlib.sha256(self.session)
        for part in (*self.sites, str(self.threshold), str(self.bits)):
            digest.update(len(part.encode()).to_bytes(4, "little") + part.encode())
        object.__setattr__(self, "_digest", digest.digest())

    @property
    def drop_outs(self) -> int:
        """How many sites may fail."""
        return len(self.sites) - self.threshold

    def point(self, site: str) -> int:
        """Return where a site's share is taken."""
        return self.sites.index(site) + 1

    def about(self, what: str, *names: str) -> bytes:
        """Return bytes that bind a key to its use, the terms and the names."""
        digest = hashlib.sha256(self._digest)
        for part in (what, *names):
            digest.update(len(part.encode()).to_bytes(4, "little") + part.encode())
        return digest.digest()

    def check_group(self, group: Collection[str], exchange: str) -> tuple[str, ...]:
        """Return a group in order, or raise where it is too small or unknown."""
        unknown = sorted(set(group) - set(self.sites))
        if unknown:
            raise SiteFailure(f"{unknown[0]!r} takes no part in this aggregation")
        if len(group) < self.threshold:
            raise SiteFailure(
                f"only {len(group)} sites are left when asked to {exchange}, and nothing is "
                f"revealed from fewer than {self.threshold} of {len(self.sites)}"
            )
        return tuple(sorted(group))


class Member:
    """A site's side of one aggregation: every step is taken once.

    Parameters
    ----------
    name
        The site.
    terms
        What all parties know.
    identity, partners
        The Ed25519 key that signs, and the public keys of all sites; both or none.
    """

    def __init__(
        self,
        name: str,
        terms: Terms,
        identity: bytes | None = None,
        partners: Mapping[str, bytes] | None = None,
    ) -> None:
        if name not in terms.sites:
            raise SiteFailure(f"{name!r} takes no part in this aggregation")
        if (identity is None) != (partners is None):
            raise ParameterError("an identity goes with the partners' public keys: pass both")
        self.name, self.terms = name, terms
        self._identity, self._partners = identity, partners
        self.done = 0
        self.sealing, self.masking, self.seed = (
            keys.fresh_key(),
            keys.fresh_key(),
            keys.fresh_seed(),
        )
        self.adverts: dict[str, bytes] = {}
        self.held: dict[str, bytes] = {}

    def _step(self, number: int, what: str) -> None:
        if self.done != number:
            raise SiteFailure(f"asked to {what} out of turn: every step is taken once")
        self.done = number + 1

    def advertise(self) -> bytes:
        """Return two public keys and their signature."""
        self._step(0, "advertise")
        public = keys.public_key(self.sealing) + keys.public_key(self.masking)
        text = self.terms.about("keys", self.name) + public
        signature = keys.sign(self._identity, text) if self._identity else bytes(64)
        return public + signature

    def share(self, adverts: Mapping[str, bytes]) -> tuple[bytes, dict[str, bytes]]:
        """Return the commitment to the own seed, and sealed shares for everybody else."""
        self._step(1, "share")
        group = self.terms.check_group(adverts, "share")
        if self.name not in group:
            raise SiteFailure(f"{self.name!r} is missing from its own group")
        if len({advert[:32] for advert in adverts.values()}) < len(group):
            raise SiteFailure("two sites advertise one key")
        for other, advert in adverts.items():
            if self._partners is not None:
                if other not in self._partners:
                    raise SiteFailure(f"{other!r} is none of the partners that were agreed on")
                text = self.terms.about("keys", other) + advert[:64]
                keys.verify(self._partners[other], advert[64:], text, other)
        self.adverts = dict(adverts)
        points = [self.terms.point(other) for other in group]
        shares, seeds = (
            shamir.evaluate(
                [
                    int.from_bytes(secret, "little"),
                    *keys.fresh_coefficients(self.terms.threshold - 1),
                ],
                points,
            )
            for secret in (self.masking, self.seed)
        )
        sealed, sealing = {}, keys.load_key(self.sealing)
        for other, key, seed in zip(group, shares, seeds, strict=True):
            text = b"".join(s.to_bytes(shamir.SHARE_BYTES, "little") for s in (key, seed))
            if other == self.name:
                self.held[other] = text
                continue
            context = self.terms.about("share", self.name, other)
            shared = keys.agree(sealing, adverts[other][:32], context)
            sealed[other] = keys.seal(shared, text, context)
        return keys.commitment(self.seed), sealed

    def mask(
        self, sealed: Mapping[str, bytes], values: NDArray[Any], asked: bytes = b""
    ) -> NDArray[Any]:
        """Return a vector (whole numbers, taken modulo 2^bits) under all masks.

        Parameters
        ----------
        sealed
            Sender → the share that it sealed for this site; the senders (and this site) are the
            group that masks.
        values
            What to add up.
        asked
            A digest of what the values answer: masks of sites that were asked for different
            things do not cancel.
        """
        self._step(2, "mask")
        group = self.terms.check_group({*sealed, self.name}, "mask")
        sealing, masking = keys.load_key(self.sealing), keys.load_key(self.masking)
        for other, box in sealed.items():
            if other not in self.adverts or other == self.name:
                raise SiteFailure(f"a share comes from {other!r}, who advertised no keys")
            context = self.terms.about("share", other, self.name)
            shared = keys.agree(sealing, self.adverts[other][:32], context)
            self.held[other] = keys.open_sealed(shared, box, context)
        bits = self.terms.bits
        masked = np.asarray(values).astype(np.int64).astype(keys.RINGS[bits])  # wraps around
        masked += keys.stream(self.seed, masked.size, bits)
        for other in group:
            if other != self.name:
                public = self.adverts[other][32:64]
                add_mask(masked, self.terms, masking, self.name, public, other, asked)
        return masked

    def unmask(self, arrived: Collection[str]) -> dict[str, bytes]:
        """Return a share about everybody: of the seed of who arrived, of the key of the rest."""
        self._step(3, "unmask")
        arrived = self.terms.check_group(arrived, "unmask")
        if not set(arrived) <= set(self.held) or self.name not in arrived:
            raise SiteFailure("the list of vectors that arrived does not fit this session")
        width = shamir.SHARE_BYTES
        return {
            other: held[width:] if other in arrived else held[:width]
            for other, held in self.held.items()
        }


def add_mask(
    masked: NDArray[Any],
    terms: Terms,
    private: X25519PrivateKey,
    name: str,
    public: bytes,
    other: str,
    asked: bytes,
) -> None:
    """Add the stream that ``name`` and ``other`` agreed on, with the sign that ``name`` uses."""
    seed = keys.agree(private, public, terms.about("mask", *sorted((name, other)), asked.hex()))
    drawn = keys.stream(seed, masked.size, terms.bits)
    if name < other:
        masked += drawn
    else:
        masked -= drawn


class Gatherer:
    """The coordinator's side of one aggregation."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.adverts: dict[str, bytes] = {}
        self.commitments: dict[str, bytes] = {}
        self.masked: dict[str, NDArray[Any]] = {}
        self.boxes: dict[str, Mapping[str, bytes]] = {}
        self.asked = b""  # a digest of what all sites were asked for

    def take_adverts(self, adverts: Mapping[str, bytes]) -> None:
        """Take in what sites advertise."""
        self.terms.check_group(adverts, "advertise")
        self.adverts = dict(adverts)

    def take_shares(self, shares: Mapping[str, tuple[bytes, Mapping[str, bytes]]]) -> None:
        """Take in commitments and sealed shares."""
        self.terms.check_group(shares, "share")
        self.commitments = {site: found[0] for site, found in shares.items()}
        self.boxes = {site: found[1] for site, found in shares.items()}

    def boxes_for(self, site: str) -> dict[str, bytes]:
        """Return the sealed shares for a site, of all who shared."""
        return {sender: boxes[site] for sender, boxes in self.boxes.items() if sender != site}

    def take_masked(self, masked: Mapping[str, NDArray[Any]]) -> None:
        """Take in masked vectors."""
        self.terms.check_group(masked, "mask")
        self.masked = dict(masked)

    def total(self, revealed: Mapping[str, Mapping[str, bytes]]) -> NDArray[Any]:
        """Return the sum of the vectors that arrived, as signed numbers.

        Parameters
        ----------
        revealed
            Helper → site → share, from at least t helpers.
        """
        terms = self.terms
        helpers = terms.check_group(revealed, "unmask")[: terms.threshold]
        points = [terms.point(helper) for helper in helpers]
        weights = shamir.weights_at_zero(points)
        result = _sum(self.masked.values(), terms.bits)
        for site in self.commitments:
            try:
                parts = [int.from_bytes(revealed[h][site], "little") for h in helpers]
                secret = sum(w * p for w, p in zip(weights, parts, strict=True)) % shamir.PRIME
                found = secret.to_bytes(32, "little")
            except (KeyError, OverflowError):
                raise SiteFailure(f"the shares about {site!r} do not fit together") from None
            if site in self.masked:
                if keys.commitment(found) != self.commitments[site]:
                    raise SiteFailure(f"the shares about {site!r} do not fit together")
                result -= keys.stream(found, result.size, terms.bits)
                continue
            if keys.public_key(found) != self.adverts[site][32:64]:
                raise SiteFailure(f"the shares about {site!r} do not fit together")
            key = keys.load_key(found)
            for other in self.masked:  # what the site that dropped out would have cancelled
                public = self.adverts[other][32:64]
                add_mask(result, terms, key, site, public, other, self.asked)
        signed: NDArray[Any] = result.view(np.int32 if terms.bits == 32 else np.int64)
        return signed


def _sum(vectors: Iterable[NDArray[Any]], bits: int) -> NDArray[Any]:
    parts = list(vectors)
    if len({part.shape for part in parts}) > 1 or any(p.dtype != keys.RINGS[bits] for p in parts):
        raise SiteFailure("masked vectors have different lengths or kinds")
    result: NDArray[Any] = parts[0].copy()
    for part in parts[1:]:
        result += part
    return result
