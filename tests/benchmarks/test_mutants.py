"""Planted mistakes are small, sit where they should, and ten of the worst are caught."""

from __future__ import annotations

import ast
import json

import pytest

from benchmarks._mutants.dangerous import ENTRIES, dangerous, out_of_date
from benchmarks._mutants.equivalent import EQUIVALENT
from benchmarks._mutants.mutant import ROOT, SOURCE
from benchmarks._mutants.operators import OPERATORS, mutants_of
from benchmarks._mutants.sample import chosen, every, generated, spread, targets
from benchmarks._mutants.selection import MOST, Coverage, by_place, joined, statement_lines
from benchmarks.known_misses import KNOWN_MISSES


def made(text: str) -> dict[str, str]:
    """Return operator → the changed text, of the first mistake that it makes."""
    found: dict[str, str] = {}
    for mutant in mutants_of("file.py", text):
        found.setdefault(mutant.name.split(":")[2], mutant.applied(text))
    return found


@pytest.mark.parametrize(
    ("operator", "old", "new"),
    [
        ("comparisons", "a = é <= b", "a = é < b"),
        ("removed-checks", "if a > b:\n    raise E()", "if False:\n    raise E()"),
        ("extremes", "np.maximum(a, b)", "np.minimum(a, b)"),
        ("roots", "2 + math.sqrt(a + b)", "2 + (a + b)"),
        ("roundings", "float_above(x)", "float_below(x)"),
        ("clips", "np.clip(x, 0, 1) + 1", "(x) + 1"),
        ("noise-scales", "noise.gaussian(n, s / 2)", "noise.gaussian(n, (s / 2) * 0.5)"),
        ("relations", "f(REPLACE)", 'f("add-remove-one")'),
        ("factors", "x = 2.0 * y", "x = 1.0 * y"),
        ("powers", "x = (a + b) ** 2", "x = (a + b)"),
        ("off-by-one", "x = n - 1", "x = (n)"),
        ("growths", "s = clip + grid.growth(3)", "s = (clip)"),
        ("skipped-calls", "self.claim(event)", "pass"),
        ("connectives", "a and b", "a or b"),
        ("magnitudes", "np.abs(a - b).sum()", "(a - b).sum()"),
    ],
)
def test_an_operator_makes_its_mistake_and_nothing_else(operator, old, new):
    assert made(old)[operator] == new


def test_every_operator_is_tested_and_used():
    used = {mutant.name.split(":")[2] for mutant in generated()}
    assert used == set(OPERATORS)


def test_there_are_enough_mistakes_and_each_can_be_read():
    mutants = chosen(None, 250)
    assert len(mutants) == len({mutant.name for mutant in mutants}) == 250
    texts = {m.file: (SOURCE / m.file).read_text(encoding="utf-8") for m in mutants}
    sound = {file: ast.dump(ast.parse(text)) for file, text in texts.items()}
    for mutant in mutants:
        changed = mutant.applied(texts[mutant.file])
        assert changed != texts[mutant.file]
        assert ast.dump(ast.parse(changed)) != sound[mutant.file], mutant.name


def test_mistakes_written_by_hand_fit_the_source():
    assert out_of_date() == []
    assert len(list(dangerous())) == len(ENTRIES) >= 80


def test_what_is_called_equivalent_is_made_and_has_a_reason():
    assert set(EQUIVALENT) <= {mutant.name for mutant in every()}
    assert all(EQUIVALENT.values())


def test_every_package_and_operator_has_its_turn():
    found = spread(generated(), 150)
    assert {m.file.split("/")[0] for m in found} == {f.split("/")[0] for f in targets()}
    assert {m.name.split(":")[2] for m in found} == set(OPERATORS)
    assert found == spread(generated(), 150)
    left = {m.name for m in spread([m for m in generated() if m != found[3]], 150)}
    assert len({m.name for m in found} - left) == 1, "the others stay"


def test_tests_are_found_by_place():
    for mutant in dangerous():
        tests = by_place(mutant)
        assert tests
        assert all((ROOT / test).exists() for test in tests)
    secret = next(m for m in dangerous() if m.file.endswith("secure/keys.py"))
    assert "tests/federation/secure/test_exchange.py" in by_place(secret)[:2]


SOME = """
limit = 3

def f(x=limit):
    if (x and
        limit):
        return [
            x + 1]
"""


@pytest.mark.parametrize(
    ("line", "lines"), [(2, []), (4, []), (5, [5, 5]), (6, [6, 5]), (7, [7, 7]), (8, [8, 7])]
)
def test_a_line_is_run_by_who_runs_its_statement_unless_that_is_an_import(line, lines):
    assert statement_lines(SOME, line) == lines


def test_the_shortest_tests_that_ran_a_line_are_taken_as_long_as_there_is_time():
    mutant = next(m for m in generated() if m.name.startswith("privacy/ledger/ledger.py:Ledger."))
    times = [["a.py::slow", MOST], ["a.py::short", 1.0], ["a.py::long", MOST - 2.0]]
    covered = {mutant.file: {str(mutant.line): [0, 1, 2]}}
    assert Coverage(covered, times).tests(mutant) == ["a.py::short", "a.py::long"]
    assert Coverage({}, times).tests(mutant) == by_place(mutant)
    first, second = by_place(mutant)[:2]
    near = [[f"{first}::slow", MOST], [f"{second}::short", 1.0], ["far.py::short", 0.1]]
    assert Coverage({}, near).tests(mutant) == [f"{second}::short"]


def test_of_an_old_map_what_unchanged_tests_ran_is_kept():
    old = {
        "tests": [["a.py::one", 1.0], ["b.py::two", 2.0]],
        "lines": {"x.py": {"1": [0], "2": [0, 1]}, "y.py": {"5": [1]}},
    }
    new = {"tests": [["b.py::three", 3.0]], "lines": {"x.py": {"2": [0], "3": [0]}}}
    assert joined(old, new, {"a.py"}) == {
        "tests": [["a.py::one", 1.0], ["b.py::three", 3.0]],
        "lines": {"x.py": {"1": [0], "2": [0, 1], "3": [1]}, "y.py": {"5": []}},
    }


def test_ten_of_the_worst_mistakes_are_caught(capsys):
    from experiments.runner import main

    assert main("benchmarks", ["mutants", "--json", "--quick"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    rows = [row for row in result["rows"] if "critical" in row]
    assert len(rows) == 10
    missed = {check["what"] for check in result["checks"] if not check["ok"]}
    assert missed == set(KNOWN_MISSES["mutants"]), [r for r in rows if r["result"] == "SURVIVED"]
