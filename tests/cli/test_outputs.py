"""What `tacit fit` writes is tried before anything is charged, and a price says what it is for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import tacit as tc
from tacit.cli import fit as command
from tests._core.test_cache import in_a_read_only_process
from tests.cli.test_main import call

CONFIG = """
estimator = "summary"
[parameters]
statistics = ["mean", "histogram"]
[privacy]
epsilon = 1.0
delta = 1e-6
[columns]
age = {kind = "number", low = 0, high = 110}
person = "id"
rows_per_person = 1
[[site]]
name = "North"
data = "north.csv"
ledger = "north.db"
ledger_epsilon = 4.0
ledger_delta = 1e-5
"""
RELEASE = '[output]\nrelease = "release"\n'


@pytest.fixture
def story(tmp_path: Path) -> Path:
    rows = "".join(f"{k},{20 + k % 60}\n" for k in range(200))
    (tmp_path / "north.csv").write_text("id,age\n" + rows)
    return tmp_path


def written(story: Path, text: str) -> Path:
    (story / "a.toml").write_text(text, encoding="utf-8")
    return story / "a.toml"


def charged(story: Path) -> int:
    return tc.Ledger.open(story / "north.db").counter


def test_a_fit_writes_its_release(story: Path, capsys: Any) -> None:
    config = written(story, CONFIG + RELEASE)
    assert call(capsys, "fit", config)[0] == 0
    assert tc.PrivateSummary.from_release(story / "release").certificate_.unit == "user"


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", "would be thrown away"),
        ("[output]\n", "would be thrown away"),
        ("[output]\nrelease = 3\n", "must be a path in quotes"),
        ('[output]\nrelease = ""\n', "must be a path in quotes"),
        ('[output]\nrelease = "."\n', "a folder of its own"),
        ('[output]\nrelease = "north.csv"\n', "cannot be written"),
        ('[output]\nrelease = "/proc/nobody/release"\n', "cannot be written"),
        ('[output]\nreport = "/proc/nobody/report.html"\n', "cannot be written"),
        ('[output]\nreport = "."\n', "is a folder"),
        ('[output]\nreport = "north.csv"\n', "choose another name"),
        ('[output]\nrelease = "r"\nreport = "r/report.html"\n', "must not lie in the release"),
    ],
)
def test_what_cannot_be_written_is_noticed_before_anything_is_charged(
    story: Path, capsys: Any, more: str, words: str
) -> None:
    status, _, told = call(capsys, "fit", written(story, CONFIG + more))
    assert (status, words in told) == (1, True), told
    assert charged(story) == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[parameters]\n", "[parameters]\nrandom_state = 1\n", "seeded noise is not for release"),
        ("[privacy]\nepsilon = 1.0\ndelta = 1e-6\n", "", "needs a finite guarantee"),
        ("epsilon = 1.0", "epsilon = inf", "needs a finite guarantee"),
    ],
)
def test_what_may_not_be_released_is_noticed_before_it_is_fitted(
    story: Path, capsys: Any, old: str, new: str, words: str
) -> None:
    text = CONFIG.replace(old, new, 1) + RELEASE
    status, _, told = call(capsys, "fit", written(story, text))
    assert (status, words in told) == (1, True), told
    assert charged(story) == 0


def test_what_was_paid_for_is_kept_where_something_fails_after_it(
    story: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit = tc.PrivateSummary.fit

    def late(self: Any, *given: Any) -> Any:
        fit(self, *given)
        raise ValueError("after the charge")

    monkeypatch.setattr(tc.PrivateSummary, "fit", late)
    with pytest.raises(ValueError, match="after the charge"):
        command.fit(written(story, CONFIG + RELEASE))
    assert "what was paid for is in" in capsys.readouterr().err
    assert tc.PrivateSummary.from_release(story / "release").mean_


def test_a_price_says_what_it_is_for_and_what_was_filled_in(story: Path, capsys: Any) -> None:
    config = written(story, CONFIG + RELEASE)
    found = json.loads(call(capsys, "price", config, "--json")[1])
    assert found["promise"] == {
        "unit": "user", "neighbours": "add-remove-one", "trust": "central",
        "against": "the public",
    }  # fmt: skip
    assert found["filled_in"] == ["unit", "neighbours", "trust"]
    told = call(capsys, "price", config)[1]
    assert "when everything about one user is added or removed" in told
    assert "filled in: unit, neighbours, trust" in told
    stated = CONFIG.replace("[privacy]\n", '[privacy]\nunit = "user"\ntrust = "central"\n')
    assert json.loads(call(capsys, "price", written(story, stated), "--json")[1])["filled_in"] == [
        "neighbours"
    ]
    # the ledger that the file makes is for the same people
    assert tc.Ledger.open(story / "north.db").unit == "user"


RUN = """
import sys
from tacit.cli.main import app
sys.argv = ["tacit", "fit", sys.argv[2]]
try:
    app()
except SystemExit as end:
    sys.exit(end.code)
"""


def test_a_read_only_installation_without_a_home_fits(story: Path) -> None:
    config = written(story, CONFIG + RELEASE)
    told = in_a_read_only_process(RUN, story, str(config), HOME=None, XDG_CACHE_HOME=None)
    assert "release:" in told
    assert charged(story) > 0
