"""The package as a whole: names, imports, the wheel, the runners."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import tacit
from benchmarks.known_misses import KNOWN_MISSES

ROOT = Path(__file__).parent.parent
HEAVY = ("sklearn", "dp_accounting", "opendp", "numba", "matplotlib", "scipy.stats", "pandas")


def test_exported_names():
    assert tacit.__all__ == sorted(tacit.__all__)
    assert set(tacit.__all__) == {"__version__", *tacit._EXPORTS}
    assert set(dir(tacit)) == {*tacit.__all__, *tacit._PACKAGES}
    for name in tacit.__all__:
        assert getattr(tacit, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        tacit.no_such_name  # noqa: B018


@pytest.mark.parametrize("package", tacit._PACKAGES)
def test_every_package_is_there_on_first_use_with_all_of_its_names(package):
    found = getattr(tacit, package)
    assert found.__name__ == f"tacit.{package}"
    assert all(getattr(found, name) is not None for name in dir(found))


def test_a_star_needs_no_extra():
    assert not set(tacit.__all__) & set(tacit._PACKAGES)


def test_importing_tacit_imports_nothing_heavy():
    code = f"import sys, tacit; print([m for m in {HEAVY!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_the_wheel_builds_installs_and_runs(tmp_path):
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*install, "--target", str(site), str(wheel)], check=True, capture_output=True)
    code = (
        "import tacit, tacit.cli, sys; print(tacit.__file__); sys.argv = ['tacit', 'certify', "
        "'laplace', '--scale', '2', '--json']; tacit.cli.main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(site)},
    )  # fmt: skip
    where, answer = run.stdout.strip().splitlines()
    assert Path(where).is_relative_to(site)
    assert json.loads(answer)["epsilon"] == 0.5
    assert not list(site.glob("tests*"))
    assert (site / "tacit" / "py.typed").exists()


@pytest.mark.parametrize("package", ["experiments", "benchmarks"])
def test_the_runner_lists_and_refuses_by_name(package, capsys):
    from experiments.runner import main, specs

    assert main(package, []) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in specs(package))
    assert main(package, ["no-such-thing"]) == 2
    assert "choose from" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "name"),
    [
        ("experiments", "published-noise"),
        ("benchmarks", "privacy"),
    ],
)
def test_the_last_line_is_one_json_object(package, name, capsys):
    from experiments.runner import main

    assert main(package, [name, "--json", "--quick"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert set(result) == {"name", "ok", "checks", "rows", "seconds"}
    assert result["name"] == name
    assert result["checks"]
    assert all(set(check) == {"what", "value", "bar", "ok"} for check in result["checks"])
    if package == "experiments":
        assert result["ok"]


def _held(name, status, capsys):
    """A bar that is missed is on the one list of known misses, with its reason."""
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert status == 0
    assert result["checks"]
    assert result["rows"]
    missed = {check["what"] for check in result["checks"] if not check["ok"]}
    assert missed <= set(KNOWN_MISSES.get(name, {})), missed


@pytest.mark.parametrize("name", [
    "statistic-selection", "mixing", "ldp-scaling", "federation-faults", "dropout-digits",
    "fuzz", "hostile", "messy-tables", "walkthroughs",
    pytest.param("recommender-factors", marks=pytest.mark.slow),
    pytest.param("sampler-defaults", marks=pytest.mark.slow),
    pytest.param("audit-table", marks=pytest.mark.slow),
])  # fmt: skip
def test_the_quick_form_on_simulated_data_runs(name, capsys):
    from experiments.runner import main

    _held(name, main("experiments", [name, "--json", "--quick"]), capsys)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("uclaf-links", "uclaf"),
        ("lastfm-tags", "lastfm-2k"),
        ("sites-movielens", "ml-100k"),
        ("sites-uclaf", "uclaf"),
        ("topic-recovery", "topic-moments"),
        ("kos-topics", "uci-kos"),
        ("hdpmf-table3", "ml-100k"),
        ("hdpmf-attack", "ml-100k"),
        ("dropout-mnist", "mnist"),
        pytest.param("networks-sites", "mnist", marks=pytest.mark.slow),
    ],
)
def test_the_quick_form_on_real_data_runs(name, data, capsys):
    from experiments.data import data_folder
    from experiments.runner import main

    try:
        data_folder(data)
    except SystemExit as error:
        pytest.skip(str(error))
    _held(name, main("experiments", [name, "--json", "--quick"]), capsys)


def test_without_the_extra_tacit_works_and_federation_says_what_to_install():
    code = (
        "import sys, importlib.util as u\n"
        "find = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'nvflare' else find(name, *more)\n"
        "import tacit, tacit.cli\n"
        "try:\n    tacit.federation\n"
        "except ImportError as error:\n    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'tacit[federation]'" in run.stdout
