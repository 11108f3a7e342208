"""What a ledger admits, what it refuses, and what it says is left."""

import math
import sys
import threading
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import BudgetExceeded, LedgerError, NotCertified, ParameterError
from tacit.mechanisms.base import privatize
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.accounting.gaussian import gdp_to_dp, zcdp_to_dp
from tacit.privacy.amounts import as_exact
from tacit.privacy.events import (
    ApproximateDpEvent,
    DiscreteLaplaceDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
    ZCDpEvent,
    compose,
    repeat,
)
from tacit.privacy.ledger import ceiling
from tacit.privacy.ledger.ledger import Budget, Ledger

STEP = LaplaceDpEvent(1.0)  # ε = 1
OTHER = LaplaceDpEvent(2.0)  # ε = ½


@pytest.fixture(params=["memory", "file"])
def make(request, tmp_path):
    """Return a maker of ledgers, in memory and on disk."""

    def build(**ceiling):
        if request.param == "memory":
            return Ledger.memory(**ceiling)
        return Ledger.open(tmp_path / f"{len(list(tmp_path.iterdir()))}.db", **ceiling)

    return build


def admitted(ledger, event, *, limit=10_000, **how):
    """Charge until the ledger refuses; return how often it did not."""
    for count in range(limit):
        try:
            ledger.charge(event, purpose="again", **how)
        except BudgetExceeded:
            return count
    raise AssertionError("the ledger never refused")


# -- charging and reading ---------------------------------------------------------------------


def test_a_charge_moves_what_is_spent_and_what_remains(make):
    ledger = make(epsilon=2.0, delta=1e-5)
    entry = ledger.charge(LaplaceDpEvent(2.0), purpose="mean age")
    assert (entry.ledger, entry.counter, entry.durable) == (ledger.id, 1, ledger.durable)
    assert ledger.spent == Budget(0.5, 0.0)
    assert ledger.remaining == Budget(1.5, 1e-5)
    assert ledger.counter == 1
    assert ledger.verify() == 1


def test_a_row_says_what_for_and_at_which_price(make):
    ledger = make(epsilon=2.0)
    ledger.charge(LaplaceDpEvent(2.0), purpose="mean age, 12–80 'ß'")
    (row,) = ledger.rows()
    assert row.purpose == "mean age, 12–80 'ß'"
    assert (row.kind, row.cost, row.amount) == ("charge", Fraction(1, 2), Fraction(1, 2))
    assert row.epsilon >= 0.5


def test_a_refusal_happens_before_anything_changes(make):
    ledger = make(epsilon=1.0)
    ledger.charge(LaplaceDpEvent(2.0), purpose="first")
    before = list(ledger.rows())
    with pytest.raises(BudgetExceeded, match=r"'too much' costs ε = 1, but ε = 0.5 of 1"):
        ledger.charge(LaplaceDpEvent(1.0), purpose="too much")
    assert list(ledger.rows()) == before
    assert ledger.remaining == Budget(0.5, 0.0)
    ledger.charge(LaplaceDpEvent(2.0), purpose="what is left still fits")
    assert ledger.remaining == Budget(0.0, 0.0)


def test_a_refused_release_consumes_no_randomness(make):
    ledger, used, fresh = make(epsilon=1.0), Noise(seed=3), Noise(seed=3)
    mechanism = Laplace.for_privacy(2.0, 1.0)
    with pytest.raises(BudgetExceeded):
        privatize(mechanism, 0.0, ledger=ledger, rng=used)
    assert used.laplace(4, 2.0**20).tolist() == fresh.laplace(4, 2.0**20).tolist()


def test_admits_agrees_with_charge_and_spends_nothing(make):
    ledger = make(epsilon=1.0)
    for multiplier in (4.0, 2.0, 8.0, 4.0, 8.0, 100.0):
        event, before = LaplaceDpEvent(multiplier), ledger.counter
        expected = ledger.admits(event)
        assert ledger.counter == before
        try:
            ledger.charge(event, purpose="x")
            assert expected
        except BudgetExceeded:
            assert not expected


def test_delta_is_a_ceiling_of_its_own():
    ledger = Ledger.memory(epsilon=100.0, delta=1e-6)
    assert admitted(ledger, ApproximateDpEvent(0.1, 4e-7), delta=4e-7) == 2
    assert ledger.spent.delta == 8e-7
    assert ledger.remaining.delta == 2e-7


def test_export_holds_every_row_as_plain_data(make):
    ledger = make(epsilon=2.0)
    ledger.charge(LaplaceDpEvent(3.0), purpose="third")
    exported = ledger.export()
    assert exported["id"] == ledger.id
    assert exported["rows"][0]["cost"] == "1/3"
    assert exported["rows"][0]["event"] == {"type": "LaplaceDpEvent", "noise_multiplier": 3.0}
    assert exported["spent"]["epsilon"] >= 1 / 3


def test_the_representation_says_what_is_spent_and_whether_it_lasts(make):
    ledger = make(epsilon=2.0)
    ledger.charge(LaplaceDpEvent(2.0), purpose="x")
    assert "spent ε = 0.5 of 2" in repr(ledger)
    assert ("not durable" in repr(ledger)) is not ledger.durable


def test_an_opened_ledger_continues_where_it_was(tmp_path):
    first = Ledger.open(tmp_path / "a.db", epsilon=1.0, delta=1e-6)
    first.charge(OTHER, purpose="before")
    again = Ledger.open(tmp_path / "a.db")
    assert (again.id, again.epsilon, again.delta, again.filter) == (first.id, 1.0, 1e-6, "basic")
    assert again.remaining.epsilon == 0.5
    again.charge(OTHER, purpose="after")
    with pytest.raises(BudgetExceeded):
        first.charge(OTHER, purpose="through the first handle")


# -- exact sums -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("multiplier", "ceiling", "count"),
    [(100.0, 5.0, 500), (3.0, 1.0, 3), (10.0, 0.3, 3), (7.0, 1.0, 7), (1e12, 3e-12, 3)],
)
def test_sums_are_exact(multiplier, ceiling, count):
    ledger = Ledger.memory(epsilon=ceiling)
    assert admitted(ledger, LaplaceDpEvent(multiplier)) == count
    assert ledger.remaining.epsilon == 0.0
    assert ledger.spent.epsilon == ceiling


@pytest.mark.parametrize("count", [10**5, pytest.param(10**6, marks=pytest.mark.slow)])
def test_many_tiny_charges_never_slip_past_the_ceiling(count):
    ledger, tiny = Ledger.memory(epsilon=count * 1e-12), LaplaceDpEvent(1e12)
    for _ in range(count):
        ledger.charge(tiny, purpose="tiny")
    with pytest.raises(BudgetExceeded):
        ledger.charge(tiny, purpose="one more")
    assert ledger.counter == count
    assert ledger.remaining == Budget(0.0, 0.0)


def test_a_charge_below_the_resolution_of_a_float_still_counts():
    ledger = Ledger.memory(epsilon=1.0)
    ledger.charge(STEP, purpose="everything")
    with pytest.raises(BudgetExceeded):
        ledger.charge(LaplaceDpEvent(1e300), purpose="1e-300 more")


events = st.one_of(
    st.floats(0.5, 1e6).map(LaplaceDpEvent),
    st.tuples(st.floats(1e-6, 2.0), st.integers(1, 5)).map(lambda a: DiscreteLaplaceDpEvent(*a)),
    st.tuples(st.floats(0.05, 1.0), st.integers(2, 9)).map(
        lambda a: RandomizedResponseDpEvent(*a)
    ),
    st.floats(0.0, 2.0).map(ApproximateDpEvent),
    st.integers(2, 40).map(lambda n: repeat(LaplaceDpEvent(float(n)), n)),
)


@given(st.lists(events, max_size=25), st.floats(0.1, 20.0))
def test_no_sequence_of_charges_passes_the_ceiling(sequence, ceiling):
    ledger = Ledger.memory(epsilon=ceiling)
    for event in sequence:
        fits = ledger.admits(event)
        try:
            ledger.charge(event, purpose="x")
        except BudgetExceeded:
            assert not fits
    rows = list(ledger.rows())
    paid = sum((row.cost for row in rows), Fraction(0))
    amount = rows[-1].amount if rows else Fraction(0)
    # beyond 512 bits of denominator a sum is rounded up to 10^-40
    assert paid <= amount <= paid + Fraction(len(rows), 10**40)
    assert amount <= as_exact(ceiling)
    assert as_exact(ledger.spent.epsilon) >= amount
    assert as_exact(ledger.remaining.epsilon) <= as_exact(ceiling) - amount
    assert ledger.verify() == len(rows)


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=20), st.randoms())
def test_the_order_of_charges_is_irrelevant(thousandths, random):
    def spend(order):
        ledger = Ledger.memory(epsilon=1e6)
        for n in order:
            ledger.charge(ApproximateDpEvent(n / 1000), purpose="x")
        return list(ledger.rows())[-1].amount

    shuffled = list(thousandths)
    random.shuffle(shuffled)
    assert spend(thousandths) == spend(shuffled) == Fraction(sum(thousandths), 1000)


# -- filters ----------------------------------------------------------------------------------


def test_gaussian_noise_on_a_basic_ledger_costs_its_exact_epsilon():
    ledger, event = Ledger.memory(epsilon=10.0, delta=1e-4), GaussianDpEvent(2.0)
    ledger.charge(event, purpose="x", delta=1e-5)
    assert ledger.spent.epsilon == pytest.approx(gdp_to_dp(0.5, 1e-5), rel=1e-9)
    assert ledger.spent.epsilon > gdp_to_dp(0.5, 1e-5)
    assert ledger.spent.delta == 1e-5


def test_a_basic_ledger_adds_up_runs_and_accounts_within_them():
    run = repeat(GaussianDpEvent(10.0), 16)
    ledger = Ledger.memory(epsilon=10.0, delta=1e-3)
    ledger.charge(run, purpose="one run", delta=1e-5)
    within = ledger.spent.epsilon
    assert within == pytest.approx(gdp_to_dp(0.4, 1e-5), rel=1e-9)
    ledger.charge(run, purpose="another", delta=1e-5)
    assert ledger.spent.epsilon == pytest.approx(2 * within, rel=1e-12)


def test_a_sampled_run_costs_what_the_accountant_says():
    run = repeat(PoissonSampledDpEvent(0.02, GaussianDpEvent(2.87)), 100)
    ledger = Ledger.memory(epsilon=10.0, delta=1e-3)
    ledger.charge(run, purpose="x", delta=1e-3)
    assert ledger.spent.epsilon == pytest.approx(epsilon_of(run, 1e-3), rel=1e-9)


@pytest.mark.parametrize(
    ("sigma", "epsilon", "delta"),
    [(3.0, 1.0, 1e-6), (20.0, 1.0, 1e-6), (3.0, 8.0, 1e-3), (7.5, 8.0, 1e-3)],
)
def test_a_gdp_ledger_admits_as_many_gaussians_as_the_exact_formula(sigma, epsilon, delta):
    expected = 0
    while gdp_to_dp(math.sqrt(expected + 1) / sigma, delta) <= epsilon:
        expected += 1
    ledger = Ledger.memory(epsilon=epsilon, delta=delta, filter="gdp")
    assert admitted(ledger, GaussianDpEvent(sigma)) == expected
    assert ledger.spent.epsilon <= epsilon
    if expected:
        assert ledger.spent.epsilon == pytest.approx(
            gdp_to_dp(math.sqrt(expected) / sigma, delta), rel=1e-9
        )


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (8.0, 1e-3)])
def test_a_zcdp_ledger_admits_as_much_as_the_sum_of_rho(epsilon, delta):
    rho = 0.5 * 0.1**2 + 0.5 / 15.0**2 + 0.001
    mixed = compose([LaplaceDpEvent(10.0), GaussianDpEvent(15.0), ZCDpEvent(0.001)])
    expected = 0
    while zcdp_to_dp((expected + 1) * rho, delta) <= epsilon:
        expected += 1
    ledger = Ledger.memory(epsilon=epsilon, delta=delta, filter="zcdp")
    assert admitted(ledger, mixed) == expected
    assert ledger.spent.epsilon <= epsilon
    assert ledger.verify() == expected


def test_a_charge_is_the_exact_amount_of_its_rule():
    """Under a filter the sums are what is certified: 1/σ² of μ², 1/2σ² of ρ, both rounded up."""
    event = repeat(GaussianDpEvent(2.0), 3)
    for rule, amount in (("gdp", 3 / 4), ("zcdp", 3 / 8)):
        ledger = Ledger.memory(epsilon=9.0, delta=1e-6, filter=rule)
        ledger.charge(event, purpose="x")
        (row,) = ledger.rows()
        assert amount <= row.cost <= amount * (1 + 1e-9)
        assert row.amount == row.cost


def test_a_zcdp_ledger_pays_the_deltas_of_its_charges_from_its_own():
    ledger = Ledger.memory(epsilon=5.0, delta=1e-6, filter="zcdp")
    ledger.charge(ApproximateDpEvent(0.1, 4e-7), purpose="x")
    assert ledger.spent.delta == 4e-7
    assert ledger.spent.epsilon == pytest.approx(zcdp_to_dp(0.005, 6e-7), rel=1e-9)
    ledger.charge(ApproximateDpEvent(0.1, 4e-7), purpose="x")
    with pytest.raises(BudgetExceeded):
        ledger.charge(ApproximateDpEvent(0.1, 4e-7), purpose="δ is gone")


def test_a_gdp_ledger_refuses_other_noise_by_name():
    ledger = Ledger.memory(epsilon=5.0, delta=1e-6, filter="gdp")
    with pytest.raises(NotCertified, match=r"LaplaceDpEvent.*filter='basic'"):
        ledger.charge(compose([GaussianDpEvent(9.0), LaplaceDpEvent(9.0)]), purpose="x")
    assert ledger.counter == 0


def test_a_zcdp_ledger_refuses_sampled_noise_by_name():
    ledger = Ledger.memory(epsilon=5.0, delta=1e-6, filter="zcdp")
    with pytest.raises(NotCertified, match=r"sampled noise.*filter='basic'"):
        ledger.charge(PoissonSampledDpEvent(0.1, GaussianDpEvent(9.0)), purpose="x")
    assert ledger.counter == 0


def test_gaussian_noise_without_a_delta_says_what_to_pass():
    ledger = Ledger.memory(epsilon=5.0, delta=1e-6)
    with pytest.raises(ParameterError, match=r"delta must be given.*state the δ"):
        ledger.charge(GaussianDpEvent(9.0), purpose="x")
    with pytest.raises(ParameterError, match="delta must be given"):
        privatize(Gaussian(9.0, 1.0), 0.0, ledger=ledger, rng=Noise())
    assert ledger.counter == 0


@pytest.mark.parametrize("rule", ["basic", "gdp", "zcdp"])
@pytest.mark.parametrize("wrap", [lambda event: event, lambda event: compose([STEP, event])])
def test_a_release_without_protection_is_refused(rule, wrap):
    ledger = Ledger.memory(epsilon=1e9, delta=0.5, filter=rule)
    with pytest.raises((BudgetExceeded, NotCertified)):
        ledger.charge(wrap(NonPrivateDpEvent()), purpose="x", delta=0.1)
    assert ledger.counter == 0


@pytest.mark.parametrize("rule", ["basic", "gdp", "zcdp"])
def test_nothing_costs_nothing(rule):
    ledger = Ledger.memory(epsilon=1.0, delta=1e-6, filter=rule)
    ledger.charge(NoOpDpEvent(), purpose="x")
    assert ledger.spent == Budget(0.0, 0.0)
    ledger.charge(GaussianDpEvent(math.inf), purpose="x", delta=0.0)
    assert ledger.spent.epsilon <= 1e-40  # rounded up
    assert ledger.counter == 2


@pytest.mark.parametrize("rule", ["basic", "gdp", "zcdp"])
@pytest.mark.parametrize("multiplier", [5e-324, 1e-200, 1e-160])
def test_extremely_little_noise_is_refused_as_any_other(rule, multiplier):
    ledger = Ledger.memory(epsilon=1.0, delta=1e-6, filter=rule)
    with pytest.raises(BudgetExceeded):
        ledger.charge(GaussianDpEvent(multiplier), purpose="x", delta=1e-7)
    if rule != "gdp":
        with pytest.raises(BudgetExceeded):
            ledger.charge(LaplaceDpEvent(multiplier), purpose="x")


@pytest.mark.parametrize("rule", ["basic", "gdp", "zcdp"])
def test_extremely_much_noise_is_admitted(rule):
    ledger = Ledger.memory(epsilon=1.0, delta=1e-6, filter=rule)
    ledger.charge(GaussianDpEvent(1e200), purpose="x", delta=1e-7)
    assert ledger.spent.epsilon < 1e-9


# -- reservations -----------------------------------------------------------------------------


def draw_all(reservation, event, limit=1000):
    """Claim until refused; return how often it was not."""
    for count in range(limit):
        try:
            reservation.claim(event)
        except BudgetExceeded:
            return count
    raise AssertionError("the reservation never refused")


def test_a_whole_schedule_is_one_charge(make):
    ledger = make(epsilon=10.0)
    reservation = ledger.reserve(repeat(STEP, 4), purpose="run")
    assert ledger.spent.epsilon == 4.0
    assert reservation.entry.counter == 1
    assert [draw_all(reservation, STEP), ledger.spent.epsilon] == [4, 4.0]
    assert [row.kind for row in ledger.rows()] == ["charge"] + ["claim"] * 4
    assert ledger.verify() == 5


def test_privatize_draws_on_a_reservation(make):
    ledger, noise = make(epsilon=10.0), Noise(seed=1)
    mechanism = Laplace(8.0, 1.0)
    reservation = ledger.reserve(repeat(mechanism.event, 2), purpose="run")
    spent = ledger.spent
    first = privatize(mechanism, 0.0, ledger=reservation, rng=noise)
    second = privatize(mechanism, 0.0, ledger=reservation, rng=noise)
    assert first != second
    with pytest.raises(BudgetExceeded, match="no further step"):
        privatize(mechanism, 0.0, ledger=reservation, rng=noise)
    assert ledger.spent == spent


def test_unused_steps_are_not_refunded(make):
    ledger = make(epsilon=10.0)
    reservation = ledger.reserve(repeat(STEP, 4), purpose="run")
    reservation.claim(STEP)
    assert reservation.left == {STEP: 3}
    del reservation
    assert ledger.remaining.epsilon == 6.0


def test_a_run_may_be_charged_the_round_price_it_was_calibrated_for(make):
    ledger, run = make(epsilon=2.0, delta=1e-5), repeat(GaussianDpEvent(20.0), 4)
    price = epsilon_of(run, 1e-6)
    assert price < 0.5
    assert ledger.admits(run, delta=1e-6, asked=2.0)
    assert not ledger.admits(run, delta=1e-6, asked=2.1)
    ledger.reserve(run, purpose="run", delta=1e-6, asked=0.5)
    assert ledger.remaining == Budget(1.5, 9e-6)
    with pytest.raises(NotCertified, match=r"calibrated for ε = 0.1, but costs"):
        ledger.reserve(run, purpose="run", delta=1e-6, asked=0.1)
    assert ledger.verify() == 1


def test_a_reservation_that_does_not_fit_is_refused_whole(make):
    ledger = make(epsilon=3.0)
    with pytest.raises(BudgetExceeded):
        ledger.reserve(repeat(STEP, 4), purpose="run", run="r")
    assert ledger.counter == 0
    ledger.reserve(repeat(STEP, 3), purpose="run", run="r")


def test_a_step_outside_the_schedule_is_refused(make):
    reservation = make(epsilon=10.0).reserve(repeat(STEP, 4), purpose="run")
    with pytest.raises(BudgetExceeded, match=r"LaplaceDpEvent\(noise_multiplier=2.0\)"):
        reservation.claim(OTHER)
    with pytest.raises(BudgetExceeded):
        reservation.claim(compose([STEP, OTHER]))
    assert reservation.left == {STEP: 4}


def test_resuming_by_name_continues_and_charges_nothing(make):
    ledger = make(epsilon=10.0)
    first = ledger.reserve(repeat(STEP, 4), purpose="run", run="r")
    first.claim(STEP)
    again = ledger.reserve(SelfComposedDpEvent(STEP, 4), purpose="run", run="r")
    assert ledger.spent.epsilon == 4.0
    assert again.entry == first.entry
    assert draw_all(again, STEP) == 3
    assert draw_all(ledger.reserve(repeat(STEP, 4), purpose="run", run="r"), STEP) == 0
    assert ledger.verify() == 5


def test_another_schedule_under_the_same_name_is_refused(make):
    ledger = make(epsilon=10.0)
    ledger.reserve(repeat(STEP, 4), purpose="run", run="r")
    for other in (repeat(STEP, 5), repeat(STEP, 3), repeat(OTHER, 4), compose([STEP, OTHER])):
        with pytest.raises(LedgerError, match="another schedule"):
            ledger.reserve(other, purpose="run", run="r")
    assert ledger.counter == 1


def test_runs_without_a_name_are_separate(make):
    ledger = make(epsilon=10.0)
    ledger.reserve(STEP, purpose="run")
    ledger.reserve(STEP, purpose="run")
    assert ledger.spent.epsilon == 2.0


def test_blocks_of_claims_save_transactions(make):
    ledger = make(epsilon=10.0)
    reservation = ledger.reserve(repeat(STEP, 10), purpose="run", claim=4)
    assert draw_all(reservation, STEP) == 10
    assert [row.kind for row in ledger.rows()] == ["charge"] + ["claim"] * 3  # 4 + 4 + 2
    assert ledger.verify() == 4


def test_the_rest_of_a_block_is_lost_with_its_process(make):
    ledger = make(epsilon=10.0)
    ledger.reserve(repeat(STEP, 10), purpose="run", run="r", claim=4).claim(STEP)
    again = ledger.reserve(repeat(STEP, 10), purpose="run", run="r", claim=4)
    assert draw_all(again, STEP) == 6


@pytest.mark.parametrize("claim", [1, 2, 3, 10])
def test_every_step_of_a_mixed_schedule_can_be_drawn(make, claim):
    both = compose([STEP, OTHER])
    schedule = [STEP, STEP, both, OTHER]
    reservation = make(epsilon=10.0).reserve(compose(schedule), purpose="run", claim=claim)
    for step in schedule:
        reservation.claim(step)
    assert reservation.left == {}


def test_a_composed_step_is_claimed_whole_or_not_at_all(make):
    ledger = make(epsilon=10.0)
    reservation = ledger.reserve(compose([STEP, STEP, OTHER]), purpose="run")
    both = compose([STEP, OTHER])
    reservation.claim(both)
    with pytest.raises(BudgetExceeded):
        reservation.claim(both)
    assert reservation.left == {STEP: 1}


def test_two_live_reservations_of_one_run_share_its_steps(make):
    ledger = make(epsilon=10.0)
    first = ledger.reserve(repeat(STEP, 3), purpose="run", run="r")
    second = ledger.reserve(repeat(STEP, 3), purpose="run", run="r")
    first.claim(STEP)
    assert second.left == {STEP: 2}
    assert draw_all(second, STEP) + draw_all(first, STEP) == 2
    assert ledger.verify() == 4


@pytest.mark.parametrize("claim", [2, 4, 8, 100])
def test_two_live_reservations_share_steps_that_are_claimed_in_blocks(make, claim):
    ledger, some = make(epsilon=10.0), repeat(STEP, 10)
    first = ledger.reserve(some, purpose="run", run="r", claim=claim)
    second = ledger.reserve(some, purpose="run", run="r", claim=claim)
    second.claim(STEP)
    drawn = 1 + draw_all(first, STEP) + draw_all(second, STEP)
    assert drawn == 10
    ledger.verify()


def test_a_block_shrinks_to_what_another_handle_has_left(make):
    ledger, some = make(epsilon=10.0), repeat(STEP, 10)
    first = ledger.reserve(some, purpose="run", run="r", claim=8)
    second = ledger.reserve(some, purpose="run", run="r", claim=8)
    second.claim(STEP)
    assert draw_all(first, STEP) == 2


@pytest.fixture
def hasty_threads():
    """Let threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(work, count=8):
    """Run ``work`` in several threads at once; return what each gave."""
    results = []
    threads = [threading.Thread(target=lambda: results.append(work())) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.usefixtures("hasty_threads")
@pytest.mark.parametrize("claim", [1, 50])
def test_threads_that_share_a_reservation_share_its_steps(claim):
    for _ in range(10):
        ledger, step = Ledger.memory(epsilon=10.0), LaplaceDpEvent(1000.0)
        reservation = ledger.reserve(repeat(step, 200), purpose="run", claim=claim)
        assert sum(in_threads(lambda r=reservation, s=step: draw_all(r, s))) == 200
        ledger.verify()


@pytest.mark.usefixtures("hasty_threads")
def test_threads_may_share_a_ledger(make):
    ledger = make(epsilon=10.0)
    assert sum(in_threads(lambda: admitted(ledger, OTHER))) == 20
    assert ledger.verify() == 20


@given(
    st.lists(st.sampled_from([STEP, OTHER]), min_size=1, max_size=12),
    st.integers(1, 5),
    st.lists(st.sampled_from(["step", "other", "resume"]), max_size=40),
)
def test_never_more_steps_are_drawn_than_were_reserved(schedule, claim, actions):
    ledger = Ledger.memory(epsilon=100.0)
    reserve = lambda: ledger.reserve(compose(schedule), purpose="x", run="r", claim=claim)  # noqa: E731
    reservation, drawn = reserve(), {STEP: 0, OTHER: 0}
    for action in actions:
        if action == "resume":
            reservation = reserve()
            continue
        event = STEP if action == "step" else OTHER
        try:
            reservation.claim(event)
            drawn[event] += 1
        except BudgetExceeded:
            pass
    for event, count in drawn.items():
        assert count <= schedule.count(event)
    assert [row.kind for row in ledger.rows()].count("charge") == 1
    ledger.verify()


@pytest.mark.parametrize("delta", [np.float64(1e-6), Fraction(1, 10**6), np.float32(1e-6)])
def test_a_delta_may_be_any_real_number(make, delta):
    ledger = make(epsilon=10.0, delta=1e-3)
    ledger.charge(GaussianDpEvent(5.0), purpose="x", delta=delta)
    assert ledger.verify() == 1


@pytest.mark.parametrize(
    "event",
    [SelfComposedDpEvent(LaplaceDpEvent(50.0), np.int64(37)), LaplaceDpEvent(np.float32(2.75))],
)
def test_an_event_may_hold_numpy_numbers(make, event):
    ledger = make(epsilon=10.0)
    ledger.charge(event, purpose="x")
    assert ledger.verify() == 1


def test_a_ledger_holds_the_runs_that_were_reserved_in_it_and_no_others(make):
    ledger = make(epsilon=5.0)
    ledger.reserve(repeat(STEP, 2), purpose="run", run="r")
    assert ledger.holds("r")
    assert not ledger.holds("another")
    assert not ledger.holds(None)


def test_what_is_left_of_delta_is_rounded_down(monkeypatch):
    """The nearest float to 103/(3·10⁹) lies below it, and what is left would lie above."""
    ledger, spent = Ledger.memory(epsilon=1.0, delta=1e-6, filter="zcdp"), Fraction(103, 3 * 10**9)
    monkeypatch.setattr(ceiling, "rule_ceiling", lambda rule, epsilon, left: as_exact(left))
    assert ledger._ceiling.amount(spent) <= as_exact(1e-6) - spent


def test_rows_are_counted_from_one(make):
    ledger = make(epsilon=5.0)
    ledger.charge(STEP, purpose="first")
    ledger.charge(OTHER, purpose="second")
    found = [ledger._store.row(counter) for counter in (-1, 0, 1, 2, 3)]
    assert [row and row.purpose for row in found] == [None, None, "first", "second", None]
