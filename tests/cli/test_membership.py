"""`tacit federation` from `init` to `revoke`, as people type it."""

import json

import pytest

from tests.cli.test_main import call


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(capsys, *arguments):
    status, out, err = call(capsys, "federation", *arguments, "--json")
    assert status == 0, err
    return json.loads(out)


def refused(capsys, *arguments):
    status, out, err = call(capsys, "federation", *arguments)
    assert (status, out, err.count("\n")) == (1, "", 1), err
    assert err.startswith("tacit: ")
    return err


def test_two_institutions_from_nothing_to_a_revocation(capsys, here):
    invited = told(capsys, "init", "ours", "--host", "fed.example.org")
    names = ("North", "South")
    joined = {name: told(capsys, "join", "ours/invitation.json", name) for name in names}
    assert {one["invitation_fingerprint"] for one in joined.values()} == {invited["fingerprint"]}
    pins = [
        w for n in names for w in ("--pin", f"{n}={joined[n]['fingerprint'].replace(' ', '')}")
    ]
    requests = [joined[name]["request"] for name in names]
    assert "was not confirmed" in refused(capsys, "approve", "ours", *requests)
    approved = told(capsys, "approve", "ours", *requests, *pins)["approved"]
    waiting = told(capsys, "accept", "North", approved["North"]["file"])
    assert waiting["waiting"] == {"South": joined["South"]["fingerprint"]}
    assert told(capsys, "accept", "North", "ours/roster.json", *pins)["pinned"] == ["South"]
    wrong = f"North={joined['South']['fingerprint']}"
    answer = approved["South"]["file"]
    assert "NOT THE ONE YOU WERE TOLD" in refused(
        capsys, "accept", "South", answer, "--pin", wrong
    )
    told(capsys, "accept", "South", answer, *pins)
    standing = told(capsys, "status", "South")
    assert standing["fingerprints"] == {n: joined[n]["fingerprint"] for n in ("South", "North")}

    again = told(capsys, "renew", "North")
    assert again["fingerprint"] == joined["North"]["fingerprint"]
    signed = ("approve", "ours", again["request"], "--days", 20, "--revoke-older")
    file = told(capsys, *signed)["approved"]["North"]["file"]
    told(capsys, "accept", "North", file)
    _, out, _ = call(capsys, "federation", "status", "North")
    assert "WARNING" in out and "in 19 days" in out

    assert told(capsys, "revoke", "ours", "South")["by_hand"] == []
    assert told(capsys, "accept", "North", "ours/roster.json")["unpinned"] == ["South"]
    assert "THIS SITE IS REVOKED" in refused(capsys, "accept", "South", "ours/roster.json")
    told(capsys, "renew", "ours", "--days", 40)
    rows = {row["name"]: row for row in told(capsys, "status", "ours")["members"]}
    assert list(rows) == ["root", "server", "admin", "North", "South"]
    assert rows["South"]["revoked"] and not rows["North"]["revoked"]
    _, out, _ = call(capsys, "federation", "status", "ours")
    assert "REVOKED" in out and rows["North"]["fingerprint"] in out

    _, out, _ = call(capsys, "site", "North/site.toml", "--policy")
    assert joined["North"]["fingerprint"] in out and joined["South"]["fingerprint"] not in out


def test_texts_say_what_to_do_next(capsys):
    _, out, _ = call(capsys, "federation", "init", "ours")
    assert "by telephone" in out and "invitation.json" in out and "offline" in out
    _, out, _ = call(capsys, "federation", "join", "ours/invitation.json", "North")
    assert "North.request.json" in out and "never leave this machine" in out
    request = "North/North.request.json"
    _, out, err = call(capsys, "federation", "approve", "ours", request, "--yes")
    assert "send ours/approvals/North.approval.json to North" in out
    assert "demonstrations only" in err
    file = "ours/approvals/North.approval.json"
    _, out, _ = call(capsys, "federation", "accept", "North", file)
    assert "lasts until" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["init", ".", "--host", "fed.example.org"], "exists already"),
        (["init", "ours", "--host", "a b"], "host must be"),
        (["init", "ours", "--port", "0"], "port must be"),
        (["join", "nowhere.json", "North"], "cannot be read"),
        (["join", "text.txt", "North"], "is no JSON"),
        (["approve", "nowhere", "request.json"], "holds no authority"),
        (["accept", "nowhere", "approval.json"], "holds no site.toml"),
        (["renew", "nowhere"], "holds no authority"),
        (["revoke", "nowhere", "North"], "holds no authority"),
        (["status", "nowhere"], "holds no authority"),
        (["accept", "nowhere", "file", "--pin", "North"], "NAME=FINGERPRINT"),
    ],
)
def test_bad_input_is_one_sentence(capsys, here, arguments, words):
    (here / "text.txt").write_text("this is no such file")
    assert words in refused(capsys, *arguments)
    assert not (here / "ours").exists()


def test_a_person_at_a_terminal_is_asked(capsys, monkeypatch, here):
    from tacit.cli import membership

    told(capsys, "init", "ours")
    made = told(capsys, "join", "ours/invitation.json", "North")
    asked = []

    def prompt(question, **_):
        asked.append(question)
        return made["fingerprint"].upper()

    monkeypatch.setattr(membership.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(membership.typer, "prompt", prompt)
    assert set(told(capsys, "approve", "ours", made["request"])["approved"]) == {"North"}
    assert len(asked) == 1 and made["fingerprint"] not in asked[0]
