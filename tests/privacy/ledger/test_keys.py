"""Signatures: what a ledger's key signs, who vouches for it, and what a forgery looks like."""

import dataclasses
import json
import stat

import pytest

from tacit.errors import LedgerCorrupt, LedgerError, VerificationFailed
from tacit.federation.members.identity import fingerprint
from tacit.federation.secure.keys import fresh_identity, identity_public
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import LaplaceDpEvent
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.keys import key_fingerprint
from tacit.privacy.ledger.ledger import Ledger
from tests.privacy.ledger.test_tamper import forge

EVENT = LaplaceDpEvent(4.0)


@pytest.fixture
def path(tmp_path):
    """Return the path of a ledger with three charges."""
    ledger = Ledger.open(tmp_path / "a.db", epsilon=10.0)
    for number in range(3):
        ledger.charge(EVENT, purpose=f"number {number}")
    return tmp_path / "a.db"


def certified(ledger):
    entry = ledger.charge(EVENT, purpose="certified")
    return Certificate.issue(Privacy(1.0), EVENT, ledger=entry).signed(ledger)


def key_of(path):
    return path.with_name(path.name + ".key")


def test_the_key_is_its_owners_alone_and_lies_outside_of_the_file(path):
    private = key_of(path).read_text(encoding="ascii").strip()
    assert stat.S_IMODE(key_of(path).stat().st_mode) == 0o600
    assert private.encode() not in path.read_bytes()
    assert bytes.fromhex(private) not in path.read_bytes()
    assert Ledger.open(path).key in path.read_bytes().decode("latin-1")


def test_every_row_is_signed_and_one_signature_verifies_all(path, monkeypatch):
    from tacit.privacy.ledger import sqlite

    ledger, calls = Ledger.open(path), []
    assert all(len(row.signature) == 128 for row in ledger.rows())
    real = sqlite.is_signed
    monkeypatch.setattr(sqlite, "is_signed", lambda *a: calls.append(1) or real(*a))
    assert ledger.verify() == 3
    assert len(calls) <= 2  # the end of the rows that were read, and the head as it is then


def test_rows_that_somebody_without_the_key_made_are_forged(path):
    forge(path, lambda rows: rows[:2], key=False)  # what was signed once is still signed
    assert Ledger.open(path).verify() == 2
    forge(path, lambda rows: [*rows, rows[0]], key=False)
    with pytest.raises(LedgerCorrupt, match="forged: row 3"):
        Ledger.open(path).verify()
    with pytest.raises(LedgerCorrupt, match="forged: row 3"):
        Ledger.open(path).charge(EVENT, purpose="on top of it")


def test_a_ledger_without_its_key_is_read_and_verified_and_not_charged(path):
    key_of(path).rename(path.with_name("elsewhere"))
    ledger = Ledger.open(path)
    assert ledger.verify() == 3
    with pytest.raises(LedgerError, match=r"key .* cannot be read .*pass key="):
        ledger.charge(EVENT, purpose="x")
    assert ledger.counter == 3
    Ledger.open(path, key=path.with_name("elsewhere")).charge(EVENT, purpose="with its key")
    assert ledger.verify() == 4


def test_the_key_of_another_ledger_signs_nothing_here(path, tmp_path):
    Ledger.open(tmp_path / "b.db", epsilon=1.0)
    with pytest.raises(LedgerError, match="key of another ledger"):
        Ledger.open(path, key=tmp_path / "b.db.key").charge(EVENT, purpose="x")
    key_of(path).write_text("no key", encoding="ascii")
    with pytest.raises(LedgerCorrupt, match="holds no key"):
        Ledger.open(path).charge(EVENT, purpose="x")
    assert Ledger.open(path).verify() == 3


def test_a_certificate_of_a_ledger_in_memory_is_unsigned():
    given = certified(Ledger.memory(epsilon=1.0))
    assert (given.signature, given.signed_by, given.identity) == ("unsigned", "unsigned", "")


def test_a_signed_certificate_needs_no_ledger_and_names_the_row_it_saw(path):
    ledger = Ledger.open(path)
    given = Certificate.from_json(certified(ledger).to_json()).verify()
    assert given.signature == "signed"
    assert (given.seal.counter, given.ledger.counter) == (4, 4)
    assert key_fingerprint(ledger.key) in given.signed_by
    given.verify(ledger, pin=key_fingerprint(ledger.key).upper())


@pytest.mark.parametrize(
    "change",
    [
        {"against": "everybody"},
        {"assumptions": ("fewer",)},
        {"holder": "South"},
        {"version": "9.9"},
        {"trust": "local"},
        {"epsilon": 0.25 * (1 + 1e-9)},
        {"group": 2},
        {"seal.counter": 5},
        {"seal.head": "0" * 64},
        {"seal.key": "0" * 64},
        {"seal.signature": "0" * 128},
        {"ledger.counter": 1},
        {"ledger.durable": False},
    ],
    ids=str,
)
def test_every_changed_field_of_a_signed_certificate_is_forged(path, change):
    given = certified(Ledger.open(path))
    ((name, value),) = change.items()
    part, _, inner = name.rpartition(".")
    if part:
        name, value = part, dataclasses.replace(getattr(given, part), **{inner: value})
    with pytest.raises(VerificationFailed, match="forged"):
        dataclasses.replace(given, **{name: value}).verify()


def test_partners_pin_one_fingerprint_for_all_ledgers_of_a_site(path):
    identity = fresh_identity()
    told = fingerprint(identity_public(identity))
    ledger = Ledger.open(path)
    ledger.endorse(identity)
    ledger.endorse(identity)
    assert len(ledger.export()["endorsements"]) == 1
    given = certified(ledger).verify(pin=told)
    assert told in given.signed_by and given.identity == identity_public(identity).hex()
    stranger = fingerprint(identity_public(fresh_identity()))
    with pytest.raises(VerificationFailed, match="somebody else"):
        given.verify(pin=stranger)
    with pytest.raises(VerificationFailed, match="signed by nobody"):
        dataclasses.replace(given, seal=None).verify(pin=told)
    borrowed = dataclasses.replace(given.seal, identity=identity_public(fresh_identity()).hex())
    with pytest.raises(VerificationFailed, match="forged"):
        dataclasses.replace(given, seal=borrowed).verify()


def test_an_exported_ledger_carries_its_signature(path):
    ledger = Ledger.open(path)
    given = certified(ledger)
    text = json.dumps(ledger.export())
    record = Ledger.from_export(json.loads(text))
    assert record.verify() == 4
    given.verify(record)
    assert not hasattr(record, "charge")
    forged = json.loads(text)
    forged["rows"][-1]["purpose"] = "harmless"
    with pytest.raises(LedgerCorrupt, match=r"row 4 .* was changed"):
        Ledger.from_export(forged).verify()
    cut = json.loads(text)
    cut["rows"].pop()
    with pytest.raises(LedgerCorrupt, match="does not hold the charge"):
        given.verify(Ledger.from_export(cut))
    for nonsense in ({}, {"meta": 3}, [], None, "x"):
        with pytest.raises(LedgerCorrupt):
            Ledger.from_export(nonsense)


def test_a_certificate_notices_that_the_row_it_saw_is_gone(path):
    """It was signed after a later row: cutting that one leaves the certificate's own."""
    ledger = Ledger.open(path)
    entry = ledger.charge(EVENT, purpose="mine")
    ledger.charge(EVENT, purpose="later")
    given = Certificate.issue(Privacy(1.0), EVENT, ledger=entry).signed(ledger)
    forge(path, lambda rows: rows[:-1])
    with pytest.raises(VerificationFailed, match="saw row 5"):
        given.verify(Ledger.open(path))
