"""Secure aggregation: the coordinator learns the sum of the sites' vectors, and nothing else.

The protocol is that of Bonawitz et al. (CCS 2017) in the variant against active adversaries, over
integers modulo 2³² or 2⁶⁴. The coordinator relays five exchanges:

=========  =====================================================================================
advertise  every site sends two fresh X25519 public keys, signed by its pinned identity
share      every site splits its masking key and a seed of its own into n Shamir shares, and sends
           each sealed to its receiver, with digests of the two
mask       every site opens the shares that are for it, and sends x + stream(own seed) ± streams
           that it agreed on with each partner, + towards sites with a later name and − towards
           earlier ones, which cancel in the sum
confirm    every site that arrived signs who advertised which keys, who shared and who arrived
unmask     after t such signatures over one text: of a site that arrived, t others show shares of
           its own seed; of a site that shared and dropped out, shares of its masking key. Never
           both of one site.
=========  =====================================================================================

**What binds.** `Terms` hold the run, all sites, threshold, ring, step, attempt and a digest of
what was asked. They are part of every signature, seal and mask: sites that were asked for
different things, or told of different partners, do not accept each other's keys, and their masks
do not cancel. Masks are bound to the keys that were seen and to the list of sharers as well.

**What an active coordinator gets.** To see a vector it needs t shares of its seed *and* of its
sender's key. Honest sites show shares for one list, after t signatures over that very list, and an
honest site signs one list per step, ever (`tacit.federation.secure.site` keeps that on disk). With
c sites on the coordinator's side two lists cannot reach t as long as **2t > n + c**. An exchange
may be tried again with fresh keys as long as this site has not confirmed: the vector is the same,
and nobody can unmask the first try. Afterwards the same list is finished, or the sum is lost: were
a list one site shorter confirmed later, both sums would differ by that site's value.

**Drop-outs.** Up to n − t sites may fail, at whatever exchange; one more, and nothing is revealed.

**What is noticed, and whose fault it is.** A share that cannot be opened, or that does not fit its
digest, is reported by its receiver in the masking exchange: more than c reports name the sender,
fewer leave open which of the two is wrong and cost a share. A share that is shown later and
does not fit its digest is its shower's fault; shares that fit their digests and give no key or
seed are the sender's. A site that sends a wrong *vector* cannot be noticed: nobody sees it.

**Noise.** With `GaussianShare(…, shares=t − c)` any sum that is revealed has at least t − c parts
that the coordinator does not know: the central noise. If the aggregation is broken altogether, a
message alone still has noise of 1/√(t − c) of that scale: `alone` of the mechanism says what that
gives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError, RequestRefused, SiteFailure
from tacit.federation.secure import keys, shamir
from tacit.federation.secure.terms import Terms

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from numpy.typing import NDArray

__all__ = [
    "ADVERT",
    "BOX",
    "COMMITMENT",
    "EXCHANGES",
    "SIGNATURE",
    "Member",
    "add_mask",
    "check_advert",
    "check_partners",
    "confirmation",
    "mask_context",
    "share_digest",
]

EXCHANGES = ("advertise", "share", "mask", "confirm", "unmask")
SIGNATURE = 64
ADVERT = 64 + SIGNATURE  # two public keys and a signature
COMMITMENT = 32
SHORT = 16  # of a digest of a share: nobody gains by two shares that have the same one
BOX = 2 * SHORT + 2 * shamir.SHARE_BYTES + 16  # two digests, two sealed shares and their tag


def check_partners(
    name: str, identity: bytes | None, partners: Mapping[str, bytes], sites: Collection[str]
) -> None:
    """Raise `ParameterError` unless every site has a pinned identity of its own.

    Parameters
    ----------
    name, identity
        A site and its own signing key; the coordinator has none and passes no name.
    partners
        The public keys that were pinned.
    sites
        Everybody who takes part.
    """
    for site in sites:
        if len(partners.get(site, b"")) != 32:
            raise ParameterError(
                f"secure sums need pinned identities: the public key of {site!r} is not known here"
            )
    if len({partners[site] for site in sites}) < len(sites):
        raise ParameterError("secure sums need pinned identities: two sites have the same one")
    if name and (identity is None or keys.identity_public(identity) != partners.get(name)):
        raise ParameterError(
            "secure sums need an identity: the key of this site is missing, or not the pinned one"
        )


def check_advert(terms: Terms, site: str, advert: bytes, partners: Mapping[str, bytes]) -> None:
    """Raise `SiteFailure` unless two usable keys are signed by a site's pinned identity."""
    if len(advert) != ADVERT or advert[:32] == advert[32:64]:
        raise SiteFailure(f"the keys of {site!r} are not usable")
    text = terms.about("keys", site) + advert[:64]
    if not keys.is_signed(partners[site], advert[64:], text):
        raise SiteFailure(f"the keys of {site!r} are not signed by {site!r} for this exchange")


def confirmation(
    terms: Terms, adverts: Mapping[str, bytes], sharers: Collection[str], arrived: Collection[str]
) -> bytes:
    """Return the text that sites sign before any share is shown."""
    return terms.about("confirm", heard(adverts), *_lists(terms, sharers, arrived))


def heard(adverts: Mapping[str, bytes]) -> bytes:
    """Return a digest of who advertised which keys."""
    digest = hashlib.sha256()
    for site in sorted(adverts):
        digest.update(len(site.encode()).to_bytes(4, "little") + site.encode() + adverts[site])
    return digest.digest()


def _lists(terms: Terms, *groups: Collection[str]) -> list[bytes]:
    return [terms.marks(group).tobytes() for group in groups]


def share_digest(share: bytes) -> bytes:
    """Return what a share of 521 random bits is known by."""
    return hashlib.sha256(b"tacit 1 share" + share).digest()[:SHORT]


class Member:
    """A site's side of one aggregation: every exchange is taken once, in order.

    Parameters
    ----------
    name
        The site.
    terms
        What all parties know.
    identity, partners
        The Ed25519 key that signs, and the pinned public keys of all sites.
    """

    def __init__(
        self, name: str, terms: Terms, identity: bytes, partners: Mapping[str, bytes]
    ) -> None:
        if name not in terms.sites:
            raise SiteFailure(f"{name!r} takes no part in this aggregation")
        check_partners(name, identity, partners, terms.sites)
        self.name, self.terms = name, terms
        self._identity, self._partners = identity, partners
        self.done = 0  # how many exchanges were answered
        self.sealing, self.masking, self.seed = (
            bytearray(keys.fresh_key()),
            bytearray(keys.fresh_key()),
            bytearray(keys.fresh_seed()),
        )
        self.adverts: dict[str, bytes] = {}
        self.sharers: tuple[str, ...] = ()
        self.arrived: tuple[str, ...] = ()
        self.held: dict[str, bytearray] = {}  # sender → its key's and its seed's share

    def _turn(self, number: int) -> None:
        if self.done != number:
            raise RequestRefused(f"asked to {EXCHANGES[number]} out of turn: each is taken once")

    @property
    def confirmed(self) -> bool:
        """Whether a list was signed: no other one of this step ever is."""
        return self.done > EXCHANGES.index("confirm")

    @property
    def public(self) -> bytes:
        """The two public keys."""
        return keys.public_key(bytes(self.sealing)) + keys.public_key(bytes(self.masking))

    def advertise(self) -> bytes:
        """Return two public keys and their signature."""
        self._turn(0)
        public = self.public
        self.done = 1
        return public + keys.sign(self._identity, self.terms.about("keys", self.name) + public)

    def share(self, adverts: Mapping[str, bytes]) -> tuple[bytes, dict[str, bytes]]:
        """Return the commitment to the own seed, and sealed shares for everybody else."""
        self._turn(1)
        group = self.terms.enough(adverts, "share")
        if adverts.get(self.name, b"")[:64] != self.public:
            raise RequestRefused("the keys of this site are missing or not its own")
        if len({a[k : k + 32] for a in adverts.values() for k in (0, 32)}) < 2 * len(group):
            raise SiteFailure("two sites advertise one key")
        for other in group:
            check_advert(self.terms, other, adverts[other], self._partners)
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
        boxes, sealing = {}, keys.load_key(bytes(self.sealing))
        for other, *pair in zip(group, shares, seeds, strict=True):
            parts = [share.to_bytes(shamir.SHARE_BYTES, "little") for share in pair]
            if other == self.name:
                own = bytearray(b"".join(parts))
                continue
            digests = b"".join(map(share_digest, parts))
            context = self.terms.about("share", self.name, other, digests)
            key = keys.agree(sealing, adverts[other][:32], context)
            boxes[other] = digests + keys.seal(key, b"".join(parts), context)
        self.adverts, self.held, self.done = dict(adverts), {self.name: own}, 2
        return keys.commitment(bytes(self.seed)), boxes

    def check_mask(self, senders: Collection[str]) -> tuple[str, ...]:
        """Return who shared, this site included, or refuse; nothing is drawn before that."""
        self._turn(2)
        sharers = self.terms.enough({*senders, self.name}, "mask")
        if not set(sharers) <= set(self.adverts) or self.name in senders:
            raise RequestRefused("the list of who shared does not fit who advertised")
        return sharers

    def mask(
        self, boxes: Mapping[str, bytes], values: NDArray[Any]
    ) -> tuple[NDArray[Any], tuple[str, ...]]:
        """Return a vector (whole numbers, modulo 2^bits) under all masks, and whose box is bad.

        Parameters
        ----------
        boxes
            Sender → what it sealed for this site; the senders and this site are the sharers.
        values
            What to add up.
        """
        sharers = self.check_mask(boxes)
        sealing = keys.load_key(bytes(self.sealing))
        held, accused = dict(self.held), []
        for other, box in boxes.items():
            found = self._opened(sealing, other, box)
            if found is None:
                accused.append(other)
            else:
                held[other] = found
        bits = self.terms.bits
        masked = np.asarray(values).astype(np.int64).astype(keys.RINGS[bits])  # wraps around
        masked += keys.stream(bytes(self.seed), masked.size, bits)
        masking = keys.load_key(bytes(self.masking))
        bound = mask_context(self.terms, self.adverts, sharers)
        for other in sharers:
            if other != self.name:
                public = self.adverts[other][32:64]
                add_mask(masked, self.terms, masking, self.name, public, other, bound)
        self.sharers, self.held, self.done = sharers, held, 3
        return masked, tuple(sorted(accused))

    def _opened(self, sealing: X25519PrivateKey, other: str, box: bytes) -> bytearray | None:
        """Return the two shares of a box, or None where it is not what its sender should send."""
        digests, width = box[: 2 * SHORT], shamir.SHARE_BYTES
        context = self.terms.about("share", other, self.name, digests)
        try:
            key = keys.agree(sealing, self.adverts[other][:32], context)
            found = keys.open_sealed(key, box[2 * SHORT :], context)
        except SiteFailure:
            return None
        if share_digest(found[:width]) + share_digest(found[width:]) != digests:
            return None
        return bytearray(found)

    def confirm(self, arrived: Collection[str]) -> bytes:
        """Sign who arrived; what else was seen is signed with it."""
        self._turn(3)
        arrived = self.terms.enough(arrived, "confirm")
        self._check_arrived(arrived)
        self.arrived, self.done = arrived, 4
        return keys.sign(self._identity, self._text())

    def _check_arrived(self, arrived: Collection[str]) -> None:
        if not set(arrived) <= set(self.sharers) or self.name not in arrived:
            raise RequestRefused("the list of vectors that arrived does not fit who shared")

    def _text(self) -> bytes:
        return confirmation(self.terms, self.adverts, self.sharers, self.arrived)

    def unmask(self, signatures: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return a share about every sharer: of the seed of who arrived, of the key of the rest.

        Parameters
        ----------
        signatures
            Site → its confirmation of the very list that this site confirmed.
        """
        self._turn(4)
        self._check_confirmed(signatures)
        width, self.done = shamir.SHARE_BYTES, 5
        return {
            other: bytes(held[width:] if other in self.arrived else held[:width])
            for other, held in self.held.items()
            if other in self.sharers
        }

    def _check_confirmed(self, signatures: Mapping[str, bytes]) -> None:
        """Refuse to go on unless t of those who arrived confirmed what this site confirmed."""
        signers = self.terms.enough(signatures, "unmask")
        if not set(signers) <= set(self.arrived):
            raise RequestRefused("somebody confirmed who did not arrive")
        text = self._text()
        for site in signers:
            if not keys.is_signed(self._partners[site], signatures[site], text):
                raise RequestRefused(f"{site!r} did not confirm this list")

    def wipe(self) -> None:
        """Overwrite all secrets: nothing of this exchange can be answered any more."""
        self.done = len(EXCHANGES)
        for secret in (self.sealing, self.masking, self.seed, *self.held.values()):
            secret[:] = bytes(len(secret))
        self.held = {}

    # -- restarts --------------------------------------------------------------------------

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all of it as named arrays, for this site's own disk."""
        terms = self.terms
        return {
            "place": np.array([terms.step, terms.attempt, self.done]),
            "asked": np.frombuffer(terms.asked, np.uint8),
            "keys": np.frombuffer(bytes(self.sealing + self.masking + self.seed), np.uint8),
            "lists": np.array([terms.marks(g) for g in (self.sharers, self.arrived)], bool),
            **{f"advert {s}": np.frombuffer(a, np.uint8) for s, a in self.adverts.items()},
            **{f"held {s}": np.frombuffer(bytes(a), np.uint8) for s, a in self.held.items()},
        }

    @classmethod
    def restored(
        cls,
        name: str,
        terms: Terms,
        identity: bytes,
        partners: Mapping[str, bytes],
        state: Mapping[str, NDArray[Any]],
    ) -> Member:
        """Return a member as `state` described it; ``terms`` are those of the run."""
        step, attempt, done = (int(n) for n in state["place"])
        member = cls(name, terms.at(step, attempt, state["asked"].tobytes()), identity, partners)
        secrets = bytearray(state["keys"].tobytes())
        member.sealing, member.masking, member.seed = secrets[:32], secrets[32:64], secrets[64:]
        member.sharers, member.arrived = (terms.marked(marks) for marks in state["lists"])
        for key, array in state.items():
            kind, _, site = key.partition(" ")
            if kind == "advert":
                member.adverts[site] = array.tobytes()
            elif kind == "held":
                member.held[site] = bytearray(array.tobytes())
        member.done = done
        return member


def mask_context(terms: Terms, adverts: Mapping[str, bytes], sharers: Collection[str]) -> bytes:
    """Return what masks are bound to besides the terms: the keys seen, and who shared."""
    return terms.about("sharers", heard(adverts), *_lists(terms, sharers))


def add_mask(
    masked: NDArray[Any],
    terms: Terms,
    private: X25519PrivateKey,
    name: str,
    public: bytes,
    other: str,
    bound: bytes,
) -> None:
    """Add the stream that ``name`` and ``other`` agreed on, with the sign that ``name`` uses."""
    seed = keys.agree(private, public, terms.about("mask", *sorted((name, other)), bound))
    drawn = keys.stream(seed, masked.size, terms.bits)
    if name < other:
        masked += drawn
    else:
        masked -= drawn
