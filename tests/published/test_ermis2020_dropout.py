"""The thesis's noise for private dropout: its printed values, and what they really cost."""

from __future__ import annotations

import pytest

from tacit.errors import ParameterError
from tacit.privacy.guarantee import Privacy
from tacit.published.ermis2020_dropout import ThesisTraining

CLAIMED = Privacy(0.5, 1e-4)


@pytest.mark.parametrize(("recipe", "noise"), [("zcdp", 3.23), ("advanced", 10.88)])
def test_published_noise_is_the_thesis_s(recipe, noise):
    thesis = ThesisTraining(steps=20_000, sampling_rate=0.01, recipe=recipe)
    assert thesis.decided(60_000, CLAIMED).noise_multiplier == pytest.approx(noise, abs=0.05)


def test_published_noise_costs_more_than_it_claims():
    thesis = ThesisTraining(steps=20_000, sampling_rate=0.01, recipe="zcdp")
    agreement = thesis.agree(None, None, 60_000, CLAIMED)
    assert agreement.charged.epsilon == pytest.approx(1.51, abs=0.01)
    assert agreement.claim[0] == 0.5 and "200 compositions" in agreement.claim[1]


def test_the_noise_is_read_in_both_ways_and_charged_what_each_costs():
    thesis = ThesisTraining(steps=20_000, sampling_rate=0.01, recipe="zcdp", reading="2G")
    agreement = thesis.agree(None, None, 60_000, CLAIMED)
    assert agreement.dynamics.noise_multiplier == pytest.approx(2 * 3.23, abs=0.1)
    assert agreement.charged.epsilon == pytest.approx(0.67, abs=0.01)
    assert agreement.claim[0] == 0.5 and "2G·σ" in agreement.claim[1]
    with pytest.raises(ParameterError, match="reading"):
        ThesisTraining(reading="3G")


def test_published_noise_needs_a_claim():
    with pytest.raises(ParameterError, match="finite epsilon"):
        ThesisTraining(steps=2, sampling_rate=0.1).decided(100, None)
    with pytest.raises(ParameterError, match="recipe"):
        ThesisTraining(recipe="pld")
