"""Stochastic gradient epochs: the compiled kernel against its plain twin."""

import numpy as np
import pytest

from tacit.published.hua2015_hu2023_epochs import (
    gradient_epoch,
    gradient_epoch_reference,
    learning_rate,
    visits,
)


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("width", [1, 5])
def test_the_kernel_is_its_twin(unit, width):
    rng = np.random.default_rng(width)
    count = 100  # two blocks, one of them short
    users, items = (rng.integers(0, size, count).astype(np.uint32) for size in (7, 5))
    targets, push = rng.normal(size=count), rng.normal(size=(5, width))
    starts = np.array([64, 0])
    u, v = rng.normal(size=(7, width)), rng.normal(size=(5, width))
    twins = [(u.copy(), v.copy()), (u.copy(), v.copy())]
    for kernel, (a, b) in zip((gradient_epoch, gradient_epoch_reference), twins, strict=True):
        kernel(starts, users, items, targets, push, 0.02, 0.1, unit, a, b)
    np.testing.assert_allclose(twins[0][0], twins[1][0], rtol=1e-12)
    np.testing.assert_allclose(twins[0][1], twins[1][1], rtol=1e-12)
    if unit:
        touched = np.unique(users)
        assert (np.linalg.norm(twins[0][0][touched], axis=1) <= 1 + 1e-12).all()


def test_an_epoch_visits_every_rating_once_and_each_in_another_order():
    rng, count = np.random.default_rng(0), 20_000
    orders = []
    for _ in range(2):
        # with a rate so small that steps add up, u gathers every target exactly once
        starts, u = visits(count, rng), np.zeros((count, 1))
        each = np.arange(count, dtype=np.uint32)
        gradient_epoch(starts, each, np.zeros_like(each), np.arange(1.0, count + 1),
                       np.zeros((1, 1)), 1e-9, 0.0, False, u, np.ones((1, 1)))  # fmt: skip
        np.testing.assert_allclose(u[:, 0], 2e-9 * np.arange(1.0, count + 1), rtol=1e-3)
        orders.append(starts.tolist())
    assert orders[0] != orders[1]


def test_the_step_size_falls_twice_to_a_fifth():
    found = [learning_rate(0.5, epoch, 100) for epoch in (0, 24, 25, 74, 75, 99)]
    np.testing.assert_allclose(found, [0.5, 0.5, 0.1, 0.1, 0.02, 0.02])
