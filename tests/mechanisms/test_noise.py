"""The two sources of integer noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tacit.errors import ParameterError
from tacit.mechanisms.noise import RESOLUTION, Noise


@pytest.mark.parametrize("kind", ["grid", "exact"])
@pytest.mark.parametrize("law", ["gaussian", "laplace", "geometric"])
def test_draws_are_whole_numbers_of_the_right_shape(kind, law):
    drawn = getattr(Noise(kind), law)(7, 2.0**33)
    assert drawn.dtype == np.int64
    assert drawn.shape == (7,)
    assert len(set(drawn.tolist())) == 7


@pytest.mark.parametrize("kind", ["grid", "exact"])
@pytest.mark.parametrize("law", ["gaussian", "laplace", "geometric"])
def test_no_draws_give_an_empty_array(kind, law):
    assert getattr(Noise(kind), law)(0, 2.0**33).shape == (0,)


@pytest.mark.parametrize("law", ["gaussian", "laplace", "geometric"])
def test_seeded_noise_is_reproducible_and_the_same_for_both_kinds(law):
    grid, exact = (getattr(Noise(kind, seed=1), law)(5, 2.0**33) for kind in ("grid", "exact"))
    np.testing.assert_array_equal(grid, exact)


@pytest.mark.parametrize("seed", [0, 1, 2**70])
def test_noise_of_any_seed_says_that_it_is_not_for_release(seed):
    assert Noise(seed=seed).seeded
    assert Noise(seed=seed).assumptions == ("seeded noise: not for release",)


def test_unseeded_noise_is_not_reproducible():
    first, second = (Noise().gaussian(4, 2.0**20) for _ in range(2))
    assert not set(first.tolist()) & set(second.tolist())


def test_exact_gaussian_refuses_scales_at_which_it_is_not_exact_enough():
    with pytest.raises(ParameterError, match=r"2\^31"):
        Noise("exact").gaussian(1, 2.0**30)


@pytest.mark.parametrize("kind", ["grid", "exact"])
@pytest.mark.parametrize("scale", [0.4, 3.0])
def test_small_geometric_noise_is_exact_in_both_sources(kind, scale):
    count = 40_000 if kind == "grid" else 4_000
    noise = Noise(kind, seed=2 if kind == "grid" else None)
    drawn = noise.geometric(count, scale)
    alpha = np.exp(-1 / scale)
    k = np.arange(-3, 4)
    expected = count * (1 - alpha) / (1 + alpha) * alpha ** np.abs(k)
    observed = np.array([(drawn == value).sum() for value in k])
    common = expected > 10
    observed = np.r_[observed[common], count - observed[common].sum()]
    expected = np.r_[expected[common], count - expected[common].sum()]
    assert stats.chisquare(observed, expected).pvalue > 1e-9


def test_assumptions_name_source_and_distance():
    assert Noise("grid").assumptions == (
        "noise within 2^-100 per draw of its ideal law (grid source)",
    )
    assert "2^-66" in Noise("exact").assumptions[0]
    assert Noise("exact", seed=1).assumptions == ("seeded noise: not for release",)


def test_exact_gaussian_is_as_close_as_its_assumption_says():
    """Distance 0.0202/s² between rounded and discrete Gaussian, at the smallest scale 2³¹."""
    assert 0.0202 / (2.0 ** (RESOLUTION["exact"] - 1)) ** 2 < 2.0**-66
    # the constant, at a scale where it can be summed up
    scale, k = 8.0, np.arange(-120, 121)
    rounded = stats.norm.cdf((k + 0.5) / scale) - stats.norm.cdf((k - 0.5) / scale)
    discrete = np.exp(-(k**2) / (2 * scale**2))
    distance = 0.5 * np.abs(rounded - discrete / discrete.sum()).sum()
    assert distance * scale**2 == pytest.approx(0.0202, rel=0.02)


@pytest.mark.parametrize(
    "arguments", [{"kind": "other"}, {"seed": -1}, {"seed": 1.5}, {"seed": True}], ids=str
)
def test_bad_arguments_are_refused(arguments):
    with pytest.raises(ParameterError, match=next(iter(arguments))):
        Noise(**arguments)


# -- Poisson samples --------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.003, 0.1, 0.5, 0.97])
def test_samples_hold_each_unit_independently(rate):
    """Counts per unit, sizes, and neighbours that are sampled together, at six standard errors."""
    noise, units, draws = Noise("grid", seed=5), 40, 6000
    table = np.zeros((draws, units), bool)
    for row in table:
        positions = noise.sample(units, rate)
        assert (np.diff(positions) > 0).all()
        row[positions] = True
    spread = np.sqrt(rate * (1 - rate) / draws)
    assert np.abs(table.mean(axis=0) - rate).max() < 6 * spread
    sizes = table.sum(axis=1)
    assert abs(sizes.mean() - units * rate) < 6 * np.sqrt(units) * spread
    assert sizes.var() == pytest.approx(units * rate * (1 - rate), rel=0.15)
    together = (table[:, 1:] & table[:, :-1]).mean(axis=0)
    pair = rate * rate
    assert np.abs(together - pair).max() < 6 * np.sqrt(pair * (1 - pair) / draws) + 1 / draws


def test_a_sample_of_everything_or_of_nothing():
    noise = Noise("grid", seed=1)
    assert noise.sample(4, 1.0).tolist() == [0, 1, 2, 3]
    assert noise.sample(0, 0.5).size == 0
    assert noise.sample(3, 2.0**-40).size == 0
    for count, rate in ((-1, 0.5), (3, 0.0), (3, 1.1), (3, float("nan"))):
        with pytest.raises(ParameterError):
            noise.sample(count, rate)


def test_samples_come_from_the_secret_stream():
    one, two = Noise("grid", seed=1), Noise("grid", seed=2)
    assert one.sample(1000, 0.2).tolist() != two.sample(1000, 0.2).tolist()
    assert Noise().sample(1000, 0.2).tolist() != Noise().sample(1000, 0.2).tolist()
