"""`tacit verify` against ledgers, exports and fingerprints; `tacit ledger` for units and marks."""

import functools
import json
import shutil

import numpy as np
import pytest

import tacit as tc
from tests.cli import test_main


@pytest.fixture
def call(capsys):
    """Return a function that runs the command line."""
    return functools.partial(test_main.call, capsys)


@pytest.fixture
def here(tmp_path):
    """Return a folder with a release, its ledger and the ledger's export."""
    ledger = tc.Ledger.open(tmp_path / "north.db", epsilon=4.0, delta=1e-5)
    model = tc.PrivateSummary({"x": (0, 1)}, privacy=tc.Privacy(1.0), ledger=ledger)
    model.fit({"x": np.array([0.5, 0.25])}).release(tmp_path / "release")
    (tmp_path / "north.json").write_text(json.dumps(ledger.export()), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("witness", ["north.db", "north.json"])
def test_a_release_is_verified_against_its_ledger(call, here, witness):
    code, text, _ = call("verify", here / "release", "--ledger", here / witness)
    assert code == 0 and "signed by the ledger's key" in text and "row 1 of its ledger" in text
    _, text, _ = call("verify", here / "release", "--ledger", here / witness, "--json")
    found = json.loads(text)
    assert found["signature"] == {"the data": "signed"} and found["in ledger"] == {
        "the data": True
    }


def test_what_was_checked_and_who_signed_the_release_is_said(call, here, tmp_path):
    _, text, _ = call("verify", here / "release")
    assert "every file has the digest that it was released with, on 20" in text
    assert "the release is signed by the ledger's key" in text
    model = tc.PrivateSummary({"x": (0, 1)}, privacy=tc.Privacy(1.0))
    model.fit({"x": np.array([0.5, 0.25])}).release(tmp_path / "unsigned")
    _, text, _ = call("verify", tmp_path / "unsigned", "--json")
    found = json.loads(text)
    assert found["release signed by"] == []
    assert (
        "the release itself is unsigned: who wrote its numbers is not proved" in found["checked"]
    )
    assert found["promises"][0]["certificates"] == ["the data"]


def test_another_ledger_is_no_witness(call, here):
    tc.Ledger.open(here / "other.db", epsilon=4.0)
    code, _, error = call("verify", here / "release", "--ledger", here / "other.db")
    assert code == 1 and "none of these ledgers" in error


def test_a_pin_is_the_keys_or_nobodys(call, here):
    _, text, _ = call("ledger", "verify", here / "north.db", "--json")
    key = json.loads(text)["key"]
    assert call("verify", here / "release", "--pin", key)[0] == 0
    code, _, error = call("verify", here / "release", "--pin", "0000 " * 10)
    assert code == 1 and "forged, or of somebody else" in error


def test_a_ledger_that_lost_its_mark_says_so_until_it_has_one_again(call, here):
    (here / "north.db.mark").unlink()
    _, text, _ = call("ledger", "verify", here / "north.db")
    assert "There is no mark here" in text
    assert call("ledger", "mark", here / "north.db")[0] == 0
    _, text, _ = call("ledger", "verify", here / "north.db")
    assert "Its mark has seen nothing beyond row" in text


def test_a_restored_ledger_is_named(call, here):
    shutil.copy(here / "north.db", here / "backup.db")
    tc.Ledger.open(here / "north.db").note("since the backup")
    shutil.copy(here / "backup.db", here / "north.db")
    code, _, error = call("verify", here / "release", "--ledger", here / "north.db")
    assert code == 1 and "older copy" in error


def test_a_ledger_is_created_for_a_unit_and_shows_what_it_promises(call, tmp_path):
    path = tmp_path / "a.db"
    what = ("--epsilon", 4, "--delta", 1e-5, "--unit", "user", "--most", "row=5")
    code, text, _ = call("ledger", "create", path, *what)
    assert code == 0 and "for one user (add-remove-one)" in text
    assert tc.Ledger.open(path).most == {"row": 5}
    _, text, _ = call("ledger", "show", path, "--curve")
    assert "The ceiling is what is promised" in text and "Bookkeeping" in text and "└" in text
    code, _, error = call("ledger", "create", tmp_path / "b.db", *what[:-1], "row")
    assert code == 1 and "--most takes a unit and a number" in error
