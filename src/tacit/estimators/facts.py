"""`Facts`: what is public about a task that is planned, before there is any data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.check import Integer, Real, check
from tacit.errors import ParameterError
from tacit.privacy.guarantee import Privacy

__all__ = ["Facts"]


@dataclass(frozen=True)
class Facts:
    """What is public about a task.

    Parameters
    ----------
    rows
        Rows, members or documents, of all sites together.
    sites
        Over how many sites they are spread.
    epsilon, delta
        The guarantee, per site.
    features
        Features of a regression, items of a factorization, words of a vocabulary.
    rank
        Of a factorization; topics.
    per_row
        Ratings per member, words per document.
    """

    rows: int = 2000
    sites: int = 1
    epsilon: float = 1.0
    delta: float = 1e-6
    features: int = 5
    rank: int = 3
    per_row: int = 10

    def __post_init__(self) -> None:
        for name in ("rows", "sites", "features", "rank", "per_row"):
            check(name, getattr(self, name), Integer(1))
        check("epsilon", self.epsilon, Real(0, open_low=True))
        check("delta", self.delta, Real(0, 1, open_high=True))
        if self.rows < self.sites:
            raise ParameterError(f"rows must be at least the number of sites, {self.sites}")

    def request(self, unit: str, trust: str | None = None) -> Privacy:
        """Return the guarantee that is planned for."""
        where = trust or ("site" if self.sites > 1 else "central")
        return Privacy(self.epsilon, self.delta, unit=unit, trust=where)

    def split(self, *arrays: Any) -> list[tuple[Any, ...]]:
        """Return the rows of every site."""
        parts = [np.array_split(array, self.sites) for array in arrays]
        return list(zip(*parts, strict=True))
