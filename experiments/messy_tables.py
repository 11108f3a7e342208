"""Messy files and frames through every estimator: right, or refused with a list of places.

Every messy table of `experiments._messy.cases` goes through every estimator by file, by frame
(pandas, Polars and Arrow) and by command line (`tacit check`, then `tacit fit`). What is right is
the same estimator fitted to the clean columns as they were made up, with the same seeded noise:
then both releases differ by the difference of their exact sums alone, which is nothing where the
same rows were read (`experiments._messy.subjects.alike`). Everything else must be refused, and the
refusal must name every bad cell that the estimator looks at, by file, row and column, in one pass.

The same is then done with broken readers (`experiments._messy.twins`), which the bars must catch.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from experiments._messy.cases import Case, cases, largest
from experiments._messy.routes import (
    FRAMES,
    Result,
    by_command,
    by_python,
    frames,
    judged,
    new_folder,
    place_of,
)
from experiments._messy.subjects import Subject, subjects
from experiments._messy.twins import TWINS
from experiments.runner import Outcome

BAD = ("silently wrong", "ε spent on a failure", "bare exception", "without a place",
       "not in one pass", "refused for nothing")  # fmt: skip
MOST, QUICK_MOST = 1_000_000, 20_000
TRIES = 4  # which of somebody's rows count is secret: a twin may choose the right ones by chance
QUICK = ("summary", "regression")  # all read tables alike, and the full form has all


def tried(case: Case, chosen: list[Subject], only: tuple[str, ...]) -> list[dict[str, str]]:
    """Return what came of one case, estimator by estimator and way by way."""
    found = []
    for subject in chosen:
        truth = case.truth(subject.used)
        right: Any = None
        if truth is not None and (case.distinct or subject.columns):
            right = by_python(subject, case, subject.clean(truth, case.policy)).found
        with new_folder() as folder:
            place, data = place_of(case, Path(folder))
            results: list[tuple[str, Result]] = [("file", by_python(subject, case, data))]
            if case.frames:
                results += [
                    (name, by_python(subject, case, frame))
                    for name, frame in frames(case, only=only)
                ]
            looked, fitted = by_command(subject, case, place)
            results.append(("command", fitted))
            for way, result in results:
                verdict = judged(result, case, subject, right, way)
                found.append(_row(case, subject, way, verdict, result))
            agreed = bool(looked.said) == (fitted.found is None)
            verdict = judged(looked, case, subject, right, "command") if looked.said else "right"
            if looked.bare or not agreed:
                verdict = "bare exception" if looked.bare else "silently wrong"
            found.append(_row(case, subject, "check", verdict, looked))
    return found


def _row(case: Case, subject: Subject, way: str, verdict: str, result: Result) -> dict[str, str]:
    said = (result.bare or result.said).strip().replace("\n", " ⏎ ")
    return {"case": case.name, "estimator": subject.name, "way": way, "verdict": verdict,
            "said": said[-300:]}  # fmt: skip


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    every = [s for s in subjects() if not quick or s.name in QUICK]
    rows = 132 if quick else 240
    tables = list(cases(rows))
    totals: Counter[str] = Counter()
    for number, case in enumerate(tables):
        chosen = [every[number % len(every)]] if quick else every  # in turns
        _record(outcome, totals, case, tried(case, chosen, ("pandas",) if quick else FRAMES))
    big = largest(QUICK_MOST if quick else MOST)
    plain = [s for s in every if s.name in ("summary", "regression")]
    _record(outcome, totals, big, tried(big, plain, ()))
    outcome.check("messy tables", len(tables) + 1, "≥ 40", len(tables) + 1 >= 40)
    for verdict in BAD:
        outcome.check(verdict, totals[verdict], "0", totals[verdict] == 0)
    for twin in TWINS:
        few = [case for case in tables if case.name in twin.cases]
        only, seen = [s for s in every if s.name in twin.subjects], 0
        for _ in range(TRIES):
            with twin.broken():
                caught = Counter(row["verdict"] for case in few
                                 for row in tried(case, only, ("pandas",)))  # fmt: skip
            seen = sum(caught[verdict] for verdict in twin.verdicts)
            if seen:
                break
        bar = f"caught as {' or '.join(twin.verdicts)}"
        outcome.check(f"a reader that {twin.name}", seen, bar, seen > 0)
    return outcome


def _record(
    outcome: Outcome, totals: Counter[str], case: Case, found: list[dict[str, str]]
) -> None:
    counts = Counter(row["verdict"] for row in found)
    totals.update(counts)
    row: dict[str, Any] = {"table": case.name, "tried": len(found), "right": counts["right"],
                           "refused": counts["refused in full"]}  # fmt: skip
    row["bad"] = sum(counts[verdict] for verdict in BAD)
    first = next((r for r in found if r["verdict"] in BAD), None)
    about = "" if first is None else ", ".join(first[k] for k in ("estimator", "way", "verdict"))
    row["first"] = about and f"{about}: {first and first['said']}"
    outcome.add(row)
