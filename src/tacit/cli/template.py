"""A configuration for any family, with a comment for every key and a blank for what is needed."""

from __future__ import annotations

import inspect
import json
import textwrap
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from tacit._core.check import AnyOf, Constraint, InstanceOf
from tacit.cli.described import described, first_sentence
from tacit.data.dictionary import written
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.blanks import BLANK, Blank

__all__ = ["reads_tables", "template"]

_ELSEWHERE = ("privacy", "ledger", "random_state", "columns", "entities")  # not in [parameters]
_REPLACED = ("bounds", "y_bounds", "classes", "features")  # by [columns], where there are such
_WIDTH = 96
_HEAD = """\
# {what}
#
# 1. Fill in every "…" (with its quotes: text stays in quotes, numbers do without).
#    A # without a space after it marks a setting with its default: take the # away to change it.
# 2. tacit check {file}   what is still open, and what is wrong with the data; nothing is paid
#    tacit price {file}   what it would cost each site
#    tacit fit {file}     fits, charges the ledgers, writes the release and the report
"""
_PRIVACY = """\
[privacy]                     # without this section no noise is added, and nothing is released
epsilon = "…"                 # how much one person may change what is learned; 1.0 is common
delta = "…"                   # the chance of more, far below 1 / (number of people), such as 1e-6
# Who or what is protected ("entry", "row", "user", "document"), how neighbours differ
# ("add-remove-one", "replace-one"), and who sees raw data ("central", "site", "local",
# "aggregator"). Left out, they are what suits the family, and tacit price says which.
#unit = "…"
#neighbours = "…"
#trust = "…"
"""
_SITE = """\
[[site]]                      # one section for each holder of data
name = "…"                    # what it is called in reports
data = "…"                    # its table: CSV, TSV, Parquet or Feather
ledger = "…"                  # its record of what was spent, a file; made with the next two
ledger_epsilon = "…"          # how much may be spent on these people in all, such as 4.0
ledger_delta = "…"            # likewise, such as 1e-5
"""
_OUTPUT = """\
[output]
release = "release"           # a new folder: what was learned, with its certificates
report = "report.html"        # one page for people
"""
_KINDS = """\
# A column is a number, date or time in a public range, a category, or true and false:
#sex = {kind = "category", levels = ["f", "m"]}
#admitted = {kind = "date", low = "2020-01-01", high = "2026-12-31"}
#smokes = {kind = "boolean"}
"""


def template(
    kind: type[PrivateEstimator],
    *,
    file: str = "FILE",
    plugins: tuple[str, ...] = (),
    columns: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """Return a configuration of an estimator, to be filled in.

    Parameters
    ----------
    kind
        The estimator.
    file
        What the configuration will be called.
    plugins
        The packages that its family is found in, besides tacit's own.
    columns
        The columns of a table as `tacit.data.dictionary.draft` gives them; without them one line
        stands for all.
    """
    blanks = _blanks(kind)
    parts = [_HEAD.format(what=f"{kind.__name__}: {first_sentence(kind)}", file=file)]
    parts.append(_top(kind, plugins, _of("", blanks)))
    parts.append(_parameters(kind, _of("parameters", blanks)))
    named = _of("columns", blanks)
    if reads_tables(kind):
        parts.append(_table(columns or {BLANK: {"kind": "number"}}, named))
    elif named:
        parts.append(_section("columns", "which column is which", named))
    if labels := _of("labels", blanks):
        parts.append(_section("labels", "public members", labels))
    return "\n".join([*parts, _PRIVACY, _SITE, _OUTPUT])


def reads_tables(kind: type[PrivateEstimator]) -> bool:
    """Whether a file says what is public about columns, and not only which one has which part."""
    parts = set(_of("columns", kind._to_state)) - {"target"}
    return "columns" in kind._get_param_names() and not parts


def _blanks(kind: type[PrivateEstimator]) -> dict[str, Blank]:
    """Return what a file must state: what the family says, and what has no default."""
    said = described(kind)
    required = {
        f"parameters.{name}": Blank(said.get(name, "needed"))
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is parameter.empty and name not in _ELSEWHERE
    }
    return {**required, **kind._to_state}


def _of(section: str, blanks: Mapping[str, Blank]) -> dict[str, Blank]:
    """Return the blanks of one section by their keys; an empty name is the top of the file."""
    places = {place.partition("."): blank for place, blank in blanks.items()}
    return {key: blank for (own, _, key), blank in places.items() if own == section}


def _top(kind: type, plugins: tuple[str, ...], blanks: Mapping[str, Blank]) -> str:
    lines = [f'estimator = "{kind.__name__}"']
    lines += [f"plugins = {json.dumps(plugins)}"] if plugins else []
    return "\n".join([*lines, *_lines(blanks)]) + "\n"


def _section(name: str, about: str, blanks: Mapping[str, Blank]) -> str:
    return "\n".join([f"[{name}]  # {about}", *_lines(blanks)]) + "\n"


def _lines(blanks: Mapping[str, Blank]) -> list[str]:
    return [
        f"{'' if blank.needed else '#'}{key} = {blank.form}  # {blank.words}"
        for key, blank in blanks.items()
    ]


def _table(columns: Mapping[str, Mapping[str, Any]], blanks: Mapping[str, Blank]) -> str:
    about = (
        "# What is public about the table. Ranges and lists are stated, never read from data.\n"
    )
    drafted = written(columns)
    if BLANK in columns:
        drafted += "  # a column and its range; one line for each"
    return about + "\n".join([drafted, *_lines(blanks)]) + "\n" + _KINDS


def _parameters(kind: type[PrivateEstimator], blanks: Mapping[str, Blank]) -> str:
    """Return the section of parameters: what is needed, then what has a default."""
    apart = {*_ELSEWHERE, *blanks}
    if reads_tables(kind):
        apart |= set(_REPLACED)
    said = described(kind)
    left = {
        name: parameter.default
        for name, parameter in inspect.signature(kind).parameters.items()
        if name not in apart and _can_be_written(parameter.default, kind._constraints.get(name))
    }
    lines = ["[parameters]  # of the estimator, as in Python", *_lines(blanks)]
    for words, names in groupby(left, lambda name: said.get(name, "")):
        lines += textwrap.wrap(
            words, _WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False
        )
        lines += [f"#{name} = {_toml(left[name])}" for name in names]
    return "\n".join(lines) + "\n"


def _can_be_written(default: Any, constraint: Constraint | Any) -> bool:
    """Whether a file can state a parameter: one of objects only is for Python."""
    if default is not None:
        return isinstance(default, str | bool | int | float | list | tuple)
    if isinstance(constraint, AnyOf):
        parts = [part for part in constraint.parts if part is not None]
        return any(_can_be_written(None, part) for part in parts)
    if isinstance(constraint, InstanceOf):
        return any(one in (str, bool, int, float, list, tuple) for one in constraint.types)
    return True


def _toml(value: Any) -> str:
    """Return a default as TOML; None has no form, so it is a blank for whoever wants another."""
    if value is None:
        return f'"{BLANK}"'
    return json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)
