"""What a regression and a mailed summary show."""

import numpy as np
import pytest

import tacit as tc
from tacit.privacy.guarantee import Privacy
from tacit.regression.scale import to_callers_scale
from tacit.regression.summary import SiteSummary

BOUNDS = {"age": (20.0, 90.0), "dose": (0.0, 5.0)}


def table(rows, seed=0):
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(20, 90, rows), rng.uniform(0, 5, rows)
    y = 80 + 0.5 * age - 3 * dose + rng.normal(0, 4, rows)
    return {"age": age, "dose": dose, "pressure": y}


def regression(rows=3000, **options):
    options = {"privacy": Privacy(1, 1e-6), "chains": 2, "draws": 300, "warmup": 300, **options}
    model = tc.PrivateLinearRegression(
        bounds=BOUNDS, y_bounds=(40, 160), target="pressure", noise="grid", **options
    )
    return model.fit(table(rows))


@pytest.fixture(scope="module")
def fitted():
    return regression()


def test_coefficients_stand_on_the_callers_scale_with_posterior_quantiles(fitted):
    frame = fitted.to_frame()
    assert frame["coefficient"].to_list() == ["intercept", "age", "dose"]
    assert frame["estimate"].to_list() == pytest.approx([fitted.intercept_, *fitted.coef_])
    assert frame["standard error"].to_list()[1:] == pytest.approx(fitted.coef_sd_.tolist())
    draws = fitted.posterior_.flat @ to_callers_scale(fitted.design_).T
    low, high = np.quantile(draws, [0.05, 0.95], axis=0)
    assert frame["low"].to_list()[1:] == pytest.approx(low[1:].tolist())
    assert frame["high"].to_list()[1:] == pytest.approx(high[1:].tolist())


def test_residuals_have_an_interval(fitted):
    found = fitted.to_frame("residuals").row(0, named=True)
    assert found["estimate"] == pytest.approx(fitted.noise_sd_)
    assert found["low"] < found["estimate"] < found["high"]


def test_details_say_how_the_chains_mixed_and_who_released(fitted):
    details = fitted.summary().details
    (mixed,) = details["How the chains mixed"]
    assert list(mixed.columns["coefficient"]) == ["intercept", "age", "dose"]
    assert min(mixed.columns["effective draws"]) > 10
    assert any(name.startswith("The certificate of") for name in details)


def test_pictures_have_one_unit(fitted):
    picture = fitted.summary().picture("coefficients")
    assert picture.values == pytest.approx((fitted.coef_ * [70.0, 5.0]).tolist())
    density = dict(fitted.summary().picture("posterior").series)["age"]
    across, upwards = np.array(density).T
    assert np.trapezoid(upwards, across) == pytest.approx(1.0, abs=0.02)
    assert fitted.plot().axes and fitted.plot("posterior").axes


def test_what_was_hardly_learned_is_named():
    model = regression(60, privacy=Privacy(0.05, 1e-6), random_state=1)
    (warning,) = (w for w in model.summary().warnings if w.startswith("Hardly"))
    assert "age" in warning and "dose" in warning
    assert not regression(3000, random_state=1).summary().warnings


def test_a_point_estimate_has_no_interval():
    frame = regression(method="adaSSP", chains=4, draws=1000, warmup=None).to_frame()
    assert frame["low"].to_list() == [None] * 3


def test_without_privacy_errors_are_those_of_least_squares():
    model = regression(400, privacy=None, method="conjugate", chains=4, draws=1000, warmup=None)
    data = table(400)
    x = np.column_stack([np.ones(400), data["age"], data["dose"]])
    residual = data["pressure"] - x @ np.linalg.lstsq(x, data["pressure"], rcond=None)[0]
    cov = np.linalg.inv(x.T @ x) * (residual @ residual) / 397
    errors = model.to_frame()["standard error"].to_list()
    assert errors == pytest.approx(np.sqrt(np.diag(cov)).tolist(), rel=0.1)
    assert model.summary().title == "Linear regression"


def test_a_mailed_summary_shows_its_rows_and_sums(tmp_path, fitted):
    (summary,) = fitted.summaries_.values()
    back = SiteSummary.load(summary.save(tmp_path / "site.json"))
    shown = back.summary()
    assert "Promise: ε = 1" in shown.promise
    assert back.to_frame("sites")["rows"][0] == pytest.approx(summary.moments.rows)
    sums = back.to_frame("sums")
    last = sums.row(-1, named=True)
    assert (last["of"], last["times"]) == ("pressure", "pressure")
    assert last["sum"] == pytest.approx(summary.moments.square)
    assert "constant" in sums["of"].to_list() and back._repr_html_()


def test_a_release_shows_the_same_coefficients(tmp_path, fitted):
    fitted.release(tmp_path / "release")
    back = tc.PrivateLinearRegression.from_release(tmp_path / "release")
    frame, before = back.to_frame(), fitted.to_frame()
    assert frame["estimate"].to_list() == pytest.approx(before["estimate"].to_list())
    assert frame["high"].to_list() == pytest.approx(before["high"].to_list(), rel=0.05)


def test_a_method_that_holds_the_released_sums_says_where_noise_hides_them():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (400, 4))
    y = np.clip(x @ [0.3, 0.2, 0.1, 0.0] + rng.normal(0, 0.1, 400), -1, 1)
    few = {"bounds": [(-1, 1)] * 4, "y_bounds": (-1, 1), "method": "Bayes-fixedS-fast",
           "noise": "grid", "random_state": 1}  # fmt: skip
    hidden = tc.PrivateLinearRegression(privacy=Privacy(0.1, 1e-6), **few).fit(x, y)
    assert "noise hides" in hidden.summary().warnings[0]
    seen = tc.PrivateLinearRegression(privacy=Privacy(30.0, 1e-6), **few).fit(x, y)
    assert not any("noise hides" in said for said in seen.summary().warnings)
