"""Functions of single rows: what a network does with one example, vectorised.

A module is never run on a batch of private rows. It is a function of one row, of its weights and
of its buffers, called by ``torch.func.functional_call`` with a batch of one, and `torch.func.vmap`
runs that over the rows of a tile: what looks across a batch cannot, because there is none, and
what changes a buffer, or a weight, changes a copy that is thrown away after the tile (PRIVACY
A13); what it sets as an attribute of its own, such as a count of its calls, is put back before the
next one. A module that cannot be vectorised, one that branches on its numbers or packs sequences,
runs row by row.

Three ways to the same gradients, tried in this order on made-up rows: `_Recorded`, by what known
layers were given and by the slopes at their outputs (`tacit.networks.recording`); `_Direct`, by
every weight; `_OneByOne`. One that fails or gives other numbers than the last is not taken.
"""

from __future__ import annotations

import copy
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from torch.func import functional_call, grad, vmap

from tacit.errors import ParameterError
from tacit.networks.backend import nn, torch
from tacit.networks.layers import has_dropout, made_up, quiet_dropout
from tacit.networks.losses import CrossEntropy, SquaredError
from tacit.networks.recording import Rows, Sparse, Tape, gradients_of, recorded
from tacit.networks.tiles import Tiles
from tacit.networks.weights import random_weights

__all__ = ["RowFunction", "loss_slopes", "row_gradients"]

_NEAR = 1e-3  # relative, of two ways to one gradient in float32
_FEW = 3  # rows on which ways are compared
_SAID = ("training", "dropout")  # attributes that are set from outside


class RowFunction:
    """What a module of its own makes of rows, each alone and with buffers as they are now.

    Examples
    --------
    >>> doubled = RowFunction(nn.Flatten())
    >>> doubled(torch.ones(2, 1, 2)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self._buffers = {n: b.detach().clone() for n, b in self.module.named_buffers()}
        self._weights: Mapping[str, Any] = {
            n: p.detach() for n, p in self.module.named_parameters()
        }
        self._own = [(layer, dict(vars(layer))) for layer in self.module.modules()]
        self._vectorised: bool | None = None  # not known before the first rows
        self._written: tuple[RowFunction, list[Tape]] | None = None

    def _put_back(self) -> None:
        """Take away what layers were given as attributes, and give back what was replaced."""
        for layer, kept in self._own:
            now = vars(layer)
            if len(now) == len(kept) and all(now.get(n) is one for n, one in kept.items()):
                continue
            said = {n: now[n] for n in _SAID if n in now}
            now.clear()
            now.update(kept | said)

    def one(self, row: Any, weights: Mapping[str, Any] | None = None) -> Any:
        """Return the outputs of one row, (1, …)."""
        self._put_back()
        state = {n: b.clone() for n, b in self._buffers.items()}
        given = {} if weights is None else weights
        own = {n: given[n] if n in given else p.clone() for n, p in self._weights.items()}
        out = functional_call(self.module, (own, state), (row[None],))
        if not isinstance(out, torch.Tensor) or not out.dim() or len(out) != 1:
            raise ParameterError(
                "the outputs for one example must be one tensor with a batch of one along its "
                "first axis (batch_first=True)"
            )
        return out

    def __call__(self, rows: Any, weights: Mapping[str, Any] | None = None) -> Any:
        """Return the outputs of rows, at other weights where some are given.

        The first ones decide how all of them are computed, so that none decides it for others.
        """
        with torch.no_grad():
            if self._vectorised is None and len(rows):
                self._vectorised = self._can_vectorise(rows[:_FEW], weights)
                if not self._vectorised:
                    self._write_out(rows[:_FEW], weights)
            if self._vectorised and len(rows):
                return self._at_once(rows, weights)
            return torch.cat([self._alone(row, weights) for row in rows])

    def _alone(self, row: Any, weights: Mapping[str, Any] | None) -> Any:
        """Return the outputs of one row at copies of the weights."""
        given = {} if weights is None else weights
        return self.one(row, {n: w.clone() for n, w in given.items()})

    def _at_once(self, rows: Any, weights: Mapping[str, Any] | None) -> Any:
        if self._written is not None:
            own, place = self._written
            place[0] = Tape()  # nobody reads it
            return own._at_once(rows, {**self._weights, **(weights or {})})
        work = vmap(lambda row: self._alone(row, weights), randomness="different")
        return _quietly(lambda: work(rows))[:, 0]

    def _write_out(self, rows: Any, weights: Mapping[str, Any] | None) -> None:
        """Call recurrent layers as loops that are written out, where these can be vectorised."""
        if not any(isinstance(layer, nn.RNNBase) for layer in self.module.modules()):
            return
        copied, place = recorded(self.module)
        self._written = RowFunction(copied), place
        self._vectorised = self._can_vectorise(rows, weights)
        if not self._vectorised:
            self._written = None

    def _can_vectorise(self, rows: Any, weights: Mapping[str, Any] | None) -> bool:
        """Whether rows at once give what they give alone: functions may have their own rules."""
        with quiet_dropout(self.module):
            alone = torch.cat([self._alone(row, weights) for row in rows])
            try:
                found = self._at_once(rows, weights)
            except (RuntimeError, ValueError, NotImplementedError):
                return False
        return bool(torch.allclose(found, alone, rtol=1e-3, atol=1e-4, equal_nan=True))


def loss_slopes(loss: Callable[[Any, Any], Any], outputs: Any, targets: Any) -> Any:
    """Return the gradient of every example's loss by its own outputs."""
    if type(loss) in (CrossEntropy, SquaredError):  # which see every example alone
        return _batch_slopes(loss, outputs, targets)

    def one(output: Any, target: Any) -> Any:
        return _total(loss(output[None], target[None]))

    try:
        found: Any = _quietly(lambda: vmap(grad(one), randomness="different")(outputs, targets))
        return found
    except (RuntimeError, ValueError, NotImplementedError):
        pairs = zip(outputs, targets, strict=True)
        return torch.cat([_slope(loss, o[None], t[None]) for o, t in pairs])


def _slope(loss: Any, output: Any, target: Any) -> Any:
    """Return one example's gradient; where its loss raises, no number, which counts as nothing."""
    try:
        return _batch_slopes(loss, output, target)
    except Exception:
        return torch.full_like(output, math.nan)


def _batch_slopes(loss: Any, outputs: Any, targets: Any) -> Any:
    with torch.enable_grad():
        free = outputs.detach().requires_grad_()
        return torch.autograd.grad(_total(loss(free, targets)), free)[0]


def _total(losses: Any) -> Any:
    """Return the loss of one example as a number."""
    return losses.sum()


def _quietly(work: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():  # of operations that are vectorised by a loop
        warnings.filterwarnings("ignore", message=".*performance drop.*")
        warnings.filterwarnings("ignore", message=".*batching rule.*")
        return work()


class _Way(ABC):
    """A way to per-example gradients of a module's learned parameters."""

    def __init__(self, module: nn.Module, loss: Any) -> None:
        self.loss = loss
        self.own = {n: p for n, p in module.named_parameters() if p.requires_grad}

    def _state(self) -> dict[str, Any]:
        """Return copies of the weights as they are now."""
        return {n: p.detach().clone() for n, p in self.own.items()}

    @abstractmethod
    def __call__(self, inputs: Any, targets: Any) -> list[Rows]:
        """Return every parameter's gradients, one row for each example."""


class _Recorded(_Way):
    """By maps and slopes; parameters of unknown maps by derivatives of their own."""

    def __init__(self, module: nn.Module, loss: Any, row: Any) -> None:
        super().__init__(module, loss)
        copied, self._place = recorded(module)
        self._run = RowFunction(copied)
        tape = self._play(None, row, self._state())[1]
        self._notes, self._shapes = tape.notes, tape.shapes
        if not self._notes:
            raise ValueError("no layer whose maps are known")
        names = {id(p): n for n, p in self._run.module.named_parameters()}
        self._targets = [
            {
                local: names[id(getattr(note.layer, local))]
                for local in (note.weight, note.bias)
                if local is not None
            }
            for note in self._notes
        ]
        done = {name for places in self._targets for name in places.values()}
        self._rest = [name for name in self.own if name not in done]
        self._work = vmap(
            grad(self._one, argnums=(0, 1), has_aux=True),
            in_dims=(None, None, None, 0, 0),
            randomness="different",
        )

    def _play(self, pushes: Any, row: Any, weights: Mapping[str, Any]) -> tuple[Any, Tape]:
        tape = self._place[0] = Tape(pushes)
        return self._run.one(row, weights), tape

    def _one(self, pushes: Any, rest: Any, known: Any, row: Any, target: Any) -> Any:
        outputs, tape = self._play(pushes, row, {**known, **rest})
        return _total(self.loss(outputs, target[None])), tape.given

    def __call__(self, inputs: Any, targets: Any) -> list[Rows]:
        state = self._state()
        rest = {n: state.pop(n) for n in self._rest}
        pushes = [inputs.new_zeros(s, dtype=torch.float32) for s in self._shapes]
        like = next(iter(self.own.values()))
        pushes = [p.to(like) for p in pushes]
        with torch.no_grad():
            work = self._work
            (slopes, others), given = _quietly(lambda: work(pushes, rest, state, inputs, targets))
            found: dict[str, Rows] = {n: g.flatten(1) for n, g in others.items()}
            for note, places, a in zip(self._notes, self._targets, given, strict=True):
                for local, part in gradients_of(note, a, slopes[note.push]).items():
                    name = places[local]
                    found[name] = found[name] + part if name in found else part
        return [found[n] for n in self.own]


class _Direct(_Way):
    """By derivatives of every weight."""

    def __init__(self, module: nn.Module, loss: Any) -> None:
        super().__init__(module, loss)
        self._run = RowFunction(copy.deepcopy(module))
        self._work = vmap(grad(self._one), in_dims=(None, 0, 0), randomness="different")

    def _one(self, weights: Any, row: Any, target: Any) -> Any:
        return _total(self.loss(self._run.one(row, weights), target[None]))

    def __call__(self, inputs: Any, targets: Any) -> list[Rows]:
        with torch.no_grad():
            found = _quietly(lambda: self._work(self._state(), inputs, targets))
        return [found[n].flatten(1) for n in self.own]


class _OneByOne(_Way):
    """Row by row, for modules that cannot be vectorised."""

    def __init__(self, module: nn.Module, loss: Any) -> None:
        super().__init__(module, loss)
        self._run = RowFunction(copy.deepcopy(module))

    def __call__(self, inputs: Any, targets: Any) -> list[Rows]:
        rows = []
        with torch.enable_grad():
            for row, target in zip(inputs, targets, strict=True):
                weights = {n: p.detach().clone().requires_grad_() for n, p in self.own.items()}
                loss = _total(self.loss(self._run.one(row.clone(), weights), target[None]))
                found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
                rows.append(
                    [
                        torch.zeros_like(w) if g is None else g.to_dense() if g.is_sparse else g
                        for g, w in zip(found, weights.values(), strict=True)
                    ]
                )
        return [torch.stack(part).flatten(1) for part in zip(*rows, strict=True)]


def _dense(part: Rows, size: int) -> Any:
    """Return gradients as (examples, numbers)."""
    if not isinstance(part, Sparse):
        return part
    count, width = len(part.places), part.values.shape[-1]
    full = part.values.new_zeros(count, size // width, width)
    place = part.places[:, :, None].expand(-1, -1, width)
    return full.scatter_add_(1, place, part.values).flatten(1)


def row_gradients(
    module: nn.Module,
    loss: Any,
    shape: Sequence[int],
    dtype: Any,
    targets: Any,
    size: int,
    found: dict[Hashable, Any],
) -> tuple[Callable[[Any, Any], list[Rows]], Tiles]:
    """Return per-example gradients of a module, and the tiles in which they are computed.

    ``targets`` are some of the kind that the loss takes; ``size`` is how many rows a tile has at
    most. What is wrong with a module is found on made-up rows; ``found`` keeps what was, for
    other copies of the very module.
    """
    rows = made_up(shape, dtype, _FEW)
    device = next(module.parameters()).device
    key = (tuple(shape), dtype, targets.dtype, size, device, torch.get_num_threads())
    if key in found:
        kind, tiles = found[key]
        return _made(kind, module, loss, rows[0].to(device)), tiles
    rows, targets = rows.to(device), targets[:1].to(device).expand(_FEW, *targets.shape[1:])
    with quiet_dropout(module), random_weights(module):
        plain = _OneByOne(module, loss)
        try:
            wanted = plain(rows, targets)
        except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError) as error:
            raise ParameterError(f"the module has no per-example gradients: {error}") from None
        if not all(bool(torch.isfinite(part).all()) for part in wanted):
            raise ParameterError("the module has gradients that are not finite on made-up rows")
        chosen: _Way = plain
        for make in (lambda: _Recorded(module, loss, rows[0]), lambda: _Direct(module, loss)):
            try:
                way = make()
                if _agree(way(rows, targets), wanted):
                    chosen = way
                    break
            except (RuntimeError, ValueError, TypeError, IndexError, NotImplementedError):
                continue

        def draw(count: int, number: int) -> list[Any]:
            found = made_up(shape, dtype, count * (number + 1))[-count:].to(device)
            return [found, targets[:1].expand(count, *targets.shape[1:])]

        def compute(inputs: Any, answers: Any) -> list[Any]:
            parts = chosen(inputs, answers)
            return [part.values.flatten(1) if isinstance(part, Sparse) else part for part in parts]

        tiles = Tiles.probed(compute, draw, 1 if chosen is plain else size)
    # dropout as the module has it from here on
    if has_dropout(module):
        chosen = _made(type(chosen), module, loss, rows[0])
    found[key] = type(chosen), tiles
    return chosen, tiles


def _made(kind: type[_Way], module: nn.Module, loss: Any, row: Any) -> _Way:
    """Return a way of a kind; the recorded one runs once, on a row that is no secret."""
    return _Recorded(module, loss, row) if kind is _Recorded else kind(module, loss)


def _agree(found: Sequence[Rows], wanted: Sequence[Any]) -> bool:
    parts = [_dense(part, other.shape[1]) for part, other in zip(found, wanted, strict=True)]
    most = 1.0 + max(float(other.abs().max()) for other in wanted if other.numel())
    return all(
        part.shape == other.shape and float((part - other).abs().max()) <= _NEAR * most
        for part, other in zip(parts, wanted, strict=True)
        if other.numel()
    )
