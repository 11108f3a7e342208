"""One page, run as a reader would: in a process and a folder of its own; then from its release.

The last cells of a story are tagged ``release-only``: they are what somebody does who has the
release folder and nothing besides. They are run once more for such a person, in a fresh process
and in a folder that holds a copy of the release alone.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from experiments import _pages

ROOT = Path(__file__).parent.parent
TAG = "release-only"
_LONGEST = 600  # seconds after which a page is given up


def walked(page: Path) -> dict[str, Any]:
    """Return what came of a page: seconds, lines, pictures, and why it failed."""
    with tempfile.TemporaryDirectory() as folder:
        found = _process(page, Path(folder))
        row = {"page": page.stem, "story": page.parent.name == "gallery", **found}
        if row["story"]:
            row |= _released(page, Path(folder))
            row["why"] = row["why"] or ("" if row["verifies"] else "it leaves no whole release")
        return row


def _released(page: Path, folder: Path) -> dict[str, Any]:
    """Return whether the releases of a story verify, load without the data, and answer."""
    releases = sorted(place.parent for place in folder.glob("*/SHA256SUMS"))
    if not releases:
        return {"verifies": False, "answers": False}
    with tempfile.TemporaryDirectory() as elsewhere:
        alone = Path(elsewhere)
        for release in releases:
            shutil.copytree(release, alone / release.name)
        checked = [
            _run([sys.executable, "-m", "tacit", "verify", r.name], alone) for r in releases
        ]
        said = _process(page, alone, TAG)
    verifies = all(not done.returncode for done in checked)
    answers = not said["why"] and said["lines"] > 0 and said["pictures"] > 0
    why = said["why"] or "; ".join(done.stderr.strip() for done in checked if done.returncode)
    return {"verifies": verifies, "answers": answers, **({"why": why} if why else {})}


def _process(page: Path, folder: Path, tag: str = "") -> dict[str, Any]:
    """Run a page, or its cells with a tag, in a process of its own."""
    started, before = time.perf_counter(), _processor()
    done = _run([sys.executable, "-m", "experiments._walkthroughs", str(page), tag], folder)
    took = {"seconds": time.perf_counter() - started, "processor": _processor() - before}
    last = (done.stdout.splitlines() or [""])[-1]
    if done.returncode or not last.startswith("{"):
        said = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        return {**took, "lines": 0, "pictures": 0, "why": "; ".join(said[-2:])[:300]}
    return {**took, **json.loads(last), "why": ""}


def _processor() -> float:
    """Return the seconds of processor time that processes started from here have taken."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=_LONGEST,
        env={**os.environ, "PYTHONPATH": path, "MPLBACKEND": "Agg"},
    )  # fmt: skip


def main(page: Path, tag: str) -> None:
    """Run the cells of a page here, and say as JSON what came of them."""
    own = page
    if tag:
        text = page.read_text(encoding="utf-8")
        kept = [cell for cell in _pages.cells(text) if tag in cell.tags]
        own = Path("release-only.md").resolve()
        fences = (f"```{{code-cell}}\n:alt: as there\n{cell.source}```\n" for cell in kept)
        own.write_text("\n".join(fences), encoding="utf-8")
    ran = _pages.run_page(own, Path.cwd())
    print(json.dumps({"lines": ran.lines, "pictures": ran.pictures}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
