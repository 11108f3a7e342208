"""The form for a minute: ten of the dangerous mistakes, and for each the nearest tests."""

from __future__ import annotations

from benchmarks._mutants.dangerous import dangerous
from benchmarks._mutants.mutant import Mutant
from benchmarks._mutants.sample import spread
from benchmarks._mutants.selection import by_place

QUICK = 10
FILES = 3  # of tests for one mistake
# whose tests need no compiled loops and take a second or two
PLACES = ("privacy/events", "mechanisms/clipping", "mechanisms/grid", "mechanisms/sampled",
          "federation/secure")  # fmt: skip


def quick_mutants() -> list[Mutant]:
    """Return ten mistakes, always the same as long as the list is."""
    return spread([m for m in dangerous() if m.file.startswith(PLACES)], QUICK)


def quick_tests(mutant: Mutant) -> list[str]:
    """Return the nearest test files."""
    return by_place(mutant)[:FILES]
