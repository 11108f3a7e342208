"""The house is measured, and what it misses is what is known to be missed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks._house.imports import cycles, family_reach, graph_of
from benchmarks._house.registries import registries
from benchmarks._house.source import read_source, sizes
from benchmarks.known_misses import KNOWN_MISSES


def source(folder: Path, **files: str) -> list:
    """Return a small package called tacit; ``__`` in a name stands for a folder."""
    root = folder / "tacit"
    for name, text in files.items():
        path = root / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for place in [root, *(p for p in root.rglob("*") if p.is_dir())]:
        (place / "__init__.py").touch()
    return read_source(root)


def test_missed_bars_are_known_and_known_misses_are_missed(capsys):
    from experiments.runner import main

    assert main("benchmarks", ["house", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    missed = {check["what"]: check["value"] for check in result["checks"] if not check["ok"]}
    known = set(KNOWN_MISSES["house"])
    assert set(missed) - known == set(), "a bar is missed that was met: see the rows"
    assert known - set(missed) == set(), "these bars are met now: take them off the list"


@pytest.mark.parametrize(
    "other",
    [
        "import tacit.a",
        "def f():\n    from tacit.a import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tacit import a",
        "from . import a",
        "from .a import x",
    ],
)
def test_a_cycle_is_found_however_it_is_hidden(tmp_path, other):
    files = source(tmp_path, a="from tacit.b import y", b=other, c="from tacit import a")
    assert cycles(graph_of(files)) == [["tacit.a", "tacit.b"]]


def test_long_cycles_are_whole_and_a_tree_has_none():
    ring = {"a": {"b"}, "b": {"c"}, "c": {"d", "e"}, "d": {"a"}, "e": {"f"}, "f": set()}
    assert cycles(ring) == [["a", "b", "c", "d"]]
    assert cycles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_imports_of_families_are_told_apart(tmp_path):
    files = source(
        tmp_path,
        summary__sides="from tacit.summary.agreement import X",
        summary__agreement="from tacit.regression.agreement import X",
        regression__agreement="",
        recommender__method="from tacit.factorization.language import X",
        factorization__language="",
        published__paper="from tacit.regression.agreement import X",
        audit__attack="from tacit.summary.agreement import X",
    )
    found = family_reach(graph_of(files))
    assert (found.inside, found.by_subject) == (2, 1)
    assert found.outside == (
        "tacit.audit.attack → tacit.summary.agreement",
        "tacit.summary.agreement → tacit.regression.agreement",
    )


def test_registries_are_lists_of_classes_or_of_where_they_are(tmp_path):
    files = source(
        tmp_path,
        kinds="class A: ...\nclass B: ...\nclass C: ...\nTWO = (A, B)\nNAMES = ('A', 'B', 'C')",
        here="from tacit.kinds import A, B, C\n__all__ = ['A', 'B', 'C']\n"
        "BY_NAME = {'a': A, 'b': (B, 1), 'c': C}\nSIZES = {'a': 1, 'b': 2, 'c': 3}\n"
        "PLACES = frozenset({'tacit.kinds', 'kinds:B', 'kinds:C'})",
    )
    assert registries(files) == [
        "tacit.here.BY_NAME (3)",
        "tacit.here.PLACES (3)",
        "tacit.kinds.NAMES (3)",
    ]


def test_sizes_count_lines_and_parameters(tmp_path):
    body = "\n".join(["    x = 1"] * 80)
    many = ", ".join(f"a{k}" for k in range(21))
    fields = "\n".join(f"    a{k}: int" for k in range(13))
    found = sizes(
        source(
            tmp_path,
            long=f"def f():\n{body}",
            wide=f"class A:\n    def __init__(self, {many}): ...  # fmt: skip",
            data=f"from dataclasses import dataclass\n@dataclass\nclass D:\n{fields}",
        )
    )
    assert found.long_functions == ("tacit.long.f (81 lines)",)
    assert found.large_constructors == ("tacit.wide.A.__init__ (21)",)
    assert found.many_parameters == ("tacit.data.D (13)", "tacit.wide.A.__init__ (21)")
    assert (found.files, found.skipped_formats) == (4, 1)
