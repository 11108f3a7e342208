"""The source as syntax trees: files, lines, functions and parameters."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tacit"
LONG, MANY, TOO_MANY = 80, 12, 20  # lines of a function, parameters, parameters of a constructor

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class File:
    """One module of the source."""

    path: Path
    module: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @property
    def lines(self) -> int:
        """How many lines it has."""
        return len(self.text.splitlines())

    @property
    def is_package(self) -> bool:
        """Whether it is a package's own file."""
        return self.path.name == "__init__.py"

    def functions(self) -> Iterator[tuple[str, Function]]:
        """Yield every function with its qualified name."""
        yield from _functions(self.tree, self.module)


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            name = f"{prefix}.{child.name}"
            yield name, child
            yield from _functions(child, name)
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{prefix}.{child.name}")
        else:
            yield from _functions(child, prefix)


def read_source(root: Path = SOURCE) -> list[File]:
    """Return every module under a package's folder."""
    found = []
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found.append(File(path, name, path.read_text(encoding="utf-8")))
    return found


def parameters(function: Function) -> int:
    """Return how many parameters a caller may give."""
    spec = function.args
    names = [a.arg for a in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def fields(node: ast.ClassDef) -> int:
    """Return how many parameters a dataclass's constructor takes; fields of parents are not."""
    kinds = [ast.unparse(d) for d in node.decorator_list]
    if not any(kind.startswith(("dataclass", "dataclasses.dataclass")) for kind in kinds):
        return 0
    return sum(
        isinstance(line, ast.AnnAssign)
        and "ClassVar" not in ast.unparse(line.annotation)
        and "init=False" not in (ast.unparse(line.value) if line.value else "")
        for line in node.body
    )


@dataclass(frozen=True)
class Sizes:
    """How large the source and its parts are."""

    files: int
    lines: int
    median: float
    largest: tuple[str, int]
    over_450: tuple[str, ...]
    long_functions: tuple[str, ...]
    many_parameters: tuple[str, ...]
    large_constructors: tuple[str, ...]
    skipped_formats: int


def sizes(files: list[File]) -> Sizes:
    """Measure files, functions and constructors."""
    lines = {file.module: file.lines for file in files}
    long, many, constructors = [], [], []
    for file in files:
        for name, function in file.functions():
            length = (function.end_lineno or function.lineno) - function.lineno + 1
            count = parameters(function)
            if length > LONG:
                long.append(f"{name} ({length} lines)")
            if count > MANY:
                many.append(f"{name} ({count})")
            if count > TOO_MANY and function.name == "__init__":
                constructors.append(f"{name} ({count})")
        for node in ast.walk(file.tree):
            if isinstance(node, ast.ClassDef) and (count := fields(node)) > MANY:
                many.append(f"{file.module}.{node.name} ({count})")
                if count > TOO_MANY:
                    constructors.append(f"{file.module}.{node.name} ({count})")
    largest = max(lines, key=lambda name: lines[name])
    return Sizes(
        len(files),
        sum(lines.values()),
        statistics.median(lines.values()),
        (largest, lines[largest]),
        tuple(f"{name} ({count})" for name, count in lines.items() if count > 450),
        tuple(long),
        tuple(many),
        tuple(constructors),
        sum(file.text.count("# fmt: skip") for file in files),
    )
