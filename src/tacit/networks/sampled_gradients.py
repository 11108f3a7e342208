"""Sums of clipped per-example gradients of any module whose layers have them.

`tacit.networks.traced_gradients` gives every example's own gradient g of stacks of linear and
convolutional layers, Opacus' hooks those of other modules (n × size numbers, so physical batches
stay small). Norms are added up in float64. Each gradient is scaled by the factor of
`tacit.mechanisms.clipping.factors_for`, which leaves room for the rounding of norm and product,
rounded to the mechanism's grid, and added up as int64, all in compiled kernels that read the
gradients where torch left them: the sum is exact in any order and one example moves it by its own
rounded contribution. A contribution has the norm min(‖g‖, clip) before it is rounded, and rounding
adds what `GridMechanism` counts; layers with clips of their own add up as √Σ clip² (PRIVACY B6:
one joint Gaussian). An example with a number that is not finite, or whose squares overflow, counts
as nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tacit._core.kernels import square_norms
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.mechanisms.clipping import factors_for
from tacit.mechanisms.grid import Grid, GridSum
from tacit.networks.backend import nn, torch
from tacit.networks.layers import check_clips, learning_layers, made_up, padded, quiet_dropout
from tacit.networks.traced_gradients import is_traceable, layer_gradients, trace
from tacit.networks.weights import learned

__all__ = ["SampledSums", "check_gradients"]


def check_gradients(module: nn.Module, shape: Sequence[int], dtype: Any) -> None:
    """Raise unless the gradients of made-up examples are those of each example alone.

    A layer that takes its batch along another axis, such as attention without ``batch_first``,
    gives gradients of positions where those of examples are wanted, and nothing else would show.
    """
    probe = made_up(shape, dtype, 3)
    weights = generator(0, "probe outputs").standard_normal(module(probe).shape[1:])

    def loss(outputs: Any, targets: Any) -> Any:
        return (outputs * torch.as_tensor(weights).to(outputs)).flatten(1).sum(1)

    parameters = learned(module)
    with quiet_dropout(module):
        alone = [
            torch.autograd.grad(loss(module(x[None]), None).sum(), parameters, allow_unused=True)
            for x in probe
        ]
    sums = SampledSums(module, loss, [1e6], Grid(-30), len(probe))
    try:
        with quiet_dropout(module):
            for k, gradients in enumerate(alone):
                sums.add(probe[: k + 1], probe[: k + 1])
                together = sums.result().value()
                sums.add(probe[:k], probe[:k])
                moved = together - sums.result().value()
                wanted = _joined(gradients, parameters)
                if np.abs(moved - wanted).max() > 1e-3 * (1.0 + np.abs(wanted).max()):
                    raise ParameterError(
                        "per-example gradients of the module are wrong: every layer must take "
                        "the batch along its first axis (batch_first=True)"
                    )
    except (ValueError, RuntimeError) as error:
        raise ParameterError(f"the module has no per-example gradients: {error}") from None
    finally:
        sums.close()


def _joined(gradients: Sequence[Any], parameters: Sequence[Any]) -> Any:
    """Return gradients as one flat array; what is not used has none."""
    parts = [
        np.zeros(p.numel()) if g is None else g.detach().cpu().numpy().reshape(-1)
        for g, p in zip(gradients, parameters, strict=True)
    ]
    return np.concatenate(parts)


class _Traced:
    """Per-example gradients of stacks of linear and convolutional layers: `traced_gradients`."""

    def __init__(self, module: nn.Module, loss: Any, parameters: Sequence[Any]) -> None:
        self._module, self._loss, self._parameters = module, loss, parameters
        self._layers = list(learning_layers(module).values())

    def __call__(self, inputs: Any, targets: Any) -> list[Any]:
        """Return every parameter's gradients, (batch, numbers)."""
        seen, slopes = trace(self._module, self._layers, self._loss, inputs, targets)
        found: dict[int, Any] = {}
        for layer, given, slope in zip(self._layers, seen, slopes, strict=True):
            for name, rows in layer_gradients(layer, given, slope).items():
                found[id(getattr(layer, name))] = rows.cpu().numpy()
        return [found[id(p)] for p in self._parameters]

    def close(self) -> None:
        """Nothing to undo."""


class _Hooked:
    """Per-example gradients of all other modules, by Opacus' hooks."""

    def __init__(self, module: nn.Module, loss: Any, parameters: Sequence[Any]) -> None:
        from opacus.grad_sample import GradSampleModule

        self._loss, self._parameters = loss, parameters
        self._wrapped = GradSampleModule(module, batch_first=True, loss_reduction="sum")

    def __call__(self, inputs: Any, targets: Any) -> list[Any]:
        """Return every parameter's gradients, (batch, numbers)."""
        size = len(inputs)
        with warnings.catch_warnings():
            # inputs need no gradient, and torch says so at every backward hook
            warnings.filterwarnings("ignore", message="Full backward hook is firing")
            self._loss(self._wrapped(inputs), targets).sum().backward()
        found = [
            np.zeros((size, p.numel()), np.float32)
            if p.grad_sample is None
            else p.grad_sample.detach().cpu().numpy().reshape(size, -1)
            for p in self._parameters
        ]
        self._wrapped.zero_grad(set_to_none=True)
        return found

    def close(self) -> None:
        """Take the hooks off the module again."""
        self._wrapped.to_standard_module()


class SampledSums:
    """Sums of clipped gradients of any module whose layers have per-example gradients.

    Parameters
    ----------
    module
        The network; see `tacit.networks.layers.check_supported`.
    loss
        (outputs, targets) → one loss per example.
    clips
        The norm of every layer's gradient (of layers that hold parameters, in the order of the
        module), or one norm of the whole gradient.
    grid
        The grid of the mechanism that releases the sum.
    examples_in_memory
        How many examples are computed at once; the last batch is padded to it.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[Any, Any], Any],
        clips: Sequence[float],
        grid: Grid,
        examples_in_memory: int,
    ) -> None:
        layers = list(learning_layers(module).values())
        check_clips(clips, len(layers))
        self._grid, self._clips, self._examples_in_memory = grid, clips, examples_in_memory
        self.parameters = learned(module)
        place = {id(p): k for k, layer in enumerate(layers) for p in layer.parameters(False)}
        self._groups = [
            [j for j, p in enumerate(self.parameters) if len(clips) == 1 or place[id(p)] == k]
            for k in range(len(clips))
        ]
        kind = _Traced if is_traceable(module) else _Hooked
        self._gradients: _Traced | _Hooked = kind(module, loss, self.parameters)
        self.reset()

    def reset(self) -> None:
        """Start a new sum."""
        self._total: GridSum | None = None

    def close(self) -> None:
        """Leave the module as it was."""
        self._gradients.close()

    def add(self, inputs: Any, targets: Any) -> None:
        """Add the clipped gradients of some examples."""
        for start in range(0, len(inputs), self._examples_in_memory):
            part = slice(start, start + self._examples_in_memory)
            new = self._batch(inputs[part], targets[part])
            self._total = new if self._total is None else self._total + new

    def _batch(self, inputs: Any, targets: Any) -> GridSum:
        """Return the sum over one physical batch."""
        count, size = len(inputs), self._examples_in_memory
        inputs, targets = padded(inputs, targets, size)
        found = [np.ascontiguousarray(rows[:count]) for rows in self._gradients(inputs, targets)]
        sums = [np.zeros(0, np.int64)] * len(found)
        for group, clip in zip(self._groups, self._clips, strict=True):
            squares = np.zeros(count)
            for j in group:
                square_norms(found[j], squares)
            factors = factors_for(np.sqrt(squares), clip, sum(found[j].shape[1] for j in group))
            for j in group:
                sums[j] = self._grid.sum(found[j], factors).integers
        return GridSum(np.concatenate(sums), self._grid)

    def result(self) -> GridSum:
        """Return the sum, and start anew."""
        size = sum(p.numel() for p in self.parameters)
        total = self._total or GridSum(np.zeros(size, np.int64), self._grid)
        self.reset()
        return total
