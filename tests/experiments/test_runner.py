"""The runner of experiments: what a record for the guide says about itself."""

import json

from experiments import runner


def test_a_record_says_command_commit_form_and_date(tmp_path, capsys):
    found = runner.main("experiments", ["published-noise", "--quick", "--record", str(tmp_path)])
    assert found == 0
    kept = json.loads((tmp_path / "published-noise.quick.json").read_text(encoding="utf-8"))
    assert kept["command"] == "python -m experiments published-noise --quick"
    assert kept["form"] == "quick"
    assert kept["commit"].rstrip("+") == runner.commit().rstrip("+")
    assert len(kept["date"]) == 10
    assert kept["rows"]
    assert "recorded in" in capsys.readouterr().out


def test_a_quick_record_leaves_the_full_one_alone(tmp_path):
    for quick in (False, True):
        result = {"name": "table", "rows": [quick]}
        runner.record(tmp_path, "experiments", result, quick=quick)
    full = json.loads((tmp_path / "table.json").read_text(encoding="utf-8"))
    assert (full["form"], full["rows"]) == ("full", [False])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["table.json", "table.quick.json"]
