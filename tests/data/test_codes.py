"""Ids are told apart once for each different value, and as they are told apart one by one."""

import numpy as np
import polars as pl
import pytest

from tacit.data.codes import coded

COLUMNS = {
    "text": ["b", "a", "b", "", " b", "0012", "12"],
    "text and nothing": ["b", None, "a", None, "b"],
    "nothing": [None, None],
    "series": pl.Series(["x", None, "y", "x"]),
    "empty series": pl.Series([], dtype=pl.String),
    "empty": [],
    "object array": np.array(["u", "v", "u"], object),
    "unicode array": np.array(["u", "ü", "u"]),
    "whole numbers": np.array([7, -3, 7, 12, -3]),
    "far apart": np.array([2**62, -(2**62), 0, 2**62]),
    "unsigned": np.array([2**64 - 1, 0, 2**64 - 1], np.uint64),
    "bytes of numbers": np.array([255, 1, 255, 0], np.uint8),
    "no numbers": np.empty(0, np.int32),
    "mixed": [1, "1", 1.5, None],
    "decimals": np.array([0.5, np.nan, 0.5]),
    "half a character": ["\ud800", "a"],
}


@pytest.mark.parametrize("ids", COLUMNS.values(), ids=COLUMNS)
def test_codes_give_the_column_back(ids):
    found, rows = coded(ids)
    own = ids.to_list() if isinstance(ids, pl.Series) else list(ids)
    back = [list(found)[k] for k in rows]
    assert [str(a) for a in back] == [str(b) for b in own]
    assert [type(a) for a in back if a is None] == [type(b) for b in own if b is None]


@pytest.mark.parametrize("ids", COLUMNS.values(), ids=COLUMNS)
def test_values_appear_in_the_order_of_rows_and_nothing_last(ids):
    found, rows = coded(ids)
    if isinstance(found, list) and None in found and len(set(map(type, found))) < 3:
        assert list(found).index(None) == len(found) - 1
        rows = rows[rows < len(found) - 1]
    first = rows[np.sort(np.unique(rows, return_index=True)[1])] if len(rows) else rows
    assert first.tolist() == list(range(len(first)))
