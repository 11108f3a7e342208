"""Every command: help with an example, --json, completion, three kinds of bad input."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import typer

import tacit as tc
from tacit import cli
from tests.cli.test_main import call


def commands(group=None, path=()):
    """Yield every command that the command line has, found by itself."""
    group = group or typer.main.get_command(cli.app)
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = dict(commands())
CONFIG = """
estimator = "PrivateSummary"
[parameters]
statistics = ["mean"]
[parameters.bounds]
x = [0, 1]
[privacy]
epsilon = 1.0
delta = 1e-6
[[site]]
name = "North"
data = "north.csv"
"""


@pytest.fixture
def folder(files, tmp_path, monkeypatch):
    """The folder with the files; the working directory is another one."""
    monkeypatch.chdir(tmp_path)
    return files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    here = tmp_path_factory.mktemp("here")
    (here / "north.toml").write_text(CONFIG, encoding="utf-8")
    open_config = CONFIG.replace("[privacy]\nepsilon = 1.0\ndelta = 1e-6\n", "")
    (here / "open.toml").write_text(open_config, encoding="utf-8")
    (here / "bad.toml").write_text(CONFIG.replace("[privacy]", "[privac]"), encoding="utf-8")
    (here / "text.txt").write_text("this is no such file", encoding="utf-8")
    (here / "north.csv").write_text("x\n0.5\n0.25\n", encoding="utf-8")
    tc.Ledger.open(here / "north.db", epsilon=1.0, delta=1e-6)
    model = tc.PrivateSummary({"x": (0, 1)}, statistics=("mean",), privacy=tc.Privacy(1.0))
    model.fit({"x": np.array([0.5])}).release(here / "release")
    model.release(here / "torn")
    (here / "torn" / "arrays.npz").write_bytes(b"torn")
    return here


# command → three kinds of bad input, each with the words that explain it
BAD = {
    ("certify",): [
        (["magic", "--sigma", 1], "mechanism must be one of"),
        (["gaussian"], "described by --sigma"),
        (["gaussian", "--sigma", -1, "--delta", 1e-6], "sigma must be a number"),
    ],
    ("calibrate",): [
        (["magic", "--epsilon", 1], "mechanism must be one of"),
        (["laplace", "--epsilon", 0], "epsilon must be a number"),
        (["gaussian", "--epsilon", 1, "--delta", 2], "delta must be a number"),
    ],
    ("ledger", "show"): [
        (["nowhere.db"], "there is no ledger"),
        (["text.txt"], "not a readable ledger"),
        (["release"], "release"),
    ],
    ("ledger", "verify"): [
        (["nowhere.db"], "there is no ledger"),
        (["text.txt"], "not a readable ledger"),
        (["release"], "release"),
    ],
    ("ledger", "export"): [
        (["nowhere.db"], "there is no ledger"),
        (["text.txt"], "not a readable ledger"),
        (["release"], "release"),
    ],
    ("verify",): [
        (["nowhere"], "not a whole release"),
        (["text.txt"], "not a whole release"),
        (["torn"], "was changed after the release"),
    ],
    ("demo",): [
        (["--folder", "text.txt"], "text.txt"),
        (["magic"], "there is no story 'magic'"),
        (["table", "--folder", "north.db"], "north.db"),
    ],
    ("new",): [
        (["magic"], "there is no estimator 'magic'"),
        (["summary", "--out", "text.txt"], "text.txt exists"),
        (["summary", "--out", "nowhere/a.toml"], "nowhere/a.toml cannot be written"),
    ],
    ("fit",): [
        (["nowhere.toml"], "cannot be read"),
        (["text.txt"], "line 1"),
        (["bad.toml"], "did you mean 'privacy'?"),
    ],
    ("price",): [
        (["nowhere.toml"], "cannot be read"),
        (["text.txt"], "line 1"),
        (["bad.toml"], "did you mean 'privacy'?"),
    ],
    ("audit",): [
        (["nowhere.toml"], "cannot be read"),
        (["open.toml"], "nothing to audit"),
        (["north.toml", "--runs", 2], "runs must be"),
    ],
    ("plan",): [
        (["magic", "--want", 0.1], "kind must be one of"),
        (["mean"], "want must be given"),
        (["factorization", "--find", "rank", "--ranks", "one"], "ranks must be numbers"),
    ],
    ("predict",): [
        (["nowhere", "north.csv"], "not a whole release"),
        (["release", "nowhere.csv"], "nowhere.csv"),
        (["release", "north.csv"], "predicts nothing"),
    ],
    ("serve",): [
        (["nowhere"], "not a whole release"),
        (["torn"], "was changed after the release"),
        (["release", "--host", "nowhere.invalid"], "nothing can be served at nowhere.invalid"),
    ],
    ("report",): [
        (["nowhere"], "not a whole release"),
        (["torn"], "was changed after the release"),
        (["release", "--ledger", "text.txt"], "not a readable ledger"),
    ],
}  # fmt: skip
CASES = [(name, *case) for name, cases in BAD.items() for case in cases]


def test_every_command_of_this_part_is_listed_here():
    assert set(BAD) <= set(COMMANDS)
    assert all(len(cases) == 3 for cases in BAD.values())


@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_every_command_has_help_with_an_example_and_json(capsys, name):
    status, out, _ = call(capsys, *name, "--help")
    assert status == 0
    assert f"Example: tacit {' '.join(name)}" in " ".join(out.split())
    assert any("--json" in option.opts for option in COMMANDS[name].params)


@pytest.mark.parametrize(("name", "arguments", "words"), CASES)
def test_bad_input_is_one_sentence(capsys, folder, name, arguments, words):
    given = [folder / a if (folder / str(a)).exists() else a for a in arguments]
    status, out, err = call(capsys, *name, *given)
    assert (status, out, err.count("\n")) == (1, "", 1), err
    assert err.startswith("tacit: ")
    assert words in err


def test_an_unknown_option_is_status_two(capsys):
    assert call(capsys, "certify", "--colour", "blue")[0] == 2
    assert call(capsys, "paint")[0] == 2


def test_audit_prints_claimed_certified_and_attacked(capsys, folder):
    config = folder / "north.toml"
    status, out, _ = call(capsys, "audit", config, "--runs", 4000)
    assert status == 0
    assert all(word in out for word in ("claimed ε = 1", "certified ε = 1", "attacked ε ≥"))
    _, out, _ = call(capsys, "audit", config, "--runs", 4000, "--json")
    found = json.loads(out)
    assert found["holds"]
    assert found["attacked"] <= found["certified"]


def test_a_broken_certificate_is_status_four(capsys, folder, monkeypatch):
    from tacit.mechanisms.noise import Noise

    whole = Noise.laplace
    monkeypatch.setattr(Noise, "laplace", lambda self, n, scale: whole(self, n, scale / 5.0))
    status, out, _ = call(capsys, "audit", folder / "north.toml", "--runs", 4000)
    assert status == 4
    assert "IS BROKEN" in out


def test_plan_answers_in_words_and_in_json(capsys):
    status, out, _ = call(capsys, "plan", "summary", "--want", 0.05, "--rows", 500, "--repeats", 2)
    assert status == 0
    assert "an error of 0.05 needs epsilon of about" in out
    arguments = ("--find", "rank", "--ranks", "1,2", "--rows", 100, "--features", 10)
    _, out, _ = call(capsys, "plan", "factorization", *arguments, "--repeats", 2, "--json")
    found = json.loads(out)
    assert found["value"] in (1, 2)
    assert found["choosing_on_private_data"]["total"] > 1.0


def test_a_shell_completes_commands_and_values(tmp_path):
    """As a person has it: installed into a shell's own files, then asked by that shell."""
    program = f"{sys.executable} -c 'from tacit.cli import app; app(prog_name=\"tacit\")'"
    home = {**os.environ, "HOME": str(tmp_path)}
    (tmp_path / "tacit").write_text(f'#!/bin/sh\nexec {program[:-1]}\' "$@"\n')
    (tmp_path / "tacit").chmod(0o755)
    ask = (
        f"{tmp_path}/tacit --install-completion bash >/dev/null && source {tmp_path}/.bashrc; "
        f'for words in "tacit " "tacit certify lap" "tacit new reg" "tacit demo to"; do '
        'COMP_WORDS=($words); [[ $words == *" " ]] && COMP_WORDS+=(""); '
        "COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); "
        f'_tacit_completion {tmp_path}/tacit; echo "${{COMPREPLY[*]}}"; done'
    )
    run = subprocess.run(["bash", "-c", ask], capture_output=True, text=True, check=True, env=home)
    commands, *values = run.stdout.splitlines()
    assert {"audit", "certify", "demo", "fit", "new", "plan"} <= set(commands.split())
    assert values == ["laplace", "regression", "topics"]
