"""The price of a person's answers about all items, rounding included."""

import pytest

from tacit.mechanisms.item_responses import ItemResponses
from tacit.privacy.events import LaplaceDpEvent, leaves


def test_rounding_both_of_two_replaced_rows_is_paid_for():
    """Each of the numbers moves by up to half a step in either row: a whole step between them."""
    numbers = 1000
    mechanism = ItemResponses(1.0, 1, 2.0, 1.0, 3, numbers)
    step = mechanism._grid.step
    (laplace,) = (leaf for leaf in leaves(mechanism.event) if isinstance(leaf, LaplaceDpEvent))
    assert laplace.noise_multiplier == pytest.approx(2.0 / (1.0 + numbers * step), rel=1e-15)
    assert laplace.noise_multiplier < 2.0 / (1.0 + 0.6 * numbers * step)
