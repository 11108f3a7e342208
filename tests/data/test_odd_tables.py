"""Odd tables, as strangers bring them: read value by value, or refused in words of our own."""

import datetime as dt
import decimal
from unicodedata import normalize

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tacit as tc
from tacit.data.dictionary import field_kind
from tacit.data.members import Members, distinct_ids, key
from tacit.data.problems import BadTable
from tacit.data.stating import kind_of
from tacit.errors import ParameterError

AGE = tc.Columns(age=tc.number(0, 100))
PEOPLE = tc.Columns(age=tc.number(0, 9), person="id", rows_per_person=1)
TIMES = tc.Columns(at=tc.time("2020-01-01", "2026-12-31"))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: {"age": object()}, "must be a list of values, got object"),
        (lambda: {"age": 5}, "must be a list of values, got int"),
        (lambda: {"age": [decimal.Decimal("sNaN"), 2]}, "a cell must hold one value"),
        (lambda: pa.table([[1], [2]], names=["age", "age"]), "distinct names"),
        (lambda: pl.DataFrame({"age": [[1], [2]]}), "unreadable"),
        (lambda: {"age": [1 + 0j]}, "unreadable"),
        (lambda: {"age": pd.to_timedelta([1], "D")}, "unreadable"),
        (lambda: pd.DataFrame({"age": pd.interval_range(0, 2)}), "unreadable"),
        (lambda: pd.DataFrame({"x": [1]}, index=pd.Index([5], name="age")), "no such column"),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(made, words):
    with pytest.raises(ParameterError, match=words):
        AGE.read(made())


@pytest.mark.parametrize(
    "made",
    [
        lambda: {"age": [decimal.Decimal("1.5"), "2"]},
        lambda: pl.DataFrame({"age": [decimal.Decimal("1.50"), decimal.Decimal("2")]}),
        lambda: {"age": np.array([1.5, 2], np.float16)},
        lambda: {"age": np.array([1.5, 2], np.longdouble)},
        lambda: pd.DataFrame({"age": pd.arrays.SparseArray([1.5, 2])}),
        lambda: pd.DataFrame({"age": pd.array([1.5, 2], "Float64")}, index=[9, 9]),
        lambda: {"age": (x for x in (1.5, 2))},
    ],
)
def test_numbers_are_read_whatever_holds_them(made):
    assert AGE.read(made()).values["age"].tolist() == [1.5, 2.0]


def test_ids_that_decimals_cannot_tell_apart_are_refused():
    """Two people would be one: the rows of one would push out those of the other."""
    for ids in ([2.0**53 + 2, 1.0], np.array([2.0**53 + 2, 1.0])):
        with pytest.raises(ParameterError, match=r"'id' holds ids above 2\^53"):
            PEOPLE.read({"id": ids, "age": [1, 2]})
    whole = PEOPLE.read({"id": [2**53 + 1, 2**53 + 2, 2**53], "age": [1, 2, 3]})
    assert len(whole) == 3
    assert len(PEOPLE.read({"id": [12.0, 12.5, 12.0], "age": [1, 2, 3]})) == 2


def test_ids_of_a_million_letters_are_told_apart():
    long = "a" * 10**6
    assert len(PEOPLE.read({"id": [long, long + "b", long], "age": [1, 2, 3]})) == 2


def test_half_a_character_is_one_bad_value():
    kinds = tc.Columns(s=tc.category("a", "b"))
    for data in ({"s": ["a", "\ud800"]},
                 pd.DataFrame({"s": pd.Series(["a", "\ud800"], dtype=object)})):  # fmt: skip
        with pytest.raises(BadTable, match="unknown: the table, row 2"):
            kinds.read(data)
    ids = {"id": ["\ud800", "\ud801", "\ud800"], "age": [1, 2, 3]}
    assert len(PEOPLE.read(ids)) == 2


def test_letters_that_are_composed_otherwise_are_the_same_letters():
    decomposed = normalize("NFD", "Köln")
    assert tc.Columns(s=["Köln", "Ulm"]).read({"s": [decomposed]}).values["s"].tolist() == [0.0]
    both = tc.Columns(s=["Köln", decomposed])  # whoever lists both means both
    assert both.read({"s": [decomposed, "Köln"]}).values["s"].tolist() == [1.0, 0.0]
    keys = tc.Columns(s=tc.keys()).read({"s": [decomposed, "Köln"]}).values["s"]
    assert len(set(keys)) == 1
    assert tc.text([decomposed]).counts(["Köln, KÖLN"]).sum() == 2


def test_a_name_is_the_same_however_its_letters_are_composed():
    composed, decomposed = "Zo\u00eb", "Zoe\u0308"
    columns = tc.Columns({composed: (0, 9)}, person="wer", rows_per_person=1)
    rows = columns.read({decomposed: [1, 2], "wer": [composed, f" {decomposed} "]})
    assert len(rows) == 1  # one person, of whom one row counts
    assert key(decomposed) == key(composed)
    names, place = distinct_ids([composed, decomposed], "ids")
    assert names == [composed] and place.tolist() == [0, 0]


def test_headings_of_which_two_could_be_meant_are_named():
    with pytest.raises(BadTable, match=r"\['X', 'x '\] could both be meant: rename one"):
        tc.Columns(x=(0, 9)).read({"X": [1], "x ": [2]})


@pytest.mark.parametrize("made", [lambda: tc.Columns({"\ud800": (0, 9)}),
                                  lambda: tc.Columns(c=["a", "\ud800"]),
                                  lambda: Members("item", 1, ("\ud800",)).place])  # fmt: skip
def test_a_name_that_no_file_can_hold_is_refused_when_it_is_stated(made):
    with pytest.raises(ParameterError, match="half a character"):
        made()


def test_truth_values_have_the_words_that_are_stated():
    stated = tc.Columns(b=tc.boolean(("Ja", "j"), "nein"))
    assert stated.read({"b": ["JA", " j", "Nein"]}).values["b"].tolist() == [1.0, 1.0, 0.0]
    assert [p.what for p in stated.problems({"b": ["ja", "yes"]})] == ["unreadable"]
    field = {"name": "b", "type": "boolean", "trueValues": ["ja"], "falseValues": ["nein"]}
    assert field_kind(field) == kind_of("b", field_kind(field).described())
    assert field_kind({**field, "falseValues": []}).false == ("false", "0")
    for words in (("ja", ()), (("a", "b"), "B")):
        with pytest.raises(ParameterError, match="words for true and others for false"):
            tc.boolean(*words)


def test_an_array_of_records_has_columns_of_its_own():
    records = np.rec.fromarrays([[1.0, 2.0], ["a", "b"]], names=["x", "g"])
    read = tc.Columns(g=["a", "b"], x=(0, 9)).read(records).values
    assert read["x"].tolist() == [1.0, 2.0] and read["g"].tolist() == [0.0, 1.0]


def test_the_time_is_that_of_the_place_however_it_comes():
    at = dt.datetime(2024, 1, 1, 23, 30)
    zone = dt.timezone(dt.timedelta(hours=-5))
    for cell in ("2024-01-01T23:30:00-05:00", "2024-01-01 23:30:00-0500", "2024-01-01T23:30:00Z",
                 at, at.replace(tzinfo=zone)):  # fmt: skip
        assert TIMES.read({"at": [cell]}).values["at"].tolist() == [19723 + 23.5 / 24]
    frame = pd.DataFrame({"at": pd.to_datetime([at]).tz_localize("America/Lima")})
    assert TIMES.read(frame).values["at"].tolist() == [19723 + 23.5 / 24]
    day = tc.Columns(at=tc.date("2020-01-01", "2026-12-31"))
    assert day.read({"at": ["2024-01-01T23:30:00-05:00"]}).values["at"].tolist() == [19723]


def test_moments_beyond_the_calendar_are_refused():
    with pytest.raises(ParameterError, match="too far away"):
        TIMES.read({"at": np.array(["300000-01-01"], "M8[s]")})
    with pytest.raises(BadTable, match="a day in the year 12000"):
        TIMES.read({"at": np.array(["12000-01-01"], "M8[s]")})


def test_a_file_with_a_line_of_headings_without_end_is_refused_at_once(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes(b"age," * 200_000)
    with pytest.raises(ParameterError, match=r"a\.csv must begin with a line of distinct"):
        AGE.read(file)
    file.write_bytes(b"age\r1\r2\r")
    with pytest.raises(ParameterError, match="lines must end in a line feed"):
        AGE.read(file)
