"""What `Columns` makes of messy tables: the right numbers, or one list of what to mend."""

import datetime as dt
import io
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse

from tacit.data.dictionary import draft
from tacit.data.files import source
from tacit.data.problems import BadTable
from tacit.data.schema import Columns
from tacit.data.stating import boolean, category, date, number, text, time
from tacit.errors import ParameterError, UnboundedData

COLUMNS = Columns(age=number(0, 120), sex=category("f", "m"), seen=boolean())
PLAIN = {"age": [40, 50, 60], "sex": ["f", "m", "f"], "seen": [True, False, True]}


def values(columns, data, **options):
    return {name: found.tolist() for name, found in columns.read(data, **options).values.items()}


EXPECTED = {"age": [40.0, 50.0, 60.0], "sex": [0.0, 1.0, 0.0], "seen": [1.0, 0.0, 1.0]}


@pytest.mark.parametrize(
    "made",
    [
        lambda: PLAIN,
        lambda: pd.DataFrame(PLAIN),
        lambda: pd.DataFrame(PLAIN, index=[7, 3, 9])[["seen", "sex", "age"]],
        lambda: pd.DataFrame(PLAIN).astype({"age": "float32", "sex": "category"}),
        lambda: pd.DataFrame(PLAIN).astype(object),
        lambda: pd.DataFrame(PLAIN).convert_dtypes(),
        lambda: pl.DataFrame(PLAIN),
        lambda: pl.DataFrame(PLAIN).lazy(),
        lambda: pa.table(PLAIN),
        lambda: pa.table(PLAIN).to_reader(),
        lambda: duckdb.from_arrow(pa.table(PLAIN)),
        lambda: {"Age ": ["40", " 50", "60.0"], "SEX": ["f", "m ", "f"], "seen": ["yes", 0, "T"]},
        lambda: {"extra": [1, 2, 3], **PLAIN},
    ],
)
def test_every_kind_of_table_gives_the_same_rows(made):
    assert values(COLUMNS, made()) == EXPECTED


def test_arrays_and_sparse_matrices_go_by_the_order_of_the_columns():
    numbers = Columns(a=number(0, 9), b=number(0, 9))
    for data in (np.array([[1, 2], [3, 4]]), scipy.sparse.csr_array([[1, 2], [3, 4]])):
        assert values(numbers, data) == {"a": [1.0, 3.0], "b": [2.0, 4.0]}
    with pytest.raises(ParameterError, match="one column for each"):
        numbers.read(np.ones((2, 3)))


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "feather"])
def test_files_give_the_same_rows(ending, tmp_path):
    frame, file = pd.DataFrame(PLAIN), tmp_path / f"a.{ending}"
    if ending == "parquet":
        frame.to_parquet(file)
    elif ending == "feather":
        frame.to_feather(file)
    else:
        frame.to_csv(file, index=False, sep="\t" if ending == "tsv" else ",")
    assert values(COLUMNS, file) == EXPECTED
    assert values(COLUMNS, str(file)) == EXPECTED
    assert values(COLUMNS, f"a.{ending}", folder=tmp_path) == EXPECTED


def test_a_folder_of_files_is_one_table(tmp_path):
    pd.DataFrame(PLAIN)[:1].to_csv(tmp_path / "1.csv", index=False)
    pd.DataFrame(PLAIN)[["seen", "age", "sex"]][1:].to_parquet(tmp_path / "2.parquet")
    assert values(COLUMNS, tmp_path) == EXPECTED
    (tmp_path / "3.csv").write_text("age,sex,seen\n70,q,1\n")
    with pytest.raises(BadTable, match=r"3\.csv, row 1: 'q'"):
        COLUMNS.read(tmp_path)
    (tmp_path / "3.csv").write_text("age,sex\n70,f\n")
    with pytest.raises(ParameterError, match=r"3\.csv and 1\.csv differ in columns \['seen'\]"):
        COLUMNS.read(tmp_path)


def test_databases_are_asked_by_url_or_by_connection(tmp_path):
    connection = sqlite3.connect(tmp_path / "a.db")
    pd.DataFrame(PLAIN).to_sql("t", connection, index=False)
    assert values(COLUMNS, source(connection=connection, query="select * from t")) == EXPECTED
    connection.close()
    asked = source(url=f"sqlite:///{tmp_path}/a.db", query="select * from t")
    assert values(COLUMNS, asked) == EXPECTED


@pytest.mark.parametrize(
    ("written", "options"),
    [
        ("age;sex\n40,5;f\n1.050,0;m\n", {"decimal": ",", "thousands": "."}),
        ("age;sex\n40,5;f\n1050;m\n", {"decimal": ","}),
        ('age,sex\n40.5,f\n"1,050",m\n', {"thousands": ","}),
        ("\ufeffage,sex\n40.5,f\n1050,m\n", {}),
        ('age|sex|note\n40.5|f|"two\nlines"\n1050|m|x\n', {}),
        ("age,sex\r\n40.5,f\r\n1050,m\r\n", {}),
        ("age,sex\n40.5,f\n1.05e3,m", {}),
    ],
)
def test_text_files_are_read_as_they_are_written(written, options, tmp_path):
    wide = Columns(age=number(0, 2000), sex=category("f", "m"))
    file = tmp_path / "a.csv"
    file.write_text(written, encoding="utf-8", newline="")
    assert values(wide, source(file, **options)) == {"age": [40.5, 1050.0], "sex": [0.0, 1.0]}


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16"])
def test_encodings_are_stated_or_marked(encoding, tmp_path):
    ward = Columns(ward=category("Köln", "Bonn"))
    file = tmp_path / "a.csv"
    file.write_text("ward\nKöln\nBonn\n", encoding=encoding)
    assert values(ward, source(file, encoding=encoding)) == {"ward": [0.0, 1.0]}
    if encoding != "utf-16":
        with pytest.raises(ParameterError, match="pass its encoding"):
            ward.read(file)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("", "is empty"),
        ("age,sex\n1,f,3\n", r"a.csv, row 1 has 3 cells: the headings name 2"),
        ("age,age\n1,2\n", "distinct column names"),
        ("age,\n1,2\n", "distinct column names"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(written, said, tmp_path):
    file = tmp_path / "a.csv"
    file.write_text(written)
    with pytest.raises(ParameterError, match=said):
        COLUMNS.read(file)
    with pytest.raises(ParameterError, match="there is no such file"):
        COLUMNS.read(tmp_path / "none.csv")


def test_all_that_is_wrong_comes_in_one_list(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("age,sex,seen\n40,f,1\nold,q,1\n,m,maybe\n130,f,0\n,,\n")
    with pytest.raises(BadTable) as caught:
        COLUMNS.read(file)
    found = {(p.column, p.what): (p.count, p.places[0]) for p in caught.value.problems}
    assert found == {
        ("age", "unreadable"): (1, ("a.csv", 2, "old")),
        ("age", "missing"): (2, ("a.csv", 3, "")),
        ("age", "outside its range"): (1, ("a.csv", 4, "130")),
        ("sex", "unknown"): (1, ("a.csv", 2, "q")),
        ("sex", "missing"): (1, ("a.csv", 5, "")),
        ("seen", "unreadable"): (1, ("a.csv", 3, "maybe")),
        ("seen", "missing"): (1, ("a.csv", 5, "")),
    }
    assert "a.csv, row 2: 'old'" in str(caught.value)


def test_absent_columns_are_all_named():
    with pytest.raises(BadTable) as caught:
        COLUMNS.read({"age": [1]})
    assert [p.column for p in caught.value.problems] == ["sex", "seen"]


def test_missing_values_follow_the_stated_policy():
    data = {"age": [40, None, 60], "sex": ["f", "m", ""]}
    kinds = {"age": number(0, 120), "sex": category("f", "m")}
    assert values(Columns(kinds, missing="drop"), data) == {"age": [40.0], "sex": [0.0]}
    filled = values(Columns(kinds, missing="impute"), data)
    assert filled == {"age": [40.0, 60.0, 60.0], "sex": [0.0, 1.0, 0.0]}
    stated = Columns(kinds, missing="impute", constants={"age": 30, "sex": "m"})
    assert values(stated, data) == {"age": [40.0, 30.0, 60.0], "sex": [0.0, 1.0, 1.0]}


def test_what_is_unknown_or_outside_follows_the_stated_policy():
    data = {"age": [-1, 40, 130], "sex": ["f", "q", "m"]}
    kinds = {"age": number(0, 120), "sex": category("f", "m", "other")}
    other = Columns(kinds, unknown="other", outside="clip")
    assert values(other, data) == {"age": [0.0, 40.0, 120.0], "sex": [0.0, 2.0, 1.0]}
    gone = Columns(kinds, unknown="drop", outside="drop").read(data)
    assert (len(gone), gone.dropped) == (0, 3)
    with pytest.raises(ParameterError, match="unknown='elsewhere'"):
        Columns(kinds, unknown="elsewhere")


def test_dates_are_read_by_their_stated_form():
    day = Columns(d=date("2020-01-01", "2029-12-31"))
    written = ["2024-03-01", "2024-03-01T12:30", "2024-03-01 12:30:15.5"]
    assert values(day, {"d": written}) == {"d": [19783.0] * 3}
    assert values(day, {"d": [dt.date(2024, 3, 1), pd.Timestamp(2024, 3, 1, 5)]}) == {
        "d": [19783.0] * 2
    }
    three = Columns(d=date("2020-01-01", "2029-12-31", ("%d.%m.%Y", "%m/%d/%y", "%Y-%m-%d")))
    assert values(three, {"d": ["01.03.2024", "03/01/24", "2024-03-01"]}) == {"d": [19783.0] * 3}
    with pytest.raises(BadTable, match="its form"):
        day.read({"d": ["03/01/2024"]})
    moment = Columns(d=time("2020-01-01", "2029-12-31"))
    assert values(moment, {"d": ["2024-03-01T12:00"]}) == {"d": [19783.5]}


def test_a_value_is_read_the_same_whatever_its_neighbours_are():
    wide = Columns(x=number(-1e9, 1e9), c=category(1, 2, 12), missing="drop", unknown="drop")
    for neighbour in (3, 2.5, None, "7", np.nan, True):
        for own in (12, 12.0, "12"):
            data = {"x": [own, neighbour], "c": [own, neighbour]}
            for table in (data, pd.DataFrame(data), pd.DataFrame(data, dtype=object)):
                rows = wide.read(table).values
                # the row itself is never lost; the neighbour's may be
                assert rows["x"][0] == 12.0 and rows["c"][0] == 2.0


def test_ids_are_text_and_rows_of_a_person_are_bounded():
    columns = Columns(x=number(0, 9), person="id", rows_per_person=2)
    data = {"id": ["12", "0012", "12", "12", "0012"], "x": [1, 2, 3, 4, 5]}
    for _ in range(5):
        rows = columns.read(data)
        assert rows.people is not None
        counts = np.unique(rows.people, return_counts=True)[1]
        assert counts.tolist() == [2, 2]
    with pytest.raises(BadTable, match="whose it is"):
        columns.read({"id": ["1", None], "x": [1, 2]})
    with pytest.raises(UnboundedData, match="go together"):
        Columns(x=number(0, 9), person="id")


def test_which_rows_of_a_person_count_does_not_follow_what_they_hold():
    columns = Columns(x=number(0, 9), person="id", rows_per_person=1)
    data = {"id": ["a"] * 2, "x": [0, 9]}
    chosen = [columns.read(data).values["x"][0] for _ in range(200)]
    assert 60 < sum(value == 9 for value in chosen) < 140


def test_categories_become_indicators_of_all_but_the_first():
    columns = Columns(sex=category("f", "m", "x"), age=number(0, 120))
    rows = columns.read({"sex": ["x", "f", "m"], "age": [1, 2, 3]})
    assert rows.matrix(["age", "sex"]).tolist() == [[1, 0, 1], [2, 0, 0], [3, 1, 0]]
    assert columns.encoded(["age", "sex"]) == {
        "age": (0.0, 120.0), "sex=m": (0.0, 1.0), "sex=x": (0.0, 1.0),
    }  # fmt: skip


def test_columns_come_from_files_and_go_into_them(tmp_path):
    columns = Columns(
        age=number(20, 90, "years"), sex=category("f", "m"), ok=boolean(), words=text(["a", "b"]),
        seen=date("2020-01-01", "2026-12-31", "%d.%m.%Y"), person="id", rows_per_person=3,
        missing="impute", constants={"age": 50},
    )  # fmt: skip
    assert Columns.of(columns.described()) == columns
    file = tmp_path / "c.toml"
    file.write_text(
        """
        [columns]
        person = "id"
        rows_per_person = 3
        missing = "impute"
        constants = {age = 50}
        age = {kind = "number", low = 20, high = 90, unit = "years"}
        sex = ["f", "m"]
        ok = {kind = "boolean"}
        words = {kind = "text", vocabulary = ["a", "b"]}
        seen = {kind = "date", low = 2020-01-01, high = "2026-12-31", formats = "%d.%m.%Y"}
        """
    )
    assert Columns.of(file) == columns
    with pytest.raises(UnboundedData, match="'age' needs low and high"):
        Columns.of({"age": {"kind": "number"}})
    with pytest.raises(ParameterError, match="nothing that a number knows"):
        Columns.of({"age": {"kind": "number", "low": 0, "high": 1, "lo": 3}})


def test_a_data_dictionary_states_columns():
    fields = [
        {"name": "id", "type": "string"},
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 99}},
        {"name": "sex", "type": "string", "constraints": {"enum": ["f", "m"]}},
        {"name": "seen", "type": "date", "format": "%d.%m.%Y",
         "constraints": {"minimum": "2020-01-01", "maximum": "2026-12-31"}},
    ]  # fmt: skip
    found = Columns.from_dictionary({"fields": fields}, person="id", rows_per_person=2)
    assert [kind.word for kind in found.values()] == ["number", "category", "date"]
    with pytest.raises(UnboundedData, match="field 'id' is a string without an enum"):
        Columns.from_dictionary({"fields": fields})


def test_a_draft_names_columns_and_leaves_their_ranges_open(tmp_path):
    frame = pd.DataFrame({"age": [1], "ok": [True], "day": [pd.Timestamp(2024, 1, 1)]})
    assert draft(frame) == {
        "age": {"kind": "number"}, "ok": {"kind": "boolean"}, "day": {"kind": "time"},
    }  # fmt: skip
    with pytest.raises(UnboundedData):
        Columns.of(draft(frame))


def test_text_is_counted_over_the_stated_vocabulary_alone():
    kind = text(["fever", "cough"])
    counts = kind.counts(["Fever, cough; FEVER", "secret", ""])
    assert counts.toarray().tolist() == [[2.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize(
    "stated",
    [
        {}, {"a": number(0, 1), "person": "a"}, {"a": 3}, {"a": ("x", 1)}, {"a": (1, 0)},
        {"a": ["x", "x"]}, {"a": (0, float("inf"))}, {"a": {"kind": "nonsense"}},
    ],
)  # fmt: skip
def test_columns_that_mean_nothing_are_refused(stated):
    with pytest.raises((ParameterError, UnboundedData)):
        Columns.of(stated)


@pytest.mark.parametrize(
    "data", [3, None, [1, 2], {"age": [1, 2], "sex": ["f"]}, io.BytesIO(b"x"), object()]
)
def test_what_is_no_table_is_refused_in_our_words(data):
    with pytest.raises(ParameterError):
        COLUMNS.read(data)


def test_empty_tables_and_one_row_are_tables(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("age,sex,seen\n")
    assert len(COLUMNS.read(file)) == 0
    file.write_text("age,sex,seen\n1,f,no\n")
    assert len(COLUMNS.read(file)) == 1


def test_people_count_by_their_average_where_they_do():
    columns = Columns(
        x=number(0, 9), sex=category("f", "m"), person="id", per_person="average"
    )  # fmt: skip
    data = {"id": ["a", "b", "a"], "x": [1, 5, 3], "sex": ["f", "m", "m"]}
    found = columns.read(data).matrix(["x", "sex"])
    assert sorted(found.tolist()) == [[2.0, 0.5], [5.0, 1.0]]
    assert columns.rows_per_unit == 1 and columns.unit == "user"


def test_names_of_frames_may_be_numbers_but_not_stand_twice():
    assert values(Columns({"0": number(0, 9)}), pd.DataFrame({0: [1, 2]})) == {"0": [1.0, 2.0]}
    twice = pd.DataFrame([[1, 2]], columns=["x", "x"])
    with pytest.raises(ParameterError, match=r"\['x'\] stand twice"):
        Columns(x=number(0, 9)).read(twice)
    deep = pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("x", "a")]))
    with pytest.raises(BadTable, match="no such column"):
        Columns(x=number(0, 9)).read(deep)


def test_a_day_is_that_of_the_place_where_it_was_written_down():
    day = Columns(d=date("2020-01-01", "2029-12-31"))
    berlin = pd.to_datetime(["2024-03-01"]).tz_localize("Europe/Berlin")
    assert values(day, pd.DataFrame({"d": berlin})) == {"d": [19783.0]}


def test_ids_whose_hashes_collide_are_two_people(monkeypatch):
    """Whoever chooses ids may look for such: their rows must not push out another's."""
    monkeypatch.setattr(
        pl.Series, "hash", lambda self: pl.Series([7] * len(self), dtype=pl.UInt64)
    )
    columns = Columns(x=number(0, 9), person="id", rows_per_person=1)
    rows = columns.read({"id": ["a", "b", "a"], "x": [1, 2, 1]})
    assert sorted(rows.values["x"].tolist()) == [1.0, 2.0]


def test_rows_to_predict_for_have_the_constants_of_the_fit():
    kinds = {"age": number(20, 90), "sex": category("f", "m")}
    rows = {"age": [30, None], "sex": ["f", "w"]}
    columns = Columns(**kinds, missing="impute", constants={"age": 40}, unknown="m")
    assert columns.encode(rows, ["age", "sex"]).tolist() == [[30.0, 0.0], [40.0, 1.0]]
    with pytest.raises(BadTable) as caught:
        Columns(**kinds).encode(rows, ["age", "sex"])
    assert "missing='impute'" in str(caught.value) and "'w'" in str(caught.value)
