"""Cells as files write them: numbers by their marks, ids as they stand, words for nothing."""

import numpy as np
import polars as pl
import pytest

from tacit.data.files import plain_numbers, source
from tacit.data.problems import BadTable
from tacit.data.reading import Table
from tacit.data.rows import bounded, numbered
from tacit.data.schema import Columns
from tacit.data.stating import boolean, category, date, number

PEOPLE = Columns(age=number(0, 2000), person="id", rows_per_person=1)


def written(folder, text, **options):
    file = folder / "a.csv"
    file.write_text(text, encoding="utf-8")
    return source(file, **options)


def test_marks_of_numbers_do_not_change_ids(tmp_path):
    data = written(tmp_path, "id;age\n1.234;1.050,5\n1234;40\n", decimal=",", thousands=".")
    rows = PEOPLE.read(data)  # a person has one row: were they one, a row would be missing
    assert rows.values["age"].tolist() == [1050.5, 40.0]


def test_marks_of_numbers_apply_to_categories_that_are_numbers(tmp_path):
    doses = Columns(dose=category(0.5, 1.5), ward=category("1,5", "x"))
    rows = doses.read(written(tmp_path, "dose;ward\n1,5;1,5\n0,5;x\n", decimal=","))
    assert rows.values["dose"].tolist() == [1.0, 0.0]
    assert rows.values["ward"].tolist() == [0.0, 1.0]


@pytest.mark.parametrize("cell", ["1.500", "1.5", "1.5e2"])
def test_a_decimal_point_among_decimal_commas_is_not_guessed(cell, tmp_path):
    ages = Columns(age=number(0, 2000))
    data = written(tmp_path, f"x;age\n1;40,5\n1;{cell}\n", decimal=",")
    with pytest.raises(BadTable, match=rf"'age', unreadable: a.csv, row 2: '{cell}'"):
        ages.read(data)


def test_a_stated_word_for_nothing_wins_over_the_number_that_it_spells(tmp_path):
    text = "age,seen,treated\n-99,9999-12-31,0\n40,2024-01-01,no\n-99.0,2024-01-02,yes\n"
    columns = Columns(
        age=number(0, 90), seen=date("2020-01-01", "2026-01-01"), treated=boolean(),
        missing="drop", outside="clip",
    )  # fmt: skip
    rows = columns.read(written(tmp_path, text, na=["-99", "9999-12-31", "0"]))
    assert rows.values["age"].tolist() == [40.0]
    assert rows.values["treated"].tolist() == [0.0]
    pl.DataFrame({"age": [-99, 40]}).write_parquet(tmp_path / "a.parquet")
    numbers = Columns(age=number(0, 90), missing="drop", outside="clip")
    found = numbers.read(source(tmp_path / "a.parquet", na=["-99"]))
    assert found.values["age"].tolist() == [40.0]
    comma = written(tmp_path, "age;x\n-99,0;1\n40,5;1\n", decimal=",", na=["-99,0"])
    assert numbers.read(comma).values["age"].tolist() == [40.5]


@pytest.mark.parametrize("word", ["", "NA", "n/a", " none "])
def test_a_word_for_nothing_is_nobody(word, tmp_path):
    data = written(tmp_path, f"id,age\n1,40\n{word},50\n{word},60\n")
    with pytest.raises(BadTable, match=r"'id', missing: a.csv, row 2: .* row 3"):
        PEOPLE.read(data)


def test_people_are_told_apart_however_their_hashes_fall(monkeypatch):
    rng = np.random.default_rng(0)
    names = pl.Series([f"{k:04d}" for k in rng.integers(0, 5000, 20_000)])
    groups = np.unique(names.to_numpy(), return_inverse=True)[1]

    def same(codes):
        pairs = set(zip(groups.tolist(), codes.tolist(), strict=True))
        return len(pairs) == len(set(groups.tolist())) == len(set(codes.tolist()))

    assert same(numbered(names))
    for keep in (0xFFFF, 0xFFF << 52, 0xFFFF << 48):  # marks that share their low bits, or more
        cut = lambda found, keep=keep: found.hash_() & pl.Series([keep], dtype=pl.UInt64)  # noqa: E731
        monkeypatch.setattr(pl.Series, "hash_", pl.Series.hash, raising=False)
        with monkeypatch.context() as patch:
            patch.setattr(pl.Series, "hash", cut)
            assert same(numbered(names))


def test_rows_of_a_crowded_person_are_chosen_evenly():
    people = np.array([7] * 4 + [2] * 2 + [0])
    chosen = np.zeros(7)
    for _ in range(2000):
        chosen += bounded(people, np.ones(7, bool), 2, None)
    assert chosen[4:].tolist() == [2000.0] * 3
    assert chosen[:4].sum() == 4000.0
    # binomial(2000, 1/2): five standard deviations are 112
    assert np.abs(chosen[:4] - 1000).max() < 112


def test_many_rows_are_read_as_few_are(monkeypatch):
    from tacit.data import reading

    rng = np.random.default_rng(0)
    table = {"id": [f"{k:03d}" for k in rng.integers(0, 200, 1000)],
             "age": [f" {a}" if a % 7 else str(a) for a in rng.integers(0, 99, 1000)]}  # fmt: skip
    columns = Columns(age=number(0, 99), person="id", rows_per_person=100)
    few = columns.read(table)
    monkeypatch.setattr(reading, "_MANY", 10)
    monkeypatch.setattr(reading, "threads", lambda: 2)
    many = columns.read(table)
    assert np.array_equal(few.values["age"], many.values["age"])
    assert np.array_equal(few.people, many.people)


ODD = ["1,5", "1.5", "1.234,5", "1 234,5", "1.23,5", "12", "-7", "+3,", ",5", "-,5", ".5", "1,2,3",
       "1e3", "1,5e-3", "1,e2", "e3", "inf", "-Infinity", "nan", "NaN", "1e999", "0x1F", "1_000",
       " 2,5 ", "\t4", "", "NA", "-99", "-99,0", "k.A.", "true", "FALSE", "-0", "-0,0", "1'234,5",
       "1.234.567", "1234.567", "12.34", "1.234.56", "٣", "2,5%", "− 3", "1,234,567.5", "0012",
       "1,7976931348623157e308", "5e-324", "9007199254740993", None]  # fmt: skip


@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("thousands", [None, ".", ",", " ", "'"])
def test_cells_that_are_plainly_numbers_are_read_as_the_slow_way_reads_them(decimal, thousands):
    """However the rest of the column looks: any mix of odd cells, and none at all."""
    if decimal == thousands:
        return
    where = source("f.csv", decimal=decimal, thousands=thousands, na=["-99", "k.A."])
    kind, rng = number(-1e6, 1e6), np.random.default_rng(0)
    words = (*where.na, *plain_numbers(pl.Series(where.na), where))
    for _ in range(20):
        some = rng.choice(np.array(ODD, object), int(rng.integers(1, len(ODD)))).tolist()
        column = pl.Series("x", some, dtype=pl.String)
        fast = Table(pl.DataFrame([column]), where.na, written=where).parse("x", kind)
        slow = kind.parse(plain_numbers(column, where), words)
        for own, other in zip(fast, slow, strict=True):
            assert np.array_equal(own, other, equal_nan=own.dtype.kind == "f"), some
