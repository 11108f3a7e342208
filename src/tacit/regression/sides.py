"""A site's side of a regression: the exact sum of its rows' outer products, once."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.estimators.agreement import Asked, Step
from tacit.estimators.shards import Holder, Kept, Picks
from tacit.regression.agreement import RegressionAgreement
from tacit.regression.found import FindingAgreement, RawRows
from tacit.regression.rows import SiteSum, summarise

__all__ = ["Rows", "RowsToMap"]


class Rows(Holder):
    """A site with the sum of its rows, each of which was clipped and rounded by itself."""

    agreement: RegressionAgreement

    def contribute(self, step: Step, asked: Asked, kept: Kept, shard: Any, picks: Picks) -> Any:
        """Return the exact sum of outer products."""
        assert isinstance(shard, SiteSum)
        return shard.total

    def completed(self, step: Step, asked: Asked, value: Any) -> Any:
        """Return the entries that are released on the mechanism's grid: rounded once, in all."""
        return self.agreement.design.vector(value, self.agreement.mechanism)

    def units(self, shard: Any) -> int:
        """Return the number of rows."""
        return int(shard.count)

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the noisy sum, and the number of rows where it is public."""
        design = self.agreement.design
        if not design.knows_rows:
            return {"vector": released}
        rows = sum(design.counted(count) for _, count in self.sizes)
        return {"vector": released, "rows": np.array([rows], np.int64)}


class RowsToMap(Rows):
    """A site with rows whose ranges it is told when the sums are asked for."""

    agreement: FindingAgreement

    def contribute(self, step: Step, asked: Asked, kept: Kept, shard: Any, picks: Picks) -> Any:
        """Return a column on the log scale, or the exact sum of rows with the asked ranges."""
        public = self.agreement
        assert isinstance(shard, RawRows)
        if step.name == "rows":
            design = public.of_ranges(asked["middle"], asked["half"])
            return summarise(tuple(shard), design, checked=False).total
        place = [one.name for one in public.steps].index(step.name)
        column = shard.y if place == shard.x.shape[1] else shard.x[:, place]
        return public.search.to_log(column)

    def completed(self, step: Step, asked: Asked, value: Any) -> Any:
        """Return the sums on the mechanism's grid, and a column's numbers as they are."""
        return super().completed(step, asked, value) if step.name == "rows" else value

    def units(self, shard: Any) -> int:
        """Return the number of rows."""
        return len(shard.y)

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the quantiles, or what `Rows` sends."""
        return super().sends(step, asked, released) if step.name == "rows" else {"ends": released}
