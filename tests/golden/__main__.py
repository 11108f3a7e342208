"""The command: list, record, compare."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# one thread everywhere: sums of floats depend on how they are split
SINGLE = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1", "TACIT_NUM_THREADS": "1", "PYTHONHASHSEED": "0",
}  # fmt: skip


def _recorded(tree: Path, out: Path, only: str, jobs: int) -> dict:
    """Record a tree in a process of its own."""
    print(f"-- {tree}", flush=True)
    environment = os.environ | SINGLE | {"PYTHONPATH": str(tree / "src")}
    command = [sys.executable, "-m", "tests.golden", "record", str(out), "--only", only]
    subprocess.run([*command, "--jobs", str(jobs)], cwd=tree, env=environment, check=True)
    found = json.loads(out.read_text(encoding="utf-8"))
    if Path(found["tacit"]) != (tree / "src" / "tacit").resolve():
        sys.exit(f"{tree}: tacit was imported from {found['tacit']}")
    return found


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, argument, words in (
        ("list", None, "print the names of all cases"),
        ("record", "out", "run this tree's cases and write what they release"),
        ("compare", "base", "hold this tree to another worktree, or to a record of one"),
    ):
        command = commands.add_parser(name, help=words)
        command.add_argument("--only", default="*", help="a glob over names of cases")
        command.add_argument("--jobs", type=int, default=1, help="processes")
        if argument:
            command.add_argument(argument, type=Path)
    given = parser.parse_args()
    if given.command == "compare":
        from .compare import compare

        with tempfile.TemporaryDirectory() as folder:
            base = given.base.resolve()
            if base.is_file():
                old = json.loads(base.read_text(encoding="utf-8"))
            else:
                old = _recorded(base, Path(folder) / "old.json", given.only, given.jobs)
            new = _recorded(ROOT, Path(folder) / "new.json", given.only, given.jobs)
        wanted = _matching(old["cases"], given.only)
        old["cases"] = {name: old["cases"][name] for name in wanted}
        lines, holds = compare(old, new)
        print("\n".join(lines))
        return 0 if holds else 1
    os.environ.update(SINGLE)
    from .record import record, write

    if given.command == "list":
        from .cases import load

        print("\n".join(_matching(load(), given.only)))
        return 0
    write(given.out, record(given.only, given.jobs))
    return 0


def _matching(names: Iterable[str], only: str) -> list[str]:
    return sorted(name for name in names if fnmatch(name, only))


if __name__ == "__main__":
    sys.exit(main())
