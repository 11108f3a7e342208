"""Small dense linear algebra for compiled loops: Cholesky factors, triangular solves, draws.

Matrices here have a side of 1 to about 30, where a call into LAPACK costs more than the work. Each
function is plain Python that Numba inlines into the kernels that call it; run without Numba, the
same function is its own reference. Nothing allocates: results go into arrays that are passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba.extending import register_jitable

__all__ = [
    "add_outer_solve",
    "bartlett",
    "cayley",
    "cholesky",
    "congruence",
    "copy",
    "fill",
    "from_precision",
    "inlined",
    "log_diagonal",
    "lower_product",
    "lower_square",
    "matvec",
    "solve_lower",
    "solve_lower_transposed",
    "squared_norm_of_inverse",
]

Function = TypeVar("Function", bound=Callable[..., Any])


def inlined(function: Function) -> Function:
    """Let compiled kernels call a function, which stays plain Python for everyone else.

    Sums may be reordered, so that they vectorise; nothing is assumed about NaN.
    """
    # only kernels call it: entries for Python and C would be compiled for nothing
    form = register_jitable(
        fastmath={"reassoc", "contract"}, no_cpython_wrapper=True, no_cfunc_wrapper=True
    )
    return cast("Function", form(function))


@inlined
def copy(source: Any, target: Any) -> None:
    """Copy an array into another of the same shape; slices take much longer to compile."""
    flat, into = source.ravel(), target.ravel()
    for i in range(flat.size):
        into[i] = flat[i]


@inlined
def fill(target: Any, value: float) -> None:
    """Set every entry."""
    into = target.ravel()
    for i in range(into.size):
        into[i] = value


@inlined
def cholesky(a: Any, out: Any) -> bool:
    """Write the lower Cholesky factor of ``a`` into ``out``; False if it is not definite."""
    d = a.shape[0]
    for i in range(d):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= out[i, k] * out[j, k]
            if i == j:
                if not total > 0.0:
                    return False
                out[i, i] = math.sqrt(total)
            else:
                out[i, j] = total / out[j, j]
        for j in range(i + 1, d):
            out[i, j] = 0.0
    return True


@inlined
def solve_lower(factor: Any, b: Any, out: Any) -> None:
    """Solve L·x = b."""
    for i in range(factor.shape[0]):
        total = b[i]
        for k in range(i):
            total -= factor[i, k] * out[k]
        out[i] = total / factor[i, i]


@inlined
def solve_lower_transposed(factor: Any, b: Any, out: Any) -> None:
    """Solve Lᵀ·x = b."""
    d = factor.shape[0]
    for i in range(d - 1, -1, -1):
        total = b[i]
        for k in range(i + 1, d):
            total -= factor[k, i] * out[k]
        out[i] = total / factor[i, i]


@inlined
def matvec(a: Any, x: Any, out: Any) -> None:
    """Write a·x into ``out``."""
    for i in range(a.shape[0]):
        total = 0.0
        for k in range(a.shape[1]):
            total += a[i, k] * x[k]
        out[i] = total


@inlined
def log_diagonal(factor: Any) -> float:
    """Return Σ log L_ii, half the log determinant of L·Lᵀ."""
    total = 0.0
    for i in range(factor.shape[0]):
        total += math.log(factor[i, i])
    return total


@inlined
def lower_product(a: Any, b: Any, scale: float, out: Any) -> None:
    """Write scale·A·B of two lower triangles into ``out``."""
    d = a.shape[0]
    for i in range(d):
        for j in range(d):
            total = 0.0
            for k in range(j, i + 1):
                total += a[i, k] * b[k, j]
            out[i, j] = scale * total


@inlined
def lower_square(factor: Any, out: Any) -> None:
    """Write L·Lᵀ into ``out``."""
    d = factor.shape[0]
    for i in range(d):
        for j in range(i + 1):
            total = 0.0
            for k in range(j + 1):
                total += factor[i, k] * factor[j, k]
            out[i, j] = total
            out[j, i] = total


@inlined
def squared_norm_of_inverse(factor: Any, work: Any) -> float:
    """Return ‖L⁻¹‖², the sum of its squared entries."""
    d = factor.shape[0]
    total = 0.0
    for j in range(d):
        work[j] = 1.0 / factor[j, j]
        total += work[j] * work[j]
        for i in range(j + 1, d):
            value = 0.0
            for k in range(j, i):
                value -= factor[i, k] * work[k]
            work[i] = value / factor[i, i]
            total += work[i] * work[i]
    return total


@inlined
def add_outer_solve(factor: Any, a: Any, work: Any, out: Any) -> None:
    """Add A·(L·Lᵀ)⁻¹·A of a symmetric A to ``out``; ``work`` is d × d."""
    d = factor.shape[0]
    for c in range(d):  # row c of work is L⁻¹ times column c of A
        for i in range(d):
            total = a[c, i]
            for k in range(i):
                total -= factor[i, k] * work[c, k]
            work[c, i] = total / factor[i, i]
    for i in range(d):
        for j in range(i + 1):
            total = 0.0
            for k in range(d):
                total += work[i, k] * work[j, k]
            out[i, j] += total
            if i != j:
                out[j, i] += total


@inlined
def cayley(g: Any, left: Any, out: Any) -> tuple[bool, float]:
    """Write T = (I − G/2)⁻¹·(I + G/2) into ``out``; return whether it exists, and log|T|.

    T(−G) = T(G)⁻¹ exactly, so that a symmetric law of G gives a move that is its own reverse.
    Elimination without pivoting: where a pivot of either matrix is not positive, T is said not
    to exist, for G and −G alike.
    """
    d = g.shape[0]
    log_det = 0.0
    for sign in (1.0, -1.0):
        for i in range(d):
            for j in range(d):
                left[i, j] = 0.5 * sign * g[i, j] + (1.0 if i == j else 0.0)
                if sign < 0.0:
                    out[i, j] = 0.5 * g[i, j] + (1.0 if i == j else 0.0)
        for k in range(d):
            pivot = left[k, k]
            if not pivot > 1e-6:
                return False, 0.0
            log_det += sign * math.log(pivot)
            for i in range(k + 1, d):
                share = left[i, k] / pivot
                for j in range(k + 1, d):
                    left[i, j] -= share * left[k, j]
                if sign < 0.0:
                    for j in range(d):
                        out[i, j] -= share * out[k, j]
    for k in range(d - 1, -1, -1):
        for j in range(d):
            total = out[k, j]
            for i in range(k + 1, d):
                total -= left[k, i] * out[i, j]
            out[k, j] = total / left[k, k]
    return True, log_det


@inlined
def congruence(t: Any, a: Any, work: Any, out: Any) -> None:
    """Write T·A·Tᵀ of a symmetric A into ``out``."""
    d = a.shape[0]
    for i in range(d):
        for j in range(d):
            total = 0.0
            for k in range(d):
                total += t[i, k] * a[j, k]
            work[i, j] = total
    for i in range(d):
        for j in range(i + 1):
            total = 0.0
            for k in range(d):
                total += work[i, k] * t[j, k]
            out[i, j] = total
            out[j, i] = total


@inlined
def bartlett(rng: Any, freedom: float, out: Any) -> None:
    """Draw A with A·Aᵀ ~ Wishart(I, freedom): χ on the diagonal, normals below it."""
    d = out.shape[0]
    for i in range(d):
        for j in range(i):
            out[i, j] = rng.standard_normal()
        out[i, i] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (freedom - i)))
        for j in range(i + 1, d):
            out[i, j] = 0.0


@inlined
def from_precision(factor: Any, linear: Any, white: Any, work: Any, out: Any) -> None:
    """Write P⁻¹·b + L⁻ᵀ·ξ with P = L·Lᵀ: a draw of N(P⁻¹b, P⁻¹) where ξ is one of N(0, I)."""
    solve_lower(factor, linear, work)
    for i in range(factor.shape[0]):
        work[i] += white[i]
    solve_lower_transposed(factor, work, out)
