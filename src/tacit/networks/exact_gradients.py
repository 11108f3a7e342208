"""Exact sums of clipped per-example gradients of stacks of linear layers.

Layer l of an example i has the input a and the gradient b of the loss with respect to its output,
so the gradient of its weights and bias is the outer product b·(a, 1)ᵀ, whose norm is ‖b‖·‖(a, 1)‖:
norms need no per-example gradient ("ghost clipping"), and the sum over a batch is one matrix
product. Per-example gradients, n × (size of the network) numbers, never exist.

**On a lattice.** PRIVACY A5 asks that contributions are rounded before they are summed, because
floating-point sums have a larger sensitivity than real ones. As in `tacit.regression.outer`, not
the outer product but its two vectors are rounded, and everything after that is exact:

    â = (a, 1)/‖(a, 1)‖  rounded to multiples of 2⁻²¹,
    b̂ = w·‖(a, 1)‖·b     rounded to multiples of h = 2^(e − 21), where 2^(e−1) ≤ clip ≤ 2^e.

In steps these are whole numbers of at most 2²¹ (rounding up a full 2^e stays there), a product is
one of at most 2⁴², and float64 products of up to 2¹¹ rows, one added to the other, have partial
sums of at most 2⁵³: exact, in whatever order and with whatever fused operations. So they are added
up as float64 in as many threads as there are (`tacit.networks.crew`), and the sums of 2¹¹ rows as
int64. Rows of a tile behind the last that holds an example are zero, and are left out.

**The norm.** Rounding moves a number by at most half a step: ‖â‖ ≤ 1 + α with
α = 2⁻²²·√(inputs + 1), and ‖b̂‖ ≤ ‖w·‖(a, 1)‖·b‖ + β with β = ½·h·√outputs. A group of layers that
is clipped together then has, by the triangle inequality over its layers,

    ‖(b̂·âᵀ)_l‖ ≤ (1 + max α)·(limit·(1 + 2⁻³⁰) + √Σ β²) ≤ clip

for limit = clip/((1 + max α)(1 + 2⁻³⁰)²) − √Σ β². With w = min(limit/norm, cap)·u and u ≤ 1, which
is what a row counts over the most that any does, the same holds. The factors 1 + 2⁻³⁰ cover the
float64 errors of norms, factors and products (d parts in 2⁵² for norms of d < 2²⁰ numbers). The
groups' clips add up as √Σ clip²: one joint Gaussian (B6). An example with a number that is not
finite counts as nothing. Both vectors are functions of the example alone, to the last bit
(`tacit.networks.tiles`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.kernels import round_directions, round_scaled, square_norms
from tacit.errors import ParameterError
from tacit.mechanisms.grid import Grid, GridSum
from tacit.networks.backend import functional, nn, torch
from tacit.networks.crew import cores, on_one_thread, over_parts
from tacit.networks.layers import check_clips, made_up, stack_of
from tacit.networks.losses import CrossEntropy, SquaredError, loss_text
from tacit.networks.single_rows import loss_slopes
from tacit.networks.tiles import Tiles
from tacit.networks.weights import random_weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LinearSums", "weights_of"]

_BITS = 21
_PIECE = 1 << (53 - 2 * _BITS)  # rows whose products of at most 2^42 a float64 adds up exactly
_LARGEST_TOTALS = 1 << 25  # numbers of the totals of more than two threads, 256 MB
_PROBED: dict[Hashable, Tiles] = {}  # of what decides which operations are done, in what order
_ROOM = (1.0 + 2.0**-30) ** 2


class LinearSums:
    """Sums of clipped gradients of a stack of linear layers.

    Everything as in `tacit.networks.sampled_gradients.SampledSums`, for modules that
    `tacit.networks.layers.is_linear_stack` accepts.

    Examples
    --------
    >>> network = nn.Linear(2, 1)
    >>> sums = LinearSums(network, lambda out, y: (out[:, 0] - y).square(), [1.0], Grid(-20), 2)
    >>> sums.add(torch.ones(3, 2), torch.zeros(3))
    >>> bool(np.linalg.norm(sums.result().value()) <= 3.0)
    True
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
        self._module, self._loss, self._grid = module, loss, grid
        self._caps = [1.0] * len(clips) if caps is None else list(caps)
        self._examples_in_memory = examples_in_memory
        self._stack = stack_of(module)
        self._layers = [layer for layer in self._stack if type(layer) is nn.Linear]
        check_clips(clips, len(self._layers))
        joint = len(clips) == 1
        self._groups = (
            [list(range(len(self._layers)))] if joint else [[k] for k in range(len(self._layers))]
        )
        self._exponent = math.frexp(max(clips))[1] - _BITS  # of h
        self._limits = [self._limit(g, c) for g, c in zip(self._groups, clips, strict=True)]
        self._hands: list[_Hand] = []
        self._tiles: Tiles | None = None
        self.reset()

    def _limit(self, group: list[int], clip: float) -> float:
        """Return the norm to which a group's gradient is scaled before it is rounded."""
        inputs = max(self._layers[k].in_features for k in group)
        outputs = sum(self._layers[k].out_features for k in group)
        alpha = 0.5 * 2.0**-_BITS * math.sqrt(inputs + 1)
        beta = 0.5 * math.ldexp(1.0, self._exponent) * math.sqrt(outputs)
        limit = clip / ((1.0 + alpha) * _ROOM) - beta
        if limit < 0.5 * clip:
            raise ParameterError(f"a clip of {clip:g} is too small beside the others")
        return limit

    @property
    def fitting(self) -> int:
        """How many examples fill one tile."""
        return self._examples_in_memory if self._tiles is None else len(self._tiles.slots)

    def reset(self) -> None:
        """Start a new sum: every layer's outer products, in steps of 2⁻²¹·h."""
        for hand in self._hands:
            hand.reset()

    def prepare(self, inputs: Any, targets: Any, found: dict[Hashable, Any] | None = None) -> None:
        """Find tiles whose slots compute alike; only the kind and shape of examples are read.

        Raise what is wrong with the module. What was found is kept in the process.
        """
        blank = targets.new_zeros((1, *targets.shape[1:]))

        def draw(count: int, number: int) -> list[Any]:
            rows = made_up(inputs.shape[1:], inputs.dtype, count * (number + 1))[-count:]
            return [rows.to(inputs.device), blank.expand(count, *blank.shape[1:])]

        def compute(rows: Any, answers: Any) -> list[Any]:
            counts = torch.ones(len(rows), dtype=torch.float64)
            pairs = self._vectors(rows, answers, counts, {})
            return [part for pair in pairs for part in pair]

        layers = [(type(one).__name__, str(one)) for one in self._stack]
        about = inputs.shape[1:], inputs.dtype, inputs.device
        key = (*layers, *about, loss_text(self._loss), blank.dtype, self._examples_in_memory)
        if key not in _PROBED:
            with random_weights(self._module), on_one_thread():
                _PROBED[key] = Tiles.probed(compute, draw, self._examples_in_memory)
        self._tiles = _PROBED[key]

    def add(self, inputs: Any, targets: Any, weights: Any = None) -> None:
        """Add the clipped gradients of some examples, times what each counts, in [0, 1]."""
        if self._tiles is None:
            self.prepare(inputs, targets)
        counts = weights_of(weights, len(inputs))
        parts = [slice(k, k + self.fitting) for k in range(0, len(inputs), self.fitting)]
        self.add_parts(parts, lambda part: (inputs[part], targets[part], counts[part]))

    def add_parts(self, parts: Sequence[Any], load: Callable[[Any], tuple[Any, Any, Any]]) -> None:
        """Add the clipped gradients of the examples that ``load`` makes of every part.

        These are their inputs, targets and what each counts, of one tile at most; it is called
        from several threads where the loss is one of ours.
        """
        assert self._tiles is not None
        size = sum(p.numel() for layer in self._layers for p in layer.parameters())
        most = max(2, _LARGEST_TOTALS // size)
        alone = type(self._loss) not in (CrossEntropy, SquaredError)
        count = 1 if alone else max(1, min(cores(), len(parts), most))
        while len(self._hands) < count:
            self._hands.append(_Hand(self._layers))
        over_parts(
            lambda hand, part: self._add_part(hand, *load(part)), parts, self._hands[:count]
        )

    def _add_part(self, hand: _Hand, inputs: Any, targets: Any, weights: Any) -> None:
        assert self._tiles is not None
        counts = weights_of(weights, len(inputs))
        for rows, answers, count, used in self._tiles.of(inputs, targets, counts):
            pairs = self._vectors(rows, answers, count, hand.rooms)
            hand.add(pairs, int(np.flatnonzero(used).max(initial=-1)) + 1)

    def _vectors(
        self, inputs: Any, targets: Any, counts: Any, rooms: dict[int, Any]
    ) -> list[tuple[Any, Any]]:
        """Return b̂ and â of every layer in whole numbers; rows that count nothing are zero."""
        seen, slopes = self._trace(inputs, targets)
        ways = (self._direction(k, a, rooms) for k, a in enumerate(seen))
        rights, lengths = zip(*ways, strict=True)
        norms = [length * _norms(b) for length, b in zip(lengths, slopes, strict=True)]
        unit, counts = math.ldexp(1.0, -self._exponent), counts.to(slopes[0].device)
        taken = counts > 0.0
        found: list[tuple[Any, Any]] = [(None, None)] * len(slopes)
        for group, limit, cap in zip(self._groups, self._limits, self._caps, strict=True):
            norm = torch.stack([norms[k] for k in group]).square().sum(0).sqrt()
            # no gradient at all: the cap
            weight = torch.clamp(limit / norm, max=cap) * counts
            for k in group:
                good = torch.isfinite(norm) & torch.isfinite(lengths[k]) & taken
                factors = torch.where(good, weight * lengths[k] * unit, 0.0)
                found[k] = _scaled(k, slopes[k], factors, rooms), rights[k]
        return found

    def _trace(self, inputs: Any, targets: Any) -> tuple[list[Any], list[Any]]:
        """Return the inputs of the linear layers and the slopes of the losses at their outputs.

        The layers are torch's own, and are called as the functions that they are: what is left of
        a module is their weights.
        """
        seen, outputs, now = [], [], inputs
        with torch.enable_grad():
            for layer in self._stack:
                if type(layer) is not nn.Linear:
                    now = type(layer).forward(layer, now)
                    continue
                if now.dim() != 2:
                    raise ParameterError(
                        f"a linear layer got inputs of shape {tuple(now.shape)}: put nn.Flatten() "
                        "before it"
                    )
                if now.shape[1] != layer.in_features:
                    raise ParameterError(
                        f"a linear layer takes {layer.in_features} numbers and got "
                        f"{now.shape[1]}: the module does not fit the rows"
                    )
                seen.append(now.detach())
                now = functional.linear(now, layer.weight, layer.bias)
                outputs.append(now)
            slopes = loss_slopes(self._loss, now.detach(), targets)
            found = list(torch.autograd.grad(now, outputs, slopes))
        if inputs.device.type == "mps":  # which has no float64
            return [part.cpu() for part in seen], [part.cpu() for part in found]
        return seen, found

    def _direction(self, k: int, rows: Any, rooms: dict[int, Any]) -> tuple[Any, Any]:
        """Return the inputs (a, 1) of a layer as directions in steps of 2⁻²¹, and their norms.

        A row of norm zero, or with a number that is not finite, has no direction: zero.
        """
        biased = self._layers[k].bias is not None
        if rows.device.type == "cpu":
            room = _room(rooms, k, (len(rows), rows.shape[1] + biased))
            lengths = np.empty(len(rows))
            round_directions(rows.numpy(), biased, 2.0**_BITS, room.numpy(), lengths)
            return room, torch.from_numpy(lengths)
        wide = rows.to(torch.float64, copy=True)
        if biased:
            wide = torch.cat([wide, torch.ones_like(wide[:, :1])], dim=1)
        lengths = torch.linalg.vector_norm(wide, dim=1)
        good = torch.isfinite(lengths) & (lengths > 0.0)
        return _rounded(wide, 2.0**_BITS / lengths, good), lengths

    def result(self) -> GridSum:
        """Return the sum on the mechanism's grid, rounded by floor(x/g + ½), and start anew."""
        return self.exact().onto(self._grid)

    def exact(self) -> GridSum:
        """Return the sum before it is rounded, and start anew."""
        sums = {}
        if not self._hands:
            self._hands.append(_Hand(self._layers))
        for layer, total in zip(self._layers, self._hands[0].joined(self._hands[1:]), strict=True):
            sums[id(layer.weight)] = total[:, : layer.in_features]
            if layer.bias is not None:
                sums[id(layer.bias)] = total[:, -1]
        self.reset()
        flat = np.concatenate([sums[id(p)].reshape(-1) for p in self._module.parameters()])
        return GridSum(flat, Grid(self._exponent - _BITS))


class _Hand:
    """What one thread writes to: room for the vectors of a tile, and the sums of its products.

    The rooms are used again for every tile. `_recent` are sums of float64 over `_rows` rows,
    `_PIECE` at most; `_total` those of whole pieces before.
    """

    def __init__(self, layers: Sequence[Any]) -> None:
        self.rooms: dict[int, Any] = {}
        self._shapes = [
            (one.out_features, one.in_features + (one.bias is not None)) for one in layers
        ]
        self._recent: list[Any] = []
        self._total: list[NDArray[np.int64]] = []
        self._rows = 0

    def reset(self) -> None:
        """Start new sums."""
        self._total, self._rows = [], 0

    def add(self, pairs: Sequence[tuple[Any, Any]], count: int) -> None:
        """Add the outer products of the first rows of every layer, exactly."""
        for start in range(0, count, _PIECE):
            part = slice(start, min(start + _PIECE, count))
            if self._rows + part.stop - start > _PIECE:
                self._settle()
            if not self._recent:
                self._recent = [
                    torch.empty(shape, dtype=torch.float64, device=left.device)
                    for shape, (left, _) in zip(self._shapes, pairs, strict=True)
                ]
            for total, (left, right) in zip(self._recent, pairs, strict=True):
                # with beta = 0 what the room held is not read
                total.addmm_(left[part].T, right[part], beta=1 if self._rows else 0)
            self._rows += part.stop - start

    def _settle(self) -> None:
        """Add the sums of float64 to those of int64."""
        if not self._rows:
            return
        recent = [part.to(torch.int64).cpu().numpy() for part in self._recent]
        for total, part in zip(self._total, recent, strict=False):
            total += part
        self._total, self._rows = self._total or recent, 0

    def joined(self, others: Sequence[_Hand]) -> list[NDArray[np.int64]]:
        """Return the sums of all hands; these are spent."""
        for hand in (self, *others):
            hand._settle()
        found = self._total or [np.zeros(shape, np.int64) for shape in self._shapes]
        for hand in others:
            for total, part in zip(found, hand._total, strict=False):
                total += part
        return found


def weights_of(weights: Any, count: int) -> Any:
    """Return what examples count, over the most that any does; what is no number is nothing.

    >>> weights_of([0.5, 2.0, float("nan")], 3).tolist()
    [0.5, 1.0, 0.0]
    """
    if weights is None:
        return torch.ones(count, dtype=torch.float64)
    own = torch.as_tensor(np.asarray(weights, np.float64))
    return torch.nan_to_num(own, nan=0.0).clamp(0.0, 1.0)


def _room(rooms: dict[int, Any], k: int, size: tuple[int, int]) -> Any:
    """Return room for a layer's directions or slopes, the same for tiles of one size."""
    if k not in rooms or rooms[k].shape != size:
        rooms[k] = torch.empty(size, dtype=torch.float64)
    return rooms[k]


def _scaled(k: int, rows: Any, factors: Any, rooms: dict[int, Any]) -> Any:
    """Return a layer's slopes times factors as whole numbers."""
    if rows.device.type != "cpu":
        return _rounded(rows.to(torch.float64, copy=True), factors, factors != 0.0)
    room = _room(rooms, -1 - k, tuple(rows.shape))
    round_scaled(rows.contiguous().numpy(), factors.numpy(), room.numpy())
    return room


def _norms(rows: Any) -> Any:
    """Return the norms of rows in float64: a function of each row alone."""
    if rows.device.type != "cpu":
        return torch.linalg.vector_norm(rows.to(torch.float64), dim=1)
    squares = np.zeros(len(rows))
    square_norms(rows.contiguous().numpy(), squares)
    return torch.from_numpy(np.sqrt(squares))


def _rounded(rows: Any, factors: Any, good: Any) -> Any:
    """Return rows times factors as whole numbers, in place; rows that are not good are zero."""
    rows.mul_(factors[:, None]).round_()
    return rows if bool(good.all()) else torch.where(good[:, None], rows, 0.0)
