"""What a holder reads: rows mapped to [−1, 1], responses, and the exact sum of their products.

Loading is the holder's own business: what cannot be read is refused here, to the holder. What is
outside of its bounds is clipped, row by row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.data.features import Features
from tacit.data.schema import Columns
from tacit.errors import ParameterError
from tacit.regression.design import Design
from tacit.regression.generalised.gradients import framed
from tacit.regression.outer import ExactSum
from tacit.regression.rows import check_piece, row_pieces, summarise

__all__ = ["SiteRows", "mapped", "read_columns", "read_rows", "site_rows"]


_PIECE = 1 << 13  # rows that are seen at once
_MANY = 1 << 25  # numbers that are kept in memory besides the rows


@dataclass(frozen=True, eq=False)
class SiteRows:
    """A site's rows: private, and they never leave the site.

    Attributes
    ----------
    x
        Features in [−1, 1], a row per unit or several.
    y
        Responses within their bounds.
    total
        The exact sum of products of rows (`tacit.regression.outer`).
    """

    x: Array
    y: Array
    total: ExactSum
    _kept: dict[bytes, list[Array]] = field(default_factory=dict, repr=False)

    def seen(self, frame: Array) -> Iterator[tuple[Array, Array]]:
        """Yield the rows in a frame, and their responses, piece by piece.

        Rounds are asked in one frame: what the first of them computed is kept while it is small.
        """
        key = hashlib.sha256(np.ascontiguousarray(frame).tobytes()).digest()
        known = self._kept.get(key)
        small = self.count * len(frame) <= _MANY
        found = []
        for number, start in enumerate(range(0, self.count, _PIECE)):
            part = slice(start, start + _PIECE)
            rows = framed(self.x[part], frame) if known is None else known[number]
            if small and known is None:
                found.append(rows)
            yield rows, self.y[part]
        if small and known is None:
            self._kept.clear()
            self._kept[key] = found

    def __getstate__(self) -> dict[str, Any]:
        """Return what travels: what can be computed again does not."""
        return {"x": self.x, "y": self.y, "total": self.total, "_kept": {}}

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.y)


def mapped(x: Any, middle: Sequence[float], half: Sequence[float]) -> Array:
    """Return features on the scale on which their bounds are [−1, 1], clipped to them."""
    scaled = (np.asarray(x, np.float64) - np.asarray(middle)) / np.asarray(half)
    return np.ascontiguousarray(np.clip(scaled, -1.0, 1.0))


def site_rows(x: Any, y: Any, design: Design, top: float, logs: bool = False) -> SiteRows:
    """Return rows as a site holds them.

    Parameters
    ----------
    x, y
        Features and responses on the caller's scale.
    design
        What a row of the products becomes.
    top
        The largest response.
    logs
        Whether products are those of log(1 + y).
    """
    if not len(y):
        raise ParameterError("X must have at least one row: found array with 0 sample(s)")
    responses = np.clip(np.asarray(y, np.float64), 0.0, top)
    total = summarise((x, np.log1p(responses) if logs else responses), design).total
    return SiteRows(mapped(x, design.middle[:-1], design.half[:-1]), responses, total)


def read_columns(
    data: Any, columns: Columns, target: str, design: Design, top: float, logs: bool
) -> SiteRows:
    """Read the rows of a table by what is public about its columns; see `Columns.read`."""
    features = Features(columns, target)
    rows = features.read(data)
    x, y = rows.matrix(features.names), rows.matrix([target])
    return site_rows(x, y[:, 0], design, top, logs)


def read_rows(
    data: Any,
    design: Design,
    names: Sequence[str] | None,
    target: str | None,
    top: float,
    logs: bool,
) -> SiteRows:
    """Read a pair (X, y), a table or pieces of such; see `tacit.regression.rows.row_pieces`."""
    shown = names or tuple(f"column {k}" for k in range(design.features))
    xs, ys, first = [], [], 0
    for x, y in row_pieces(data, names or design.features, target):
        check_piece(x, y, first, shown)
        xs.append(np.asarray(x, np.float64))
        ys.append(np.asarray(y, np.float64))
        first += len(y)
    if not first:
        raise ParameterError("X must have at least one row: found array with 0 sample(s)")
    return site_rows(np.concatenate(xs), np.concatenate(ys), design, top, logs)
