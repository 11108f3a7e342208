"""The high-water mark of a ledger: the last row that anybody has seen, kept outside of the file.

A chain of hashes shows an edited row, and cannot show that its last rows are missing: what is left
is a whole chain. A mark that is kept elsewhere does, and so does every certificate, which names
the row that was the last one when it was signed.

It promises no more than this: rows that were removed while the mark was not are noticed. Whoever
can write the ledger *and* the mark can lower both: keep the mark where the ledger's own user
cannot take it back (another machine, by a callback), if that is to be excluded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from tacit.errors import LedgerCorrupt, LedgerError

try:
    import fcntl
except ImportError:  # pragma: no cover, where there are no file locks
    fcntl = None  # type: ignore[assignment]

__all__ = ["CallbackMark", "Mark", "MarkFile", "Seen", "Told", "check_mark"]


class Seen(NamedTuple):
    """A row that was seen: of which ledger, its counter and its hash."""

    ledger: str
    counter: int
    digest: str


# Called with a ledger's id, a counter and a hash; keeps the highest and returns it, or None.
Told = Callable[[str, int, str], "tuple[int, str] | None"]


class Mark(Protocol):
    """Something that remembers the highest row of a ledger."""

    def begin(self) -> Seen | None:
        """Make room for a new ledger; return what another ledger left there, if anything."""

    def seen(self, ledger: str) -> Seen | None:
        """Return the highest row that was seen; None where nothing can be said."""

    def ready(self) -> None:
        """Raise where no row could be remembered, as far as that can be known before."""

    def raise_to(self, row: Seen) -> None:
        """Remember a row, unless a higher one is known."""


class MarkFile:
    """A mark in a small file.

    Parameters
    ----------
    path
        The file: the ledger's id, a counter and a hash, in one line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def begin(self) -> Seen | None:
        """Make the file unless it exists; what it holds of another ledger is returned."""
        os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o600))
        return self.seen("")

    def seen(self, ledger: str) -> Seen | None:
        """Return what the file says; None where there is no file."""
        try:
            text = self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LedgerError(f"the mark {self.path} cannot be read: {error.strerror}") from None
        return self._parsed(text, ledger)

    def _parsed(self, text: bytes, ledger: str) -> Seen:
        if not text:
            return Seen(ledger, 0, "")
        try:
            known, counter, digest = text.decode("ascii").split()
            return Seen(known, int(counter), digest)
        except ValueError:
            raise LedgerCorrupt(f"{self.path} is no mark of a ledger") from None

    def ready(self) -> None:
        """Raise where the file cannot be written: then nothing is charged."""
        try:
            os.close(os.open(self.path, os.O_RDWR))
        except OSError as error:
            raise LedgerError(
                f"the mark {self.path} cannot be written ({error.strerror}): nothing was charged"
            ) from None

    def raise_to(self, row: Seen) -> None:
        """Write a row over a lower one; one small write in place, under a lock."""
        try:
            number = os.open(self.path, os.O_RDWR)
        except OSError as error:
            raise LedgerError(
                f"the mark {self.path} cannot be written ({error.strerror}): the charge stands, "
                "and nothing was released"
            ) from None
        with _locked(number):
            known = self._parsed(os.pread(number, 1024, 0), row.ledger)
            if row.counter > known.counter or not known.digest:
                # of fixed length: it replaces the older line in one piece
                line = f"{row.ledger} {row.counter:020d} {row.digest}\n"
                os.pwrite(number, line.encode("ascii"), 0)


@contextmanager
def _locked(number: int) -> Iterator[None]:
    try:
        if fcntl is not None:
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


class CallbackMark:
    """A mark that the holder's own function keeps, on another machine say.

    Parameters
    ----------
    told
        Called with a ledger's id, a counter and a hash (0 and nothing where it is only asked);
        keeps the highest and returns (counter, hash), or None where it has seen none.
    """

    def __init__(self, told: Told) -> None:
        self._told = told

    def begin(self) -> Seen | None:
        """Return nothing: a function knows ledgers by their ids."""
        return None

    def seen(self, ledger: str) -> Seen | None:
        """Ask the function."""
        found = self._told(ledger, 0, "")
        return Seen(ledger, 0, "") if found is None else Seen(ledger, int(found[0]), str(found[1]))

    def ready(self) -> None:
        """Ask nothing: `seen` is asked before every charge."""

    def raise_to(self, row: Seen) -> None:
        """Tell the function."""
        self._told(*row)


def check_mark(
    seen: Seen | None, end: Seen, digest_of: Callable[[int], str | None], where: object
) -> None:
    """Raise `LedgerCorrupt` where rows are missing that were seen.

    Parameters
    ----------
    seen
        What the mark says; None says nothing.
    end
        The end of the ledger as it is.
    digest_of
        Returns the hash of a row.
    where
        The ledger, for people.
    """
    if seen is None:
        return
    if seen.ledger != end.ledger:
        raise LedgerCorrupt(
            f"the mark of {where} is that of another ledger, {seen.ledger[:8]}, which had "
            f"{seen.counter} rows: restore that one, or give this one a mark of its own"
        )
    if seen.counter > end.counter:
        raise LedgerCorrupt(
            f"rows were removed from {where}, or it is an older copy: it ends at row "
            f"{end.counter}, and row {seen.counter} was seen. Restore the latest one"
        )
    found = end.digest if seen.counter == end.counter else digest_of(seen.counter)
    if seen.digest and found != seen.digest:
        raise LedgerCorrupt(
            f"row {seen.counter} of {where} is not the one that was seen: rows were removed and "
            "others put in their place"
        )
