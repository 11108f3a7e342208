"""A data set names its ledger once."""

import pytest

from tacit.errors import LedgerError
from tacit.privacy.events import LaplaceDpEvent
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.naming import name_ledger


@pytest.fixture
def world(tmp_path):
    """Return the place beside some data and two ledgers, of which the first is named."""
    place, files = tmp_path / "north.csv.ledger", [tmp_path / "a.db", tmp_path / "b.db"]
    ledgers = [Ledger.open(file, epsilon=4.0) for file in files]
    name_ledger(place, files[0], ledgers[0])
    return place, files, ledgers


def test_the_ledger_that_was_named_goes_on(world):
    place, files, ledgers = world
    before = place.read_bytes()
    name_ledger(place, files[0], ledgers[0])
    assert place.read_bytes() == before
    assert ledgers[0].counter == 0


@pytest.mark.parametrize("told", [None, "", "abc", "0" * 32])
def test_another_ledger_is_refused_unless_the_first_is_named(world, told):
    place, files, (first, second) = world
    with pytest.raises(LedgerError, match=rf"charged to ledger {first.id[:8]}.*two budgets"):
        name_ledger(place, files[1], second, told)
    assert first.counter == second.counter == 0


def test_both_ledgers_say_that_one_replaces_the_other(world):
    place, files, (first, second) = world
    name_ledger(place, files[1], second, first.id[:8])
    (given,), (taken,) = first.rows(), second.rows()
    assert second.id in given.purpose and first.id in taken.purpose
    assert {given.kind, taken.kind} == {"note"} and given.cost == taken.cost == 0
    name_ledger(place, files[1], second)
    second.charge(LaplaceDpEvent(2.0), purpose="x")
    assert (first.verify(), second.verify()) == (1, 2)
    assert Ledger.from_export(second.export()).verify() == 2
    with pytest.raises(LedgerError, match="two budgets"):
        name_ledger(place, files[0], first)


def test_a_ledger_that_cannot_be_told_is_not_replaced(world):
    place, files, (first, second) = world
    files[0].unlink()
    with pytest.raises(LedgerError, match="there is no ledger"):
        name_ledger(place, files[1], second, first.id)
    assert second.counter == 0


def test_a_damaged_note_is_refused(world):
    place, files, (first, _) = world
    place.write_text("{}", encoding="utf-8")
    with pytest.raises(LedgerError, match="does not say which ledger"):
        name_ledger(place, files[0], first)
