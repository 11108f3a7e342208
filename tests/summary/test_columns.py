"""Summaries of tables by their columns: categories, groups, people with several rows."""

import numpy as np
import pandas as pd
import pytest

import tacit as tc
from tacit._core.rng import WordStream
from tacit.data import rows as people
from tacit.errors import ParameterError

COLUMNS = tc.Columns(
    age=tc.number(0, 100), sex=tc.category("f", "m", "x"), ward=tc.category("A", "B"),
    treated=tc.boolean(), seen=tc.date("2020-01-01", "2026-12-31"),
)  # fmt: skip


def table(rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m", "x"], rows, p=[0.5, 0.4, 0.1])
    return pd.DataFrame({
        "ward": rng.choice(["A", "B"], rows), "sex": sex, "treated": rng.random(rows) < 0.3,
        "age": np.where(sex == "f", 40.0, 60.0) + rng.normal(0, 5, rows),
        "seen": pd.Timestamp(2024, 1, 1) + pd.to_timedelta(rng.integers(0, 365, rows), "D"),
    })  # fmt: skip


def test_categories_are_counted_and_truth_values_are_shares():
    frame = table()
    found = tc.PrivateSummary(COLUMNS, statistics=("count", "mean")).fit(frame)
    assert found.counts_["sex"] == pytest.approx(frame.sex.value_counts().to_dict(), abs=1e-6)
    assert found.mean_["treated"] == pytest.approx(frame.treated.mean(), abs=1e-9)
    assert COLUMNS["seen"].show(found.mean_["seen"]).startswith("2024-0")


def test_groups_have_their_own_statistics_at_the_price_of_one():
    frame = table()
    exact = tc.PrivateSummary(COLUMNS, by="sex", statistics=("count", "mean")).fit(frame)
    for sex, part in frame.groupby("sex"):
        assert exact.count_[sex] == pytest.approx(len(part), abs=1e-6)
        assert exact.mean_["age"][sex] == pytest.approx(part.age.mean(), abs=1e-6)
        wards = part.ward.value_counts().to_dict()
        assert {w: n[sex] for w, n in exact.counts_["ward"].items()} == pytest.approx(wards)
    privacy = tc.Privacy(1, 1e-6)
    alone = tc.Columns({n: k for n, k in COLUMNS.items() if n != "sex"})
    together = tc.PrivateSummary(COLUMNS, by="sex", privacy=privacy)._agree([None])
    assert together.sensitivity(2) == tc.PrivateSummary(alone)._agree([None]).sensitivity(2)
    noisy = tc.PrivateSummary(COLUMNS, by="sex", statistics=("count",), privacy=privacy).fit(frame)
    assert noisy.count_["f"] == pytest.approx(exact.count_["f"], abs=100)


def test_groups_and_people_go_with_add_remove_only():
    replaced = tc.Privacy(1, 1e-6, neighbours="replace-one")
    with pytest.raises(ParameterError, match="need add-remove-one"):
        tc.PrivateSummary(COLUMNS, by="sex", privacy=replaced).price()
    with pytest.raises(ParameterError, match="by must be one of the categories"):
        tc.PrivateSummary(COLUMNS, by="age").price()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_person_moves_a_summary_by_more_than_the_certificate_says(delta, monkeypatch):
    """An attacker brings 500 rows, all alike or all different; the others' choice is fixed."""
    monkeypatch.setattr(people, "WordStream", lambda: WordStream(5))
    columns = tc.Columns(
        x=tc.number(-1, 1), c=tc.category("a", "b"), g=tc.category("u", "v"),
        person="id", rows_per_person=3,
    )  # fmt: skip
    model = tc.PrivateSummary(columns, by="g", privacy=tc.Privacy(1.0, delta))
    agreement = model._agree([None])
    (step,) = agreement.steps
    rng = np.random.default_rng(2)
    others = pd.DataFrame(
        {
            "id": rng.integers(0, 40, 40).astype(str),
            "x": rng.uniform(-1, 1, 40),
            "c": rng.choice(["a", "b"], 40),
            "g": rng.choice(["u", "v"], 40),
        }
    )
    others = others.drop_duplicates("id")

    def vector(frame):
        from tacit.summary.sides import row_sums

        return row_sums(agreement, model._read(frame, agreement), step.mechanism.grid).value()

    reached = 0.0
    for x, c, g in [(1, "a", "u"), (-1, "b", "v"), (0.5, "a", "v")]:
        evil = pd.DataFrame({"id": "evil", "x": [x] * 500, "c": c, "g": g})
        moved = vector(pd.concat([others, evil])) - vector(others)
        reached = max(reached, np.linalg.norm(moved, step.mechanism.norm))
    assert 0.99 < reached / step.mechanism.sensitivity <= 1.0 + 1e-9


def test_a_release_by_groups_is_read_back(tmp_path):
    odd = tc.Columns({"a/b%": (0.0, 1.0), "g": ["u", "v"]})
    data = {"a/b%": [0.1, 0.9, 0.4], "g": ["u", "v", "v"]}
    model = tc.PrivateSummary(odd, by="g", privacy=tc.Privacy(1, 1e-6)).fit(data)
    back = tc.PrivateSummary.from_release(model.release(tmp_path / "r"))
    assert back.mean_ == model.mean_ and back.count_ == model.count_
    assert back.by == "g" and back.columns == odd


def test_rows_that_are_dropped_are_not_counted():
    stated = tc.Columns(income=tc.number(0, 200_000), missing="drop")
    incomes = [24_000.0] * 600 + [None] * 400
    found = tc.PrivateSummary(stated, statistics=("count", "mean")).fit({"income": incomes})
    assert found.count_ == pytest.approx(600) and found.mean_["income"] == pytest.approx(24_000)
