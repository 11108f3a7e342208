"""Figures of the guide come from records, and records say where they come from."""

import json
import re

import pytest

from tests.docs.support import DOCS, pages

import guide.records as records  # isort: skip

RECORDS = sorted((DOCS / "figures").glob("*.json"))
MENTION = re.compile(r"python -m (?:experiments|benchmarks) [a-z0-9-]+")


def a_record(**changes):
    rows = [{"way": "a", "ε": 1.0, "error": 0.5}, {"way": "b", "ε": 1.0, "error": 0.25},
            {"way": "a", "ε": 10.0, "error": 0.125}]  # fmt: skip
    about = {"name": "table", "command": "python -m experiments table", "form": "full",
             "commit": "0123456789", "date": "2026-01-01", "checks": [], "rows": rows}  # fmt: skip
    return {**about, **changes}


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_says_where_it_comes_from(path):
    found = records.read(path.stem)
    assert re.match(rf"python -m (experiments|benchmarks) {found['name']}\b", found["command"])
    assert found["form"] in ("quick", "full")
    assert (found["form"] == "quick") == ("--quick" in found["command"])
    part = re.search(r"--only (\w+)", found["command"])
    stem = found["name"] + (f"-{part[1]}" if part else "")
    assert path.stem == stem + (".quick" if found["form"] == "quick" else "")
    assert re.fullmatch(r"[0-9a-f]{10}", found["commit"]), "record from a commit, without changes"
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
    assert found["rows"] or found["checks"]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_no_table_of_measured_figures_is_typed_in(page):
    """Four decimals or more in a table of a page are figures that somebody computed."""
    text = re.sub(r"^```.*?^```\s*$", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        cells = [cell.strip(" *`") for line in table.splitlines() for cell in line.split("|")]
        measured = [cell for cell in cells if re.match(r"[−-]?\d+\.\d\d+", cell)]
        assert len(measured) < 4, f"use a record: {measured}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_commands_of_a_clone_are_cited_by_their_record(page):
    """A command that is typed in has no figures beside it, and says that it needs a clone."""
    if page.stem in ("experiments", "changelog"):
        return
    for paragraph in page.read_text(encoding="utf-8").split("\n\n"):
        if MENTION.search(paragraph):
            assert "clone" in paragraph
            assert not re.search(r"\d\.\d\d", paragraph)


def test_columns_that_a_record_lacks_are_an_error():
    with pytest.raises(records.BadRecord, match="no row has 'loss'"):
        records.table(a_record(), "way; loss")
    with pytest.raises(records.BadRecord, match="no row has method"):
        records.table(a_record(), where="method = a")
    with pytest.raises(records.BadRecord, match="no row is left"):
        records.table(a_record(), where="way = c")
    with pytest.raises(records.BadRecord, match="0 bars"):
        records.bar(a_record(), "time")


def test_a_record_that_does_not_say_its_commit_is_refused(tmp_path):
    told = a_record()
    del told["commit"]
    (tmp_path / "table.json").write_text(json.dumps(told), encoding="utf-8")
    with pytest.raises(records.BadRecord, match="lacks commit"):
        records.read("table", tmp_path)
    with pytest.raises(records.BadRecord, match="there is no record"):
        records.read("other", tmp_path)


def test_tables_of_a_record():
    told = a_record()
    assert records.table(told, "form <- way; error", "way = a") == [
        ["form", "error"], ["a", "0.5"], ["a", "0.125"],
    ]  # fmt: skip
    assert records.table(told, "way", pivot="ε = error") == [
        ["way", "ε = 1", "ε = 10"], ["a", "0.5", "0.125"], ["b", "0.25", ""],
    ]  # fmt: skip
    assert records.table(told, "way; error", group="way") == [
        ["way", "error"], ["a", "0.125 – 0.5"], ["b", "0.25"],
    ]  # fmt: skip
