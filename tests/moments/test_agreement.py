"""The law of what is released, and the noise of the published strategies."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

import tacit as tc
from tacit.data.documents import Documents
from tacit.data.synthetic import topic_documents
from tacit.errors import ParameterError
from tacit.mechanisms.noise import Noise
from tacit.moments.agreement import TopicAgreement
from tacit.moments.numerics.power import symmetrise
from tacit.moments.numerics.sums import SHRINK, DocumentMoments
from tacit.moments.numerics.whitening import spread
from tacit.moments.sides import as_tensor
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.published import imtiaz2017 as published
from tacit.published.imtiaz2017_noise import METHODS, STARTS, STEPS

SIZE, RANK, DRAWS = 6, 3, 4000


def small_noise():
    """Return draws of the K × K × K noise through the mechanism, in units of τ."""
    mechanism = TopicAgreement(SIZE, RANK, tc.Privacy(1.0, 1e-6, unit="document")).mechanisms[1]
    source, grid = Noise(seed=3), mechanism.grid
    nothing = np.zeros(mechanism.shape)
    for _ in range(DRAWS):
        steps = np.rint(np.ldexp(mechanism.draw(nothing, source), -grid.exponent))
        yield as_tensor(steps, grid.exponent, RANK) * SHRINK / mechanism.scale


def projected_noise(symmetric=True):
    """Return draws of Sym(G)(U, U, U) for G of 6 × 6 × 6 numbers N(0, 1)."""
    rng = np.random.default_rng(4)
    u = np.linalg.qr(rng.standard_normal((SIZE, RANK)))[0]
    for _ in range(DRAWS):
        if symmetric:
            noise = symmetrise(rng.standard_normal((SIZE,) * 3))
        else:  # the same variance for every unique entry, as AGN prints it
            noise = spread(rng.standard_normal(math.comb(SIZE + 2, 3)), SIZE)
        yield np.einsum("abc,ai,bj,ck->ijk", noise, u, u, u, optimize=True)


def statistics(draws):
    """Return entries of every kind, an eigenvalue-like form, and the norm, of every draw."""
    v = np.array([0.6, -0.48, 0.64])
    return np.array([
        [t[0, 0, 0], t[0, 0, 1], t[0, 1, 2], np.einsum("abc,a,b,c->", t, v, v, v),
         np.linalg.norm(t), t[0, 0, 0] * t[0, 1, 1]]
        for t in draws
    ]).T  # fmt: skip


def test_the_small_noise_has_the_law_of_projected_large_noise():
    small, large = statistics(small_noise()), statistics(projected_noise())
    values = [stats.ks_2samp(a, b).pvalue for a, b in zip(small, large, strict=True)]
    assert min(values) > 1e-5
    exact = [1.0, math.sqrt(1 / 3), math.sqrt(1 / 6), 1.0]
    for draws, sd in zip(small, exact, strict=False):
        assert stats.kstest(draws, stats.norm(scale=sd).cdf).pvalue > 1e-5


def test_the_law_test_notices_noise_that_is_not_isotropic():
    small, large = statistics(small_noise()), statistics(projected_noise(symmetric=False))
    values = [stats.ks_2samp(a, b).pvalue for a, b in zip(small, large, strict=True)]
    assert min(values) < 1e-6


# -- published strategies -----------------------------------------------------------------------


def test_published_noise_is_what_the_paper_prints():
    privacy = tc.Privacy(0.8, 0.01, unit="document", neighbours=REPLACE)
    found = {name: published.NoisyTopicsAgreement(10, 5, privacy, name) for name in METHODS}
    parts = {name: agreement.mechanisms for name, agreement in found.items()}
    delta = math.sqrt(2.0)
    half = delta / 0.4 * math.sqrt(2.0 * math.log(1.25 / 0.005))
    whole = delta / 0.4 * math.sqrt(2.0 * math.log(1.25 / 0.01))
    # rounding to a grid is counted on top, which is a small share
    assert parts["agn"]["second"].scale == pytest.approx(half, rel=2e-2)
    assert parts["agn"]["third"].scale == pytest.approx(half, rel=2e-2)
    assert parts["avn"]["second"].scale == pytest.approx(whole, rel=2e-2)
    assert parts["agn"]["third"].shape == parts["avn"]["third"].shape == (220,)
    steps = 5 * STARTS * (STEPS + 1)
    step = 0.4 / math.sqrt(steps * (4.0 + math.log(2.0 / 0.005)))
    nu = math.sqrt(2.0 * math.log(1.25 / (0.005 / (2 * steps)))) / step
    assert parts["dp-tpm"]["image"].scale == pytest.approx(nu, rel=2e-2)
    assert found["dp-tpm"].rounds == 1 + steps


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_a_step_of_the_noisy_power_method_moves_no_farther_than_is_paid_for(neighbours):
    """Over all pairs of documents of four of three words, for many W and u."""
    bags = [list(b) for n in (0, 3, 4) for b in
            itertools.combinations_with_replacement(range(3), n)]  # fmt: skip
    thirds = []
    for bag in bags:
        moments = DocumentMoments(Documents.from_words([bag], 3))
        thirds.append(np.ldexp(spread(moments.whole_third(), 3), moments.exponent))
    rng = np.random.default_rng(0)
    privacy = tc.Privacy(0.8, 0.01, unit="document", neighbours=neighbours)
    public = published.NoisyTopicsAgreement(3, 2, privacy, "dp-tpm")
    shares = []
    for trial in range(30):
        w = np.eye(3)[:, :2] if trial == 0 else rng.standard_normal((3, 2))
        u = np.array([1.0, 0.0]) if trial == 0 else rng.standard_normal(2)
        u /= np.linalg.norm(u)
        reach = np.array(public.reaches(w, u)) * (2.0 if neighbours == REPLACE else 1.0)
        y = w @ u
        images = np.array([np.einsum("abc,ai,b,c->i", t, w, y, y) for t in thirds])
        values = np.array([np.einsum("abc,a,b,c->", t, y, y, y) for t in thirds])
        if neighbours == ADD_REMOVE:
            moved = np.linalg.norm(images, axis=1), np.abs(values)
        else:
            moved = (np.linalg.norm(images[:, None] - images, axis=2),
                     np.abs(values[:, None] - values))  # fmt: skip
        shares.append([part.max() / r for part, r in zip(moved, reach, strict=True)])
    assert np.max(shares) <= 1.0
    assert np.max(shares) > (0.99 if neighbours == ADD_REMOVE else 0.7)


@pytest.mark.parametrize("method", METHODS)
def test_no_published_method_tells_the_exact_number_of_documents(method):
    documents, _, _ = topic_documents(5000, 6, 2, seed=1)
    model = published.NoisyTopics(
        2, method=method, random_state=0, privacy=tc.Privacy(1.0, 1e-6, unit="document")
    ).fit(documents)
    assert model.documents_ != 5000
    assert model.documents_ == pytest.approx(5000, rel=0.2)


@pytest.mark.parametrize(
    ("size", "rank", "width"), [(300, 3, 300), (1000, 3, 64), (1000, 20, 80), (600, 190, 600)]
)
def test_as_many_vectors_are_sent_as_pay_off(size, rank, width):
    """All of a small vocabulary; else four for each topic, at least 64 and at most all."""
    assert TopicAgreement(size, rank, tc.Privacy(1.0, 1e-6, unit="document")).width == width


def test_whitening_needs_a_delta_where_there_is_noise():
    pure = {"unit": "document", "delta": 0.0}
    with pytest.raises(ParameterError, match="this method adds Gaussian noise"):
        TopicAgreement(6, 2, tc.Privacy(1.0, **pure))
    assert TopicAgreement(6, 2, tc.Privacy(math.inf, **pure)).is_free


def test_enough_units_stand_out_of_the_noise_where_the_worst_case_needs_a_basis():
    for agreement in TopicAgreement.examples():
        enough = 100.0 * agreement.edge(agreement.shares) if agreement.rank < agreement.size else 0
        assert enough <= agreement._outweighing < enough + 1.0


def test_noise_of_sites_adds_up_by_its_variance():
    for agreement in TopicAgreement.examples():
        variance = agreement.mechanisms[0].scale ** 2 / agreement.shares  # of one site's part
        for sites in (1, 3, 8):
            assert agreement.noise_sd(sites) ** 2 == pytest.approx(sites * variance)
