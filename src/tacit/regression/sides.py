"""A site's side of a regression: the exact sum of its rows' outer products, once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.estimators.agreement import Asked, Step
from tacit.estimators.shards import Holder, Kept, Picks
from tacit.mechanisms.grid import GridSum
from tacit.regression.agreement import RegressionAgreement
from tacit.regression.outer import ExactSum
from tacit.regression.rows import SiteSum

__all__ = ["Rows"]


class Rows(Holder):
    """A site with the sum of its rows, each of which was clipped and rounded by itself."""

    agreement: RegressionAgreement

    def contribute(
        self, step: Step, asked: Asked, kept: Kept, shard: SiteSum, picks: Picks
    ) -> ExactSum:
        """Return the exact sum of outer products."""
        return shard.total

    def completed(self, step: Step, asked: Asked, value: ExactSum) -> GridSum:
        """Return the entries that are released on the mechanism's grid: rounded once, in all."""
        return self.agreement.design.vector(value, self.agreement.mechanism)

    def units(self, shard: SiteSum) -> int:
        """Return the number of rows."""
        return int(shard.count)

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the noisy sum, and the number of rows where it is public."""
        design = self.agreement.design
        if not design.knows_rows:
            return {"vector": released}
        rows = sum(design.counted(count) for _, count in self.sizes)
        return {"vector": released, "rows": np.array([rows], np.int64)}
