"""`fit`, `price`, `predict` and `report`: happy paths and bad input, from another directory."""

import csv
import json

import numpy as np
import pytest

import tacit as tc
from tacit.data.synthetic import LABORATORY_TESTS, hospital_results
from tests.cli.test_main import call

CONFIG = """
estimator = "PrivateFactorization"
value = "result"

[parameters]
model = "patient:k test:k"
rank = 2
bounds = [0, 10]

[privacy]
epsilon = 1.0
delta = 1e-6
unit = "user"
trust = "site"

[labels]
test = "tests.txt"

[[site]]
name = "North"
data = "north.csv"
ledger = "north.db"
ledger_epsilon = 1.5
ledger_delta = 1e-5

[output]
release = "release"
report = "report.html"
"""


@pytest.fixture
def hospital(tmp_path, monkeypatch):
    """A folder with a configuration; the tests run in another one."""
    folder, elsewhere = tmp_path / "hospital", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    found = hospital_results({"North": 120}).relations["North"]
    with (folder / "north.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["patient", "test", "result"])
        for (patient, test), value in zip(found.indices, found.values, strict=True):
            writer.writerow([f"p{patient:03d}", LABORATORY_TESTS[test], value])
    (folder / "tests.txt").write_text("\n".join(LABORATORY_TESTS), encoding="utf-8")
    (folder / "hospital.toml").write_text(CONFIG, encoding="utf-8")
    return folder


def test_price_fit_predict_report_and_refusal(capsys, hospital):
    config = hospital / "hospital.toml"
    status, out, _ = call(capsys, "price", config, "--json")
    assert status == 0
    assert json.loads(out)["sites"][0]["remaining_epsilon"] == 1.5
    status, out, _ = call(capsys, "fit", config, "--json")
    assert status == 0
    assert json.loads(out)["epsilon"]["North"] <= 1.0
    assert "Procalcitonin" in (hospital / "report.html").read_text(encoding="utf-8")
    assert tc.Ledger.open(hospital / "north.db").remaining.epsilon == 0.5

    cells = hospital / "cells.csv"
    cells.write_text("patient,test\np001,CRP\np002,TSH\n", encoding="utf-8")
    predict = ("predict", hospital / "release", cells, "--config", config)
    status, out, _ = call(capsys, *predict, "--site", "North")
    assert status == 0
    rows = list(csv.DictReader(out.splitlines()))
    assert [row["test"] for row in rows] == ["CRP", "TSH"]
    assert all(0 <= float(row["prediction"]) <= 10 for row in rows)
    assert tc.Ledger.open(hospital / "north.db").remaining.epsilon == 0.5
    for extra, words in (((), "pass --config and --site"), (("--site", "East"), "no site 'East'")):
        status, _, err = call(capsys, *predict, *extra)
        assert (status, words in err) == (1, True)
    cells.write_text("patient,test\nnobody,CRP\n", encoding="utf-8")
    _, _, err = call(capsys, *predict, "--site", "North")
    assert "patient 'nobody' is unknown" in err

    report = ("report", hospital / "release", "--ledger", hospital / "north.db", "--json")
    status, out, _ = call(capsys, *report, "--out", "mine.html")
    assert json.loads(out)["report"] == "mine.html"
    assert call(capsys, *report, "--out", hospital)[0] == 1
    status, _, err = call(capsys, *report, "--out", "mine.html")
    assert (status, "pass --replace" in err) == (1, True)
    assert call(capsys, *report, "--out", "mine.html", "--replace")[0] == 0

    status, _, err = call(capsys, "fit", config)
    assert status == 1
    assert "holds a release already" in err
    config.write_text(CONFIG.replace('"release"', '"second"'), encoding="utf-8")
    status, _, err = call(capsys, "fit", config)
    assert (status, "report.html exists" in err) == (1, True)
    (hospital / "report.html").unlink()
    status, _, err = call(capsys, "fit", config)
    assert status == 3
    assert "refused" in err
    assert call(capsys, "price", config)[0] == 3


SUMMARY = """
estimator = "summary"
[parameters]
statistics = ["count", "mean"]
[columns]
age = {kind = "number", low = 0, high = 100}
[privacy]
epsilon = 1.0
[[site]]
name = "North"
data = "ages.csv"
ledger = "north.db"
ledger_epsilon = 4.0
[output]
release = "found"
"""


def test_the_result_of_a_fit_comes_first_and_json_has_its_tables(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ages.csv").write_text("age\n" + "50\n" * 400, encoding="utf-8")
    (tmp_path / "s.toml").write_text(SUMMARY, encoding="utf-8")
    status, out, err = call(capsys, "fit", "s.toml")
    assert status == 0, err
    order = ["the mean of age", "standard error", "Promise", "Cost", "release: found"]
    assert [out.index(words) for words in order] == sorted(out.index(words) for words in order)
    (tmp_path / "s.toml").write_text(SUMMARY.replace("found", "again"), encoding="utf-8")
    status, out, _ = call(capsys, "fit", "s.toml", "--json")
    told = json.loads(out)
    found = told["tables"]["statistics"]
    assert found["statistic"] == ["count", "mean"]
    low, mean, high = (found[name][1] for name in ("low", "estimate", "high"))
    assert low < mean < high
    assert low - 4 * (high - low) < 50 < high + 4 * (high - low)  # the noise is fresh every time
    assert "the mean of age" in told["result"] and told["promise"].startswith("Promise")


def test_what_was_paid_for_is_written_beside_what_appeared_during_the_fit(
    capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ages.csv").write_text("age\n" + "50\n" * 40, encoding="utf-8")
    (tmp_path / "s.toml").write_text(f'{SUMMARY}report = "page.html"\n', encoding="utf-8")
    honest = tc.PrivateSummary.fit

    def slow(self, data):
        (tmp_path / "found").mkdir(exist_ok=True)
        (tmp_path / "found" / "mine.txt").write_text("mine", encoding="utf-8")
        (tmp_path / "page.html").write_text("mine", encoding="utf-8")
        return honest(self, data)

    monkeypatch.setattr(tc.PrivateSummary, "fit", slow)
    status, out, err = call(capsys, "fit", "s.toml")
    assert status == 0, err
    assert "release: found-2" in out
    assert "report: page-2.html" in out
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == "mine"
    assert tc.read_release(tmp_path / "found-2").estimator == "PrivateSummary"


def line_of(text, part):
    return next(k for k, line in enumerate(text.splitlines(), 1) if part in line)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("rank = 2", "rnk = 2", "did you mean 'rank'?"),
        ("rank = 2", "rank = two", "text in quotes"),
        ("rank = 2", 'rank = 2\naccountant = "abacus"', "accountant must be"),
        ("epsilon = 1.0", "epsilon = -1.0", "epsilon must be a number"),
        ('unit = "user"', 'unit = "person"', "unit must be one of"),
        ('"PrivateFactorization"', '"Magic"', "choose from"),
        ('data = "north.csv"', 'data = "south.csv"', "cannot be read"),
        ('data = "north.csv"', "data = 5", 'a site needs data = "…"'),
        ("ledger_epsilon = 1.5", "", "add ledger_epsilon"),
        ('test = "tests.txt"', 'test = "none.txt"', "cannot be read"),
        ("[output]", "[outputs]", "did you mean 'output'?"),
        ("bounds = [0, 10]", "bounds = [10, 0]", "low < high"),
    ],
)
def test_a_bad_configuration_names_the_line_and_the_fix(capsys, hospital, old, new, words):
    text = CONFIG.replace(old, new, 1)
    config = hospital / "hospital.toml"
    config.write_text(text, encoding="utf-8")
    status, out, err = call(capsys, "price", config)
    assert status == 1
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    wanted = new.splitlines()[-1] if new else "ledger = "
    assert f"hospital.toml, line {line_of(text, wanted)}: " in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", "nowhere.toml"), "cannot be read"),
        (("price", "nowhere.toml"), "cannot be read"),
        (("predict", "nowhere", "cells.csv"), "not a whole release"),
        (("report", "nowhere"), "not a whole release"),
    ],
)
def test_what_is_not_there_is_one_sentence(capsys, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    status, out, err = call(capsys, *arguments)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert words in err


def test_a_recommender_predicts_from_the_rows_own_ratings(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    films = ["Alien", "Brazil", "Cube"]
    rng = np.random.default_rng(0)
    table = [(f"u{u}", film, rng.integers(1, 6)) for u in range(40) for film in films]
    users, items, ratings = (list(column) for column in zip(*table, strict=True))
    model = tc.PrivateRecommender((1, 5), items=films, rank=1, privacy=tc.Privacy(8.0, 1e-5))
    model.fit({"user": users, "item": items, "rating": ratings}).release("r")
    (tmp_path / "own.csv").write_text("user,item,rating\nz,Alien,5\nz,Cube,\n", encoding="utf-8")
    status, out, _ = call(capsys, "predict", "r", "own.csv", "--json")
    (found,) = json.loads(out)["predictions"]
    assert status == 0 and found == model.device({"Alien": 5}).predict(["Cube"])[0]
    assert json.loads(out)["columns"]["item"] == ["Cube"]
    _, out, _ = call(capsys, "predict", "r", "own.csv", "--top", "1")
    (best, _), *_ = model.device({"Alien": 5}).top(1)
    assert out.splitlines()[1].startswith(f"z,{best},")
    _, _, err = call(capsys, "predict", "r", "own.csv", "--top", "0")
    assert "n must be" in err


def test_a_summary_and_a_regression_predict_or_say_why_not(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    rows = rng.uniform(0, 10, (200, 2))
    np.savetxt("rows.csv", rows, delimiter=",", header="age,stay", comments="")
    text = 'estimator = "PrivateSummary"\n[parameters.bounds]\nage = [0, 10]\n[privacy]\n'
    text += 'epsilon = 1.0\ndelta=1e-6\n[[site]]\nname = "North"\ndata = "rows.csv"\n'
    (tmp_path / "s.toml").write_text(text + '[output]\nrelease = "s"\n', encoding="utf-8")
    assert call(capsys, "fit", "s.toml")[0] == 0
    status, _, err = call(capsys, "predict", "s", "rows.csv")
    assert status == 1
    assert "PrivateSummary predicts nothing" in err
    model = tc.PrivateLinearRegression(
        bounds={"age": (0, 10)}, y_bounds=(0, 10), target="stay", method="adaSSP",
        privacy=tc.Privacy(1.0, 1e-6),
    )  # fmt: skip
    model.fit({"age": rows[:, 0], "stay": rows[:, 1]}).release(tmp_path / "r")
    status, out, _ = call(capsys, "predict", "r", "rows.csv", "--json")
    wanted = model.predict({"age": rows[:, 0]})
    np.testing.assert_allclose(json.loads(out)["predictions"], wanted)
    (tmp_path / "bad.csv").write_text("age,age\n1,2\n", encoding="utf-8")
    assert "distinct column names" in call(capsys, "predict", "r", "bad.csv")[2]
    (tmp_path / "ragged.csv").write_text("age\n1,2\n", encoding="utf-8")
    assert "row 1 has 2 cells" in call(capsys, "predict", "r", "ragged.csv")[2]
