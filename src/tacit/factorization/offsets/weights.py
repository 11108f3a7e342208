"""Privacy weights: how much of ε each rating is worth, W_ij = β_i·γ_j in (0, 1].

A user's weight β says how open the user is, an item's weight γ how harmless the item. Rating
(i, j) asks for W_ij·ε. Weights are public here: a method that scales by them shows them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.check import Integer, Real, check
from tacit.data.members import Members, shown
from tacit.errors import ParameterError
from tacit.factorization.arrays import Floats
from tacit.privacy.events import DpEvent

__all__ = ["PrivacyWeights", "bands"]

_BANDS = 10  # groups of ratings on a certificate, by weight
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
        β and γ, each in (0, 1]: by name, or in the order of users and items.

    Examples
    --------
    >>> PrivacyWeights([1.0, 0.5], [1.0, 0.2]).of([0, 1], [1, 1]).tolist()
    [0.2, 0.1]
    >>> PrivacyWeights({"anna": 0.5, "bo": 1.0}, [1.0, 0.2]).users.tolist()
    [0.5, 1.0]
    """

    users: Floats
    items: Floats
    user_names: tuple[Any, ...] | None = None
    item_names: tuple[Any, ...] | None = None

    def __post_init__(self) -> None:
        for one in ("user", "item"):
            given: Any = getattr(self, f"{one}s")
            if isinstance(given, Mapping):
                object.__setattr__(self, f"{one}_names", tuple(given))
                given = list(given.values())
            object.__setattr__(self, f"{one}s", _checked(f"weights of {one}s", given))

    def among(self, users: Members, items: Members, *, ordered: bool) -> PrivacyWeights:
        """Return the weights of some users and items in their order, found by name.

        Parameters
        ----------
        users, items
            Whose weights.
        ordered
            Whether the caller knows the order of users; weights have names otherwise.
        """
        if self.user_names is None and users.names is not None and not ordered:
            raise ParameterError(
                "weights of users must have their names, because a table says nothing about their "
                "order: pass PrivacyWeights({user: weight, …}, {item: weight, …})"
            )
        if (self.user_names, self.item_names) == (None, None) and (
            (len(self.users), len(self.items)) != (users.size, items.size)
        ):
            raise ParameterError(
                f"weights are for {len(self.users)} users and {len(self.items)} items, the "
                f"ratings for {users.size} and {items.size}"
            )
        return PrivacyWeights(
            _found(users, self.users, self.user_names), _found(items, self.items, self.item_names)
        )

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
        middle_item: float | None = None,
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
            Weights are uniform in [lowest, middle) and [middle, 1): ε_uc, ε_um and ε_ic.
        middle_item
            ε_im, where it is not ε_um.
        """
        check("users", users, Integer(1))
        check("items", items, Integer(1))
        return cls(
            _groups(users, conservative, moderate, lowest, middle, rng),
            _groups(
                items,
                sensitive,
                medium,
                lowest_item,
                middle if middle_item is None else middle_item,
                rng,
            ),
        )

    def of(self, users: Any, items: Any) -> Floats:
        """Return W of each pair."""
        return np.asarray(self.users[np.asarray(users)] * self.items[np.asarray(items)])

    def stacked(self, others: Any) -> PrivacyWeights:
        """Return the weights of several sites' users, numbered one site after the other."""
        return PrivacyWeights(
            np.concatenate([self.users, *(other.users for other in others)]), self.items
        )

    def of_user(self, user: int) -> Floats:
        """Return W of one user with every item."""
        return np.asarray(self.users[user] * self.items)


def _found(members: Members, weights: Floats, names: tuple[Any, ...] | None) -> Floats:
    """Return the weight of every member, by name where weights have names."""
    if names is None:
        if len(weights) != members.size:
            raise ParameterError(
                f"weights are for {len(weights)} {members.entity}s, the ratings for {members.size}"
            )
        return weights
    place = Members(members.entity, len(names), names)
    own = members.names if members.names is not None else range(members.size)
    where = place.known(list(own))
    lacking = [name for name, k in zip(own, where, strict=True) if k < 0]
    if lacking:
        raise ParameterError(f"weights of {members.entity}s lack {shown(lacking)}: state them too")
    return np.asarray(weights[where])


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


def bands(parts: Iterable[Floats], scaled: Callable[[float], DpEvent]) -> Mapping[str, DpEvent]:
    """Return bands of the weights W that occur, each with what its heaviest rating sees.

    ``parts`` are all weights, some at a time; ``scaled`` says of a weight what everything released
    is, as a rating of that weight sees it.
    """
    heaviest = np.zeros(_BANDS + 1)
    for weights in parts:
        band = np.clip(np.ceil(weights * _BANDS - 1e-12), 1, _BANDS).astype(np.int8)
        for k in np.flatnonzero(np.bincount(band)).tolist():
            heaviest[k] = max(heaviest[k], weights[band == k].max())
    return {
        f"{(k - 1) / _BANDS:g} < weight ≤ {k / _BANDS:g}": scaled(float(heaviest[k]))
        for k in np.flatnonzero(heaviest).tolist()
    }
