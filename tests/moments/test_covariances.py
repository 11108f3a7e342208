"""Gaussians beyond spherical ones: diagonal, of a public shape, and what moments do not say."""

import numpy as np
import pytest

import tacit as tc
from experiments.metrics import matching
from tacit.errors import ParameterError, TacitError
from tacit.moments.numerics.diagonal import common_diagonal, enough, fit_different, own_diagonals

MEANS = np.array([[2, 0, 1, -1, 0, 1.0], [0, 2, -1, 1, 1, 0], [-1, 1, 0, 1, -2, 1]])
WEIGHTS = np.array([0.5, 0.3, 0.2])
ALONG = np.array([0.2, 0.5, 0.8, 0.3, 1.0, 0.4])
SHAPE = np.array([[1.0, 0.6, 0, 0, 0, 0], [0.6, 1, 0, 0, 0, 0], [0, 0, 1, -0.5, 0.2, 0],
                  [0, 0, -0.5, 1, 0, 0], [0, 0, 0.2, 0, 4, 1], [0, 0, 0, 0, 1, 1]])  # fmt: skip


def samples(spreads, number=40_000, seed=0):
    """Return samples with the given standard deviations, of features or components × features."""
    rng = np.random.default_rng(seed)
    which = rng.choice(3, number, p=WEIGHTS)
    wide = np.broadcast_to(spreads, (3, 6))[which]
    return MEANS[which] + wide * rng.standard_normal((number, 6))


def fit(data, epsilon=None, covariance="diagonal", **more):
    privacy = None if epsilon is None else tc.Privacy(epsilon, 1e-6)
    settings = {"privacy": privacy, "radius": 7.0, "random_state": 0, **more}
    return tc.GaussianMixture(3, covariance=covariance, **settings).fit(data)


def own_spreads():
    return np.array([ALONG, ALONG[::-1], 1.2 - ALONG])


@pytest.mark.parametrize("epsilon", [None, 5.0])
def test_a_common_diagonal_is_found_and_the_means_no_longer_suffer(epsilon):
    data, test = samples(ALONG), samples(ALONG, 4000, 1)
    model, round_ = fit(data, epsilon), fit(data, epsilon, "spherical")
    order = matching(model.means_, MEANS)
    np.testing.assert_allclose(model.means_[order], MEANS, atol=0.12)
    np.testing.assert_allclose(model.weights_[order], WEIGHTS, atol=0.02)
    np.testing.assert_allclose(model.sd_, ALONG, atol=0.06)
    assert np.abs(round_.means_[matching(round_.means_, MEANS)] - MEANS).max() > 0.2
    assert model.score(test) > round_.score(test) + 0.5
    if epsilon is not None:  # the same release, read another way
        assert model.certificate_.epsilon == round_.certificate_.epsilon


@pytest.mark.parametrize("epsilon", [None, 8.0])
def test_every_component_may_have_a_diagonal_of_its_own(epsilon):
    data, test = samples(own_spreads()), samples(own_spreads(), 4000, 1)
    model, common = fit(data, epsilon, variances="own"), fit(data, epsilon)
    order = matching(model.means_, MEANS)
    np.testing.assert_allclose(model.means_[order], MEANS, atol=0.12)
    np.testing.assert_allclose(model.weights_[order], WEIGHTS, atol=0.03)
    close = 0.06 if epsilon is None else 0.2
    np.testing.assert_allclose(model.sd_[order], own_spreads(), atol=close)
    assert model.variances_.shape == (3, 6)
    assert model.score(test) > common.score(test) + 0.1


@pytest.mark.parametrize("variances", ["common", "own"])
def test_a_public_covariance_has_multiples(variances):
    multiples = np.array([0.3, 0.3, 0.3] if variances == "common" else [0.2, 0.4, 0.6])
    rng = np.random.default_rng(0)
    which = rng.choice(3, 40_000, p=WEIGHTS)
    noise = rng.standard_normal((40_000, 6)) @ np.linalg.cholesky(SHAPE).T
    data = MEANS[which] + np.sqrt(multiples)[which, None] * noise
    model = fit(data, 5.0, SHAPE.tolist(), variances=variances, radius=9.0)
    order = matching(model.means_, MEANS)
    np.testing.assert_allclose(model.means_[order], MEANS, atol=0.2)
    np.testing.assert_allclose(model.variances_[order], multiples, atol=0.12)
    plain = fit(data, 5.0, "spherical", variances=variances, radius=9.0)
    assert model.score(data[:4000]) > plain.score(data[:4000])
    from scipy.stats import multivariate_normal

    densities = [
        w * multivariate_normal(mean, v * SHAPE).pdf(data[:500])
        for mean, w, v in zip(model.means_, model.weights_, model.variances_, strict=True)
    ]
    assert model.score(data[:500]) == pytest.approx(np.log(np.sum(densities, axis=0)).mean())


def test_where_noise_hides_the_means_a_diagonal_is_that_of_all():
    data = samples(ALONG, 2000)
    with pytest.warns(UserWarning, match="noise"):
        model = fit(data, 0.05)
    assert np.isfinite(model.score(data)) and (model.variances_ >= 0.0).all()
    with pytest.warns(UserWarning, match="noise"):
        own = fit(data, 0.05, variances="own")
    assert np.isfinite(own.score(data)) and np.abs(own.means_).max() < 7.0


def test_columns_are_measured_by_their_ranges():
    columns = tc.Columns(**{name: tc.number(-9, 9) for name in "abcdef"})
    table = dict(zip("abcdef", samples(ALONG).T, strict=True))
    model = tc.GaussianMixture(3, columns=columns, covariance="diagonal", random_state=0,
                               privacy=tc.Privacy(20.0, 1e-6)).fit(table)  # fmt: skip
    order = matching(model.means_, MEANS)
    np.testing.assert_allclose(model.means_[order], MEANS, atol=0.5)
    np.testing.assert_allclose(model.sd_, ALONG, atol=0.3)
    turned = tc.GaussianMixture(3, columns=columns, covariance=SHAPE, random_state=0).fit(table)
    assert turned.means_.shape == (3, 6) and np.isfinite(turned.score(table))


@pytest.mark.parametrize(("covariance", "variances"), [("diagonal", "common"), ("diagonal", "own"),
                                                        (SHAPE, "own")])  # fmt: skip
def test_a_release_predicts_as_the_fit_did(tmp_path, covariance, variances):
    data = samples(own_spreads(), 5000)
    model = fit(data, 20.0, covariance, variances=variances, random_state=None)
    model.release(tmp_path / "r")
    again = tc.GaussianMixture.from_release(tmp_path / "r")
    np.testing.assert_array_equal(again.variances_, model.variances_)
    np.testing.assert_allclose(again.sd_, model.sd_, rtol=1e-12)
    np.testing.assert_allclose(again.predict_proba(data[:20]), model.predict_proba(data[:20]))
    assert "sd" in str(again.to_frame("spreads"))


def test_sites_sum_and_a_lost_one_is_taken_out(monkeypatch):
    from tacit.estimators.shards import Holder

    data, answer = samples(own_spreads()), Holder.respond
    shared = fit(
        [tc.Site(str(k), data[k::3]) for k in range(3)],
        variances="own",
        privacy=tc.Privacy(8.0, 1e-6, trust="aggregator"),
    )
    np.testing.assert_allclose(shared.means_[matching(shared.means_, MEANS)], MEANS, atol=0.15)

    def respond(self, request):
        if self.name == "lost" and "basis" in request.arrays:
            raise OSError("the line is dead")
        return answer(self, request)

    monkeypatch.setattr(Holder, "respond", respond)
    other = MEANS[0] + 0.3 * np.random.default_rng(1).standard_normal((20_000, 6))
    sites = [tc.Site("left", data), tc.Site("lost", other)]
    model = fit(sites, on_failure="exclude", variances="own")
    order = matching(model.means_, MEANS)
    np.testing.assert_allclose(model.means_[order], MEANS, atol=0.15)
    np.testing.assert_allclose(model.sd_[order], own_spreads(), atol=0.1)


def test_what_moments_do_not_say_is_refused_with_the_reason():
    data = np.zeros((10, 4))
    for covariance in ("full", "tied"):
        with pytest.raises(ParameterError, match="does not follow from moments up to the third"):
            fit(data, covariance=covariance)
    with pytest.raises(ParameterError, match="at most 2 components"):
        fit(data)
    assert [enough(size, 2) for size in (4, 5)] == [False, True]


@pytest.mark.parametrize("bad", [
    "round", np.eye(3), np.ones((6, 6)), -np.eye(6), np.full((6, 6), np.nan), np.eye(6)[0],
    [["a"] * 6] * 6, [[1.0, 2.0], [3.0]], np.triu(np.ones((6, 6))), 1e300 * np.ones((6, 6)), b"x",
    np.full((6, 6), np.inf), [[None] * 6] * 6, {"a": 1}, np.eye(6) + 1j,
])  # fmt: skip
def test_a_covariance_that_is_none_is_refused_before_anybody_pays(bad):
    ledger = tc.Ledger.memory(epsilon=3, delta=1e-5)
    with pytest.raises(TacitError, match="covariance"):
        fit(samples(ALONG, 100), 1.0, bad, ledger=ledger)
    assert ledger.remaining.epsilon == 3  # nobody paid


def test_with_any_covariance_different_means_have_the_same_moments():
    """Along a line, one common variance each: no moment up to the third tells them apart."""

    def moments(a, variance):  # of halves around a and -a
        points = np.array([a, -a])
        return [np.mean(points), np.mean(points**2) + variance,
                np.mean(points**3 + 3 * points * variance)]  # fmt: skip

    assert moments(1.0, 0.5) == moments(0.5, 1.25)


@pytest.mark.parametrize("seed", range(4))
def test_diagonals_of_random_mixtures_follow_from_exact_moments(seed):
    rng = np.random.default_rng(seed)
    rank, size = 3, 7
    means, w = rng.standard_normal((rank, size)), rng.dirichlet(np.full(rank, 5.0))
    along = rng.uniform(0.2, 1.0, (rank, size))
    mean, common = w @ means, w @ along
    square = (means.T * w) @ means + np.diag(common)
    found = common_diagonal(square - np.outer(mean, mean), rank - 1)
    np.testing.assert_allclose(found, common, atol=2e-4)
    values, vectors = np.linalg.eigh(square - np.diag(common))
    u, inside = vectors[:, -rank:], values[-rank:]
    cubes = np.einsum("k,ki,kj,kl->ijl", w, means, means, means)
    i, j, k = np.indices(cubes.shape)
    different = np.where((i == j) | (j == k) | (i == k), 0.0, cubes)
    different = np.einsum("ijl,ia,jb,lc->abc", different, u, u, u)
    law = np.full(rank, 1e-6), np.full((rank,) * 2, 1e-6), np.full((rank,) * 3, 1e-6)
    got, _ = fit_different(different, inside, u.T @ mean, u, law, rng)
    order = matching(got, means)
    np.testing.assert_allclose(got[order], means, atol=2e-2)
    squares = w[:, None] * (means**2 + along)
    beside = squares.T @ (means @ u) - (squares * means).sum(axis=0)[:, None] * u
    spreads = own_diagonals(means, 1e9 * w, common, 1e9 * beside, u, 0.0)
    np.testing.assert_allclose(spreads, along, atol=1e-3)
