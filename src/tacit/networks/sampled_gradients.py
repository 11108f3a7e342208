"""Sums of clipped per-example gradients of any module.

`tacit.networks.single_rows` gives every example's own gradient g, as a function of that example
alone and in tiles in which its bits do not depend on its place (`tacit.networks.tiles`). Norms
are added up in float64. Each gradient is scaled by the factor of
`tacit.mechanisms.clipping.factors_for`, which leaves room for the rounding of norm and product,
rounded to the mechanism's grid, and added up as int64, all in compiled kernels that read the
gradients where torch left them: the sum is exact in any order and one example moves it by its own
rounded contribution. A contribution has the norm min(‖g‖, clip) before it is rounded, and rounding
adds what `GridMechanism` counts; layers with clips of their own add up as √Σ clip² (PRIVACY B6:
one joint Gaussian). An example with a number that is not finite, or whose squares overflow, counts
as nothing, and so does one at which a module raises an error, which nobody is told: the others of
its tile are then computed one by one, each in all slots of a tile of its own, which gives them the
same bits. What an example counts, over the most that any does, multiplies that factor, with room
for the rounding of the two products. Of a table that examples look up, only the rows that an
example looked up are rounded: the others are zero.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.kernels import square_norms
from tacit.mechanisms.clipping import factors_for
from tacit.mechanisms.grid import Grid, GridSum
from tacit.networks.backend import nn, torch
from tacit.networks.exact_gradients import weights_of
from tacit.networks.layers import check_clips, learning_layers
from tacit.networks.recording import Sparse
from tacit.networks.single_rows import row_gradients
from tacit.networks.tiles import Tiles
from tacit.networks.weights import learned

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SampledSums"]


_PRODUCTS = 1.0 - 2.0**-50  # of a norm, a cap and a count: two roundings


class SampledSums:
    """Sums of clipped gradients of any module that is a function of one row.

    Parameters
    ----------
    module
        The network; see `tacit.networks.layers.check_supported`. Its weights are read at each
        call, and nothing in it changes.
    loss
        (outputs, targets) → one loss per example.
    clips
        The norm of every layer's gradient (of layers that hold parameters, in the order of the
        module), or one norm of the whole gradient.
    grid
        The grid of the mechanism that releases the sum.
    examples_in_memory
        How many examples are computed at once, at most.
    caps
        What a gradient below its clip is multiplied by; one unless given.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Callable[[Any, Any], Any],
        clips: Sequence[float],
        grid: Grid,
        examples_in_memory: int,
        caps: Sequence[float] | None = None,
    ) -> None:
        self._caps = [1.0] * len(clips) if caps is None else list(caps)
        layers = list(learning_layers(module).values())
        check_clips(clips, len(layers))
        self._module, self._loss = module, loss
        self._grid, self._clips, self._examples_in_memory = grid, clips, examples_in_memory
        self.parameters = learned(module)
        place: dict[int, int] = {}
        for k, layer in enumerate(layers):
            for p in layer.parameters(False):
                place.setdefault(id(p), k)
        self._groups = [
            [j for j, p in enumerate(self.parameters) if len(clips) == 1 or place[id(p)] == k]
            for k in range(len(clips))
        ]
        self._gradients: Callable[[Any, Any], list[Any]] | None = None
        self._tiles: Tiles | None = None
        self.reset()

    def prepare(self, inputs: Any, targets: Any, found: dict[Hashable, Any] | None = None) -> None:
        """Find the way to the gradients of such examples; only their kind and shape are read.

        Raise what is wrong with the module. ``found`` keeps what was, for copies of it.
        """
        blank = torch.zeros_like(targets[:1])
        if not len(blank):
            blank = targets.new_zeros((1, *targets.shape[1:]))
        self._gradients, self._tiles = row_gradients(
            self._module,
            self._loss,
            inputs.shape[1:],
            inputs.dtype,
            blank,
            self._examples_in_memory,
            {} if found is None else found,
        )

    @property
    def fitting(self) -> int:
        """How many examples fill one tile."""
        return self._examples_in_memory if self._tiles is None else len(self._tiles.slots)

    def reset(self) -> None:
        """Start a new sum."""
        self._total = [np.zeros(p.numel(), np.int64) for p in self.parameters]

    def add(self, inputs: Any, targets: Any, weights: Any = None) -> None:
        """Add the clipped gradients of some examples, times what each counts, in [0, 1]."""
        if self._gradients is None:
            self.prepare(inputs, targets)
        assert self._gradients is not None and self._tiles is not None
        counts = weights_of(weights, len(inputs))
        for rows, answers, count, used in self._tiles.of(inputs, targets, counts):
            try:
                found = self._gradients(rows, answers)
            except Exception:
                self._add_rows(rows, answers, count.numpy(), np.flatnonzero(used))
                continue
            self._add_tile(found, count.numpy())

    def _add_rows(self, inputs: Any, targets: Any, counts: Any, used: Any) -> None:
        """Add rows of a tile one by one; those that a module raises at count as nothing.

        A tile of one row in every slot gives the row the bits that it has beside others.
        """
        assert self._gradients is not None
        size = len(inputs)
        for k in used:
            row, answer = inputs[k : k + 1], targets[k : k + 1]
            alone = np.zeros(size)
            alone[k] = counts[k]
            try:
                found = self._gradients(
                    row.repeat(size, *[1] * (row.dim() - 1)),
                    answer.repeat(size, *[1] * (answer.dim() - 1)),
                )
            except Exception:
                continue
            self._add_tile(found, alone)

    def add_parts(self, parts: Sequence[Any], load: Callable[[Any], tuple[Any, Any, Any]]) -> None:
        """Add the clipped gradients of the examples that ``load`` makes of every part.

        These are their inputs, targets and what each counts. A module may be a caller's own code:
        one part after the other.
        """
        for part in parts:
            self.add(*load(part))

    def _add_tile(self, found: Sequence[Any], counts: NDArray[np.float64]) -> None:
        rows = [_array(part.values if isinstance(part, Sparse) else part) for part in found]
        for group, clip, cap in zip(self._groups, self._clips, self._caps, strict=True):
            squares = np.zeros(len(counts))
            for j in group:
                square_norms(rows[j], squares)
            size = sum(rows[j].shape[1] for j in group)
            factors = factors_for(np.sqrt(squares) * cap, clip * _PRODUCTS, size) * cap * counts
            for j in group:
                part = found[j]
                if isinstance(part, Sparse):
                    self._look_up(self._total[j], part, rows[j], factors)
                else:
                    self._total[j] += self._grid.sum(rows[j], factors).integers

    def _look_up(self, total: Any, part: Sparse, rows: Any, factors: Any) -> None:
        """Add gradients of looked up rows of a table to the whole of it."""
        width = part.values.shape[-1]
        kept = np.flatnonzero(factors)
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = rows[kept].astype(np.float64) * factors[kept, None]
        steps = self._grid.round(scaled).reshape(-1, width)
        places = part.places.cpu().numpy()[kept].reshape(-1)
        whole = torch.from_numpy(total.reshape(-1, width))
        whole.index_add_(0, torch.from_numpy(places), torch.from_numpy(steps))

    def exact(self) -> GridSum:
        """Return the sum, and start anew: every row was rounded by itself."""
        return self.result()

    def result(self) -> GridSum:
        """Return the sum, and start anew."""
        total = np.concatenate(self._total) if self._total else np.zeros(0, np.int64)
        self.reset()
        return GridSum(total, self._grid)


def _array(part: Any) -> NDArray[Any]:
    return np.ascontiguousarray(part.flatten(1).cpu().numpy())
