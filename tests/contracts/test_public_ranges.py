"""Public ranges of any size: a fit gives finite numbers, or it is refused and costs nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tacit as tc
from tacit.errors import ParameterError
from tacit.posterior.numerics.populations.laws import NormalMean

ROWS = 600
U = np.random.default_rng(0).uniform(0, 1, ROWS)
PAID: dict[str, Any] = {"privacy": tc.Privacy(4, 1e-5), "random_state": 1}
ITEMS = list("abcdefgh")
CELLS = {
    "user": [f"u{k // 4}" for k in range(ROWS)],
    "item": [ITEMS[k % 4 * 2] for k in range(ROWS)],
}
TENSOR = np.zeros((3, 3, 3))
TENSOR[0, 0, 0], TENSOR[1, 1, 1] = 900.0, 500.0


def factorized(size: float, **more: Any) -> Any:
    model = tc.PrivateFactorization(
        "user:k item:k", rank=2, bounds=(0, size), entities={"item": ITEMS}, **PAID, **more
    )
    return model.fit({**CELLS, "rating": U * size})


# name → a fit to data in [0, size]
FITS: dict[str, tuple[Callable[..., Any], str, str]] = {
    "summary": (
        lambda size, **paid: tc.PrivateSummary(
            {"x": tc.number(0, size)}, noise="grid", **PAID, **paid).fit({"x": U * size}),
        "row", "add-remove-one",
    ),
    "regression": (
        lambda size, **paid: tc.PrivateLinearRegression(
            {"x": (0, size), "y": (-size, size)}, target="y", method="Bayes-fixedS-fast",
            **PAID, **paid,
        ).fit({"x": U * size, "y": (U - 0.5) * size}),
        "row", "add-remove-one",
    ),
    "posterior": (
        lambda size, **paid: tc.PrivatePosterior(
            NormalMean(sd=size / 5), "median", columns=tc.Columns(w=tc.number(0, size)),
            chains=1, draws=20, warmup=20, **PAID, **paid).fit({"w": U * size}),
        "row", "replace-one",
    ),
    "tensor": (
        lambda size, **paid: tc.OrthogonalDecomposition(
            2, sensitivity=size, **PAID, **paid).fit(TENSOR * size),
        "row", "add-remove-one",
    ),
    "offsets": (factorized, "user", "add-remove-one"),
    "langevin": (lambda size, **paid: factorized(size, method="sgld", **paid), "user",
                 "add-remove-one"),
}  # fmt: skip


@pytest.mark.parametrize("size", [1e-200, 1e-30, 1e20, 1e200])
@pytest.mark.parametrize("name", FITS)
def test_a_range_of_any_size_is_fitted_or_refused_for_nothing(name: str, size: float) -> None:
    fit, unit, neighbours = FITS[name]
    ledger = tc.Ledger.memory(epsilon=9.0, delta=1e-2, unit=unit, neighbours=neighbours)
    if not 1e-70 < size < 1e70:
        with pytest.raises(ParameterError, match="must be a"):
            fit(size, ledger=ledger)
        assert ledger.spent.epsilon == 0.0
        return
    model = fit(size, ledger=ledger)
    shared = [np.asarray(found, np.float64) for found in model.shared_.values()]
    assert all(np.isfinite(found).all() for found in shared)
    assert str(model.summary())
