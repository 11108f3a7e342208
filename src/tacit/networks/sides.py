"""A site's side of training: clipped gradients of the sampled rows at the weights it is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tacit.errors import ParameterError
from tacit.estimators.agreement import Asked, Step
from tacit.estimators.executors import Loaded, shards_of
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.mechanisms.grid import GridSum
from tacit.networks.agreement import CONFIDENCE, Examples, NetworkAgreement
from tacit.networks.backend import nn, torch
from tacit.networks.confidence import NORM
from tacit.networks.crew import threads_for
from tacit.networks.dynamics import Dynamics
from tacit.networks.exact_gradients import LinearSums
from tacit.networks.judging import Judge
from tacit.networks.layers import is_flat, is_linear_stack
from tacit.networks.sampled_gradients import SampledSums
from tacit.networks.weights import learned, write_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Learner", "rows_of"]

_BUILT = ("_parameters", "_batch", "_sums", "_judge")


class Learner(Holder):
    """A site with its examples and a network of its own, whose weights every request sets."""

    agreement: NetworkAgreement

    def __init__(
        self, agreement: NetworkAgreement, name: str, data: Examples | Loaded, gate: Gate
    ) -> None:
        super().__init__(agreement, name, shards_of(data), gate)
        for shard in self.shards:
            self.ready(shard)

    def hand(self) -> Self:
        """Return what contributes elsewhere; nobody watches there."""
        made = super().hand()
        made.agreement = replace(self.agreement, watch=None, follow=None)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels: a network is built where it is needed."""
        return {name: part for name, part in vars(self).items() if name not in _BUILT}

    def ready(self, shard: Examples) -> None:
        """Build the network, and try it on a row."""
        if "_sums" not in vars(self):
            self._build(shard)

    def _build(self, data: Examples) -> None:
        agreement = self.agreement
        module = agreement.build().to(data.device)
        self._parameters = learned(module)
        inner, numbers = agreement.mechanism.mechanism, agreement.dynamics
        share, most = _share(inner.sensitivity, numbers.row_norm, numbers), numbers.largest_weight
        caps = [most * unit for unit in numbers.units]
        clips = [clip * cap * share for clip, cap in zip(numbers.clips, caps, strict=True)]
        linear = is_linear_stack(module) and is_flat(module, data.inputs.shape[1:])
        # a loop over positions has a price for each call, however many rows are in it, and others
        # are fastest where a tile fits a cache; per-example gradients fill 128 MB at most
        loops = any(isinstance(layer, nn.RNNBase) for layer in module.modules())
        most = 512 if linear or loops else 256
        fitting = most if linear else max(16, min(most, (1 << 25) // agreement.size // 16 * 16))
        self._batch = agreement.examples_in_memory or fitting
        kind = LinearSums if linear else SampledSums
        self._sums: LinearSums | SampledSums = kind(
            module, agreement.loss, clips, inner.grid, self._batch, caps
        )
        with threads_for(self._batch * agreement.size):
            one = data.inputs[:1].to(data.device), data.targets[:1].to(data.device)
            self._sums.prepare(*one, agreement.found)
            if numbers.judged_rate:
                self._build_judge(data)

    def _build_judge(self, data: Examples) -> None:
        inner = self.agreement.judging.mechanism
        self._judge = Judge(
            self.agreement.build().to(data.device),
            _share(inner.sensitivity, NORM, self.agreement.dynamics),
            inner.grid,
            self._batch,
        )
        self._judge.prepare(data.inputs.shape[1:], data.inputs.dtype, data.targets.dtype)

    def contribute(
        self,
        step: Step,
        asked: Asked,
        kept: Mapping[str, Any],
        shard: Examples,
        picks: NDArray[np.int64],
    ) -> GridSum:
        """Return the sum of the clipped gradients of the sampled rows, or of what they say."""
        self.ready(shard)
        picked = picks if shard.starts is None else rows_of(shard.starts, picks)
        rows = torch.from_numpy(picked)
        with threads_for(self._batch * self.agreement.size):
            if step.name == CONFIDENCE:
                self._judge.ask(asked.arrays["weights"])
                return self._judge.sum(
                    shard.inputs[rows].to(shard.device), shard.targets[rows].to(shard.device)
                )
            return self._gradients(asked, shard, rows)

    def _gradients(self, asked: Asked, shard: Examples, rows: Any) -> GridSum:
        write_weights(self._parameters, asked.arrays["weights"])
        self._sums.reset()
        most = self.agreement.dynamics.largest_weight

        def load(part: Any) -> tuple[Any, Any, Any]:
            counts = np.ones(len(part)) if shard.weights is None else shard.weights[part.numpy()]
            inputs, targets = shard.inputs[part], shard.targets[part]
            return inputs.to(shard.device), targets.to(shard.device), counts / most

        parts = rows.split(self._sums.fitting) if len(rows) else ()
        self._sums.add_parts(parts, load)
        return self._sums.exact()

    def completed(self, step: Step, asked: Asked, value: GridSum) -> GridSum:
        """Return the sum on the mechanism's grid: rounded once, however many shards there are."""
        return value.onto(self._drawn(step).grid)

    def _drawn(self, step: Step) -> Any:
        """Return the noise of a step."""
        judged = step.name == CONFIDENCE
        return (self.agreement.judging if judged else self.agreement.mechanism).mechanism

    def units(self, shard: Examples) -> int:
        """Return the number of rows, or of people where several rows of each count."""
        return len(shard.inputs) if shard.starts is None else len(shard.starts) - 1

    def sends(self, step: Step, asked: Asked, released: Any) -> dict[str, Any]:
        """Return the sum, which was drawn."""
        value = released.value() if isinstance(released, GridSum) else released
        return {"sum": value, "drawn": np.ones(1, np.int64)}

    def _answer(self, step: Step, asked: Asked, position: int) -> dict[str, NDArray[Any]]:
        if self.gate.is_lost(step.name, position):
            nothing = {"sum": self._nothing(step), "drawn": np.zeros(1, np.int64)}
            return self._checked(step, asked, nothing)
        return super()._answer(step, asked, position)

    def _nothing(self, step: Step) -> NDArray[np.float64]:
        """Return a sum over no rows, with this site's share of the noise where others need it."""
        inner = self._drawn(step)
        if not isinstance(inner, GaussianShare):
            return np.zeros(inner.shape)
        return inner.unasked(self.gate.noise)


def rows_of(starts: NDArray[np.int64], people: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all rows of some people, given where each person's rows begin.

    >>> rows_of(np.array([0, 2, 3, 6]), np.array([0, 2])).tolist()
    [0, 1, 3, 4, 5]
    """
    first, counts = starts[people], np.diff(starts)[people]
    ends = np.cumsum(counts)
    within = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    return np.asarray(np.repeat(first, counts) + within, np.int64)


def _share(sensitivity: float, norm: float, numbers: Dynamics) -> float:
    """Return the share of every clip that is left for a row's part before it is rounded.

    A mechanism for the norm k·c of rows of norm c keeps ``sensitivity`` = k·c − G for the sum,
    where G is what rounding once may add. k rows that are rounded one by one may add k·G, so that
    each may have c − G = sensitivity − (k − 1)·c, which is the sensitivity itself where k is one.
    """
    room = sensitivity - (numbers.rows_per_unit - 1) * norm
    if room < 0.5 * norm:
        raise ParameterError(
            f"{numbers.rows_per_unit} rows of a person are too many for the grid of this noise: "
            "pass a smaller rows_per_person, or a smaller network"
        )
    exact = 1.0 if numbers.rows_per_unit == 1 else 1.0 - 2.0**-40
    return exact * room / norm
