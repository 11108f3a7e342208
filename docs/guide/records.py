"""Figures of experiments and benchmarks, rendered from the records that their commands wrote.

``python -m experiments NAME --record docs/figures`` writes a record with its command, commit, form
and date; no page quotes such a figure by hand.

=============================  ============================================================
``{record} NAME``              a table of the record's rows; ``:columns: Title <- key; …``,
                               ``:where: key = value; …`` (``a|b`` for either, ``*`` for any),
                               ``:checks:`` for its bars instead, ``:pivot: key = value`` for
                               one column per value of a key, ``:group: key`` for one row per
                               value of a key, with the range of all others
``{recorded}`NAME: text```     the value of the bar that begins with the text
``{experiment}`NAME```         the command, with a link to the list of all records
``{records}``                  that list
=============================  ============================================================
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective, SphinxRole

FIGURES = Path(__file__).resolve().parent.parent / "figures"
LIST = "experiments"  # the page with the list of all records
FIELDS = ("name", "command", "form", "commit", "date", "rows", "checks")


class BadRecord(ValueError):
    """A page asks for something that its record does not hold."""


def read(name: str, folder: Path = FIGURES) -> dict[str, Any]:
    """Return a record: ``NAME`` is the full form, ``NAME.quick`` the quick one."""
    path = folder / f"{name}.json"
    if not path.exists():
        raise BadRecord(
            f"there is no record {path.name}: run its command with --record docs/figures"
        )
    found = json.loads(path.read_text(encoding="utf-8"))
    lacking = [field for field in FIELDS if field not in found]
    if lacking:
        raise BadRecord(f"{path.name} lacks {', '.join(lacking)}")
    return dict(found)


def chosen(record: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the rows for which every ``key = value`` holds; values are compared as text."""
    wanted = dict(_pairs(where, " = "))
    keys = {key for row in record["rows"] for key in row}
    unknown = sorted(set(wanted) - keys)
    if unknown:
        raise BadRecord(
            f"{record['name']}: no row has {', '.join(unknown)}; there are {sorted(keys)}"
        )
    return [
        row
        for row in record["rows"]
        if all(key in row and (value == "*" or shown(row[key]) in value.split("|"))
               for key, value in wanted.items())
    ]  # fmt: skip


def table(
    record: dict[str, Any], columns: str = "", where: str = "", pivot: str = "", group: str = ""
) -> list[list[str]]:
    """Return the heading and the rows of a table, as text."""
    rows = chosen(record, where)
    if not rows:
        raise BadRecord(f"{record['name']}: no row is left by {where!r}")
    picked = _pairs(columns, " <- ") or [(key, key) for key in rows[0]]
    if pivot:
        rows, picked = _pivoted(record, rows, picked, pivot)
    for _, key in picked:
        if all(key not in row for row in rows):
            raise BadRecord(f"{record['name']}: no row has {key!r}; there are {sorted(rows[0])}")
    if group:
        rows = [_spanned([row for row in rows if row[group] == name]) for name in
                dict.fromkeys(row[group] for row in rows)]  # fmt: skip
    head = [title for title, _ in picked]
    return [head, *([shown(row.get(key, "")) for _, key in picked] for row in rows)]


def _pivoted(
    record: dict[str, Any], rows: list[dict[str, Any]], picked: list[tuple[str, str]], pivot: str
) -> tuple[list[dict[str, Any]], list[tuple[str, str]]]:
    """Turn the values of one key into columns that hold another one."""
    ((over, value),) = _pairs(pivot, " = ")
    if any(over not in row or value not in row for row in rows):
        raise BadRecord(f"{record['name']}: some row lacks {over!r} or {value!r}")
    spread = list(dict.fromkeys(shown(row[over]) for row in rows))
    kept: dict[tuple[str, ...], dict[str, Any]] = {}
    for row in rows:
        place = tuple(shown(row.get(key, "")) for _, key in picked)
        kept.setdefault(place, dict(row))[f"{over}:{shown(row[over])}"] = row[value]
    return list(kept.values()), [
        *picked,
        *((f"{over} = {name}", f"{over}:{name}") for name in spread),
    ]


def _spanned(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return one row for several: numbers as a range, words as a list."""
    found = {}
    for key in rows[0]:
        values = [row[key] for row in rows]
        if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            ends = dict.fromkeys((shown(min(values)), shown(max(values))))
            found[key] = " – ".join(ends)
        else:
            found[key] = ", ".join(dict.fromkeys(map(shown, values)))
    return found


def bar(record: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the one bar whose description is a text, or else begins with it."""
    exact = [check for check in record["checks"] if check["what"] == text]
    found = exact or [check for check in record["checks"] if check["what"].startswith(text)]
    if len(found) != 1:
        known = ", ".join(repr(check["what"]) for check in record["checks"])
        raise BadRecord(
            f"{record['name']}: {len(found)} bars begin with {text!r}; there are {known}"
        )
    return dict(found[0])


def shown(value: Any) -> str:
    """Return a value as a reader sees it: three digits, thousands apart.

    >>> shown(0.12345), shown(20000), shown("AGN"), shown(1234.56)
    ('0.123', '20,000', 'AGN', '1,235')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        if value == int(value) and abs(value) < 1e15:
            return shown(int(value))
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return str(value)


def provenance(record: dict[str, Any]) -> str:
    """Return where the figures of a record came from, in one sentence."""
    said = f"{record['form']} form, commit {record['commit']}, {record['date']}"
    return said + (f"; {record['note']}" if record.get("note") else "")


def _pairs(text: str, between: str) -> list[tuple[str, str]]:
    """Return the pairs of a list such as ``a = b; c``; a single word stands for both."""
    found = []
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        left, _, right = part.partition(between)
        found.append((left.strip(), (right or left).strip()))
    return found


# -- what pages say -------------------------------------------------------------------------


def _source(record: dict[str, Any]) -> nodes.paragraph:
    """Return the line below a table: command, form, commit, date."""
    line = nodes.paragraph(classes=["provenance"])
    line += nodes.Text("From ")
    line += nodes.literal(text=record["command"])
    line += nodes.Text(f" in a clone: {provenance(record)}.")
    return line


def _grid(texts: list[list[str]]) -> nodes.table:
    group = nodes.tgroup(cols=len(texts[0]))
    group += [nodes.colspec(colwidth=1) for _ in texts[0]]
    head, body = nodes.thead(), nodes.tbody()
    for number, line in enumerate(texts):
        row = nodes.row()
        for text in line:
            row += nodes.entry("", nodes.paragraph(text=text))
        (body if number else head).append(row)
    group += [head, body]
    return nodes.table("", group, classes=["record", "docutils"])


class Record(SphinxDirective):
    """A table of a record, or its bars."""

    required_arguments = 1
    option_spec: ClassVar = {
        "columns": directives.unchanged,
        "where": directives.unchanged,
        "pivot": directives.unchanged,
        "group": directives.unchanged,
        "checks": directives.flag,
    }

    def run(self) -> list[nodes.Node]:
        """Return the table and where it came from."""
        self.env.note_dependency(str(FIGURES / f"{self.arguments[0]}.json"))
        try:
            record = read(self.arguments[0])
            if "checks" in self.options:
                texts = [["measured", "value", "bar", "met"]]
                for found in record["checks"]:
                    met = "yes" if found["ok"] else "no"
                    texts.append([found["what"], shown(found["value"]), found["bar"], met])
            else:
                options = {
                    key: self.options.get(key, "")
                    for key in ("columns", "where", "pivot", "group")
                }
                texts = table(record, **options)
        except BadRecord as problem:
            raise self.error(str(problem)) from problem
        return [_grid(texts), _source(record)]


class Recorded(SphinxRole):
    """One figure in a sentence."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the value, with its origin where a reader points at it."""
        name, _, text = self.text.partition(":")
        self.env.note_dependency(str(FIGURES / f"{name}.json"))
        try:
            record = read(name)
            value = shown(bar(record, text.strip())["value"])
        except BadRecord as problem:
            message = self.inliner.reporter.error(str(problem), line=self.lineno)
            return [nodes.problematic(self.rawtext, self.rawtext)], [message]
        title = f"{record['command']}: {provenance(record)}"
        node = nodes.inline("", value, classes=["recorded"])
        link = nodes.reference("", "", node, internal=True, refuri=_entry(self.env, name))
        link["reftitle"] = title
        return [link], []


class Experiment(SphinxRole):
    """The command of an experiment or a benchmark."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Return the command, linked to its record."""
        self.env.note_dependency(str(FIGURES / f"{self.text}.json"))
        try:
            command = read(self.text)["command"]
        except BadRecord as problem:
            message = self.inliner.reporter.error(str(problem), line=self.lineno)
            return [nodes.problematic(self.rawtext, self.rawtext)], [message]
        code = nodes.literal(text=command)
        refuri = _entry(self.env, self.text)
        return [nodes.reference("", "", code, internal=True, refuri=refuri)], []


def _entry(env: Any, name: str) -> str:
    here = env.docname
    page = "../" * here.count("/") + f"{LIST}.html" if here != LIST else ""
    return f"{page}#{nodes.make_id('record-' + name)}"


class Records(SphinxDirective):
    """The list of all records."""

    def run(self) -> list[nodes.Node]:
        """Return one entry per record: its bars, and where they came from."""
        found: list[nodes.Node] = []
        for path in sorted(FIGURES.glob("*.json")):
            self.env.note_dependency(str(path))
            record = read(path.stem)
            section = nodes.section(ids=[nodes.make_id(f"record-{path.stem}")])
            section += nodes.title(text=path.stem)
            section += _source(record)
            if record["checks"]:
                texts = [["measured", "value", "bar", "met"]]
                for check in record["checks"]:
                    met = "yes" if check["ok"] else "no"
                    texts.append([check["what"], shown(check["value"]), check["bar"], met])
                section += _grid(texts)
            found.append(section)
        return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives and roles."""
    app.add_directive("record", Record)
    app.add_directive("records", Records)
    app.add_role("recorded", Recorded())
    app.add_role("experiment", Experiment())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
