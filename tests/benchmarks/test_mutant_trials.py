"""A trial names the test that failed so that pytest takes the name again, however odd it is."""

from __future__ import annotations

import pytest

from benchmarks._mutants.mutant import Mutant
from benchmarks._mutants.trial import CANNOT_START, Worker, _broken

INI = """
[pytest]
addopts = --doctest-modules -p no:hypothesispytest -p no:xdist -p no:pytest_cov
filterwarnings = error
markers = slow
"""
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
WAITING = """
import threading
from tacit import errors

def test_waiting():
    if hasattr(errors, "WAIT"):
        threading.Event().wait()
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    found = tmp_path_factory.mktemp("trials")
    (found / "pytest.ini").write_text(INI, encoding="utf-8")
    (found / "test_odd.py").write_text(ODD, encoding="utf-8")
    (found / "test_unreadable.py").write_text("import nothing_of_this_name\n", encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def worker(tmp_path_factory, folder):
    found = Worker(tmp_path_factory.mktemp("copy"), folder, ["pytest", "doctest", "pdb"])
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
    (inner / "test_import.py").write_text(
        "import tacit.errors\n\ndef test(): pass\n", encoding="utf-8"
    )
    mutant = Mutant("name", "errors.py", 0, 0, "1 / 0\n", 1, "why", True)
    tests = ["inner/test_import.py"]
    assert worker.try_out(mutant, tests, 60).caught_by == "inner/test_import.py"
    assert worker.run(tests, 60)["failed"] == []
    (inner / "conftest.py").write_text("import tacit.errors\n", encoding="utf-8")
    assert worker.try_out(mutant, tests, 60).caught_by == CANNOT_START
    lost = worker.try_out(mutant, ["test_gone.py"], 60)
    assert lost.caught_by == "" and "test_gone.py" in lost.said


def test_a_timeout_counts_only_where_the_tests_are_fast_without_the_mistake(worker, folder):
    (folder / "test_waiting.py").write_text(WAITING, encoding="utf-8")
    mutant = Mutant("name", "errors.py", 0, 0, "WAIT = True\n", 1, "why", True)
    assert worker.try_out(mutant, ["test_waiting.py"], 2.0).caught_by == "timeout"
    assert worker.try_out(mutant, ["test_waiting.py"], 0.01).caught_by == ""
