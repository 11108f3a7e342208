"""What one person's own ratings or clicks say, given released features of items; NumPy alone.

**Ratings**: the row of `tacit.factorization.offsets.numerics.ridge.averaged_rows`, for one person.

**Clicks.** Whoever clicks takes item j with a probability proportional to exp(b_j + f_j·w), with b
the logarithm of the released popularity, f released features and w ~ N(0, τ²) the person's own
taste. ``"listwise"``: w is the most likely one given the items S that were taken,

    maximise Σ_{j∈S} (b_j + f_j·w) − |S|·log Σ_k exp(b_k + f_k·w) − |w|²/2τ².

``"bpr"`` (Rendle et al. 2009): every item of S should rank above every item k outside, drawn by
popularity π_k:

    maximise Σ_{j∈S} Σ_{k∉S} π_k·log σ(b_j − b_k + (f_j − f_k)·w) − |w|²/2τ².

Both are concave, and solved by Newton's steps in as many numbers as there are features.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.factorization.arrays import Floats, Integers

__all__ = ["averaged_row", "fitted_taste"]

_LEVERAGE = 0.99  # the most that a cell counts for in its own prediction
_STEPS, _SMALL, _LONGEST = 12, 1e-7, 8.0
_AGAINST = 100  # items outside, the most popular ones, that pairs are made with


def averaged_row(features: Floats, values: Floats, penalties: Floats, spread: float) -> Floats:
    """Return a person's row, averaged over penalties by how each did on its own cells.

    Parameters
    ----------
    features, values
        Of the person's own items.
    penalties
        A row for each choice.
    spread
        The variance that is expected to remain.
    """
    gram = features.T @ features + penalties[:, :, None] * np.eye(features.shape[1])
    inverse = np.linalg.inv(gram)
    rows = inverse @ (features.T @ values)
    if len(penalties) == 1:
        return np.asarray(rows[0])
    leverage = ((features @ inverse) * features).sum(axis=2)
    errors = (values - rows @ features.T) / (1.0 - np.minimum(leverage, _LEVERAGE))
    total = np.square(errors).sum(axis=1)
    shares = np.exp(-(total - total.min()) / (2.0 * spread))
    return np.asarray((shares / shares.sum()) @ rows)


def fitted_taste(base: Floats, features: Floats, seen: Integers, prior: float, how: str) -> Floats:
    """Return a person's taste w, by how it ranks what was taken.

    Parameters
    ----------
    base, features
        b and f of all items.
    seen
        S.
    prior
        τ².
    how
        ``"listwise"`` or ``"bpr"``.

    Examples
    --------
    >>> likes = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    >>> bool(fitted_taste(np.zeros(4), likes, np.array([0]), 1.0, "bpr")[0] > 0.2)
    True
    """
    width = features.shape[1]
    taste = np.zeros(width)
    known = np.flatnonzero(features.any(axis=1))
    taken = np.intersect1d(seen, known)
    if not len(taken) or not width:
        return taste
    if how == "listwise":
        known_base, known_features = base[known], features[known]
        total = features[taken].sum(axis=0)

        def slope(w: Floats) -> tuple[Floats, Floats]:
            raw = known_base + known_features @ w
            chances = np.exp(raw - raw.max())
            chances /= chances.sum()
            mean = chances @ known_features
            spread = (known_features * chances[:, None]).T @ known_features
            return total - len(taken) * mean, len(taken) * (spread - np.outer(mean, mean))

    else:
        others = np.setdiff1d(known, taken)
        others = others[np.argsort(-base[others], kind="stable")[:_AGAINST]]
        share = np.exp(base[others] - base[others].max()) if len(others) else np.zeros(0)
        share = share / max(float(share.sum()), 1e-300)
        gaps = (base[taken][:, None] - base[others]).ravel()
        apart = (features[taken][:, None] - features[others]).reshape(-1, width)
        counts = np.tile(share, len(taken))

        def slope(w: Floats) -> tuple[Floats, Floats]:
            wrong = 1.0 / (1.0 + np.exp(np.clip(gaps + apart @ w, -30.0, 30.0)))
            weight = counts * wrong * (1.0 - wrong)
            return (counts * wrong) @ apart, (apart * weight[:, None]).T @ apart

    return _newton(slope, taste, prior)


def _newton(slope: Any, taste: Floats, prior: float) -> Floats:
    """Return where a concave function and −|w|²/2τ² are largest, by damped steps."""
    for _ in range(_STEPS):
        first, second = slope(taste)
        step = np.linalg.solve(second + np.eye(len(taste)) / prior, first - taste / prior)
        length = float(np.sqrt(step @ step))
        taste = taste + step * min(1.0, 2.0 / max(length, 1e-300))
        if length < _SMALL:
            break
    return taste
