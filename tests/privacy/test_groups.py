"""Groups and other units: never below what the changed data really cost."""

import math

import pytest

from tacit.errors import BudgetExceeded, NotCertified
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.accounting.gaussian import gdp_to_dp
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    ApproximateDpEvent,
    DiscreteLaplaceDpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    ZCDpEvent,
    repeat,
)
from tacit.privacy.groups import Protected, group_event, group_guarantee
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.terms import Terms

SAMPLED = PoissonSampledDpEvent(0.05, GaussianDpEvent(2.0))


@pytest.mark.parametrize("count", [2, 3, 7])
def test_pure_noise_costs_k_times_as_much_and_gaussian_noise_k_times_mu(count):
    for event, epsilon in (
        (LaplaceDpEvent(4.0), 0.25),
        (DiscreteLaplaceDpEvent(0.1, 2), 0.2),
        (RandomizedResponseDpEvent(0.5, 2), math.log(3)),
        (ApproximateDpEvent(0.3), 0.3),
    ):
        found = epsilon_of(group_event(event, count, 0.0), 0.0)
        assert count * epsilon <= found * (1 + 1e-15) and found <= count * epsilon * (1 + 1e-9)
    moved = epsilon_of(group_event(repeat(GaussianDpEvent(8.0), 4), count, 1e-6), 1e-6)
    assert moved == pytest.approx(gdp_to_dp(count * 0.25, 1e-6), rel=1e-9)
    assert group_event(ZCDpEvent(0.5), count, 0.0).rho == pytest.approx(0.5 * count**2)


def test_the_general_rule_grows_delta_as_the_theorem_says():
    epsilon, delta = group_guarantee(0.7, 1e-6, 4)
    assert epsilon == pytest.approx(2.8)
    exact = 1e-6 * math.expm1(4 * 0.7) / math.expm1(0.7)
    assert exact <= delta <= exact * (1 + 1e-9)
    assert group_guarantee(800.0, 1e-6, 4)[1] == 1.0


def test_sampled_noise_is_converted_by_the_general_rule_at_the_same_delta():
    run = repeat(SAMPLED, 20)
    found = group_event(run, 3, 1e-5)
    assert isinstance(found, ApproximateDpEvent) and found.delta <= 1e-5
    # k units in one joint sample cannot do better than the same units unsampled, k times as far
    assert epsilon_of(run, 1e-5) * 2 < found.epsilon


def test_a_replaced_unit_is_not_merely_twice_the_epsilon():
    """A Gaussian of ε = 1.99 under add-remove is 4.38 under replace-one."""
    ledger = Protected("row", REPLACE)
    one = epsilon_of(GaussianDpEvent(2.0), 1e-5)
    other = epsilon_of(ledger.converted(GaussianDpEvent(2.0), "row", ADD_REMOVE, 1e-5), 1e-5)
    assert one == pytest.approx(1.993, abs=1e-3)
    assert other == pytest.approx(4.377, abs=1e-3)


def test_a_sampled_gaussian_is_replaced_by_its_own_event():
    found = Protected("row", REPLACE).converted(repeat(SAMPLED, 3), "row", ADD_REMOVE, 1e-5)
    assert found == repeat(PoissonSampledDpEvent(0.05, GaussianDpEvent(2.0), REPLACE), 3)


@pytest.mark.parametrize(
    ("ledger", "charge", "words"),
    [
        (("user", ADD_REMOVE, {}), ("row", ADD_REMOVE), r"most=\{'row'"),
        (("user", ADD_REMOVE, {"row": 3}), ("row", REPLACE), "come or go"),
        (("row", ADD_REMOVE, {}), ("entry", REPLACE), "come or go"),
        (("row", ADD_REMOVE, {}), ("user", ADD_REMOVE), "coarsest unit"),
        (("document", REPLACE, {"row": 2}), ("row", REPLACE), "coarsest unit"),
    ],
)
def test_what_says_nothing_about_the_ledgers_unit_is_refused(ledger, charge, words):
    with pytest.raises(NotCertified, match=words):
        Protected(*ledger).count(*charge)


@pytest.mark.parametrize(
    ("ledger", "charge", "count"),
    [
        (("user", ADD_REMOVE), ("user", ADD_REMOVE), 1),
        (("user", ADD_REMOVE), ("row", ADD_REMOVE), 5),
        (("user", REPLACE), ("row", ADD_REMOVE), 10),
        (("user", REPLACE), ("row", REPLACE), 5),
        (("user", REPLACE), ("user", ADD_REMOVE), 2),
    ],
)
def test_finer_units_are_converted_by_the_stated_bound(ledger, charge, count):
    protected = Protected(*ledger, {"row": 5})
    assert protected.count(*charge) == count
    assert (protected.said(*charge) == "") is (count == 1)


def test_a_ledger_of_users_counts_rows_by_their_bound():
    ledger = Ledger.memory(epsilon=1.0, unit="user", most={"row": 5})
    terms = Terms.of(Privacy(1.0, unit="row"))
    ledger.charge(LaplaceDpEvent(10.0), purpose="rows", terms=terms)
    assert ledger.spent.epsilon == 0.5
    (row,) = ledger.rows()
    assert (row.unit, row.neighbours) == ("row", ADD_REMOVE)
    shown = ledger.table()[0]
    assert shown[4:7] == ("row, add-remove-one", "0.1", "0.5")  # both are shown
    assert ledger.conversions() == {"one user as 5 row changes (add-remove-one)"}
    with pytest.raises(BudgetExceeded):
        ledger.charge(LaplaceDpEvent(5.0), purpose="ε = 0.2 is 1 here", terms=terms)
    assert ledger.verify() == 1
    with pytest.raises(NotCertified, match="come or go"):
        ledger.charge(LaplaceDpEvent(5.0), purpose="x", terms=Terms.of(Privacy(1.0, unit="entry")))


def test_what_was_asked_for_is_charged_in_full_in_the_charges_own_unit():
    ledger = Ledger.memory(epsilon=4.0, unit="user", most={"row": 2})
    terms = Terms.of(Privacy(1.0, unit="row"))
    ledger.reserve(LaplaceDpEvent(1.0), purpose="x", asked=1.0, terms=terms)
    assert ledger.spent.epsilon == 2.0
    with pytest.raises(NotCertified, match="calibrated for"):
        ledger.reserve(LaplaceDpEvent(0.9), purpose="x", asked=1.0, terms=terms)


@pytest.mark.parametrize("count", [2, 5])
def test_a_certificate_for_a_group_verifies_and_says_so(count):
    for event, delta in ((repeat(GaussianDpEvent(9.0), 4), 1e-6), (repeat(SAMPLED, 9), 1e-4)):
        one = Certificate.issue(Privacy(1.0, delta), event)
        group = Certificate.from_json(one.for_group(count).to_json()).verify()
        assert group.epsilon > count * one.epsilon * 0.99 and group.delta == delta
        assert group.group == count and f"up to {count} times" in str(group)
        assert "converted from the certificate of one row" in group.assumptions[-1]
    assert one.for_group(1) is one


def test_a_group_of_groups_takes_the_dearest_of_them():
    one = Certificate.issue(Privacy(1.0), LaplaceDpEvent(4.0), groups={"few": LaplaceDpEvent(2.0)})
    assert one.for_group(2).epsilon == 1.0
