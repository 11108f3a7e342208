"""The short stories: each tells, pays, and leaves a release and a report that stand alone."""

import json
import re

import pytest
from typer.testing import CliRunner

import tacit as tc
from tacit.cli.main import app
from tacit.demo.stories import LEDGER, STORIES, run_story


@pytest.mark.parametrize("name", STORIES)
def test_a_story_tells_pays_releases_and_then_refuses(name, tmp_path, capsys):
    folder = tmp_path / name
    found = run_story(name, folder)
    out = " ".join(capsys.readouterr().out.split())
    assert not found["refused"]
    assert all(" ".join(line.split()) in out for line in found["findings"])
    for line in found["findings"]:
        if "off by" in line and "by" in line.split("off by")[1]:  # ours, then the trivial one's
            ours, *_, trivial = map(float, re.findall(r"\d+\.\d+", line))
            assert ours < trivial
    release = tc.read_release(folder / "release")
    ledger = tc.Ledger.open(folder / LEDGER)
    for certificate in release.certificates.values():
        certificate.verify(ledger)
    assert found["remaining"] == pytest.approx(0.5, abs=0.01)
    assert "simulated" in (folder / "report.html").read_text(encoding="utf-8")
    assert run_story(name, folder, quiet=True) == {"refused": True}


def test_a_folder_with_other_things_stays_as_it_is(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(tc.errors.ParameterError, match="something else"):
        run_story("table", tmp_path, fresh=True, quiet=True)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_the_command_lists_stories_and_knows_no_others():
    def run(*words):
        return CliRunner().invoke(app, ["demo", *words])

    told = json.loads(run("--list", "--json").stdout)["stories"]
    assert set(told) == {"hospitals", *STORIES}
    assert "there is no story 'magic'" in str(run("magic").exception)
    assert "--federated is for the hospitals" in str(run("table", "--federated").exception)
