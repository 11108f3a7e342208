"""Accuracy against ε: from simulations, never from private data without saying so."""

import pytest

from tacit.errors import ParameterError
from tacit.estimators.facts import Facts
from tacit.planning.simulations import kinds
from tacit.planning.yardsticks import yardstick
from tacit.report import Accuracy, simulated_accuracy
from tacit.report.accuracy import accuracy_section
from tests.cli.test_main import call


def test_where_it_was_measured_must_be_said():
    with pytest.raises(TypeError, match="source"):
        Accuracy("RMSE", {"a": [(1.0, 2.0)]})
    with pytest.raises(ParameterError, match="source must be one of"):
        Accuracy("RMSE", {"a": [(1.0, 2.0)]}, source="private")
    with pytest.raises(ParameterError, match="at least one method"):
        Accuracy("RMSE", {"a": []}, source="public")
    with pytest.raises(ParameterError, match="epsilon of an accuracy"):
        Accuracy("RMSE", {"a": [(-1.0, 2.0)]}, source="public")


def test_a_simulation_falls_with_epsilon_and_is_compared_with_trivial_predictors():
    found = simulated_accuracy("summary", Facts(rows=2000), epsilons=(0.0001, 10.0), repeats=2)
    (_, rough), (_, fine) = found.series["at this ε"]
    assert fine < 0.01 < rough
    assert found.levels["the middle of the range (trivial)"] == 0.5
    assert found.note.startswith("It beats “the middle of the range (trivial)” at ")
    assert "2,000 rows" in found.note
    assert "nothing private was read" in accuracy_section(found)


def test_every_kind_that_can_be_planned_with_has_a_yardstick():
    for kind in kinds():
        found = yardstick(kind, Facts(features=20))
        assert found.rivals, kind
        assert all(0.0 < value <= 1.0 for value in found.rivals.values())


def test_unknown_kinds_are_refused():
    with pytest.raises(ParameterError, match="kind must be one of"):
        simulated_accuracy("magic")


def test_the_command_shows_it_for_a_public_number_of_rows(capsys, tmp_path, monkeypatch):
    import tacit as tc

    monkeypatch.chdir(tmp_path)
    model = tc.PrivateSummary({"age": (0, 110)}, privacy=tc.Privacy(1.0))
    model.fit({"age": [40.0, 50.0]}).release(tmp_path / "release")
    said = ("--rows", 400, "--purpose", "to plan beds", "--contact", "me@example.org")
    assert call(capsys, "report", tmp_path / "release", *said)[0] == 0
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for words in ("400 rows", "middle of the range (trivial)", "to plan beds", "me@example.org"):
        assert words in text
