"""The experiment on coverage: its quick form meets its bars, and its truths are right."""

import numpy as np
import pytest

from experiments import coverage
from experiments._coverage_tables import FEATURES, QUANTILES, regression_rows, shapes


def test_the_quick_form_meets_its_bars():
    outcome = coverage.run(quick=True)
    missed = [check for check in outcome.checks if not check.ok]
    assert not missed
    assert {row["of"] for row in outcome.rows} == {"summary", "regression"}


@pytest.mark.parametrize("name", list(shapes()))
def test_what_is_true_of_a_column_is_true_of_many_rows(name):
    shape = shapes()[name]
    x = shape.draw(np.random.default_rng(0), 400_000)
    assert x.mean() == pytest.approx(shape.mean, rel=0.01)
    assert x.std() == pytest.approx(shape.sd, rel=0.02)
    np.testing.assert_allclose(np.quantile(x, QUANTILES), shape.quantiles, rtol=0.02)


def test_the_coefficients_of_a_table_are_those_of_least_squares():
    table, truth = regression_rows(3, 50_000)
    x = np.column_stack([np.ones(50_000), *(table[name] for name in FEATURES)])
    found, residual, *_ = np.linalg.lstsq(x, table["y"], rcond=None)
    errors = np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * residual[0] / 50_000)
    assert np.all(np.abs(found - [truth[n] for n in ("intercept", *FEATURES)]) < 4.5 * errors)
