"""Sums of clipped per-example gradients of any module that Opacus has gradients for.

Opacus' hooks give every example's own gradient g (n × size numbers, so physical batches stay
small). Each is scaled by the factor of `tacit.mechanisms.clipping.clip_factors`, which leaves room
for the rounding of norm and product, rounded to the mechanism's grid, and added up as int64: the
sum is exact in any order and one example moves it by its own rounded contribution. A contribution
has the norm min(‖g‖, clip) before it is rounded, and rounding adds what `GridMechanism` counts;
layers with clips of their own add up as √Σ clip² (PRIVACY B6: one joint Gaussian).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch import nn

from tacit.errors import ParameterError
from tacit.mechanisms.clipping import clip_factors
from tacit.mechanisms.grid import Grid, GridSum
from tacit.nn.layers import learning_layers

__all__ = ["SampledSums"]


class SampledSums:
    """Sums of clipped gradients by Opacus' hooks.

    Parameters
    ----------
    module
        The network; see `tacit.nn.layers.check_supported`.
    loss
        (outputs, targets) → one loss per example.
    clips
        The norm of every layer's gradient (of layers that hold parameters, in the order of the
        module), or one norm of the whole gradient.
    grid
        The grid of the mechanism that releases the sum.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[Any, Any], Any],
        clips: Sequence[float],
        grid: Grid,
    ) -> None:
        from opacus.grad_sample import GradSampleModule

        layers = list(learning_layers(module).values())
        if len(clips) not in (1, len(layers)):
            raise ParameterError(
                f"clip must be one number or one for each of {len(layers)} layers, got "
                f"{len(clips)}"
            )
        self._loss, self._grid, self._clips = loss, grid, clips
        self._parameters = [p for p in module.parameters() if p.requires_grad]
        place = {id(p): k for k, layer in enumerate(layers) for p in layer.parameters(False)}
        self._groups = [
            [j for j, p in enumerate(self._parameters) if len(clips) == 1 or place[id(p)] == k]
            for k in range(len(clips))
        ]
        self._wrapped = GradSampleModule(module, batch_first=True, loss_reduction="sum")
        self._total: GridSum | None = None

    def close(self) -> None:
        """Take the hooks off the module again."""
        self._wrapped.to_standard_module()

    def add(self, inputs: Any, targets: Any) -> None:
        """Add the clipped gradients of some examples."""
        if not len(inputs):
            return
        with warnings.catch_warnings():
            # inputs need no gradient, and torch says so at every backward hook
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            self._loss(self._wrapped(inputs), targets).sum().backward()
        found = [
            np.asarray(p.grad_sample.detach().cpu().numpy(), np.float64).reshape(len(inputs), -1)
            for p in self._parameters
        ]
        self._wrapped.zero_grad(set_to_none=True)
        for group, clip in zip(self._groups, self._clips, strict=True):
            factors = clip_factors(np.concatenate([found[j] for j in group], axis=1), clip)
            for j in group:
                found[j] *= factors[:, None]
                found[j][factors == 0.0] = 0.0  # also where a number is not finite
        new = self._grid.sum(np.concatenate(found, axis=1))
        self._total = new if self._total is None else self._total + new

    def result(self) -> GridSum:
        """Return the sum, and start anew."""
        size = sum(p.numel() for p in self._parameters)
        total = self._total or GridSum(np.zeros(size, np.int64), self._grid)
        self._total = None
        return total
