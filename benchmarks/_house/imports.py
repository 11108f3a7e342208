"""The graph of imports: cycles, broken contracts, and how far families keep to themselves.

Every import counts: those of a module, lazy ones inside of functions, and those that only types
need. ``from package import name`` is an import of ``package.name`` where that is a module, else of
the package. Importing a module runs its packages' own files as well, so a cycle through an
``__init__.py`` that somebody imports *from* is a cycle; the mere passing through is not counted.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks._house.source import ROOT, File

FAMILIES = ("summary", "regression", "moments", "posterior", "factorization", "recommender",
            "networks")  # fmt: skip
ALLOWED = {("recommender", "factorization")}
NAMED_BY = ("tacit.published", "tacit.demo")
Graph = Mapping[str, set[str]]


def imported(file: File, known: set[str]) -> Iterator[str]:
    """Yield the modules that a file imports, once for every statement and name."""
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = _base(file, node)
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                if inner in known:
                    yield inner
                elif base in known:
                    yield base


def _base(file: File, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = file.module.split(".")
    kept = parts[: len(parts) - node.level + file.is_package]
    return ".".join([*kept, node.module] if node.module else kept)


def graph_of(files: list[File]) -> Graph:
    """Return module → the modules that it imports, itself left out."""
    known = {file.module for file in files}
    return {file.module: set(imported(file, known)) - {file.module} for file in files}


def cycles(graph: Graph) -> list[list[str]]:
    """Return the strongly connected components with more than one module (Tarjan 1972)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, others = work[-1]
            for other in others:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(sorted(graph.get(other, ())))))
                    break
                if other in stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    part, stack[at:] = stack[at:], []
                    if len(part) > 1:
                        found.append(sorted(part))
    return found


@dataclass(frozen=True)
class Reach:
    """Imports whose target is a family's module: one for each pair of modules."""

    inside: int
    outside: tuple[str, ...]
    by_subject: int

    @property
    def share(self) -> float:
        """The share that stays within the family."""
        whole = self.inside + len(self.outside)
        return self.inside / whole if whole else 1.0


def family_reach(graph: Graph) -> Reach:
    """Count the imports of families' modules.

    Whose subject are families by name is counted apart: the package's list of public names, the
    papers of `published` and the demo. What is true of every family (`audit`, `planning`,
    `federation`, `cli`, …) has no business with a single one, and counts as outside.
    """
    inside, outside, by_subject = 0, [], 0
    for module, targets in graph.items():
        for target in sorted(targets):
            home, away = family(module), family(target)
            if away is None:
                continue
            if home == away or (home, away) in ALLOWED:
                inside += 1
            elif module == "tacit" or module.startswith(NAMED_BY):
                by_subject += 1
            else:
                outside.append(f"{module} → {target}")
    return Reach(inside, tuple(outside), by_subject)


def family(module: str) -> str | None:
    """Return the family that a module belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in FAMILIES else None


def broken_contracts() -> tuple[int, list[str]]:
    """Run import-linter; return how many contracts there are and the names of broken ones."""
    code = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"
    found = subprocess.run(
        [sys.executable, "-c", code, "--no-logo", "--no-cache"],
        cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "400"},
    )  # fmt: skip
    total = re.search(r"Contracts: (\d+) kept, (\d+) broken", found.stdout)
    if total is None:
        return 0, [f"import-linter gave no verdict: {(found.stdout + found.stderr)[-300:]}"]
    names = re.findall(r"^(.+?) BROKEN", found.stdout, re.MULTILINE)
    broken = int(total[2])
    return int(total[1]) + broken, names if len(names) == broken else ["?"] * broken
