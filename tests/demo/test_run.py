"""The demonstration on few patients: honest errors, spent budgets, a report, a refusal."""

import json

import numpy as np

from tacit.data.synthetic import LABORATORY_TESTS, hospital_results
from tacit.demo.run import run_demo
from tacit.estimators.release import read_release
from tacit.privacy.ledger.ledger import Ledger

SIZES = {"North": 500, "South": 300, "West": 900}


def test_it_spends_writes_and_then_refuses(tmp_path, capsys):
    folder = tmp_path / "demo"
    found = run_demo(folder, sizes=SIZES)
    out = capsys.readouterr().out
    assert "ε = 1.5 of 8" in out
    assert set(found["error"]["private"]) == {"0.5", "1", "5"}
    assert json.loads(json.dumps(found))["remaining"] == dict.fromkeys(SIZES, 1.5)
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert "private averages of tests (trivial)" in text
    assert "Procalcitonin" in text
    release = read_release(folder / "release-0.5")
    assert release.certificates["West"].epsilon <= 0.5
    release.certificates["West"].verify(Ledger.open(folder / "West.db"))
    assert release.manifest["settings"]["labels"]["test"] == list(LABORATORY_TESTS)
    assert run_demo(folder, sizes=SIZES, quiet=True) == {"refused": True}
    assert not run_demo(folder, sizes=SIZES, quiet=True, fresh=True)["refused"]


def test_hospitals_overlap_in_tests_and_results_follow_their_truth():
    found = hospital_results({"North": 3000, "South": 2000}, seed=3)
    north = found.relations["North"]
    panels = [set(panel) for panel in found.panels.values()]
    assert panels[0] & panels[1]
    assert panels[0] ^ panels[1]
    patient, test = north.indices.T
    gap = north.values - found.levels["North"][patient, test]
    assert abs(gap.mean()) < 0.02
    assert abs(gap.std() - 0.5) < 0.05
    counts = np.bincount(test, minlength=len(LABORATORY_TESTS)) / 3000
    routine = np.array([name in panels[0] for name in LABORATORY_TESTS])
    assert counts[routine].min() > 0.05
    assert counts[~routine].max() < 0.02
