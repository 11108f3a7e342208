"""Records that stand in several rows count once, by a rule that looks at one record alone."""

import numpy as np
import pandas as pd
import pytest

import tacit as tc
from tacit.data.problems import BadTable
from tacit.errors import ParameterError

VISITS = {
    "id": ["a", "b", "a", "a", "b", "c"],
    "visit": ["1", "1", "1", "2", "01", "1"],
    "dose": [1.0, 2.0, 3.0, 4.0, 5.0, 9.0],
    "sex": ["f", "m", "f", "m", "m", "f"],
}


def stated(rule, **more):
    kinds = {"dose": tc.number(0, 10), "sex": tc.category("f", "m")}
    settings = {"person": "id", "rows_per_person": 5, "key": "visit", **more}
    return tc.Columns(kinds, duplicates=rule, **settings)


@pytest.mark.parametrize(
    ("rule", "doses"),
    [("first", [1, 2, 4, 5, 9]), ("mean", [2, 2, 4, 5, 9]), ("sum", [4, 2, 4, 5, 9])],
)
def test_rows_of_one_person_and_key_count_once(rule, doses):
    """The same key of another person is another record, and ``01`` is not ``1``."""
    assert stated(rule).read(VISITS).values["dose"].tolist() == doses


def test_by_default_every_row_of_such_a_record_is_listed_to_the_holder(tmp_path):
    pd.DataFrame(VISITS).to_csv(tmp_path / "v.csv", index=False)
    with pytest.raises(BadTable) as caught:
        stated("error").read(tmp_path / "v.csv")
    (problem,) = caught.value.problems
    assert problem.what == "duplicate" and problem.count == 2
    assert [place[:2] for place in problem.places] == [("v.csv", 1), ("v.csv", 3)]
    assert problem.places[0][2] == "id='a', visit='1'" and "'first'" in problem.remedy


def test_without_people_a_record_is_the_unit():
    alone = {"person": None, "rows_per_person": None, "key": ["id", "visit"]}
    read = stated("mean", **alone).read(VISITS)
    assert read.values["dose"].tolist() == [2, 2, 4, 5, 9]
    notes = stated("mean", **alone).assumptions()
    assert "rows with the same id and visit are one record, and their mean counts" in notes
    assert any("rows of one person with the same visit" in n for n in stated("sum").assumptions())


def test_all_that_is_wrong_comes_in_one_pass():
    bad = {**VISITS, "sex": ["f", "m", "m", "m", "m", "f"], "dose": [6, "x", 7, 4, None, 9],
           "visit": ["1", "1", "1", "", "01", "1"]}  # fmt: skip
    with pytest.raises(BadTable) as caught:
        stated("sum").read(bad)
    assert sorted((p.what, p.column) for p in caught.value.problems) == [
        ("missing", "dose"), ("missing", "visit"), ("unreadable", "dose"),
    ]  # fmt: skip
    with pytest.raises(BadTable) as caught:  # which rows are one record is known now
        stated("sum").read({**bad, "dose": [6, 1, 7, 4, 5, 9], "visit": VISITS["visit"]})
    assert [(p.what, p.column, p.places[0][1]) for p in caught.value.problems] == [
        ("outside its range once the rows of a record are added up", "dose", 1),
        ("different in the rows of one record", "sex", 3),
    ]


def test_a_sum_outside_its_range_goes_by_the_rule_for_that():
    data = {**VISITS, "dose": [6, 2, 7, 4, 5, 9]}
    assert stated("sum", outside="clip").read(data).values["dose"].tolist() == [10, 2, 4, 5, 9]
    assert stated("sum", outside="drop").read(data).values["dose"].tolist() == [2, 4, 5, 9]


def test_rows_that_are_left_out_are_no_duplicates():
    data = {**VISITS, "dose": [None, 2, 3, 4, 5, 9]}
    read = stated("error", missing="drop").read(data)
    assert read.values["dose"].tolist() == [2, 3, 4, 5, 9]


def test_a_date_is_the_same_day_however_it_is_written():
    columns = tc.Columns(
        seen=tc.date("2020-01-01", "2026-12-31", formats=["%Y-%m-%d", "%d.%m.%Y"]),
        dose=tc.number(0, 9), key="seen", duplicates="sum",
    )  # fmt: skip
    data = {"seen": ["2024-05-06", "06.05.2024", "2024-05-07"], "dose": [1, 2, 4]}
    assert columns.read(data).values["dose"].tolist() == [3, 4]


def test_values_that_no_list_holds_are_not_taken_for_one_record():
    columns = tc.Columns(ward=["A", "B"], dose=tc.number(0, 9), key="ward", unknown="B",
                         duplicates="first")  # fmt: skip
    read = columns.read({"ward": ["A", "X", "Y", "X"], "dose": [1, 2, 3, 4]})
    assert read.values["dose"].tolist() == [1, 2, 3]


def test_records_come_before_the_bound_on_rows_and_before_averages():
    data = {"id": ["a"] * 4, "visit": [1, 1, 1, 2], "dose": [3, 3, 3, 9], "sex": ["f"] * 4}
    assert sorted(stated("first", rows_per_person=2).read(data).values["dose"]) == [3, 9]
    averaged = stated("first", rows_per_person=None, per_person="average").read(data)
    assert averaged.matrix(["dose"]).tolist() == [[6.0]]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"duplicates": "first"}, "needs key"),
        ({"key": "visit", "duplicates": "last"}, "duplicates must be"),
        ({"key": 3}, "key must be"),
        ({"key": ["id"], "person": "id", "rows_per_person": 1}, "besides the person"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, words):
    with pytest.raises(ParameterError, match=words):
        tc.Columns(dose=tc.number(0, 9), **settings)


def test_it_is_stated_in_files(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('[columns]\nkey = ["id", "visit"]\nduplicates = "mean"\ndose = [0, 10]\n')
    columns = tc.Columns.of(file)
    assert columns.key == ["id", "visit"] and columns.duplicates == "mean"
    assert tc.Columns.of(columns.described()) == columns
    with pytest.raises(BadTable, match="no such column"):
        columns.read({"dose": [1.0], "id": ["a"]})


@pytest.mark.parametrize("rule", ["first", "mean", "sum"])
def test_what_counts_of_a_person_does_not_depend_on_the_others(rule):
    """With any other people around, in any order: the same records."""
    columns = stated(rule, outside="clip")
    rng = np.random.default_rng(0)
    own = pd.DataFrame(VISITS).query("id == 'a'")
    alone = columns.read(own).values["dose"].tolist()
    for _ in range(20):
        size = int(rng.integers(1, 30))
        others = pd.DataFrame({
            "id": rng.choice(["b", "c", "d"], size), "visit": rng.choice(["1", "2"], size),
            "dose": rng.uniform(0, 10, size), "sex": "f",
        })  # fmt: skip
        mixed = pd.concat([others, own]).sort_index(kind="stable").reset_index(drop=True)
        people = columns.read(mixed)
        code = people.people[people.values["dose"].tolist().index(alone[0])]
        assert people.values["dose"][people.people == code].tolist() == alone


def moved(columns, frame, without):
    model = tc.PrivateSummary(columns, statistics=("count", "mean"), privacy=tc.Privacy(1, 1e-6))
    agreement = model._agree([None])
    from tacit.summary.sides import row_sums

    grid = agreement.mechanism.grid
    sums = [row_sums(agreement, model._read(f, agreement), grid).value() for f in (frame, without)]
    norm = agreement.mechanism.norm
    return np.linalg.norm(sums[0] - sums[1], norm) / agreement.sensitivity(norm)


@pytest.mark.parametrize("rule", ["first", "mean", "sum"])
def test_a_record_with_many_rows_moves_a_summary_as_one_row_does(rule):
    columns = tc.Columns(dose=tc.number(0, 10), key="record", duplicates=rule, outside="clip")
    others = pd.DataFrame({"record": np.arange(30), "dose": np.linspace(0, 10, 30)})
    evil = pd.DataFrame({"record": 99, "dose": [10.0] * 400})
    assert 0.99 < moved(columns, pd.concat([others, evil]), others) <= 1.0 + 1e-9
    twin = tc.Columns(dose=tc.number(0, 10), outside="clip")  # counts every row
    assert moved(twin, pd.concat([others, evil]), others) > 100
