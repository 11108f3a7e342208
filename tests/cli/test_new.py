"""`tacit new`: for every family a file that says what is to be filled in, and then fits."""

import json
import re
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

import tacit as tc
from tacit.cli.config import blank_lines, read_config
from tacit.estimators.families import estimator_names, estimator_of
from tests.cli.test_check import CELLS, row, run, write

DOSE = '"dose" = {kind = "number", low = 0, high = 5}'
AGE = '"age" = {kind = "number", low = 20, high = 90}'
ILL = 'ill = ["no", "yes"]'
TABLE = f"{AGE}\n{DOSE}"
EVERY = {"epsilon": "4.0", "delta": "1e-5", "name": '"North"', "data": '"north.csv"',
         "ledger": '"north.db"', "ledger_epsilon": "9.0", "ledger_delta": "1e-3"}  # fmt: skip
ANSWERS = {
    "summary": {},
    "regression": {"target": '"dose"'},
    "logistic-regression": {"target": '"ill"', '"…"': f"{TABLE}\n{ILL}"},
    "poisson-regression": {"target": '"dose"'},
    "mixture": {"epsilon": "40.0", "ledger_epsilon": "50.0"},
    "posterior": {"population": '"Exponential"', "target": '"dose"', '"…"': DOSE},
    "selector": {"population": '"Exponential"', "target": '"dose"', '"…"': DOSE,
                 "candidates": '["mean", "|x|^2"]'},
    "network-classifier": {"target": '"ill"', "rows": "60", '"…"': f"{TABLE}\n{ILL}"},
    "network-regressor": {"target": '"dose"', "rows": "60"},
    "factorization": {"value": '"value"', "bounds": "[0, 100]", "person": '"id"',
                      "item": ['"test"', '["a", "b"]']},
    "recommender": {"value": '"value"', "bounds": "[0, 100]", "items": '["a", "b"]',
                    "user": '"id"', "item": '"test"'},
    "topics": {"value": '"value"', "vocabulary": '["a", "b"]', "document": '"id"',
               "word": '"test"'},
}  # fmt: skip
FASTER = {  # settings that the file offers with a default, for a short test
    "mixture": ("#components = 2", "components = 1"),
    "topics": ("#topics = 10", "topics = 1"),
    "selector": ("#draws = 2000", "draws = 100"),
    "posterior": ("#draws = 2000", "draws = 100"),
    "network-classifier": ('#training = {steps = "…"}', "training = {steps = 2}"),
    "network-regressor": ('#training = {steps = "…"}', "training = {steps = 2}"),
    "logistic-regression": ("#draws = 1000", "draws = 100"),
    "poisson-regression": ("#draws = 1000", "draws = 100"),
    "regression": ('#method = "auto"', 'method = "Bayes-fixedS-fast"'),
}


def filled(text, answers):
    """Replace every blank of a file by the answer to its key, and nothing else."""
    lines = text.splitlines()
    left = {key: list(a) if isinstance(a, list) else [a] for key, a in answers.items()}
    for blank in blank_lines(text):
        key = blank.code.partition(" = ")[0]
        answer = left[key].pop(0)
        lines[blank.number - 1] = answer if key == '"…"' else f"{key} = {answer}"
    assert not any(left.values()), left
    return "\n".join(lines) + "\n"


def test_every_family_is_tried():
    assert set(ANSWERS) == set(estimator_names())


@pytest.mark.parametrize("family", ANSWERS)
def test_a_new_file_says_what_is_open_and_fits_when_it_is_filled_in(family, tmp_path):
    if family.startswith("network"):
        pytest.importorskip("torch")
    file = tmp_path / "new.toml"
    made = run("new", family, "--out", file, "--json")
    text = file.read_text()
    open_lines = [line for line in text.splitlines() if re.match(r'[^#]*"…"', line)]
    assert json.loads(made.stdout)["blanks"] == len(open_lines) > 0
    asked = run("check", file)
    assert asked.exit_code == 1
    assert asked.stdout.count("is to be filled in") == len(open_lines)
    with pytest.raises(tc.errors.ParameterError, match=f"{len(open_lines) - 1} more"):
        read_config(file)
    table = {} if family in CELLS else {'"…"': TABLE}
    text = filled(text, {**table, **EVERY, **ANSWERS[family]})
    file.write_text(text.replace(*FASTER.get(family, ("", ""))))
    write(tmp_path / "north.csv", [row(k) for k in range(60)])
    good = run("check", file)
    assert good.exit_code == 0, good.stdout
    assert run("fit", file).exit_code == 0
    found = tc.read_release(tmp_path / "release")
    assert found.estimator == estimator_of(family).__name__


@pytest.mark.parametrize("family", ANSWERS)
def test_every_setting_that_is_offered_is_one_with_its_default(family):
    if family.startswith("network"):
        pytest.importorskip("torch")
    text = run("new", family).stdout
    section = text[text.index("[parameters]") :].split("\n\n")[0]
    offered = dict(re.findall(r"^#(\w+) = (.*)$", section, re.M))
    kind = estimator_of(family)
    defaults = kind().get_params(deep=False)
    assert offered
    for name, value in offered.items():
        stated = tomllib.loads(f"x = {value}")["x"]
        if name not in defaults:
            assert name in kind._stated_facts
        elif defaults[name] is not None and not isinstance(stated, dict):
            listed = isinstance(defaults[name], tuple)
            assert (tuple(stated) if listed else stated) == defaults[name]


def test_a_table_fills_in_names_and_types_and_no_value(tmp_path):
    write(tmp_path / "north.csv", [{**row(k), "age": 77 + k} for k in range(3)])
    (tmp_path / "north.csv").write_text((tmp_path / "north.csv").read_text().replace(";", ","))
    text = run("new", "summary", "--table", tmp_path / "north.csv").stdout
    assert '"dose" = {kind = "number", low = "…", high = "…"}' in text
    assert "77" not in text
    with pytest.raises(tc.errors.ParameterError, match="leave --table out"):
        run("new", "topics", "--table", tmp_path / "north.csv")


def test_a_family_from_outside_has_its_file_too(tmp_path, monkeypatch):
    home = Path(__file__).parents[2] / "benchmarks" / "_house" / "toy_counts"
    shutil.copytree(home, tmp_path / "toy_elsewhere")
    monkeypatch.syspath_prepend(tmp_path)
    try:
        text = run("new", "toy-counts", "--plugin", "toy_elsewhere").stdout
        assert 'plugins = ["toy_elsewhere"]' in text
        text = filled(text, EVERY).replace("#categories = []", 'categories = ["a", "b"]')
        (tmp_path / "toy.toml").write_text(text)
        (tmp_path / "north.csv").write_text("kind\na\nb\nb\n")
        assert run("fit", tmp_path / "toy.toml").exit_code == 0
    finally:
        for name in [name for name in sys.modules if name.startswith("toy_elsewhere")]:
            del sys.modules[name]


def test_nothing_is_overwritten_and_families_are_listed(tmp_path):
    (tmp_path / "mine.toml").write_text("mine")
    with pytest.raises(tc.errors.ParameterError, match="exists"):
        run("new", "summary", "--out", tmp_path / "mine.toml")
    assert (tmp_path / "mine.toml").read_text() == "mine"
    listed = run("new").stdout
    assert all(name in listed for name in estimator_names())
    with pytest.raises(tc.errors.ParameterError, match="there is no estimator 'magic'"):
        run("new", "magic")


def test_dots_in_comments_and_texts_are_no_blanks():
    text = 'a = "# … "  # "…" here\nb = "wait…"\n#c = "…"\n'
    assert blank_lines(text) == []
    assert [line.number for line in blank_lines(text + "d = ['…']\n")] == [4]
