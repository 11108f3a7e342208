"""Names and whole numbers as arrays: what cannot be read is refused."""

import json

import numpy as np
import pytest

from tacit.errors import SiteFailure
from tacit.federation.secure.arrays import as_text, read_names, whole_numbers


def test_names_go_through_bytes():
    for names in ((), ("A",), ("north", "süd")):
        assert read_names(as_text(names)) == names


@pytest.mark.parametrize("bad", [[1, 2], ["A", 3], ["A", None], "AB", {"A": 1}, 7, None])
def test_what_is_no_list_of_names_is_refused(bad):
    with pytest.raises(SiteFailure, match="list of names"):
        read_names(np.frombuffer(json.dumps(bad).encode(), np.uint8))


def test_values_between_the_steps_of_a_grid_are_refused():
    assert whole_numbers(np.array([0.25, -1.5]), -2).tolist() == [1, -6]
    with pytest.raises(SiteFailure, match="multiples"):
        whole_numbers(np.array([0.25, 0.3]), -2)
