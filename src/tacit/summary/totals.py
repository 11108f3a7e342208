"""`Totals`: what a summary learned, and the public law of its noise, as a release keeps them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.summary.block import Block, Law
from tacit.summary.layout import Layout
from tacit.summary.naming import Named, added_up
from tacit.summary.ranks import Ranks

__all__ = ["Totals"]

_PLACE = "released"  # where a release keeps them


@dataclass(frozen=True)
class Totals:
    """The noisy sum of all rows' vectors, how many rows where that is public, and quantiles.

    Attributes
    ----------
    sum
        Of vectors, groups side by side.
    rows
        The number of rows where it is public; else None.
    law
        Of the noise on each number of the sum.
    ranks
        Quantiles with a release of their own, by column.
    keys
        Values that were named of columns whose list is not public, by column.
    """

    sum: Array
    rows: int | None
    law: Law
    ranks: tuple[Ranks, ...] = ()
    keys: tuple[Named, ...] = ()

    @classmethod
    def of(
        cls, total: Array, rows: int | None, sites: int, noise: Gaussian | Laplace | None
    ) -> Totals:
        """Return what sites with noise of one law sent."""
        sd = 0.0 if noise is None else math.sqrt(noise.variance() * sites)
        return cls(total, rows, Law(sd, sites, isinstance(noise, Laplace)))

    def __add__(self, other: Totals) -> Totals:
        """Add later rows; quantiles with a release of their own do not add up."""
        law = Law(
            math.hypot(self.law.sd, other.law.sd),
            self.law.sites + other.law.sites,
            self.law.laplace and other.law.laplace,
        )
        rows = None if self.rows is None or other.rows is None else self.rows + other.rows
        keys = tuple(added_up(both) for both in zip(self.keys, other.keys, strict=True))
        return Totals(self.sum + other.sum, rows, law, keys=keys)

    def blocks(self, layout: Layout) -> list[Block]:
        """Return the part of every group."""
        parts = np.split(self.sum, layout.groups)
        return [Block(layout, part, self.rows, self.law, self.ranks) for part in parts]

    @property
    def arrays(self) -> dict[str, Array]:
        """Everything but keys by name, as a release keeps it; columns by their position."""
        law = {f"{_PLACE}/{n}": np.array(getattr(self.law, n)) for n in ("sd", "sites", "laplace")}
        found = {f"{_PLACE}/sum": self.sum, **law}
        if self.rows is not None:
            found[f"{_PLACE}/rows"] = np.array(self.rows)
        for c, ranks in enumerate(self.ranks):
            parts = {part.name: np.asarray(getattr(ranks, part.name)) for part in fields(Ranks)}
            found |= {f"{_PLACE}/quantiles {c}/{name}": part for name, part in parts.items()}
        return found

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Totals:
        """Return them from what a release keeps; keys stand among its counts."""
        kept = {n.removeprefix(f"{_PLACE}/"): a for n, a in arrays.items() if cls.holds(n)}
        law = Law(float(kept["sd"]), int(kept["sites"]), bool(kept["laplace"]))
        rows = int(kept["rows"]) if "rows" in kept else None
        ranks: list[Ranks] = []
        while f"quantiles {len(ranks)}/values" in kept:
            names = [part.name for part in fields(Ranks)]
            parts: dict[str, Any] = {n: kept[f"quantiles {len(ranks)}/{n}"] for n in names}
            ranks.append(Ranks(**{**parts, "variance": float(parts["variance"])}))
        return cls(np.asarray(kept["sum"]), rows, law, tuple(ranks))

    @staticmethod
    def holds(name: str) -> bool:
        """Whether an array of a release belongs here."""
        return name.startswith(f"{_PLACE}/")
