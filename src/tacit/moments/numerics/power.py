"""The robust tensor power method: eigenvectors of a symmetric third-order tensor, one by one.

A unit vector u is an eigenvector of T if T(I, u, u) = λu. For T = Σ λ_k v_k⊗v_k⊗v_k with
orthonormal v_k the map u ↦ T(I, u, u)/‖T(I, u, u)‖ converges quadratically to one of the v_k
with λ_k > 0 from almost every start. Each eigenvector is the best of many random starts by its
eigenvalue T(u, u, u), refined, and deflated from T (Anandkumar et al. 2014, algorithm 1).

A tensor is an array, its factors, or any function u ↦ T(I, u, u): the last two need no D³ memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import Integer, check
from tacit._core.kernels import compiled
from tacit.errors import ParameterError

__all__ = ["Decomposition", "Factored", "power_method", "symmetrise"]

_SETTLED = 1e-14  # squared change of a unit vector below which an iteration stops


@dataclass(frozen=True)
class Decomposition:
    """Eigenvalues in the order they were found, and their unit vectors as rows."""

    values: Array
    vectors: Array


@dataclass(frozen=True)
class Factored:
    """The tensor Σ w_k a_k⊗a_k⊗a_k, kept as weights and vectors (rows).

    >>> Factored([2.0], [[0.0, 1.0]])(np.array([[0.6, 0.8]])).round(2).tolist()
    [[0.0, 1.28]]
    """

    weights: Any
    vectors: Any

    def __call__(self, batch: Any) -> Array:
        """Return T(I, u, u) for every row u."""
        vectors = np.asarray(self.vectors, np.float64)
        return np.asarray(np.square(batch @ vectors.T) * np.asarray(self.weights) @ vectors)


def symmetrise(tensor: Any) -> Array:
    """Return the average of a third-order tensor over all permutations of its indices."""
    t = np.asarray(tensor, np.float64)
    orders = [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]
    return np.asarray(sum(t.transpose(order) for order in orders) / 6.0)


def power_method(
    tensor: Any,
    rank: int,
    rng: np.random.Generator,
    *,
    size: int | None = None,
    restarts: int | None = None,
    iterations: int = 100,
) -> Decomposition:
    """Return the leading eigenvectors of a symmetric tensor by power iteration and deflation.

    Parameters
    ----------
    tensor
        A symmetric array; `Factored`; or a function that maps rows u to rows T(I, u, u).
    rank
        How many eigenvectors.
    rng
        For the starts.
    size
        The dimension, for a function.
    restarts
        Random starts for each eigenvector; by default 10 + 2·rank.
    iterations
        The most steps from each start; a start that has settled stops earlier.

    Examples
    --------
    >>> tensor = np.zeros((2, 2, 2)); tensor[0, 0, 0], tensor[1, 1, 1] = 3.0, 2.0
    >>> power_method(tensor, 2, np.random.default_rng(0)).values.round(6).tolist()
    [3.0, 2.0]
    """
    dense = not callable(tensor)
    whole = np.array(tensor, np.float64) if dense else None
    if whole is not None:
        if whole.ndim != 3 or len(set(whole.shape)) != 1:
            raise ParameterError(f"tensor must have shape (D, D, D), got {whole.shape}")
        size = whole.shape[0]
    elif isinstance(tensor, Factored):
        size = np.shape(tensor.vectors)[1]
    if size is None:
        raise ParameterError("size must be given for a function: pass size=D")
    check("rank", rank, Integer(1))
    if rank > size:
        raise ParameterError(f"rank must be at most the dimension {size}, got {rank}")
    starts = 10 + 2 * rank if restarts is None else restarts
    values, vectors = np.zeros(rank), np.zeros((rank, size))
    for k in range(rank):
        batch = rng.standard_normal((starts, size))
        batch /= np.linalg.norm(batch, axis=1, keepdims=True)
        if whole is not None:
            score = np.empty(starts)
            compiled(_iterate, reassociate=True)(whole, batch, iterations, _SETTLED, score)
        else:
            mapped = _deflated(tensor, values[:k], vectors[:k])
            batch, score = _iterate_function(mapped, batch, iterations)
        best = int(np.argmax(score))
        values[k], vectors[k] = score[best], batch[best]
        if whole is not None:
            u = vectors[k]
            whole -= values[k] * u[:, None, None] * u[:, None] * u
    return Decomposition(values, vectors)


def _deflated(tensor: Callable[[Any], Any], values: Array, vectors: Array) -> Callable[[Any], Any]:
    return lambda batch: tensor(batch) - np.square(batch @ vectors.T) * values @ vectors


def _iterate_function(
    tensor: Callable[[Any], Any], batch: Array, iterations: int
) -> tuple[Array, Array]:
    """Iterate all starts at once."""
    for _ in range(iterations):
        image = tensor(batch)
        norms = np.linalg.norm(image, axis=1, keepdims=True)
        moved = np.where(norms > 0.0, image / np.maximum(norms, 1e-300), batch)
        change = np.square(moved - batch).sum(axis=1).max()
        batch = moved
        if change < _SETTLED:
            break
    return batch, np.asarray((tensor(batch) * batch).sum(axis=1))


def _iterate(tensor: Any, batch: Any, iterations: int, settled: float, score: Any) -> None:
    """Iterate every start by itself, in place; `_iterate_function` is its NumPy twin."""
    size = tensor.shape[0]
    image = np.empty(size)
    for i in range(batch.shape[0]):
        u = batch[i]
        for step in range(iterations + 1):
            squares, along = 0.0, 0.0
            for a in range(size):
                total = 0.0
                for b in range(size):
                    inner = 0.0
                    for c in range(size):
                        inner += tensor[a, b, c] * u[c]
                    total += inner * u[b]
                image[a] = total
                squares += total * total
                along += total * u[a]
            score[i] = along
            norm = np.sqrt(squares)
            if norm == 0.0 or step == iterations:
                break
            change = 0.0
            for a in range(size):
                moved = image[a] / norm
                change += (moved - u[a]) * (moved - u[a])
                u[a] = moved
            if change < settled:
                break
