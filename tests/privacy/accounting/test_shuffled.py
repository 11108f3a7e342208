"""Amplification by shuffling: against exact laws of small crowds and the published closed form."""

import math

import numpy as np
import pytest

from tacit.errors import NotCertified
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.accounting.shuffled import (
    clones_epsilon,
    shuffled_deltas,
)
from tacit.privacy.calibration import shuffled_local_epsilon
from tacit.privacy.events import ShuffledDpEvent, repeat, to_dp_accounting


def exact_delta(local, people, epsilon, others):
    """δ of shuffled randomized response by enumeration; ``others`` of the rest say 1."""
    keep = math.exp(local) / (1.0 + math.exp(local))

    def count_law(mine):
        law = np.ones(1)
        for up in [keep] * others + [1 - keep] * (people - 1 - others) + [mine]:
            law = np.convolve(law, [1 - up, up])
        return law

    one, zero = count_law(keep), count_law(1 - keep)
    sticks = (
        np.maximum(a - math.exp(epsilon) * b, 0).sum() for a, b in ((one, zero), (zero, one))
    )
    return max(sticks)


@pytest.mark.parametrize(("local", "people"), [(0.5, 40), (1.5, 60), (3.0, 200)])
def test_no_crowd_of_randomized_answers_exceeds_the_bound(local, people):
    epsilons = np.array([0.05, 0.2, 0.5, 0.9]) * local
    bound = shuffled_deltas(local, people, epsilons)
    worst = np.zeros(len(epsilons))
    for others in range(0, people, max(1, people // 8)):
        worst = np.maximum(worst, [exact_delta(local, people, e, others) for e in epsilons])
    assert (worst <= bound + 1e-15).all()
    # and a bound for a crowd four times as large is caught
    assert (worst > shuffled_deltas(local, 8 * people, epsilons)).any()


def test_clones_by_enumeration():
    """The pair of laws itself, summed up without any cleverness."""
    local, people, epsilon = 1.0, 12, 0.3
    q, chance = math.exp(local) / (1 + math.exp(local)), math.exp(-local)
    total = 0.0
    for c in range(people):
        weight = math.comb(people - 1, c) * chance**c * (1 - chance) ** (people - 1 - c)
        even = [math.comb(c, a) / 2**c for a in range(c + 1)]
        for a in range(c + 2):
            left = even[a - 1] if a else 0.0
            stay = even[a] if a <= c else 0.0
            one, other = q * left + (1 - q) * stay, (1 - q) * left + q * stay
            total += weight * max(one - math.exp(epsilon) * other, 0.0)
    assert shuffled_deltas(local, people, [epsilon])[0] == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("local", [0.2, 1.0, 3.0])
def test_the_closed_form_of_the_paper_is_never_below(local):
    for people, delta in ((10_000, 1e-6), (1_000_000, 1e-8)):
        closed = clones_epsilon(local, people, delta)
        assert shuffled_deltas(local, people, [closed])[0] < delta
        assert shuffled_deltas(local, people, [closed / 20])[0] > delta


def test_an_accountant_composes_shuffled_rounds():
    event = ShuffledDpEvent(1.0, 20_000)
    once = epsilon_of(event, 1e-6)
    assert shuffled_deltas(1.0, 20_000, [once])[0] == pytest.approx(1e-6, rel=0.02)
    several = epsilon_of(repeat(event, 9), 1e-6)
    assert 2.5 * once < several < 4.5 * once  # about √9 times
    assert epsilon_of(event, 1e-6, "basic") == pytest.approx(once)
    with pytest.raises(NotCertified, match="shuffled"):
        to_dp_accounting(event)
    for name in ("rdp", "zcdp"):
        with pytest.raises(NotCertified):
            epsilon_of(event, 1e-6, name)


def test_the_search_meets_the_target_and_uses_it_up():
    for rounds in (1, 4):
        local = shuffled_local_epsilon(0.5, 1e-6, 2_000, rounds)
        event = repeat(ShuffledDpEvent(local, 2_000), rounds)
        assert 0.99 * 0.5 < epsilon_of(event, 1e-6) <= 0.5
        assert local > 0.5 / rounds
    assert shuffled_local_epsilon(0.5, 1e-6, 2) == pytest.approx(0.5, rel=1e-3)
    with pytest.raises(NotCertified, match="δ"):
        shuffled_local_epsilon(0.5, 0.0, 1000)


@pytest.mark.parametrize(("local", "people"), [(1.0, 1), (1.00005, 1), (1.00005, 2), (2.34567, 3)])
def test_a_crowd_of_few_costs_no_more_than_a_message_alone(local, people):
    """Losses lie on a grid of 10⁻⁴: the largest of them must still be told from infinity."""
    assert epsilon_of(ShuffledDpEvent(local, people), 1e-12) <= local + 1e-4
