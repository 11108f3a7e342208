"""How sure a network may be: a site's part, `tacit.networks.confidence` of rows in tiles.

Outputs and what is made of them are computed in tiles whose slots compute alike
(`tacit.networks.tiles`), so that a row's part of the sum is a function of that row, to the last
bit; it is rounded to the grid by itself.
"""

from __future__ import annotations

import math
from typing import Any

from tacit.mechanisms.grid import Grid, GridSum
from tacit.networks.backend import nn, torch
from tacit.networks.confidence import PARTS, contributions
from tacit.networks.layers import made_up
from tacit.networks.single_rows import RowFunction
from tacit.networks.tiles import Tiles
from tacit.networks.weights import as_tensor, named_weights, random_weights

__all__ = ["Judge"]

_ROOM = 1.0 - 2.0**-40  # for products of norm one


class Judge:
    """What rows say about how sure a network may be.

    Parameters
    ----------
    module
        The network; it is used as it predicts.
    share
        What is left of a row's part before it is rounded.
    grid
        Of the release.
    size
        How many rows a tile has at most.
    """

    def __init__(self, module: nn.Module, share: float, grid: Grid, size: int) -> None:
        self._module, self._run = module, RowFunction(module.eval())
        self._own = {n: p for n, p in module.named_parameters() if p.requires_grad}
        self._share, self._grid, self._size = share * _ROOM, grid, size
        self._tiles: Tiles | None = None
        self._draws: list[dict[str, Any]] = []
        self._blank: Any = None

    def ask(self, weights: Any) -> None:
        """Take the weights of the posterior samples, (samples, size)."""
        like = next(iter(self._own.values()))
        draws = as_tensor(weights).to(like)
        self._draws = [named_weights(self._own, one) for one in draws]

    def prepare(self, shape: Any, dtype: Any, kind: Any) -> None:
        """Find tiles whose slots compute alike, on made-up rows and the weights of the start."""
        if self._tiles is not None:
            return
        device = next(iter(self._own.values())).device

        def draw(count: int, number: int) -> list[Any]:
            rows = made_up(shape, dtype, count * (number + 1))[-count:]
            return [rows.to(device), torch.zeros(count, dtype=kind, device=device)]

        self._draws = [{}]  # as they are
        with random_weights(self._module):
            self._tiles = Tiles.probed(lambda rows, ys: [self._parts(rows, ys)], draw, self._size)

    def _parts(self, rows: Any, targets: Any) -> Any:
        """Return what the rows of a tile contribute, before it is rounded."""
        outputs = torch.stack([self._outputs(rows, own) for own in self._draws])
        return contributions(outputs.cpu(), targets.cpu())

    def _outputs(self, rows: Any, own: Any) -> Any:
        """Return outputs; no numbers for rows at which the module raises, which count as nothing.

        The others have the bits that they have in tiles: each is alone in all slots of one.
        """
        try:
            found = self._run(rows, own)
        except Exception:
            if self._blank is None:
                raise
            found = torch.stack([self._output(row, len(rows), own) for row in rows])
        if self._blank is None:
            self._blank = torch.full_like(found[0], math.nan)
        return found

    def _output(self, row: Any, size: int, own: Any) -> Any:
        try:
            return self._run(row[None].repeat(size, *[1] * row.dim()), own)[0]
        except Exception:
            return self._blank

    def sum(self, inputs: Any, targets: Any) -> GridSum:
        """Return the sum over some rows."""
        assert self._tiles is not None
        total = self._grid.sum(torch.zeros(1, PARTS, dtype=torch.float64).numpy())
        for rows, answers, used in self._tiles.of(inputs, targets):
            parts = self._parts(rows, answers).numpy()
            total += self._grid.sum(parts, used * self._share)
        return total
