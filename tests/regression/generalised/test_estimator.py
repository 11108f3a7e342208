"""The estimators: names in and out, sites, releases, restarts and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, PoissonRegressor

import tacit as tc
from tacit.errors import ParameterError, TacitError, UnboundedData

PRIVACY = tc.Privacy(1.0, 1e-6)


def rows(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 10.0, (n, 3))
    eta = 0.8 * x[:, 0] - 0.4 * x[:, 1] - 2.0
    return x, (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int), rng


def logistic(**more):
    given = {"bounds": [(0, 10)] * 3, "classes": (0, 1), "random_state": 0, **more}
    return tc.PrivateLogisticRegression(**given)


def poisson(**more):
    return tc.PrivatePoissonRegression(
        **{"bounds": [(0, 10)] * 3, "y_bounds": (0, 40), "random_state": 0, **more}
    )


def test_without_privacy_it_is_the_regression_that_everybody_knows():
    x, y, rng = rows()
    free = LogisticRegression(C=1e6).fit(x, y)
    own = logistic().fit(x, y)
    np.testing.assert_allclose(own.coef_, free.coef_[0], atol=0.5 * own.coef_sd_.max())
    counts = rng.poisson(np.exp(0.25 * x[:, 0] - 0.1 * x[:, 1]))
    plain = PoissonRegressor(alpha=0.0, max_iter=1000).fit(x, counts)
    found = poisson().fit(x, counts)
    np.testing.assert_allclose(found.coef_, plain.coef_, atol=found.coef_sd_.max())
    assert found.score(x, counts) == pytest.approx(plain.score(x, counts), abs=0.01)
    for asked, wrong in (
        ((x, counts, 0.0 * counts), "at least one row"),
        ((x, counts[1:]), "each row"),
        ((x, -1.0 - counts), "0 or more"),
    ):
        with pytest.raises(TacitError, match=wrong):
            found.score(*asked)


@pytest.mark.parametrize("make", [logistic, poisson])
def test_an_infinite_epsilon_gives_the_same_numbers(make):
    x, y, _ = rows(500)
    bare, endless = make().fit(x, y), make(privacy=tc.Privacy(np.inf, 1e-6)).fit(x, y)
    assert np.array_equal(bare.coef_, endless.coef_)
    assert np.array_equal(bare.draws_, endless.draws_)


def test_labels_categories_and_names_come_out_as_they_went_in():
    x, y, rng = rows()
    names = np.array(["well", "ill"])
    table = {
        "age": x[:, 0].tolist(),
        "dose": [None if k % 50 == 0 else v for k, v in enumerate(x[:, 1])],
        "sex": rng.choice(["f", "m"], len(x)).tolist(),
        "state": names[y].tolist(),
    }
    columns = tc.Columns(
        age=tc.number(0, 10), dose=tc.number(0, 10), sex=tc.category("f", "m"),
        state=tc.category("well", "ill"), missing="impute",
    )  # fmt: skip
    model = tc.PrivateLogisticRegression(
        columns, target="state", privacy=PRIVACY, random_state=0
    ).fit(table)
    assert model.columns_ == ("age", "dose", "sex=m", "state")
    assert model.feature_names_in_.tolist() == ["age", "dose", "sex"]
    some = {name: values[:5] for name, values in table.items() if name != "state"}
    some["dose"] = [5.0] * 5
    assert set(model.predict(some)) <= {"well", "ill"}
    shares, (low, high) = model.predict_proba(some, interval=0.9)
    assert (low <= shares[:, 1]).all()
    assert (shares[:, 1] <= high).all()
    assert "log-odds of ill" in str(model.summary())
    assert model.score(table) > 0.8
    other = tc.PrivateLogisticRegression(columns, target="sex", privacy=PRIVACY)
    assert "sex" not in other.price().__str__() or other.price()


def test_a_label_that_was_not_stated_is_refused_to_the_holder():
    x, y, _ = rows(100)
    with pytest.raises(TacitError, match="none of the classes"):
        logistic(classes=("no", "yes")).fit(x, np.where(y, "yes", "maybe"))


@pytest.mark.parametrize(
    ("make", "wrong", "words"),
    [
        (logistic, {"classes": None}, "classes must be given"),
        (logistic, {"classes": (0, 1, 2)}, "two different labels"),
        (logistic, {"bounds": None}, "bounds must be given"),
        (poisson, {"y_bounds": None}, "y_bounds must be given"),
        (poisson, {"y_bounds": (-1, 5)}, "0 ≤ low < high"),
        (poisson, {"privacy": tc.Privacy(1.0)}, "delta must be positive"),
    ],
)
def test_what_is_missing_is_said_before_anything_is_read(make, wrong, words):
    with pytest.raises((UnboundedData, ParameterError), match=words):
        make(**wrong).price()


@pytest.mark.parametrize("trust", ["site", "aggregator"])
def test_sites_learn_together_and_each_has_its_certificate(trust):
    x, y, _ = rows(6000)
    sites = [tc.Site(f"s{k}", (x[k::3], y[k::3])) for k in range(3)]
    model = logistic(privacy=tc.Privacy(2.0, 1e-6, trust=trust)).fit(sites)
    assert len(model.certificates_) == 3
    assert all(one.epsilon <= 2.0 for one in model.certificates_.values())
    np.testing.assert_allclose(model.coef_, [0.8, -0.4, 0.0], atol=0.25)


def test_sums_that_nobody_sees_through_cost_no_accuracy():
    x, y, _ = rows(3000)
    sites = [tc.Site(f"s{k}", (x[k::6], y[k::6])) for k in range(6)]
    spread = {
        trust: logistic(privacy=tc.Privacy(0.5, 1e-6, trust=trust)).fit(sites).coef_sd_.mean()
        for trust in ("site", "aggregator")
    }
    alone = logistic(privacy=tc.Privacy(0.5, 1e-6)).fit(x, y).coef_sd_.mean()
    assert spread["aggregator"] < 1.5 * alone
    assert spread["site"] > 1.5 * spread["aggregator"]


@pytest.mark.parametrize("method", ["rounds", "one-shot"])
@pytest.mark.parametrize("neighbours", ["add-remove-one", "replace-one"])
def test_both_methods_and_relations_meet_their_promise(method, neighbours):
    x, y, _ = rows(4000)
    asked = tc.Privacy(1.0, 1e-6, neighbours=neighbours)
    model = logistic(privacy=asked, method=method).fit(x, y)
    assert model.certificate_.epsilon <= 1.0
    assert model.certificate_.neighbours == neighbours
    free = LogisticRegression(C=1e6).fit(x, y).score(x, y)
    assert model.score(x, y) > free - 0.01
    assert ("the number of rows is public" in model.certificate_.assumptions) == (
        neighbours == "replace-one"
    )


def test_people_with_several_rows_are_the_unit():
    x, y, _ = rows(4000)
    table = {"a": x[:, 0], "b": x[:, 1], "y": y.astype(bool), "who": np.arange(4000) // 2}
    columns = tc.Columns(
        a=tc.number(0, 10), b=tc.number(0, 10), y=tc.boolean(), person="who", rows_per_person=2
    )
    model = tc.PrivateLogisticRegression(
        columns, target="y", privacy=tc.Privacy(2.0, 1e-6), random_state=0
    ).fit(table)
    assert model.certificate_.unit == "user"
    assert "at most 2 rows of one person count" in model.certificate_.assumptions
    assert set(model.predict({"a": [9.0, 0.0], "b": [0.0, 9.0]})) == {True, False}


def test_a_release_comes_back_with_the_same_answers(tmp_path):
    x, _, rng = rows(2000)
    counts = rng.poisson(np.exp(0.25 * x[:, 0]))
    model = poisson(privacy=PRIVACY, random_state=None).fit(x, counts)
    back = tc.PrivatePoissonRegression.from_release(model.release(tmp_path / "release"))
    mean, (low, high) = model.predict(x[:20], interval=0.9)
    same, ends = back.predict(x[:20], interval=0.9)
    assert np.array_equal(mean, same)
    assert np.array_equal((low, high), ends)
    assert back.certificate_.epsilon == model.certificate_.epsilon
    covered = (counts[:500] >= model.predict(x[:500], interval=0.9)[1][0]).mean()
    assert covered > 0.9


def test_a_run_that_stopped_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    x, y, _ = rows(1000)
    ledger = tc.Ledger.memory(epsilon=1.0, delta=1e-6)
    whole = logistic(privacy=PRIVACY).fit(x, y)
    model = logistic(privacy=PRIVACY, ledger=ledger, checkpoint=tmp_path / "kept")
    from tacit.regression.generalised import gradients

    real, calls = gradients.gradient_sum, []

    def broken(*given):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return real(*given)

    monkeypatch.setattr("tacit.regression.generalised.sides.gradient_sum", broken)
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y)
    calls.extend([1] * 9)
    model.fit(x, y)
    assert ledger.spent.epsilon <= 1.0
    np.testing.assert_allclose(model.coef_, whole.coef_, atol=0.5)


def test_counts_that_vary_more_than_poissons_law_say_so():
    x, _, rng = rows(8000)
    mean = np.exp(0.2 * x[:, 0])
    counts = rng.poisson(rng.gamma(mean / 2.0, 2.0))  # variance three times the mean
    model = poisson(privacy=tc.Privacy(3.0, 1e-6)).fit(x, counts)
    assert 2.0 < model.dispersion_ < 4.0


@pytest.mark.parametrize("setting", [(4000, 1.0, False), (1000, 0.5, True)])
@pytest.mark.parametrize("link", ["logistic", "poisson"])
def test_intervals_cover_where_the_model_holds(link, setting):
    """`python -m experiments glm` has hundreds of fits; here a collapse would show."""
    from experiments.glm import covered

    held = [hit for seed in range(24) for hit in covered(link, 1000 + seed, *setting)]
    # 120 intervals: 0.87 less two standard errors
    assert np.mean(held) > 0.80


def test_noise_that_hides_everything_leaves_the_base_rate():
    rng = np.random.default_rng(0)
    losses = []
    for seed in range(6):
        x, y = rng.uniform(0, 10, (80, 3)), (rng.random(80) < 0.3).astype(int)
        model = logistic(privacy=tc.Privacy(0.1, 1e-6), rows=80, random_state=seed).fit(x, y)
        share = model.predict_proba(x)[:, 1]
        losses.append(-np.mean(np.log(np.where(y, share, 1.0 - share))))
    assert np.mean(losses) < 0.8  # log 2 = 0.69 knows nothing
