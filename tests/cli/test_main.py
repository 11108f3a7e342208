"""The command line: happy paths, bad input in one sentence, and exit codes."""

import json
import os
import subprocess
import sys

import pytest

from tacit import __version__, cli
from tacit.privacy.events import LaplaceDpEvent
from tacit.privacy.ledger.ledger import Ledger


def call(capsys, *arguments):
    """Run the command line in this process; return (exit status, output, errors)."""
    status = 0
    before, sys.argv = sys.argv, ["tacit", *map(str, arguments)]
    try:
        cli.main()
    except SystemExit as exit:
        status = exit.code or 0
    finally:
        sys.argv = before
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize(
    ("sigma", "rate", "steps", "delta", "real"),
    [(3.23, 0.01, 20000, 1e-4, 1.51), (10.88, 0.01, 20000, 1e-4, 0.37),
     (2.87, 0.02, 300, 1e-3, 0.26), (8.14, 0.02, 300, 1e-3, 0.07)],
)  # fmt: skip
def test_certify_answers_the_four_rows(capsys, sigma, rate, steps, delta, real):
    status, out, _ = call(
        capsys, "certify", "gaussian", "--sigma", sigma, "--rate", rate, "--steps", steps,
        "--delta", delta, "--json",
    )  # fmt: skip
    assert status == 0
    assert round(json.loads(out)["epsilon"], 2) == real


def test_certify_says_it_in_words_and_knows_replacement(capsys):
    _, out, _ = call(capsys, "certify", "gaussian", "--sigma", 2, "--delta", 1e-5)
    assert "ε = 1.9931 " in out  # 1.993090…, rounded up
    _, out, _ = call(
        capsys, "certify", "gaussian", "--sigma", 2, "--delta", 1e-5, "--neighbours", "replace-one"
    )
    assert "ε = 4.37718" in out
    _, out, _ = call(capsys, "certify", "gaussian", "--sigma", 2)
    assert "not purely private" in out


@pytest.mark.parametrize(
    ("mechanism", "parameter", "value", "epsilon"),
    [("laplace", "scale", 2, 0.5), ("geometric", "scale", 2, 0.5), ("k-norm", "scale", 4, 0.25),
     ("randomized-response", "lie", 0.5, 1.098613), ("exponential", "scale", 4, 0.5),
     ("one-bit", "magnitude", 2.1639534, 1.0), ("piecewise", "reach", 4.0829882, 1.0)],
)  # fmt: skip
def test_certify_knows_every_mechanism(capsys, mechanism, parameter, value, epsilon):
    _, out, _ = call(capsys, "certify", mechanism, f"--{parameter}", value, "--json")
    assert json.loads(out)["epsilon"] == pytest.approx(epsilon, rel=1e-5)


def test_calibrate_is_the_reverse(capsys):
    _, out, _ = call(capsys, "calibrate", "gaussian", "--epsilon", 1, "--delta", 1e-4, "--json")
    assert round(json.loads(out)["sigma"], 2) == 3.19
    _, out, _ = call(capsys, "calibrate", "laplace", "--epsilon", 0.5, "--steps", 4)
    assert "scale = 8" in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("certify", "gaussian", "--sigma", -1, "--delta", 1e-5), "sigma must be a number"),
        (("certify", "gaussian", "--scale", 1), "described by --sigma"),
        (("certify", "gaussian"), "described by --sigma"),
        (("certify", "magic", "--sigma", 1), "mechanism must be one of"),
        (("certify", "gaussian", "--sigma", 1, "--delta", 2), "delta must be a number"),
        (("certify", "gaussian", "--sigma", 1, "--accountant", "me"), "accountant must be one of"),
        (("calibrate", "laplace", "--epsilon", 0), "epsilon must be a number"),
        (("calibrate", "laplace", "--epsilon", 1, "--neighbours", "x"), "neighbours must be one"),
        (("ledger", "show", "nowhere.db"), "there is no ledger"),
        (("verify", "nowhere"), "not a whole release"),
    ],
)
def test_bad_input_is_one_sentence_and_status_one(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, *arguments)
    assert status == 1
    assert out == ""
    assert err.startswith("tacit: ")
    assert words in err
    assert err.count("\n") == 1


def test_ledger_commands(capsys, tmp_path):
    path = tmp_path / "north.db"
    ledger = Ledger.open(path, epsilon=2.0, delta=1e-6)
    ledger.charge(LaplaceDpEvent(2.0), purpose="mean age")
    status, out, _ = call(capsys, "ledger", "show", path)
    assert status == 0
    assert "mean age" in out
    assert "left ε = 1.5" in out
    _, out, _ = call(capsys, "ledger", "show", path, "--json")
    assert json.loads(out)["spent"]["epsilon"] == 0.5
    _, out, _ = call(capsys, "ledger", "verify", path)
    assert "is whole: 1 rows" in out
    _, out, _ = call(capsys, "ledger", "verify", path, "--json")
    assert json.loads(out)["ok"] is True
    _, out, _ = call(capsys, "ledger", "export", path)
    assert json.loads(out)["rows"][0]["event"]["type"] == "LaplaceDpEvent"
    path.write_bytes(b"nonsense" * 1000)
    status, _, err = call(capsys, "ledger", "verify", path)
    assert status == 1
    assert "not a readable ledger" in err


def test_version_and_help(capsys):
    assert call(capsys, "--version")[1] == f"tacit {__version__}\n"
    for command in ((), ("certify",), ("calibrate",), ("ledger", "show"), ("ledger", "verify"),
                    ("ledger", "export"), ("verify",), ("demo",), ("fit",), ("price",),
                    ("predict",), ("report",)):  # fmt: skip
        status, out, _ = call(capsys, *command, "--help")
        assert status == 0
        assert not command or "Example: tacit" in " ".join(out.split())


def test_it_works_as_a_program_from_anywhere(tmp_path):
    run = subprocess.run(
        [sys.executable, "-m", "tacit", "certify", "laplace", "--scale", "1", "--json"],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ}, check=True,
    )  # fmt: skip
    assert json.loads(run.stdout)["epsilon"] == 1.0
