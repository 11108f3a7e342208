"""Relations: every way in gives the same cells, sorted layouts, and bad data is refused."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing

import numpy as np
import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from tacit import CoupledModel, Relation
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.sums import Engine

nan = math.nan
DENSE = np.array([[1.0, nan, 0.0], [nan, 2.5, nan]])
WHERE = np.array([[0, 0], [0, 2], [1, 1]])
VALUES = np.array([1.0, 0.0, 2.5])
COLUMNS = {"who": ["ann", "ann", "bob"], "what": ["x", "z", "y"], "much": [1.0, 0.0, 2.5]}
NAMES = {"user": "who", "item": "what"}


def same(first, second):
    return (
        first.entities == second.entities
        and first.shape == second.shape
        and first.zeros == second.zeros
        and as_cells(first) == as_cells(second)
    )


def as_cells(relation):
    pairs = zip(relation.indices.tolist(), relation.values.tolist(), strict=True)
    return {tuple(cell): value for cell, value in pairs}


def expected():
    return Relation.from_cells(("user", "item"), WHERE, VALUES, shape=(2, 3))


# --- every way in ---------------------------------------------------------------------------


def from_csv(tmp_path):
    pandas.DataFrame(COLUMNS).to_csv(tmp_path / "cells.csv", index=False)
    return Relation.read(tmp_path / "cells.csv", NAMES, "much")


def from_parquet(tmp_path):
    pyarrow.parquet.write_table(pyarrow.table(COLUMNS), tmp_path / "cells.parquet")
    return Relation.read(str(tmp_path / "cells.parquet"), NAMES, "much")


def from_sql(tmp_path):
    with closing(sqlite3.connect(tmp_path / "cells.db")) as connection:
        connection.execute("create table cells (who text, what text, much real)")
        rows = list(zip(*COLUMNS.values(), strict=True))
        connection.executemany("insert into cells values (?, ?, ?)", rows)
        return Relation.from_sql(connection, "select * from cells", NAMES, "much")


def from_renamed_frame(tmp_path):
    frame = pandas.DataFrame(COLUMNS).rename(columns={"who": "user", "what": "item"})
    return Relation.from_frame(frame, ("user", "item"), "much")


WAYS = {
    "arrays": lambda _: Relation.from_cells(
        ("user", "item"), (WHERE[:, 0], WHERE[:, 1]), VALUES, shape=(2, 3)
    ),
    "lists": lambda _: Relation.from_cells(
        ["user", "item"], WHERE.tolist(), VALUES.tolist(), shape=[2, 3]
    ),
    "whole floats": lambda _: Relation.from_cells(("user", "item"), WHERE * 1.0, VALUES),
    "shape of the cells": lambda _: Relation.from_cells(("user", "item"), WHERE, VALUES),
    "dense": lambda _: Relation.from_dense(("user", "item"), DENSE),
    "sparse array": lambda _: Relation.from_scipy(
        ("user", "item"), sparse.csr_array((VALUES, tuple(WHERE.T)), shape=(2, 3))
    ),
    "sparse matrix": lambda _: Relation.from_scipy(
        ("user", "item"), sparse.coo_matrix((VALUES, tuple(WHERE.T)), shape=(2, 3))
    ),
    "pandas": lambda _: Relation.from_frame(pandas.DataFrame(COLUMNS), NAMES, "much"),
    "polars": lambda _: Relation.from_frame(polars.DataFrame(COLUMNS), NAMES, "much"),
    "arrow": lambda _: Relation.from_frame(pyarrow.table(COLUMNS), NAMES, "much"),
    "arrow batch": lambda _: Relation.from_frame(
        pyarrow.RecordBatch.from_pydict(COLUMNS), NAMES, "much"
    ),
    "mapping": lambda _: Relation.from_frame(COLUMNS, NAMES, "much"),
    "columns named like entities": from_renamed_frame,
    "csv": from_csv,
    "parquet": from_parquet,
    "sql": from_sql,
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_in_gives_the_same_relation(way, tmp_path):
    assert same(WAYS[way](tmp_path), expected())


def test_labels_of_a_table_are_its_sorted_ids():
    relation = Relation.from_frame(COLUMNS, NAMES, "much")
    assert relation.labels == {"user": ("ann", "bob"), "item": ("x", "y", "z")}


def test_known_labels_fix_the_order_and_the_size():
    relation = Relation.from_frame(
        COLUMNS, NAMES, "much", labels={"user": ["bob", "cyd", "ann"], "item": ["z", "y", "x"]}
    )
    assert relation.shape == (3, 3)
    assert as_cells(relation) == {(2, 2): 1.0, (2, 0): 0.0, (0, 1): 2.5}


def test_without_a_value_column_every_cell_is_one():
    assert Relation.from_frame(COLUMNS, NAMES).values.tolist() == [1.0, 1.0, 1.0]
    assert Relation.from_cells(("user", "item"), WHERE).values.tolist() == [1.0, 1.0, 1.0]


def test_stored_zeros_of_a_sparse_matrix_are_cells_and_duplicates_add_up():
    matrix = sparse.coo_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    relation = Relation.from_scipy(("user", "item"), matrix)
    assert as_cells(relation) == {(0, 1): 3.0, (1, 0): 0.0}
    assert matrix.nnz == 3  # the caller's matrix is left alone


def test_null_values_of_any_table_are_refused_as_missing():
    holes = {**COLUMNS, "much": [1.0, None, 2.5]}
    tables = [holes, pandas.DataFrame(holes), polars.DataFrame(holes), pyarrow.table(holes)]
    for table in tables:
        with pytest.raises(ParameterError, match=r"finite.*Leave missing cells out"):
            Relation.from_frame(table, NAMES, "much")


def test_observed_zeros_and_held_out_cells_go_through_every_constructor():
    options = {"zeros": "observed", "held_out": [[1, 0]]}
    matrix = sparse.csr_array((VALUES, tuple(WHERE.T)), shape=(2, 3))
    relations = [
        Relation.from_cells(("user", "item"), WHERE, VALUES, shape=(2, 3), **options),
        Relation.from_dense(("user", "item"), np.nan_to_num(DENSE), **options),
        Relation.from_scipy(("user", "item"), matrix, **options),
        Relation.from_frame(COLUMNS, NAMES, "much", **options),
    ]
    for relation in relations:
        assert relation.zeros == "observed"
        assert relation.held_out.tolist() == [[1, 0]]
        assert relation.observed == 5


# --- what it holds --------------------------------------------------------------------------


def test_sizes_are_counted():
    relation = expected()
    assert (relation.modes, relation.cells, relation.observed) == (2, 3, 3)
    assert "user 2 × item 3: 3 listed cells, other cells missing" in repr(relation)


def test_the_dense_array_of_observed_zeros_is_never_formed():
    huge = Relation.from_cells(
        tuple("abcdef"), [[2**31 - 2] * 6], shape=[2**31 - 1] * 6, zeros="observed"
    )
    assert huge.observed == (2**31 - 1) ** 6


def test_subset_and_scaled_keep_the_rest():
    relation = Relation.from_cells(
        ("user", "item"), WHERE, VALUES, zeros="observed", held_out=[[1, 0]]
    )
    part = relation.subset([2, 0])
    assert as_cells(part) == {(1, 1): 2.5, (0, 0): 1.0}
    twice = relation.scaled(2.0)
    assert as_cells(twice) == {(0, 0): 2.0, (0, 2): 0.0, (1, 1): 5.0}
    for other in (part, twice):
        assert (other.shape, other.zeros) == ((2, 3), "observed")
        assert other.held_out.tolist() == [[1, 0]]


def test_a_dense_vector_and_a_six_mode_array_are_relations():
    assert as_cells(Relation.from_dense(("a",), [nan, 3.0])) == {(1,): 3.0}
    six = Relation.from_dense(tuple("abcdef"), np.ones((1, 2, 1, 2, 1, 2)))
    assert (six.modes, six.cells) == (6, 8)


@st.composite
def random_cells(draw):
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=6)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = draw(st.integers(1, min(20, math.prod(shape))))
    codes = rng.choice(math.prod(shape), count, replace=False)
    cells = np.column_stack(np.unravel_index(codes, shape))
    return shape, cells, rng.normal(size=count), rng.permutation(count)


@settings(deadline=None, derandomize=True)
@given(random_cells())
def test_layouts_are_sorted_complete_and_do_not_depend_on_the_order_of_cells(made):
    shape, cells, values, order = made
    entities = tuple("abcdef"[: len(shape)])
    relation = Relation.from_cells(entities, cells, values, shape=shape)
    shuffled = Relation.from_cells(entities, cells[order], values[order], shape=shape)
    assert len(relation.layouts) == len(shape)
    for mode, layout in enumerate(relation.layouts):
        assert layout.starts.tolist()[0] == 0 and layout.starts[-1] == len(values)
        assert len(layout.starts) == shape[mode] + 1
        for row in range(shape[mode]):
            part = slice(layout.starts[row], layout.starts[row + 1])
            assert (layout.indices[part, mode] == row).all()
        listed = {
            (*cell, v)
            for cell, v in zip(layout.indices.tolist(), layout.values.tolist(), strict=True)
        }
        assert listed == {(*c, v) for c, v in zip(cells.tolist(), values.tolist(), strict=True)}
        for one, other in zip(layout, shuffled.layouts[mode], strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_relation_without_cells_has_empty_rows():
    empty = Relation.from_cells(("a", "b"), np.empty((0, 2), int), shape=(3, 2))
    assert [layout.starts.tolist() for layout in empty.layouts] == [[0, 0, 0, 0], [0, 0, 0]]


def test_held_out_layouts_hold_the_held_out_cells():
    relation = Relation.from_cells(
        ("a", "b"), [[0, 0]], shape=(3, 2), zeros="observed", held_out=[[2, 1], [0, 1], [2, 0]]
    )
    rows, columns = relation.held_out_layouts
    assert rows.starts.tolist() == [0, 1, 1, 3]
    assert rows.indices.tolist() == [[0, 1], [2, 0], [2, 1]]
    assert columns.starts.tolist() == [0, 1, 3]
    assert not rows.values.any()


# --- bad data -------------------------------------------------------------------------------


def cells(indices, values=None, entities=("user", "item"), **options):
    return lambda: Relation.from_cells(entities, indices, values, **options)


LARGE = {"shape": (2**31 - 1, 2**31 - 1, 2**31 - 1), "entities": ("a", "b", "c")}
BAD = {
    "listed twice": (cells([[0, 1], [1, 1], [0, 1]]), r"cell \[0, 1\] is listed twice"),
    "listed twice in a huge relation": (
        cells([[5, 7, 9], [2, 2, 2], [5, 7, 9]], **LARGE),
        r"cell \[5, 7, 9\] is listed twice",
    ),
    "listed and held out": (
        cells([[0, 1]], shape=(2, 2), zeros="observed", held_out=[[1, 1], [0, 1]]),
        r"cell \[0, 1\] is both listed and held out",
    ),
    "listed and held out in a huge relation": (
        cells([[5, 7, 9]], zeros="observed", held_out=[[5, 7, 9]], **LARGE),
        r"cell \[5, 7, 9\] is both listed and held out",
    ),
    "held out twice": (
        cells([[0, 1]], shape=(2, 2), zeros="observed", held_out=[[1, 1], [1, 1]]),
        r"cell \[1, 1\] is .*held out twice",
    ),
    "held out without observed zeros": (
        cells([[0, 1]], shape=(2, 2), held_out=[[1, 1]]),
        "held_out only goes with zeros='observed'",
    ),
    "held out beyond the shape": (
        cells([[0, 1]], shape=(2, 2), zeros="observed", held_out=[[1, 2]]),
        r"held_out: item 2 is unknown, there are 2 \(0 … 1\)",
    ),
    "index beyond the shape": (
        cells([[0, 0], [0, 3]], shape=(2, 3)),
        r"indices: item 3 is unknown, there are 3 \(0 … 2\)",
    ),
    "negative index": (cells([[-1, 0]], shape=(2, 3)), "user -1 is unknown"),
    "NaN value": (cells([[0, 1]], [nan]), r"finite: cell \[0, 1\] is nan. Leave missing"),
    "infinite value": (cells([[0, 1]], [-math.inf]), r"finite: cell \[0, 1\] is -inf"),
    "fractional indices": (cells([[0.5, 1]]), "indices must hold whole numbers"),
    "NaN index": (cells([[nan, 1]]), "indices must hold whole numbers"),
    "text indices": (cells([["a", "b"]]), "indices must hold whole numbers"),
    "fractional held out": (
        cells([[0, 1]], zeros="observed", held_out=[[0.5, 0]]),
        "held_out must hold whole numbers",
    ),
    "too few columns": (cells([[0], [1]]), r"indices must have shape \(cells, 2\).*\(2, 1\)"),
    "flat indices": (cells([0, 1]), r"indices must have shape \(cells, 2\), .* got \(2,\)"),
    "too many arrays": (
        cells((np.zeros(3, int),) * 3),
        r"indices must have shape \(cells, 2\).*\(3, 3\)",
    ),
    "too few values": (cells([[0, 1], [1, 1]], [1.0]), r"one number per cell \(2\).*\(1,\)"),
    "table of values": (cells([[0, 1]], [[1.0]]), r"one number per cell \(1\).*\(1, 1\)"),
    "short shape": (cells([[0, 1]], shape=(2,)), "shape must have 2 numbers, got 1"),
    "empty shape": (cells([], entities=("user",)), "indices must have shape"),
    "nobody": (cells(np.empty((0, 2), int)), "shape must be positive, got 0 for 'user'"),
    "no entities": (cells([[0, 1]], entities=()), "one to six different names"),
    "seven modes": (cells([[0] * 7], entities=tuple("abcdefg")), "one to six different names"),
    "a mode twice": (
        cells([[0, 1, 2]], entities=("a", "a", "a_2")),
        "one to six different names",
    ),
    "zeros misspelt": (cells([[0, 1]], zeros="seen"), "zeros must be one of 'missing', 'observed"),
    "infinite dense": (
        lambda: Relation.from_dense(("a", "b"), [[1.0, math.inf]]),
        "array must not hold infinite values",
    ),
    "dense of the wrong order": (
        lambda: Relation.from_dense(("a", "b"), [1.0, 2.0]),
        r"\(cells, 2\)",
    ),
    "unknown column": (
        lambda: Relation.from_frame(COLUMNS, {"user": "whom"}),
        "no column 'whom': the table has .*'who', 'what', 'much'",
    ),
    "unknown id": (
        lambda: Relation.from_frame(COLUMNS, NAMES, "much", labels={"user": ["ann"]}),
        "'who', unknown: the table, row 3: 'bob'. It is not among the given labels of 'user'",
    ),
    "a label twice": (
        lambda: Relation.from_frame(COLUMNS, NAMES, labels={"user": ["ann", "bob", "ann"]}),
        "labels of 'user' must be distinct",
    ),
    "a row twice": (
        lambda: Relation.from_frame({"a": [1, 1], "b": [2, 2]}, ("a", "b")),
        r"cell \(a 1, b 2\) is listed twice, in rows \[1, 2\].* pass duplicates='first', 'mean'",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data_is_refused_with_a_message_that_helps(case):
    build, message = BAD[case]
    with pytest.raises(ParameterError, match=message):
        build()


def test_index_arrays_of_different_lengths_are_refused():
    with pytest.raises(ParameterError, match="indices"):
        Relation.from_cells(("a", "b"), (np.array([0, 1]), np.array([0])))


def test_values_that_are_no_numbers_are_refused():
    with pytest.raises(ParameterError, match="values"):
        Relation.from_cells(("a", "b"), [[0, 0]], ["many"])


def test_ids_that_are_missing_are_refused():
    with pytest.raises(ParameterError, match="who"):
        Relation.from_frame({**COLUMNS, "who": ["ann", None, "bob"]}, NAMES, "much")


def test_missing_ids_of_a_pandas_string_column_are_refused():
    frame = pandas.DataFrame({**COLUMNS, "who": pandas.array(["ann", None, "bob"], "string")})
    with pytest.raises(
        ParameterError,
        match=r"'who', missing: the table, row 2.* name a member of 'user' in every row",
    ):
        Relation.from_frame(frame, NAMES, "much")


def test_a_value_column_of_text_is_refused():
    with pytest.raises(ParameterError, match="column 'what', no number: the table, row 1: 'x'"):
        Relation.from_frame(COLUMNS, NAMES, "what")


def test_columns_of_different_lengths_are_refused():
    with pytest.raises(ParameterError, match="length"):
        Relation.from_frame({**COLUMNS, "what": ["x"]}, NAMES, "much")


def test_a_table_may_have_columns_whose_names_are_no_text():
    frame = pandas.DataFrame({**COLUMNS, 0: [7, 8, 9]})
    assert same(Relation.from_frame(frame, NAMES, "much"), expected())


def test_infinite_indices_are_refused():
    with pytest.raises(ParameterError, match="whole numbers"):
        Relation.from_cells(("a", "b"), [[math.inf, 0.0]])


def test_labels_of_the_wrong_number_are_refused():
    with pytest.raises(ParameterError, match="labels"):
        Relation.from_cells(("a", "b"), [[0, 0]], shape=(2, 2), labels={"a": ["only one"]})


# --- values that a divergence has no likelihood for ---------------------------------------------


def engine(values, power, **options):
    relation = Relation.from_cells(("a", "b"), [[0, 0], [1, 1]], values, **options)
    model = CoupledModel({"x": "a:k b:k"}, rank=1, divergence=power)
    return Engine(model.bind({"x": relation}), {"x": relation})


@pytest.mark.parametrize("power", [1.0, 1.5, "kl", "is"])
def test_negative_values_are_refused_from_kl_on(power):
    with pytest.raises(ParameterError, match="relation 'x' has negative values"):
        engine([1.0, -1.0], power)


def test_negative_values_are_refused_between_euclidean_and_kl():
    with pytest.raises(ParameterError, match="relation 'x' has negative values"):
        engine([1.0, -1.0], 0.5)


def test_zeros_are_refused_under_itakura_saito():
    with pytest.raises(ParameterError, match=r"relation 'x' has zeros, .* leave them out"):
        engine([1.0, 0.0], "is")


@pytest.mark.parametrize("power", [0.5, 1.5, 2.0])
def test_observed_zeros_with_another_divergence_say_why_not(power):
    with pytest.raises(ParameterError, match=r"observed zeros .* without visiting them"):
        engine([1.0, 2.0], power, zeros="observed")


@pytest.mark.parametrize(
    ("values", "power", "zeros"),
    [
        ([1.0, -1.0], 0.0, "missing"),
        ([1.0, -1.0], 0.0, "observed"),
        ([1.0, 0.0], 1.0, "observed"),
        ([1.0, 0.0], 1.5, "missing"),
        ([1.0, 2.0], 2.0, "missing"),
    ],
)
def test_values_with_a_likelihood_are_accepted(values, power, zeros):
    assert engine(values, power, zeros=zeros).data["x"].cells == 2


@pytest.mark.parametrize("held", [0, 5, 20, 23])
def test_the_compact_form_has_the_same_observed_cells(held):
    rng = generator(held)
    codes = rng.permutation(24)
    apart, ones = codes[:held], codes[held : held + 1]
    relation = Relation.from_cells(
        ("a", "b", "c"), np.column_stack(np.unravel_index(ones, (2, 3, 4))), [2.5] * len(ones),
        shape=(2, 3, 4), zeros="observed",
        held_out=np.column_stack(np.unravel_index(apart, (2, 3, 4))),
    )  # fmt: skip
    short = relation.compact()
    assert short.observed == relation.observed
    assert short.values.sum() == relation.values.sum()
    if held >= 20:
        assert short.zeros == "missing"
        listed = {tuple(cell) for cell in short.indices.tolist()}
        assert not listed & {tuple(cell) for cell in relation.held_out.tolist()}
        assert short.cells <= relation.cells + held
    else:
        assert short is relation


def test_a_dense_array_with_observed_zeros_keeps_its_missing_cells_missing():
    array = [[0.0, 2.0, np.nan], [3.0, 0.0, 0.0]]
    relation = Relation.from_dense(("a", "b"), array, zeros="observed", held_out=[[1, 0]])
    assert relation.indices.tolist() == [[0, 1]]
    assert sorted(relation.held_out.tolist()) == [[0, 2], [1, 0]]
    assert relation.observed == 4
    with pytest.raises(ParameterError, match="held_out"):
        Relation.from_dense(("a", "b"), array, zeros="observed", held_out=[[5, 0]])


def test_listing_observed_zeros_gives_the_dense_array_back():
    array = np.array([[0.0, 2.0, np.nan], [3.0, 0.0, 0.0]])
    sparse_form = Relation.from_dense(("a", "b"), array, zeros="observed")
    dense_form = Relation.from_dense(("a", "b"), array)
    listed = sparse_form.listed()
    assert listed.zeros == "missing"
    assert listed.indices.tolist() == dense_form.indices.tolist()
    assert listed.values.tolist() == dense_form.values.tolist()
    assert dense_form.listed() is dense_form
    bare = Relation(("a", "b"), (2, 2), np.zeros((0, 2), np.int32), np.zeros(0), "observed")
    assert bare.listed().cells == 4


def test_an_entity_that_is_named_again_is_a_mode_with_the_same_members():
    known = Relation.from_cells(("a", "a"), [[0, 2]], labels={"a": ("x", "y", "z")})
    assert known.entities == ("a", "a_2") and known.shape == (3, 3)
    assert known.labels["a"] == known.labels["a_2"]
    assert Relation.from_cells(("a", "t", "a"), [[0, 1, 4]]).shape == (5, 2, 5)
