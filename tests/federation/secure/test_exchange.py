"""Secure aggregation: known answers, drop-outs, what the coordinator sees, what is refused."""

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
from tacit.federation.secure.exchange import Gatherer, Member, Terms
from tacit.mechanisms.base import privatize
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.ledger.ledger import Ledger

NAMES = tuple(f"site {k}" for k in range(6))


def aggregate(values, *, threshold=4, bits=64, drop=(), member=Member, view=None):
    """Run the protocol; ``drop`` maps a site to the exchange (0–3) at which it is gone."""
    drop = dict(drop)
    terms = Terms(b"session", tuple(sorted(values)), threshold, bits)
    members = {name: member(name, terms) for name in values}
    gatherer = Gatherer(terms)

    def left(exchange):
        return [name for name in values if drop.get(name, 9) > exchange]

    gatherer.take_adverts({name: members[name].advertise() for name in left(0)})
    gatherer.take_shares({name: members[name].share(gatherer.adverts) for name in left(1)})
    gatherer.take_masked(
        {n: members[n].mask(gatherer.boxes_for(n), np.asarray(values[n])) for n in left(2)}
    )
    shares = {name: members[name].unmask(list(gatherer.masked)) for name in left(3)}
    total = gatherer.total(shares)
    if view is not None:
        view.update(gatherer=gatherer, shares=shares)
    return total


# --- known answers ------------------------------------------------------------------------------


def test_who_was_not_asked_takes_no_part():
    with pytest.raises(SiteFailure, match="takes no part"):
        Member("a stranger", Terms(b"session", NAMES[:3], 3))


def test_a_commitment_is_the_digest_of_its_seed():
    seeds = bytes(32), bytes(range(32))
    for seed in seeds:
        expected = hashlib.sha256(b"tacit 1 self mask" + seed).digest()
        assert masks.commitment(seed) == expected


def test_whatever_is_agreed_on_is_part_of_what_keys_and_signatures_are_for():
    """A signature of one session, list, threshold, ring, use or pair is good for no other."""
    names = NAMES[:4]
    terms = (
        Terms(b"session", names, 3),
        Terms(b"another", names, 3),
        Terms(b"session", NAMES[:5], 3),
        Terms(b"session", names, 4),
        Terms(b"session", names, 3, 32),
    )
    uses = (("keys", "A"), ("keys", "B"), ("share", "A"), ("share", "A", "B"), ("share", "B", "A"),
            ("share", "AB"), ("shareA", "B"))  # fmt: skip
    assert len({one.about(*use) for one in terms for use in uses}) == len(terms) * len(uses)


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
    terms = Terms(b"session", NAMES, threshold, 64)
    found = {name: Member(name, terms) for name in NAMES}
    gatherer = Gatherer(terms)
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


@pytest.mark.parametrize("exchange", [0, 1, 2, 3])
def test_drop_outs_at_every_exchange_are_recovered_up_to_the_threshold(exchange):
    values = {name: np.array([3**k, -k]) for k, name in enumerate(NAMES)}
    gone = dict.fromkeys(NAMES[1:3], exchange)
    counted = [n for n in NAMES if n not in gone or exchange == 3]
    assert (aggregate(values, drop=gone) == sum(values[n] for n in counted)).all()
    gone[NAMES[5]] = exchange
    with pytest.raises(SiteFailure, match="nothing is revealed from fewer than 4 of 6"):
        aggregate(values, drop=gone)


def test_drop_outs_at_different_exchanges_add_up():
    values = {name: np.array([k]) for k, name in enumerate(NAMES)}
    assert aggregate(values, drop={NAMES[0]: 1, NAMES[5]: 2}) == 1 + 2 + 3 + 4
    with pytest.raises(SiteFailure, match="only 3 sites are left when asked to unmask"):
        aggregate(values, drop={NAMES[0]: 1, NAMES[5]: 2, NAMES[1]: 3})


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("threshold", [1, 3, 7])
def test_a_threshold_of_half_or_less_or_more_than_all_is_refused(threshold):
    with pytest.raises(ParameterError, match="threshold"):
        Terms(b"", NAMES, threshold)


def members(identities=False):
    terms = Terms(b"session", NAMES[:3], 2)
    keys = {name: masks.fresh_identity() for name in terms.sites}
    known = {name: masks.identity_public(key) for name, key in keys.items()}
    found = {n: Member(n, terms, keys[n], known) if identities else Member(n, terms) for n in keys}
    return terms, found, {n: member.advertise() for n, member in found.items()}


def test_no_site_reveals_seed_and_key_of_one_partner():
    _, found, adverts = members()
    shared = {name: member.share(adverts) for name, member in found.items()}
    boxes = {s: shared[s][1][NAMES[0]] for s in NAMES[1:3]}
    found[NAMES[0]].mask(boxes, np.zeros(1))
    found[NAMES[0]].unmask(NAMES[:3])
    with pytest.raises(SiteFailure, match="once"):
        found[NAMES[0]].unmask(NAMES[:2])


def test_a_vector_is_masked_once_per_session():
    _, found, adverts = members()
    shared = {name: member.share(adverts) for name, member in found.items()}
    boxes = {s: shared[s][1][NAMES[0]] for s in NAMES[1:3]}
    found[NAMES[0]].mask(boxes, np.zeros(1))
    with pytest.raises(SiteFailure, match="once"):
        found[NAMES[0]].mask(boxes, np.ones(1))


def test_swapped_keys_are_noticed_where_identities_are_known():
    terms, found, adverts = members(identities=True)
    found[NAMES[1]].share(dict(adverts))
    adverts[NAMES[2]] = Member(NAMES[2], terms).advertise()
    with pytest.raises(SiteFailure, match="'site 2' are not signed by 'site 2'"):
        found[NAMES[0]].share(adverts)


def test_a_changed_box_is_noticed():
    _, found, adverts = members()
    shared = {name: member.share(adverts) for name, member in found.items()}
    boxes = {s: shared[s][1][NAMES[0]] for s in NAMES[1:3]}
    boxes[NAMES[1]] = bytes([boxes[NAMES[1]][0] ^ 1]) + boxes[NAMES[1]][1:]
    with pytest.raises(SiteFailure, match="changed on its way"):
        found[NAMES[0]].mask(boxes, np.zeros(1))


class LyingHelper(Member):
    def unmask(self, arrived):
        shares = super().unmask(arrived)
        if self.name == NAMES[0]:
            shares[NAMES[1]] = bytes(shamir.SHARE_BYTES)
        return shares


@pytest.mark.parametrize("drop", [{}, {NAMES[1]: 2}])
def test_a_wrong_share_never_gives_a_wrong_sum(drop):
    values = {name: np.array([1]) for name in NAMES}
    with pytest.raises(SiteFailure, match="'site 1' do not fit together"):
        aggregate(values, member=LyingHelper, drop=drop)


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


class Unmasked(Member):
    """Forgets the masks towards its partners."""

    def mask(self, sealed, values):
        masked = super().mask(sealed, values)
        for other in sealed:
            seed = masks.agree(
                self.masking, self.adverts[other][32:64],
                self.terms.about("mask", *sorted((self.name, other)), ""),
            )  # fmt: skip
            drawn = masks.stream(seed, masked.size, 32)
            masked = masked - drawn if self.name < other else masked + drawn
        return masked


class SmallMasks(Member):
    """Masks with numbers below 2^24 instead of the whole ring."""

    def mask(self, sealed, values):
        masked = np.asarray(values).astype(np.uint32) + masks.stream(self.seed, values.size, 32)
        for other in sealed:
            seed = masks.agree(
                self.masking, self.adverts[other][32:64],
                self.terms.about("mask", *sorted((self.name, other)), ""),
            )  # fmt: skip
            drawn = masks.stream(seed, masked.size, 32) >> np.uint32(8)
            masked = masked + drawn if self.name < other else masked - drawn
        super().mask(sealed, values)
        return masked


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


def test_a_seed_or_a_key_that_was_not_committed_to_is_refused():
    view = {}
    aggregate(
        {name: np.arange(3) for name in NAMES[:4]}, threshold=3, drop={NAMES[3]: 2}, view=view
    )
    gatherer, shares = view["gatherer"], view["shares"]
    here, gone = NAMES[0], NAMES[3]
    for table, name in ((gatherer.commitments, here), (gatherer.adverts, gone)):
        kept = table[name]
        table[name] = bytes(len(kept))
        with pytest.raises(SiteFailure, match="do not fit together"):
            gatherer.total(shares)
        table[name] = kept
    assert gatherer.total(shares).tolist() == [0, 3, 6]
