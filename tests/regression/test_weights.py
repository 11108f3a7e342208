"""Public weights of features, and a stated ridge."""

import numpy as np
import pytest

from tacit import Privacy, PrivateLinearRegression, SiteSummary
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.mechanisms.gaussian import Gaussian
from tacit.regression.design import Design
from tacit.regression.rows import summarise

RNG = np.random.default_rng(5)
X = RNG.uniform(-1, 1, (4000, 3))
Y = 0.2 + X @ [0.5, 0.1, 0.0] + RNG.normal(0, 0.05, len(X))
BOUNDS = {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1)}


def model(**more):
    settings = {"bounds": BOUNDS, "y_bounds": (-1, 1), "target": "y", "random_state": 3, **more}
    return PrivateLinearRegression(**settings)


def table(x=X, y=Y):
    return {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": y}


def test_weights_change_no_exact_fit_and_come_back_on_the_callers_scale():
    plain = model(method="OLS").fit(table())
    weighed = model(method="OLS", weights={"b": 0.5, "c": 0.1}).fit(table())
    np.testing.assert_allclose(weighed.coef_, plain.coef_, atol=2e-4)
    assert weighed.design_.weighted == (1.0, 0.5, 0.1)
    assert any(
        "multiplied by 1, 0.5, 0.1" in a for a in weighed.design_.assumptions(("a", "b", "c", "y"))
    )


def test_a_feature_of_small_weight_leaves_the_others_less_noise():
    asked = Privacy(0.5, 1e-6)
    plain, weighed = model(privacy=asked), model(privacy=asked, weights=[1.0, 1.0, 0.05])
    noises = [one._agree([None]).mechanism.scale for one in (plain, weighed)]
    assert noises[1] < 0.8 * noises[0]


@pytest.mark.parametrize("neighbours", ["add-remove-one", "replace-one"])
@pytest.mark.parametrize("statistics", ["weighted", "moments", "Sz", "Szu"])
def test_no_row_moves_the_sums_further_than_is_stated(neighbours, statistics):
    design = Design(
        (0.0,) * 4, (1.0,) * 4, True, neighbours, statistics, weighted=(1.0, 0.4, 0.02)
    )
    mechanism, rng = (
        Gaussian(1.0, design.sensitivity, (design.size,), neighbours),
        generator(0, "w"),
    )
    far = 0.0
    for _ in range(400):
        rows = np.clip(rng.normal(0, 2.0, (3, 4)), -1, 1) * rng.choice([1, 1e6], (3, 4))
        keep = ([0, 1], [0] if neighbours == "add-remove-one" else [0, 2])
        parts = [design.vector(summarise((rows[k, :3], rows[k, 3]), design).total, mechanism)
                 for k in keep]  # fmt: skip
        far = max(far, mechanism.distance(*parts))
    assert 0.3 < far <= 1.0


def test_a_summary_with_weights_is_mailed_and_joins_only_its_like(tmp_path):
    asked = Privacy(1.0, 1e-6, trust="site")
    sampled = {"chains": 1, "draws": 20, "method": "Bayes-fixedS-fast", "privacy": asked}
    made = model(weights=[1.0, 0.5, 0.5], **{**sampled, "random_state": None}).fit(table())
    made.summaries_["the data"].save(tmp_path / "s.json")
    mailed = SiteSummary.load(tmp_path / "s.json")
    assert mailed.design == made.design_
    with pytest.raises(ParameterError, match="another weighted"):
        model(**sampled).fit([mailed])
    made.release(tmp_path / "r", ledgers=[])
    back = PrivateLinearRegression.from_release(tmp_path / "r")
    np.testing.assert_array_equal(back.predict(table()), made.predict(table()))


def test_a_ridge_shrinks_slopes_and_leaves_the_intercept():
    plain = model(method="OLS").fit(table())
    ridged = model(method="OLS", ridge=1e7).fit(table())
    assert np.abs(ridged.coef_).max() < 1e-3
    assert ridged.intercept_ == pytest.approx(Y.mean(), abs=2e-3)
    some = model(method="OLS", ridge=1000.0).fit(table())
    # S of a feature uniform in [-1, 1] is n/3
    np.testing.assert_allclose(some.coef_, plain.coef_ * (4000 / 3) / (4000 / 3 + 1000), atol=0.02)
    noisy = model(method="adaSSP", ridge=1e7, privacy=Privacy(1.0, 1e-6)).fit(table())
    assert np.abs(noisy.coef_).max() < 1e-3 < np.abs(noisy.intercept_)


@pytest.mark.parametrize(("more", "words"), [
    ({"ridge": 1.0}, "pass prior=Prior"),
    ({"weights": {"z": 1.0}}, "weights name 'z'"),
    ({"weights": [1.0]}, "one for each of 3"),
    ({"weights": [1.0, 0.0, 1.0]}, "weights"),
    ({"weights": [1.0, 1e-4, 1.0]}, "a thousand times"),
    ({"bounds": 1.0, "weights": [1.0], "target": None}, "range of every feature"),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(more, words):
    with pytest.raises(ParameterError, match=words):
        model(**more).fit(X, Y)
