"""The house: sizes, cycles, contracts, registries, and what a family outside of tacit can do.

The source is measured as it lies there, by its syntax trees (`benchmarks._house`): nothing is
imported. The toy family lives in a temporary folder, is enabled as a plug-in (DESIGN §3), and has
to do everything that a family of tacit does, without a change in ``src``. Bars that are missed for
now stand in `benchmarks.known_misses`, each with its reason.
"""

from __future__ import annotations

from benchmarks._house.imports import (
    broken_contracts,
    cycles,
    family_reach,
    graph_of,
)
from benchmarks._house.registries import registries
from benchmarks._house.source import File, read_source, sizes
from benchmarks._house.toy import additions
from experiments.runner import Outcome


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    files = read_source()
    _sizes(outcome, files)
    _imports(outcome, files)
    for name in registries(files):
        outcome.rows.append({"what": "kept by hand", "which": name})
    _toy(outcome)
    return outcome


def _sizes(outcome: Outcome, files: list[File]) -> None:
    found = sizes(files)
    for what, value in (
        ("files", found.files),
        ("median lines of a file", found.median),
        ("largest file", f"{found.largest[0]} ({found.largest[1]})"),
    ):
        outcome.rows.append({"what": what, "which": value})
    lists = {
        "file over 450 lines": found.over_450,
        "function over 80 lines": found.long_functions,
        "over 12 parameters": found.many_parameters,
        "constructor over 20 parameters": found.large_constructors,
    }
    for what, names in lists.items():
        outcome.rows += [{"what": what, "which": name} for name in names]
    outcome.check("lines of the source", found.lines, "≤ 41,000", found.lines <= 41_000)
    outcome.check("files over 450 lines", len(found.over_450), "0", not found.over_450)
    long = len(found.long_functions)
    outcome.check("functions over 80 lines", long, "≤ 4", long <= 4)
    large = len(found.large_constructors)
    outcome.check("constructors over 20 parameters", large, "0", large == 0)
    skipped = found.skipped_formats
    outcome.check("uses of fmt: skip", skipped, "≤ 30", skipped <= 30)


def _imports(outcome: Outcome, files: list[File]) -> None:
    graph = graph_of(files)
    found = cycles(graph)
    outcome.rows += [{"what": "import cycle", "which": ", ".join(cycle)} for cycle in found]
    outcome.check("import cycles, hidden ones included", len(found), "0", not found)
    contracts, broken = broken_contracts()
    outcome.rows += [{"what": "contract broken", "which": name} for name in broken]
    ok = contracts > 0 and not broken
    outcome.check("import contracts broken", len(broken), f"0 of {contracts}", ok)
    reach = family_reach(graph)
    outcome.rows += [{"what": "import of a family", "which": edge} for edge in reach.outside]
    outcome.rows.append({"what": "imports of families by families", "which": reach.inside})
    outcome.rows.append(
        {"what": "by public names, papers and the demo", "which": reach.by_subject}
    )
    outcome.check(
        "share of imports of a family's modules that stay within it", reach.share, "≥ 0.98",
        reach.share >= 0.98,
    )  # fmt: skip


def _toy(outcome: Outcome) -> None:
    for added in additions():
        for name, why in added.works.items():
            what = f"{added.what}: {name}"
            outcome.rows.append({"what": what, "which": why or "works"})
        outcome.rows.append({"what": f"{added.what}: files touched", "which": added.files})
        working = sum(not why for why in added.works.values())
        outcome.check(
            f"what {added.what} outside of tacit can do", working, str(len(added.works)),
            working == len(added.works),
        )  # fmt: skip
