"""The story of the guide, page by page: three exports as they are, three fits, one check."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tacit.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "hospitals.md"
TESTS, WARDS = ("LDL", "HDL", "TSH", "CRP"), ("Köln", "Bonn", "Ulm")


def stated():
    """Return the files of settings on the page."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"%%writefile (\w+\.toml)\n(.*?)```", text, flags=re.S)
    return dict(found)


def visits(site, patients=400):
    """Return visits of a hospital: half of its ids would collide without their zeros."""
    rng = np.random.default_rng(site)
    for k in range(patients):
        number = 10 + k // 2
        name = f"{number:04d}" if k % 2 else str(number)
        age, sex = int(rng.integers(18, 100)), "fm"[int(rng.integers(2))]
        for test in TESTS[: int(rng.integers(2, 5))]:
            dose = round(float(rng.uniform(0, 2000)), 1)
            pressure = 100 + 0.5 * age - 0.01 * dose + 8 * (sex == "m") + rng.normal(0, 4)
            yield {
                "patient_id": name,
                "day": (2024, int(rng.integers(1, 13)), int(rng.integers(1, 29))),
                "age": str(age),
                "sex": sex,
                "ward": WARDS[int(rng.integers(3))],
                "dose": dose,
                "pressure": round(float(np.clip(pressure, 60, 220)), 1),
                "test": test,
                "result": round(float(rng.uniform(0, 10)), 2),
            }


def german(number):
    return f"{number:,}".replace(",", "_").replace(".", ",").replace("_", ".")


@pytest.fixture
def exports(tmp_path):
    names = ("patient_id", "admitted", "age", "sex", "ward", "dose", "pressure", "test", "result")
    north = [";".join(names)]
    for k, v in enumerate(visits(1)):
        year, month, day = v["day"]
        dose = "k.A." if k % 50 == 3 else german(v["dose"])
        cells = (v["patient_id"], f"{day:02d}.{month:02d}.{year}", v["age"], v["sex"], v["ward"],
                 dose, german(v["pressure"]), v["test"], german(v["result"]))  # fmt: skip
        north.append(";".join(cells))
    (tmp_path / "north.csv").write_bytes("\r\n".join(north).encode("latin-1"))
    south = [",".join(name.upper() for name in names[::-1])]
    for k, v in enumerate(visits(2)):
        year, month, day = v["day"]
        age = ("NA", "")[k % 2] if k % 40 == 5 else v["age"]
        cells = (v["result"], v["test"], v["pressure"], v["dose"], v["ward"], v["sex"], age,
                 f"{year}-{month:02d}-{day:02d}", v["patient_id"])  # fmt: skip
        south.append(",".join(map(str, cells)))
    (tmp_path / "south.csv").write_text("\ufeff" + "\n".join(south) + "\n", encoding="utf-8")
    west = ["\t".join(("remark", "ward", *(n for n in names if n != "ward")))]
    for k, v in enumerate(visits(3)):
        year, month, day = v["day"]
        pressure = -99 if k % 60 == 7 else v["pressure"]
        cells = ('"said ""no""\nand left"', v["ward"], v["patient_id"],
                 f"{month:02d}/{day:02d}/{year}", v["age"], v["sex"], v["dose"], pressure,
                 v["test"], v["result"])  # fmt: skip
        west.append("\t".join(map(str, cells)))
    (tmp_path / "west.tsv").write_text("\n".join(west) + "\n", encoding="utf-16")
    for name, text in stated().items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def run(folder, *words):
    named = [str(folder / word) if word.endswith(".toml") else word for word in words]
    return CliRunner().invoke(app, named, catch_exceptions=False)


def test_each_part_is_said_in_25_lines():
    files = stated()
    assert sorted(files) == ["patients.toml", "pressure.toml", "tests.toml"]
    assert max(len(text.splitlines()) for text in files.values()) <= 25


def test_one_check_says_everything_about_all_three(exports):
    assert run(exports, "check", *stated()).exit_code == 0
    lines = (exports / "south.csv").read_text(encoding="utf-8").split("\n")
    lines[7] = re.sub("Köln|Bonn|Ulm", "Bon", lines[7])
    cells = lines[9].split(",")
    cells[2] = "n. d."
    lines[9] = ",".join(cells)
    (exports / "south.csv").write_text("\n".join(lines), encoding="utf-8")
    found = run(exports, "check", *stated())
    assert found.exit_code == 1
    said = (
        "pressure.toml, South: column 'ward', unknown: south.csv, row 7: 'Bon'. It is none of "
        "Köln, Bonn, Ulm: mend it, or pass unknown=",
        "pressure.toml, South: column 'pressure', unreadable: south.csv, row 9: 'n. d.'. A number "
        "is needed: mend it, or pass decimal=',' for decimal commas",
    )
    for line in said:
        assert line in found.stdout
        assert line.replace("pressure.toml", "patients.toml") in found.stdout
    assert "tests.toml, " not in found.stdout  # which looks at neither column
    told = run(exports, "check", *stated(), "--json")
    assert told.exit_code == 1
    assert set(json.loads(told.stdout)["files"]) == set(stated())


def test_the_three_fits_follow(exports):
    import tacit as tc

    for name in stated():
        done = run(exports, "fit", name)
        assert done.exit_code == 0, done.output
    pressure = tc.PrivateLinearRegression.from_release(exports / "pressure")
    names = pressure.columns_[:-1]
    effects = dict(zip(names, pressure.coef_, strict=True))
    # what the visits were made with; five standard errors of what was released
    spread = dict(zip(names, pressure.coef_sd_, strict=True))
    for name, truth in {"age": 0.5, "dose": -0.01, "sex=m": 8.0}.items():
        assert abs(effects[name] - truth) < 5 * spread[name]
    tests = tc.PrivateFactorization.from_release(exports / "tests")
    assert tests.shared_["test"].shape == (4, 2)
    page = (exports / "patients.html").read_text(encoding="utf-8")
    assert "Köln" in page
    assert "Ulm" in page
