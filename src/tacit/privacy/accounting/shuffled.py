"""Amplification by shuffling: ε-private messages that arrive in random order hide each other.

Source: Feldman, McMillan & Talwar (2021), "Hiding among the clones". Let R be a randomiser that is
ε₀-private for any two inputs. For every input x and the two inputs x₀, x₁ that one person might
have, R(x) ≥ e^(−ε₀)·R(x_b) as densities, hence

    R(x) = e^(−ε₀)·(R(x₀) + R(x₁))/2 + (1 − e^(−ε₀))·(something else):

with probability e^(−ε₀) a message of somebody else is a *clone*, drawn from either law with even
odds. And there are laws Q₀, Q₁ with R(x₀) = q·Q₀ + (1 − q)·Q₁ and R(x₁) = (1 − q)·Q₀ + q·Q₁, where
q = e^ε₀/(1 + e^ε₀) (Kairouz, Oh & Viswanath 2015), so that a clone is drawn from Q₀ or Q₁ with
even odds as well. Everything seen is a function of how many clones, the person's own message
included, came from Q₀ and how many from Q₁: with n persons, C ~ Bin(n − 1, e^(−ε₀)),
A ~ Bin(C, ½) and the own message from Q₀ with probability q or 1 − q,

    (A + 1, C − A) with probability q, else (A, C − A + 1),   against the same with 1 − q.

Randomisers may differ between places of the random order and depend on messages before.

**The hockey stick.** Given C = c the two laws at (a, c + 1 − a) are K·(q·a + (1 − q)(c + 1 − a))
and K·((1 − q)·a + q(c + 1 − a)) with one K, so their ratio grows with a, and Σ (P − e^ε·P')₊ is a
difference of two binomial tails. It falls with c: one clone more can be added to a pair by whoever
looks at it. So c may be rounded down to few values, and the answer stays an upper bound.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, Real, check

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["clones_epsilon", "shuffled_deltas", "shuffled_reach"]

_LEVELS = 96  # values that the number of clones is rounded down to
_TAIL = 1e-18  # of the number of clones, on either side
_ROUNDING = 1e-15  # of sums and differences of tails
LARGEST_LOCAL = 15.0  # ε₀ beyond which nobody is a clone
_FINEST = 1e-14  # the δ of the largest loss that is told from infinity


def clones_epsilon(local_epsilon: float, people: int, delta: float) -> float:
    """Return the closed form of Feldman, McMillan & Talwar (2021), Theorem 3.1.

    It needs ε₀ ≤ ln(n/(16·ln(2/δ))), and is ε₀ otherwise.

    >>> round(clones_epsilon(1.0, 100_000, 1e-6), 3)
    0.073
    """
    check("local_epsilon", local_epsilon, Real(0, open_low=True))
    check("people", people, Integer(1))
    check("delta", delta, Real(0, 1, open_low=True, open_high=True))
    if people <= 16.0 * math.log(2.0 / delta) * math.exp(local_epsilon):
        return local_epsilon
    grown = math.exp(local_epsilon)
    inner = 8.0 * math.sqrt(grown * math.log(4.0 / delta) / people) + 8.0 * grown / people
    return min(local_epsilon, math.log1p(math.tanh(local_epsilon / 2.0) * inner))


def shuffled_reach(local_epsilon: float, people: int) -> float:
    """Return a loss beyond which hardly any probability lies; at most ε₀."""
    return clones_epsilon(local_epsilon, people, _FINEST)


def _weights(local_epsilon: float, epsilon: Floats) -> tuple[Floats, Floats]:
    """Return q − e^ε(1 − q) and e^ε·q − (1 − q), neither below zero."""
    q = 1.0 / (1.0 + math.exp(-local_epsilon))
    gain = q * -np.expm1(np.minimum(epsilon - local_epsilon, 0.0))
    return gain, q * (np.exp(epsilon) - math.exp(-local_epsilon))


@lru_cache(maxsize=1024)
def _even_tails(count: int) -> tuple[Floats, int]:
    """Return P(Bin(count, ½) ≥ a − 1), P(… ≥ a), … and the first a, where it is not 1 or 0."""
    from scipy import special

    width = 10.0 * math.sqrt(count) / 2.0 + 2.0
    low, high = max(0, math.floor(count / 2.0 - width)), min(count, math.ceil(count / 2.0 + width))
    k = np.arange(low, high + 1.0)
    log_mass = special.gammaln(count + 1.0) - special.gammaln(k + 1.0)
    log_mass -= special.gammaln(count - k + 1.0) + count * math.log(2.0)
    mass = np.exp(log_mass)
    tails = np.cumsum((mass / mass.sum())[::-1])[::-1]
    return np.concatenate([[1.0], tails, [0.0]]), low


def _clones(local_epsilon: float, people: int) -> tuple[NDArray[np.int64], Floats, float]:
    """Return numbers of clones, rounded down to few, their probabilities, and what is left out."""
    from scipy import special, stats

    chance = math.exp(-local_epsilon)
    law = stats.binom(people - 1, chance)
    low, high = max(int(law.ppf(_TAIL)) - 1, 0), people - 1
    spread = math.sqrt(max((people - 1) * chance * (1.0 - chance), 0.0))
    high = min(high, math.ceil(law.mean() + 10.0 * spread) + 1)
    levels = np.unique(np.linspace(low, high, _LEVELS).astype(np.int64))
    # P(level ≤ C < next level); everything from the last level on counts as the last
    below = special.bdtr(levels - 1.0, people - 1, chance)
    below[levels == 0] = 0.0
    mass = np.diff(np.append(below, 1.0))
    return levels, np.maximum(mass, 0.0), float(below[0])


def shuffled_deltas(local_epsilon: float, people: int, epsilons: Any) -> Floats:
    """Return the δ of shuffled messages at every ε, an upper bound.

    Examples
    --------
    >>> float(shuffled_deltas(1.0, 100_000, [0.03])[0]) < 1e-6
    True
    """
    given = np.asarray(epsilons, np.float64)
    size = np.abs(given)
    gain, loss = _weights(local_epsilon, size)
    clones, mass, left = _clones(local_epsilon, people)
    found = np.full(len(given), left + _ROUNDING)
    for count, chance in zip(clones.tolist(), mass.tolist(), strict=True):
        first = np.floor((count + 1) * loss / (gain + loss)) + 1.0  # the least a that counts
        tails, least = _even_tails(count)
        place = np.clip(first - least, 0, len(tails) - 2).astype(np.int64)
        # tails[k] = P(Bin(c, ½) ≥ least − 1 + k)
        found += chance * np.maximum(gain * tails[place] - loss * tails[place + 1], 0.0)
    # of a symmetric pair: δ(−ε) = 1 − e^(−ε) + e^(−ε)·δ(ε)
    mirrored = -np.expm1(-size) + np.exp(-size) * found
    return np.asarray(np.where(given < 0.0, np.minimum(mirrored, 1.0), np.minimum(found, 1.0)))
