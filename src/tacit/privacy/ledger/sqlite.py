"""A ledger's rows in an append-only SQLite file, signed one by one, under a high-water mark."""

from __future__ import annotations

import os
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

from tacit.errors import LedgerCorrupt, LedgerError
from tacit.privacy.ledger.keys import Endorsement, KeyFile, Signing, head_text, is_signed
from tacit.privacy.ledger.mark import Mark, MarkFile, Seen, check_mark
from tacit.privacy.ledger.rows import Head, Meta, Row, genesis
from tacit.privacy.ledger.store import Store

__all__ = ["SCHEMA", "SQLiteStore"]

SCHEMA = 2
_APPLICATION = 0x74616369  # "taci", SQLite's application_id

# Each migration brings a file from the schema it is filed under to the next one.
MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {}

_CREATE = """
CREATE TABLE meta (
  id TEXT, epsilon TEXT, delta TEXT, filter TEXT, created TEXT, unit TEXT, neighbours TEXT,
  most TEXT, key TEXT);
CREATE TABLE entries (
  counter INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, run TEXT NOT NULL,
  purpose TEXT NOT NULL, event TEXT NOT NULL, unit TEXT NOT NULL, neighbours TEXT NOT NULL,
  terms TEXT NOT NULL, run_delta TEXT NOT NULL, cost TEXT NOT NULL, cost_delta TEXT NOT NULL,
  amount TEXT NOT NULL, delta TEXT NOT NULL, epsilon REAL NOT NULL, previous TEXT NOT NULL,
  digest TEXT NOT NULL, signature TEXT NOT NULL);
CREATE TABLE endorsements (identity TEXT NOT NULL, signature TEXT NOT NULL);
CREATE INDEX runs ON entries (run);
CREATE TRIGGER entries_update BEFORE UPDATE ON entries
  BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER entries_delete BEFORE DELETE ON entries
  BEGIN SELECT RAISE(ABORT, 'a ledger is append-only'); END;
CREATE TRIGGER meta_update BEFORE UPDATE ON meta
  BEGIN SELECT RAISE(ABORT, 'the ceiling of a ledger is fixed'); END;
CREATE TRIGGER meta_delete BEFORE DELETE ON meta
  BEGIN SELECT RAISE(ABORT, 'the ceiling of a ledger is fixed'); END;
"""


_ALL = "SELECT * FROM entries ORDER BY counter"


@lru_cache(maxsize=1)
def _own_triggers() -> dict[str, str]:
    """Return the triggers of a ledger as SQLite keeps them."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(_CREATE)
        return _triggers(connection)
    finally:
        connection.close()


def _triggers(connection: sqlite3.Connection) -> dict[str, str]:
    query = "SELECT name, sql FROM sqlite_master WHERE type IN ('trigger', 'view')"
    return dict(connection.execute(query).fetchall())


class SQLiteStore(Store):
    """Rows in one SQLite file, one durable transaction each.

    ``synchronous=EXTRA`` with a persistent rollback journal: a committed row survives a power
    cut, and the file alone is the whole ledger (no write-ahead log to forget in a copy).
    Connections do not cross a fork: a child opens its own.

    Parameters
    ----------
    path
        The file.
    create
        What a new ledger is for, without its key; None where it must exist.
    key, mark
        The ledger's key and its high-water mark, both outside of the file.
    """

    durable = True

    def __init__(self, path: Path, create: Meta | None, key: KeyFile, mark: Mark) -> None:
        self.path, self._key, self._mark = path, key, mark
        beside = mark.path if isinstance(mark, MarkFile) else None
        named = None if beside is None else (path, key.path, beside)
        self._files = None if named is None else tuple(os.path.abspath(one) for one in named)
        self._lock = threading.RLock()
        self._pid = 0
        self._connection: sqlite3.Connection
        self._trusted = ""  # the last hash whose signature was checked here
        if create is None and not path.exists():
            raise LedgerError(
                f"there is no ledger at {path}: pass epsilon=… and delta=… to create one"
            )
        if create is not None and not path.exists():
            self._create(create)
        with self._connected() as connection:
            self._check_schema(connection)
            connection.execute("PRAGMA journal_mode=PERSIST")
            found = connection.execute("SELECT * FROM meta").fetchall()
        if len(found) != 1:
            raise LedgerCorrupt(f"{path} does not state its ceiling: it is not a whole ledger")
        if len(found[0]) != len(Meta._fields) or not all(isinstance(v, str) for v in found[0]):
            raise LedgerCorrupt(f"{self.path} is a database, but not a tacit ledger")
        self.meta = Meta(*found[0])

    def _create(self, meta: Meta) -> None:
        """Write a complete empty ledger beside the path and link it there, once.

        Its key and its mark are there before it is. A process that loses the race to link finds
        the winner's ledger; nobody sees half a file, even after ``kill -9``.
        """
        draft = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex}.new")
        try:
            left = self._mark.begin()
            if left is not None and left.ledger and not self.path.exists():
                raise LedgerError(
                    f"the mark of {self.path} remembers row {left.counter} of ledger "
                    f"{left.ledger[:8]}: restore that ledger; a new one would begin with the "
                    "whole budget. If it is to be another one, give it another name"
                )
            meta = meta._replace(key=self._key.make().public)
            connection = sqlite3.connect(draft, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode=MEMORY")
                connection.execute("PRAGMA synchronous=EXTRA")
                connection.execute(f"PRAGMA application_id={_APPLICATION}")
                connection.execute(f"PRAGMA user_version={SCHEMA}")
                connection.executescript(f"BEGIN;{_CREATE}COMMIT;")
                connection.execute("INSERT INTO meta VALUES (?,?,?,?,?,?,?,?,?)", meta)
            finally:
                connection.close()
            os.link(draft, self.path)
        except FileExistsError:
            pass
        except (OSError, sqlite3.Error) as error:
            raise LedgerError(f"cannot create a ledger at {self.path}: {error}") from None
        finally:
            draft.unlink(missing_ok=True)

    def _connect(self) -> sqlite3.Connection:
        if self._pid != os.getpid():
            # a connection inherited through a fork is kept, unused and never closed: closing it
            # here would touch the parent's transaction
            self._inherited = getattr(self, "_connection", None)
            self._lock = threading.RLock()
            connection = sqlite3.connect(
                self.path, isolation_level=None, timeout=60.0, check_same_thread=False
            )
            connection.execute("PRAGMA synchronous=EXTRA")
            if hasattr(self, "meta"):  # known to be ours: a child's connection
                connection.execute("PRAGMA journal_mode=PERSIST")
            self._connection, self._pid = connection, os.getpid()
        return self._connection

    def close(self) -> None:
        """Close the file."""
        if self._pid == os.getpid():
            self._connection.close()
            self._pid = 0

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        """Yield this process's connection, under its lock."""
        with _sqlite(self.path):
            connection = self._connect()  # first: a child gets a lock of its own here
            with self._lock:
                yield connection

    def _check_schema(self, connection: sqlite3.Connection) -> None:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if application != _APPLICATION:
            raise LedgerCorrupt(f"{self.path} is a database, but not a tacit ledger")
        if version > SCHEMA:
            raise LedgerError(
                f"{self.path} has schema {version}, this tacit reads up to {SCHEMA}: update tacit"
            )
        while version < SCHEMA:
            if version not in MIGRATIONS:
                raise LedgerError(
                    f"{self.path} has schema {version}, which cannot be migrated: its rows do not "
                    "say for which unit they are. Make a new ledger, with what that one had left"
                )
            connection.execute("BEGIN IMMEDIATE")
            try:
                current = connection.execute("PRAGMA user_version").fetchone()[0]
                if current == version:  # nobody else migrated meanwhile
                    MIGRATIONS[version](connection)
                    connection.execute(f"PRAGMA user_version={version + 1}")
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            version += 1

    def append(self, build: Callable[[Head], Row]) -> Row:
        """Append in one durable transaction; concurrent processes wait their turn."""
        signing = self.signing()
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                self._check_triggers(connection)
                self._check_marked()
                row = build(self._read_head(connection))
                row = row._replace(
                    signature=signing.sign(head_text(self.meta.id, row.counter, row.digest))
                )
                text = [str(v) if isinstance(v, Fraction) else v for v in row]
                connection.execute(
                    "INSERT INTO entries VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", text
                )
                self._mark.ready()
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            self._trusted = row.digest
        self._mark.raise_to(Seen(self.meta.id, row.counter, row.digest))
        return row

    def signing(self) -> Signing:
        """Return the ledger's key, or say that it is missing."""
        return self._key.for_ledger(self.meta.key)

    @property
    def files(self) -> tuple[str, ...] | None:
        """The absolute paths of rows, key and mark; None where a function keeps the mark."""
        return self._files

    @property
    def marked(self) -> bool:
        """Whether rows that are missing at the end would be noticed."""
        return self._mark.seen(self.meta.id) is not None

    def _check_marked(self) -> None:
        if not self.marked:
            raise LedgerError(
                f"the high-water mark of {self.path} is missing: restore it, or pass mark=… where "
                "it is; when you are sure that no row is missing, make it anew with `tacit ledger "
                "mark`. Nothing was released"
            )

    def ready(self) -> None:
        """Try everything that a row needs, but for the row: nothing is written."""
        self.signing()
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.execute(f"PRAGMA user_version={SCHEMA}")  # as it is
                self._check_triggers(connection)
                self._check_marked()
                self._mark.ready()
                self._read_head(connection)
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def mark_anew(self) -> None:
        """Make the mark again, from the ledger as it is now."""
        end = self.head()
        self._mark.begin()
        self._mark.raise_to(Seen(self.meta.id, end.counter, end.digest))

    def check(self) -> None:
        """Raise unless the file is of its full length and has its own triggers, and no other."""
        with self._connected() as connection:
            connection.execute("BEGIN")  # so that nobody makes it longer meanwhile
            try:
                self._check_triggers(connection)
                pages, size = (
                    connection.execute(f"PRAGMA {name}").fetchone()[0]
                    for name in ("page_count", "page_size")
                )
                if self.path.stat().st_size < pages * size:
                    raise LedgerCorrupt(f"{self.path} is shorter than it was: it was cut")
            finally:
                connection.execute("ROLLBACK")

    def _check_triggers(self, connection: sqlite3.Connection) -> None:
        found, own = _triggers(connection), _own_triggers()
        if found != own:
            names = sorted(set(found.items()) ^ set(own.items()))
            raise LedgerCorrupt(
                f"the triggers that keep {self.path} append-only were changed: {names[0][0]}"
            )

    def endorsements(self) -> list[Endorsement]:
        """Return which identities have signed the ledger's key."""
        query = "SELECT identity, signature FROM endorsements"
        return [Endorsement(str(a), str(b)) for a, b in self._select(query, ())]

    def endorse(self, given: Endorsement) -> None:
        """Keep an identity's word for the ledger's key."""
        with self._connected() as connection:
            connection.execute("INSERT INTO endorsements VALUES (?,?)", given)

    def _read_head(self, connection: sqlite3.Connection) -> Head:
        # first: it is raised after a row is there, by other processes too
        seen = self._mark.seen(self.meta.id)
        last = connection.execute("SELECT * FROM entries ORDER BY counter DESC LIMIT 1").fetchone()
        if last is None:
            head = genesis(self.meta)
        else:
            row = _parse(last)
            if row.computed_digest() != row.digest:
                raise LedgerCorrupt(f"row {row.counter} of {self.path} was changed")
            head = row.head()
            if head.digest != self._trusted:
                check_head(self.meta, head, self.path)
                self._trusted = head.digest

        def digest_of(counter: int) -> str | None:
            query = "SELECT digest FROM entries WHERE counter = ?"
            found = connection.execute(query, (counter,)).fetchone()
            return None if found is None else str(found[0])

        end = Seen(self.meta.id, head.counter, head.digest)
        check_mark(seen, end, digest_of, self.path)
        return head

    def head(self) -> Head:
        """Return the end of the chain."""
        with self._connected() as connection:
            return self._read_head(connection)

    def _select(self, query: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
        with self._connected() as connection:
            return connection.execute(query, values).fetchall()

    def rows(self) -> Iterator[Row]:
        """Yield all rows, as they were when the reading began."""
        yield from map(_parse, self._select(_ALL, ()))

    def texts(self) -> Iterable[Row]:
        """Return all rows with their amounts as text: parsing 10⁵ of them takes a second."""
        found = self._select(_ALL, ())
        if found and len(found[0]) != len(Row._fields):
            raise LedgerCorrupt(f"the rows of {self.path} cannot be read")
        return map(Row._make, found)

    def run_rows(self, run: str, after: int = 0) -> list[Row]:
        """Return the rows of one run."""
        query = "SELECT * FROM entries WHERE run = ? AND counter > ? ORDER BY counter"
        return [_parse(row) for row in self._select(query, (run, after))]

    def row(self, counter: int) -> Row | None:
        """Return one row."""
        query = "SELECT * FROM entries WHERE counter = ?"
        found = self._select(query, (counter,))
        return _parse(found[0]) if found else None

    def __del__(self) -> None:
        if getattr(self, "_pid", 0) == os.getpid():
            self._connection.close()


def check_head(meta: Meta, head: Head, where: object) -> None:
    """Raise `LedgerCorrupt` unless the ledger's key has signed the end of the chain."""
    if head.counter and meta.key:
        text = head_text(meta.id, head.counter, head.digest)
        if not is_signed(meta.key, head.signature, text):
            raise LedgerCorrupt(
                f"forged: row {head.counter} of {where} is not signed by the ledger's key"
            )


def _parse(values: tuple[object, ...]) -> Row:
    try:
        return Row(*values).exact()  # type: ignore[arg-type]
    except TypeError:
        raise LedgerCorrupt(f"row {values[0]} of the ledger cannot be read") from None


@contextmanager
def _sqlite(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into ours, with what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        reason, remedy = str(error), "check the disk"
        if "readonly" in reason:
            remedy = "make the file and its folder writable"
        elif "locked" in reason:
            remedy = "another process has held it for a minute"
        raise LedgerError(
            f"the ledger {path} cannot be used ({reason}): {remedy}. Nothing was released"
        ) from None
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise LedgerCorrupt(
            f"{path} is not a readable ledger ({error}): restore the latest backup and count "
            "every release since then as spent"
        ) from None
