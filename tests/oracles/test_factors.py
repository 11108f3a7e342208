"""Comparing factor models up to what cannot be known: scale and order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.errors import ParameterError
from tests.oracles.factors import factor_match_score, normalise_columns


def random_model(rng, rank=3):
    return {name: rng.normal(size=(rows, rank)) for name, rows in (("a", 5), ("b", 6), ("c", 4))}


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_a_permuted_and_rescaled_model_matches_perfectly(seed, rank):
    rng = np.random.default_rng(seed)
    model, order = random_model(rng, rank), rng.permutation(rank)
    left, right = rng.uniform(0.1, 10.0, (2, rank))
    signs = rng.choice([-1.0, 1.0], rank)
    other = {
        "a": (model["a"] * left * signs)[:, order],
        "b": (model["b"] * right)[:, order],
        "c": (model["c"] / (left * right) * signs)[:, order],
    }
    assert factor_match_score(model, other) == pytest.approx(1.0, abs=1e-10)


def test_the_score_falls_with_the_distance():
    rng = np.random.default_rng(1)
    model, noise = random_model(rng), random_model(rng)
    scores = [
        factor_match_score(model, {n: model[n] + size * noise[n] for n in model})
        for size in (0.0, 0.1, 0.5, 10.0)
    ]
    assert scores == sorted(scores, reverse=True)
    assert scores[1] < 0.999
    assert scores[3] < 0.7


def test_one_wrong_component_costs_its_share():
    rng = np.random.default_rng(2)
    axes = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    first = {"a": axes[:, :3], "b": axes[:, :3]}
    second = {"a": axes[:, [0, 1, 5]], "b": axes[:, [0, 1, 5]]}
    assert factor_match_score(first, second) == pytest.approx(2 / 3)


def test_one_wrong_factor_is_enough_to_differ():
    axes = np.eye(4)
    first, second = {"a": axes[:, :2], "b": axes[:, :2]}, {"a": axes[:, :2], "b": axes[:, 2:]}
    assert factor_match_score(first, second) == 0.0


def test_the_weight_of_a_component_counts():
    axes = np.eye(3)
    first = {"a": axes, "b": axes}
    assert factor_match_score(first, {"a": axes * 2.0, "b": axes}) == pytest.approx(0.5)


def test_normalised_columns_have_unit_length_and_the_heaviest_comes_first():
    model = random_model(np.random.default_rng(3))
    weights, unit = normalise_columns(model)
    assert (np.diff(weights) <= 0).all()
    for matrix in unit.values():
        np.testing.assert_allclose(np.linalg.norm(matrix, axis=0), 1.0)
    rebuilt = np.einsum("k,ik,jk,lk->ijl", weights, *unit.values())
    np.testing.assert_allclose(rebuilt, np.einsum("ik,jk,lk->ijl", *model.values()))


def test_an_empty_component_stays_finite():
    model = {"a": np.array([[1.0, 0.0]]), "b": np.array([[2.0, 0.0]])}
    weights, unit = normalise_columns(model)
    assert weights.tolist() == [2.0, 0.0]
    assert all(np.isfinite(matrix).all() for matrix in unit.values())
    assert 0.0 <= factor_match_score(model, model) <= 1.0


def test_models_that_cannot_be_compared_are_refused():
    axes = np.eye(3)
    with pytest.raises(ParameterError, match="same factors"):
        factor_match_score({"a": axes}, {"b": axes})
    with pytest.raises(ParameterError, match="same number of columns"):
        normalise_columns({"a": axes, "b": axes[:, :2]})
    with pytest.raises(ParameterError, match="must be matrices"):
        normalise_columns({"a": axes, "b": np.ones((2, 3, 3))})
