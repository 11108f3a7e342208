"""A progress bar for long fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["progress_bar"]


@contextmanager
def progress_bar(shown: bool, total: int, what: str) -> Iterator[Callable[..., None]]:
    """Yield a function (steps done, a note) that advances a progress bar, or does nothing."""
    if not shown:
        yield lambda done, note="": None
        return
    from rich.progress import Progress

    with Progress() as bar:
        task = bar.add_task(what, total=total)

        def advance(done: int, note: str = "") -> None:
            bar.update(task, advance=done, description=f"{what}, {note}" if note else what)

        yield advance
