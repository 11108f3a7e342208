"""Which mistakes are tried: all that were written by hand, and a spread of generated ones."""

from __future__ import annotations

import fnmatch
import hashlib
import itertools
from collections import defaultdict
from functools import cache

from benchmarks._mutants.dangerous import dangerous
from benchmarks._mutants.equivalent import EQUIVALENT
from benchmarks._mutants.mutant import SOURCE, Mutant
from benchmarks._mutants.operators import mutants_of

TARGETS = ("privacy/**/*.py", "mechanisms/*.py", "estimators/*.py", "federation/secure/*.py",
           "*/**/agreement.py", "*/**/layout.py", "*/**/design.py", "*/**/sides.py")  # fmt: skip
LEFT_OUT = ("rounds/sides.py", "privacy/catalogue.py")
SEED = 20


def targets() -> list[str]:
    """Return the files in which mistakes are planted."""
    found = {str(path.relative_to(SOURCE)) for glob in TARGETS for path in SOURCE.glob(glob)}
    return sorted(found - set(LEFT_OUT))


@cache
def every() -> tuple[Mutant, ...]:
    """Return every mistake that the operators make."""
    return tuple(
        mutant
        for file in targets()
        for mutant in mutants_of(file, (SOURCE / file).read_text(encoding="utf-8"))
    )


def generated() -> list[Mutant]:
    """Return every mistake that the operators make and that is one."""
    return [mutant for mutant in every() if mutant.name not in EQUIVALENT]


def spread(mutants: list[Mutant], count: int, seed: int = SEED) -> list[Mutant]:
    """Return some mutants, in turns from every (package, operator).

    The order is a function of each name alone: where one mutant comes or goes, the others stay.
    """

    def place(name: str) -> bytes:
        return hashlib.sha256(f"{seed} {name}".encode()).digest()

    groups: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in sorted(mutants, key=lambda mutant: place(mutant.name)):
        groups[f"{mutant.file.split('/')[0]} {mutant.name.split(':')[2]}"].append(mutant)
    queues = [groups[key] for key in sorted(groups, key=place)]
    turns = itertools.zip_longest(*queues)
    return [mutant for turn in turns for mutant in turn if mutant is not None][:count]


def chosen(only: str | None, sample: int) -> list[Mutant]:
    """Return the mistakes to try: ``only`` is a pattern for names, ``sample`` their number."""
    by_hand, made = list(dangerous()), generated()
    if only is not None:
        by_hand = [m for m in by_hand if fnmatch.fnmatch(m.name, only)]
        made = [m for m in made if fnmatch.fnmatch(m.name, only)]
    if sample <= len(by_hand):
        return spread(by_hand + made, sample)
    return by_hand + spread(made, sample - len(by_hand))
