"""Privacy weights: how much of ε each rating is worth, W_ij = β_i·γ_j in (0, 1].

A user's weight β says how open the user is, an item's weight γ how harmless the item. Rating
(i, j) asks for W_ij·ε. Weights are public here: a method that scales by them shows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.check import Integer, Real, check
from tacit.errors import ParameterError
from tacit.factorization.arrays import Floats

__all__ = ["PrivacyWeights"]

_SMALLEST = 1e-6  # below, a rating counts for nothing and no ε can be told from 0


def _checked(name: str, weights: Any) -> Floats:
    found = np.array(weights, np.float64)
    if found.ndim != 1 or not len(found):
        raise ParameterError(f"{name} must hold one weight each, got shape {found.shape}")
    bad = np.flatnonzero(~((found >= _SMALLEST) & (found <= 1.0)))
    if len(bad):
        raise ParameterError(
            f"{name} must lie in (0, 1], and be at least {_SMALLEST:g}: number {bad[0]} is "
            f"{found[bad[0]]:g}. A weight of 0 leaves its ratings nothing: leave them out instead"
        )
    return found


@dataclass(frozen=True, eq=False)
class PrivacyWeights:
    """One weight per user and per item; a rating's weight is their product.

    Parameters
    ----------
    users, items
        β and γ, each in (0, 1].

    Examples
    --------
    >>> PrivacyWeights([1.0, 0.5], [1.0, 0.2]).of([0, 1], [1, 1]).tolist()
    [0.2, 0.1]
    """

    users: Floats
    items: Floats

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", _checked("weights of users", self.users))
        object.__setattr__(self, "items", _checked("weights of items", self.items))

    @classmethod
    def equal(cls, users: int, items: int) -> PrivacyWeights:
        """Return the weight 1 for everybody."""
        return cls(np.ones(users), np.ones(items))

    @classmethod
    def drawn(
        cls,
        users: int,
        items: int,
        rng: np.random.Generator,
        *,
        conservative: float = 0.54,
        moderate: float = 0.37,
        sensitive: float = 0.33,
        medium: float = 0.33,
        lowest: float = 0.1,
        middle: float = 0.5,
        lowest_item: float = 0.1,
    ) -> PrivacyWeights:
        """Draw weights in three groups each, as Hu & Fang (2023) do; defaults: their Table II.

        Parameters
        ----------
        users, items
            How many.
        rng
            An inference generator.
        conservative, moderate
            Shares f_uc and f_um of users; the rest has weight 1.
        sensitive, medium
            Shares f_ic and f_im of items; the rest has weight 1.
        lowest, middle, lowest_item
            Weights are uniform in [lowest, middle) and [middle, 1): ε_uc, ε_um = ε_im and ε_ic.
        """
        check("users", users, Integer(1))
        check("items", items, Integer(1))
        return cls(
            _groups(users, conservative, moderate, lowest, middle, rng),
            _groups(items, sensitive, medium, lowest_item, middle, rng),
        )

    def of(self, users: Any, items: Any) -> Floats:
        """Return W of each pair."""
        return np.asarray(self.users[np.asarray(users)] * self.items[np.asarray(items)])

    def of_user(self, user: int) -> Floats:
        """Return W of one user with every item."""
        return np.asarray(self.users[user] * self.items)


def _groups(
    count: int, first: float, second: float, lowest: float, middle: float, rng: np.random.Generator
) -> Floats:
    for name, share in (("first share", first), ("second share", second)):
        check(name, share, Real(0, 1))
    if first + second > 1.0 + 1e-12:
        raise ParameterError(f"shares must add up to at most 1, got {first:g} + {second:g}")
    if not 0.0 < lowest <= middle <= 1.0:
        raise ParameterError(
            f"needs 0 < lowest ≤ middle ≤ 1, got {lowest:g} and {middle:g}: a weight of 0 leaves "
            "a group nothing"
        )
    order = rng.permutation(count)
    cautious, rest = round(first * count), round(second * count)
    weights = np.ones(count)
    weights[order[:cautious]] = rng.uniform(lowest, middle, cautious)
    between = order[cautious : cautious + rest]
    weights[between] = rng.uniform(middle, 1.0, len(between))
    return weights
