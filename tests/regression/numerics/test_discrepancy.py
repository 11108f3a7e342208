"""The maximum mean discrepancy, against its definition."""

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.regression import mmd
from tacit.regression.numerics import discrepancy


def test_it_is_the_unbiased_estimate_of_its_definition(monkeypatch):
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=(7, 2)), rng.normal(1.0, 2.0, size=(5, 2))

    def kernel(a, b):
        return float(np.exp(-0.5 * np.sum((a - b) ** 2)))

    inside = [np.mean([kernel(a, b) for i, a in enumerate(s) for j, b in enumerate(s) if i != j])
              for s in (one, two)]  # fmt: skip
    expected = sum(inside) - 2.0 * np.mean([kernel(a, b) for a in one for b in two])
    assert mmd(one, two) == pytest.approx(expected, rel=1e-12)
    monkeypatch.setattr(discrepancy, "_PIECE", 6)  # in pieces of one draw
    assert mmd(one, two) == pytest.approx(expected, rel=1e-12)


def test_it_is_zero_on_average_where_laws_agree_and_of_two_points_known():
    rng = np.random.default_rng(1)
    same = [mmd(rng.normal(size=50), rng.normal(size=50)) for _ in range(60)]
    assert abs(np.mean(same)) < 3.0 * np.std(same) / np.sqrt(60)
    far = mmd([0.0, 0.0], [1.0, 1.0])
    assert far == pytest.approx(2.0 - 2.0 * np.exp(-0.5))


@pytest.mark.parametrize(("one", "two"), [
    ([1.0], [1.0, 2.0]), ([[1.0, 2.0]] * 2, [1.0, 2.0]), ([np.nan, 1.0], [1.0, 2.0]),
])  # fmt: skip
def test_what_are_no_draws_is_refused(one, two):
    with pytest.raises(ParameterError, match="draws"):
        mmd(one, two)
