"""Columns of truth values, in the words that somebody stated for true and for false."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit.data.kinds import Kind, Parsed
from tacit.data.values import (
    NA_WORDS,
    few,
    floats,
    lowered,
    missing_among,
    plain_text,
    read_texts,
    texts,
)
from tacit.errors import ParameterError

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

__all__ = ["Boolean"]

_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


@dataclass(frozen=True)
class Boolean(Kind):
    """True or false; ``yes`` and ``no``, ``1`` and ``0`` too, or the words that are stated."""

    true: tuple[str, ...] = _TRUE
    false: tuple[str, ...] = _FALSE

    word: ClassVar[str] = "boolean"

    def __post_init__(self) -> None:
        for name in ("true", "false"):
            words = tuple(plain_text(word).lower() for word in getattr(self, name))
            object.__setattr__(self, name, words)
        if not self.true or not self.false or set(self.true) & set(self.false):
            raise ParameterError(
                "a truth value needs words for true and others for false, as in "
                f"tc.boolean('ja', 'nein'), got {list(self.true)} and {list(self.false)}"
            )

    def parse(self, column: pl.Series, words: Sequence[str] = NA_WORDS) -> Parsed:
        """Return ones and zeros."""
        import polars as pl

        if column.dtype == pl.Boolean:
            values = floats(column.cast(pl.Float64))
            nothing = np.zeros(len(values), bool)
            return Parsed(values, np.isnan(values), nothing, nothing)
        found, values = read_texts(column, self._read)
        missing = missing_among(found, words, values)
        stated = [word for word in lowered(words) if word in (*self.true, *self.false)]
        if stated:  # whoever states that 0 stands for nothing does not mean every "no"
            missing |= texts(found).str.to_lowercase().is_in(stated).fill_null(False).to_numpy()
            values[missing] = np.nan
        bad = np.isnan(values) & ~missing
        return Parsed(values, missing, bad, np.zeros(len(values), bool))

    def _read(self, found: pl.Series) -> NDArray[np.float64]:
        """Return ones and zeros of texts in any case; NaN where there is none."""
        import polars as pl

        small = [*self.true, *self.false]
        forms = [*small, *(w.upper() for w in small), *(w.title() for w in small)]
        listed = pl.Enum(list(dict.fromkeys(forms)))
        place = floats(found.cast(listed, strict=False).to_physical())
        left = np.flatnonzero(np.isnan(place))
        if left.size:
            place[left] = floats(
                found[left].str.to_lowercase().cast(listed, strict=False).to_physical()
            )
        means = np.array(
            [float(str(w).lower() in self.true) for w in listed.categories] + [np.nan]
        )
        return np.asarray(means[np.where(np.isnan(place), -1, place).astype(np.intp)], np.float64)

    @property
    def remedy(self) -> str:
        """What to do about a value that cannot be read."""
        if self != Boolean():
            return f"{few(self.true)} or {few(self.false)} is needed"
        return "true or false is needed (yes and no, 1 and 0 will do): mend it, or state the words"

    @property
    def range(self) -> tuple[float, float]:
        """Zero and one."""
        return 0.0, 1.0

    @property
    def grid(self) -> float:
        """There is nothing between no and yes."""
        return 1.0

    def show(self, value: float) -> str:
        """Return true or false."""
        return "true" if value else "false"

    def described(self) -> dict[str, Any]:
        """Return everything as plain data."""
        own = {} if self == Boolean() else {"true": list(self.true), "false": list(self.false)}
        return {"kind": self.word, **own}
