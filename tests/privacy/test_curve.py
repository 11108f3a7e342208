"""Curves: every point is a guarantee of its own, and none is below what is computed."""

import math

import pytest

from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.accounting.gaussian import zcdp_to_dp
from tacit.privacy.certificate import Certificate
from tacit.privacy.curve import curve_of
from tacit.privacy.events import GaussianDpEvent, LaplaceDpEvent, NonPrivateDpEvent, repeat
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.report.terminal import draw_curves

RUN = repeat(GaussianDpEvent(5.0), 7)


def test_a_curve_is_never_below_the_accountant_and_falls_as_delta_grows():
    points = curve_of(RUN).points
    assert all(epsilon_of(RUN, delta) <= epsilon for delta, epsilon in points)
    assert [e for _, e in points] == sorted(e for _, e in points)
    given = Certificate.issue(Privacy(9.0, 1e-5), RUN)
    assert dict(given.curve([1e-5]).points)[1e-5] == given.epsilon


def test_a_curve_of_groups_is_that_of_the_dearest():
    few = LaplaceDpEvent(0.5)
    given = Certificate.issue(Privacy(9.0, 1e-5), RUN, groups={"few": few})
    assert given.curve([1e-9]).points[0][1] >= epsilon_of(few, 1e-9)


@pytest.mark.parametrize("rule", ["basic", "gdp", "zcdp"])
def test_a_ledgers_curve_is_that_of_its_ceiling_whatever_was_spent(rule):
    ledger = Ledger.memory(epsilon=2.0, delta=1e-6, filter=rule)
    before = ledger.curve()
    ledger.charge(GaussianDpEvent(50.0), purpose="x", delta=1e-7)
    assert ledger.curve() == before
    assert dict(before.points)[1e-6] == pytest.approx(2.0, rel=1e-6)
    below = dict(before.points)[1e-9]
    assert math.isinf(below) if rule == "basic" else 2.0 < below < 9.0
    if rule == "zcdp":
        amount = float(ledger._ceiling.amount(0))
        assert below == pytest.approx(zcdp_to_dp(amount, 1e-9), rel=1e-6)


def test_a_picture_has_every_curve_and_says_where_there_is_none():
    text = draw_curves({"run": curve_of(RUN), "nothing": curve_of(NonPrivateDpEvent())})
    assert "● run: ε = " in text and "○ nothing: no finite ε" in text
    assert text.count("●") >= 12  # a point each, and the legend
    assert draw_curves({}) == "ε"
