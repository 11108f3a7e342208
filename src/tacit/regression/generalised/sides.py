"""A site's side of a generalised linear model: sums of products once, then gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.estimators.agreement import Asked, Step
from tacit.estimators.shards import Holder, Kept, Picks
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum
from tacit.regression.generalised.agreement import GeneralisedAgreement
from tacit.regression.generalised.gradients import gradient_sum
from tacit.regression.generalised.rows import SiteRows
from tacit.regression.outer import ExactSum

__all__ = ["Rows"]


class Rows(Holder):
    """A site with its rows."""

    agreement: GeneralisedAgreement

    def contribute(
        self, step: Step, asked: Asked, kept: Kept, shard: SiteRows, picks: Picks
    ) -> ExactSum | GridSum:
        """Return the exact sum of products, or that of gradients."""
        if step.name == "moments":
            return shard.total
        public, given, noise = self.agreement, asked.arrays, step.mechanism
        assert isinstance(noise, Gaussian)
        return gradient_sum(
            shard.seen(given["frame"]),
            given["coefficients"],
            float(given["residual"][0]) if "residual" in given else 1.0,
            public.link,
            public.top,
            noise.grid,
        )

    def completed(self, step: Step, asked: Asked, value: Any) -> GridSum:
        """Return what is drawn upon, on the mechanism's grid."""
        public = self.agreement
        if step.name == "moments":
            return public.design.vector(value, public.moments_noise)
        assert isinstance(value, GridSum)
        return value

    def units(self, shard: SiteRows) -> int:
        """Return the number of rows."""
        return shard.count

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the noisy sum, and the number of rows where it is public."""
        if step.name == "moments" and self.agreement.design.knows_rows:
            rows = sum(count for _, count in self.sizes)
            return {"sum": released, "rows": np.array([rows], np.int64)}
        return {"sum": released}
