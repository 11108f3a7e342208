"""`tacit check`: everything wrong with the files of every family, at home, before anybody pays."""

import json

import pytest
from typer.testing import CliRunner

from tacit.cli.main import app
from tacit.estimators.families import estimator_names

COLUMNS = """
[columns]
age = {kind = "number", low = 20, high = 90}
dose = {kind = "number", low = 0, high = 5}
"""
ILL = 'ill = ["no", "yes"]\n'
CONFIGS = {
    "summary": (COLUMNS, ""),
    "regression": (COLUMNS, 'target = "dose"\nmethod = "Bayes-fixedS-fast"'),
    "logistic-regression": (COLUMNS + ILL, 'target = "ill"\ndraws = 100'),
    "poisson-regression": (COLUMNS, 'target = "dose"\ndraws = 100'),
    "mixture": (COLUMNS, "components = 2"),
    "posterior": (COLUMNS + 'target = "dose"\n', 'population = "Exponential"\nchains = 1\n'
                  'draws = 100\nstatistic = "mean"'),
    "selector": (COLUMNS + 'target = "dose"\n', 'population = "Exponential"\nchains = 1\n'
                 'draws = 100\nparameters = [2.0]\ncandidates = ["mean"]'),
    "network-classifier": (COLUMNS + ILL, 'target = "ill"\nrows = 60\nhidden = []\n'
                           "training = {steps = 2}"),
    "network-regressor": (COLUMNS, 'target = "dose"\nrows = 60\nhidden = []\n'
                          "training = {steps = 2}"),
    "factorization": ('[columns]\npatient = "id"\ntest = "test"\n[labels]\ntest = ["a", "b"]\n',
                      'model = "patient:k test:k"\nrank = 1\nbounds = [0, 100]'),
    "recommender": ('[columns]\nuser = "id"\nitem = "test"\n',
                    'bounds = [0, 100]\nitems = ["a", "b"]\nrank = 1'),
    "topics": ('[columns]\ndocument = "id"\nword = "test"\n',
               'vocabulary = ["a", "b"]\ntopics = 1'),
}  # fmt: skip
CELLS = ("factorization", "recommender", "topics")
BAD = {  # what stands in one row of the file: column → (value, whether cells are read)
    "age": "old", "dose": "", "ill": "perhaps", "test": "zz", "value": "much",
}  # fmt: skip
READ = {
    "summary": ("age", "dose"), "regression": ("age", "dose"), "mixture": ("age", "dose"),
    "logistic-regression": ("age", "dose", "ill"), "poisson-regression": ("age", "dose"),
    "posterior": ("dose",), "selector": ("dose",),
    "network-classifier": ("age", "dose", "ill"), "network-regressor": ("age", "dose"),
    **{name: ("test", "value") for name in CELLS},
}  # fmt: skip


def row(k):
    return {"id": f"{k // 2:04d}", "age": 20 + (37 * k) % 70, "dose": (k % 11) / 2.5,
            "ill": ["no", "yes"][k % 3 == 0], "test": "ab"[k % 2], "value": 1 + k % 7}  # fmt: skip


def write(path, rows):
    names = list(rows[0])
    lines = [";".join(str(one[name]) for name in names) for one in rows]
    path.write_text("\n".join([";".join(names), *lines]) + "\n")


def config(folder, family, privacy=True):
    columns, parameters = CONFIGS[family]
    trust = 'trust = "aggregator"\nunit = "entry"\n' if family == "recommender" else ""
    value = 'value = "value"\n' if family in CELLS else ""
    text = f'estimator = "{family}"\n{value}[parameters]\n{parameters}\n'
    text += f"[privacy]\nepsilon = 4.0\ndelta = 1e-5\n{trust}" if privacy else ""
    text += columns + '[[site]]\nname = "North"\ndata = "north.csv"\nledger = "north.db"\n'
    text += "ledger_epsilon = 9.0\nledger_delta = 1e-3\n[output]\nrelease = 'release'\n"
    (folder / "a.toml").write_text(text)
    return folder / "a.toml"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)


def test_every_family_is_tried():
    assert set(CONFIGS) == set(estimator_names())


@pytest.mark.parametrize("family", CONFIGS)
def test_everything_is_said_at_once_and_nothing_is_paid(family, tmp_path):
    if family.startswith("network"):
        pytest.importorskip("torch")
    rows = [row(k) for k in range(60)]
    write(tmp_path / "north.csv", rows)
    path = config(tmp_path, family)
    good = run("check", path)
    assert good.exit_code == 0, good.stdout
    wrong = {name: 7 + k for k, name in enumerate(READ[family])}
    for name, number in wrong.items():
        rows[number - 1][name] = BAD[name]
    write(tmp_path / "north.csv", rows)
    found = run("check", path, "--json")
    assert found.exit_code == 1
    told = json.loads(found.stdout)
    places = {
        (one["column"], place["file"], place["row"])
        for one in told["details"]["North"]
        for place in one["places"]
    }
    assert places == {(name, "north.csv", number) for name, number in wrong.items()}
    assert not (tmp_path / "north.db").exists()  # not even a ledger was made


@pytest.mark.parametrize("family", CONFIGS)
def test_a_file_that_is_not_there_or_lacks_columns_is_said(family, tmp_path):
    if family.startswith("network"):
        pytest.importorskip("torch")
    path = config(tmp_path, family)
    found = run("check", path)
    assert found.exit_code == 1 and "north.csv" in found.stdout
    (tmp_path / "north.csv").write_text("strange\n1\n")
    found = run("check", path)
    assert found.exit_code == 1 and "strange" in found.stdout


@pytest.mark.parametrize("family", ["mixture", "network-classifier", "posterior"])
@pytest.mark.filterwarnings("ignore:.*cannot be told from the noise")
def test_what_was_checked_can_be_fitted_and_predicts_by_name(family, tmp_path):
    if family.startswith("network"):
        pytest.importorskip("torch")
    rows = [row(k) for k in range(2000)]
    write(tmp_path / "north.csv", rows)
    path = config(tmp_path, family)
    assert run("check", path).exit_code == 0
    assert run("fit", path).exit_code == 0
    if family == "posterior":
        return
    (tmp_path / "new.csv").write_text("dose,AGE\n1,40\n2,60\n")
    told = run("predict", tmp_path / "release", tmp_path / "new.csv", "--json")
    assert len(json.loads(told.stdout)["predictions"]) == 2
