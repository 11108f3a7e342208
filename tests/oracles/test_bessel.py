"""Draws from the Bessel law against its exact probabilities."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from tacit._core import kernels
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tests.oracles import bessel as module
from tests.oracles.bessel import bessel, log_weight

# narrow and wide, small and large order, and both sides of the switch between the two methods
CASES = [
    (0, 0.01), (0, 1.0), (0, 6.5), (1, 2.0), (2, 33.0), (7, 12.5), (40, 9.0), (1000, 30.0),
    (0.5, 3.0), (0, 62.0), (0, 64.5), (0, 67.0), (3, 70.0), (25, 80.0), (25, 100.0),
    (300, 250.0), (2.5, 200.0), (5000, 600.0), (0, 1e4), (1e4, 1e4), (1e5, 5e3), (1e6, 1e4),
    (0, 1e6), (1e6, 1e6), (17, 1e6), (1e6, 1.0),
]  # fmt: skip


def mode_of(order, argument):
    return math.floor((math.hypot(order, argument) - order) / 2)


def exact(order, argument):
    """Return (first k, probabilities) over all k that matter, by ratios from the mode in mpmath.

    Weights below 1e-25 of the mode's are left out.
    """
    with mpmath.workdps(40):
        q = mpmath.mpf(argument) ** 2 / 4
        mode = mode_of(order, argument)
        up, down = [mpmath.mpf(1)], []
        k = mode
        while up[-1] > 1e-25:
            k += 1
            up.append(up[-1] * q / (k * (k + order)))
        k, weight = mode, mpmath.mpf(1)
        while k > 0 and weight > 1e-25:
            weight *= k * (k + order) / q
            k -= 1
            down.append(weight)
        weights = down[::-1] + up
        total = mpmath.fsum(weights)
        return mode - len(down), np.array([float(w / total) for w in weights])


def fit(draws, order, argument, least=25.0):
    """Return the p-value of a chi-square test, with neighbours merged into bins."""
    first, probabilities = exact(order, argument)
    expected = probabilities * len(draws)
    bins = np.minimum((np.cumsum(expected) - expected / 2) // least, expected.sum() // least - 1)
    if len(np.unique(bins)) < 2:
        return 1.0
    assert draws.min() >= first
    assert draws.max() < first + len(expected)
    counts = np.bincount(draws - first, minlength=len(expected))
    labels = np.unique(bins, return_inverse=True)[1]
    observed, merged = np.bincount(labels, counts), np.bincount(labels, expected)
    return stats.chisquare(observed, merged * observed.sum() / merged.sum()).pvalue


@pytest.mark.parametrize(("order", "argument"), [(0, 3.0), (4, 50.0), (2.5, 7.0), (60, 20.0)])
def test_the_oracle_is_the_law_of_the_definition(order, argument):
    first, probabilities = exact(order, argument)
    for k in (first, first + 3, mode_of(order, argument)):
        half = mpmath.mpf(argument) / 2
        top = half ** (2 * k + order) / (mpmath.factorial(k) * mpmath.gamma(k + order + 1))
        law = top / mpmath.besseli(order, argument)
        assert probabilities[k - first] == pytest.approx(float(law), rel=1e-12)


@pytest.mark.parametrize(("order", "argument"), CASES)
def test_draws_follow_the_exact_law(order, argument):
    draws = bessel(generator(1, f"{order} {argument}"), np.full(150_000, order), argument)
    assert fit(draws, order, argument) > 1e-5


@pytest.mark.parametrize(
    ("order", "argument", "wrong"),
    [(1, 2.0, (2, 2.0)), (25, 100.0, (26, 100.0)), (0, 64.5, (0, 65.0)), (1e4, 1e4, (10010, 1e4))],
)
def test_draws_of_another_law_are_caught(order, argument, wrong):
    draws = bessel(generator(1, "wrong"), np.full(150_000, order), argument)
    assert fit(draws, *wrong) < 1e-6


def test_the_squeeze_and_the_hat_leave_no_trace():
    """A million draws where the parameters differ by cell: the shares below each cell's median."""
    rng = generator(2, "mixed")
    pairs = [(o, a) for o in (0, 2, 30, 500) for a in (40.0, 63.0, 66.0, 90.0, 400.0)]
    tables = [exact(*pair) for pair in pairs]
    which = np.repeat(np.arange(len(pairs)), 50_000)
    orders, arguments = np.array(pairs).T
    draws = bessel(rng, orders[which], arguments[which])
    for level in (0.02, 0.25, 0.5, 0.75, 0.98):
        below = expected = variance = 0.0
        for i, (first, probabilities) in enumerate(tables):
            edge = int(np.searchsorted(np.cumsum(probabilities), level))
            share = probabilities[: edge + 1].sum()
            mine = draws[which == i]
            below += (mine <= first + edge).sum()
            expected += share * len(mine)
            variance += share * (1 - share) * len(mine)
        assert abs(below - expected) < 5 * math.sqrt(variance)


def test_the_smaller_of_two_poisson_counts_given_their_difference():
    rng = np.random.default_rng(0)
    first, second = rng.poisson(6.0, 2_000_000), rng.poisson(2.5, 2_000_000)
    smaller = second[first - second == 3]
    assert fit(smaller, 3, 2 * math.sqrt(6.0 * 2.5)) > 1e-5


@pytest.mark.parametrize(
    ("order", "argument"), [(0, 70.0), (3, 1e3), (1e6, 1e4), (1e6, 1e6), (0, 1e6), (12.5, 300.0)]
)
def test_weights_relative_to_the_mode_are_exact(order, argument):
    mode, q = mode_of(order, argument), argument**2 / 4
    with mpmath.workdps(50):
        for k in {0, mode // 2, mode - 7, mode - 1, mode, mode + 1, mode + 40, 2 * mode + 1}:
            if abs(k - mode) > 20_000:
                continue
            expected = (k - mode) * mpmath.log(mpmath.mpf(argument) ** 2 / 4)
            for shift in (1, order + 1):
                expected -= mpmath.loggamma(k + shift) - mpmath.loggamma(mode + shift)
            assert log_weight(k, mode, order, q) == pytest.approx(float(expected), abs=1e-10)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])  # of the way to the next mode
@pytest.mark.parametrize(
    ("mode", "order"),
    [(17.0, 1e6), *itertools.product((33.0, 100.0, 2500.0, 4e5), (0.0, 0.5, 3.0, 200.0, 1e6))],
)
def test_hat_and_squeeze_enclose_the_law(mode, order, share):
    """Over twelve standard deviations either way, and q from its least to its largest value."""
    q = (1 - share) * mode * (mode + order) + share * (mode + 1) * (mode + 1 + order)
    deviation = math.sqrt(mode * (mode + order) / (2 * mode + order))
    assert deviation >= module._NARROW  # narrower laws are inverted
    first, last, height_left, height_right, slope_left, slope_right = module._hat(
        mode, order, q, deviation
    )
    reach = math.ceil(12 * deviation)
    accepted = proposed = 0.0
    for k in np.arange(max(mode - reach, 0.0), mode + reach, max(1, reach // 300)):
        exact_log = log_weight(k, mode, order, q)
        hat = 0.0
        if k > last:
            hat = height_right + (k - last - 1) * slope_right
        elif k < first:
            hat = height_left + (first - 1 - k) * slope_left
        assert module._squeeze(k, mode, order) <= exact_log + 1e-9
        assert exact_log <= hat + 1e-9
        accepted, proposed = accepted + math.exp(exact_log), proposed + math.exp(hat)
    assert first <= mode <= last
    assert accepted / proposed > 0.7


@pytest.mark.parametrize("argument", [1e6, 3e5])
@pytest.mark.parametrize("order", [0, 1e6])
def test_the_mean_at_large_values(order, argument):
    """The mean is a/2·I_{ν+1}(a)/I_ν(a), about the real mode; here from the exact table."""
    first, probabilities = exact(order, argument)
    k = first + np.arange(len(probabilities))
    mean = float(probabilities @ k)
    spread = math.sqrt(float(probabilities @ (k - mean) ** 2))
    draws = bessel(generator(3, "mean"), np.full(200_000, order), argument)
    assert abs(draws.mean() - mean) < 5 * spread / math.sqrt(len(draws))


def test_nothing_happens_at_argument_zero():
    orders = np.array([0.0, 1.0, 1e6])
    for argument in (0.0, 5e-324, 1e-170):
        assert bessel(generator(0), orders, argument).tolist() == [0, 0, 0]


def test_huge_values_are_drawn_too():
    draws = bessel(generator(0), np.full(1000, 1e9), 1e12)
    mode = (math.hypot(1e9, 1e12) - 1e9) / 2
    assert np.abs(draws - mode).max() < 6 * math.sqrt(1e12 / 4)


def test_compiled_draws_equal_their_own_source():
    rng = np.random.default_rng(4)
    orders = rng.integers(0, 50, 300).astype(float)
    arguments = 10.0 ** rng.uniform(-2, 4, 300)
    results = []
    for kernel in (module._fill, kernels.compiled(module._fill)):
        out = np.empty(300, np.int64)
        kernel(generator(5), orders, arguments, out)
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_draws_are_reproducible_and_keep_the_shape():
    orders, arguments = np.arange(3.0)[:, None], np.array([0.5, 100.0])
    first, again = (bessel(generator(6), orders, arguments) for _ in range(2))
    assert first.shape == (3, 2)
    assert first.dtype == np.int64
    np.testing.assert_array_equal(first, again)
    assert bessel(generator(6), 2.0, 3.0).shape == ()
    assert bessel(generator(6), [], []).shape == (0,)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf, 1e13])
@pytest.mark.parametrize("name", ["order", "argument"])
def test_impossible_parameters_are_refused(name, bad):
    options = {"order": [1.0, 2.0], "argument": [1.0, 2.0], name: [1.0, bad]}
    with pytest.raises(ParameterError, match=rf"{name} must hold numbers in \[0, 1e\+12\]"):
        bessel(generator(0), **options)
