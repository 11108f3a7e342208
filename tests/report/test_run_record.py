"""A federation's run record in the report: sites, costs, failures."""

import json

import numpy as np
import pytest

import tacit as tc
from tacit.errors import ParameterError
from tacit.report.run_record import read_record, site_rows
from tests.cli.test_main import call

RECORD = {
    "step": "pressure", "rounds": 3, "seconds": 4.0, "bytes_received": 4096, "resumed_at": 1,
    "seconds_per_round": [0.5, 0.25, 0.3], "epsilon": {"North": 1.0},
    "failures": [{"site": "South", "round": 1, "reason": "no answer within 60 s <b>"}],
}  # fmt: skip


@pytest.fixture
def result(tmp_path):
    folder = tmp_path / "result"
    folder.mkdir()
    model = tc.PrivateSummary({"age": (0, 110)}, privacy=tc.Privacy(1.0))
    model.fit({"age": np.arange(50.0)}).release(folder / "release")
    (folder / "record.json").write_text(json.dumps(RECORD), encoding="utf-8")
    return folder


def test_the_report_of_a_federations_result_shows_the_run(capsys, result, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    status, _, _ = call(capsys, "report", result, "--out", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert status == 0
    for words in ("The run", "4,096 bytes received", "left in round 1", "Seconds a round",
                  "resumed after round 1", "took part to the end"):  # fmt: skip
        assert words in page
    assert "<b>" not in page


def test_sites_that_left_are_listed_with_the_reason():
    assert [row[0] for row in site_rows(RECORD)] == ["North", "South"]
    assert site_rows(RECORD)[1][1] == "–"


@pytest.mark.parametrize("text", ["", "[]", '{"step": "x"}', '{"failures": 1}'])
def test_what_is_no_record_is_refused(tmp_path, text):
    (tmp_path / "record.json").write_text(text)
    with pytest.raises(ParameterError, match="no run record"):
        read_record(tmp_path / "record.json")


def test_a_result_without_a_release_says_why(capsys, result):
    (result / "release").rename(result / "elsewhere")
    (result / "record.json").write_text(json.dumps(RECORD | {"not_released": "seeded"}))
    status, _, err = call(capsys, "report", result)
    assert status == 1
    assert "holds no release: seeded" in err
