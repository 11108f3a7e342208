"""The toy family in a temporary folder: what it, a new mechanism and a new method need."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks._house.additions import MECHANISM, METHOD, apply
from benchmarks._house.capabilities import CAPABILITIES
from benchmarks._house.source import ROOT

PACKAGE = "toy_counts"


@dataclass(frozen=True)
class Addition:
    """What was added, how many files that took, and what then works or why not."""

    what: str
    files: int
    works: dict[str, str]


def additions() -> list[Addition]:
    """Add a family, then a mechanism and a method to it; no file of tacit changes."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        package = place / "path" / PACKAGE
        shutil.copytree(Path(__file__).parent / PACKAGE, package,
                        ignore=shutil.ignore_patterns("__pycache__"))  # fmt: skip
        family = len(list(package.iterdir()))
        found = [Addition("a family", family, _check(place, "family", list(CAPABILITIES)))]
        mechanism = apply(MECHANISM, package)
        some = ["price", "fit", "charged", "released", "read back", "audited"]
        found.append(Addition("a mechanism", mechanism, _check(place, "mechanism", some)))
        method = apply(METHOD, package)
        found.append(Addition("a method", method, _check(place, "method", some, "gaussian")))
    return found


def _check(place: Path, name: str, wanted: list[str], method: str = "geometric") -> dict[str, str]:
    """Check capabilities in a process of their own, with the toy on its path."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), str(place / "path")])
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks._house.capabilities", str(place / name), PACKAGE,
         method, *wanted],
        capture_output=True, text=True, check=False, timeout=600,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    try:
        found: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        said = run.stderr.strip().splitlines()
        return dict.fromkeys(wanted, said[-1] if said else "the process said nothing")
    return found
