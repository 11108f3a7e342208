"""The gate: whose relation a charge is for (PRIVACY A1)."""

import numpy as np
import pytest

from tacit.errors import NotCertified
from tacit.mechanisms.base import privatize
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import (
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    ShuffledDpEvent,
)
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.terms import Terms


def test_a_ledger_for_replacement_counts_what_is_for_addition_twice():
    ledger = Ledger.memory(epsilon=2.0, neighbours="replace-one")
    noise = Laplace.for_privacy(0.5, 1.0, (1,), source="grid")
    privatize(noise, np.zeros(1), ledger=ledger, rng=Noise("grid", seed=1))
    assert ledger.remaining.epsilon == pytest.approx(1.0)


def test_what_is_for_replacement_says_nothing_about_addition():
    ledger = Ledger.memory(epsilon=2.0)
    noise = Laplace.for_privacy(0.5, 1.0, (1,), neighbours="replace-one", source="grid")
    with pytest.raises(NotCertified):
        privatize(noise, np.zeros(1), ledger=ledger, rng=Noise("grid", seed=1))
    assert ledger.remaining.epsilon == 2.0


@pytest.mark.parametrize("event", [
    ShuffledDpEvent(0.5, 10_000),
    PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0), "replace-one"),
    SampledWithoutReplacementDpEvent(100, 10, GaussianDpEvent(1.0)),
])  # fmt: skip
def test_an_event_that_states_its_relation_is_charged_as_that(event):
    with pytest.raises(NotCertified):
        Ledger.memory(epsilon=9.0, delta=1e-3).charge(event, purpose="a look", delta=1e-6)
    ledger = Ledger.memory(epsilon=9.0, delta=1e-3, neighbours="replace-one")
    ledger.charge(event, purpose="a look", delta=1e-6)
    assert ledger.remaining.epsilon < 9.0


def test_terms_of_another_relation_than_the_events_are_refused():
    sampled = PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0), "replace-one")
    stated = Terms.of(Privacy(1.0, 1e-6, unit="user"))
    with pytest.raises(NotCertified, match="replace-one"):
        Ledger.memory(epsilon=9.0, delta=1e-3).charge(
            sampled, purpose="a look", delta=1e-6, terms=stated
        )
