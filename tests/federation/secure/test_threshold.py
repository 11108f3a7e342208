"""One threshold: 2t > n + c, noise in t − c shares, and what ε is for other numbers."""

import math

import numpy as np
import pytest

from tacit.errors import NotCertified, ParameterError
from tacit.federation.secure.threshold import (
    against,
    check_threshold,
    default_threshold,
    epsilon_against,
    most_colluding,
    said_of_colluding,
)
from tacit.mechanisms.base import privatize
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import (
    ComposedDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from tacit.privacy.ledger.ledger import Ledger


@pytest.mark.parametrize("colluding", [0, 1, 2, 5])
def test_the_usual_threshold_is_the_smallest_that_holds_from_two_thirds_on(colluding):
    for sites in range(2, 60):
        if colluding >= sites:
            with pytest.raises(ParameterError, match="at most all of them"):
                default_threshold(sites, colluding)
            continue
        found = default_threshold(sites, colluding)
        assert 3 * found >= 2 * sites and 2 * found > sites + colluding and 2 <= found <= sites
        smaller = found - 1
        assert 3 * smaller < 2 * sites or 2 * smaller <= sites + colluding or smaller < 2
        assert most_colluding(sites, found) >= colluding
        for others in range(found):
            holds = 2 * found > sites + others
            assert holds == (others <= most_colluding(sites, found))
            if not holds:
                with pytest.raises(ParameterError, match="two lists could be confirmed"):
                    check_threshold(sites, found, others)


def test_two_sums_that_differ_by_one_site_would_cost_what_the_law_says():
    """Their difference is one value under one share: ε = 1 at δ = 1e-5 (PRIVACY A12)."""
    for shares, epsilon in ((3, 1.83), (10, 3.62)):
        mechanism = GaussianShare.for_privacy(1.0, 1e-5, 1.0, (), shares=shares)
        assert epsilon_of(mechanism.alone, 1e-5) == pytest.approx(epsilon, abs=0.006)


def test_noise_that_is_split_among_colluding_sites_as_well_is_too_little():
    """Three shares, two of them known: a stated 1 is 1.81 at δ = 1e-6 (PRIVACY A10)."""
    event = GaussianDpEvent(gaussian_sigma(1.0, 1e-6))
    assert epsilon_against(event, 1e-6, 3, 0, 2) == pytest.approx(1.81, abs=0.006)


@pytest.mark.parametrize(("sites", "threshold", "colluding"), [(3, 3, 1), (5, 4, 1), (10, 8, 3)])
def test_the_stated_number_holds_against_as_many_as_are_named(sites, threshold, colluding):
    """What the coordinator does not know of the noise in any sum has the central variance."""
    check_threshold(sites, threshold, colluding)
    size, shares = 4000, threshold - colluding
    mechanism = GaussianShare.for_privacy(1.0, 1e-6, 1.0, (size,), shares=shares)
    ledger = Ledger.memory(epsilon=shares * 1.1, delta=1e-4)
    honest = [
        privatize(mechanism, np.zeros(size), ledger=ledger, rng=Noise("grid", seed=k), delta=1e-6)
        for k in range(shares)  # of the fewest that a sum holds, the others are known
    ]
    ratio = np.sum(honest, axis=0).var() / mechanism.scale**2
    assert abs(ratio - 1.0) < 6 * math.sqrt(2 / size)
    stated = epsilon_of(mechanism.event, 1e-6)
    assert stated == pytest.approx(1.0, rel=1e-6)
    assert epsilon_against(mechanism.event, 1e-6, threshold, colluding, colluding) >= stated
    fewer = epsilon_against(mechanism.event, 1e-6, threshold, colluding, 0)
    most = most_colluding(sites, threshold)
    more = epsilon_against(mechanism.event, 1e-6, threshold, colluding, most)
    assert fewer < stated <= more
    # with all but one of them known there is one share
    last = epsilon_against(mechanism.event, 1e-6, threshold, colluding, threshold - 1)
    assert last == pytest.approx(epsilon_of(mechanism.alone, 1e-6), rel=1e-6)


def test_every_part_of_an_event_is_scaled():
    one = GaussianDpEvent(2.0)
    sampled = PoissonSampledDpEvent(0.1, one)
    whole = ComposedDpEvent((one, SelfComposedDpEvent(sampled, 7)))
    half = GaussianDpEvent(1.0)
    expected = ComposedDpEvent((half, SelfComposedDpEvent(PoissonSampledDpEvent(0.1, half), 7)))
    assert against(whole, 0.5) == expected
    with pytest.raises(NotCertified, match="LaplaceDpEvent does not come in shares"):
        against(ComposedDpEvent((one, LaplaceDpEvent(1.0))), 0.5)


def test_what_is_said_has_all_three_numbers_rounded_up():
    event = GaussianDpEvent(gaussian_sigma(1.0, 1e-6))
    sums, noise, spoils = said_of_colluding(10, 8, 1, event, 1e-6)
    assert "at least 8 of 10 sites" in sums and "at most 5 of them" in sums
    assert "with 1 of the other sites" in noise
    for others, factor in ((0, 8 / 7), (5, 3 / 7)):
        exact = epsilon_of(GaussianDpEvent(event.noise_multiplier * math.sqrt(factor)), 1e-6)
        said = float(noise.split(f"with {others} it is ")[1].split(";")[0])
        assert exact <= said < exact * 1.001
    assert "one site can spoil it" in spoils
    assert len(said_of_colluding(10, 8, 1, None, 0.0)) == 2  # where noise is not shared
