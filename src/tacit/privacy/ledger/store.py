"""Where a ledger keeps its rows: an append-only SQLite file, or memory.

Every row carries a hash over its content and the hash before it, so that an edited, removed
or reordered row is found. Amounts are exact rationals, kept as text.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from tacit.errors import LedgerCorrupt, LedgerError

__all__ = [
    "SCHEMA",
    "Head",
    "MemoryStore",
    "Meta",
    "Row",
    "SQLiteStore",
    "Store",
    "genesis",
    "next_row",
]

SCHEMA = 1
_APPLICATION = 0x74616369  # "taci", SQLite's application_id

# Each migration brings a file from the schema it is filed under to the next one.
MIGRATIONS: dict[int, Callable[[sqlite3.Connection], None]] = {}


def _chain_hash(parts: Iterable[str]) -> str:
    """Return a hash over texts, each with its length, so that none can borrow from the next."""
    content = "".join([f"{len(part)}:{part}" for part in parts])
    return hashlib.sha256(content.encode()).hexdigest()


class Meta(NamedTuple):
    """What is fixed when a ledger is created."""

    id: str
    epsilon: str
    delta: str
    filter: str
    created: str


class Head(NamedTuple):
    """The end of the chain: the last row's counter, sums and hash."""

    counter: int
    amount: Fraction
    delta: Fraction
    digest: str


class Row(NamedTuple):
    """One row: a charge, or a claim of steps that an earlier charge has paid for."""

    counter: int
    time: str
    kind: str
    run: str
    purpose: str
    event: str
    run_delta: str
    cost: Fraction
    cost_delta: Fraction
    amount: Fraction
    delta: Fraction
    epsilon: float
    previous: str
    digest: str

    def computed_digest(self) -> str:
        """Return the hash over everything but the hash itself."""
        return _chain_hash(map(str, self[:-1]))

    def to_json(self) -> dict[str, Any]:
        """Return the row as plain JSON data, its amounts as exact fractions."""
        exact = {n: str(getattr(self, n)) for n in ("cost", "cost_delta", "amount", "delta")}
        return {**self._asdict(), "event": json.loads(self.event), **exact}

    def head(self) -> Head:
        """Return the end of the chain after this row."""
        return Head(self.counter, self.amount, self.delta, self.digest)


def next_row(head: Head, **fields: Any) -> Row:
    """Return the row with the given content that follows ``head``; without a cost, it has none."""
    free: dict[str, Any] = {"run_delta": "", "cost": Fraction(0), "cost_delta": Fraction(0)}
    fields = free | {"amount": head.amount, "delta": head.delta} | fields
    row = Row(counter=head.counter + 1, previous=head.digest, digest="", **fields)
    return row._replace(digest=row.computed_digest())


def genesis(meta: Meta) -> Head:
    """Return the head of an empty ledger; its hash binds the ceiling and the id."""
    return Head(0, Fraction(0), Fraction(0), _chain_hash(meta))


class Store(ABC):
    """Append-only rows under one lock."""

    durable: bool
    meta: Meta

    @abstractmethod
    def append(self, build: Callable[[Head], Row]) -> Row:
        """Append the row that ``build`` makes from the current head, or nothing if it raises."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """Yield all rows in order."""

    @abstractmethod
    def head(self) -> Head:
        """Return the current end of the chain."""

    @abstractmethod
    def run_rows(self, run: str, after: int = 0) -> list[Row]:
        """Return the rows of one run that come after a counter."""

    @abstractmethod
    def row(self, counter: int) -> Row | None:
        """Return one row."""


class MemoryStore(Store):
    """Rows in this process only: for exploration."""

    durable = False

    def __init__(self, meta: Meta) -> None:
        self.meta = meta
        self._rows: list[Row] = []
        self._runs: dict[str, list[Row]] = {}
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def append(self, build: Callable[[Head], Row]) -> Row:
        """Append under the lock."""
        if os.getpid() != self._pid:
            raise LedgerError(
                "a ledger in memory cannot be charged in a forked process: it would be a copy "
                "with the whole budget. Use Ledger.open with a file"
            )
        with self._lock:
            row = build(self.head())
            self._rows.append(row)
            self._runs.setdefault(row.run, []).append(row)
            return row

    def rows(self) -> Iterator[Row]:
        """Yield all rows."""
        yield from list(self._rows)

    def head(self) -> Head:
        """Return the end of the chain."""
        return self._rows[-1].head() if self._rows else genesis(self.meta)

    def run_rows(self, run: str, after: int = 0) -> list[Row]:
        """Return the rows of one run."""
        return [row for row in self._runs.get(run, []) if row.counter > after]

    def row(self, counter: int) -> Row | None:
        """Return one row."""
        return self._rows[counter - 1] if 0 < counter <= len(self._rows) else None


_CREATE = """
CREATE TABLE meta (id TEXT, epsilon TEXT, delta TEXT, filter TEXT, created TEXT);
CREATE TABLE entries (
  counter INTEGER PRIMARY KEY, time TEXT NOT NULL, kind TEXT NOT NULL, run TEXT NOT NULL,
  purpose TEXT NOT NULL, event TEXT NOT NULL, run_delta TEXT NOT NULL, cost TEXT NOT NULL,
  cost_delta TEXT NOT NULL, amount TEXT NOT NULL, delta TEXT NOT NULL, epsilon REAL NOT NULL,
  previous TEXT NOT NULL, digest TEXT NOT NULL);
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


class SQLiteStore(Store):
    """Rows in one SQLite file, one durable transaction each.

    ``synchronous=EXTRA`` with a persistent rollback journal: a committed row survives a power
    cut, and the file alone is the whole ledger (no write-ahead log to forget in a copy).
    Connections do not cross a fork: a child opens its own.
    """

    durable = True

    def __init__(self, path: Path, create: Meta | None) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._pid = 0
        self._connection: sqlite3.Connection
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
        if len(found[0]) != len(Meta._fields):
            raise LedgerCorrupt(f"{self.path} is a database, but not a tacit ledger")
        self.meta = Meta(*found[0])

    def _create(self, meta: Meta) -> None:
        """Write a complete empty ledger beside the path and link it there, once.

        A process that loses the race to link finds the winner's ledger; nobody sees half a
        file, even after ``kill -9``.
        """
        draft = self.path.with_name(f"{self.path.name}.{uuid.uuid4().hex}.new")
        try:
            connection = sqlite3.connect(draft, isolation_level=None)
            try:
                connection.execute("PRAGMA journal_mode=MEMORY")
                connection.execute("PRAGMA synchronous=EXTRA")
                connection.execute(f"PRAGMA application_id={_APPLICATION}")
                connection.execute(f"PRAGMA user_version={SCHEMA}")
                connection.executescript(f"BEGIN;{_CREATE}COMMIT;")
                connection.execute("INSERT INTO meta VALUES (?,?,?,?,?)", meta)
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
                raise LedgerError(f"{self.path} has schema {version}, which cannot be migrated")
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
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                row = build(self._read_head(connection))
                text = [str(v) if isinstance(v, Fraction) else v for v in row]
                connection.execute(
                    "INSERT INTO entries VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)", text
                )
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        return row

    def _read_head(self, connection: sqlite3.Connection) -> Head:
        last = connection.execute("SELECT * FROM entries ORDER BY counter DESC LIMIT 1").fetchone()
        if last is None:
            return genesis(self.meta)
        row = _parse(last)
        if row.computed_digest() != row.digest:
            raise LedgerCorrupt(f"row {row.counter} of {self.path} was changed")
        return row.head()

    def head(self) -> Head:
        """Return the end of the chain."""
        with self._connected() as connection:
            return self._read_head(connection)

    def _select(self, query: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
        with self._connected() as connection:
            return connection.execute(query, values).fetchall()

    def rows(self) -> Iterator[Row]:
        """Yield all rows, as they were when the reading began."""
        yield from map(_parse, self._select("SELECT * FROM entries ORDER BY counter", ()))

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


def _parse(values: tuple[object, ...]) -> Row:
    fields = list(values)
    try:
        for index in (7, 8, 9, 10):
            fields[index] = Fraction(str(fields[index]))
        return Row(*fields)  # type: ignore[arg-type]
    except (ValueError, TypeError, ZeroDivisionError):
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
