"""Who waits is told what for: on the bar, or after a while where a person sits; nobody else is."""

from __future__ import annotations

import io
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tacit._core import progress, waiting
from tacit._core.waiting import ONCE, Waiting

KERNEL = """
import sys
from tacit._core import waiting
from tacit._core.kernels import compiled
waiting.compiling._watched = lambda: True
waiting.compiling._patience = 0.0
def kernel(x):
    total = 0.0
    for i in range(x):
        total += i
    return total
print(compiled(kernel)(3))
"""


def waiter(watched: bool, patience: float = 0.0) -> tuple[Waiting, list[str], threading.Event]:
    said: list[str] = []
    heard = threading.Event()

    def say(sentence: str) -> None:
        said.append(sentence)
        heard.set()

    return Waiting(lambda: watched, say, patience), said, heard


def test_whoever_watches_is_told_once() -> None:
    wait, said, heard = waiter(True)
    wait.begin(ONCE)
    assert heard.wait(30.0)
    wait.end()
    wait.begin(ONCE)
    wait.end()
    assert said == [ONCE]


def test_nobody_is_told_where_nobody_watches_or_it_is_quick() -> None:
    for watched, patience in ((False, 0.0), (True, 60.0)):
        wait, said, _ = waiter(watched, patience)
        wait.begin(ONCE)
        timer = wait._timer
        wait.end()
        if timer is not None:
            timer.join(30.0)
        assert said == []


def test_many_short_waits_are_one_long_one() -> None:
    wait, _, heard = waiter(True, 1.0)
    wait._spent = 2.0
    wait.begin(ONCE)
    assert heard.wait(30.0)
    wait.end()


def test_a_bar_says_it_at_once_and_forgets_it() -> None:
    wait, said, _ = waiter(True, 60.0)
    notes: list[str] = []
    with wait.told_here(notes.append):
        wait.begin(ONCE)
        wait.begin("a kernel that the first one needs")
        wait.end()
        wait.end()
    assert notes == [ONCE, ""] and said == []


def test_compiling_is_said_to_a_person_once_on_a_machine(tmp_path: Path) -> None:
    script = tmp_path / "kernel.py"
    script.write_text(KERNEL)
    run = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert run.stdout == "3.0\n"
    assert "tacit: compiling" in run.stderr
    again = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert "compiling" not in again.stderr


def test_a_log_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not waiting.watched()
    monkeypatch.setattr(sys, "stderr", None)
    assert not waiting.watched()


def test_a_notebook_that_is_run_to_be_kept_is_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "in_notebook", lambda: True)
    assert waiting.watched()
    monkeypatch.setenv("TACIT_QUIET", "1")
    assert not waiting.watched()


class Handle:
    def __init__(self) -> None:
        self.shown: list[str] = []

    def update(self, line: object) -> None:
        self.shown.append(repr(line))


def test_a_notebook_shows_a_line_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display")
    handle = Handle()
    monkeypatch.setattr(display, "display", lambda line, display_id: handle)
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    monkeypatch.setattr(progress, "_OFTEN", 0.0)
    with progress.progress_bar(True, 4, "sampling <b>") as advance:
        advance(1)
        waiting.compiling.begin(ONCE)
        waiting.compiling.end()
        advance(3, "ε = 1 so far")
    assert "sampling <b>: 25 %" in handle.shown[0]
    assert any(ONCE in line for line in handle.shown)
    assert "ε = 1 so far: 100 %" in handle.shown[-1]


def test_a_line_is_escaped_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    display = pytest.importorskip("IPython.display")
    monkeypatch.setattr(display, "display", lambda line, display_id: Handle())
    assert "<b>" not in progress._Line(3, "<b>")._repr_html_()
