"""`Columns`: what is public about a table, stated once for every estimator.

The kinds and ranges of its columns, which column names the person, how many rows a person may
have, and what is done about values that are missing, unknown or out of range. Each rule looks at
one row, or at the rows of one person, and at nothing else (PRIVACY A13), and is listed on the
certificate.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import InstanceOf, Integer, OneOf, Range, check
from tacit._core.rng import WordStream
from tacit.data.dictionary import field_kind
from tacit.data.duplicates import RULES
from tacit.data.free_text import Keys, Text
from tacit.data.kinds import Category, Date, Kind, Number
from tacit.data.problems import BadTable, Problem, raise_for, trouble
from tacit.data.reading import Table, read_rows
from tacit.data.records import counted_once, record_codes, records_note
from tacit.data.rows import Rows, bounded, numbered
from tacit.data.rules import Rules
from tacit.data.stating import kind_of
from tacit.data.truth import Boolean
from tacit.errors import ParameterError, UnboundedData

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PER_PERSON", "Columns"]

Ranges = dict[str, tuple[float, float]]

_SETTINGS = (
    "person",
    "rows_per_person",
    "per_person",
    "target",
    "key",
    "duplicates",
    "missing",
    "unknown",
    "outside",
    "constants",
)
# how certificates say that people are the unit
PER_PERSON = re.compile(r"^at most \d+ rows of one person count$|^each person counts as one row")


class Columns(Mapping[str, Kind]):
    """What is public about a table.

    Parameters
    ----------
    columns
        Column → kind: `number`, `category`, `date`, `time`, `boolean`, `text`, `keys`; a pair of
        numbers is a range, a list of values a category. May be given as keywords too.
    person
        The column that names the person of a row, read as text: ``0012`` is not ``12``.
    rows_per_person
        How many rows of one person count at most; more are left out, chosen at random without
        looking at what they hold. Needed with ``person``, unless people are averaged.
    per_person
        Whether each of a person's ``"rows"`` counts, or their ``"average"`` as one row.
    target
        The column that a model explains, where it is always the same.
    key
        The column, or columns, that name a record: rows that agree in them (and in the person) are
        one record and count once. Where nobody is named, a record is what one unit of privacy is.
    duplicates
        What counts of a record that stands in several rows: an ``"error"`` to the holder; the
        ``"first"`` of them; the ``"mean"`` of its numbers and dates; or the ``"sum"`` of its
        numbers. What has no mean or sum must agree.
    missing
        What a missing value is: an ``"error"`` to the holder; a reason to ``"drop"`` the row; or
        ``"impute"``, filled in with the column's constant.
    unknown
        What a value outside a category's list, or a key that is too long, is: an ``"error"``, a
        reason to ``"drop"`` the row, or the value that stands for all others.
    outside
        What a number or date outside its range is: an ``"error"``, ``"clip"`` to the range, or
        a reason to ``"drop"`` the row.
    constants
        Column → the public value that is filled in; the middle of the range, or the first of a
        list, if left out.

    Examples
    --------
    >>> from tacit.data.stating import category, number
    >>> columns = Columns(age=number(20, 90), sex=category("f", "m"), missing="drop")
    >>> rows = columns.read({"sex": ["m", "f", "m"], "age": ["40", "", "50"]})
    >>> rows.values["age"].tolist(), rows.dropped
    ([40.0, 50.0], 1)
    """

    def __init__(
        self,
        columns: Mapping[str, Any] | None = None,
        /,
        *,
        person: str | None = None,
        rows_per_person: int | None = None,
        per_person: str = "rows",
        target: str | None = None,
        key: str | Sequence[str] | None = None,
        duplicates: str = "error",
        missing: str = "error",
        unknown: Any = "error",
        outside: str = "error",
        constants: Mapping[str, Any] | None = None,
        **further: Any,
    ) -> None:
        stated = {**(columns or {}), **further}
        if not stated:
            raise UnboundedData(
                "columns must be stated: pass Columns(age=tc.number(20, 90), …); nothing public "
                "is read from private data"
            )
        self.kinds = {str(name): kind_of(str(name), kind) for name, kind in stated.items()}
        for name, kind in self.kinds.items():
            if isinstance(kind, Number):
                check(f"columns[{name!r}]", kind.range, Range())
        if rows_per_person is not None:
            check("rows_per_person", rows_per_person, Integer(1, 10**6))
        check("per_person", per_person, OneOf("rows", "average"))
        averaged = per_person == "average"
        if person is None and (rows_per_person is not None or averaged):
            raise ParameterError("rows_per_person and per_person need person, whose rows they are")
        if person is not None and rows_per_person is None and not averaged:
            raise UnboundedData(
                "person and rows_per_person go together: how many rows one person may have is "
                "public, and bounds what they can change; or pass per_person='average'"
            )
        if person is not None and person in self.kinds:
            raise ParameterError(f"the person column {person!r} names people, it has no kind")
        if target is not None and target not in self.kinds:
            raise ParameterError(f"the target {target!r} is none of {list(self.kinds)}")
        self.person, self.rows_per_person, self.target = person, rows_per_person, target
        self.per_person = per_person
        self.key, self.duplicates = self._record_key(key, duplicates), duplicates
        self.missing, self.unknown, self.outside = missing, unknown, outside
        self.constants = dict(constants or {})
        self._rules.check(self.kinds)

    @property
    def _rules(self) -> Rules:
        return Rules(self.missing, self.unknown, self.outside, self.constants)

    def _record_key(self, key: Any, duplicates: str) -> list[str] | None:
        """Return the columns that name a record within a person."""
        check("duplicates", duplicates, OneOf(*RULES))
        if key is None:
            if duplicates != "error":
                raise ParameterError(
                    f"duplicates={duplicates!r} needs key, which says which rows are one record: "
                    "pass key='record_id', the column or columns that name it"
                )
            return None
        names = [key] if isinstance(key, str) else key
        check("key", names, InstanceOf(list, tuple, text="a column or a list of columns"))
        own = [str(name) for name in dict.fromkeys(names) if name != self.person]
        if not own:
            raise ParameterError("key must name a column besides the person")
        return own

    # -- a mapping ---------------------------------------------------------------------------

    def __getitem__(self, name: str) -> Kind:
        return self.kinds[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.kinds)

    def __len__(self) -> int:
        return len(self.kinds)

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}: {kind.word}" for name, kind in self.kinds.items())
        return f"<Columns {shown}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Columns) and self.described() == other.described()

    def __hash__(self) -> int:
        return hash(json.dumps(self.described(), sort_keys=True, default=str))

    @property
    def unit(self) -> str:
        """The unit of privacy that the table asks for."""
        return "row" if self.person is None else "user"

    @property
    def averaged(self) -> bool:
        """Whether people count by their average."""
        return self.per_person == "average"

    def grid(self, name: str) -> float:
        """Return how far apart a column's values are, where neither people nor rows are averaged.

        Parameters
        ----------
        name
            The column.
        """
        return 0.0 if self.averaged or self.duplicates == "mean" else self[name].grid

    @property
    def rows_per_unit(self) -> int:
        """How many rows one unit of privacy has at most."""
        return 1 if self.rows_per_person is None or self.averaged else self.rows_per_person

    # -- in and out of files -----------------------------------------------------------------

    @classmethod
    def of(cls, stated: Any, **settings: Any) -> Columns:
        """Return what somebody stated as columns: such, a mapping, or the path of a file."""
        if isinstance(stated, Columns):
            return stated
        if isinstance(stated, str | Path):
            return cls.from_file(stated)
        if not isinstance(stated, Mapping):
            kind = type(stated).__name__
            raise ParameterError(f"columns must be Columns, a mapping or a path, got {kind}")
        return cls._from_mapping(dict(stated), settings)

    @classmethod
    def _from_mapping(cls, stated: dict[str, Any], settings: Mapping[str, Any]) -> Columns:
        own = {
            key: stated.pop(key)
            for key in _SETTINGS
            if key in stated and not isinstance(stated[key], Kind | Mapping | tuple)
        }
        if isinstance(stated.get("constants"), Mapping) and "kind" not in stated["constants"]:
            own["constants"] = stated.pop("constants")
        return cls(stated, **{**settings, **own})

    @classmethod
    def from_file(cls, path: str | Path) -> Columns:
        """Read columns from a TOML file, or from a JSON data dictionary (Table Schema).

        A TOML file has a table ``[columns]`` with one entry per column, such as
        ``age = {kind = "number", low = 20, high = 90}``; a dictionary is Frictionless' Table
        Schema, with ``minimum`` and ``maximum``, or ``enum``, among a field's constraints.
        """
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8-sig")
            if file.suffix == ".json":
                return cls.from_dictionary(json.loads(text))
            found = tomllib.loads(text)
        except (OSError, UnicodeDecodeError, ValueError) as error:
            if isinstance(error, ParameterError | UnboundedData):
                raise
            raise ParameterError(f"{file.name} cannot be read: {error}") from None
        return cls._from_mapping(dict(found.get("columns", found)), {})

    @classmethod
    def from_dictionary(cls, dictionary: Mapping[str, Any], **settings: Any) -> Columns:
        """Return the columns of a Frictionless Table Schema.

        Examples
        --------
        >>> limits = {"minimum": 0, "maximum": 99}
        >>> field = {"name": "age", "type": "integer", "constraints": limits}
        >>> Columns.from_dictionary({"fields": [field]})
        <Columns age: number>
        """
        fields = dictionary.get("schema", dictionary).get("fields")
        if not isinstance(fields, list) or not fields:
            raise ParameterError("a data dictionary has a list of fields: see Table Schema")
        kinds = {}
        for entry in fields:
            if not isinstance(entry, Mapping) or "name" not in entry:
                raise ParameterError("every field of a data dictionary has a name")
            if (name := str(entry["name"])) != settings.get("person"):
                kinds[name] = field_kind(entry)
        return cls(kinds, **settings)

    def described(self) -> dict[str, Any]:
        """Return everything as plain data, which `of` reads."""
        plain: dict[str, Any] = {name: kind.described() for name, kind in self.kinds.items()}
        for key in _SETTINGS:
            value = getattr(self, key)
            if value not in (None, {}) and not (key == "duplicates" and self.key is None):
                plain[key] = value
        return plain

    # -- what a model sees -------------------------------------------------------------------

    def encoded(self, names: Sequence[str], positions: bool = False) -> Ranges:
        """Return what a model sees, categories as indicators or ``positions``: name → range."""
        if positions:
            return {name: self.kinds[name].range for name in names}
        found: Ranges = {}
        for name in names:
            kind = self.kinds[name]
            for own in kind.encoded(name):
                if own in found:
                    raise ParameterError(f"two columns are called {own!r}: rename one of them")
                found[own] = (0.0, 1.0) if isinstance(kind, Category) else kind.range
        return found

    def in_order(self, names: Sequence[str]) -> Columns:
        """Return the same columns in the order in which `encoded` names them."""
        place = {name: k for k, name in enumerate(names)}
        order = sorted(self.kinds, key=lambda own: place[self.kinds[own].encoded(own)[0]])
        settings = {key: getattr(self, key) for key in _SETTINGS}
        return Columns({own: self.kinds[own] for own in order}, **settings)

    def assumptions(self) -> tuple[str, ...]:
        """Return what is public besides the ranges of numbers, in words for certificates."""
        lines = []
        for name, kind in self.kinds.items():
            if isinstance(kind, Category):
                lines.append(f"{name} is one of {len(kind.levels)} stated values")
            elif isinstance(kind, Date):
                low, high = kind.range
                lines.append(f"{name} lies between {kind.show(low)} and {kind.show(high)}")
            elif isinstance(kind, Boolean | Text):
                lines.append(f"{name} is {kind.word}")
            elif isinstance(kind, Keys):
                lines.append(f"{name} has values of at most {kind.length} bytes, not listed")
        lines += self._rules.stated(self.kinds)
        if self.key is not None:
            lines.append(records_note(self.key, self.duplicates, self.person))
        if self.rows_per_person is not None:
            lines.append(f"at most {self.rows_per_person} rows of one person count")
        if self.averaged:
            lines.append("each person counts as one row, the average of theirs")
        return tuple(lines)

    @property
    def drops(self) -> bool:
        """Whether a row may be left out for what it holds."""
        return self._rules.drops

    # -- a holder's table --------------------------------------------------------------------

    def read(
        self,
        data: Any,
        names: Sequence[str] | None = None,
        *,
        folder: Path | None = None,
        words: WordStream | None = None,
    ) -> Rows:
        """Return a holder's rows as numbers, or raise `BadTable` with all that is wrong.

        Parameters
        ----------
        data
            Whatever `tacit.data.reading.read_rows` reads.
        names
            The columns that are needed; all of them if left out.
        folder
            Where relative paths begin.
        words
            Randomness that chooses among a person's rows; fresh if left out.
        """
        wanted = list(self.kinds) if names is None else list(names)
        stated = [name for name in self.kinds if name in wanted]  # the order of an array's columns
        table = read_rows(data, stated, folder)
        raise_for(self._absent(table, wanted))
        kinds = {name: self.kinds[name] for name in wanted}
        parsed, (people, problems) = table.parsed(kinds, lambda: self._people(table))
        keep, rules = np.ones(table.rows, bool), self._rules
        values = {}
        for name, kind in kinds.items():
            problems += rules.troubles(table, name, kind, parsed[name])
            values[name] = rules.mended(name, kind, parsed[name], keep)
        if self.key is not None:
            problems += self._counted_once(table, kinds, values, keep, people)
        raise_for(problems)
        if people is not None and self.rows_per_person is not None:
            keep &= bounded(people, keep, self.rows_per_person, words)
        if not keep.all():
            values = {name: column[keep] for name, column in values.items()}
            people = None if people is None else people[keep]
        return Rows(values, people, int(len(keep) - keep.sum()), kinds, self.averaged)

    def encode(self, data: Any, names: Sequence[str], positions: bool = False) -> NDArray[Any]:
        """Return what a model sees of rows to predict for, one each; none is left out.

        A value outside its range is taken as it is; what is missing or unknown is refused, unless
        a public constant stands for it as in the fit.
        """
        table, parts, problems = read_rows(data, names), [], []
        raise_for(self._absent(table, names, person=False))
        for name in names:
            kind = self.kinds[name]
            values, wrong = self._rules.of_new(table, name, kind, table.parse(name, kind))
            problems += wrong
            parts.append(values if positions else kind.encode(values))
        raise_for(problems)
        return np.column_stack(parts)

    def problems(self, data: Any, folder: Path | None = None) -> tuple[Problem, ...]:
        """Return everything that is wrong with a holder's table, in one pass."""
        try:
            self.read(data, folder=folder)
        except BadTable as error:
            return error.problems
        except ParameterError as error:
            return (Problem("the table", "", (), 0, str(error)),)
        return ()

    def _absent(
        self, table: Table, wanted: Sequence[str], *, person: bool = True
    ) -> list[Problem]:
        found = []
        own = [*([self.person] if self.person else []), *(self.key or [])]
        for name in dict.fromkeys([*wanted, *(own if person else [])]):
            if not table.has(name):
                near = table.near(name)
                remedy = (
                    f"{near} could both be meant: rename one"
                    if near
                    else f"the table has {table.frame.columns[:20]}"
                )
                found.append(Problem("no such column", name, (), 1, remedy))
        return found

    def _people(self, table: Table) -> tuple[NDArray[np.int64] | None, list[Problem]]:
        if self.person is None:
            return None, []
        names, absent = table.names(self.person)
        remedy = "a row must say whose it is: fill it in, or take the row out"
        return numbered(names), trouble(table, "missing", self.person, absent, names, remedy)

    def _counted_once(
        self,
        table: Table,
        kinds: Mapping[str, Kind],
        values: dict[str, NDArray[Any]],
        keep: NDArray[np.bool_],
        people: NDArray[np.int64] | None,
    ) -> list[Problem]:
        """Let every record count once, by the rule for those that stand in several rows."""
        assert self.key is not None
        codes, problems = record_codes(table, self.key, self.kinds, people)
        rules, named = (self.duplicates, self.outside), [*filter(None, [self.person]), *self.key]
        return problems or counted_once(table, kinds, values, keep, codes, rules, named)
