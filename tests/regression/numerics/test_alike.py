"""Which sites are added up, and what that keeps of their precision."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tacit._core.rng import generator
from tacit.regression.numerics.alike import _Known, alike_summed
from tacit.regression.numerics.moments import Moments, Prior, pooled
from tacit.regression.numerics.posterior import posterior
from tests.oracles.regression import released

D = 3
BETA = np.array([0.6, -0.4, 0.2])
ROOTS = np.linalg.cholesky(np.diag([0.5, 0.2, 0.05])), np.linalg.cholesky(np.diag([0.02, 0.2, 1]))


def site(rng, rows, noise, root=ROOTS[0], **more):
    x = rng.standard_normal((rows, D)) @ root.T
    m = Moments.of(x, x @ BETA + 0.3 * rng.standard_normal(rows))
    seen = released(rng, m.gram, m.cross, rows, m.square, noise, noise / np.sqrt(2.0), noise)
    return replace(seen, **more)


@pytest.mark.parametrize("noise", [1.0, 10.0, 100.0])
def test_alike_sites_are_one(noise):
    rng = np.random.default_rng(1)
    sites = [site(rng, 1000, noise) for _ in range(8)]
    (one,) = alike_summed(sites, Prior())
    expected = pooled(sites)
    np.testing.assert_allclose(one.gram, expected.gram)
    assert one.gram_sd == pytest.approx(noise * np.sqrt(8))
    assert one.square == pytest.approx(expected.square)


def test_sites_of_two_sizes_or_kinds_are_two_where_noise_matters():
    rng = np.random.default_rng(2)
    sizes = [site(rng, rows, 30.0) for rows in (200, 5000, 200, 5000, 200)]
    found = alike_summed(sizes, Prior())
    assert len(found) < 5
    assert {m.rows for m in found} <= {200, 400, 600, 5000, 10_000}  # never both sizes
    kinds = [site(rng, 2000, 20.0, ROOTS[k % 2]) for k in range(4)]
    assert len(alike_summed(kinds, Prior())) > 1
    # the same without noise to speak of: a sum has all that is known
    assert len(alike_summed([site(rng, n, 0.01) for n in (200, 5000)], Prior())) == 1


def test_what_cannot_be_added_up_stays():
    rng = np.random.default_rng(3)
    sites = [site(rng, 1000, 10.0) for _ in range(4)]
    assert len(alike_summed(sites, Prior(features=np.eye(D)))) == 4
    assert len(alike_summed(sites[:1], Prior())) == 1
    exact = replace(sites[0], gram_sd=0.0)
    assert len(alike_summed([exact, *sites[1:]], Prior())) == 2
    without = [replace(m, square=None) for m in sites[:2]]
    found = alike_summed([*without, *sites[2:]], Prior())
    assert [m.square is None for m in found] == [False, True]
    few = replace(sites[0], rows=-3.0, rows_sd=4.0)  # a noisy count
    assert len(alike_summed([few, *sites[1:]], Prior())) == 2


def test_what_a_sum_keeps_is_the_share_of_the_precision():
    """Of two known S_j, against the precision of β in a regression of the stacked ẑ_j."""
    rng = np.random.default_rng(4)
    sites = [site(rng, 4000, 1e-3, root) for root in ROOTS]
    sites = [replace(m, cross_sd=40.0) for m in sites]
    prior = Prior(sd=2.0)
    known = _Known(sites, prior)
    np.testing.assert_allclose(known.grams, [m.gram for m in sites], rtol=0.05, atol=5.0)
    design = np.vstack(known.grams)
    errors = np.zeros((2 * D, 2 * D))
    for k in range(2):
        part = slice(k * D, k * D + D)
        errors[part, part] = known.variance * known.grams[k] + known.noises[k] * np.eye(D)
    apart = design.T @ np.linalg.solve(errors, design) + prior.precision(D)
    total = known.grams.sum(axis=0)
    both = errors[:D, :D] + errors[D:, D:]
    summed = total @ np.linalg.solve(both, total) + prior.precision(D)
    least = min(np.linalg.eigvals(np.linalg.solve(apart, summed)).real)
    assert known.kept(np.arange(2)) == pytest.approx(least)
    assert least < 0.9
    assert known.variance == pytest.approx(0.09, rel=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(400,) * 6, (150, 150, 150, 3000, 3000)])
def test_a_sum_is_as_sure_as_the_sites(sizes, monkeypatch):
    """Means and spreads agree with those of all sites apart, to a few per cent."""
    rng = generator(5, str(sizes))
    sites = [site(rng, rows, 15.0) for rows in sizes]
    prior, options = Prior(sd=1.0), {"draws": 600, "rng": rng}
    summed = posterior(sites, prior=prior, **options)
    assert summed.diagnostics["summaries"] < len(sites)
    monkeypatch.setattr(
        "tacit.regression.numerics.posterior.alike_summed", lambda moments, prior: list(moments)
    )
    apart = posterior(sites, prior=prior, **options)
    assert apart.diagnostics["summaries"] == len(sites)
    np.testing.assert_allclose(summed.sd, apart.sd, rtol=0.15)
    assert (np.abs(summed.mean - apart.mean) < 0.35 * apart.sd).all()
