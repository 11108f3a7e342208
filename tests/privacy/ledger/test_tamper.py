"""Edits of a ledger file: refused by its triggers, and found by verify or by a certificate."""

import json
import sqlite3
from dataclasses import replace
from fractions import Fraction

import pytest

from tacit.errors import BudgetExceeded, LedgerCorrupt, LedgerError, VerificationFailed
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import (
    REPLACE,
    GaussianDpEvent,
    LaplaceDpEvent,
    NoOpDpEvent,
    event_to_json,
    repeat,
)
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.keys import KeyFile, head_text
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.rows import Meta, Row, genesis
from tacit.privacy.ledger.terms import Terms


@pytest.fixture
def path(tmp_path):
    """Return the path of a ledger with four charges and a run."""
    ledger = Ledger.open(tmp_path / "a.db", epsilon=10.0, delta=1e-5)
    for index in range(1, 5):
        ledger.charge(LaplaceDpEvent(float(index)), purpose=f"number {index}")
    reservation = ledger.reserve(repeat(LaplaceDpEvent(8.0), 3), purpose="run", run="r")
    reservation.claim(LaplaceDpEvent(8.0))
    assert ledger.verify() == 6
    return tmp_path / "a.db"


def edit(path, *statements, triggers=True):
    """Run statements on the file with plain sqlite3; triggers in the way are put back after."""
    connection = sqlite3.connect(path)
    try:
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        own = [] if triggers else connection.execute(query).fetchall()
        for name, _ in own:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(*statement) if isinstance(statement, tuple) else (
                connection.execute(statement)
            )
        for _, sql in own:
            connection.execute(sql)
        connection.commit()
    finally:
        connection.close()


def forge(path, change, key=True):
    """Let an attacker who knows the format rewrite all rows, with fresh sums and hashes.

    ``change`` takes and returns the list of rows; whatever it leaves alone is made consistent.
    Such an attacker has the mark, and the ledger's key unless told otherwise.
    """
    ledger = Ledger.open(path)
    rows, head, forged = change(list(ledger.rows())), genesis(ledger._store.meta), []
    signing = KeyFile(path.with_name(path.name + ".key")).read()
    for row in rows:
        following = row._replace(
            counter=head.counter + 1, previous=head.link, amount=head.amount + row.cost,
            delta=head.delta + row.cost_delta,
        )  # fmt: skip
        digest = following.computed_digest()
        text = head_text(ledger.id, following.counter, digest)
        signature = signing.sign(text) if key else following.signature
        forged.append(following._replace(digest=digest, signature=signature))
        head = forged[-1].head()
    marks = ",".join("?" * len(Row._fields))
    inserts = [
        (
            f"INSERT INTO entries VALUES ({marks})",
            tuple(str(value) if isinstance(value, Fraction) else value for value in row),
        )
        for row in forged
    ]
    edit(path, "DELETE FROM entries", *inserts, triggers=False)
    forget(path)


def forget(path):
    """Let an attacker lower the mark, too."""
    path.with_name(path.name + ".mark").write_bytes(b"")


def found(path, match):
    """Check that verify finds the edit."""
    with pytest.raises(LedgerCorrupt, match=match):
        Ledger.open(path).verify()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET purpose = 'harmless' WHERE counter = 2",
        "UPDATE entries SET cost = '0' WHERE counter = 2",
        "DELETE FROM entries WHERE counter = 6",
        "DELETE FROM entries",
        "UPDATE meta SET epsilon = '1000.0'",
        "DELETE FROM meta",
    ],
)
def test_triggers_refuse_edits(path, statement):
    before = path.read_bytes()
    with pytest.raises(sqlite3.IntegrityError, match=r"append-only|fixed"):
        edit(path, statement)
    assert Ledger.open(path).verify() == 6
    assert path.read_bytes() == before


@pytest.mark.parametrize("row", [1, 3, 6])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("purpose", "harmless"),
        ("cost", "1/1000"),
        ("amount", "0"),
        ("time", "2001-01-01T00:00:00.000000+00:00"),
        ("event", json.dumps(event_to_json(LaplaceDpEvent(1e9)))),
        ("run_delta", "0.5"),
        ("run", "another"),
        ("kind", "note"),
        ("epsilon", 0.0),
        ("digest", "0" * 64),
    ],
)
def test_an_edited_row_is_found(path, row, column, value):
    edit(
        path, (f"UPDATE entries SET {column} = ? WHERE counter = ?", (value, row)), triggers=False
    )
    found(path, f"row {row} of ledger .* was changed|does not follow")


def test_an_edited_last_row_refuses_further_charges(path):
    edit(path, "UPDATE entries SET amount = '0' WHERE counter = 6", triggers=False)
    ledger = Ledger.open(path)
    with pytest.raises(LedgerCorrupt, match="row 6"):
        ledger.charge(LaplaceDpEvent(10.0), purpose="more")
    with pytest.raises(LedgerCorrupt, match="row 6"):
        _ = ledger.remaining


@pytest.mark.parametrize("value", ["a lot", "1/0", "nan", ""])
def test_an_amount_that_is_no_number_is_found(path, value):
    edit(path, ("UPDATE entries SET cost = ? WHERE counter = 3", (value,)), triggers=False)
    found(path, "row 3 of .* was changed")
    with pytest.raises(LedgerCorrupt, match="row 3 of the ledger cannot be read"):
        list(Ledger.open(path).rows())


@pytest.mark.parametrize("row", [1, 2, 5])
def test_a_removed_row_is_found(path, row):
    edit(path, f"DELETE FROM entries WHERE counter = {row}", triggers=False)
    found(path, "does not follow the row before it")


def test_a_removed_row_is_found_although_the_others_move_up(path):
    edit(
        path, "DELETE FROM entries WHERE counter = 2",
        "UPDATE entries SET counter = counter - 1 WHERE counter > 2", triggers=False,
    )  # fmt: skip
    found(path, "row 2 of ledger .* does not follow")


def test_reordered_rows_are_found(path):
    edit(
        path,
        "UPDATE entries SET counter = 99 WHERE counter = 2",
        "UPDATE entries SET counter = 2 WHERE counter = 3",
        "UPDATE entries SET counter = 3 WHERE counter = 99",
        triggers=False,
    )
    found(path, "row 2 of ledger .* does not follow")


@pytest.mark.parametrize(
    ("column", "value"),
    [("epsilon", "1000.0"), ("delta", "0.5"), ("filter", "gdp"), ("id", "0" * 32)],
)
def test_a_changed_ceiling_is_found(path, column, value):
    edit(path, (f"UPDATE meta SET {column} = ?", (value,)), triggers=False)
    found(path, "row 1 of ledger .* does not follow")


@pytest.mark.parametrize("statement", ["DELETE FROM meta", "INSERT INTO meta SELECT * FROM meta"])
def test_a_ledger_needs_exactly_one_ceiling(path, statement):
    edit(path, statement, triggers=False)
    with pytest.raises(LedgerCorrupt, match="does not state its ceiling"):
        Ledger.open(path)


# -- an attacker who recomputes every hash ----------------------------------------------------


def test_a_forged_chain_without_a_change_verifies(path):
    """The attacker below does make the rest of the chain consistent."""
    forge(path, lambda rows: rows)
    assert Ledger.open(path).verify() == 6


def test_a_row_that_states_less_than_its_event_costs_is_found(path):
    def cheaper(rows):
        rows[0] = rows[0]._replace(cost=rows[0].cost * Fraction(99, 100))
        return rows

    forge(path, cheaper)
    found(path, "row 1 of ledger .* states less than its event costs")


def test_a_delta_that_is_not_counted_is_found(tmp_path):
    ledger = Ledger.open(tmp_path / "a.db", epsilon=10.0, delta=1e-5)
    ledger.charge(GaussianDpEvent(5.0), purpose="x", delta=1e-6)
    forge(tmp_path / "a.db", lambda rows: [rows[0]._replace(cost_delta=Fraction(0))])
    found(tmp_path / "a.db", "row 1 of ledger .* states less")


def test_sums_that_do_not_add_up_are_found(path):
    ledger = Ledger.open(path)
    last = list(ledger.rows())[-1]
    wrong = last._replace(amount=Fraction(0))
    values = (str(wrong.amount), wrong.computed_digest(), last.counter)
    edit(
        path, ("UPDATE entries SET amount = ?, digest = ? WHERE counter = ?", values),
        triggers=False,
    )  # fmt: skip
    found(path, "row 6 of ledger .* does not add up")


def test_a_claim_of_steps_that_nobody_paid_for_is_found(path):
    forge(path, lambda rows: [*rows, rows[-1], rows[-1], rows[-1]])
    found(path, "row 9 of ledger .* claims a step that was not reserved")


def test_a_charge_that_is_turned_into_a_claim_is_found(path):
    forge(path, lambda rows: [rows[0]._replace(kind="claim", cost=Fraction(0)), *rows[1:]])
    found(path, "row 1 of ledger .* claims a step that was not reserved")


def test_a_chain_beyond_the_ceiling_is_found(path):
    forge(path, lambda rows: [rows[0]] * 11)
    found(path, "over its ceiling")


def test_a_negative_cost_is_found(path):
    forge(path, lambda rows: [*rows, rows[0]._replace(cost=Fraction(-5))])
    found(path, "row 7 of ledger .* states less")


@pytest.mark.parametrize("text", ["not json", "[]", '{"type":"Unheard","x":1}', "{}"])
def test_an_event_that_cannot_be_read_is_found(path, text):
    forge(path, lambda rows: [rows[0]._replace(event=text), *rows[1:]])
    found(path, "row 1")


def test_a_step_that_was_claimed_twice_is_found(tmp_path):
    path, event = tmp_path / "a.db", LaplaceDpEvent(8.0)
    reservation = Ledger.open(path, epsilon=10.0).reserve(repeat(event, 3), purpose="p", run="r")
    for position in range(3):
        reservation.at("step", position, 3, event).claim()
    assert Ledger.open(path).verify() == 4
    forge(path, lambda rows: [*rows[:-1], rows[-1]._replace(purpose="step[1:2]")])
    with pytest.raises(LedgerCorrupt, match="claimed before"):
        Ledger.open(path).verify()


# -- what only a certificate can find ---------------------------------------------------------


def certified(ledger, event, purpose):
    """Charge and certify one release."""
    entry = ledger.charge(event, purpose=purpose)
    return Certificate.issue(Privacy(epsilon=1.0), event, ledger=entry)


@pytest.fixture
def two(path):
    """Return a path and the certificates of its last two rows."""
    ledger = Ledger.open(path)
    first = certified(ledger, LaplaceDpEvent(5.0), "first")
    second = certified(ledger, LaplaceDpEvent(4.0), "second")
    first.verify(ledger)
    second.verify(ledger)
    return path, first, second


def test_a_cut_tail_is_found_by_a_certificate_that_names_a_later_row(two):
    path, first, second = two
    edit(path, "DELETE FROM entries WHERE counter = 8", triggers=False)
    forget(path)
    ledger = Ledger.open(path)
    assert ledger.verify() == 7  # the file alone does not show it
    first.verify(ledger)
    with pytest.raises(VerificationFailed, match="does not hold the charge"):
        second.verify(ledger)


def test_a_tail_that_was_cut_and_grew_again_is_found_by_a_certificate(two):
    path, _, second = two
    edit(path, "DELETE FROM entries WHERE counter = 8", triggers=False)
    forget(path)
    ledger = Ledger.open(path)
    ledger.charge(LaplaceDpEvent(4.0), purpose="second")
    assert ledger.verify() == 8
    with pytest.raises(VerificationFailed, match="does not hold the charge"):
        second.verify(ledger)


def test_a_wholly_forged_chain_is_found_by_a_certificate(two):
    path, first, second = two
    cheap = LaplaceDpEvent(1e6)
    text = json.dumps(event_to_json(cheap), separators=(",", ":"))
    forge(
        path,
        lambda rows: [*rows[:-1], rows[-1]._replace(event=text, cost=Fraction(1, 10**6))],
    )
    ledger = Ledger.open(path)
    assert ledger.verify() == 8
    first.verify(ledger)
    with pytest.raises(VerificationFailed):
        second.verify(ledger)


def test_a_certificate_is_not_confirmed_by_another_ledger(two, tmp_path):
    _, first, _ = two
    with pytest.raises(VerificationFailed, match="does not hold the charge"):
        first.verify(Ledger.open(tmp_path / "other.db", epsilon=1.0))


def test_a_certificate_cannot_state_more_than_its_row_paid_for(two):
    path, first, _ = two
    twice = Certificate.issue(
        Privacy(epsilon=1.0), repeat(LaplaceDpEvent(5.0), 2), ledger=first.ledger
    )
    with pytest.raises(VerificationFailed, match="charged for less"):
        twice.verify(Ledger.open(path))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"event": LaplaceDpEvent(5.0)}, "states less than the ledger was charged for"),
        ({"event": NoOpDpEvent(), "epsilon": 0.0}, "states less than the ledger"),
        ({"unit": "entry"}, "charged for one row under add-remove-one"),
        ({"neighbours": REPLACE}, "charged for one row under add-remove-one"),
        ({"assumptions": ()}, "other terms"),
        ({"assumptions": ("bounds",)}, "other terms"),
        ({"trust": "local"}, "other terms"),
        ({"against": "everybody"}, "other terms"),
        ({"delta": 1e-9}, "other terms"),
        ({"holder": "South"}, "other terms"),
        ({"accountant": "basic"}, "other terms"),
        ({"groups": {"few": (LaplaceDpEvent(9.0), 1 / 9)}}, "other terms"),
        ({"calibration": "published", "claimed_epsilon": 0.1, "claim": "x"}, "other terms"),
    ],
    ids=str,
)
def test_a_certificate_matches_its_row_exactly(path, change, words):
    """One that states less is a forgery, though it agrees with itself."""
    ledger, event = Ledger.open(path), repeat(LaplaceDpEvent(5.0), 2)
    terms = Terms.of(Privacy(1.0), assumptions=("bounds", "sizes"), holder="North")
    entry = ledger.charge(event, purpose="x", terms=terms)
    honest = Certificate.of_terms(terms, event, ledger=entry)
    honest.verify(ledger)
    forged = replace(honest, **change)
    if "event" in change:
        forged = replace(forged, epsilon=change.get("epsilon", 0.2))
    with pytest.raises(VerificationFailed, match=words):
        forged.verify(ledger)


def test_a_certificate_without_a_ledger_is_not_confirmed_by_one(path):
    certificate = Certificate.issue(Privacy(epsilon=1.0), LaplaceDpEvent(2.0))
    with pytest.raises(VerificationFailed, match="names no ledger"):
        certificate.verify(Ledger.open(path))


def test_a_damaged_ledger_is_both_a_ledger_error_and_a_failed_verification():
    assert issubclass(LedgerCorrupt, LedgerError)
    assert issubclass(LedgerCorrupt, VerificationFailed)
    assert not issubclass(BudgetExceeded, VerificationFailed)


@pytest.mark.parametrize(
    "column", [column for column in Row._fields if column not in ("digest", "signature")]
)
def test_the_hash_binds_every_column(path, column):
    """The hash of the row before among them: that is what makes a chain of rows."""
    row = list(Ledger.open(path).rows())[1]
    assert row.computed_digest() == row.digest
    value = getattr(row, column)
    other = f"{value} " if isinstance(value, str) else value + 1
    assert row._replace(**{column: other}).computed_digest() != row.digest


@pytest.mark.parametrize("column", Meta._fields)
def test_the_first_hash_binds_the_ceiling_and_the_id(path, column):
    meta = Ledger.open(path)._store.meta
    other = meta._replace(**{column: f"{getattr(meta, column)}0"})
    assert genesis(other).digest != genesis(meta).digest


@pytest.mark.parametrize("between", ["", "\x1f", ":", "1:"])
def test_text_cannot_move_between_columns_unseen(tmp_path, between):
    """The hash must bind where one column ends and the next begins."""
    path = tmp_path / "a.db"
    ledger = Ledger.open(path, epsilon=10.0)
    ledger.reserve(LaplaceDpEvent(2.0), purpose="p", run=f"a{between}b")
    moved = ("a", f"b{between}p")
    edit(path, ("UPDATE entries SET run = ?, purpose = ?", moved), triggers=False)
    found(path, "row 1")
