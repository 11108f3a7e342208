"""Regression over tables by what is public about their columns."""

import numpy as np
import pandas as pd
import pytest

import tacit as tc
from tacit.data.problems import BadTable
from tacit.errors import ParameterError

COLUMNS = tc.Columns(
    age=tc.number(20, 90), sex=tc.category("f", "m", "x"), treated=tc.boolean(),
    pressure=tc.number(60, 220),
)  # fmt: skip
WIDE = tc.Privacy(1e4, 1e-6)


def table(rows=4000, seed=0):
    rng = np.random.default_rng(seed)
    age, sex = rng.uniform(20, 90, rows), rng.integers(0, 3, rows)
    treated = rng.random(rows) < 0.5
    effect = np.array([0.0, 8.0, -5.0])[sex]
    pressure = 100 + 0.5 * (age - 55) + effect - 12 * treated + rng.normal(0, 5, rows)
    return pd.DataFrame({
        "pressure": pressure.clip(60, 220), "treated": np.where(treated, "yes", "no"),
        "sex": np.array(["f", "m", "x"])[sex], "age": age,
    })  # fmt: skip


def test_categories_truth_values_and_numbers_are_encoded_by_name():
    model = tc.PrivateLinearRegression(
        COLUMNS, target="pressure", method="Bayes-fixedS-fast", privacy=WIDE, random_state=0
    ).fit(table())
    assert model.columns_ == ("age", "sex=m", "sex=x", "treated", "pressure")
    np.testing.assert_allclose(model.coef_, [0.5, 8.0, -5.0, -12.0], atol=1.0)
    later = table(50, seed=1)
    expected = 100 + 0.5 * (later.age - 55) - 12 * (later.treated == "yes")
    expected += later.sex.map({"f": 0.0, "m": 8.0, "x": -5.0})
    found = model.predict(later[["sex", "treated", "age"]])
    assert np.sqrt(np.mean((found - expected) ** 2)) < 2.0


def test_files_frames_and_pairs_give_the_same(tmp_path):
    frame = table(500)
    file = tmp_path / "a.csv"
    frame.to_csv(file, index=False)

    def fitted(data, y=None):
        return tc.PrivateLinearRegression(
            COLUMNS, target="pressure", method="OLS", random_state=0
        ).fit(data, y).coef_  # fmt: skip

    one = fitted(frame)
    np.testing.assert_array_equal(fitted(str(file)), one)
    np.testing.assert_array_equal(fitted(frame.drop(columns="pressure"), frame.pressure), one)


def test_a_bad_row_is_named_before_anything_is_paid(tmp_path):
    ledger = tc.Ledger.open(tmp_path / "a.ledger", epsilon=10, delta=1e-3)
    model = tc.PrivateLinearRegression(
        COLUMNS, target="pressure", privacy=tc.Privacy(1, 1e-6), ledger=ledger
    )
    frame = table(50).astype(object)
    frame.loc[7, "sex"] = "q"
    frame.loc[9, "age"] = None
    with pytest.raises(BadTable) as caught:
        model.fit(frame)
    assert {(p.column, p.places[0][1]) for p in caught.value.problems} == {("sex", 8), ("age", 10)}
    assert ledger.spent.epsilon == 0.0


def test_a_release_predicts_from_the_callers_own_columns(tmp_path):
    model = tc.PrivateLinearRegression(
        COLUMNS, target="pressure", method="Bayes-fixedS-fast", privacy=WIDE
    ).fit(table())
    back = tc.PrivateLinearRegression.from_release(model.release(tmp_path / "r"))
    later = table(20, seed=3)
    np.testing.assert_allclose(back.predict(later), model.predict(later))
    assert back.columns == COLUMNS


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "target must be one of the columns"),
        ({"target": "sex"}, "must be a number, not a category"),
        ({"target": "pressure", "y_bounds": (0, 1)}, "leave bounds and y_bounds out"),
        ({"target": "pressure", "privacy": tc.Privacy(1, 1e-6, unit="user")}, "name the person"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, said):
    with pytest.raises(ParameterError, match=said):
        tc.PrivateLinearRegression(COLUMNS, **settings).fit(table(50))


# -- people with several rows --------------------------------------------------------------------


def people(**more):
    return tc.Columns(x=tc.number(-1, 1), y=tc.number(-1, 1), person="id", target="y", **more)


def fitted(data, columns):
    model = tc.PrivateLinearRegression(columns, privacy=tc.Privacy(1.0, 1e-6))
    return model, model.price(), model.fit(data)


def test_a_person_is_the_unit_and_the_certificate_says_so():
    rng = np.random.default_rng(0)
    data = {"id": rng.integers(0, 300, 900), "x": rng.uniform(-1, 1, 900)}
    data["y"] = 0.5 * data["x"]
    one, three = (fitted(data, people(rows_per_person=k))[2] for k in (1, 3))
    for model in (one, three):
        assert model.certificate_.unit == "user"
        assert model.certificate_.verify().epsilon <= 1.0
    assert any("at most 3 rows of one person" in a for a in three.certificate_.assumptions)
    assert three.design_.sensitivity == 3 * one.design_.sensitivity


@pytest.mark.parametrize("more", [{"rows_per_person": 3}, {"per_person": "average"}])
def test_no_person_moves_the_sum_by_more_than_the_certificate_says(more):
    """An attacker brings 500 rows, all as far out as rows can be."""
    columns = people(**more)
    rng = np.random.default_rng(1)
    others = {"id": rng.integers(0, 50, 80).astype(str), "x": rng.uniform(-1, 1, 80)}
    others["y"] = rng.uniform(-1, 1, 80)
    model = tc.PrivateLinearRegression(columns, privacy=tc.Privacy(1.0, 1e-6))
    agreement = model._agree([None])
    step = agreement.steps[0]

    def vector(data):
        from tacit._core.rng import WordStream
        from tacit.data import rows as home

        fixed = home.WordStream
        home.WordStream = lambda: WordStream(7)  # the others' choice is the same both times
        try:
            total = model._read(data, agreement)
        finally:
            home.WordStream = fixed
        return agreement.design.vector(total.total, step.mechanism).value()

    furthest = 0.0
    for x, y in [(1, 1), (1, -1), (-1, 1), (1, 0), (0.4, 1)]:
        bad = {"id": ["evil"] * 500, "x": [x] * 500, "y": [y] * 500}
        bounded = {k: [*list(others[k])[:40], *bad[k]] for k in others}
        without = {k: list(others[k])[:40] for k in others}
        furthest = max(furthest, np.linalg.norm(vector(bounded) - vector(without)))
    assert furthest <= step.mechanism.sensitivity * (1 + 1e-9)
    assert furthest > 0.7 * step.mechanism.sensitivity  # the attack has teeth


def test_dropping_rows_goes_with_add_remove_only():
    columns = tc.Columns(x=tc.number(-1, 1), y=tc.number(-1, 1), missing="drop")
    model = tc.PrivateLinearRegression(
        columns, target="y", privacy=tc.Privacy(1, 1e-6, neighbours="replace-one")
    )
    with pytest.raises(ParameterError, match="under replace-one the number of rows is public"):
        model.fit({"x": [0.1], "y": [0.2]})


def test_several_sites_need_no_word_about_trust():
    frame = table(400)
    sites = [tc.Site("North", frame[:200]), tc.Site("South", frame[200:])]
    model = tc.PrivateLinearRegression(
        COLUMNS, target="pressure", method="Bayes-fixedS-fast", privacy=tc.Privacy(1, 1e-6)
    ).fit(sites)
    assert {c.trust for c in model.certificates_.values()} == {"site"}


def test_what_is_wrong_with_a_table_does_not_get_into_the_record():
    bad = table(60).astype(object)
    bad.loc[7, "sex"] = "HIV clinic"
    sites = [tc.Site("North", table(60)), tc.Site("South", bad)]
    model = tc.PrivateLinearRegression(
        COLUMNS, target="pressure", method="Bayes-fixedS-fast", on_failure="exclude",
        privacy=tc.Privacy(1, 1e-6),
    ).fit(sites)  # fmt: skip
    (failure,) = model.failures_
    assert failure.site == "South" and "HIV" not in failure.reason
