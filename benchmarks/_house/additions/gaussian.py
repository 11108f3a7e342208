"""Counts with Gaussian noise: less of it than geometric noise where there are many categories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tacit.estimators.agreement import Step
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum
from tacit.rounds.messages import ArraySpec

from .agreement import CountsAgreement
from .sides import Counting

__all__ = ["GaussianCounts"]


@dataclass(frozen=True)
class GaussianCounts(CountsAgreement):
    """One noisy count per category; replacing a row moves two counts by 1, √2 in L2."""

    @cached_property
    def mechanism(self) -> Gaussian:
        """Gaussian noise on all counts."""
        privacy, reach = self.privacy, math.sqrt(1 + self.replaces)
        shape = (len(self.categories),)
        if privacy is None:
            return Gaussian(0.0, reach, shape)
        return Gaussian.for_privacy(
            privacy.epsilon, privacy.delta, reach, shape, neighbours=str(privacy.neighbours)
        )

    def _steps(self) -> tuple[Step, ...]:
        exponent = self.mechanism.grid.exponent
        replies = {"counts": ArraySpec(self.mechanism.shape, exponent=exponent)}
        return (Step("counts", self.mechanism, replies=replies),)

    def holder(self, name: str, data: Any, gate: Any, seed: int | None) -> Counting:
        """Return a site whose counts lie on the grid."""
        return OnGrid(self, name, [data], gate)


class OnGrid(Counting):
    """Rows that are counted on the mechanism's grid."""

    def contribute(self, step: Any, asked: Any, kept: Any, shard: Any, picks: Any) -> GridSum:
        """Return the counts as whole numbers of grid steps."""
        counts = super().contribute(step, asked, kept, shard, picks)
        grid = self.agreement.mechanism.grid
        return GridSum(counts * int(grid.round(1.0)), grid)

    def sends(self, step: Any, asked: Any, released: Any) -> dict[str, Any]:
        """Return the noisy counts."""
        value = released.value() if isinstance(released, GridSum) else released
        return {"counts": np.asarray(value)}
