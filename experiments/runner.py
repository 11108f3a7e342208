"""The tiny runner behind ``python -m experiments`` and ``python -m benchmarks``.

A spec is a module of the package with a docstring (its first line is the summary) and a
function ``run(quick) -> Outcome``. Underscores in the module's name become dashes. A spec may have
``OPTIONS``: flag → what `argparse` takes, and then gets them by name.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import math
import pkgutil
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

SUPPORT = {"runner", "data", "datasets", "known_misses", "metrics", "timing", "__main__"}


@dataclass
class Check:
    """One bar: what was measured, the value, the bar as written, and whether it is met."""

    what: str
    value: float | str
    bar: str
    ok: bool


@dataclass
class Outcome:
    """The bars and the whole table."""

    checks: list[Check] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)

    def add(self, row: dict[str, Any]) -> dict[str, Any]:
        """Record one row of the table, and print it: long runs show how far they are."""
        self.rows.append(row)
        seconds = time.perf_counter() - self.started
        facts = ", ".join(f"{key} {_text(value)}" for key, value in row.items())
        print(f"[{seconds:7.1f} s] {facts}", file=sys.stderr, flush=True)
        return row

    def check(self, what: str, value: float | str, bar: str, ok: bool) -> None:
        """Record one bar."""
        self.checks.append(Check(what, value, bar, bool(ok)))


def specs(package: str) -> dict[str, str]:
    """Return name → module of every spec in a package."""
    home = importlib.import_module(package)
    found = sorted(module.name for module in pkgutil.iter_modules(home.__path__))
    return {
        name.replace("_", "-"): f"{package}.{name}"
        for name in found
        if name not in SUPPORT and not name.startswith("_")
    }


def main(package: str, arguments: list[str] | None = None) -> int:
    """List the specs, or run one and print its table and its bars."""
    parser = argparse.ArgumentParser(prog=f"python -m {package}")
    parser.add_argument("name", nargs="?", help="which one; without it, list them")
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--quick", action="store_true", help="a form that fits a minute")
    parser.add_argument(
        "--record", type=Path, metavar="FOLDER", help="keep the table for the guide"
    )
    options, more = parser.parse_known_args(arguments)
    known = specs(package)
    if options.name is None:
        for name, module in known.items():
            summary = (importlib.import_module(module).__doc__ or "").strip().splitlines()[0]
            print(f"{name:24} {summary}")
        return 0
    if options.name not in known:
        print(f"there is no {options.name!r}: choose from {', '.join(known)}", file=sys.stderr)
        return 2
    spec = importlib.import_module(known[options.name])
    own = argparse.ArgumentParser(prog=f"python -m {package} {options.name}")
    for flag, about in getattr(spec, "OPTIONS", {}).items():
        own.add_argument(flag, **about)
    chosen = vars(own.parse_args(more))
    started = time.perf_counter()
    outcome: Outcome = spec.run(options.quick, **chosen)
    seconds = time.perf_counter() - started
    _show(outcome)
    ok = all(check.ok for check in outcome.checks)
    print(f"{'all bars met' if ok else 'some bars missed'} in {seconds:.1f} s")
    result = _plain(
        {
            "name": options.name,
            "ok": ok,
            "checks": [asdict(check) for check in outcome.checks],
            "rows": outcome.rows,
            "seconds": round(seconds, 3),
        }
    )
    if options.record:
        kept = record(options.record, package, result, quick=options.quick, more=more)
        print(f"recorded in {kept}")
    if options.json:
        print(json.dumps(result, ensure_ascii=False))
    return 0


def record(
    folder: Path,
    package: str,
    result: dict[str, Any],
    *,
    quick: bool,
    more: Sequence[str] = (),
) -> Path:
    """Write a result with the command, commit, form and date it came from: what the guide shows.

    A full and a quick form of one table are two files, so that one never replaces the other.
    """
    form, name = "quick" if quick else "full", result["name"]
    words = ["python", "-m", package, name, *(["--quick"] if quick else []), *more]
    about = {
        "command": shlex.join(words),
        "form": form,
        "commit": commit(),
        "date": datetime.date.today().isoformat(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    # a part of a table is a file of its own, too
    part = "".join(f"-{after}" for flag, after in pairwise(more) if flag == "--only")
    path = folder / f"{name}{part}{'.quick' if quick else ''}.json"
    text = json.dumps({**about, **result}, ensure_ascii=False, indent=1)
    path.write_text(text + "\n", encoding="utf-8")
    return path


def commit() -> str:
    """Return the commit of the clone, with a plus where its files differ from it."""
    git = ["git", "-C", str(Path(__file__).parent)]
    found = subprocess.run(
        [*git, "rev-parse", "--short=10", "HEAD"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        return "unknown"
    changed = subprocess.run(
        [*git, "status", "--porcelain", "-uno", "--", ".", "../src", "../benchmarks"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return found.stdout.strip() + ("+" if changed.stdout.strip() else "")


def _show(outcome: Outcome) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 160)
    if outcome.rows:
        table = Table()
        columns = list(dict.fromkeys(key for row in outcome.rows for key in row))
        for column in columns:
            table.add_column(column)
        for row in outcome.rows:
            table.add_row(*(_text(row.get(column, "")) for column in columns))
        console.print(table)
    for check in outcome.checks:
        mark = "met   " if check.ok else "MISSED"
        console.print(f"{mark} {check.what}: {_text(check.value)} (bar: {check.bar})",
                      highlight=False, markup=False, soft_wrap=True)  # fmt: skip


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _plain(value: Any) -> Any:
    """Return JSON-safe data: NumPy numbers become plain, infinities become text."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
