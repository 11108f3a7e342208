"""The density behind `auto`: against SciPy's laws, and its gradient against differences."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

from tacit.regression.numerics.hamiltonian import density as gradient
from tacit.regression.numerics.hamiltonian.kernel import TiedGramSampler
from tacit.regression.numerics.hamiltonian.loop import stretch
from tacit.regression.numerics.laws import draw_frame
from tacit.regression.numerics.moments import Prior
from tests.oracles.regression import normal_sites, wishart

D = 3


def scratch(grams, factors):
    room = np.zeros((6, D, D)), np.zeros((8, D))
    return gradient.Scratch(grams.copy(), factors.copy(), np.zeros_like(grams), *room)


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
        known = np.array([both[-1], n, square_sd**2, rows_sd**2])
        noise = np.array([gram_sd**2, cross_sd**2])
        possible, value, _ = gradient.site_terms(
            gram, seen, both[:-1], known, noise, beta, variance,
            scratch(gram[None], gram[None]), np.empty((D, D)), np.zeros(D),
        )  # fmt: skip
        assert possible
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
    state = sampler.init(rng)
    factors = np.linalg.cholesky(state.grams)
    frame = np.linalg.cholesky(wishart(rng, np.eye(D) / 30, 30))
    bases = np.linalg.solve(frame, factors)
    packed, blocks = D * (D + 1) // 2, 1 if common else 2
    position = np.zeros(blocks * packed + D + 1)
    for block in range(blocks):
        gradient.from_factor(frame if common else factors[block], position, block * packed)
    position[blocks * packed :] = *state.coefficients, state.scales[0]
    freedom = np.array([40.0, 30.0])
    law = gradient.Law(freedom, freedom / sampler.data.rows, 75.0, 4.0,
                       0.3 * sampler.data.scale, 1.3, 0.8**-2 - 1.3)  # fmt: skip

    def density(at):
        out = np.zeros_like(position)
        room = scratch(state.grams, factors)
        target = gradient.Target(common, sampler.data, law, bases, room)
        return gradient.log_density(target, at, out), out

    _, slope = density(position)
    for i in range(len(position)):
        step = np.zeros_like(position)
        step[i] = 1e-5
        change = (density(position + step)[0] - density(position - step)[0]) / 2e-5
        moves = common or i >= packed * 2 or not (exact and i >= packed)
        expected = change if moves else 0.0
        assert slope[i] == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_packing_and_unpacking_a_factor_are_inverse():
    factor = np.linalg.cholesky(wishart(np.random.default_rng(2), np.eye(D), 9))
    packed, back = np.zeros(8), np.ones((D, D))
    gradient.from_factor(factor, packed, 2)
    gradient.to_factor(packed, 2, back)
    np.testing.assert_allclose(back, factor)


def test_frames_are_draws_of_an_inverse_wishart():
    rng = np.random.default_rng(3)
    scale, freedom = wishart(rng, np.eye(D), 9), 9.5
    factor, frame, draws = np.linalg.cholesky(scale), np.empty((D, D)), []
    for _ in range(20_000):
        draw_frame(rng, factor, freedom, np.empty((D, D)), frame)
        draws.append(frame @ frame.T)
    law = stats.invwishart(freedom, scale)
    found, expected = np.mean(draws, axis=0), law.mean()
    np.testing.assert_allclose(found, expected, atol=5 * np.sqrt(law.var().max() / 20_000))
    np.testing.assert_allclose(np.diag(np.var(draws, axis=0)), np.diag(law.var()), rtol=0.25)


@pytest.mark.parametrize(("old", "new"), [(3.0, 40.0), (40.0, 3.0), (900.0, 700.0)])
def test_other_degrees_of_freedom_keep_the_place_in_the_law(old, new):
    """The correction makes the map exact: E[f(image)·ratio] is E f under the new law."""
    square, step = stats.chi2(old).ppf(0.3), 1e-6
    fits, image, ratio = stretch(square, old, new)
    assert fits
    assert stats.chi2(new).cdf(image) == pytest.approx(0.3, abs=0.02)
    _, further, _ = stretch(square + step, old, new)
    derivative = (further - image) / step
    expected = stats.chi2(new).logpdf(image) - stats.chi2(old).logpdf(square) + np.log(derivative)
    assert ratio == pytest.approx(expected, abs=1e-4)
    assert stretch(image, new, old)[1] == pytest.approx(square)
