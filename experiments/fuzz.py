"""A million damaged messages, proposals, files, ledgers, certificates and releases.

Whatever strangers hand in is read as it would be, in one process. Nothing but tacit's own errors
may come of it; no reading may take long or leave memory behind. Bars: 0 other errors, at most 1 s
and 50 MB for any of them, no growth of memory.
"""

from __future__ import annotations

import random
import resource
import tempfile
import time
import traceback
from pathlib import Path

from experiments._fuzz import Subject, subjects
from experiments.runner import Outcome
from tacit.errors import TacitError

FULL, QUICK = 1_000_000, 3_000
SEED = 20261118


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    with tempfile.TemporaryDirectory() as folder:
        found = subjects(Path(folder))
        whole = sum(subject.share for subject in found)
        rows = [
            _one(outcome, subject, max(20, subject.share * (QUICK if quick else FULL) // whole))
            for subject in found
        ]
    total = sum(row["tried"] for row in rows)
    if not quick:
        outcome.check("damaged specimens", total, "≥ 1000000", total >= FULL)
    others = sum(row["other errors"] for row in rows)
    outcome.check("errors that are none of tacit's", others, "0", others == 0)
    longest = max(row["longest s"] for row in rows)
    outcome.check("longest reading in s", longest, "≤ 1", longest <= 1.0)
    grown = max(row["grown MB"] for row in rows)
    outcome.check("memory that a kind of specimen leaves behind, MB", grown, "≤ 50", grown <= 50)
    return outcome


def _one(outcome: Outcome, subject: Subject, count: int) -> dict:
    rng = random.Random(f"{SEED} {subject.name}")
    refused = read = other = 0
    longest, first = 0.0, ""
    for _ in range(20):  # what is loaded once is no growth
        _try(subject, subject.damaged(rng))
    before = _resident()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    for _ in range(count):
        specimen = subject.damaged(rng)
        started = time.perf_counter()
        error = _try(subject, specimen)
        longest = max(longest, time.perf_counter() - started)
        if error is None:
            read += 1
        elif isinstance(error, TacitError):
            refused += 1
        else:
            other += 1
            first = first or "".join(traceback.format_exception(error)[-3:])[-800:]
    row = {
        "what": subject.name,
        "tried": count,
        "refused": refused,
        "still whole": read,
        "other errors": other,
        "longest s": round(longest, 3),
        "grown MB": round(max(0.0, _resident() - before), 1),
        "peak MB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - peak, 1),
    }
    return outcome.add(row | ({"first": first} if first else {}))


def _try(subject: Subject, specimen: object) -> Exception | None:
    try:
        subject.read(specimen)
    except Exception as error:
        return error
    return None


def _resident() -> float:
    """Return the memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20
