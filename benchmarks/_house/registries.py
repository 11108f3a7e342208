"""Registries that are kept by hand.

**Heuristic.** A literal dict, tuple, list or set, assigned at the top of a module (or of a class),
that names at least three things of tacit: classes or functions that the module imports from tacit
or defines as a class, or texts that are the path of a module of tacit (``"tacit.x.y"``,
``"x.y:Class"``) or the name of one of its public classes. Not counted: ``__all__``, and the
``ESTIMATORS`` of a family's own package, which is how a family says what it offers; tables whose
values are numbers are data. What is listed twice in the source, here and by its class, has to be
kept alike by hand.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks._house.source import File

FEWEST = 3
_PATH = re.compile(r"^(tacit(\.\w+)+|[\w.]+:[A-Z]\w*)$")


def registries(files: list[File]) -> list[str]:
    """Return every registry as ``module.NAME (how many)``."""
    classes = {
        node.name
        for file in files
        for node in ast.walk(file.tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    }
    found = []
    for file in files:
        own = _tacit_names(file, classes)
        for name, value in _literals(file.tree):
            if name == "__all__" or (name == "ESTIMATORS" and file.is_package):
                continue
            count = sum(_is_entry(part, own, classes) for part in _parts(value))
            if count >= FEWEST:
                found.append(f"{file.module}.{name} ({count})")
    return found


def _literals(tree: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield the literal collections that are assigned at the top of a module or of a class."""
    for node in getattr(tree, "body", ()):
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{name}", value) for name, value in _literals(node))
        target, value = None, None
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
        elif isinstance(node, ast.AnnAssign):
            target, value = node.target, node.value
        if isinstance(value, ast.Call) and value.args:  # MappingProxyType({…}), frozenset({…})
            value = value.args[0]
        if isinstance(target, ast.Name) and isinstance(
            value, ast.Dict | ast.Tuple | ast.List | ast.Set
        ):
            yield target.id, value


def _parts(value: ast.expr) -> Iterator[ast.expr]:
    """Yield the entries, nested ones included: values of a dict, and keys that are names."""
    if isinstance(value, ast.Dict):
        for key, item in zip(value.keys, value.values, strict=True):
            inner = list(_parts(item))
            yield from inner if inner else [item]
            if isinstance(key, ast.Name | ast.Attribute):
                yield key
    elif isinstance(value, ast.Tuple | ast.List | ast.Set):
        for item in value.elts:
            inner = list(_parts(item))
            yield from inner if inner else [item]


def _is_entry(part: ast.expr, own: set[str], classes: set[str]) -> bool:
    if isinstance(part, ast.Constant) and isinstance(part.value, str):
        return bool(_PATH.match(part.value)) or part.value in classes
    return isinstance(part, ast.Name) and part.id in own


def _tacit_names(file: File, classes: set[str]) -> set[str]:
    """Return the classes and functions of tacit that a module knows by name."""
    found = {node.name for node in file.tree.body if isinstance(node, ast.ClassDef)}
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "")[:5] == "tacit"):
            found |= {a.asname or a.name for a in node.names if a.name in classes}
    return found
