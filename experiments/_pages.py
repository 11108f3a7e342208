"""The cells of the guide's pages, and a way of running them without a kernel.

A page of the guide is text with cells: fences that begin with ``{code-cell}``. The site runs them
in kernels; here they run in this process, one page after another, which is much cheaper and enough
to know that every cell works. Lines with ``!`` are commands, ``%%writefile NAME`` writes a file.
"""

from __future__ import annotations

import ast
import contextlib
import io
import linecache
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

DOCS = Path(__file__).parent.parent / "docs"
FENCE = re.compile(r"^(`{3,})\{code-cell\}[^\n]*\n(.*?)^\1\s*$", flags=re.M | re.S)


@dataclass(frozen=True)
class Cell:
    """One cell: what is run, where it stands, and what is said about it."""

    source: str
    line: int
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def tags(self) -> list[str]:
        """Return its tags; ``raises-exception`` is the one that counts here."""
        return list(self.options.get("tags", []))


@dataclass
class Ran:
    """What came of a page: seconds, lines of code, pictures, and what each cell showed."""

    page: str
    seconds: float = 0.0
    lines: int = 0
    pictures: int = 0
    shown: list[tuple[Cell, Any]] = field(default_factory=list)
    undescribed: list[Cell] = field(default_factory=list)


def pages(folder: Path = DOCS) -> list[Path]:
    """Return the pages that have cells."""
    found = sorted({*folder.glob("*.md"), *folder.glob("gallery/*.md")})
    return [page for page in found if "file_format: mystnb" in page.read_text(encoding="utf-8")]


def cells(text: str) -> list[Cell]:
    r"""Return the cells of a page.

    >>> cells("```{code-cell}\n:tags: [a]\n1 + 1\n```\n")
    [Cell(source='1 + 1\n', line=1, options={'tags': ['a']})]
    """
    found = []
    for match in FENCE.finditer(text):
        body, options = match.group(2), []
        lines = body.splitlines(keepends=True)
        while lines and re.match(r":[\w-]+:", lines[0]):
            options.append(lines.pop(0)[1:])
        told = yaml.safe_load("".join(options)) or {}
        line = text.count("\n", 0, match.start()) + 1
        found.append(Cell("".join(lines), line, told))
    return found


def run_page(page: Path, folder: Path) -> Ran:
    """Run the cells of a page in a folder; a cell that fails raises, with the page's line."""
    ran = Ran(page.stem)
    space: dict[str, Any] = {"__name__": "__main__"}
    started = time.perf_counter()
    with contextlib.chdir(folder):
        for cell in cells(page.read_text(encoding="utf-8")):
            ran.lines += len([line for line in cell.source.splitlines() if line.strip()])
            try:
                value = _run(cell, space, page)
            except Exception as problem:
                if "raises-exception" not in cell.tags:
                    problem.add_note(f"in the cell at {page.name}, line {cell.line}")
                    raise
                value = problem
            else:
                if "raises-exception" in cell.tags:
                    raise AssertionError(f"{page.name}, line {cell.line}: this should raise")
            ran.shown.append((cell, value))
            drawn = _pictures(value)
            ran.pictures += drawn
            if drawn and "alt" not in cell.options:
                ran.undescribed.append(cell)
    ran.seconds = time.perf_counter() - started
    return ran


def _run(cell: Cell, space: dict[str, Any], page: Path) -> Any:
    """Run one cell, and return what it shows: the value of its last expression."""
    if cell.source.startswith("%%writefile "):
        name, _, text = cell.source.removeprefix("%%writefile ").partition("\n")
        Path(name.strip()).write_text(text, encoding="utf-8")
        return None
    if cell.source.startswith("!"):
        return "\n".join(_command(line[1:]) for line in cell.source.splitlines())
    name = f"<{page.name}, line {cell.line}>"
    linecache.cache[name] = (len(cell.source), None, cell.source.splitlines(True), name)
    tree = ast.parse(cell.source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), space)
        value = eval(compile(ast.Expression(last.value), name, "eval"), space) if last else None
    if value is None or cell.source.rstrip().endswith(";"):
        return printed.getvalue() or None
    for way in ("_repr_html_", "__repr__"):
        if hasattr(type(value), way):
            getattr(value, way)()
    return value


def _command(line: str) -> str:
    """Run a command; tacit's own run in this process."""
    words = shlex.split(line)
    if words[0] != "tacit":
        done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr
    from tacit.cli.main import main

    said = io.StringIO()
    with _arguments(words), contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as left:
            if left.code not in (0, None):
                raise RuntimeError(f"{line} ended with {left.code}: {said.getvalue()}") from None
    return said.getvalue()


@contextlib.contextmanager
def _arguments(words: list[str]) -> Iterator[None]:
    before, sys.argv = sys.argv, words
    width = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = "100"
    try:
        yield
    finally:
        sys.argv = before
        os.environ.pop("COLUMNS")
        if width is not None:
            os.environ["COLUMNS"] = width


def _pictures(value: Any) -> int:
    """Return how many pictures a cell drew, and close them."""
    shown = hasattr(value, "savefig")
    plots = sys.modules.get("matplotlib.pyplot")
    if plots is None:
        return int(shown)
    count = len(plots.get_fignums())
    plots.close("all")
    return max(count, int(shown))
