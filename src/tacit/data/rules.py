"""What is done about values that are missing, unknown or out of range: one value at a time.

Each rule looks at one value and at what is public, and at nothing else (PRIVACY A13).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import OneOf, check
from tacit.data.free_text import Keys, Text
from tacit.data.kinds import Category, Kind, Parsed
from tacit.data.problems import Problem, trouble
from tacit.data.reading import Table, read_rows
from tacit.data.truth import Boolean
from tacit.data.values import plain_text
from tacit.errors import ParameterError, UnboundedData

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Rules"]

_MISSING = ("error", "drop", "impute")
_OUTSIDE = ("error", "clip", "drop")


@dataclass(frozen=True)
class Rules:
    """The rules that `tacit.Columns` states, in its words.

    Parameters
    ----------
    missing, unknown, outside
        What becomes of a value that is not there, of one that no list holds, and of one outside
        its range.
    constants
        Column → what is filled in.
    """

    missing: str = "error"
    unknown: Any = "error"
    outside: str = "error"
    constants: Mapping[str, Any] = field(default_factory=dict)

    def check(self, kinds: Mapping[str, Kind]) -> None:
        """Raise where the rules do not fit the columns."""
        check("missing", self.missing, OneOf(*_MISSING))
        check("outside", self.outside, OneOf(*_OUTSIDE))
        for name in self.constants:
            if name not in kinds:
                raise ParameterError(f"constants name {name!r}, which is none of the columns")
        for name, kind in kinds.items():
            if self._stands and kind.listed and self._standing(kind) is None:
                raise ParameterError(
                    f"unknown={self.unknown!r} is none of the values of {name!r}: pass 'error', "
                    "'drop' or a value that every category lists"
                )
            if isinstance(kind, Keys) and self.missing == "impute":
                self._constant(name, kind)

    @property
    def drops(self) -> bool:
        """Whether a row may be left out for what it holds."""
        return "drop" in (self.missing, self.unknown, self.outside)

    @property
    def _stands(self) -> bool:
        """Whether one value stands for all that no list holds."""
        return self.unknown not in ("error", "drop")

    def stated(self, kinds: Mapping[str, Kind]) -> Iterator[str]:
        """Yield what a certificate says about them."""
        if self.missing == "drop":
            yield "rows with a missing value are left out"
        if self.missing == "impute":
            yield "a missing value counts as a public constant"
        if self.unknown != "error":
            what = f"count as {self.unknown!r}" if self._stands else "are left out"
            if any(isinstance(kind, Category) for kind in kinds.values()):
                yield f"values outside a category's list {what}"
            if any(isinstance(kind, Keys) for kind in kinds.values()):
                yield f"keys that are too long {what}"
        if self.outside != "error":
            what = "is clipped" if self.outside == "clip" else "leaves its row out"
            yield f"what lies outside its range {what}"

    def troubles(self, table: Table, name: str, kind: Kind, parsed: Parsed) -> list[Problem]:
        """Return what is wrong with a column and no rule speaks of."""
        column = table.column(name)
        found = trouble(table, "unreadable", name, parsed.bad, column, kind.remedy)
        if self.missing == "error":
            remedy = "fill it in, or pass missing='drop' or missing='impute'"
            found += trouble(table, "missing", name, parsed.missing, column, remedy)
        if (self.unknown if kind.listed else self.outside) == "error":
            what = "unknown" if isinstance(kind, Category) else "outside its range"
            what = "too long" if isinstance(kind, Keys) else what
            found += trouble(table, what, name, parsed.outside, column, kind.remedy_outside)
        return found

    def mended(
        self, name: str, kind: Kind, parsed: Parsed, keep: NDArray[np.bool_]
    ) -> NDArray[Any]:
        """Return a column with its rules applied, value by value; rows to leave out are marked."""
        values = parsed.values
        if self.missing == "drop":
            keep &= ~parsed.missing
        elif self.missing == "impute" and parsed.missing.any():
            values = np.where(parsed.missing, self._constant(name, kind), values)
        if kind.listed:
            if self._stands:
                standing = self._standing(kind)
                assert standing is not None  # as `check` has seen
                values = np.where(parsed.outside, standing, values)
            else:
                keep &= ~parsed.outside
        elif self.outside == "drop":
            keep &= ~parsed.outside
        elif parsed.outside.any():
            values = np.clip(values, *kind.range)
        return np.asarray(values, np.float64 if kind.modelled else object)

    def of_new(
        self, table: Table, name: str, kind: Kind, parsed: Parsed
    ) -> tuple[NDArray[np.float64], list[Problem]]:
        """Return a column of rows to predict for, of which none is left out, and what is wrong.

        Public constants stand in as in the fit; a value outside its range is taken as it is.
        """
        column, values = table.column(name), parsed.values
        found = trouble(table, "unreadable", name, parsed.bad, column, kind.remedy)
        if self.missing == "impute":
            values = np.where(parsed.missing, self._constant(name, kind), values)
        else:
            remedy = "fill it in, or fit with missing='impute'"
            found += trouble(table, "missing", name, parsed.missing, column, remedy)
        if kind.listed and self._stands:
            standing = self._standing(kind)
            assert standing is not None  # as `check` has seen
            values = np.where(parsed.outside, standing, values)
        else:
            unknown = parsed.outside & (kind.listed | np.isinf(parsed.values))
            what = "unknown" if kind.listed else "not finite"
            remedy = kind.remedy_outside if kind.listed else "a finite number is needed"
            found += trouble(table, what, name, unknown, column, remedy)
        return np.asarray(values, np.float64), found

    def _standing(self, kind: Kind) -> float | str | None:
        """Return what stands for a value that no list holds, as it is parsed."""
        return _one(kind, self.unknown)

    def _constant(self, name: str, kind: Kind) -> float | str:
        """Return the public value that stands for a missing one."""
        if name in self.constants:
            found = _one(kind, self.constants[name])
            if found is None:
                raise ParameterError(f"constants[{name!r}] is no value of that column")
            return found
        if isinstance(kind, Keys):
            raise UnboundedData(
                f"constants[{name!r}] must be given with missing='impute': keys have no public "
                "list to take a value from"
            )
        if isinstance(kind, Text):
            return ""
        if isinstance(kind, Category | Boolean):
            return 0.0
        low, high = kind.range
        return low / 2.0 + high / 2.0


def _one(kind: Kind, value: Any) -> float | str | None:
    """Return one public value as a column of its kind would have it; None if it is none."""
    parsed = kind.parse(read_rows({"value": [value]}).frame["value"])
    if parsed.bad[0] or parsed.missing[0] or parsed.outside[0]:
        return None
    return float(parsed.values[0]) if kind.modelled else plain_text(value)
