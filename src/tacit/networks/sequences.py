"""Networks for sequences of symbols of different lengths, such as letters, words or visits.

A sequence is a row of whole numbers from 1 on, filled up with zeros, which stand for nothing: they
are looked up as zeros and count in no mean. As in `tacit.networks.architectures` the last layer
starts at zero and sees numbers of norm about one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.check import Integer, OneOf, check
from tacit.errors import ParameterError
from tacit.networks.backend import nn, torch

__all__ = ["Attentive", "Recurrent", "attentive", "recurrent"]

_CELLS = {"gru": nn.GRU, "lstm": nn.LSTM, "rnn": nn.RNN}
_BIAS = 0.2  # as in `tacit.networks.architectures`


class Recurrent(nn.Module):  # type: ignore[misc]
    """Symbols → a recurrent layer → the mean of its states over the sequence → outputs."""

    def __init__(self, vocabulary: int, outputs: int, width: int, hidden: int, cells: str) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width, padding_idx=0)
        self.cells = _CELLS[cells](width, hidden, batch_first=True)
        self.last = nn.Linear(hidden, outputs)
        self.factor = 2.0 / math.sqrt(hidden)

    def forward(self, symbols: Any) -> Any:
        """Return outputs (batch, outputs) of sequences (batch, positions)."""
        there = _there(symbols, self.last.weight)
        states = self.cells(self.table(symbols))[0]
        return _out(self.last, self.factor * _mean(states, there))


class Attentive(nn.Module):  # type: ignore[misc]
    """Symbols and their places → attention → the mean over the sequence → outputs."""

    def __init__(
        self, vocabulary: int, outputs: int, width: int, heads: int, positions: int
    ) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width, padding_idx=0)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.last = nn.Linear(2 * width, outputs)
        self.factor = 1.0 / math.sqrt(width)
        place = torch.arange(positions)[:, None] / 10_000 ** (torch.arange(0, width, 2) / width)
        self.register_buffer("places", torch.cat([place.sin(), place.cos()], 1)[:, :width])

    def forward(self, symbols: Any) -> Any:
        """Return outputs (batch, outputs) of sequences (batch, positions)."""
        if symbols.shape[1] > len(self.places):
            raise ParameterError(f"sequences must have {len(self.places)} positions at most")
        there = _there(symbols, self.last.weight)
        seen = self.table(symbols)
        placed = seen + self.places[: symbols.shape[1]]
        mixed, _ = self.attention(placed, placed, seen, key_padding_mask=there[:, :, 0] == 0)
        both = torch.cat([torch.tanh(mixed), torch.tanh(seen)], 2)
        return _out(self.last, self.factor * _mean(both, there))


def _there(symbols: Any, like: Any) -> Any:
    """Return one where a sequence has a symbol; an empty one has its first place."""
    first = torch.arange(symbols.shape[1], device=symbols.device) == 0
    return ((symbols != 0) | (first & (symbols == 0).all(1, keepdim=True))).to(like)[:, :, None]


def _mean(states: Any, there: Any) -> Any:
    return (states * there).sum(1) / there.sum(1)


def _out(last: nn.Linear, states: Any) -> Any:
    return _BIAS * last(states / _BIAS)


def recurrent(
    vocabulary: int,
    outputs: int,
    *,
    width: int = 16,
    hidden: int = 32,
    cells: str = "gru",
    rng: np.random.Generator,
) -> nn.Module:
    """Return a recurrent network for sequences of symbols 1 … vocabulary − 1; 0 fills them up.

    >>> network = recurrent(5, 2, rng=np.random.default_rng(0))
    >>> network(torch.tensor([[1, 2, 3], [4, 0, 0]])).shape
    torch.Size([2, 2])
    """
    check("cells", cells, OneOf(*_CELLS))
    for name, size in {"width": width, "hidden": hidden}.items():
        check(name, size, Integer(1))
    return _started(Recurrent(vocabulary, outputs, width, hidden, cells), rng)


def attentive(
    vocabulary: int,
    outputs: int,
    *,
    positions: int,
    width: int = 16,
    heads: int = 2,
    rng: np.random.Generator,
) -> nn.Module:
    """Return a network with attention for sequences of at most so many positions.

    >>> network = attentive(5, 2, positions=3, rng=np.random.default_rng(0))
    >>> network(torch.tensor([[1, 2, 3], [4, 0, 0]])).shape
    torch.Size([2, 2])
    """
    for name, size in {"positions": positions, "heads": heads, "width": width // heads}.items():
        check(name, size, Integer(1))
    if width % (2 * heads):
        raise ParameterError(f"width must be an even multiple of heads, got {width} and {heads}")
    return _started(Attentive(vocabulary, outputs, width, heads, positions), rng)


def _started(network: Any, rng: np.random.Generator) -> nn.Module:
    """Draw the weights: of maps with variance 1/inputs, of the table 1, of the last layer zero."""
    with torch.no_grad():
        for p in network.parameters():
            if p.dim() < 2:
                p.zero_()
                continue
            spread = 1.0 if p is network.table.weight else 1.0 / math.sqrt(p.shape[1])
            drawn = rng.standard_normal(tuple(p.shape), dtype=np.float32)
            p.copy_(torch.from_numpy(drawn) * spread)
        network.table.weight[0] = 0.0
        network.last.weight.zero_()
    made: nn.Module = network
    return made
