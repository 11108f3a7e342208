"""The density behind `auto`: against SciPy's laws, and its gradient against differences."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from tacit._core import kernels
from tacit.regression.numerics.hamiltonian import coordinates, density, loop
from tacit.regression.numerics.hamiltonian.kernel import TiedGramSampler
from tacit.regression.numerics.moments import Prior
from tests.oracles.regression import normal_sites, wishart

D = 3


def test_what_a_site_says_is_a_joint_gaussian():
    """Of (ẑ, û), with Cov(ẑ, û) = 2σ²Sβ, and of Ŝ, with half the variance off the diagonal."""
    rng = np.random.default_rng(7)
    n, variance, gram_sd, cross_sd, square_sd, rows_sd = 40.0, 0.4, 1.2, 1.5, 2.0, 3.0
    gram, beta = wishart(rng, np.eye(D), 9), rng.standard_normal(D)
    m = variance * gram + cross_sd**2 * np.eye(D)
    edge = 2 * variance * gram @ beta
    corner = 4 * variance * beta @ gram @ beta + variance**2 * (2 * n + rows_sd**2) + square_sd**2
    law = stats.multivariate_normal(
        np.append(gram @ beta, beta @ gram @ beta + n * variance),
        np.block([[m, edge[:, None]], [edge, corner]]),
    )
    upper = np.triu_indices(D, 1)

    def expected(seen, both):
        gap = seen - gram
        return (
            law.logpdf(both)
            + stats.norm(0, gram_sd).logpdf(np.diag(gap)).sum()
            + stats.norm(0, gram_sd / np.sqrt(2)).logpdf(gap[upper]).sum()
        )

    def ours(seen, both):
        known = np.array([[both[-1], n, square_sd**2, rows_sd**2]])
        noise = np.array([[gram_sd**2, cross_sd**2]])
        vectors = np.zeros((7, D))
        vectors[0] = beta
        data = seen, both[None, :-1], known, noise
        value, _ = density.site_terms(
            0, 0, data, gram.copy(), variance, vectors, np.empty(D), np.empty((D, D))
        )
        return value

    cases = [(wishart(rng, np.eye(D), 9), rng.standard_normal(D + 1) * 9) for _ in range(3)]
    for one, two in pairwise(cases):
        assert ours(*one) - ours(*two) == pytest.approx(expected(*one) - expected(*two))


@pytest.mark.parametrize("common", [False, True])
@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("squares", [False, True])
def test_the_gradient_is_that_of_the_density(common, exact, squares):
    rng = np.random.default_rng(1)
    seen, _ = normal_sites(rng, rng.standard_normal(D), np.eye(D) + 0.3, 0.5, [50, 40], 5.0)
    seen = [replace(m, rows_sd=2.0, square=m.square if squares else None) for m in seen]
    if exact:
        seen[1] = replace(seen[1], gram_sd=0.0)
    sampler = TiedGramSampler(seen, Prior(intercept_sd=0.8))
    state = sampler.init(rng, 2)
    factors = np.linalg.cholesky(state.grams)
    freedom = np.array([[40.0, 30.0], [35.0, 45.0]])
    law = coordinates.Law(
        freedom, freedom / sampler.data.rows, np.array([75.0, 84.0]), np.array([4.0, 5.0]),
        np.array([0.3, 0.4])[:, None, None] * sampler.data.scale,
        np.array([1.3, 0.7]), 0.8**-2 - np.array([1.3, 0.7]),
    )  # fmt: skip
    looked = coordinates.Density(sampler.data, state.grams, factors, density.site_slopes)
    bases, moving = None, factors
    if common:
        frames = np.linalg.cholesky([wishart(rng, np.eye(D) / 30, 30) for _ in range(2)])
        bases, moving = np.linalg.solve(frames[:, None], factors), frames[:, None]
        if exact:
            bases[:, 1] = 0.0
    target = looked.target(law, bases)
    position = coordinates.pack(moving, state.coefficients, state.scales[:, 0])
    value, slope = looked.look(target, position)
    slope = slope.copy()
    assert np.array_equal(looked.look(target, position, valued=False)[1], slope)
    lower = np.tril(np.ones((D, D), bool)).ravel()
    blocks = moving.shape[1]
    moves = np.concatenate([np.tile(lower, blocks), np.ones(D + 1, bool)])
    if exact and not common:
        moves[D * D : 2 * D * D] = False
    for i in np.flatnonzero(moves):
        step = np.zeros_like(position)
        step[:, i] = 1e-5
        ends = [looked.look(target, position + sign * step)[0] for sign in (1, -1)]
        expected = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose(slope[:, i], expected, rtol=1e-5, atol=1e-5)
    alone = coordinates.Density(sampler.data, state.grams[1:], factors[1:], density.site_slopes)
    own = coordinates.Law(*(part[1:] for part in law))
    again, _ = alone.look(alone.target(own, None if bases is None else bases[1:]), position[1:])
    assert again[0] == pytest.approx(value[1])


@pytest.mark.parametrize("d", [1, 4])
def test_a_compiled_look_equals_its_python_twin(d):
    rng = np.random.default_rng(d)
    seen, _ = normal_sites(rng, rng.standard_normal(d), np.eye(d) + 0.3, 0.5, [50, 40], 5.0)
    data = TiedGramSampler(seen, Prior()).data
    grams = np.array([[wishart(rng, np.eye(d), 9) for _ in range(2)] for _ in range(3)])
    stacks = grams.reshape(-1, d), np.linalg.cholesky(grams).reshape(-1, d)
    released = data.seen.reshape(-1, d), data.cross, data.known, data.noise
    places, pull = rng.standard_normal((3, d + 1)), rng.standard_normal((3 * d, d))
    found = []
    fast = kernels.compiled(density.site_slopes, reassociate=True, unchecked=True)
    for kernel in (density.site_slopes, fast):
        room = np.empty_like(stacks[0]), np.empty((7, d)), np.empty(d)
        out, totals = np.zeros_like(stacks[0]), np.empty((3, d + 2))
        kernel(released, places, *stacks, (pull, np.ones((3, 2))), room, out, totals)
        found.append((out, totals))
    for left, right in zip(*found, strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-9)


def test_a_chain_that_is_lost_stops_no_other():
    rng = np.random.default_rng(4)
    seen, _ = normal_sites(rng, rng.standard_normal(D), np.eye(D), 0.5, [50], 5.0)
    sampler = TiedGramSampler(seen, Prior())
    state, _ = sampler.run(rng, sampler.init(rng, 3), 5)
    for kind in (0, 1):
        state.tuning[1, kind] = 60.0  # steps of e⁶⁰
    after, info = sampler.run(rng, state, 20)
    assert np.isfinite(info.coefficients).all()
    assert np.isfinite(after.grams).all()
    for chain, moves in enumerate((True, False, True)):
        assert np.array_equal(after.grams[chain, 0], state.grams[chain, 0]) != moves


def test_frames_are_draws_of_an_inverse_wishart():
    rng = np.random.default_rng(3)
    scale, freedom = wishart(rng, np.eye(D), 9), 9.5
    factors = np.tile(np.linalg.cholesky(scale), (20_000, 1, 1))
    frames = loop.draw_frames(rng, factors, np.full(20_000, freedom))
    draws = frames @ frames.transpose(0, 2, 1)
    assert np.abs(np.triu(frames, 1)).max() == 0.0
    law = stats.invwishart(freedom, scale)
    found, expected = np.mean(draws, axis=0), law.mean()
    np.testing.assert_allclose(found, expected, atol=5 * np.sqrt(law.var().max() / 20_000))
    np.testing.assert_allclose(np.diag(np.var(draws, axis=0)), np.diag(law.var()), rtol=0.25)


@pytest.mark.parametrize(("old", "new"), [(3.0, 40.0), (40.0, 3.0), (900.0, 700.0)])
def test_other_degrees_of_freedom_keep_the_place_in_the_law(old, new):
    """The correction makes the map exact: E[f(image)·ratio] is E f under the new law."""
    square, step = stats.chi2(old).ppf(0.3), 1e-6
    image, ratio = loop.stretch(square, old, new)
    assert stats.chi2(new).cdf(image) == pytest.approx(0.3, abs=0.02)
    further, _ = loop.stretch(square + step, old, new)
    derivative = (further - image) / step
    expected = stats.chi2(new).logpdf(image) - stats.chi2(old).logpdf(square) + np.log(derivative)
    assert ratio == pytest.approx(expected, abs=1e-4)
    assert loop.stretch(image, new, old)[0] == pytest.approx(square)
    assert np.isnan(loop.stretch(1e-6, 900.0, 1.0)[1])  # it has no image
