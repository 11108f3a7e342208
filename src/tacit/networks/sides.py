"""A site's side of training: clipped gradients of the sampled rows at the weights it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.estimators.agreement import Asked, Step
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder
from tacit.mechanisms.grid import GridSum
from tacit.networks.agreement import STEP, Examples, NetworkAgreement
from tacit.networks.backend import torch
from tacit.networks.exact_gradients import LinearSums
from tacit.networks.layers import is_linear_stack
from tacit.networks.sampled_gradients import SampledSums
from tacit.networks.weights import learned, write_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Learner"]


class Learner(Holder):
    """A site with its examples and a network of its own, whose weights every request sets."""

    agreement: NetworkAgreement

    def __init__(self, agreement: NetworkAgreement, name: str, data: Examples, gate: Gate) -> None:
        super().__init__(agreement, name, [data], gate)
        module = agreement.build().to(data.device)
        self._parameters = learned(module)
        inner, numbers = agreement.mechanism.mechanism, agreement.dynamics
        # what rounding may add is taken off every clip in proportion
        clips = [clip * (inner.sensitivity / numbers.norm) for clip in numbers.clips]
        linear = is_linear_stack(module)
        # per-example gradients, where they exist, fill 128 MB at most
        fitting = 512 if linear else max(8, min(512, (1 << 25) // agreement.size))
        self._batch = agreement.examples_in_memory or fitting
        kind = LinearSums if linear else SampledSums
        self._sums: LinearSums | SampledSums = kind(
            module, agreement.loss, clips, inner.grid, self._batch
        )

    def contribute(
        self,
        step: Step,
        asked: Asked,
        kept: Mapping[str, Any],
        shard: Examples,
        picks: NDArray[np.int64],
    ) -> GridSum:
        """Return the sum of the clipped gradients of the sampled rows."""
        write_weights(self._parameters, asked.arrays["weights"])
        self._sums.reset()
        for start in range(0, len(picks), self._batch):
            part = torch.from_numpy(picks[start : start + self._batch])
            inputs, targets = shard.inputs[part], shard.targets[part]
            self._sums.add(inputs.to(shard.device), targets.to(shard.device))
        return self._sums.result()

    def units(self, shard: Examples) -> int:
        """Return the number of rows."""
        return len(shard.inputs)

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the sum, which was drawn."""
        value = released.value() if isinstance(released, GridSum) else released
        return {"sum": value, "drawn": np.ones(1, np.int64)}

    def _answer(self, step: Step, asked: Asked, position: int) -> dict[str, NDArray[Any]]:
        if self.gate.is_lost(STEP, position):
            nothing = {"sum": np.zeros(self.agreement.size), "drawn": np.zeros(1, np.int64)}
            return self._checked(step, asked, nothing)
        return super()._answer(step, asked, position)
