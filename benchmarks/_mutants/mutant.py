"""`Mutant`: one small mistake in one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tacit"
# two workers fill two cores: threads of linear algebra would only wait for each other
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Attributes
    ----------
    name
        ``file:function:operator:number``, the same as long as the function is.
    file
        The path below ``src/tacit``.
    start, stop
        Which characters of the file are replaced.
    new
        By what.
    line
        Where that is.
    why
        What goes wrong, in words.
    critical
        Whether a stated ε or a secret would go.
    """

    name: str
    file: str
    start: int
    stop: int
    new: str
    line: int
    why: str
    critical: bool

    def applied(self, text: str) -> str:
        """Return the file with the mistake in it."""
        return text[: self.start] + self.new + text[self.stop :]

    def shown(self, text: str) -> str:
        """Return the old and the new line, for people."""
        first = text.rfind("\n", 0, self.start) + 1
        last = text.find("\n", self.stop)
        old = text[first:last].strip()
        new = (text[first : self.start] + self.new + text[self.stop : last]).strip()
        return f"{' '.join(old.split())}  →  {' '.join(new.split())}"
