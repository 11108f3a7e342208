"""Exact draws: the tables against mpmath, the fast path against the slow one, and both laws."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from tacit._core import exact, kernels
from tacit._core.rng import WordStream
from tests.oracles.kernels import invert_words_reference

ONE = 1 << 256
LAWS = {"half-normal": exact.half_normal, "exponential": exact.exponential}


class Scripted:
    """A stream that hands out given words, then pseudo-random ones."""

    def __init__(self, words=(), seed=0):
        self._words, self._spare = list(words), WordStream(seed)
        self.used = []

    def word(self):
        self.used.append(self._words.pop(0) if self._words else self._spare.word())
        return self.used[-1]

    def words(self, count):
        return np.array([self.word() for _ in range(count)], dtype=np.uint64)


@pytest.fixture(params=LAWS, name="law_name")
def _law_name(request):
    return request.param


@pytest.fixture(name="law")
def _law(law_name):
    return LAWS[law_name]()


@pytest.fixture(autouse=True)
def _many_digits():
    with mpmath.workprec(400):
        yield


def oracle_cdf(law_name, z):
    """F(z) from mpmath, which knows nothing of the tables."""
    z = mpmath.mpf(z.numerator) / z.denominator
    if law_name == "half-normal":
        return mpmath.erf(z / mpmath.sqrt(2))
    return -mpmath.expm1(-z)


def oracle_draw(law_name, uniform, bits, scale, offset, negative):
    """floor(±scale·F⁻¹(U) + offset), U the middle of the interval that ``bits`` bits leave."""
    upper_tail = 1 - (mpmath.mpf(uniform) + mpmath.mpf(1) / 2) / mpmath.mpf(2) ** bits
    if law_name == "half-normal":
        # erfc(z/√2) = 1 − U, by Newton's method from the asymptotic expansion
        z = mpmath.findroot(
            lambda z: mpmath.log(mpmath.erfc(z / mpmath.sqrt(2))) - mpmath.log(upper_tail),
            mpmath.sqrt(max(0, -2 * mpmath.log(upper_tail) - 3)) + mpmath.mpf("0.1"),
        )
    else:
        z = -mpmath.log(upper_tail)
    return int(mpmath.floor((-z if negative else z) * scale + offset))


def fast_path(law, words, scale, offset, signed):
    """The compiled kernel alone: (integers, mask of those that it settled)."""
    out, unsure = np.zeros(words.size, np.int64), np.zeros(words.size, np.int64)
    pending = kernels.invert_words(
        words, law._high, *law._tilt, law._curvature, law.width, law._guide,
        scale, offset, signed, out, unsure,
    )  # fmt: skip
    settled = np.ones(words.size, bool)
    settled[unsure[:pending]] = False
    return out, settled


# --- the tables --------------------------------------------------------------------------


def test_table_is_exact_at_random_edges(law, law_name):
    for k in np.random.default_rng(1).integers(1, law.bins, 60):
        z = Fraction(int(k), 1 << law.log2_width)
        assert abs(mpmath.mpf(law.cdf(z)) / ONE - oracle_cdf(law_name, z)) < mpmath.mpf(2) ** -200


def test_cdf_is_exact_between_edges(law, law_name):
    rng = np.random.default_rng(2)
    for _ in range(60):
        denominator = int(rng.integers(1, 2**62))
        top = min(13 * denominator, 2**62)
        z = Fraction(int(rng.integers(0, top)), denominator)
        assert abs(mpmath.mpf(law.cdf(z)) / ONE - oracle_cdf(law_name, z)) < mpmath.mpf(2) ** -200


def test_cdf_starts_at_zero_ends_at_one_and_never_decreases(law):
    assert law.cdf(Fraction(-3)) == law.cdf(Fraction(0)) == 0
    assert law.cdf(Fraction(law.bins, 1 << law.log2_width)) == law.cdf(Fraction(10**9)) == ONE
    assert all(a < b for a, b in zip(law._cdf, law._cdf[1:], strict=False))


def test_mass_beyond_the_table_is_within_the_stated_distance(law, law_name):
    end = Fraction(law.bins, 1 << law.log2_width)
    assert 1 - oracle_cdf(law_name, end) < mpmath.mpf(2) ** -127
    assert exact.DISTANCE > 2**20 * 2.0**-127


# --- fast path, slow path and twin --------------------------------------------------------


@pytest.mark.parametrize("scale", [0.3, 1.7, 1000.0, 2.0**20, 1.3 * 2.0**32])
@pytest.mark.parametrize(("offset", "signed"), [(0.5, True), (0.0, False)])
def test_integers_are_the_floor_of_the_twin(law, scale, offset, signed):
    words = WordStream(3).words(20_000)
    drawn = law.integers(Scripted(words.tolist()), words.size, scale, offset=offset, signed=signed)
    real = invert_words_reference(
        words, law._high, *law._tilt, law._curvature, law.width, scale, offset, signed
    )
    # the twin's quadrature is good to about 1e-9 of a bin
    doubt = 1e-8 * scale * law.width + 1e-8
    clear = np.abs(real - np.round(real)) > doubt
    np.testing.assert_array_equal(drawn[clear], np.floor(real[clear]).astype(np.int64))
    assert np.all(np.abs(drawn[~clear] - real[~clear]) <= 1 + doubt)
    assert clear.mean() > 0.5


@pytest.mark.parametrize("scale", [0.3, 1.7, 1000.0, 2.0**20])
@pytest.mark.parametrize(("offset", "signed"), [(0.5, True), (0.0, False)])
def test_slow_path_agrees_with_fast_path(law, scale, offset, signed):
    words = WordStream(4).words(400)
    fast, settled = fast_path(law, words, scale, offset, signed)
    assert settled.any()
    for word, expected in zip(words[settled].tolist(), fast[settled].tolist(), strict=True):
        assert law._settle(Scripted(), word, scale, offset, signed) == expected


def test_fast_path_asks_for_help_at_bin_edges(law):
    at_edges = (law._high[np.arange(1, 2000, 97)] << np.uint64(1)).astype(np.uint64)
    _, settled = fast_path(law, at_edges, 2.0**20, 0.5, True)
    assert not settled.any()


def test_slow_path_reads_only_the_bits_that_it_needs(law):
    stream = Scripted()
    for word in WordStream(5).words(300).tolist():
        law._settle(stream, word, 1.7, 0.5, True)
    assert len(stream.used) < 5


def test_slow_path_extends_the_uniform_number_at_a_boundary(law):
    """A word that ties with F at an integer boundary is decided by the next word."""
    scale = 4.0
    target = law.cdf(Fraction(3, 4))  # the result is 3 from here on
    word = (target >> (256 - 63)) << 1
    low = law._settle(Scripted([0]), word, scale, 0.0, False)
    high = law._settle(Scripted([2**64 - 1]), word, scale, 0.0, False)
    assert (low, high) == (2, 3)


def test_slow_path_ends_even_if_the_uniform_number_never_leaves_a_boundary(law):
    """U that agrees with F to 190 bits is settled either way: within the stated distance."""
    target = law.cdf(Fraction(3, 4))
    bits = [(target >> (256 - 63 - 64 * j)) & (2**64 - 1) for j in (1, 2, 3)]
    stream = Scripted(bits)
    drawn = law._settle(stream, (target >> (256 - 63)) << 1, 4.0, 0.0, False)
    assert drawn in (2, 3)
    assert len(stream.used) == 2


@pytest.mark.parametrize("word", [0, 1])
@pytest.mark.parametrize(("offset", "signed"), [(0.5, True), (0.0, False)])
def test_smallest_words_give_zero(law, word, offset, signed):
    assert law.integers(Scripted([word]), 1, 2.0**20, offset=offset, signed=signed).tolist() == [0]


# Where the mass of a bin is below 2⁻⁶³, one 63-bit prefix covers several bins: up to all bins
# beyond 9.08 (half-normal) or 43.7 (exponential) for the last prefix.
@pytest.mark.parametrize("back", [1, 2, 3, 4, 7, 20, 33, 64, 101, 1000])
def test_far_tail_words_are_inverted_exactly(law, law_name, back):
    word, scale = 2**64 - back, 2.0**20
    for seed in range(4):
        stream = Scripted(seed=seed)
        drawn = law.integers(Scripted([word], seed=seed), 1, scale, offset=0.5, signed=True)[0]
        more = [stream.word() for _ in range(3)]
        uniform = (word >> 1) << 192 | more[0] << 128 | more[1] << 64 | more[2]
        assert drawn == oracle_draw(law_name, uniform, 63 + 192, scale, 0.5, bool(word & 1))


# --- laws ---------------------------------------------------------------------------------


def chi_square_p(drawn, probability, least=20.0):
    """p-value of integers against exact probabilities; what is rarer than ``least`` is pooled."""
    values, counts = np.unique(drawn, return_counts=True)
    expected = np.array([float(probability(int(k))) for k in values]) * drawn.size
    common = expected >= least
    observed = np.r_[counts[common], drawn.size - counts[common].sum()]
    expected = np.r_[expected[common], drawn.size - expected[common].sum()]
    statistic = ((observed - expected) ** 2 / np.maximum(expected, 1e-9))[expected > 1].sum()
    return stats.chi2.sf(statistic, (expected > 1).sum() - 1)


def rounded_normal(k, scale):
    return stats.norm.cdf((k + 0.5) / scale) - stats.norm.cdf((k - 0.5) / scale)


def rounded_laplace(k, scale):
    if k == 0:
        return -math.expm1(-0.5 / scale)
    return math.exp(-abs(k) / scale) * math.sinh(0.5 / scale)


def geometric(k, scale):
    return math.exp(-k / scale) * -math.expm1(-1.0 / scale)


@pytest.mark.parametrize("scale", [0.2, 1.7, 40.0])
@pytest.mark.parametrize(
    ("law_name", "offset", "signed", "pmf"),
    [
        ("half-normal", 0.5, True, rounded_normal),
        ("exponential", 0.5, True, rounded_laplace),
        ("exponential", 0.0, False, geometric),
    ],
    ids=["normal", "laplace", "geometric"],
)
def test_coarse_draws_have_the_exact_rounded_law(law_name, offset, signed, pmf, scale):
    law = LAWS[law_name]()
    drawn = law.integers(WordStream(6), 1_000_000, scale, offset=offset, signed=signed)
    assert chi_square_p(drawn, lambda k: pmf(k, scale)) > 1e-5


def test_chi_square_notices_a_scale_off_by_one_percent():
    drawn = exact.half_normal().integers(WordStream(6), 1_000_000, 1.7, offset=0.5, signed=True)
    assert chi_square_p(drawn, lambda k: rounded_normal(k, 1.7 * 1.01)) < 1e-9


def test_fine_draws_follow_the_continuous_law(law, law_name):
    drawn = law.integers(WordStream(7), 500_000, 2.0**20, offset=0.5, signed=True) / 2.0**20
    ideal = stats.norm if law_name == "half-normal" else stats.laplace
    assert stats.kstest(drawn, ideal.cdf).pvalue > 1e-5


def test_counts_beyond_one_chunk_and_none_at_all(law):
    assert law.integers(WordStream(8), 0, 3.0, offset=0.5, signed=True).shape == (0,)
    drawn = law.integers(WordStream(8), 3 * exact._CHUNK + 1, 50.0, offset=0.5, signed=True)
    assert drawn.shape == (3 * exact._CHUNK + 1,)
    assert len(np.unique(drawn[-100:])) > 20


# --- fixed-point draws ----------------------------------------------------------------------


def test_fixed_point_draws_follow_the_law(law, law_name):
    stream = WordStream(9)
    drawn = np.array([law.fixed_point(stream, 160) / 2.0**160 for _ in range(20_000)])
    ideal = stats.halfnorm if law_name == "half-normal" else stats.expon
    assert stats.kstest(drawn, ideal.cdf).pvalue > 1e-4


def test_fixed_point_draws_use_all_their_bits(law):
    stream = WordStream(10)
    low_bits = [law.fixed_point(stream, 160) & 0xFF for _ in range(2000)]
    assert len(set(low_bits)) == 256


@pytest.mark.parametrize(("next_word", "accepted"), [(0, True), (2**64 - 1, False)])
def test_fixed_point_compares_close_coins_exactly(law, next_word, accepted):
    """A coin whose first 64 bits tie with the acceptance probability is extended."""
    k, position = 500, 2**159
    exponent = Fraction(1, 2) * (Fraction(law._tilt[0]) + k * Fraction(law._tilt[1]))
    exponent += Fraction(1, 4) * Fraction(law._curvature)
    tie = exact._exp_minus(exponent) >> (256 - 64)
    middle_of_bin = (law._cdf[k] + law._cdf[k + 1]) >> (256 - 192 + 1)

    class Coins(Scripted):
        positions = (position, 0)  # the second one is always accepted
        calls = 0

        def bits(self, count):
            if count == 192:
                return middle_of_bin
            self.calls += 1
            return self.positions[self.calls - 1]

    drawn = law.fixed_point(Coins([tie, next_word, 0]), 160)
    expected = ((k << 160) + (position if accepted else 0)) >> law.log2_width
    assert drawn == expected


@pytest.mark.parametrize(("uniform", "expected"), [(0, 0), (ONE - 1, -1)])
def test_bins_at_both_ends(law, uniform, expected):
    assert law._bin(uniform) == expected % law.bins


def test_bin_holds_its_uniform_number(law):
    stream = WordStream(11)
    for _ in range(200):
        uniform = stream.bits(256)
        k = law._bin(uniform)
        assert law._cdf[k] <= uniform < law._cdf[k + 1]


def coarse_half_normal(log2_width):
    """The half-normal law on bins so wide that acceptance differs a lot between them."""
    width = Fraction(1, 1 << log2_width)
    bins = 6 << log2_width
    cdf = [exact.half_normal().cdf(k * width) for k in range(bins)] + [ONE]
    return exact.HalfLaw(
        log2_width, cdf, [0] * (bins + 1), lambda k, c, p: 0,
        (0.0, float(width) ** 2), float(width) ** 2 / 2,
    )  # fmt: skip


# A rejected position is redrawn inside its own bin. With a new bin after each rejection, bin k
# would have probability ∝ mass·acceptance, and acceptance falls with z: with the real bins the
# half-normal law, and the direction of K-norm noise, would be off by 1.2e-4.
def test_fixed_point_law_does_not_depend_on_the_width_of_the_bins():
    law, stream = coarse_half_normal(1), WordStream(12)
    drawn = np.array([law.fixed_point(stream, 64) / 2.0**64 for _ in range(20_000)])
    assert stats.kstest(drawn, stats.halfnorm.cdf).pvalue > 1e-4


def test_exp_minus_is_exact():
    for numerator, denominator in [(0, 1), (1, 1), (1, 3), (7, 1024), (10**40, 10**41 + 7)]:
        found = exact._exp_minus(Fraction(numerator, denominator))
        assert abs(found - mpmath.exp(-mpmath.mpf(numerator) / denominator) * ONE) < 200
    assert abs(exact._pi() - mpmath.pi * ONE) < 200
