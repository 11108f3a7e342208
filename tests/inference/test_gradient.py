"""Stochastic gradient epochs: the compiled kernel against its plain twin."""

import numpy as np
import pytest

from tacit.inference.gradient import gradient_epoch, gradient_epoch_reference, learning_rate


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("width", [1, 5])
def test_the_kernel_is_its_twin(unit, width):
    rng = np.random.default_rng(width)
    users, items = rng.integers(0, 7, 60).astype(np.int32), rng.integers(0, 5, 60).astype(np.int32)
    targets, push = rng.normal(size=60), rng.normal(size=(5, width))
    u, v = rng.normal(size=(7, width)), rng.normal(size=(5, width))
    twins = [(u.copy(), v.copy()), (u.copy(), v.copy())]
    for kernel, (a, b) in zip((gradient_epoch, gradient_epoch_reference), twins, strict=True):
        kernel(users, items, targets, push, 0.02, 0.1, unit, a, b)
    np.testing.assert_allclose(twins[0][0], twins[1][0], rtol=1e-12)
    np.testing.assert_allclose(twins[0][1], twins[1][1], rtol=1e-12)
    if unit:
        touched = np.unique(users)
        assert (np.linalg.norm(twins[0][0][touched], axis=1) <= 1 + 1e-12).all()


def test_the_step_size_falls_twice_to_a_fifth():
    found = [learning_rate(0.5, epoch, 100) for epoch in (0, 24, 25, 74, 75, 99)]
    np.testing.assert_allclose(found, [0.5, 0.5, 0.1, 0.1, 0.02, 0.02])
