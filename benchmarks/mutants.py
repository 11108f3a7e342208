"""Small mistakes, planted one at a time: which of them no test would notice.

At least 200 mistakes are planted in a copy of the source: the most dangerous ones by hand
(`benchmarks._mutants.dangerous`) and a spread of generated ones (`benchmarks._mutants.operators`)
over `privacy`, `mechanisms`, `estimators`, every family's agreement and sides, and secure sums.
For each the quick tests that run the changed line are run until one fails. *Critical* are those
that would let a stated ε or a secret go.

``--only GLOB`` tries those whose name fits, ``--sample N`` another number of them. The full form
takes about an hour on two quiet cores and measures coverage first; ``--quick`` tries ten, with
tests chosen by place.
"""

from __future__ import annotations

from typing import Any

from benchmarks._mutants.mutant import SOURCE
from benchmarks._mutants.quick import quick_mutants, quick_tests
from benchmarks._mutants.sample import chosen
from benchmarks._mutants.selection import Coverage, by_place
from benchmarks._mutants.trial import Trial, try_all
from experiments.runner import Outcome

FEWEST, MOST = 200, 250  # mistakes that are planted
LONGEST = 240.0  # seconds for the tests of one
OPTIONS: dict[str, dict[str, Any]] = {
    "--only": {"help": "a pattern for names: file:function:operator:number"},
    "--sample": {"type": int, "help": "how many mistakes to try"},
}


def run(quick: bool, only: str | None = None, sample: int | None = None) -> Outcome:
    outcome = Outcome()
    if quick and only is None and sample is None:
        mutants, tests_for = quick_mutants(), quick_tests
    else:
        mutants = chosen(only, sample or MOST)
        tests_for = by_place if quick else Coverage.load().tests

    def note(trial: Trial) -> None:
        outcome.add(_row(trial))

    trials, broken = try_all(mutants, tests_for, LONGEST, note)
    caught = [t for t in trials if t.caught_by and t.caught_by not in broken]
    lost = [t for t in trials if t not in caught]
    outcome.rows += [{"mutant": name, "result": "fails without a mistake"} for name in broken]
    outcome.check("tests that fail without any mistake", len(broken), "0", not broken)
    if not quick and only is None and sample is None:
        outcome.check("mistakes planted", len(trials), f"≥ {FEWEST}", len(trials) >= FEWEST)
    share = len(caught) / max(1, len(trials))
    outcome.check("share of mistakes that are caught", share, "≥ 0.98", share >= 0.98)
    grave = sum(trial.mutant.critical for trial in lost)
    outcome.check("critical mistakes that survive", grave, "0", grave == 0)
    return outcome


def _row(trial: Trial) -> dict[str, Any]:
    mutant = trial.mutant
    text = (SOURCE / mutant.file).read_text(encoding="utf-8")
    return {
        "mutant": mutant.name,
        "line": mutant.line,
        "why": mutant.why,
        "critical": mutant.critical,
        "result": f"caught by {trial.caught_by}" if trial.caught_by else "SURVIVED",
        "change": mutant.shown(text),
        "seconds": round(trial.seconds, 1),
    }
