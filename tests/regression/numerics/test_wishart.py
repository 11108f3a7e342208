"""Joint-distribution (Geweke) tests of the samplers of S, β and σ², and their building blocks.

Each copy starts from the prior and alternates: data given the state, one step given the data. If
the step leaves the posterior invariant, the state keeps its prior law at all times. Copies are
independent, so their spread is the Monte-Carlo error.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit._core import kernels, linear
from tacit.regression.numerics import laws as regression_density
from tacit.regression.numerics.bernstein_sheldon import MomentSampler, MomentState
from tacit.regression.numerics.hamiltonian.kernel import TiedGramSampler, TiedState
from tacit.regression.numerics.hamiltonian.loop import log_spread
from tacit.regression.numerics.moments import Moments, Prior, cross_log_density
from tacit.regression.numerics.start import Data
from tacit.regression.numerics.wishart import loop as regression_sweep
from tacit.regression.numerics.wishart.kernel import GibbsState, SiteGramSampler
from tests.oracles.regression import inverse_wishart, normal_sites, released, scores, wishart

D, ROWS = 2, (9, 14)
SCALE, KAPPA = np.array([[6.0, 2.0], [2.0, 4.0]]), D + 6.0
TAU, TAU_Z, TAU_U, ROWS_SD = 6.0, 3.0, 8.0, 1.5
A, B = 4.0, 2.0
OWN = 0.4  # prior sd of the first coefficient, an intercept
# Bonferroni over at most 40 scores: P(any |z| > 5) < 40 · 6e-7 < 1e-4
THRESHOLD = 5.0


def prior_state(rng, learn):
    """Draw (S_j, β, scales) from the prior."""
    spread = (0.1 * np.abs(rng.standard_cauchy())) ** 2
    variance0 = 0.2 / rng.gamma(2.0) if learn else 0.7**2
    size = 0.01 * 100.0 ** rng.standard_normal() if learn else 1.0
    features = inverse_wishart(rng, size * SCALE, KAPPA)
    grams = []
    for n in ROWS:
        base = 1.0 / (1.0 / n + (ROWS_SD / n) ** 2)
        nu = D + 1.0 / (1.0 / base + spread) if learn else n
        grams.append(wishart(rng, features * n / nu, nu))
    beta = (0.0 if learn else 0.3) + np.sqrt(variance0) * rng.standard_normal(D)
    beta[0] = (0.0 if learn else 0.3) + OWN * rng.standard_normal()
    variance = B / rng.gamma(A)
    return np.array(grams), beta, np.log([variance, spread, variance0, size])


def data_given(rng, grams, beta, scales, learn, noise=released):
    variance = np.exp(scales[0])
    sites = []
    for n, gram in zip(ROWS, grams, strict=True):
        residual = np.sqrt(variance) * np.linalg.cholesky(gram) @ rng.standard_normal(D)
        extra = ROWS_SD if learn else 0.0
        errors = variance * (n + np.sqrt(2 * n + extra**2) * rng.standard_normal())
        square = beta @ gram @ beta + 2 * beta @ residual + errors
        sites.append(noise(rng, gram, gram @ beta + residual, n, square, TAU, TAU_Z, TAU_U, extra))
    return sites


def statistics(grams, beta, scales, learn):
    values = [*beta, scales[0], beta @ grams[0] @ beta, grams[0][0, 0], grams[1][0, 1],
              np.linalg.det(grams[1])]  # fmt: skip
    return [*values, *scales[1:]] if learn else values


def settled(sampler, grams, beta, scales, step):
    """Return a state whose tuning knows nothing of it."""
    if isinstance(sampler, SiteGramSampler):
        tuning = np.concatenate([np.tile([2.5, 0.0], 2), [1.0, 0.0, -0.5]])
        return GibbsState(grams, np.linalg.cholesky(grams), beta, scales[:1], tuning, step)
    # the default Λ is a multiple of the identity; here it is another matrix
    sampler.settings[6] = 1.0
    tuning = np.array([[-1.2, -1.6, 0.5, 0.5, 1.0]])
    widths = 0.4 * (sampler.init(np.random.default_rng(0)).widths > 0.0)
    running = np.zeros((2, *widths.shape))
    return TiedState(grams[None], beta[None], scales[None], tuning, widths, running, step, 0)


def geweke(seed, learn, noise=released, copies=110, steps=25):
    rng = np.random.default_rng(seed)
    prior = Prior(
        sd=None if learn else 0.7, mean=0.0 if learn else 0.3, noise_shape=A, noise_scale=B,
        freedom=KAPPA, features=SCALE, intercept_sd=OWN,
    )  # fmt: skip
    reference = np.array([statistics(*prior_state(rng, learn), learn) for _ in range(4000)])
    trace = np.empty((copies, steps, reference.shape[1]))
    for copy in range(copies):
        grams, beta, scales = prior_state(rng, learn)
        for step in range(steps):
            seen = data_given(rng, grams, beta, scales, learn, noise)
            sampler = TiedGramSampler(seen, prior) if learn else SiteGramSampler(seen, prior)
            q = sampler.basis
            state = settled(sampler, q.T @ grams @ q, q.T @ beta, scales, step)
            state, _ = sampler.step(rng, state)
            drawn, place, found = state.grams, state.coefficients, state.scales
            if learn:  # a single chain of those that go in step
                drawn, place, found = drawn[0], place[0], found[0]
            grams, beta = q @ drawn @ q.T, q @ place
            scales[: len(found)] = found
            trace[copy, step] = statistics(grams, beta, scales, learn)
    return scores(reference, trace)


@pytest.mark.parametrize("learn", [False, True])
def test_a_chain_over_unknown_grams_keeps_the_joint_distribution(learn):
    assert np.abs(geweke(1, learn)).max() < THRESHOLD


@pytest.mark.parametrize("learn", [False, True])
def test_a_chain_with_an_exact_gram_keeps_the_joint_distribution(learn):
    """Its S stays, and says what the features are like."""

    def first_is_exact(rng, gram, cross, n, square, gram_sd, *rest):
        return released(rng, gram, cross, n, square, 0.0 if n == ROWS[0] else gram_sd, *rest)

    assert np.abs(geweke(2, learn, first_is_exact)).max() < THRESHOLD


@pytest.mark.parametrize(("learn", "factor", "copies"), [(False, 1.6, 400), (True, 4.0, 250)])
def test_too_little_stated_noise_is_caught(learn, factor, copies):
    def more_noise(rng, gram, cross, n, square, gram_sd, cross_sd, square_sd, rows_sd):
        more = released(rng, gram, cross, n, square, gram_sd, factor * cross_sd, square_sd)
        return Moments(more.gram, more.cross, n, square, gram_sd, cross_sd, square_sd, rows_sd)

    assert np.abs(geweke(3, learn, more_noise, copies=copies)).max() > THRESHOLD


def test_a_chain_with_fixed_grams_keeps_the_joint_distribution():
    rng = np.random.default_rng(4)
    grams = np.array([wishart(rng, np.eye(D), n) for n in ROWS])
    prior = Prior(sd=0.7, mean=0.3, noise_shape=A, noise_scale=B)

    def draw():
        return np.append(0.3 + 0.7 * rng.standard_normal(D), np.log(B / rng.gamma(A)))

    reference = np.array([draw() for _ in range(4000)])
    trace = np.empty((100, 20, 3))
    for copy in range(100):
        values = draw()
        for step in range(20):
            sites = []
            for n, gram in zip(ROWS, grams, strict=True):
                m = np.exp(values[2]) * gram + TAU_Z**2 * np.eye(D)
                cross = gram @ values[:D] + np.linalg.cholesky(m) @ rng.standard_normal(D)
                sites.append(Moments(gram, cross, n, None, TAU, TAU_Z))
            sampler = SiteGramSampler(sites, prior, fixed=True)
            start = sampler.init(rng)
            state = start._replace(
                coefficients=sampler.basis.T @ values[:D],
                scales=np.array([values[2]]),
            )
            state, info = sampler.step(rng, state)
            values = np.append(info.coefficients[0], state.scales[0])
            trace[copy, step] = values
    assert np.abs(scores(reference, trace)).max() < THRESHOLD


@pytest.mark.parametrize("isotropic", [True, False])
def test_a_chain_over_moments_keeps_the_joint_distribution_at_large_n(isotropic):
    """B&S rests on the central limit theorem: its conditionals agree for many rows only."""
    rng = np.random.default_rng(5)
    rows = (3000, 5000)
    prior = Prior(sd=0.7, noise_shape=A, noise_scale=B, freedom=KAPPA, features=SCALE)
    tau = 80.0
    noises = (tau, tau / np.sqrt(2), tau) if isotropic else (tau, 0.8 * tau, 0.5 * tau)

    def draw():
        variance = B / rng.gamma(A)
        beta = 0.7 * np.sqrt(variance) * rng.standard_normal(D)
        return inverse_wishart(rng, SCALE, KAPPA), beta, variance

    def facts(features, beta, variance):
        return [*beta, np.log(variance), features[0, 0], features[0, 1], np.linalg.det(features)]

    reference = np.array([facts(*draw()) for _ in range(4000)])
    trace = np.empty((120, 15, reference.shape[1]))
    for copy in range(120):
        features, beta, variance = draw()
        for step in range(15):
            edge = features @ beta
            omega = np.block([[features, edge[:, None]], [edge, beta @ edge + variance]])
            sites = []
            for n in rows:
                total = wishart(rng, omega, n)
                sites.append(released(rng, total[:D, :D], total[:D, D], n, total[D, D], *noises))
            sampler = MomentSampler(sites, prior)
            unit = sampler.unit
            between = sampler.data.seen.copy()
            state = MomentState(
                features, beta * unit, np.array([np.log(variance * unit**2), 0, 0]), between
            )
            for _ in range(1 if isotropic else 4):  # `between` starts at T̂, then settles
                state, info = sampler.step(rng, state)
            features, beta = state.features, info.coefficients[0]
            variance = np.exp(info.scales[0, 0])
            trace[copy, step] = facts(features, beta, variance)
    assert np.abs(scores(reference, trace)).max() < THRESHOLD + 1.0


# --- densities and kernels against oracles ---------------------------------------------------


@pytest.mark.parametrize(("d", "sites", "learn"), [(1, 1, True), (3, 2, False), (4, 3, True)])
def test_a_compiled_chain_equals_its_python_twin(d, sites, learn):
    rng = np.random.default_rng(d)
    features = np.eye(d) + 0.3
    seen, _ = normal_sites(rng, rng.standard_normal(d), features, 0.5, [50] * sites, 5.0)
    sampler = TiedGramSampler(seen, Prior()) if learn else SiteGramSampler(seen, Prior())
    state = sampler.init(np.random.default_rng(1))
    fast, info = sampler.run(np.random.default_rng(2), state, 6, adapt=True)
    slow, twin = sampler.run(np.random.default_rng(2), state, 6, adapt=True, compiled=False)
    np.testing.assert_allclose(info.coefficients, twin.coefficients, rtol=1e-7)
    for left, right in zip(fast, slow, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-7, atol=1e-12)


def test_compiled_moment_draws_equal_their_python_twin():
    rng = np.random.default_rng(1)
    seen, _ = normal_sites(rng, np.array([1.0, -0.5, 0.2]), np.eye(3), 0.5, [50, 80], 5.0)
    sampler = MomentSampler(seen, Prior(sd=1.0))
    state = sampler.init(np.random.default_rng(1))
    _, info = sampler.run(np.random.default_rng(2), state, 5)
    _, twin = sampler.run(np.random.default_rng(2), state, 5, compiled=False)
    np.testing.assert_allclose(info.coefficients, twin.coefficients, rtol=1e-6)


def test_the_law_of_the_grams_is_that_of_its_parts_with_features_integrated_out():
    """Proposition 2: p(S | Σ)·p(Σ)/IW(Σ; Λ + ΣνS/n, κ + Σν) does not depend on Σ and is p(S)."""
    rng = np.random.default_rng(3)
    rows, spread = np.array([9.0, 14.0]), 0.02

    def whole(grams, h, features):
        nus = [D + 1.0 / (1.0 / n + h) for n in rows]
        value = stats.invwishart(KAPPA, SCALE).logpdf(features)
        scale = SCALE.copy()
        for nu, n, gram in zip(nus, rows, grams, strict=True):
            value += stats.wishart(nu, features * n / nu).logpdf(gram)
            scale = scale + nu / n * gram
        value -= stats.invwishart(KAPPA + sum(nus), scale).logpdf(features)
        root = np.sqrt(h)
        return value + stats.halfcauchy(scale=0.1).logpdf(root) + np.log(root)

    def ours(grams, h):
        data = Data(*8 * [None], None, np.array([KAPPA]))._replace(rows=rows, freedoms=rows)
        log_dets = np.linalg.slogdet(grams)[1][None]
        return log_spread(data, grams[None], log_dets, SCALE[None], np.array([h]))[0]

    grams = np.array([wishart(rng, np.eye(D), n) for n in rows])
    other = np.array([wishart(rng, 2 * np.eye(D), n) for n in rows])
    first, second = inverse_wishart(rng, SCALE, KAPPA), inverse_wishart(rng, SCALE, KAPPA)
    assert whole(grams, spread, first) == pytest.approx(whole(grams, spread, second))
    for left, right in (((grams, 0.02), (grams, 0.5)), ((grams, 0.3), (other, 0.3))):
        expected = whole(*left, first) - whole(*right, first)
        assert ours(*left) - ours(*right) == pytest.approx(expected)


def test_the_gaussian_conditional_of_the_coefficients():
    """Proposition 3, C⁻¹m inside the bracket: density differences of the two sides agree."""
    rng = np.random.default_rng(6)
    d, variance, cross_sd = 3, 0.4, 1.5
    grams = [wishart(rng, np.eye(d), 7) for _ in range(2)]
    cross = [rng.standard_normal(d) * 5 for _ in range(2)]
    precision, linear_part = np.eye(d) * 2.0, 2.0 * np.full(d, 0.4)
    for gram, z in zip(grams, cross, strict=True):
        factor, each, k = np.empty((d, d)), np.empty((d, d)), np.empty(d)
        possible, _ = regression_density.describe(
            gram, z, variance, cross_sd**2, np.empty((d, d)), np.empty((4, d)), factor, each, k
        )
        assert possible
        inner = np.linalg.inv(variance * gram + cross_sd**2 * np.eye(d))
        np.testing.assert_allclose(each, gram @ inner @ gram)
        np.testing.assert_allclose(k, gram @ inner @ z)
        precision, linear_part = precision + each, linear_part + k
    law = stats.multivariate_normal(
        np.linalg.solve(precision, linear_part), np.linalg.inv(precision)
    )

    def joint(beta):
        value = stats.norm(0.4, np.sqrt(0.5)).logpdf(beta).sum()
        return value + sum(
            cross_log_density(z, g, beta, variance, cross_sd)
            for g, z in zip(grams, cross, strict=True)
        )

    one, two = rng.standard_normal(d), rng.standard_normal(d)
    assert joint(one) - joint(two) == pytest.approx(law.logpdf(one) - law.logpdf(two))


def test_the_law_of_the_noise_on_a_gram_halves_the_variance_off_the_diagonal():
    rng = np.random.default_rng(10)
    gram, one, two = (wishart(rng, np.eye(3), 9) for _ in range(3))

    def density(seen, share):
        gap = seen - gram
        upper = gap[np.triu_indices(3, 1)]
        return (
            stats.norm(0, TAU).logpdf(np.diag(gap)).sum()
            + stats.norm(0, TAU * np.sqrt(share)).logpdf(upper).sum()
        )

    ours = (
        -0.5 / TAU**2 * (regression_sweep._misfit(one, gram) - regression_sweep._misfit(two, gram))
    )
    assert ours == pytest.approx(density(one, 0.5) - density(two, 0.5))
    assert ours != pytest.approx(density(one, 1.0) - density(two, 1.0), rel=0.01)


def test_small_linear_algebra_equals_numpy():
    rng = np.random.default_rng(8)
    for d in (1, 2, 7):
        a = wishart(rng, np.eye(d), d + 3)
        b, g = rng.standard_normal(d), 0.2 * rng.standard_normal((d, d))
        factor, out, square, work = (
            np.empty((d, d)),
            np.empty(d),
            np.zeros((d, d)),
            np.empty((d, d)),
        )
        assert linear.cholesky(a, factor)
        np.testing.assert_allclose(factor, np.linalg.cholesky(a))
        linear.from_precision(factor, b, np.zeros(d), np.empty(d), out)
        np.testing.assert_allclose(out, np.linalg.solve(a, b))
        linear.add_outer_solve(factor, a, work, square)
        np.testing.assert_allclose(square, a)
        inverse = linear.squared_norm_of_inverse(factor, np.empty(d))
        assert inverse == pytest.approx((np.linalg.inv(factor) ** 2).sum())
        turn, back = np.empty((d, d)), np.empty((d, d))
        possible, growth = linear.cayley(g, np.empty((d, d)), turn)
        assert possible
        assert growth == pytest.approx(np.linalg.slogdet(turn)[1])
        linear.cayley(-g, np.empty((d, d)), back)
        np.testing.assert_allclose(turn @ back, np.eye(d), atol=1e-12)
        linear.congruence(turn, a, work, square)
        np.testing.assert_allclose(square, turn @ a @ turn.T)
    assert not linear.cholesky(np.diag([1.0, -1.0]), np.empty((2, 2)))


def test_bartlett_draws_are_wishart():
    rng = np.random.default_rng(9)
    draw = kernels.compiled(_many_bartlett)
    out = np.empty((20000, 3, 3))
    draw(rng, 7.5, out)
    products = out @ out.transpose(0, 2, 1)
    expected = stats.chi2(7.5)
    assert stats.kstest(products[:, 1, 1], expected.cdf).pvalue > 1e-4
    np.testing.assert_allclose(products.mean(axis=0), 7.5 * np.eye(3), atol=0.15)
    # Var of an entry off the diagonal is ν
    assert products[:, 0, 2].var() == pytest.approx(7.5, rel=0.06)


_bartlett = linear.bartlett


def _many_bartlett(rng, freedom, out):
    for i in range(out.shape[0]):
        _bartlett(rng, freedom, out[i])
