"""A progress bar for long fits: on a terminal, in a notebook, as lines elsewhere.

On a terminal and in files rich draws it. In a notebook rich needs widgets, which not every front
end shows and none keeps: there the bar is a line of output that is replaced, as every front end
can. While a bar is shown, whatever else a person waits for (`tacit._core.waiting`) is said on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tacit._core.html import tag
from tacit._core.waiting import in_notebook, told_here

__all__ = ["progress_bar"]

_OFTEN = 0.2  # seconds between two updates in a notebook
_WIDTH = 24


@contextmanager
def progress_bar(shown: bool, total: int, what: str) -> Iterator[Callable[..., None]]:
    """Yield a function (steps done, a note) that advances a progress bar, or does nothing."""
    if not shown:
        yield lambda done, note="": None
        return
    bar = _in_notebook if in_notebook() else _in_terminal
    with bar(total, what) as advance, told_here(lambda note: advance(0, note)):
        yield advance


@contextmanager
def _in_terminal(total: int, what: str) -> Iterator[Callable[..., None]]:
    from rich.progress import Progress

    with Progress() as bar:
        task = bar.add_task(what, total=total)

        def advance(done: int, note: str = "") -> None:
            bar.update(task, advance=done, description=f"{what}, {note}" if note else what)

        yield advance


@contextmanager
def _in_notebook(total: int, what: str) -> Iterator[Callable[..., None]]:
    line = _Line(total, what)
    try:
        yield line.advance
    finally:
        line.show()


class _Line:
    """One line of a notebook's output, replaced as work goes on."""

    def __init__(self, total: int, what: str) -> None:
        import IPython.display

        self.total, self.what, self.note, self.done = max(total, 1), what, "", 0
        self._began = self._last = time.monotonic()
        show: Any = IPython.display.display
        self._handle: Any = show(self, display_id=True)

    def advance(self, done: int, note: str = "") -> None:
        """Go on, and show it now and then."""
        self.done += done
        changed, self.note = note != self.note and not done, note
        if changed or time.monotonic() - self._last >= _OFTEN:
            self.show()

    def show(self) -> None:
        """Replace the line."""
        self._last = time.monotonic()
        if self._handle is not None:
            self._handle.update(self)

    @property
    def _text(self) -> str:
        share = min(self.done / self.total, 1.0)
        spent = time.monotonic() - self._began
        left = f", about {_seconds(spent / share - spent)} left" if 0.0 < share < 1.0 else ""
        about = f"{self.what}, {self.note}" if self.note else self.what
        return f"{about}: {100.0 * share:.0f} % after {_seconds(spent)}{left}"

    def __repr__(self) -> str:
        full = round(_WIDTH * min(self.done / self.total, 1.0))
        return f"{'█' * full}{'░' * (_WIDTH - full)} {self._text}"

    def _repr_html_(self) -> str:
        bar = tag("progress", value=self.done, max=self.total, aria_label=self.what)
        return tag("div", bar, " ", self._text)


def _seconds(spent: float) -> str:
    """Return a time as people say it.

    >>> _seconds(3.2), _seconds(75.0)
    ('3 s', '1 min 15 s')
    """
    whole = round(spent)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
