"""Networks for tables: categories are looked up in tables of their own, which are learned.

A category of many values costs a perceptron on indicators a column of weights each, all of which
bear noise in every step. Looked up, a value has a few numbers of its own, and a row's gradient
touches those of its own values only. As in `tacit.networks.architectures` everything has norm
about one: p columns have 1/√p of it each, and the tables start from N(0, 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tacit.networks.architectures import perceptron
from tacit.networks.backend import nn, torch

__all__ = ["Embedded", "Tabular"]

_WIDTH = 8  # numbers that a value of a category has at most


class Tabular(nn.Module):  # type: ignore[misc]
    """Numbers in [−1, 1] as they are, positions of categories looked up, then a perceptron.

    Parameters
    ----------
    levels
        How many values each column has; 0 for a number.
    after
        What maps the whole, of norm about one, to outputs.

    Examples
    --------
    >>> network = Tabular((0, 3), nn.Linear(4, 2))
    >>> network(torch.tensor([[0.5, 2.0]])).shape
    torch.Size([1, 2])
    """

    def __init__(self, levels: Sequence[int], after: nn.Module) -> None:
        super().__init__()
        self.levels = tuple(levels)
        self.tables = nn.ModuleList(nn.Embedding(n, width_of(n)) for n in self.levels if n)
        self.after = after

    def forward(self, rows: Any) -> Any:
        """Return outputs of rows (batch, columns)."""
        share = 1.0 / math.sqrt(len(self.levels))
        numbers = [k for k, count in enumerate(self.levels) if not count]
        looked_up = [k for k, count in enumerate(self.levels) if count]
        parts = [share * rows[:, numbers]] if numbers else []
        for k, table in zip(looked_up, self.tables, strict=True):
            width = table.embedding_dim
            place = rows[:, k].long().clamp(0, table.num_embeddings - 1)
            parts.append(share / math.sqrt(width) * table(place))
        return self.after(torch.cat(parts, 1))


def width_of(levels: int) -> int:
    """Return how many numbers a value of a category has.

    >>> width_of(2), width_of(500)
    (2, 8)
    """
    return min(_WIDTH, levels)


@dataclass(frozen=True)
class Embedded:
    """A blueprint of `Tabular` with a perceptron; its start is drawn by whoever coordinates.

    Examples
    --------
    >>> Embedded((0, 3), 2).shape, Embedded((0, 3), 2).size
    ((2,), 19)
    """

    levels: tuple[int, ...]
    outputs: int
    hidden: tuple[int, ...] = ()
    activation: str = "tanh"

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the inputs of one example."""
        return (len(self.levels),)

    @property
    def dtype(self) -> str:
        """Of the inputs."""
        return "float32"

    @property
    def size(self) -> int:
        """How many weights are learned."""
        tables = sum(n * width_of(n) for n in self.levels)
        widths = (self._width, *self.hidden, self.outputs)
        return tables + sum((before + 1) * after for before, after in pairwise(widths))

    @property
    def text(self) -> str:
        """The network in words that are the same in every process."""
        return repr(self)

    @property
    def _width(self) -> int:
        return sum(width_of(n) if n else 1 for n in self.levels)

    def build(self, rng: np.random.Generator) -> nn.Module:
        """Return a network at a start of its own."""
        after = perceptron(
            self._width, self.outputs, self.hidden, activation=self.activation, rng=rng
        )
        made = Tabular(self.levels, after)
        with torch.no_grad():
            for table in made.tables:
                drawn = rng.standard_normal(tuple(table.weight.shape), dtype=np.float32)
                table.weight.copy_(torch.from_numpy(drawn))
        return made
