"""Several targets from one release."""

import numpy as np
import pytest

import tacit as tc
from tacit import FindBounds, Ledger, Privacy, PrivateLinearRegression, Site, SiteSummary
from tacit.errors import ParameterError
from tacit.regression.total import TOTAL

RNG = np.random.default_rng(2)
N = 6000
AGE, SEX = RNG.uniform(20, 90, N), RNG.choice(["f", "m"], N)
WEIGHT = 40 + 0.5 * AGE + 5 * (SEX == "m") + RNG.normal(0, 5, N)
PRESSURE = 70 + 0.5 * AGE + 0.3 * WEIGHT + RNG.normal(0, 4, N)
TABLE = {"age": AGE, "sex": SEX, "weight": WEIGHT, "pressure": PRESSURE}
COLUMNS = tc.Columns(age=tc.number(20, 90), sex=tc.category("f", "m"), weight=tc.number(20, 140),
                     pressure=tc.number(60, 200))  # fmt: skip
RANGES = {"age": (20, 90), "weight": (20, 140)}


def model(**more):
    settings = {"target": "pressure", "statistics": "moments", "method": "Bayes-fixedS-fast",
                "draws": 40, "chains": 1, "privacy": Privacy(1.0, 1e-6), **more}  # fmt: skip
    return PrivateLinearRegression(settings.pop("columns", COLUMNS), **settings)


def numbers(part=slice(None)):
    return {"age": AGE[part], "weight": WEIGHT[part], "pressure": PRESSURE[part]}


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize(("target", "features"), [
    ("weight", ["age"]), ("weight", None), ("pressure", ["weight"]),
    ("age", ["pressure", "weight"]),
])  # fmt: skip
def test_without_noise_it_is_the_fit_of_those_columns(target, features, intercept):
    exact = {"columns": None, "method": "OLS", "privacy": None, "intercept": intercept}
    for name in ("draws", "chains"):
        exact[name] = {"draws": 1000, "chains": 4}[name]
    whole = model(**exact, bounds=RANGES, y_bounds=(60, 200)).fit(numbers())
    found = whole.about(target, features)
    ranges = {**RANGES, "pressure": (60, 200)}
    left = features or [name for name in ranges if name != target]
    direct = model(**exact | {"target": target}, bounds={name: ranges[name] for name in left},
                   y_bounds=ranges[target]).fit(numbers())  # fmt: skip
    np.testing.assert_allclose(found.coef_, direct.coef_, rtol=1e-3)
    np.testing.assert_allclose(found.intercept_, direct.intercept_, rtol=1e-3, atol=0.1)
    np.testing.assert_allclose(found.predict(numbers()), direct.predict(numbers()), rtol=1e-3)


def test_nothing_is_paid_again_and_the_view_is_mailed_and_released(tmp_path):
    payer = Ledger.memory(epsilon=1.0, delta=1e-5)
    whole = model(ledger=payer).fit(TABLE)
    assert payer.remaining.epsilon == pytest.approx(0.0, abs=1e-9)
    found = whole.about("weight", ["age", "sex"])
    assert found.columns_ == ("age", "sex=m", "weight") and found.target == "weight"
    np.testing.assert_allclose(found.coef_, [0.5, 5.0], rtol=0.2)
    assert found.certificate_ == whole.certificate_ and len(found.certificates_) == 1
    assert "weight changes by" in found.summary().headline
    found.summaries_["the data"].save(tmp_path / "s.json")
    assert SiteSummary.load(tmp_path / "s.json").verify().columns == found.columns_
    found.release(tmp_path / "r", ledgers=[])
    back = PrivateLinearRegression.from_release(tmp_path / "r")
    np.testing.assert_array_equal(back.predict(TABLE), found.predict(TABLE))
    assert set(whole.about("pressure").columns_) == set(whole.columns_)


def test_it_is_the_same_over_sites_in_a_sum_and_with_found_ranges():
    parts = [Site(f"S{k}", numbers(slice(k, None, 3))) for k in range(3)]
    settings = {"columns": None, "bounds": RANGES, "y_bounds": (60, 200)}
    for trust in ("site", "aggregator"):
        found = model(**settings, privacy=Privacy(3.0, 1e-6, trust=trust)).fit(parts)
        view = found.about("weight", ["age"])
        np.testing.assert_allclose(view.coef_, [0.5], rtol=0.3)
        assert set(view.certificates_) == {"S0", "S1", "S2"}
        assert (TOTAL in view.summaries_) == (trust == "aggregator")
    ours = {
        "columns": None,
        "bounds": FindBounds(["age", "weight"]),
        "privacy": Privacy(4.0, 1e-6),
    }
    found = model(**ours).fit(numbers())
    view = found.about("weight", ["age"])
    np.testing.assert_allclose(view.coef_, [0.5], rtol=0.3)
    assert view.ranges_["age"] == found.ranges_["age"]


@pytest.mark.parametrize(("more", "asked", "words"), [
    ({"statistics": "weighted"}, ("weight",), "statistics='moments'"),
    ({"weights": {"age": 0.5}}, ("weight",), "leave weights out"),
    ({}, ("height",), "must be one of the columns"),
    ({}, ("sex=m",), "a value of a category"),
    ({}, ("weight", "age"), "list of columns"),
    ({}, ("weight", ["weight"]), "other than 'weight'"),
    ({}, ("weight", ["age", "age"]), "different columns"),
])  # fmt: skip
def test_what_cannot_be_read_from_a_release_is_refused(more, asked, words):
    with pytest.raises(ParameterError, match=words):
        model(**more).fit(TABLE).about(*asked)
