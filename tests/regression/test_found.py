"""Ranges that are found: what it costs, what a row can move, and what is said where it fails."""

import math

import numpy as np
import pytest

from tacit import FindBounds, Ledger, Privacy, PrivateLinearRegression, Site
from tacit._core.rng import generator
from tacit.errors import NotCertified, ParameterError
from tacit.estimators.gate import Gate
from tacit.estimators.steps import Asked
from tacit.federation.computation import Computation
from tacit.federation.proposal import Proposal
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.published.alparslan2023_averaged import AveragedRegression
from tacit.regression.found import FindingAgreement, FoundDesign, RawRows
from tacit.regression.search import FindBounds as Search
from tacit.regression.search import followed, middles_and_halves

RNG = np.random.default_rng(1)
N = 6000
X = np.column_stack([RNG.uniform(20, 90, N), RNG.normal(1000, 5, N), RNG.random(N) < 0.3])
Y = 500 + 3 * X[:, 0] + 4 * (X[:, 1] - 1000) + 30 * X[:, 2] + RNG.normal(0, 10, N)
ASKED = Privacy(2.0, 1e-6)


THREE = FindBounds(3)


def model(bounds=THREE, privacy=ASKED, **more):
    settings = {"chains": 2, "draws": 100, "warmup": 100, "noise": "grid", "random_state": 4}
    return PrivateLinearRegression(bounds=bounds, privacy=privacy, **{**settings, **more})


def agreement(neighbours=ADD_REMOVE, **more):
    design = FoundDesign((0.0,) * 4, (1.0,) * 4, neighbours=neighbours)
    asked = Privacy(1.0, 1e-6, unit="row", neighbours=neighbours)
    own = design, ("a", "b", "c", "y"), asked, 1, "grid"
    return FindingAgreement(*own, search=FindBounds(["a", "b", "c"]), **more)


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_finding_is_charged_with_the_rest_and_the_price_says_so(neighbours):
    own = agreement(neighbours)
    assert [step.name for step in own.steps[:-1]] == [f"range of {c}" for c in "abcy"]
    assert 0.99 < epsilon_of(own.event, 1e-6) <= 1.0
    price = model().price()
    assert "of it ε = 0.6 finds the ranges of 4 columns" in str(price)
    assert "finds the ranges" in price.summary().headline
    known = agreement(neighbours, response=False)
    assert len(known.steps) == 4 and "y lies in [-1, 1]" in known.assumptions
    assert not any("lies in" in said for said in own.assumptions)


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_no_ranges_that_are_asked_for_let_a_row_move_the_sums_further(neighbours):
    """Adversarial ranges and rows through the site's own code, with what a request may hold."""
    own, rng = agreement(neighbours), generator(0, "found")
    step, farthest = own.step("rows"), 0.0
    nobody = RawRows(np.zeros((1, 3)), np.zeros(1))
    holder = own.holder("site", nobody, Gate(None, Noise("grid")), 0)
    for _ in range(300):
        far = 10.0 ** rng.uniform(-12, 12, (2, 4))
        middle = far[0] * rng.choice([-1, 0, 1], 4)
        asked = Asked("rows", "", {"middle": middle, "half": far[1]}, {})
        rows = rng.choice([-1e12, -1.0, 0.0, 1.0, 1e300, math.inf], (3, 4))
        rows[1] = asked["middle"] + asked["half"] * rng.choice([-1, 1], 4)
        parts = [
            holder.completed(step, asked, holder.contribute(
                step, asked, {}, RawRows(rows[keep, :3], rows[keep, 3]), None))
            for keep in ([0, 1], [0] if neighbours == ADD_REMOVE else [0, 2])
        ]  # fmt: skip
        farthest = max(farthest, own.mechanism.distance(*parts))
    assert 0.5 < farthest <= 1.0


def test_a_number_lands_on_the_scale_by_itself():
    search = FindBounds(1, smallest=1e-3, largest=1e6)
    values = np.array([0.0, 1e-9, -5.0, 3e5, 1e30, -math.inf, math.nan])
    places = search.to_log(values)
    assert np.abs(places).max() <= 1.0
    assert np.array_equal(places, [search.to_log([v])[0] for v in values])
    np.testing.assert_allclose(search.from_log(places)[2:4], values[2:4], rtol=1e-9)


def test_what_is_found_holds_most_of_a_column():
    found = model().fit(X, Y)
    for name, column in zip(found.ranges_, [*X.T, Y], strict=True):
        low, high = found.ranges_[name]
        assert np.mean((column >= low) & (column <= high)) > 0.85, name
    assert found.score(X, Y) > 0.9
    stated = model([(20, 90), (980, 1020), (0, 1)], y_bounds=(400, 900)).fit(X, Y)
    assert np.mean((found.predict(X) - Y) ** 2) < 1.3 * np.mean((stated.predict(X) - Y) ** 2)
    np.testing.assert_allclose(found.coef_, [3, 4, 30], rtol=0.2)
    exact = model(privacy=None, method="OLS", chains=4, draws=1000, warmup=None).fit(X, Y)
    assert exact.score(X, Y) > 0.95


def test_two_sites_agree_on_the_ranges_and_nobody_comes_later(tmp_path):
    apart = Privacy(4.0, 1e-6, trust="site")
    sites = [Site(f"S{k}", (X[k::2], Y[k::2]), Ledger.memory(epsilon=4.0, delta=1e-5))
             for k in range(2)]  # fmt: skip
    found = model(privacy=apart, random_state=None).fit(sites)
    assert found.score(X, Y) > 0.9
    assert [round(one.ledger.remaining.epsilon, 6) for one in sites] == [0.0, 0.0]
    with pytest.raises(ParameterError, match="none can come later"):
        found.add_sites([Site("late", (X, Y))])
    with pytest.raises(NotCertified, match="no summary can be joined"):
        found.summaries_["S0"].save(tmp_path / "s")
    found.release(tmp_path / "r", ledgers=[])
    back = PrivateLinearRegression.from_release(tmp_path / "r")
    assert back.ranges_ == found.ranges_ and isinstance(back.bounds, Search)
    np.testing.assert_array_equal(back.predict(X[:9]), found.predict(X[:9]))


def test_too_few_rows_are_said_and_nothing_is_predicted():
    found = model(privacy=Privacy(0.5, 1e-6)).fit(X[:200], Y[:200])
    assert found.summary().warnings[0].startswith("Ranges were not found at the data")
    assert not found.coef_.any() and not found.predict(X[:3]).any()


def test_a_response_that_is_mostly_one_number_needs_a_stated_range():
    rare = np.where(RNG.random(N) < 0.1, Y, 0.0)
    found = model().fit(X, rare)
    assert "y is mostly one number" in found.summary().warnings[0]
    assert not found.predict(X[:3]).any()
    stated = model(y_bounds=(0, 900)).fit(X, rare)
    assert stated.coef_.any() and stated.ranges_["y"] == (0, 900)


def test_a_column_that_is_mostly_one_number_is_followed_no_further():
    search = FindBounds(2)
    ends = search.to_log([[[0.0, 0.0], [10.0, 20.0]]])
    middle, half = middles_and_halves(search, ends, centred=True)
    assert (middle[1], half[1]) == pytest.approx((15.0, 30.0), rel=1e-3)
    low, high = followed(search, middle, half)
    assert high[0] == pytest.approx(1e-6) and low[0] == -high[0]
    assert (low[1], high[1]) == pytest.approx((-75.0, 105.0), rel=1e-3)
    middle, half = middles_and_halves(search, ends, centred=False)  # zero stays zero
    assert (middle[1], half[1]) == pytest.approx((0.0, 120.0), rel=1e-3)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: FindBounds("age"), "features must be names"),
    (lambda: FindBounds([]), "different names"),
    (lambda: FindBounds(2, share=1.0), "share"),
    (lambda: FindBounds(2, smallest=1.0, largest=2.0), "ten times"),
    (lambda: FindBounds.of({"find": ["a"], "part": 0.5}), "no 'part'"),
    (lambda: model(privacy=Privacy(1.0, 1e-6, trust="aggregator")).price(), "cannot be found"),
    (lambda: AveragedRegression(bounds=FindBounds(2), privacy=Privacy(
        1.0, 1e-6, neighbours=REPLACE)).price(), "cannot be found here"),
])  # fmt: skip
def test_what_cannot_be_found_is_refused(make, words):
    with pytest.raises(ParameterError, match=words):
        make()


def test_a_proposal_may_ask_for_it():
    settings = {"bounds": {"find": ["a", "b"], "share": 0.2}, "target": "y"}
    asked = {"epsilon": 1.0, "delta": 1e-6, "unit": "row", "trust": "site"}
    made = Computation(Proposal("regression", settings, asked, ("A", "B"), "run"))
    assert [step.name for step in made.agreement.steps][:2] == ["range of a", "range of b"]
    assert made.agreement.search == FindBounds(["a", "b"], share=0.2)
