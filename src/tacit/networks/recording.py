"""What per-example gradients are made of: the inputs of layers, and the slopes at their outputs.

The gradient of a linear map's weights, for one example, is Σ_p b_p·a_pᵀ over its positions p, with
inputs a and slopes b of the loss by its outputs: one product of two small matrices, in place of a
derivative by every weight. So a network is run with a number of zeros added to the outputs of its
layers (the *pushes*), the loss is differentiated by these, and the inputs are noted on the way.

Layers whose maps are known (`recorded`) are exact copies of torch's that do so: linear layers,
convolutions of images, embeddings, and the cells of recurrent layers, whose loop over positions is
written out. Everything else in a module runs as its author wrote it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from tacit.networks.backend import functional, nn, torch

__all__ = ["Note", "Rows", "Sparse", "Tape", "gradients_of", "recorded"]


class Note(NamedTuple):
    """One use of one map: which layer, what kind of map, the names of its parameters, its push."""

    layer: nn.Module
    kind: str  # "linear", "convolution" or "embedding"
    weight: str
    bias: str | None
    push: int


class Sparse(NamedTuple):
    """Gradients of rows of a table: which rows every example looked up, and their slopes.

    A row that an example looked up several times stands once, with the sum of its slopes; the
    other places hold zeros.
    """

    places: Any  # (examples, look-ups)
    values: Any  # (examples, look-ups, width)


Rows = Any  # (examples, numbers) or `Sparse`


class Tape:
    """Pushes that layers take one after the other, and what they were given.

    Without pushes it notes which are wanted: their shapes, and the maps they belong to.
    """

    def __init__(self, pushes: Sequence[Any] | None = None) -> None:
        self._pushes = pushes
        self.shapes: list[tuple[int, ...]] = []
        self.given: list[Any] = []
        self.notes: list[Note] = []

    def push(self, like: Any, shape: Sequence[int]) -> Any:
        """Return the next zeros."""
        self.shapes.append(tuple(shape))
        if self._pushes is None:
            return like.new_zeros(shape)
        return self._pushes[len(self.shapes) - 1]

    def add(self, layer: Any, kind: str, names: tuple[str, str | None], given: Any) -> None:
        """Note what a map was given whose outputs got the last push."""
        self.notes.append(Note(layer, kind, *names, len(self.shapes) - 1))
        self.given.append(given)

    def use(
        self, layer: Any, kind: str, names: tuple[str, str | None], given: Any, out: Any
    ) -> Any:
        """Note a map and return its outputs, pushed."""
        push = self.push(out, out.shape)
        self.add(layer, kind, names, given)
        return out + push


class _Recording:
    """A layer that notes what it does; `place` holds the tape."""

    place: list[Tape]

    @property
    def tape(self) -> Tape:
        return self.place[0]


class _Linear(_Recording, nn.Linear):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        out = functional.linear(x, self.weight, self.bias)
        return self.tape.use(self, "linear", _names(self), x, out)


class _Convolution(_Recording, nn.Conv2d):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        if x.dim() != 4:
            raise ValueError("a convolution takes (batch, channels, height, width)")
        out = nn.Conv2d.forward(self, x)
        return self.tape.use(self, "convolution", _names(self), x, out)


class _Embedding(_Recording, nn.Embedding):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        out = functional.embedding(x, self.weight)
        return self.tape.use(self, "embedding", ("weight", None), x, out)


class _Recurrent(_Recording):
    """The loop of a recurrent layer, whose maps are linear in every position."""

    def forward(self: Any, x: Any, state: Any = None) -> Any:
        if not isinstance(x, torch.Tensor) or x.dim() != 3:
            raise ValueError("a recurrent layer takes (batch, positions, numbers)")
        rows = x.transpose(0, 1) if self.batch_first else x
        ways = 2 if self.bidirectional else 1
        count, size = rows.shape[1], self.hidden_size
        if state is None:
            blank = rows.new_zeros(self.num_layers * ways, count, size)
            state = (blank, blank) if self.mode == "LSTM" else (blank,)
        elif self.mode != "LSTM":
            state = (state,)
        ends: list[tuple[Any, ...]] = []
        for level in range(self.num_layers):
            sides = []
            for way in range(ways):
                start = tuple(part[len(ends)] for part in state)
                found, end = self._run(rows.flip(0) if way else rows, start, level, way)
                sides.append(found.flip(0) if way else found)
                ends.append(end)
            rows = torch.cat(sides, 2) if ways == 2 else sides[0]
            if self.dropout and self.training and level < self.num_layers - 1:
                rows = functional.dropout(rows, self.dropout)
        last = tuple(torch.stack(part) for part in zip(*ends, strict=True))
        out = rows.transpose(0, 1) if self.batch_first else rows
        return out, (last if self.mode == "LSTM" else last[0])

    def _run(self: Any, rows: Any, state: tuple[Any, ...], level: int, way: int) -> Any:
        end = f"l{level}{'_reverse' if way else ''}"
        ours, theirs = _named(self, "ih", end), _named(self, "hh", end)
        given = functional.linear(rows, *_values(self, ours))
        parts = self.tape.use(self, "linear", ours, rows, given).unbind(0)
        weight, bias = _values(self, theirs)
        # where both maps are added up they have one slope, and one push serves both
        apart = self.mode == "GRU"
        pushes = self.tape.push(given, given.shape).unbind(0) if apart else ()
        before, outputs = [], []
        for k, part in enumerate(parts):
            before.append(state[0])
            past = functional.linear(state[0], weight, bias)
            state = _CELLS[self.mode](part, past + pushes[k] if apart else past, state)
            outputs.append(state[0])
        self.tape.add(self, "linear", theirs, torch.stack(before))
        return torch.stack(outputs), state


def _lstm(own: Any, past: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
    n = state[1].shape[-1]
    both, new, show = (own + past).split_with_sizes([2 * n, n, n], -1)
    enter, forget = both.sigmoid().chunk(2, -1)
    cell = forget * state[1] + enter * new.tanh()
    return show.sigmoid() * cell.tanh(), cell


def _gru(own: Any, past: Any, state: tuple[Any, ...]) -> tuple[Any, ...]:
    (reset, update, new), (old_reset, old_update, old_new) = own.chunk(3, -1), past.chunk(3, -1)
    fresh = (new + (reset + old_reset).sigmoid() * old_new).tanh()
    keep = (update + old_update).sigmoid()
    return (fresh + keep * (state[0] - fresh),)


_CELLS: dict[str, Callable[..., tuple[Any, ...]]] = {
    "LSTM": _lstm,
    "GRU": _gru,
    "RNN_TANH": lambda own, past, state: ((own + past).tanh(),),
    "RNN_RELU": lambda own, past, state: ((own + past).relu(),),
}


class _LSTM(_Recurrent, nn.LSTM):  # type: ignore[misc]
    pass


class _GRU(_Recurrent, nn.GRU):  # type: ignore[misc]
    pass


class _RNN(_Recurrent, nn.RNN):  # type: ignore[misc]
    pass


_KINDS: dict[type, type] = {
    nn.Linear: _Linear,
    nn.Conv2d: _Convolution,
    nn.Embedding: _Embedding,
    nn.LSTM: _LSTM,
    nn.GRU: _GRU,
    nn.RNN: _RNN,
}


def _names(layer: Any) -> tuple[str, str | None]:
    return "weight", None if layer.bias is None else "bias"


def _named(layer: Any, what: str, end: str) -> tuple[str, str | None]:
    return f"weight_{what}_{end}", f"bias_{what}_{end}" if layer.bias else None


def _values(layer: Any, names: tuple[str, str | None]) -> tuple[Any, Any]:
    weight, bias = names
    return getattr(layer, weight), None if bias is None else getattr(layer, bias)


def recorded(module: nn.Module) -> tuple[nn.Module, list[Tape]]:
    """Return a copy whose known layers note what they do, and the place of their tape.

    A layer that shares a parameter with another one, or stands twice, stays as it is.
    """
    copied, place = copy.deepcopy(module), [Tape()]
    owners: dict[int, int] = {}
    for _, layer in copied.named_modules(remove_duplicate=False):
        for p in layer.parameters(recurse=False):
            owners[id(p)] = owners.get(id(p), 0) + 1
    for layer in _plain(copied):
        if all(owners[id(p)] == 1 for p in layer.parameters(recurse=False)):
            layer.__class__ = _KINDS[type(layer)]
            layer.__dict__["place"] = place
    return copied, place


def _plain(module: nn.Module) -> Iterator[Any]:
    """Yield the layers whose maps are known, and all of whose parameters are learned."""
    for layer in module.modules():
        kind = type(layer)
        if kind not in _KINDS or "forward" in vars(layer):
            continue
        if not all(p.requires_grad for p in layer.parameters(recurse=False)):
            continue
        if kind is nn.Conv2d:
            simple = layer.groups == 1 and tuple(layer.dilation) == (1, 1)
            if not simple or layer.padding_mode != "zeros" or isinstance(layer.padding, str):
                continue
        if getattr(layer, "proj_size", 0) or getattr(layer, "scale_grad_by_freq", False):
            continue
        yield layer


# -- gradients of what was noted ---------------------------------------------------------------


def gradients_of(note: Note, given: Any, slope: Any) -> dict[str, Rows]:
    """Return every example's gradient of a map's parameters, by their names in the layer.

    ``given`` and ``slope`` are its inputs and the slopes at its outputs, (examples, …).
    """
    count = len(given)
    if note.kind == "embedding":
        places = given.reshape(count, -1)
        return {"weight": _merged(places, slope.reshape(count, places.shape[1], -1), note.layer)}
    if note.kind == "convolution":
        inputs = given.reshape(count, *given.shape[-3:])
        patches, slopes = _patches(note.layer, inputs), slope.reshape(count, slope.shape[-3], -1)
    else:
        patches = given.reshape(count, -1, given.shape[-1])
        slopes = slope.reshape(count, -1, slope.shape[-1]).transpose(1, 2)
    found = {note.weight: torch.bmm(slopes, patches).flatten(1)}
    if note.bias is not None:
        found[note.bias] = slopes.sum(2)
    return found


def _merged(places: Any, slopes: Any, layer: nn.Module) -> Sparse:
    """Return slopes of looked up rows, each row once."""
    if layer.padding_idx is not None:
        slopes = torch.where((places == layer.padding_idx)[:, :, None], 0.0, slopes)
    same = places[:, :, None] == places[:, None, :]
    earlier = same.tril(-1).any(2)  # the row was looked up before
    return Sparse(places, torch.where(earlier[:, :, None], 0.0, same.to(slopes) @ slopes))


def _patches(layer: Any, given: Any) -> Any:
    """Return what lies under a filter at its positions, (batch, positions, numbers)."""
    (high, wide), (down, right) = layer.kernel_size, layer.stride
    top, left = layer.padding
    images = functional.pad(given, (left, left, top, top))
    windows = images.unfold(2, high, down).unfold(3, wide, right)
    return windows.permute(0, 2, 3, 1, 4, 5).reshape(len(given), -1, given.shape[1] * high * wide)
