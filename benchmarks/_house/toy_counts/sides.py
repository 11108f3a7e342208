"""A site's side: rows are counted."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.estimators.shards import Holder

__all__ = ["Counting"]


class Counting(Holder):
    """A site with the category of each of its rows."""

    def contribute(self, step: Any, asked: Any, kept: Any, shard: Any, picks: Any) -> Any:
        """Return how many rows each category has."""
        return np.bincount(shard, minlength=len(self.agreement.categories)).astype(np.int64)

    def units(self, shard: Any) -> int:
        """Return the number of rows."""
        return len(shard)
