"""`federation init`, `site`, `coordinate`: happy paths and bad input, from another directory."""

import json

import pytest

from tests.cli.test_main import call

SITE = """
name = "North"
ledger = {file = "north.db", epsilon = 2.0, delta = 1e-5}
data = {patients = {file = "patients.csv"}}
[[allow]]
computation = "regression"
epsilon = 1.0
delta = 1e-6
unit = "row"
[allow.settings]
target = "pressure"
"""


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    place = tmp_path / "elsewhere"
    place.mkdir()
    monkeypatch.chdir(place)
    return tmp_path


def test_a_federation_is_written_and_its_sites_policy_printed(capsys, elsewhere):
    folder = elsewhere / "ours"
    status, out, _ = call(capsys, "federation", "init", folder, "--site", "North", "--json")
    assert status == 0
    kit = json.loads(out)["sites"]["North"]
    status, out, _ = call(capsys, "site", f"{kit}/site.toml", "--policy")
    assert status == 0
    assert "Nothing may be run." in out and "there is no ledger" in out
    assert call(capsys, "ledger", "create", f"{kit}/site.toml")[0] == 0
    status, out, _ = call(capsys, "site", f"{kit}/site.toml", "--policy")
    assert status == 0 and "are left" in out
    status, _, said = call(capsys, "ledger", "create", f"{kit}/site.toml")
    assert status != 0 and "created once" in said


def test_the_policy_and_the_budget_come_as_json(capsys, elsewhere):
    (elsewhere / "site.toml").write_text(SITE)
    assert call(capsys, "ledger", "create", elsewhere / "site.toml")[0] == 0
    status, out, _ = call(capsys, "site", elsewhere / "site.toml", "--policy", "--json")
    assert status == 0
    told = json.loads(out)
    assert told["remaining"]["epsilon"] == 2.0 and "regression" in told["policy"]


def test_a_holder_checks_its_data_at_home(capsys, elsewhere):
    (elsewhere / "site.toml").write_text(SITE)
    status, out, _ = call(capsys, "check", elsewhere / "site.toml")
    assert status == 1 and out.startswith("1: regression: ")
    empty = SITE.partition("[[allow]]")[0]
    (elsewhere / "site.toml").write_text(empty)
    status, out, _ = call(capsys, "check", elsewhere / "site.toml", "--json")
    assert status == 0 and json.loads(out) == {
        "site": "North", "problems": {}, "details": {},
    }  # fmt: skip


@pytest.mark.parametrize("command", ["site", "coordinate", "check"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [(None, "No such file"), ("name = ", "TOML"), ("nonsense = 1", "unknown entry 'nonsense'")],
    ids=["no file", "no TOML", "unknown"],
)  # fmt: skip
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(
    capsys, elsewhere, command, text, reason
):
    file = elsewhere / "file.toml"
    if text is not None:
        file.write_text(text)
    status, out, err = call(capsys, command, file)
    assert status == 1 and out == ""
    assert reason in err and "Traceback" not in err
    assert len(err.strip().splitlines()) <= 2


def test_an_engine_without_a_kit_is_refused(capsys, elsewhere):
    status, out, err = call(capsys, "engine", elsewhere, "--socket", elsewhere / "none.sock")
    assert (status, out) == (1, "") and "is no start-up kit" in err


def test_nothing_is_overwritten_and_names_and_ports_are_checked(capsys, elsewhere):
    taken = elsewhere / "taken"
    taken.mkdir()
    for folder, site, port, reason in (
        (taken, "North", 8002, "exists already"),
        (elsewhere / "a", "North/South", 8002, "letters, digits"),
        (elsewhere / "b", "North", 0, "port"),
    ):
        status, _, err = call(capsys, "federation", "init", folder, "--site", site, "--port", port)
        assert status == 1
        assert reason in err
