"""Forgeries of certificates and ledgers: each is tried, and the table says whether it was named.

A certificate is changed field by field and its digest recomputed, as anybody can who has the file;
a ledger is edited row by row and column by column with hashes and sums recomputed, as anybody can
who has the file and not its key. Then replay, truncation, a restored copy and a ledger made anew.
"""

from __future__ import annotations

import copy
import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

from tacit.errors import TacitError
from tacit.privacy.certificate import Certificate, _digest
from tacit.privacy.events import (
    GaussianDpEvent,
    LaplaceDpEvent,
    NoOpDpEvent,
    event_to_json,
    repeat,
)
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.rows import AMOUNTS, Row, genesis
from tacit.privacy.ledger.terms import Terms

_ASKED = Privacy(2.0, 1e-6, trust="site")
_EVENT = repeat(GaussianDpEvent(20.0), 10)
_GROUPS = {"many": _EVENT}


def rows(quick: bool) -> list[dict[str, Any]]:
    """Return every forgery that was tried, with ``named``: whether somebody says so.

    Parameters
    ----------
    quick
        Whether the ledger has few rows.
    """
    with tempfile.TemporaryDirectory() as folder:
        world = _World(Path(folder), 3 if quick else 12)
        tried = [*_certificates(world), *_ledgers(world), *_whole(world)]
        return [{"forgery": name, "named": named(forge)} for name, forge in tried]


def named(forge: Callable[[], Any]) -> bool:
    """Whether a forgery is refused by an error of tacit."""
    try:
        forge()
    except TacitError:
        return True
    return False


class _World:
    """A ledger with charges and a run, its certificate and its export."""

    def __init__(self, folder: Path, charges: int) -> None:
        self.folder, self.path = folder, folder / "north.db"
        ledger = Ledger.open(self.path, epsilon=50.0, delta=1e-3)
        for number in range(charges):
            ledger.charge(LaplaceDpEvent(20.0 + number), purpose=f"number {number}")
        self.terms = Terms.of(
            _ASKED,
            assumptions=("public bounds", "public sizes"),
            groups=_GROUPS,
            claimed_epsilon=0.5,
            claim="a claim that leaves out sampling",
            holder="North",
        )
        run = ledger.reserve(_EVENT, purpose="run", delta=1e-6, run="r", terms=self.terms)
        run.claim(GaussianDpEvent(20.0))
        ledger.charge(LaplaceDpEvent(100.0), purpose="later")
        given = Certificate.of_terms(self.terms, _EVENT, ledger=run.entry).signed(ledger)
        self.certificate = given.verify(ledger)
        self.pin = given.signed_by.split("key ")[1]
        self.text, self.ledger = given.to_json(), ledger
        assert ledger.verify() == charges + 3
        Certificate.from_json(self.text).verify(ledger, pin=self.pin)
        self._copies = 0

    def copy(self) -> Path:
        """Return a copy of the ledger with its key and mark: what the holder's folder has."""
        self._copies += 1
        place = self.folder / f"copy-{self._copies}"
        place.mkdir()
        for end in ("", ".key", ".mark"):
            shutil.copy(self.folder / f"north.db{end}", place / f"north.db{end}")
        return place / "north.db"


# -- certificates -----------------------------------------------------------------------------

_OTHER: dict[str, Any] = {
    "epsilon": 0.1,
    "delta": 1e-9,
    "unit": "entry",
    "neighbours": "replace-one",
    "trust": "local",
    "against": "everybody",
    "assumptions": [],
    "event": event_to_json(NoOpDpEvent()),
    "accountant": "rdp",
    "groups": {},
    "calibration": "certified",
    "claimed_epsilon": None,
    "claim": None,
    "holder": "South",
    "ledger": None,
    "group": 2,
    "seal": None,
    "version": "0",
    "schema": 1,
}


def _certificates(world: _World) -> Iterator[tuple[str, Callable[[], Any]]]:
    data = json.loads(world.text)
    assert set(_OTHER) == set(data) - {"digest"}  # a new field needs a forgery of its own
    for name, value in _OTHER.items():
        yield f"certificate: {name} is changed", _changed(world, **{name: value})
        yield f"certificate: {name} is left out", _changed(world, without=name)
    for outer in ("ledger", "seal"):
        for name, value in data[outer].items():
            other = not value if isinstance(value, bool) else _other(value)
            changed = {**data[outer], name: other}
            yield f"certificate: {outer}.{name} is changed", _changed(world, **{outer: changed})
    fewer = event_to_json(repeat(GaussianDpEvent(20.0), 1))
    small = Certificate.of_terms(world.terms, GaussianDpEvent(20.0)).epsilon
    consistent = {"event": fewer, "epsilon": small, "groups": {}}
    yield "certificate: one event for ten, with its own ε", _changed(world, **consistent)
    yield "certificate: the same, its signature dropped", _changed(world, **consistent, seal=None)
    for name in ("unit", "trust", "assumptions", "holder", "against", "groups", "event"):
        forgery = {name: _OTHER[name], "seal": None}
        yield (
            f"certificate: {name} is changed, unsigned, ledger asked",
            _changed(world, pin=False, **forgery),
        )
    yield (
        "certificate: its digest is not recomputed",
        lambda: Certificate.from_json(world.text.replace("public sizes", "public SIZES")),
    )
    yield "certificate: of another ledger with the same rows", lambda: _replayed(world)
    yield "certificate: sealed by a ledger of the forger's own", lambda: _own_seal(world)


def _other(value: Any) -> Any:
    if isinstance(value, int):
        return value + 1
    return ("1" if value[:1] == "0" else "0") + value[1:] if value else "00" * 32


def _changed(
    world: _World, *, without: str = "", pin: bool = True, **fields: Any
) -> Callable[[], Any]:
    def forge() -> None:
        data = {**json.loads(world.text), **fields}
        data.pop("digest")
        data.pop(without, None)
        text = json.dumps({**data, "digest": _digest(data)})
        Certificate.from_json(text).verify(world.ledger, pin=world.pin if pin else None)

    return forge


def _replayed(world: _World) -> None:
    other = Ledger.open(world.folder / "other.db", epsilon=50.0, delta=1e-3)
    other.charge(_EVENT, purpose="run", delta=1e-6, terms=world.terms)
    world.certificate.verify(other)


def _own_seal(world: _World) -> None:
    other = Ledger.open(world.folder / "forger.db", epsilon=50.0, delta=1e-3)
    other.charge(LaplaceDpEvent(100.0), purpose="x")
    world.certificate.signed(other).verify(world.ledger, pin=world.pin)


# -- ledgers ----------------------------------------------------------------------------------


def _ledgers(world: _World) -> Iterator[tuple[str, Callable[[], Any]]]:
    count = world.ledger.counter
    for counter in range(1, count + 1):
        yield (
            f"ledger: row {counter} is removed",
            _rewritten(world, lambda r, c=counter: r[: c - 1] + r[c:]),
        )
        yield (
            f"ledger: row {counter} twice",
            _rewritten(world, lambda r, c=counter: r[:c] + r[c - 1 :]),
        )
        for column in Row._fields:
            for how in ("as it is", "hashes recomputed"):
                forge = _edited(world, counter, column, how == "hashes recomputed")
                yield f"ledger: row {counter}, {column} changed, {how}", forge
    for name in world.ledger._store.meta._fields:
        yield f"ledger: {name} of the ceiling is changed", _meta(world, name)
    yield "ledger: two rows change places", _rewritten(world, lambda r: [r[1], r[0], *r[2:]])
    yield "ledger: exported, a row left out", lambda: _exported(world, 1)
    yield "ledger: exported, its last row left out", lambda: _exported(world, -1)


def _sql(path: Path, *statements: tuple[str, tuple[Any, ...]]) -> None:
    """Edit the file as its owner can: triggers are dropped and put back."""
    connection = sqlite3.connect(path)
    try:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        triggers = connection.execute(query).fetchall()
        for name, _ in triggers:
            connection.execute(f"DROP TRIGGER {name}")
        for statement, values in statements:
            connection.execute(statement, values)
        for _, text in triggers:
            connection.execute(text)
        connection.commit()
    finally:
        connection.close()


def _write(path: Path, found: list[Row]) -> None:
    marks = ",".join("?" * len(Row._fields))
    texts = [tuple(str(v) if isinstance(v, Fraction) else v for v in row) for row in found]
    inserts = [(f"INSERT INTO entries VALUES ({marks})", values) for values in texts]
    _sql(path, ("DELETE FROM entries", ()), *inserts)


def _consistent(ledger: Ledger, found: list[Row]) -> list[Row]:
    """Return rows with sums and hashes made consistent; signatures cannot be."""
    head, out = genesis(ledger._store.meta), []
    for row in found:
        new = row._replace(
            counter=head.counter + 1,
            previous=head.link,
            amount=head.amount + row.cost,
            delta=head.delta + row.cost_delta,
        )
        out.append(new._replace(digest=new.computed_digest()))
        head = out[-1].head()
    return out


def _rewritten(world: _World, change: Callable[[list[Row]], list[Row]]) -> Callable[[], Any]:
    def forge() -> None:
        path = world.copy()
        ledger = Ledger.open(path)
        _write(path, _consistent(ledger, change(list(ledger.rows()))))
        Ledger.open(path).verify()

    return forge


def _edited(world: _World, counter: int, column: str, recompute: bool) -> Callable[[], Any]:
    def forge() -> None:
        path = world.copy()
        ledger = Ledger.open(path)
        found = list(ledger.rows())
        old = getattr(found[counter - 1], column)
        new: Any = old + 1000 if column in ("counter", "epsilon", *AMOUNTS) else f"{old}0"
        found[counter - 1] = found[counter - 1]._replace(**{column: new})
        if recompute:
            kept = found[counter - 1]
            found = _consistent(ledger, found)
            if column in ("digest", "previous", "amount", "delta", "counter"):
                found[counter - 1] = found[counter - 1]._replace(**{column: getattr(kept, column)})
        _write(path, found)
        Ledger.open(path).verify()

    return forge


def _meta(world: _World, name: str) -> Callable[[], Any]:
    def forge() -> None:
        path = world.copy()
        other = {
            "epsilon": "1000.0",
            "delta": "0.5",
            "filter": "zcdp",
            "unit": "entry",
            "neighbours": "replace-one",
            "most": '{"entry": 3}',
        }
        _sql(path, (f"UPDATE meta SET {name} = ?", (other.get(name, "0" * 64),)))
        Ledger.open(path).verify()

    return forge


def _exported(world: _World, where: int) -> None:
    data = copy.deepcopy(world.ledger.export())
    del data["rows"][where]
    record = Ledger.from_export(data)
    record.verify()
    world.certificate.verify(record, pin=world.pin)


# -- whole files ------------------------------------------------------------------------------


def _whole(world: _World) -> Iterator[tuple[str, Callable[[], Any]]]:
    yield "truncation: the last rows are gone", lambda: _cut(world, keep=2)
    yield "truncation: all rows are gone", lambda: _cut(world, keep=0)
    yield "truncation: the mark is gone too, a certificate asks", lambda: _cut_and_ask(world)
    yield "truncation: the file is cut", lambda: _torn(world)
    yield "a restored copy is charged", lambda: _restored(world)
    yield "a restored copy that grew again", lambda: _regrown(world)
    yield "a copy in another place is charged", lambda: _elsewhere(world)
    yield "a ledger made anew in its place", lambda: _anew(world)
    for what in ("DROP TRIGGER entries_delete", "CREATE VIEW v AS SELECT 1"):
        yield f"schema: {what}", lambda what=what: _schema(world, what)


def _cut(world: _World, keep: int) -> Path:
    path = world.copy()
    _sql(path, ("DELETE FROM entries WHERE counter > ?", (keep,)))
    Ledger.open(path).verify()
    return path


def _cut_and_ask(world: _World) -> None:
    path = world.copy()
    path.with_name("north.db.mark").write_bytes(b"")
    _sql(path, ("DELETE FROM entries WHERE counter = ?", (world.ledger.counter,)))
    world.certificate.verify(Ledger.open(path))


def _torn(world: _World) -> None:
    path = world.copy()
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - 100])
    Ledger.open(path).verify()


def _restored(world: _World) -> None:
    path = world.copy()
    old = path.read_bytes()
    Ledger.open(path).charge(LaplaceDpEvent(10.0), purpose="since the backup")
    path.write_bytes(old)
    Ledger.open(path).charge(LaplaceDpEvent(10.0), purpose="once more")


def _regrown(world: _World) -> None:
    path, other = world.copy(), world.copy()
    Ledger.open(path).charge(LaplaceDpEvent(10.0), purpose="here")
    Ledger.open(other).charge(LaplaceDpEvent(11.0), purpose="there")
    path.write_bytes(other.read_bytes())
    Ledger.open(path).verify()


def _elsewhere(world: _World) -> None:
    path = world.folder / "alone.db"
    shutil.copy(world.path, path)
    Ledger.open(path).charge(LaplaceDpEvent(10.0), purpose="in the copy")


def _anew(world: _World) -> None:
    path = world.copy()
    path.unlink()
    Ledger.open(path, epsilon=50.0, delta=1e-3)


def _schema(world: _World, statement: str) -> None:
    path = world.copy()
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    Ledger.open(path).verify()
