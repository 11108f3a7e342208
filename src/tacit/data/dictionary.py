"""Columns from what others wrote down: data dictionaries, and drafts from public metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tacit.data.kinds import Kind
from tacit.data.reading import read_rows
from tacit.data.stating import kind_of
from tacit.errors import UnboundedData

__all__ = ["draft", "field_kind", "written"]


_HEAD = """\
[columns]
#person = "…"               # the column that names the person, and
#rows_per_person = "…"      # how many rows of one person count at most
#key = "…"                  # the column, or columns, that name a record, and
#duplicates = "error"       # or "first", "mean", "sum": what counts of several rows of one
#missing = "error"          # or "drop", "impute"
# columns of text: a public list of values, ["…", "…"]; {kind = "keys"} to count in a summary
# those that many people have; {kind = "text", vocabulary = ["…"]} for documents
"""


def draft(data: Any) -> dict[str, Any]:
    """Return a first version of ``[columns]`` from *names and types* alone; ranges are left open.

    Of a text file only the line of headings is looked at: all its columns are drafted as numbers.
    What is drafted cannot be used before people fill in the ranges.
    """
    table = read_rows(data)
    return {name: {"kind": _drafted(dtype)} for name, dtype in table.frame.schema.items()}


def written(columns: Mapping[str, Mapping[str, Any]]) -> str:
    """Return drafted columns as TOML, with a blank for everything that people have to state.

    >>> print(written({"age": {"kind": "number"}}).splitlines()[-1])
    "age" = {kind = "number", low = "…", high = "…"}
    """
    needs = {
        "number": 'low = "…", high = "…"',
        "date": 'low = "…", high = "…"',
        "time": 'low = "…", high = "…"',
        "category": 'levels = ["…"]',
    }
    lines = _HEAD.splitlines()
    for name, stated in columns.items():
        more = needs.get(str(stated["kind"]))
        inner = f'kind = "{stated["kind"]}"' + (f", {more}" if more else "")
        lines.append(f"{json.dumps(name, ensure_ascii=False)} = {{{inner}}}")
    return "\n".join(lines)


def _drafted(dtype: Any) -> str:
    import polars as pl

    if dtype == pl.Boolean:
        return "boolean"
    if dtype in (pl.Date, pl.Datetime):
        return "date" if dtype == pl.Date else "time"
    if dtype in (pl.Categorical, pl.Enum):
        return "category"
    return "number"


def field_kind(entry: Mapping[str, Any]) -> Kind:
    """Return the kind of a field of a Table Schema."""
    name, rules = str(entry["name"]), dict(entry.get("constraints") or {})
    sort = str(entry.get("type", "string"))
    if "enum" in rules:
        return kind_of(name, {"kind": "category", "levels": list(rules["enum"])})
    if sort == "boolean":
        said = {"true": entry.get("trueValues"), "false": entry.get("falseValues")}
        given = {key: words for key, words in said.items() if words}
        if len(given) == 1:  # what is not said is as the standard has it
            given = {"true": ["true", "1"], "false": ["false", "0"], **given}
        return kind_of(name, {"kind": "boolean", **given})
    word = {
        "number": "number",
        "integer": "number",
        "year": "number",
        "date": "date",
        "datetime": "time",
    }.get(sort)
    if entry.get("kind") == "keys":
        length = {"length": rules["maxLength"]} if "maxLength" in rules else {}
        return kind_of(name, {"kind": "keys", **length})
    if word is None:
        raise UnboundedData(
            f"field {name!r} is a {sort} without an enum: list its values, or leave it out; "
            '"kind": "keys" counts in a summary those that many people have'
        )
    ends = {"low": "minimum", "high": "maximum"}
    stated = {key: rules[own] for key, own in ends.items() if own in rules}
    form = str(entry.get("format", "default"))
    if word in ("date", "time") and form not in ("default", "any"):
        stated["formats"] = (form,)
    if word == "number" and entry.get("unit"):
        stated["unit"] = str(entry["unit"])
    if sort in ("integer", "year") and "low" in stated:
        stated["step"] = 1
    return kind_of(name, {"kind": word, **stated})
