"""A round that fails on the holder's own data says what was wrong, to the holder alone."""

import numpy as np
import pytest

import tacit as tc
from tacit._core.reasons import told_to_holder
from tacit.errors import SiteFailure
from tacit.summary import sides


def test_a_fit_on_ones_own_data_says_what_was_wrong_and_where(monkeypatch):
    def block(public, table, grid):
        raise ValueError(f"the largest is {max(table['age'])}")

    monkeypatch.setattr(sides, "_block", block)
    model = tc.PrivateSummary({"age": (0, 99)}, privacy=tc.Privacy(1, 1e-6))
    with pytest.raises(SiteFailure) as caught:
        model.fit({"age": np.array([4.0, 47.0])})
    said = str(caught.value)
    assert "ValueError: the largest is 47.0" in said
    assert "summary/sides.py, line " in said and "row_sums)" in said


def test_an_error_from_elsewhere_has_its_kind_and_text():
    with pytest.raises(np.linalg.LinAlgError) as caught:
        np.linalg.inv(np.zeros((2, 2)))
    assert told_to_holder(caught.value) == "LinAlgError: Singular matrix"
