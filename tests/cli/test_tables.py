"""From messy files to a fit: `tacit schema`, `tacit check`, `tacit fit`, `tacit predict`."""

import json

import pytest
from typer.testing import CliRunner

from tacit.cli.main import app
from tacit.errors import TacitError

CONFIG = """
estimator = "PrivateLinearRegression"
[parameters]
target = "pressure"
method = "Bayes-fixedS-fast"
[privacy]
epsilon = 1.0
delta = 1e-6
[columns]
person = "id"
rows_per_person = 2
missing = "drop"
age = {kind = "number", low = 20, high = 90}
sex = ["f", "m"]
pressure = {kind = "number", low = 60, high = 220}
[[site]]
name = "North"
data = {file = "north.csv", separator = ";", decimal = ","}
[[site]]
name = "South"
data = "south.csv"
[output]
release = "release"
"""


def rows(count):
    for k in range(count):
        age, sex = 20 + (37 * k) % 70, "fm"[k % 2]
        yield k // 2, age + 0.5, sex, 90 + 0.5 * age + 8 * (sex == "m")


@pytest.fixture
def story(tmp_path):
    north = "".join(f"{i};{a};{s};{p}\n".replace(".", ",") for i, a, s, p in rows(400))
    (tmp_path / "north.csv").write_text("id;age;sex;pressure\n" + north)
    south = "".join(f"{p},{s},{i:04d},{a}\n" for i, a, s, p in rows(400))
    (tmp_path / "south.csv").write_text("Pressure,sex,id,age\n" + south)
    (tmp_path / "a.toml").write_text(CONFIG)
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_a_check_finds_everything_at_once_and_a_fit_follows(story):
    with (story / "south.csv").open("a") as file:
        file.write("abc,q,5,200\n")
    found = run("check", story / "a.toml", "--json")
    assert found.exit_code == 1
    text = json.loads(found.stdout)["problems"]["South"]
    for word in ("'age'", "'200'", "'sex'", "'q'", "'pressure'", "'abc'", "south.csv, row 401"):
        assert word in text
    lines = (story / "south.csv").read_text().splitlines()[:-1]
    (story / "south.csv").write_text("\n".join(lines) + "\n")
    assert run("check", story / "a.toml").exit_code == 0
    assert run("fit", story / "a.toml").exit_code == 0
    (story / "new.csv").write_text("sex,age\nm,50\nf,50\n")
    told = run("predict", story / "release", story / "new.csv", "--json")
    high, low = json.loads(told.stdout)["predictions"]
    assert 0.0 < high - low < 20.0


def test_a_draft_leaves_ranges_to_people(story):
    text = run("schema", story / "south.csv").stdout
    assert '"age" = {kind = "number", low = "…", high = "…"}' in text
    assert "rows_per_person" in text


def test_a_check_of_what_is_no_file_of_ours_is_our_own_error(tmp_path):
    (tmp_path / "x.toml").write_text("a = [")
    for name in ("x.toml", "none.toml"):
        with pytest.raises(TacitError, match=name):
            run("check", tmp_path / name)
