"""Which tests are run for a mistake.

**By coverage** (the full form): the quick tests run once under `pytest --cov-context=test`; a test
covers a mistake if it ran its line or the first line of its statement. What runs at import, or is
compiled, is not seen that way, and falls back to the map below. The result is kept under
``build/`` as long as source and tests are the same. **By place** (``--quick``, and as a
fall-back): tests of the module's own name in the mirrored folder, the rest of that folder, then
the contracts, and for secure sums the federation's.
"""

from __future__ import annotations

import ast
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Collection
from functools import cache
from pathlib import Path

from benchmarks._mutants.mutant import ONE_THREAD, ROOT, SOURCE, Mutant

BUILD = ROOT / "build" / "mutants"
OWN = "tests/benchmarks"  # these plant mistakes themselves
MOST = 60.0  # seconds of tests for one mistake, as measured under coverage; the shortest first
NEAR = 8  # files of tests for what runs at import
CONTRACTS = {
    "privacy": [
        "tests/estimators/test_agreement.py",
        "tests/contracts/test_mechanism_contract.py",
    ],
    "mechanisms": [
        "tests/estimators/test_agreement.py",
        "tests/contracts/test_mechanism_contract.py",
        "tests/contracts/test_mechanism_privacy.py",
    ],
    "estimators": [
        "tests/contracts/test_hostile_coordinator.py",
        "tests/summary/test_summary.py",
        "tests/rounds/test_checkpoint.py",
    ],
    "federation": ["tests/federation/test_wire.py", "tests/federation/test_coordinate.py"],
}


def by_place(mutant: Mutant) -> list[str]:
    """Return test files for a mistake, the nearest first."""
    parts = Path(mutant.file).with_suffix("").parts
    here = ROOT / "tests" / Path(*parts[:-1])
    while not here.is_dir():
        here = here.parent
    package = ROOT / "tests" / parts[0]
    tests = _tests()
    about = [path for path, text in tests.items() if _imports(text, parts)]
    near = [path for path in tests if path.is_relative_to(package)]
    names = (f"test_{parts[-1]}.py", f"test_{parts[-2]}.py")
    own = sorted((p for p in near if p.name in names), key=lambda p: names.index(p.name))
    inside = [path for path in about if path.is_relative_to(package)]
    inside.sort(key=lambda path: not path.is_relative_to(here))  # the nearest first
    more = CONTRACTS.get(parts[0], ["tests/contracts/test_hostile_coordinator.py"])
    order = [
        *own,
        *inside,
        *here.glob("test_*.py"),
        *(ROOT / name for name in more),
        *near,
        *about,
    ]
    return list(dict.fromkeys(str(path.relative_to(ROOT)) for path in order))


@cache
def _tests() -> dict[Path, str]:
    """Return every file of tests that plants no mistakes itself, with what it says."""
    found = sorted((ROOT / "tests").rglob("test_*.py"))
    return {p: p.read_text(encoding="utf-8") for p in found if p.parent.name != "benchmarks"}


def _imports(text: str, parts: tuple[str, ...]) -> bool:
    """Whether a test imports a module, whole or by name."""
    home = ".".join(("tacit", *parts[:-1]))
    if home not in text:
        return False
    if re.search(rf"\b{re.escape(home)}\.{parts[-1]}\b", text):
        return True
    return bool(re.search(rf"from {re.escape(home)} import [^\n]*\b{parts[-1]}\b", text))


def digests() -> tuple[str, dict[str, str]]:
    """Return a digest of the source and of what tests share, and one of every file of tests."""
    shared, files = hashlib.sha256(), {}
    for path in sorted([*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        name, content = str(path.relative_to(ROOT)), path.read_bytes()
        if path.name.startswith("test_"):
            files[name] = hashlib.sha256(content).hexdigest()[:16]
        else:
            shared.update(name.encode() + content)
    return shared.hexdigest()[:16], files


class Coverage:
    """Line → the tests that ran it, with how long they take."""

    def __init__(self, lines: dict[str, dict[str, list[int]]], tests: list[list]) -> None:
        self._lines, self._tests = lines, tests

    @classmethod
    def load(cls) -> Coverage:
        """Read the map, or make it: the whole quick suite runs once under coverage.

        Where only files of tests have changed since, those alone run again.
        """
        shared, files = digests()
        files = {f: sha for f, sha in files.items() if not f.startswith(OWN)}
        path = BUILD / f"coverage-{shared}.json"
        data: dict = {"lines": {}, "tests": [], "files": {}}
        if path.exists():
            data = json.loads(path.read_text(encoding="utf-8"))
        fresh = [file for file in files if data["files"].get(file) != files[file]]
        if fresh:
            found = _measure(fresh if data["files"] else ["tests"])
            data = {**joined(data, found, files.keys() - set(fresh)), "files": files}
            path.write_text(json.dumps(data), encoding="utf-8")
        return cls(data["lines"], data["tests"])

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests that ran a mistake's line, the shortest first, or tests by place."""
        covered = self._lines.get(mutant.file, {})
        lines = statement_lines((SOURCE / mutant.file).read_text(encoding="utf-8"), mutant.line)
        numbers = {k for line in lines for k in covered.get(str(line), [])}
        known = [self._tests[k] for k in numbers]
        if not known:  # those of the nearest files, so that no long one takes all of the time
            near = tuple(f"{file}::" for file in by_place(mutant)[:NEAR])
            known = [test for test in self._tests if test[0].startswith(near)]
        return _within(sorted(known, key=lambda test: test[1])) or by_place(mutant)


def joined(old: dict, new: dict, unchanged: Collection[str]) -> dict:
    """Return one map of two: of the old one what the tests of unchanged files ran."""
    tests: dict[str, float] = {}
    lines: dict[str, dict[str, list[int]]] = {}
    numbers: dict[str, int] = {}
    for data, kept in ((old, unchanged), (new, None)):
        names = [name for name, _ in data["tests"]]
        for name, seconds in data["tests"]:
            if kept is None or name.partition("::")[0] in kept:
                tests[name] = seconds
                numbers.setdefault(name, len(numbers))
        for file, own in data["lines"].items():
            there = lines.setdefault(file, {})
            for line, ran in own.items():
                known = [numbers[names[k]] for k in ran if names[k] in numbers]
                there[line] = sorted({*there.get(line, []), *known})
    return {"lines": lines, "tests": [[name, tests[name]] for name in numbers]}


def _within(tests: list[list]) -> list[str]:
    """Return the first tests that fit into the time for one mistake, one at least."""
    ends = list(itertools.accumulate(seconds for _, seconds in tests))
    return [name for k, (name, _) in enumerate(tests) if not k or ends[k] <= MOST]


def statement_lines(source: str, line: int) -> list[int]:
    """Return the lines that are run where a line is: its own, and its statement's first.

    None where it is run at import: which test imports a module first says nothing about it.
    """
    inside, first = False, line
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or 0):
            first = node.lineno  # inner ones come later
            if isinstance(node, ast.FunctionDef):
                inside = inside or node.body[0].lineno <= line
    return [line, first] if inside else []


def _measure(files: list[str]) -> dict:
    """Run quick tests under coverage and return what each line was run by."""
    data, report = BUILD / "coverage.db", BUILD / "times.xml"
    BUILD.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-n", "2", "--dist", "worksteal",
         f"--cov={SOURCE}", "--cov-context=test", "--cov-report=", f"--junitxml={report}",
         "-p", "no:cacheprovider", f"--ignore={OWN}", *files],
        cwd=ROOT, check=False,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": path, "COVERAGE_FILE": str(data)},
    )  # fmt: skip
    return _parsed(data, report)


def _parsed(data: Path, report: Path) -> dict:
    """Return what was measured: lines that tests or their fixtures ran, and how long they took."""
    from coverage import CoverageData

    times = {}
    for case in ElementTree.parse(report).iter("testcase"):
        place = case.get("classname", "").replace(".", "/")
        times[f"{place}.py::{case.get('name')}"] = float(case.get("time", 0.0))
    found = CoverageData(str(data))
    found.read()
    numbers: dict[str, int] = {}
    lines: dict[str, dict[str, list[int]]] = {}
    for file in found.measured_files():
        own = lines.setdefault(str(Path(file).relative_to(SOURCE)), {})
        for line, contexts in found.contexts_by_lineno(file).items():
            tests = {c.rpartition("|")[0] for c in contexts if c.endswith(("|run", "|setup"))}
            own[str(line)] = [numbers.setdefault(test, len(numbers)) for test in sorted(tests)]
    return {"lines": lines, "tests": [[test, times.get(test, 1.0)] for test in numbers]}
