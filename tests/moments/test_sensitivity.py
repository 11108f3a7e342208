"""How far one document or sample moves what leaves a holder, by search through the real code.

Two neighbouring holders answer the same requests with the same seeded noise, so the difference of
their replies is exactly what the neighbour changed, in every array that leaves.
"""

import itertools
import math

import numpy as np
import pytest

from tacit.data.documents import Documents
from tacit.errors import ParameterError, RequestRefused
from tacit.estimators.fit import reserve
from tacit.estimators.gate import Gate
from tacit.estimators.site import Site
from tacit.mechanisms.noise import Noise
from tacit.moments.agreement import TopicAgreement
from tacit.moments.numerics.samples import ACROSS, FEATURES, SampleMoments
from tacit.moments.numerics.sums import DocumentMoments, entry_weights
from tacit.moments.samples.agreement import MixtureAgreement
from tacit.moments.sides import Holding
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import Message

SIZE = 3
RELATIONS = pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])


def topics(rank, neighbours=ADD_REMOVE, whole=False, kind=TopicAgreement, **more):
    trust = "aggregator" if whole else "site"
    privacy = Privacy(2.0, 1e-5, unit="document", neighbours=neighbours, trust=trust)
    return kind(SIZE, rank, privacy, **more)


class Attack:
    """Replies of one holder to fixed requests, and how far two holders' replies lie apart."""

    def __init__(self, agreement, basis, kind=DocumentMoments):
        self.agreement, self.basis, self.kind = agreement, basis, kind
        self.mechanisms = agreement.mechanisms

    def holder(self, data):
        paid = reserve(self.agreement, [Site("x", None)], "attack")["x"]
        return Holding(self.agreement, "x", [self.kind(data)], Gate(paid, Noise(seed=5)))

    def replies(self, data):
        holder, whole = self.holder(data), self.agreement.whole
        vectors = np.eye(self.agreement.matrix_size, dtype=np.int64 if whole else np.float64)
        second = holder.respond(Message(0, {"vectors": vectors}, "second"))["product"]
        third = holder.respond(Message(1, {"basis": self.basis}, "third"))["third"]
        steps = [m.grid.step for m in self.mechanisms]
        return second * (steps[0] if whole else 1.0), third * steps[1]

    def loss(self, one, other):
        """Return the length of the change in units of the noise: 1/σ is what was paid for.

        The noise is symmetric, so it hides nothing of a change that is not.
        """
        if not np.array_equal(one[0] - other[0], (one[0] - other[0]).T):
            return math.inf
        parts = [
            float(np.linalg.norm(a - b)) / m.scale
            for a, b, m in zip(one, other, self.mechanisms, strict=True)
        ]
        return math.hypot(*parts)

    @property
    def paid(self):
        return 1.0 / gaussian_sigma(2.0, 1e-5)


def all_documents():
    """Every bag of up to four of three words, and some long and lopsided ones."""
    bags = [list(b) for n in range(5) for b in
            itertools.combinations_with_replacement(range(SIZE), n)]  # fmt: skip
    return [*bags, [0] * 50 + [1], [0] * 7 + [1] * 7 + [2] * 7, [2] * 1000]


def corpus(*more):
    return Documents.from_words([[0, 1, 2], [0, 0, 1, 1], [2, 2, 2, 0, 1], *more], SIZE)


def bases():
    rng = np.random.default_rng(1)
    yield np.eye(SIZE)[:, :2]
    yield np.linalg.qr(rng.standard_normal((SIZE, 2)))[0]


def largest(attack, neighbours):
    documents = all_documents()
    found = [attack.replies(corpus(d)) for d in documents]
    if neighbours == ADD_REMOVE:
        base = attack.replies(corpus())
        return max(attack.loss(base, one) for one in found)
    return max(attack.loss(a, b) for a, b in itertools.combinations(found, 2))


@RELATIONS
@pytest.mark.parametrize("whole", [False, True])
def test_no_document_moves_what_leaves_farther_than_was_paid_for(neighbours, whole):
    worst = 0.0
    for basis in bases():
        attack = Attack(topics(2, neighbours, whole), basis)
        worst = max(worst, largest(attack, neighbours))
    assert worst <= attack.paid
    assert worst >= 0.99 * attack.paid  # nothing is given away: one word repeated reaches it


@RELATIONS
@pytest.mark.parametrize("share", [0.1, 0.8])
def test_the_share_does_not_matter(neighbours, share):
    attack = Attack(topics(3, neighbours, share=share), np.eye(SIZE))
    assert largest(attack, neighbours) <= attack.paid


def test_a_shared_release_is_paid_for_as_the_sum():
    seven, alone = topics(2, whole=True, sites=7, shares=7), topics(2)
    assert seven.event == alone.event
    share, whole = seven.mechanisms[0], alone.mechanisms[0]
    assert share.variance() * 7 == pytest.approx(whole.variance(), rel=1e-9)


# -- the search catches broken twins ---------------------------------------------------------


class Ordered(DocumentMoments):
    """Takes one ordered pair of a document for the whole, without symmetrising."""

    def rows(self, start, stop):
        out = np.zeros((stop - start, self.size - start), np.int64)
        bags = self.documents
        for first, last in itertools.pairwise(bags.starts):
            if last - first >= 2:
                out[bags.words[first] - start, bags.words[first + 1] - start] += 1 << 36
        return out


class Heavy(DocumentMoments):
    """Counts all pairs of a document: long documents weigh more than one."""

    def __init__(self, documents):
        super().__init__(documents)
        lengths = documents.lengths
        self._pair = self._pair * np.maximum(lengths - 2, 0)


class HeavyTriples(DocumentMoments):
    """Counts a document's triples once for each further word."""

    def __init__(self, documents):
        super().__init__(documents)
        self._triple = self._triple * np.maximum(documents.lengths - 2, 0)


class Halved(TopicAgreement):
    """States half of the sensitivity."""

    @property
    def third_sensitivity(self):
        return super().third_sensitivity / 2


@pytest.mark.parametrize("kind", [Ordered, Heavy, HeavyTriples])
def test_the_search_catches_broken_moments(kind):
    attack = Attack(topics(3), np.eye(SIZE), kind)
    assert largest(attack, ADD_REMOVE) > 1.01 * attack.paid


@RELATIONS
def test_the_search_catches_half_the_sensitivity(neighbours):
    attack = Attack(topics(3, neighbours, kind=Halved), np.eye(SIZE))
    assert largest(attack, neighbours) > 1.01 * attack.paid


def test_a_basis_that_lengthens_is_refused_before_the_charge():
    moments = DocumentMoments(corpus())
    slightly = np.eye(SIZE)[:, :2] * (1.0 + 2.0**-29)
    skewed = np.array([[1.0, 2.0**-28], [0.0, 1.0], [0.0, 0.0]])
    lengthening = (2.0 * np.eye(SIZE)[:, :2], np.ones((SIZE, 2)), slightly, skewed)
    for basis in (*lengthening, np.full((SIZE, 2), np.nan)):
        holder = Attack(topics(2), None).holder(corpus())
        holder.respond(Message(0, {"vectors": np.eye(SIZE)}, "second"))
        rows = holder.gate.reservation.ledger.counter
        with pytest.raises(RequestRefused, match="'basis'"):
            holder.respond(Message(1, {"basis": basis}, "third"))
        assert holder.gate.reservation.ledger.counter == rows
        with pytest.raises(ParameterError, match="basis"):
            moments.third(basis)


@RELATIONS
def test_a_basis_at_the_tolerance_moves_nothing_farther_than_was_paid_for(neighbours):
    """The longest basis that is accepted: Δ₃ covers it, because of `SHRINK`."""
    basis = np.eye(SIZE) * (1.0 + 2.0**-32)
    attack = Attack(topics(3, neighbours), basis)
    assert largest(attack, neighbours) <= attack.paid


@pytest.mark.parametrize("whole", [False, True])
def test_vectors_that_are_too_long_are_refused(whole):
    kind = np.int64 if whole else np.float64
    for vectors in (np.ones((SIZE, SIZE)), 2.0 * np.eye(SIZE), np.eye(SIZE)[:, [0] * 4]):
        holder = Attack(topics(2, whole=whole), None).holder(corpus())
        with pytest.raises(RequestRefused, match="vectors"):
            holder.respond(Message(0, {"vectors": vectors.astype(kind)}, "second"))


def test_a_second_basis_is_refused():
    attack = Attack(topics(2), np.eye(SIZE)[:, :2])
    holder = attack.holder(corpus())
    with pytest.raises(RequestRefused, match="not the one that is next"):
        holder.respond(Message(0, {"basis": attack.basis}, "third"))
    holder.respond(Message(0, {"vectors": np.eye(SIZE)}, "second"))
    holder.respond(Message(1, {"basis": attack.basis}, "third"))
    with pytest.raises(RequestRefused):
        holder.respond(Message(2, {"basis": np.eye(SIZE)[:, 1:]}, "third"))
    with pytest.raises(RequestRefused, match="answered already"):
        holder.respond(Message(1, {"basis": np.eye(SIZE)[:, 1:]}, "third"))


# -- exact sums --------------------------------------------------------------------------------


def many(size=400, words=30, seed=3):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, words, rng.integers(0, 40)).tolist() for _ in range(size)]


def test_order_pieces_and_threads_do_not_change_a_bit():
    documents = many()
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 4)))[0]
    one = DocumentMoments(Documents.from_words(documents, 30))
    turned = [list(reversed(d)) for d in reversed(documents)]
    other = DocumentMoments(Documents.from_words(turned, 30))
    np.testing.assert_array_equal(one.rows(0, 30), other.rows(0, 30))
    np.testing.assert_array_equal(one.third(basis), other.third(basis))
    parts = [DocumentMoments(Documents.from_words(documents[k::2], 30)) for k in (0, 1)]
    np.testing.assert_array_equal(one.rows(0, 30), sum(p.rows(0, 30) for p in parts))
    assert np.abs(one.third(basis) - sum(p.third(basis) for p in parts)).max() <= 1  # one rounding


def test_among_many_others_a_document_adds_exactly_what_it_adds_alone():
    documents, extra = many(), [4, 4, 9, 17, 17, 17, 2]
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((30, 4)))[0]
    more = DocumentMoments(Documents.from_words([*documents[:100], extra, *documents[100:]], 30))
    less = DocumentMoments(Documents.from_words(documents, 30))
    alone = DocumentMoments(Documents.from_words([extra], 30))
    np.testing.assert_array_equal(more.rows(0, 30) - less.rows(0, 30), alone.rows(0, 30))
    change = more.third(basis) - less.third(basis) - alone.third(basis)
    assert np.abs(change).max() <= 1


def test_no_contribution_exceeds_norm_one_at_any_size():
    rng = np.random.default_rng(7)
    for length in (3, 4, 11, 300, 5000, 100_000):
        for concentration in (0.02, 1.0):
            counts = rng.multinomial(length, rng.dirichlet(np.full(40, concentration)))
            moments = DocumentMoments(Documents.read(counts[None]))
            second = np.ldexp(moments.rows(0, 40).astype(float), moments.exponent)
            assert np.linalg.norm(second) <= 1.0
            assert second.sum() == pytest.approx(1.0, abs=1e-7)
            basis = np.linalg.qr(rng.standard_normal((40, 6)))[0]
            third = np.ldexp(moments.third(basis).astype(float), -36) * entry_weights(6)
            assert np.linalg.norm(third) <= 1.0


# -- samples ---------------------------------------------------------------------------------


def sample_attack(neighbours, kind=None, rank=2, own=False, basis=None, **more):
    privacy = Privacy(2.0, 1e-5, neighbours=neighbours)
    agreement = MixtureAgreement(SIZE, rank, privacy, radius=2.0, centre=(0.5,),
                                 own_variances=own, **more)  # fmt: skip
    if basis is None:
        basis = np.linalg.qr(np.random.default_rng(2).standard_normal((SIZE, rank)))[0]
    return Attack(agreement, basis, kind or agreement.moments)


def sample_search(attack, neighbours):
    rng = np.random.default_rng(4)
    base = rng.standard_normal((5, SIZE))
    basis = attack.basis
    candidates = [0.5 + s * r * v for s in (-1, 1) for r in (0.3, 2.0, 50.0)
                  for v in (*basis.T, np.eye(SIZE)[0])]  # fmt: skip
    candidates += [np.full(SIZE, bad) for bad in (np.nan, np.inf, -1e308)]
    candidates += list(0.5 + 3.0 * rng.standard_normal((10, SIZE)))
    across = rng.standard_normal((6, SIZE))  # half along the basis, half across it
    across -= across @ basis @ basis.T
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    candidates += [0.5 + s * 2.0 * (basis[:, 0] + a) for a in across for s in (-0.71, 0.71, 0.9)]
    found = [attack.replies(np.vstack([base, c])) for c in candidates]
    if neighbours == ADD_REMOVE:
        without = attack.replies(base)
        return max(attack.loss(without, one) for one in found)
    return max(attack.loss(a, b) for a, b in itertools.combinations(found, 2))


@RELATIONS
def test_no_sample_moves_what_leaves_farther_than_was_paid_for(neighbours):
    attack = sample_attack(neighbours)
    worst = sample_search(attack, neighbours)
    assert worst <= attack.paid
    assert worst >= (0.99 if neighbours == ADD_REMOVE else 0.75) * attack.paid


def test_the_search_catches_samples_that_are_not_scaled():
    class Unscaled(SampleMoments):
        def _pieces(self):
            yield np.nan_to_num((self.samples - 0.5) / 2.0).clip(-3, 3) * 2.0**15

    attack = sample_attack(ADD_REMOVE, lambda rows: Unscaled(rows, 2.0, 0.5))
    assert sample_search(attack, ADD_REMOVE) > 1.5 * attack.paid


@RELATIONS
@pytest.mark.parametrize("rank", [1, 2])
def test_no_sample_moves_variances_of_their_own_farther_than_was_paid_for(neighbours, rank):
    attack = sample_attack(neighbours, rank=rank, own=True)
    worst = sample_search(attack, neighbours)
    assert 0.75 * attack.paid <= worst <= attack.paid
    basis = attack.basis
    near = SampleMoments(0.5 + 2.0 * np.vstack([basis[:, 0], -basis[:, 0]]), 2.0, 0.5, ACROSS)
    assert near.third(basis).shape == (math.comb(rank + 2, 3) + rank,)


def test_the_search_catches_variances_that_are_taken_too_large():
    """The rank across the basis forgotten, and no ball."""

    class Large(SampleMoments):
        def third_sum(self, basis):
            found = super().third_sum(basis)
            found[math.comb(basis.shape[1] + 2, 3) :] *= 3
            return found

    attack = sample_attack(ADD_REMOVE, lambda rows: Large(rows, 2.0, 0.5, ACROSS), 1, True)
    assert sample_search(attack, ADD_REMOVE) > 1.01 * attack.paid


@RELATIONS
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("along", [False, True])
def test_no_sample_moves_variances_of_features_farther_than_was_paid_for(neighbours, rank, along):
    basis = np.eye(SIZE)[:, :rank] if along else None
    attack = sample_attack(neighbours, rank=rank, own=True, diagonal=True, basis=basis)
    worst = sample_search(attack, neighbours)
    assert 0.7 * attack.paid <= worst <= attack.paid
    parts = SampleMoments(np.eye(SIZE), 2.0, 0.5, FEATURES)
    assert parts.third(attack.basis).shape == (math.comb(rank + 2, 3) + SIZE * rank,)


@RELATIONS
def test_variances_of_features_are_no_longer_than_the_third_moment(neighbours):
    """Over all directions and samples at the edge: the share of the bound that is used."""
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    weights = np.append(entry_weights(4), np.ones(16))
    third = [SampleMoments(z[None], 1.0, 0.0, FEATURES).third(np.eye(4)) for z in rows]
    third = weights * np.ldexp(np.array(third, float), -36)
    if neighbours == ADD_REMOVE:
        found = np.linalg.norm(third, axis=1).max()
        assert 0.95 < found <= 1.0  # 1 - Σ z_i⁶ is 15/16 at the most even sample
        return
    found = max(np.linalg.norm(third - other, axis=1).max() for other in third)
    opposite = SampleMoments(-rows[:1], 1.0, 0.0, FEATURES).third(np.eye(4))
    found = max(found, np.linalg.norm(third[0] - weights * np.ldexp(opposite.astype(float), -36)))
    assert 1.8 < found <= 2.0


def test_the_search_catches_features_beside_all_entries():
    """Entries of twice the same index count in the third moment, and once more beside it."""

    class Twice(SampleMoments):
        def third_sum(self, basis):
            found = super().third_sum(basis)
            cubes = SampleMoments(self.samples, 2.0, 0.5).third_sum(basis)
            found[: len(cubes)] = cubes
            return found

    attack = sample_attack(
        ADD_REMOVE, lambda rows: Twice(rows, 2.0, 0.5, FEATURES), 2, True, diagonal=True
    )
    assert sample_search(attack, ADD_REMOVE) > 1.01 * attack.paid


@RELATIONS
def test_no_sample_moves_what_a_public_covariance_measures_farther_than_was_paid_for(neighbours):
    turn = (3.0, 0.0, 0.0), (-40.0, 2.0, 0.0), (0.25, 0.5, 1e-3)
    attack = sample_attack(neighbours, turn=turn)
    worst = sample_search(attack, neighbours)
    assert 0.7 * attack.paid <= worst <= attack.paid

    class After(SampleMoments):  # the ball comes first
        def _pieces(self):
            for piece in super()._pieces():
                yield piece @ np.array(turn).T

    attack = sample_attack(neighbours, lambda rows: After(rows, 2.0, 0.5))
    assert sample_search(attack, neighbours) > 1.5 * attack.paid


def test_a_public_covariance_maps_every_sample_by_itself():
    """Bit for bit, whoever else is in the table: a product of matrices would not."""
    rng, turn = np.random.default_rng(0), np.tril(np.random.default_rng(1).uniform(0.1, 1, (9, 9)))
    rows = rng.standard_normal((300, 9))
    basis = np.linalg.qr(rng.standard_normal((9, 3)))[0]
    made = [SampleMoments(part, 2.0, 0.1, turn=turn) for part in (rows, *rows[:, None])]
    np.testing.assert_array_equal(made[0].rows(0, 10), sum(one.rows(0, 10) for one in made[1:]))
    np.testing.assert_array_equal(made[0].third(basis), sum(one.third(basis) for one in made[1:]))
