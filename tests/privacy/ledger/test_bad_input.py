"""Files that are no ledgers, disks that cannot be written, arguments that make no sense."""

import ctypes
import json
import math
import os
import platform
import sqlite3
import threading

import pytest

from tacit.errors import LedgerCorrupt, LedgerError, ParameterError, VerificationFailed
from tacit.privacy import certificate as certificates
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import GaussianDpEvent, LaplaceDpEvent, repeat
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger import sqlite as store
from tacit.privacy.ledger.ledger import Ledger

HALF = LaplaceDpEvent(2.0)


@pytest.fixture
def path(tmp_path):
    """Return the path of a ledger with fifty charges."""
    ledger = Ledger.open(tmp_path / "a.db", epsilon=100.0, delta=1e-5)
    for index in range(50):
        ledger.charge(HALF, purpose=f"number {index}")
    return tmp_path / "a.db"


# -- files ------------------------------------------------------------------------------------


def test_random_bytes_are_refused_and_kept(tmp_path):
    path, content = tmp_path / "a.db", bytes(range(256)) * 20
    path.write_bytes(content)
    for ceiling in ({}, {"epsilon": 1.0}):
        with pytest.raises(LedgerCorrupt, match=r"not a readable ledger.*backup"):
            Ledger.open(path, **ceiling)
    assert path.read_bytes() == content


def test_an_empty_file_is_refused_and_kept(tmp_path):
    path = tmp_path / "a.db"
    path.touch()
    for ceiling in ({}, {"epsilon": 1.0}):  # it may be what is left of a ledger
        with pytest.raises(LedgerCorrupt, match="not a tacit ledger"):
            Ledger.open(path, **ceiling)
    assert path.read_bytes() == b""


@pytest.mark.parametrize("mode", ["DELETE", "WAL"])
def test_a_foreign_database_is_refused_and_kept(tmp_path, mode):
    path = tmp_path / "a.db"
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA journal_mode={mode}")
    connection.execute("CREATE TABLE patients (name TEXT)")
    connection.commit()
    connection.close()
    content = path.read_bytes()
    with pytest.raises(LedgerCorrupt, match="not a tacit ledger"):
        Ledger.open(path, epsilon=1.0)
    assert path.read_bytes() == content


def shown(path):
    """Return what a ledger says remains, or nothing where it refuses to say."""
    try:
        return Ledger.open(path).remaining.epsilon
    except LedgerCorrupt:
        return 0.0


def test_a_truncated_file_is_found_and_never_shows_more_budget(path):
    content = path.read_bytes()
    for length in [1, 99, 100, 4095, 4096, 4097, len(content) // 2, len(content) - 1]:
        path.write_bytes(content[:length])
        with pytest.raises(LedgerCorrupt):
            Ledger.open(path).verify()
        assert shown(path) <= 75.0
    path.write_bytes(content)
    assert Ledger.open(path).verify() == 50


def test_damaged_pages_are_found_and_never_show_more_budget(path):
    def use():
        ledger = Ledger.open(path)
        ledger.verify()
        ledger.reserve(HALF, purpose="x", run="r")  # also reads the index

    content = path.read_bytes()
    for page in range(1, len(content) // 4096):
        damaged = bytearray(content)
        damaged[page * 4096 : page * 4096 + 4096] = b"\x5a" * 4096
        path.write_bytes(damaged)
        with pytest.raises(LedgerCorrupt):
            use()
        assert shown(path) <= 75.0


def test_a_newer_schema_is_refused_and_kept(path):
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version={store.SCHEMA + 1}")
    connection.close()
    content = path.read_bytes()
    with pytest.raises(LedgerError, match=r"schema 3, this tacit reads up to 2: update tacit"):
        Ledger.open(path)
    assert path.read_bytes() == content


def test_an_older_schema_without_a_migration_is_refused(path):
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version=0")
    connection.close()
    with pytest.raises(LedgerError, match="schema 0, which cannot be migrated"):
        Ledger.open(path)


# -- places -----------------------------------------------------------------------------------


def test_a_missing_ledger_says_how_to_create_one(tmp_path):
    with pytest.raises(LedgerError, match=r"no ledger at .*: pass epsilon=… and delta=…"):
        Ledger.open(tmp_path / "a.db")
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(LedgerError, match="cannot create a ledger at"):
        Ledger.open(tmp_path / "nowhere" / "a.db", epsilon=1.0)


def test_a_folder_is_no_ledger(tmp_path):
    for ceiling in ({}, {"epsilon": 1.0}):
        with pytest.raises(LedgerError, match="unable to open"):
            Ledger.open(tmp_path, **ceiling)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs a folder that nobody can write")
def test_a_folder_that_cannot_be_written_is_refused():
    with pytest.raises(LedgerError, match="cannot create a ledger at"):
        Ledger.open("/proc/tacit-test.db", epsilon=1.0)


def as_nobody_special(work):
    """Run ``work`` in a thread without root's power to ignore permissions."""
    outcome = []

    def run():
        if os.geteuid() == 0:
            # capabilities belong to a thread on Linux: version 3, this thread, all sets empty
            header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
            ctypes.CDLL(None, use_errno=True).capset(header, nothing)
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


@pytest.fixture
def read_only(path):
    """Return a ledger file that cannot be written, in a folder that cannot."""
    path.chmod(0o444)
    for other in path.parent.iterdir():
        other.chmod(0o444)
    path.parent.chmod(0o555)

    def writable():
        return os.access(path, os.W_OK, effective_ids=True)

    try:
        if platform.system() != "Linux" or as_nobody_special(writable):
            pytest.skip("permissions do not bind this user")
        yield path
    finally:
        path.parent.chmod(0o755)
        for other in path.parent.iterdir():
            other.chmod(0o644)


def test_a_read_only_ledger_can_be_read_and_verified(read_only):
    ledger = as_nobody_special(lambda: Ledger.open(read_only))
    assert as_nobody_special(ledger.verify) == 50
    assert as_nobody_special(lambda: ledger.remaining.epsilon) == 75.0


def test_a_read_only_ledger_refuses_charges_and_says_why(read_only):
    def attempt():
        Ledger.open(read_only).charge(HALF, purpose="x")

    with pytest.raises(LedgerError, match=r"readonly.*make the file and its folder writable"):
        as_nobody_special(attempt)
    assert Ledger.open(read_only).verify() == 50


def test_a_full_disk_refuses_charges_and_loses_nothing(path):
    ledger = Ledger.open(path)
    connection = ledger._store._connect()
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count={pages}")

    def fill():
        for _ in range(100):
            ledger.charge(HALF, purpose="x" * 1000)

    with pytest.raises(LedgerError, match=r"full.*Nothing was released"):
        fill()
    admitted = ledger.verify()
    assert ledger.remaining.epsilon == 100.0 - admitted / 2
    connection.execute(f"PRAGMA max_page_count={pages + 1000}")
    ledger.charge(HALF, purpose="space again")
    assert Ledger.open(path).verify() == admitted + 1


def test_a_ledger_that_another_process_holds_is_refused_and_not_changed(path):
    ledger = Ledger.open(path)
    ledger._store._connect().execute("PRAGMA busy_timeout=0")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match=r"locked.*another process"):
        ledger.charge(HALF, purpose="x")
    holder.execute("ROLLBACK")
    holder.close()
    ledger.charge(HALF, purpose="x")
    assert ledger.verify() == 51


# -- arguments --------------------------------------------------------------------------------

BAD_CEILINGS = [
    {"epsilon": 0.0},
    {"epsilon": -1.0},
    {"epsilon": math.nan},
    {"epsilon": math.inf},
    {"epsilon": "1"},
    {"epsilon": True},
    {"epsilon": 1.0, "delta": -1e-9},
    {"epsilon": 1.0, "delta": 1.0},
    {"epsilon": 1.0, "delta": 2.0},
    {"epsilon": 1.0, "delta": math.nan},
    {"epsilon": 1.0, "delta": "0"},
    {"epsilon": 1.0, "delta": 1e-6, "filter": "best"},
    {"epsilon": 1.0, "filter": "gdp"},
    {"epsilon": 1.0, "filter": "zcdp"},
]


@pytest.mark.parametrize("ceiling", BAD_CEILINGS, ids=str)
def test_a_senseless_ceiling_is_refused_before_a_file_is_made(tmp_path, ceiling):
    name = list(ceiling)[-1] if "filter" not in ceiling or "delta" in ceiling else "delta"
    with pytest.raises(ParameterError, match=f"{name} must be"):
        Ledger.open(tmp_path / "a.db", **ceiling)
    with pytest.raises(ParameterError, match=f"{name} must be"):
        Ledger.memory(**ceiling)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ceiling", "name"),
    [
        ({"epsilon": 99.0}, "epsilon"),
        ({"epsilon": 100.0, "delta": 1e-6}, "delta"),
        ({"delta": 0.0}, "delta"),
        ({"filter": "zcdp"}, "filter"),
        ({"epsilon": 100.0, "delta": 1e-5, "filter": "gdp"}, "filter"),
    ],
)
def test_a_ceiling_that_disagrees_with_the_file_is_refused(path, ceiling, name):
    with pytest.raises(LedgerError, match=f"was created with {name}=.*its ceiling is fixed"):
        Ledger.open(path, **ceiling)
    assert Ledger.open(path, epsilon=100, delta=1e-5, filter="basic").verify() == 50


@pytest.mark.parametrize("place", [3, None, b"a.db", ["a.db"]])
def test_a_path_must_be_a_path(place):
    with pytest.raises(ParameterError, match="path must be"):
        Ledger.open(place, epsilon=1.0)


@pytest.mark.parametrize(
    "purpose",
    [None, True, 3, b"x", object(), ["x"], "\ud800"],
    ids=["None", "True", "3", "bytes", "object", "list", "surrogate"],
)
def test_a_purpose_must_be_text(path, purpose):
    ledger = Ledger.open(path)
    with pytest.raises(ParameterError, match="purpose must be"):
        ledger.charge(HALF, purpose=purpose)
    with pytest.raises(ParameterError, match="purpose must be"):
        ledger.reserve(HALF, purpose=purpose)
    assert ledger.verify() == 50


@pytest.mark.parametrize("event", [None, "Laplace", 1.0, LaplaceDpEvent], ids=repr)
def test_an_event_must_be_an_event(path, event):
    ledger = Ledger.open(path)
    with pytest.raises(ParameterError, match="event must be"):
        ledger.charge(event, purpose="x")
    assert ledger.verify() == 50


@pytest.mark.parametrize("delta", [-1e-9, 1.0, 2.0, math.nan, math.inf, "x", True], ids=repr)
@pytest.mark.parametrize("event", [HALF, GaussianDpEvent(50.0)], ids=["pure", "gaussian"])
def test_the_delta_of_a_run_must_be_a_probability(path, event, delta):
    ledger = Ledger.open(path)
    with pytest.raises(ParameterError, match="delta must be"):
        ledger.charge(event, purpose="x", delta=delta)
    assert ledger.verify() == 50


@pytest.mark.parametrize("claim", [0, -1, 1.5, None, True])
def test_a_block_of_claims_is_a_positive_number(path, claim):
    with pytest.raises(ParameterError, match="claim must be"):
        Ledger.open(path).reserve(repeat(HALF, 3), purpose="x", claim=claim)
    assert Ledger.open(path).counter == 50


@pytest.mark.parametrize("run", [3, ("a",), b"r"], ids=repr)
def test_the_name_of_a_run_must_be_text(path, run):
    with pytest.raises(ParameterError, match="run must be"):
        Ledger.open(path).reserve(repeat(HALF, 3), purpose="x", run=run)
    assert Ledger.open(path).counter == 50


# -- migrations -------------------------------------------------------------------------------


@pytest.fixture
def next_schema(monkeypatch):
    """Register a migration from schema 2 to 3; return the list of its calls."""
    calls = []

    def migrate(connection):
        calls.append(1)
        connection.execute("CREATE TABLE contacts (name TEXT)")
        connection.execute("INSERT INTO contacts VALUES ('the data protection officer')")

    monkeypatch.setattr(store, "SCHEMA", 3)
    monkeypatch.setitem(store.MIGRATIONS, 2, migrate)
    return calls


def version(path):
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA user_version").fetchone()[0]
    finally:
        connection.close()


def test_an_older_ledger_is_migrated_once_and_keeps_its_charges(path, next_schema):
    identity = Ledger.open(path).id
    for _ in range(3):
        ledger = Ledger.open(path)
        assert (ledger.id, ledger.verify(), ledger.remaining.epsilon) == (identity, 50, 75.0)
    assert next_schema == [1]
    assert version(path) == 3
    ledger.charge(HALF, purpose="after")
    assert ledger.verify() == 51


def test_a_migration_that_fails_leaves_the_old_ledger(path, next_schema, monkeypatch):
    def broken(connection):
        connection.execute("CREATE TABLE contacts (name TEXT)")
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setitem(store.MIGRATIONS, 2, broken)
        with pytest.raises(RuntimeError, match="power cut"):
            Ledger.open(path)
    assert version(path) == 2
    assert Ledger.open(path).verify() == 50
    assert version(path) == 3


def test_migrations_run_one_after_the_other(path, next_schema, monkeypatch):
    monkeypatch.setattr(store, "SCHEMA", 4)
    monkeypatch.setitem(
        store.MIGRATIONS, 3, lambda c: c.execute("INSERT INTO contacts VALUES ('clerk')")
    )
    assert Ledger.open(path).verify() == 50
    assert version(path) == 4


def test_a_new_ledger_has_the_newest_schema(tmp_path, next_schema):
    Ledger.open(tmp_path / "a.db", epsilon=1.0)
    assert next_schema == []
    assert version(tmp_path / "a.db") == 3


def test_an_older_certificate_is_upgraded(monkeypatch):
    text = Certificate.issue(Privacy(epsilon=1.0), HALF, holder="North").to_json()
    upgrades = []

    def upgrade(data):
        upgrades.append(data["schema"])
        return {**data, "schema": 3, "holder": data["holder"] + " Hospital"}

    monkeypatch.setattr(certificates, "SCHEMA", 3)
    monkeypatch.setitem(certificates.UPGRADES, 2, upgrade)
    certificate = Certificate.from_json(text)
    assert upgrades == [2]
    assert certificate.holder == "North Hospital"
    assert certificate.verify().epsilon == 0.5


def test_a_certificate_that_cannot_be_upgraded_is_refused(monkeypatch):
    text = Certificate.issue(Privacy(epsilon=1.0), HALF).to_json()
    monkeypatch.setattr(certificates, "SCHEMA", 4)
    monkeypatch.setitem(certificates.UPGRADES, 3, lambda data: {**data, "schema": 4})
    with pytest.raises(VerificationFailed, match="schema 2 is unknown"):
        Certificate.from_json(text)


def test_a_newer_certificate_is_refused():
    data = json.loads(Certificate.issue(Privacy(epsilon=1.0), HALF).to_json())
    del data["digest"]
    data["schema"] = 3
    data["digest"] = certificates._digest(data)
    with pytest.raises(VerificationFailed, match=r"schema 3 is unknown here.*update tacit"):
        Certificate.from_json(json.dumps(data))
