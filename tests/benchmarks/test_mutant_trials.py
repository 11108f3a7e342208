"""A trial names the test that failed so that pytest takes the name again, however odd it is."""

from __future__ import annotations

import pytest

from benchmarks._mutants.mutant import Mutant
from benchmarks._mutants.trial import CANNOT_START, Worker, _broken

ODD = '''
import pytest

def half(x):
    """Halve.

    >>> half(4)
    3
    """
    return x // 2

@pytest.mark.parametrize("x", ["a b", "a::b", "[c] - d", "é/ü", "", "sound"])
def test_names(x):
    assert x == "sound"

class TestOf:
    def test_a_class(self):
        assert half(4) == 3
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("trials")
    (found / "pytest.ini").write_text("[pytest]\naddopts = --doctest-modules\nmarkers = slow\n")
    (found / "test_odd.py").write_text(ODD, encoding="utf-8")
    (found / "test_unreadable.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def worker(tmp_path_factory, folder):
    found = Worker(tmp_path_factory.mktemp("copy"), folder)
    yield found
    found.close()


def test_every_name_of_a_failure_selects_it_again(worker):
    result = worker.run(["test_odd.py", "test_unreadable.py"], 60, every=True)
    names = result["failed"]
    assert not result["unusable"]
    assert len(names) == 5 + 1 + 1 + 1  # odd names, the class, the example and the file
    assert sum("test_names[" in name for name in names) == 5
    assert "test_unreadable.py" in names
    assert sorted(_broken(worker, names)) == sorted(names)
    assert worker.run([names[-1]], 60)["failed"] == [names[-1]]


def test_a_name_that_is_gone_falls_back_to_its_file(worker):
    result = worker.run(["test_odd.py::test_names[gone]", "test_odd.py::test_gone"], 60)
    assert not result["unusable"]
    assert len(result["failed"]) == 1 and result["failed"][0].startswith("test_odd.py::")


def test_what_cannot_be_run_at_all_is_said_and_counts_as_broken(worker):
    assert worker.run(["test_gone.py::test_gone"], 60)["unusable"]
    assert _broken(worker, ["test_gone.py::test_gone"]) == ["test_gone.py::test_gone"]
    assert _broken(worker, []) == []


def test_a_mistake_is_planted_and_taken_out_again(worker, folder):
    inner = folder / "inner"
    inner.mkdir()
    (inner / "test_import.py").write_text("import tacit\n\ndef test(): pass\n", encoding="utf-8")
    mutant = Mutant("name", "__init__.py", 0, 0, "1 / 0\n", 1, "why", True)
    tests = ["inner/test_import.py"]
    assert worker.try_out(mutant, tests, 60).caught_by == "inner/test_import.py"
    assert worker.run(tests, 60)["failed"] == []
    (inner / "conftest.py").write_text("import tacit\n", encoding="utf-8")
    assert worker.try_out(mutant, tests, 60).caught_by == CANNOT_START
    assert worker.try_out(mutant, ["test_gone.py"], 60).caught_by == ""
