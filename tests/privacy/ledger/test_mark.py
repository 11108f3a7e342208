"""Removed rows, restored copies and changed triggers: noticed by what lies outside of the file."""

import shutil
import sqlite3

import pytest

from tacit.errors import LedgerCorrupt, LedgerError
from tacit.privacy.events import LaplaceDpEvent
from tacit.privacy.ledger.ledger import Ledger
from tests.privacy.ledger.test_tamper import edit

EVENT = LaplaceDpEvent(4.0)


@pytest.fixture
def path(tmp_path):
    """Return the path of a ledger with three charges."""
    ledger = Ledger.open(tmp_path / "a.db", epsilon=10.0)
    for number in range(3):
        ledger.charge(EVENT, purpose=f"number {number}")
    assert ledger.verify() == 3 and ledger.marked
    return tmp_path / "a.db"


def mark_of(path):
    return path.with_name(path.name + ".mark")


def uses(path, **how):
    """Return ways in which a ledger is used."""
    return {
        "verify": lambda: Ledger.open(path, **how).verify(),
        "remaining": lambda: Ledger.open(path, **how).remaining,
        "charge": lambda: Ledger.open(path, **how).charge(EVENT, purpose="x"),
        "admits": lambda: Ledger.open(path, **how).admits(EVENT),
    }


@pytest.mark.parametrize("use", ["verify", "remaining", "charge", "admits"])
def test_removed_last_rows_are_noticed(path, use):
    edit(path, "DELETE FROM entries WHERE counter = 3", triggers=False)
    with pytest.raises(LedgerCorrupt, match="ends at row 2, and row 3 was seen"):
        uses(path)[use]()


def test_a_ledger_that_lost_all_rows_is_noticed(path):
    edit(path, "DELETE FROM entries", triggers=False)
    with pytest.raises(LedgerCorrupt, match="ends at row 0"):
        Ledger.open(path).verify()


def test_a_restored_copy_is_noticed(path):
    old = path.read_bytes()
    Ledger.open(path).charge(EVENT, purpose="since the backup")
    path.write_bytes(old)
    with pytest.raises(LedgerCorrupt, match="older copy"):
        Ledger.open(path).charge(EVENT, purpose="again")


def test_a_copy_that_grew_again_is_noticed(path, tmp_path):
    old = path.read_bytes()
    Ledger.open(path).charge(EVENT, purpose="in the original")
    other = tmp_path / "elsewhere" / "a.db"
    other.parent.mkdir()
    other.write_bytes(old)
    shutil.copy(path.with_name("a.db.key"), other.with_name("a.db.key"))
    with pytest.raises(LedgerError, match=r"mark of .* is missing"):
        Ledger.open(other).charge(EVENT, purpose="in the copy")
    Ledger.open(other).mark_anew()
    Ledger.open(other).charge(EVENT, purpose="in the copy")
    assert Ledger.open(other).verify() == 4
    path.write_bytes(other.read_bytes())
    with pytest.raises(LedgerCorrupt, match="others put in their place"):
        Ledger.open(path).verify()


def test_without_its_mark_a_ledger_is_read_and_not_charged(path):
    mark_of(path).unlink()
    ledger = Ledger.open(path)
    assert ledger.verify() == 3 and not ledger.marked
    with pytest.raises(LedgerError, match=r"mark of .* is missing.*tacit ledger mark"):
        ledger.charge(EVENT, purpose="x")
    ledger.mark_anew()
    ledger.charge(EVENT, purpose="x")
    assert ledger.verify() == 4


def test_a_deleted_ledger_is_not_begun_anew_at_the_same_place(path):
    path.unlink()
    with pytest.raises(LedgerError, match="remembers row 3 of ledger"):
        Ledger.open(path, epsilon=10.0)
    assert not path.exists()


def test_the_mark_of_another_ledger_is_noticed(path, tmp_path):
    other = Ledger.open(tmp_path / "b.db", epsilon=1.0)
    other.charge(EVENT, purpose="x")
    with pytest.raises(LedgerCorrupt, match="that of another ledger"):
        Ledger.open(path, mark=tmp_path / "b.db.mark").verify()


@pytest.mark.parametrize("text", [b"x", b"a b c", b"\xff\xfe", b"one 2"])
def test_a_damaged_mark_is_named(path, text):
    mark_of(path).write_bytes(text)
    with pytest.raises(LedgerCorrupt, match="is no mark"):
        Ledger.open(path).verify()


def test_a_mark_never_falls(path):
    """A process that writes late does not lower what another has seen."""
    from tacit.privacy.ledger.mark import MarkFile, Seen

    mark = MarkFile(mark_of(path))
    high = mark.seen("")
    mark.raise_to(Seen(high.ledger, 1, "0" * 64))
    assert mark.seen("") == high
    assert Ledger.open(path).verify() == 3


def test_a_mark_that_lags_behind_is_no_alarm(path):
    first = next(iter(Ledger.open(path).rows()))
    mark_of(path).write_text(f"{Ledger.open(path).id} 1 {first.digest}\n", encoding="ascii")
    ledger = Ledger.open(path)
    assert ledger.verify() == 3
    ledger.charge(EVENT, purpose="x")
    assert int(mark_of(path).read_text(encoding="ascii").split()[1]) == 4


def test_a_row_that_another_process_adds_meanwhile_is_no_alarm(path, monkeypatch):
    """The mark is read first: whoever reads the rows after it finds at least what it saw."""
    ours, theirs = Ledger.open(path), Ledger.open(path)
    seen = ours._store._mark.seen

    def meanwhile(ledger):
        monkeypatch.undo()
        theirs.charge(LaplaceDpEvent(100.0), purpose="meanwhile")
        return seen(ledger)

    monkeypatch.setattr(type(ours._store._mark), "seen", lambda _, ledger: meanwhile(ledger))
    assert ours._store.head().counter == theirs.counter


def test_a_function_can_keep_the_mark(tmp_path):
    known = {}

    def told(ledger, counter, digest):
        if counter > known.get(ledger, (0, ""))[0]:
            known[ledger] = counter, digest
        return known.get(ledger)

    path = tmp_path / "a.db"
    ledger = Ledger.open(path, epsilon=10.0, mark=told)
    old = path.read_bytes()
    ledger.charge(EVENT, purpose="x")
    assert known[ledger.id][0] == 1 and not mark_of(path).exists()
    assert Ledger.open(path, mark=told).verify() == 1
    del ledger
    path.write_bytes(old)
    with pytest.raises(LedgerCorrupt, match="row 1 was seen"):
        Ledger.open(path, mark=told).charge(EVENT, purpose="again")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TRIGGER entries_delete",
        "DROP TRIGGER meta_update",
        "CREATE TRIGGER more AFTER INSERT ON entries BEGIN DELETE FROM endorsements; END",
        "CREATE VIEW more AS SELECT * FROM entries",
    ],
)
@pytest.mark.parametrize("use", ["verify", "charge"])
def test_a_changed_trigger_is_noticed(path, statement, use):
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(LedgerCorrupt, match="triggers that keep"):
        uses(path)[use]()
