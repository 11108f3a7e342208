"""How well a chain of factor draws mixed, judged by what it predicts.

Factors may trade places, signs and sizes along a chain without any prediction changing; so
R-hat and effective draws are those of expected values at cells spread over every relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tacit._core.chains import effective_samples, r_hat
from tacit.factorization.alone.numerics.sums import Engine, estimates_at
from tacit.factorization.arrays import Arrays

__all__ = ["Mixing", "mixing_of"]

_PROBES = 100  # cells of each relation that are looked at
_FEWEST = 8  # draws below which nothing can be said
_SETTLED = 1.1  # R-hat up to which halves of a chain agree


class Mixing(NamedTuple):
    """What the halves of a chain say about its draws.

    Attributes
    ----------
    draws
        Draws kept.
    r_hat
        Rank-normalised split R-hat that at most a twentieth of the cells exceed.
    effective_draws
        Effective draws that at most a twentieth of the cells fall short of.
    cells
        How many cells were looked at.
    """

    draws: int
    r_hat: float
    effective_draws: float
    cells: int

    @property
    def settled(self) -> bool:
        """Whether the halves agree: an R-hat of at most 1.1."""
        return self.r_hat <= _SETTLED


def mixing_of(engine: Engine, draws: Sequence[Arrays]) -> Mixing:
    """Return how well draws of the factors mixed; of a handful of draws nothing is known."""
    if len(draws) < _FEWEST:
        return Mixing(len(draws), float("nan"), float("nan"), 0)
    ratios, sizes = [], []
    for name, found in engine.data.items():
        listed = found.indices[
            np.linspace(0, found.cells - 1, min(_PROBES, found.cells), dtype=int)
        ]
        if len(listed):
            chains = np.array([estimates_at(engine.model, name, one, listed) for one in draws])
            ratios += [r_hat(chain[None]) for chain in chains.T]
            sizes += [effective_samples(chain[None]) for chain in chains.T]
    if not ratios:
        return Mixing(len(draws), float("nan"), float("nan"), 0)
    worst, least = float(np.quantile(ratios, 0.95)), float(np.quantile(sizes, 0.05))
    return Mixing(len(draws), worst, min(least, float(len(draws))), len(ratios))
