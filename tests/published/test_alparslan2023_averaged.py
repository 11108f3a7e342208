"""Averaged rows: groups are summed before their product, and cost what they cost."""

import numpy as np
import pytest

from tacit import Privacy, PrivateLinearRegression, Site
from tacit.errors import ParameterError
from tacit.published.alparslan2023_averaged import (
    AveragedDesign,
    AveragedRegression,
    AveragedSummary,
    GroupMap,
    GroupSum,
)
from tacit.regression.outer import RowMap

PRIVACY = Privacy(1.0, 1e-6, neighbours="replace-one", trust="site")


def test_groups_are_summed_before_their_product():
    rng = np.random.default_rng(3)
    x, y = rng.uniform(-0.3, 0.3, (11, 2)), rng.uniform(-0.3, 0.3, 11)
    sums = GroupSum(GroupMap(**vars(RowMap((0.0,) * 3, (1.0,) * 3, 0.5, 5.0)), group=3))
    for part in np.split(np.arange(11), [1, 4, 5]):
        sums.add(x[part], y[part])
    found = sums.result().value()
    a = np.column_stack([np.full(9, 0.5), x[:9], y[:9]]).reshape(3, 3, 4).sum(axis=1)
    assert np.allclose(found, a.T @ a / 3, atol=1e-3)


def test_averaged_rows_refuse_what_would_shift_groups():
    with pytest.raises(ValueError, match="replace-one"):
        AveragedDesign((0.0,) * 3, (1.0,) * 3)


def test_averaged_summaries_survive_the_mail_and_join_only_their_like(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (900, 2))
    common = {"bounds": [(-1, 1)] * 2, "y_bounds": 3.0, "chains": 1, "draws": 20,
              "method": "Bayes-fixedS-fast", "privacy": PRIVACY}  # fmt: skip
    averaged = AveragedRegression(rows_per_group=3, **common)
    fitted = averaged.fit([Site("A", (x, x @ [1.0, -1.0]))])
    assert fitted.summaries_["A"].moments.rows == 300
    mailed = AveragedSummary.load(fitted.summaries_["A"].save(tmp_path / "a.json"))
    assert mailed.design == fitted.design_
    found = AveragedRegression.from_release(fitted.release(tmp_path / "bundle"))
    assert np.array_equal(found.predict(x), fitted.predict(x)) and found.rows_per_group == 3
    with pytest.raises(ParameterError, match="cannot be joined"):
        PrivateLinearRegression(**common).fit([mailed])
    with pytest.raises(ParameterError, match="cannot be joined"):
        AveragedRegression(rows_per_group=2, **common).fit([mailed])
