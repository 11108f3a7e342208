"""What must fit before anybody pays: columns, designs, priors, methods; and what is kept after."""

import numpy as np
import pytest

from tacit import Ledger, Privacy, PrivateLinearRegression, Site
from tacit.errors import NotCertified, ParameterError, SiteFailure
from tacit.privacy.events import REPLACE
from tacit.regression.design import Design
from tacit.regression.numerics.moments import Prior

RNG = np.random.default_rng(3)
N = 1200
X = RNG.uniform(0, 1, (N, 2))
Y = 1 + X @ [1.0, -1.0] + RNG.normal(0, 0.1, N)
PRIVACY = Privacy(1.0, 1e-6, trust="site")


def model(**more):
    settings = {"bounds": [(0, 1), (0, 1)], "y_bounds": (-1, 3), "method": "Bayes-fixedS-fast",
                "chains": 1, "draws": 20, "privacy": PRIVACY, **more}  # fmt: skip
    if settings["method"] == "OLS":
        del settings["chains"], settings["draws"]
    return PrivateLinearRegression(**settings)


def site(name="A", ledger=True):
    return Site(name, (X, Y), Ledger.memory(epsilon=1.0, delta=1e-5) if ledger else None)


def summary(name, **more):
    return model(**more).fit([site(name, False)]).summaries_[name]


@pytest.mark.parametrize(("settings", "words"), [
    ({"method": "MCMC-B&S", "statistics": "Sz"}, "needs the sum of squares of the response"),
    ({"prior": "flat"}, "prior"),
    ({"prior": Prior(features=np.eye(2))}, "prior.features"),
    ({"prior": Prior(features=-np.eye(3))}, "positive definite"),
    ({"prior": Prior(freedom=1.0)}, "prior.freedom"),
])  # fmt: skip
def test_what_inference_would_refuse_is_refused_before_the_charge(settings, words):
    payer = site()
    with pytest.raises(ParameterError, match=words):
        model(**settings).fit([payer])
    assert payer.ledger.remaining.epsilon == 1.0


@pytest.mark.parametrize("other", [
    {"bounds": [(0, 1), (0, 2)]}, {"y_bounds": (-2, 3)}, {"intercept": False},
    {"privacy": Privacy(1.0, 1e-6, trust="site", neighbours=REPLACE)},
])  # fmt: skip
def test_a_summary_that_cannot_join_costs_the_others_nothing(other):
    payer = site()
    with pytest.raises(ParameterError, match=r"cannot be (joined|compared)"):
        model().fit([payer, summary("B", **other)])
    assert payer.ledger.remaining.epsilon == 1.0


def test_summaries_alone_must_be_those_of_the_model():
    with pytest.raises(ParameterError, match="cannot be joined"):
        model(bounds=[(0, 1), (0, 2)]).fit([summary("B")])


def test_columns_in_another_order_cannot_join():
    first = summary("A", bounds={"a": (0, 1), "b": (0, 1)})
    swapped = summary("B", bounds={"b": (0, 1), "a": (0, 1)})
    with pytest.raises(ParameterError, match="columns"):
        model().fit([first, swapped])
    with pytest.raises(ParameterError, match="columns"):
        model(bounds={"a": (0, 1), "b": (0, 1)}).fit([swapped])
    assert set(model().fit([first, summary("C")]).summaries_) == {"A", "C"}


def test_bounds_changed_after_the_fit_do_not_mix():
    fitted = model().fit([site("A")])
    payer = site("B")
    with pytest.raises(ParameterError, match="cannot be joined"):
        fitted.set_params(y_bounds=(-5, 5)).add_sites([payer])
    assert payer.ledger.remaining.epsilon == 1.0


def test_a_site_that_joins_alone_needs_a_site_of_its_own():
    central = Privacy(1.0, 1e-6, trust="central")
    fitted = model(privacy=central).fit([site("A")])
    with pytest.raises(ParameterError, match="nobody who sees all rows"):
        fitted.add_sites([site("B")])


def test_one_of_several_sites_may_hold_a_constant_feature():
    x = X.copy()
    x[:, 1] = 0.5
    fitted = model().fit([summary("A"), Site("B", (x, Y))])
    assert len(fitted.summaries_) == 2
    broken = Site("C", (np.full_like(X, np.nan), Y))
    fitted = model(on_failure="exclude").fit([Site("B", (x, Y)), broken])
    assert set(fitted.summaries_) == {"B"}


def test_a_site_that_fails_after_the_charge_leaves_the_others_their_release(monkeypatch):
    original = Design.vector
    calls = []

    def breaks(*args):
        calls.append(args)
        if len(calls) == 2:
            raise ValueError("a private value")
        return original(*args)

    monkeypatch.setattr(Design, "vector", breaks)
    payers = [site(name) for name in "ABC"]
    fitted = model()
    with pytest.raises(SiteFailure, match="B: ValueError") as caught:
        fitted.fit(payers)
    assert "private value" not in str(caught.value)
    kept = dict(fitted.summaries_)
    assert set(kept) == {"A", "C"}
    fitted.add_sites([site("D")])
    assert fitted.summaries_["A"] is kept["A"] and set(fitted.summaries_) == {"A", "C", "D"}


def test_a_site_that_cannot_be_loaded_is_left_out(tmp_path):
    (tmp_path / "broken.parquet").write_bytes(b"not a table")
    named = {"bounds": {"a": (0, 1), "b": (0, 1)}, "target": "y", "on_failure": "exclude"}
    fitted = model(**named).fit([site("A"), Site("B", tmp_path / "broken.parquet")])
    assert set(fitted.summaries_) == {"A"} and fitted.failures_[0].site == "B"


def test_columns_are_found_by_name_where_a_table_was_fitted():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(X, columns=["a", "b"])
    fitted = model(method="OLS", privacy=None).fit(table, Y)
    assert np.array_equal(fitted.predict(table[["b", "a"]]), fitted.predict(X))
    with pytest.raises(ParameterError, match="column 'a', no such column"):
        fitted.predict(table[["b"]])
    with pytest.raises(ParameterError, match="by their order"):
        model().fit([Site("A", (table, Y)), Site("B", (table[["b", "a"]], Y))])


def test_scores_take_a_column_of_responses():
    fitted = model(method="OLS", privacy=None).fit(X, Y)
    assert fitted.score(X, Y[:, None]) == fitted.score(X, Y)
    with pytest.raises(ParameterError, match="one value for each row"):
        fitted.score(X, Y[:-1])


def test_bounds_may_be_an_array():
    by_list = model(method="OLS", privacy=None).fit(X, Y)
    by_array = model(method="OLS", privacy=None, bounds=np.array([[0, 1], [0, 1]]),
                     y_bounds=np.array([-1, 3])).fit(X, Y)  # fmt: skip
    assert np.array_equal(by_list.coef_, by_array.coef_)
    assert model(bounds=np.float32(2.0)).fit(X, Y).n_features_in_ == 2
    with pytest.raises(ParameterError, match="bounds must be a mapping"):
        model(bounds=object()).fit(X, Y)
    with pytest.raises(ParameterError, match="two axes"):
        model(bounds=2.0).fit(X[:, 0], Y)


@pytest.mark.parametrize("use", [
    lambda m: m.to_arviz(), lambda m: m.release("nowhere"), lambda m: m.score(X, Y),
])  # fmt: skip
def test_an_unfitted_model_says_so(use):
    with pytest.raises((ParameterError, NotCertified), match="fit first"):
        use(model())
