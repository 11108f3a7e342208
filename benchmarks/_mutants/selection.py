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
from pathlib import Path

from benchmarks._mutants.mutant import ONE_THREAD, ROOT, SOURCE, Mutant

BUILD = ROOT / "build" / "mutants"
MOST = 60.0  # seconds of tests for one mistake, as measured under coverage; the shortest first
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
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    tests = [path for path in tests if path.parent.name != "benchmarks"]
    about = [path for path in tests if _imports(path, parts)]
    near = [path for path in tests if path.is_relative_to(package)]
    names = (f"test_{parts[-1]}.py", f"test_{parts[-2]}.py")
    own = sorted((p for p in near if p.name in names), key=lambda p: names.index(p.name))
    inside = [path for path in about if path.is_relative_to(package)]
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


def _imports(path: Path, parts: tuple[str, ...]) -> bool:
    """Whether a test imports a module, whole or by name."""
    text, home = path.read_text(encoding="utf-8"), ".".join(("tacit", *parts[:-1]))
    if re.search(rf"\b{re.escape(home)}\.{parts[-1]}\b", text):
        return True
    return bool(re.search(rf"from {re.escape(home)} import [^\n]*\b{parts[-1]}\b", text))


def digest() -> str:
    """Return a digest of source and tests."""
    found = hashlib.sha256()
    for path in sorted([*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("*.py")]):
        found.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return found.hexdigest()[:16]


class Coverage:
    """Line → the tests that ran it, with how long they take."""

    def __init__(self, lines: dict[str, dict[str, list[int]]], tests: list[list]) -> None:
        self._lines, self._tests = lines, tests

    @classmethod
    def load(cls) -> Coverage:
        """Read the map, or make it: the whole quick suite runs once under coverage."""
        path = BUILD / f"coverage-{digest()}.json"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(_measure()), encoding="utf-8")
        data = json.loads(path.read_text(encoding="utf-8"))
        return cls(data["lines"], data["tests"])

    def tests(self, mutant: Mutant) -> list[str]:
        """Return the tests that ran a mistake's line, the shortest first, or tests by place."""
        covered = self._lines.get(mutant.file, {})
        lines = statement_lines((SOURCE / mutant.file).read_text(encoding="utf-8"), mutant.line)
        numbers = {k for line in lines for k in covered.get(str(line), [])}
        known = sorted((self._tests[k] for k in numbers), key=lambda test: test[1])
        return _within(known) or _within([[f, self._seconds(f)] for f in by_place(mutant)])

    def _seconds(self, file: str) -> float:
        """Return how long a file of tests takes."""
        return float(sum(t for name, t in self._tests if name.startswith(f"{file}::")))


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


def _measure() -> dict:
    """Run the quick tests under coverage and return what each line was run by."""
    from coverage import CoverageData

    data, report = BUILD / "coverage.db", BUILD / "times.xml"
    BUILD.mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-n", "2", "--dist", "worksteal",
         f"--cov={SOURCE}", "--cov-context=test", "--cov-report=", f"--junitxml={report}",
         "-p", "no:cacheprovider", "--ignore=tests/benchmarks", "tests"],
        cwd=ROOT, check=False,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": path, "COVERAGE_FILE": str(data)},
    )  # fmt: skip
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
            tests = {c.rpartition("|")[0] for c in contexts if c.endswith("|run")}
            own[str(line)] = [numbers.setdefault(test, len(numbers)) for test in sorted(tests)]
    return {"lines": lines, "tests": [[test, times.get(test, 1.0)] for test in numbers]}
