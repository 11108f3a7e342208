"""Stochastic gradient descent on ratings, one rating at a time, with a push added to each step.

For rating k of user i and item j, with e = u_i·v_j − y_k:

    v_j ← v_j − η·(2e·u_i + x_j + 2λ·v_j),    u_i ← u_i − η·(2e·v_j + 2λ·u_i),

both from the values before the step; then u_i is brought back to norm one where that is asked for.
x_j is the push of the item: its share of a noise vector, or zero.

**Order.** Ratings are put in random order once (by the caller), and every epoch takes blocks of
them in another order. That is as random as what stochastic gradients need, at the price of reading
memory from front to back: shuffling and gathering single ratings took longer than the steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.kernels import compiled
from tacit.factorization.arrays import Floats, Integers

__all__ = ["gradient_epoch", "gradient_epoch_reference", "learning_rate", "visits"]

_BLOCK = 64  # ratings that stay together


def learning_rate(initial: float, epoch: int, epochs: int) -> float:
    """Return the step size of an epoch: a fifth after 25 %, again a fifth after 75 %."""
    return (
        initial
        / (5.0 if epoch >= 0.25 * epochs else 1.0)
        / (5.0 if epoch >= 0.75 * epochs else 1.0)
    )


def visits(count: int, rng: np.random.Generator) -> Integers:
    """Return where the blocks of so many ratings start, in the order of one epoch.

    >>> sorted(visits(150, np.random.default_rng(0)).tolist())
    [0, 64, 128]
    """
    return rng.permutation(np.arange(0, count, _BLOCK))


def _gradient_epoch(
    starts: Any,
    users: Any,
    items: Any,
    targets: Any,
    push: Any,
    rate: float,
    ridge: float,
    unit: bool,
    u: Any,
    v: Any,
) -> None:
    width = u.shape[1]
    keep = 1.0 - 2.0 * rate * ridge
    for start in starts:
        for k in range(start, min(start + _BLOCK, users.shape[0])):
            own = u[users[k]]
            other = v[items[k]]
            extra = push[items[k]]
            error = -targets[k]
            for a in range(width):
                error += own[a] * other[a]
            step = 2.0 * rate * error
            length = 0.0
            for a in range(width):
                x = own[a]
                y = other[a]
                other[a] = keep * y - step * x - rate * extra[a]
                x = keep * x - step * y
                own[a] = x
                length += x * x
            if unit and length > 1.0:
                factor = 1.0 / np.sqrt(length)
                for a in range(width):
                    own[a] *= factor


def gradient_epoch(
    starts: Integers,
    users: NDArray[np.uint32],
    items: NDArray[np.uint32],
    targets: Floats,
    push: Floats,
    rate: float,
    ridge: float,
    unit: bool,
    u: Floats,
    v: Floats,
) -> None:
    """Run one epoch over ratings i, j, y in random order; ``u`` and ``v`` change in place.

    ``starts`` is the order of the blocks (`visits`), ``push`` x of every item, ``rate`` and
    ``ridge`` are η and λ; ``unit`` keeps users' vectors within norm one. Users and items are
    unsigned, so that no index counts from the end.
    """
    kernel = compiled(_gradient_epoch, reassociate=True, unchecked=True)
    kernel(starts, users, items, targets, push, rate, ridge, unit, u, v)


def gradient_epoch_reference(
    starts: Integers,
    users: NDArray[np.uint32],
    items: NDArray[np.uint32],
    targets: Floats,
    push: Floats,
    rate: float,
    ridge: float,
    unit: bool,
    u: Floats,
    v: Floats,
) -> None:
    """NumPy twin of `gradient_epoch`: a plain loop over ratings."""
    for k in np.concatenate([np.arange(len(users))[start : start + _BLOCK] for start in starts]):
        i, j = users[k], items[k]
        own, other = u[i].copy(), v[j].copy()
        error = own @ other - targets[k]
        v[j] = other - rate * (2.0 * error * own + push[j] + 2.0 * ridge * other)
        moved = own - rate * (2.0 * error * other + 2.0 * ridge * own)
        u[i] = moved / max(1.0, float(np.sqrt(moved @ moved))) if unit else moved
