"""Secure aggregation: known answers, drop-outs, what the coordinator sees, what is refused."""

import dataclasses
import hashlib
import math

import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from scipy import stats

from tacit.errors import ParameterError, SiteFailure
from tacit.federation.secure import keys as masks
from tacit.federation.secure import shamir
from tacit.federation.secure.exchange import (
    BOX,
    Member,
    check_partners,
    confirmation,
    mask_context,
)
from tacit.federation.secure.gatherer import Gatherer
from tacit.federation.secure.terms import Terms
from tacit.mechanisms.base import privatize
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.ledger.ledger import Ledger
from tests.federation.identities import identity, pinned

NAMES = tuple(f"site {k}" for k in range(6))


def member_of(name, terms, kind=Member):
    return kind(name, terms, identity(name), pinned(terms.sites))


def aggregate(values, *, threshold=4, bits=64, drop=(), member=Member, view=None, colluding=0):
    """Run the protocol; ``drop`` maps a site to the exchange (0–4) at which it is gone."""
    drop = dict(drop)
    terms = Terms(b"session", tuple(sorted(values)), threshold, colluding, bits)
    members = {name: member_of(name, terms, member) for name in values}
    gatherer = Gatherer(terms, pinned(terms.sites))

    def left(exchange):
        return [name for name in values if drop.get(name, 9) > exchange]

    gatherer.take_adverts({name: members[name].advertise() for name in left(0)})
    for name, advert in gatherer.adverts.items():
        gatherer.check_advert(name, advert)
    gatherer.take_shares({name: members[name].share(gatherer.adverts) for name in left(1)})
    found = {n: members[n].mask(gatherer.boxes_for(n), np.asarray(values[n])) for n in left(2)}
    gatherer.take_masked({n: f[0] for n, f in found.items()}, {n: f[1] for n, f in found.items()})
    signatures = {name: members[name].confirm(gatherer.masked) for name in left(3)}
    for name, signature in signatures.items():
        gatherer.check_signature(name, signature)
    gatherer.take_signatures(signatures)
    shares = {name: members[name].unmask(gatherer.signatures) for name in left(4)}
    for name, shown in shares.items():
        gatherer.check_shares(name, shown)
    total = gatherer.total(shares)
    if view is not None:
        view.update(gatherer=gatherer, shares=shares)
    return total


# --- known answers ------------------------------------------------------------------------------


def test_key_agreement_gives_the_answer_of_rfc_7748():  # section 6.1
    alice = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
    bob = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
    secret = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")
    assert masks.public_key(alice).hex() == (
        "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
    )
    expected = HKDF(hashes.SHA256(), 32, salt=None, info=b"tacit 1 mask").derive(secret)
    assert masks.agree(alice, masks.public_key(bob), b"mask") == expected
    assert masks.agree(bob, masks.public_key(alice), b"mask") == expected
    assert masks.agree(bob, masks.public_key(alice), b"seal") != expected


def test_the_stream_of_a_zero_seed_is_that_of_rfc_8439():  # appendix A.1, vectors 1 and 2
    expected = bytes.fromhex(
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f"
    )
    assert masks.stream(bytes(32), 32, 32).tobytes() == expected
    assert masks.stream(bytes(32), 16, 64).tobytes() == expected


def test_sharing_gives_the_textbook_shares_and_recovers_the_secret():
    shares = shamir.evaluate([1234, 166, 94], range(1, 7))
    assert shares == [1494, 1942, 2578, 3402, 4414, 5614]
    assert shamir.combine({2: 1942, 4: 3402, 5: 4414}) == 1234


def test_any_t_shares_recover_a_secret_and_fewer_fit_every_secret():
    secret = int.from_bytes(masks.fresh_seed(), "little")
    points = [1, 2, 3, 4, 5]
    shares = dict(
        zip(points, shamir.evaluate([secret, *masks.fresh_coefficients(2)], points), strict=True)
    )
    for chosen in ((1, 2, 3), (5, 3, 1), (2, 4, 5)):
        assert shamir.combine({x: shares[x] for x in chosen}) == secret
    # two shares: for any other secret there is a third share that goes with them
    weights = shamir.weights_at_zero([1, 2, 3])
    other = 42
    rest = (other - weights[0] * shares[1] - weights[1] * shares[2]) % shamir.PRIME
    third = rest * pow(weights[2], -1, shamir.PRIME) % shamir.PRIME
    assert shamir.combine({1: shares[1], 2: shares[2], 3: third}) == other


def test_coefficients_are_large_and_never_the_same():
    found = [*masks.fresh_coefficients(20), *masks.fresh_coefficients(20)]
    assert len(set(found)) == 40
    assert all(0 < number < shamir.PRIME for number in found)
    assert sum(number >> 520 for number in found) in range(5, 36)  # the highest bit is a coin


@pytest.mark.parametrize("threshold", [4, 5, 6])
def test_shares_that_sites_hold_need_the_threshold(threshold):
    """t − 1 sites together know neither the seed nor the key of another one; t do."""
    terms = Terms(b"session", NAMES, threshold, 0)
    found = {name: member_of(name, terms) for name in NAMES}
    gatherer = Gatherer(terms, pinned(NAMES))
    gatherer.take_adverts({name: member.advertise() for name, member in found.items()})
    gatherer.take_shares({n: member.share(gatherer.adverts) for n, member in found.items()})
    for name, member in found.items():
        member.mask(gatherer.boxes_for(name), np.zeros(1))
    owner, width = found[NAMES[0]], shamir.SHARE_BYTES
    for part, secret in ((slice(width), owner.masking), (slice(width, None), owner.seed)):
        number = int.from_bytes(secret, "little")
        shares = {
            terms.point(n): int.from_bytes(m.held[NAMES[0]][part], "little")
            for n, m in found.items()
        }
        assert number not in shares.values()
        assert len(set(shares.values())) == len(NAMES)
        for first in range(len(NAMES)):
            points = [(first + k) % len(NAMES) + 1 for k in range(threshold)]
            assert shamir.combine({x: shares[x] for x in points}) == number
            for fewer in range(1, threshold):
                assert shamir.combine({x: shares[x] for x in points[:fewer]}) != number


def test_points_of_shares_must_differ():
    with pytest.raises(ParameterError, match="distinct"):
        shamir.evaluate([1, 2], [1, 1])


def test_what_is_signed_and_sealed_is_bound_to_all_terms():
    """The bytes are put together by hand: each part with its length, eight bytes of it, before."""

    def put_together(*parts):
        return hashlib.sha256(b"".join(len(p).to_bytes(8, "little") + p for p in parts)).digest()

    terms = Terms(b"run", ("A", "B", "C"), 3, 1, 32, 7, 2, b"asked")
    numbers = [n.to_bytes(8, "little") for n in (3, 1, 32, 7, 2)]
    digest = put_together(b"tacit 1 terms", b"run", b"asked", *numbers, b"A", b"B", b"C")
    assert terms.digest == digest
    adverts = {"A": b"x" * 128, "C": b"y" * 128}
    seen = hashlib.sha256(b"\1\0\0\0A" + adverts["A"] + b"\1\0\0\0C" + adverts["C"]).digest()
    found = confirmation(terms, adverts, ("A", "C"), ("C",))
    assert found == put_together(digest, b"confirm", seen, b"\1\0\1", b"\0\0\1")
    others = [
        dataclasses.replace(terms, **change)
        for change in ({"run": b"r"}, {"sites": ("A", "B", "C", "D")}, {"colluding": 0},
                       {"threshold": 2, "colluding": 0}, {"bits": 64}, {"step": 8},
                       {"attempt": 3}, {"asked": b""})
    ]  # fmt: skip
    assert len({other.digest for other in others} | {digest}) == len(others) + 1


# --- sums and drop-outs -------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [32, 64])
def test_the_sum_is_exact(bits):
    rng = np.random.default_rng(0)
    values = {name: rng.integers(-(10**6), 10**6, 50) for name in NAMES}
    assert (aggregate(values, bits=bits) == sum(values.values())).all()


def test_values_wrap_around_and_so_does_the_sum():
    values = {name: np.array([2**62, -(2**62)]) for name in NAMES}
    expected = sum(v.astype(np.uint64) for v in values.values()).astype(np.int64)
    assert (aggregate(values) == expected).all()


@pytest.mark.parametrize("exchange", [0, 1, 2, 3, 4])
def test_drop_outs_at_every_exchange_are_recovered_up_to_the_threshold(exchange):
    values = {name: np.array([3**k, -k]) for k, name in enumerate(NAMES)}
    gone = dict.fromkeys(NAMES[1:3], exchange)
    counted = [n for n in NAMES if n not in gone or exchange >= 3]
    assert (aggregate(values, drop=gone) == sum(values[n] for n in counted)).all()
    gone[NAMES[5]] = exchange
    with pytest.raises(SiteFailure, match="nothing is revealed from fewer than 4 of 6"):
        aggregate(values, drop=gone)


def test_drop_outs_at_different_exchanges_add_up():
    values = {name: np.array([k]) for k, name in enumerate(NAMES)}
    assert aggregate(values, drop={NAMES[0]: 1, NAMES[5]: 2}) == 1 + 2 + 3 + 4
    for exchange, what in ((3, "confirm"), (4, "unmask")):
        with pytest.raises(SiteFailure, match=f"only 3 sites are left when asked to {what}"):
            aggregate(values, drop={NAMES[0]: 1, NAMES[5]: 2, NAMES[1]: exchange})


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(("threshold", "colluding"), [(1, 0), (3, 0), (7, 0), (4, 2), (6, 6)])
def test_a_threshold_that_two_lists_could_reach_is_refused(threshold, colluding):
    with pytest.raises(ParameterError, match="threshold"):
        Terms(b"", NAMES, threshold, colluding)


def members(count=3, threshold=2, step=0):
    terms = Terms(b"session", NAMES[:count], threshold, 0).at(step, 0, b"")
    found = {name: member_of(name, terms) for name in terms.sites}
    return terms, found, {n: member.advertise() for n, member in found.items()}


def masked(found, adverts):
    """Go on until all members have masked something."""
    shared = {name: member.share(adverts) for name, member in found.items()}
    for name, member in found.items():
        member.mask({s: shared[s][1][name] for s in found if s != name}, np.zeros(1))
    return shared


def test_every_exchange_is_taken_once_and_in_order():
    _, found, adverts = members()
    first = found[NAMES[0]]
    with pytest.raises(SiteFailure, match="advertise out of turn"):
        first.advertise()
    with pytest.raises(SiteFailure, match="mask out of turn"):
        first.mask({}, np.zeros(1))
    shared = masked(found, adverts)
    boxes = {s: shared[s][1][NAMES[0]] for s in NAMES[1:3]}
    for again in (lambda: first.share(adverts), lambda: first.mask(boxes, np.ones(1))):
        with pytest.raises(SiteFailure, match="once"):
            again()
    signatures = {name: member.confirm(NAMES[:3]) for name, member in found.items()}
    with pytest.raises(SiteFailure, match="confirm out of turn"):
        first.confirm(NAMES[:2])
    first.unmask(signatures)
    with pytest.raises(SiteFailure, match="unmask out of turn"):
        first.unmask(signatures)


def test_no_site_shows_seed_and_key_of_one_partner():
    _, found, adverts = members()
    masked(found, adverts)
    arrived = NAMES[:2]
    signatures = {name: found[name].confirm(arrived) for name in arrived}
    held, width = {n: bytes(h) for n, h in found[NAMES[0]].held.items()}, shamir.SHARE_BYTES
    shown = found[NAMES[0]].unmask(signatures)
    assert shown == {n: h[width:] if n in arrived else h[:width] for n, h in held.items()}


def test_secrets_are_overwritten():
    _, found, adverts = members()
    masked(found, adverts)
    member = found[NAMES[0]]
    secrets = [member.sealing, member.masking, member.seed, *member.held.values()]
    assert all(any(secret) for secret in secrets)
    member.wipe()
    assert not any(any(secret) for secret in secrets)
    with pytest.raises(SiteFailure, match="out of turn"):
        member.confirm(NAMES[:3])


def signed_by(name, key, terms, public=None):
    """Return an advert for a name that somebody signed."""
    public = public or b"".join(masks.public_key(masks.fresh_key()) for _ in range(2))
    return public + masks.sign(key, terms.about("keys", name) + public)


def test_keys_that_their_owner_did_not_sign_for_this_very_step_are_refused():
    terms, found, adverts = members()
    _, _, later = members(step=1)
    wrong = {
        "invented": signed_by(NAMES[2], masks.fresh_identity(), terms),
        "of another step": later[NAMES[2]],
        "of another site": adverts[NAMES[1]],
        "of another try": signed_by(NAMES[2], identity(NAMES[2]), terms.at(0, 1, b"")),
        "for another request": signed_by(NAMES[2], identity(NAMES[2]), terms.at(0, 0, b"x")),
    }
    gatherer = Gatherer(terms, pinned(NAMES[:3]))
    for what, advert in wrong.items():
        reason = "one key" if what == "of another site" else "'site 2' are not signed by 'site 2'"
        with pytest.raises(SiteFailure, match=reason):
            found[NAMES[0]].share(adverts | {NAMES[2]: advert})
        with pytest.raises(SiteFailure, match="'site 2' are not signed by 'site 2'"):
            gatherer.check_advert(NAMES[2], advert)
    found[NAMES[0]].share(adverts)  # a refusal changes nothing


def test_keys_that_give_what_everybody_knows_or_are_used_twice_are_refused():
    terms, found, adverts = members()
    key, one = identity(NAMES[2]), masks.public_key(masks.fresh_key())
    for small in (bytes(32), (1).to_bytes(32, "little")):  # RFC 7748, section 6.1
        advert = signed_by(NAMES[2], key, terms, small + one)
        with pytest.raises(SiteFailure, match="not usable"):
            found[NAMES[0]].share(adverts | {NAMES[2]: advert})
        with pytest.raises(SiteFailure, match="'site 2' are not usable"):
            Gatherer(terms, pinned(NAMES[:3])).check_advert(NAMES[2], advert)
    for reused in (one + one, one + adverts[NAMES[1]][32:64], adverts[NAMES[1]][:32] + one):
        with pytest.raises(SiteFailure, match="one key"):
            found[NAMES[0]].share(adverts | {NAMES[2]: signed_by(NAMES[2], key, terms, reused)})
    gatherer = Gatherer(terms, pinned(NAMES[:3]))
    gatherer.check_advert(NAMES[1], adverts[NAMES[1]])
    copied = signed_by(NAMES[2], key, terms, one + adverts[NAMES[1]][:32])
    with pytest.raises(SiteFailure, match="'site 2' are those of another site"):
        gatherer.check_advert(NAMES[2], copied)


def test_a_site_insists_on_its_own_keys():
    terms, found, adverts = members()
    own = signed_by(NAMES[0], identity(NAMES[0]), terms)
    for wrong in ({NAMES[0]: own}, {}):
        others = {name: advert for name, advert in adverts.items() if name != NAMES[0]}
        with pytest.raises(SiteFailure, match="missing or not its own"):
            found[NAMES[0]].share(others | wrong)


def test_a_secure_sum_without_pinned_identities_is_refused():
    terms, known = Terms(b"", NAMES[:3], 3), pinned(NAMES[:3])
    Member(NAMES[0], terms, identity(NAMES[0]), known)
    for key, partners, reason in (
        (masks.fresh_identity(), known, "not the pinned one"),
        (None, known, "key of this site is missing"),
        (identity(NAMES[0]), {}, "'site 0' is not known here"),
        (identity(NAMES[0]), {n: known[n] for n in NAMES[:2]}, "'site 2' is not known here"),
        (identity(NAMES[0]), known | {NAMES[2]: known[NAMES[1]]}, "have the same one"),
        (identity(NAMES[0]), known | {NAMES[2]: b"short"}, "'site 2' is not known here"),
    ):
        with pytest.raises(ParameterError, match=reason):
            Member(NAMES[0], terms, key, partners)
    with pytest.raises(ParameterError, match="'site 2' is not known here"):
        Gatherer(terms, pinned(NAMES[:2]))
    check_partners("", None, known, NAMES[:3])  # a coordinator signs nothing


def test_a_changed_box_is_noticed_and_its_sender_is_named():
    _, found, adverts = members()
    shared = {name: member.share(adverts) for name, member in found.items()}
    for at in (0, 20, 40, BOX - 1):
        boxes = {s: shared[s][1][NAMES[0]] for s in NAMES[1:3]}
        changed = bytearray(boxes[NAMES[1]])
        changed[at] ^= 1
        member = Member.restored(
            NAMES[0], found[NAMES[0]].terms, identity(NAMES[0]), pinned(NAMES[:3]),
            found[NAMES[0]].state(),
        )  # fmt: skip
        _, accused = member.mask(boxes | {NAMES[1]: bytes(changed)}, np.zeros(1))
        assert accused == (NAMES[1],) and set(member.held) == {NAMES[0], NAMES[2]}


class BadDealer(Member):
    """Gives some receivers boxes that they cannot open."""

    receivers: tuple = ()

    def share(self, adverts):
        commitment, boxes = super().share(adverts)
        if self.name == NAMES[1]:
            boxes |= dict.fromkeys(self.receivers, bytes(BOX))
        return commitment, boxes


def test_one_accuser_costs_a_share_and_several_name_the_dealer():
    values = {name: np.array([k]) for k, name in enumerate(NAMES)}
    view = {}
    one = type("One", (BadDealer,), {"receivers": NAMES[2:3]})
    assert aggregate(values, threshold=5, colluding=1, member=one, view=view) == 15
    assert view["gatherer"].accused == {NAMES[2]: (NAMES[1],)} and not view["gatherer"].faulty
    two = type("Two", (BadDealer,), {"receivers": NAMES[2:4]})
    with pytest.raises(SiteFailure, match="fewer than 5 sites hold a share of 'site 1'"):
        aggregate(values, threshold=5, colluding=1, member=two)
    for left, accusers, named in ((6, 2, True), (6, 1, False), (4, 1, True), (5, 1, False)):
        gatherer = Gatherer(Terms(b"", NAMES, 4), pinned(NAMES))
        accused = {name: (NAMES[1],) for name in NAMES[2 : 2 + accusers]}
        gatherer.take_masked(dict.fromkeys(NAMES[:left], np.zeros(1)), accused)
        # one may lie; with as many left as are needed one share less is too few
        assert gatherer.faulty == ((NAMES[1],) if named else ())


class LyingHelper(Member):
    def unmask(self, signatures):
        shares = super().unmask(signatures)
        if self.name == NAMES[0]:
            shares[NAMES[1]] = bytes(shamir.SHARE_BYTES)
        return shares


@pytest.mark.parametrize("drop", [{}, {NAMES[1]: 2}])
def test_a_wrong_share_is_put_down_to_who_shows_it(drop):
    values = {name: np.array([1]) for name in NAMES}
    with pytest.raises(SiteFailure, match="'site 0' shows another share than it was given"):
        aggregate(values, member=LyingHelper, drop=drop)


class NoDealer(Member):
    """Deals shares of another seed and key than its own."""

    def share(self, adverts):
        kept = self.masking, self.seed
        if self.name == NAMES[1]:
            self.masking, self.seed = bytearray(masks.fresh_key()), bytearray(masks.fresh_seed())
            self.__class__ = type("Other", (NoDealer,), {"public": kept_public(kept[0], self)})
        found = super().share(adverts)
        self.masking, self.seed = kept
        return masks.commitment(bytes(self.seed)), found[1]


def kept_public(masking, member):
    return masks.public_key(bytes(member.sealing)) + masks.public_key(bytes(masking))


@pytest.mark.parametrize("drop", [{}, {NAMES[1]: 2}])
def test_shares_of_nothing_are_put_down_to_who_dealt_them(drop):
    values = {name: np.array([1]) for name in NAMES}
    with pytest.raises(SiteFailure, match="that 'site 1' dealt do not fit together"):
        aggregate(values, member=NoDealer, drop=drop)


# --- what the coordinator sees ------------------------------------------------------------------


def seen(values, member):
    """Return what is left of each site's vector when all revealed seeds are taken away."""
    view = {}
    aggregate(values, bits=32, member=member, view=view)
    gatherer, shares = view["gatherer"], view["shares"]
    found = {}
    for name, masked in gatherer.masked.items():
        helpers = list(shares)[: gatherer.terms.threshold]
        points = {
            gatherer.terms.point(h): int.from_bytes(shares[h][name], "little") for h in helpers
        }
        seed = shamir.combine(points).to_bytes(32, "little")
        found[name] = masked - masks.stream(seed, masked.size, 32)
    return found


def uniformity(numbers):
    """Return the p-value of uniform bytes, over all four of each number."""
    counts = np.bincount(np.ascontiguousarray(numbers).view(np.uint8), minlength=256)
    return stats.chisquare(counts).pvalue


def suspicion(member):
    """Return the smallest p-value over every proper part of the view, under two data sets.

    Both have the sum 0. Were the view to depend on more than that, some sum over a part of the
    sites would not be uniform, or the two data sets would look different.
    """
    size, found = 20_000, []
    flat = {name: np.zeros(size, np.int64) for name in NAMES[:4]}
    spiky = {name: np.full(size, (-1) ** k * 1000) for k, name in enumerate(NAMES[:4])}
    views = []
    for values in (flat, spiky):
        view = seen({n: v for n, v in values.items()}, member)
        assert (sum(view.values()).astype(np.int32) == 0).all()
        views.append(view)
        for mask in range(1, 2 ** len(view) - 1):  # all proper parts of the sites
            part = [v for k, v in enumerate(view.values()) if mask >> k & 1]
            found.append(uniformity(np.sum(part, axis=0, dtype=np.uint32)))
    for name in flat:
        found.append(stats.ks_2samp(views[0][name], views[1][name]).pvalue)
    return min(found) * len(found)


def test_the_view_of_the_coordinator_depends_on_the_sum_only():
    assert suspicion(Member) > 1e-6


def drawn(member, other, sharers):
    """Return the stream that a member agreed on with another one."""
    bound = mask_context(member.terms, member.adverts, sharers)
    about = member.terms.about("mask", *sorted((member.name, other)), bound)
    seed = masks.agree(bytes(member.masking), member.adverts[other][32:64], about)
    return seed


class Unmasked(Member):
    """Forgets the masks towards its partners."""

    def mask(self, boxes, values):
        masked, accused = super().mask(boxes, values)
        for other in boxes:
            stream = masks.stream(drawn(self, other, self.sharers), masked.size, 32)
            masked = masked - stream if self.name < other else masked + stream
        return masked, accused


class SmallMasks(Member):
    """Masks with numbers below 2^24 instead of the whole ring."""

    def mask(self, boxes, values):
        _, accused = super().mask(boxes, values)
        own = masks.stream(bytes(self.seed), values.size, 32)
        masked = np.asarray(values).astype(np.uint32) + own
        for other in boxes:
            seed = drawn(self, other, self.sharers)
            stream = masks.stream(seed, masked.size, 32) >> np.uint32(8)
            masked = masked + stream if self.name < other else masked - stream
        return masked, accused


@pytest.mark.parametrize("broken", [Unmasked, SmallMasks])
def test_broken_masking_is_caught(broken):
    assert suspicion(broken) < 1e-6


# --- distributed noise --------------------------------------------------------------------------


def test_shares_of_noise_of_t_sites_add_up_to_the_central_variance():
    n, t, size = 6, 4, 4000
    mechanism = GaussianShare.for_privacy(1.0, 1e-6, 1.0, (size,), shares=t)
    values = {}
    for k, name in enumerate(NAMES):
        ledger = Ledger.memory(epsilon=1.0, delta=1e-6)
        noisy = privatize(
            mechanism, np.zeros(size), ledger=ledger, rng=Noise("grid", seed=k), delta=1e-6
        )
        values[name] = np.rint(np.ldexp(noisy, -mechanism.grid.exponent)).astype(np.int64)
    for gone in (0, n - t):
        drop = dict.fromkeys(NAMES[:gone], 2)
        total = np.ldexp(aggregate(values, drop=drop).astype(float), mechanism.grid.exponent)
        ratio = total.var() / mechanism.scale**2
        expected = (n - gone) / t
        assert abs(ratio / expected - 1.0) < 6 * math.sqrt(2 / size)


def test_a_share_alone_gives_what_its_own_noise_gives():
    mechanism = GaussianShare.for_privacy(1.0, 1e-6, 1.0, (), shares=4)
    alone = epsilon_of(mechanism.alone, 1e-6)
    twice = GaussianShare.for_privacy(alone, 1e-6, 1.0, ())
    assert twice.scale == pytest.approx(mechanism.scale / 2, rel=1e-3)
    assert alone > 2.0
