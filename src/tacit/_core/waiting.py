"""Who is waiting, and what for: said to a person who sits there, and to nobody else.

Compiling happens once on a machine, and is slow enough to look like a fault. It is said on the
progress bar that is shown; without one, to a person at a terminal or a notebook who has waited for
a second, once in a process. Nothing is said where nobody watches (a log, a service, a site's
process, or wherever ``TACIT_QUIET`` is set, as for notebooks whose outputs are kept), and what is
said is a sentence of the code: nothing of the data can be in it.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

__all__ = ["EVERY_TIME", "ONCE", "Waiting", "compiling", "in_notebook", "told_here", "watched"]

ONCE = "compiling (once on this machine)"
EVERY_TIME = "compiling (in every process: there is no folder to keep it in)"


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def watched() -> bool:
    """Whether a person sees what is said: at a terminal, or in a notebook."""
    if os.environ.get("TACIT_QUIET"):
        return False
    with suppress(Exception):  # a closed or replaced stream is nobody
        return in_notebook() or bool(sys.stderr.isatty())
    return False


class Waiting:
    """What is waited for in this process, and who is told.

    There is no lock, which a fork could leave taken: `begin` and `end` are called one at a time.

    Parameters
    ----------
    watched
        Whether anybody is there.
    say
        How a sentence reaches them.
    patience
        Seconds that a person waits without a word.
    """

    def __init__(
        self, watched: Callable[[], bool], say: Callable[[str], None], patience: float = 1.0
    ) -> None:
        self._watched, self._say, self._patience = watched, say, patience
        self._bars: list[Callable[[str], None]] = []
        self._timer: threading.Timer | None = None
        self._began, self._spent, self._depth, self._said = 0.0, 0.0, 0, False

    def begin(self, sentence: str) -> None:
        """Begin to wait: tell the bar, or whoever is still waiting after a while."""
        self._depth += 1
        if self._depth > 1:
            return
        self._began = time.monotonic()
        if self._bars:
            self._bars[-1](sentence)
        elif not self._said and self._watched():
            left = max(0.0, self._patience - self._spent)
            self._timer = threading.Timer(left, self._tell, [sentence])
            self._timer.daemon = True
            self._timer.start()

    def end(self) -> None:
        """Stop waiting."""
        self._depth = max(0, self._depth - 1)
        if self._depth:
            return
        self._spent += time.monotonic() - self._began
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._bars:
            self._bars[-1]("")

    def _tell(self, sentence: str) -> None:
        if self._depth and not self._said:
            self._said = True
            with suppress(Exception):  # nobody is there any more
                self._say(sentence)

    @contextmanager
    def told_here(self, bar: Callable[[str], None]) -> Iterator[None]:
        """Have a progress bar say what is waited for, while it is shown."""
        self._bars.append(bar)
        try:
            yield
        finally:
            self._bars.remove(bar)


def _to_stderr(sentence: str) -> None:
    print(f"tacit: {sentence} …", file=sys.stderr, flush=True)


compiling = Waiting(watched, _to_stderr)
told_here = compiling.told_here
