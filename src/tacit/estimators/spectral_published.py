"""AGN, AVN and DP-TPM as published, to reproduce tables; the certificate says what they give.

Imtiaz & Sarwate (2017), algorithm 1, on moments that are symmetrised first (PRIVACY B3) and with
the sensitivity of the stated relation instead of √2/N. Half of ε, and half of δ, goes to the
second moment.

``"agn"``
    Gaussian noise of the classical calibration, Δ·√(2 ln(1.25/δ'))/ε', on every unique entry.
``"avn"``
    The same on the second moment, with all of δ; K-norm noise, density ∝ exp(−ε'‖b‖/Δ), on the
    D(D + 1)(D + 2)/6 unique entries of the third.
``"dp-tpm"``
    The noisy power method of Wang & Anandkumar (2016), algorithm 3, after the same noise on the
    second moment. K components with L starts of R steps each are n = K·L·(R + 1) releases of
    (ε' = ε/√(n(4 + ln(2/δ))), δ' = δ/2n), each with noise of ν = √(2 ln(1.25/δ'))/ε' times its
    sensitivity. The paper changes only the latter, for an average over documents: 2‖u‖∞² for
    T(I, u, u) and 2‖u‖∞³ for T(u, u, u) under replace-one, where whitening is not needed. With
    a whitening W, a document moves WᵀM₃(I, Wu, Wu) by at most the longest row of W times
    ‖Wu‖∞², which is that for W = I; one more or less moves it by half. Neither L nor R is
    printed: 10 and 10 here.

    ν is the one that the source prints. ε' and δ' are not printed there: they are quoted as Wang &
    Anandkumar's, unchecked against their text. Advanced composition, √(2n ln(2/δ))·ε' +
    n·ε'·(e^ε' − 1), does not confirm them: for δ = 1e-6 it gives 1.3·ε. The noise does
    keep the claim, by the accountant, because Gaussians compose better than that.

The eigenvalues of the noisy second moment enter by their size, as in a singular value
decomposition, and negative word probabilities are set to zero, both as published. The number of
documents, public in the paper, is read off the noisy second moment: under add-remove-one an exact
number would be a leak.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError
from tacit.estimators.spectral_release import Plan
from tacit.inference.power import power_method
from tacit.mechanisms.additive import Gaussian
from tacit.mechanisms.base import Mechanism, privatize
from tacit.mechanisms.grid import GridSum
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.vector import KNorm
from tacit.models.moments import DocumentMoments
from tacit.models.whitening import Whitening, spread
from tacit.privacy.events import REPLACE, DpEvent, compose, repeat
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger import Reservation

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["CLAIMS", "STRATEGIES", "Published", "reaches", "release", "schedule"]

STRATEGIES = ("agn", "avn", "dp-tpm")
STARTS, STEPS = 10, 10  # of DP-TPM
LARGEST = 128  # words: the third moment is stored
_CLASSICAL = (
    "the classical Gaussian calibration holds for ε below one only and adds more noise than "
    "needed, and ε and δ are split between the two moments where one joint release would do"
)
CLAIMS = {
    "agn": _CLASSICAL,
    "avn": _CLASSICAL,
    "dp-tpm": _CLASSICAL + "; every step of the power method is paid for by advanced composition, "
    "which does not confirm the ε of a step",
}


@dataclass(frozen=True)
class _Parts:
    """The mechanisms of a strategy."""

    second: Gaussian
    third: Mechanism
    repeats: int = 1
    scalar: Gaussian | None = None


@dataclass(frozen=True)
class Published:
    """What a strategy released: only this leaves.

    Attributes
    ----------
    white
        The whitening.
    values, vectors
        Eigenvalues and eigenvectors (rows) of the whitened tensor.
    count
        The noisy number of documents.
    """

    white: Whitening
    values: NDArray[np.float64]
    vectors: NDArray[np.float64]
    count: float


def _classical(epsilon: float, delta: float) -> float:
    return math.sqrt(2.0 * math.log(1.25 / delta)) / epsilon


def _parts(plan: Plan, privacy: Privacy, strategy: str) -> _Parts:
    size, half = plan.size, privacy.epsilon / 2.0
    if size > LARGEST:
        raise ParameterError(
            f"published strategies store a third moment of {size}³ numbers: pass at most "
            f"{LARGEST} words, or strategy='certified'"
        )
    delta = privacy.delta if strategy == "avn" else privacy.delta / 2.0
    second = Gaussian.calibrated(
        _classical(half, delta), plan.second_sensitivity, (math.comb(size + 1, 2),),
        neighbours=plan.neighbours,
    )  # fmt: skip
    shape = (math.comb(size + 2, 3),)
    if strategy == "agn":
        noise = _classical(half, delta)
        third: Mechanism = Gaussian.calibrated(
            noise, plan.third_sensitivity, shape, neighbours=plan.neighbours
        )
        return _Parts(second, third)
    if strategy == "avn":
        return _Parts(second, KNorm.for_privacy(half, plan.third_sensitivity, shape,
                                                neighbours=plan.neighbours))  # fmt: skip
    steps = plan.rank * STARTS * (STEPS + 1)
    epsilon = half / math.sqrt(steps * (4.0 + math.log(2.0 / delta)))
    noise = _classical(epsilon, delta / (2.0 * steps))
    # values are divided by their sensitivity first, so that every step has one event
    vector = Gaussian.calibrated(noise, 1.0, (plan.rank,), neighbours=plan.neighbours)
    scalar = Gaussian.calibrated(noise, 1.0, (), neighbours=plan.neighbours)
    return _Parts(second, vector, steps, scalar)


def schedule(plan: Plan, privacy: Privacy, strategy: str) -> DpEvent:
    """Return everything that a strategy releases."""
    parts = _parts(plan, privacy, strategy)
    if parts.scalar is None:
        return compose([parts.second.event, parts.third.event])
    runs = plan.rank * STARTS
    return compose([
        parts.second.event, repeat(parts.third.event, runs * STEPS),
        repeat(parts.scalar.event, runs),
    ])  # fmt: skip


def release(
    moments: DocumentMoments,
    plan: Plan,
    privacy: Privacy,
    strategy: str,
    reservation: Reservation | None,
    noise: Noise,
    rng: np.random.Generator,
) -> Published:
    """Release the moments and decompose them."""
    parts = _parts(plan, privacy, strategy)
    size, rank = plan.size, plan.rank
    upper = np.triu_indices(size)
    entries = privatize(
        parts.second, _on_grid(moments.rows(0, size)[upper], moments.exponent, parts.second),
        ledger=reservation, rng=noise,
    )  # fmt: skip
    matrix = np.zeros((size, size))
    matrix[upper] = entries
    matrix = matrix + np.triu(matrix, 1).T
    count = max(float(matrix.sum()), 0.0)
    found, vectors = np.linalg.eigh(matrix)
    order = np.argsort(-np.abs(found))[:rank]  # the singular values
    white = Whitening(vectors[:, order], np.abs(found[order]), np.abs(found[order]), 0.0)
    whole = moments.whole_third()
    if parts.scalar is not None:
        tensor = np.ldexp(spread(whole, size), moments.exponent)
        values, rows = _noisy_power(tensor, white, plan, parts, reservation, noise, rng)
        return Published(white, values, rows, count)
    released = privatize(
        parts.third, _on_grid(whole, moments.exponent, parts.third), ledger=reservation, rng=noise
    )
    u = white.basis
    third = np.einsum("abc,ai,bj,ck->ijk", spread(released, size), u, u, u, optimize=True)
    result = power_method(white.tensor(third), rank, rng)
    return Published(white, result.values, result.vectors, count)


def _on_grid(integers: Any, exponent: int, mechanism: Any) -> GridSum:
    """Round a lattice sum to a mechanism's grid, which counts it."""
    shift = exponent - mechanism.grid.exponent
    if shift >= 0:
        return GridSum(integers << shift, mechanism.grid)
    return GridSum((integers + (1 << (-shift - 1))) >> -shift, mechanism.grid)


def reaches(w: NDArray[np.float64], u: NDArray[np.float64]) -> tuple[float, float]:
    """Return how far one document more or less moves M₃(W, Wu, Wu) and M₃(Wu, Wu, Wu).

    M₃(d) has no negative entry and adds up to one: the first is an average of rows of W times two
    entries of Wu, the second one of products of three entries of Wu.
    """
    largest = float(np.abs(w @ u).max())
    return float(np.linalg.norm(w, axis=1).max()) * largest**2, largest**3


def _noisy_power(
    tensor: NDArray[np.float64],
    white: Whitening,
    plan: Plan,
    parts: _Parts,
    reservation: Reservation | None,
    noise: Noise,
    rng: np.random.Generator,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Run the power method with noise on every step; only noisy vectors are kept."""
    assert parts.scalar is not None
    w = white.basis * white.levels**-0.5
    inner = np.einsum("abc,ai,bj,ck->ijk", tensor, w, w, w, optimize=True)
    change = 2.0 if plan.neighbours == REPLACE else 1.0
    values, vectors = np.zeros(plan.rank), np.zeros((plan.rank, plan.rank))
    for k in range(plan.rank):
        best = -math.inf
        for _ in range(STARTS):
            u = rng.standard_normal(plan.rank)
            u /= np.linalg.norm(u)
            for _ in range(STEPS):
                reach = change * reaches(w, u)[0]
                image = np.einsum("abc,b,c->a", inner, u, u)
                noisy = reach * privatize(
                    parts.third, image / reach, ledger=reservation, rng=noise
                )
                noisy -= (np.square(vectors[:k] @ u) * values[:k]) @ vectors[:k]  # released
                u = noisy / max(float(np.linalg.norm(noisy)), 1e-300)
            reach = change * reaches(w, u)[1]
            value = np.einsum("abc,a,b,c->", inner, u, u, u) / reach
            score = reach * float(
                privatize(parts.scalar, float(value), ledger=reservation, rng=noise)
            )
            score -= float(np.sum((vectors[:k] @ u) ** 3 * values[:k]))
            if score > best:
                best, values[k], vectors[k] = score, score, u
    return values, vectors
