"""A site whose table has problems: the holder hears all of them, and nobody else any."""

import numpy as np
import pytest

from tacit.errors import SiteFailure
from tacit.federation.coordinate import run_proposal
from tacit.federation.proposal import Proposal
from tacit.federation.refusals import SENTENCES
from tacit.privacy.ledger.ledger import Ledger

from .support import Direct, ready, toml

SITES = ("North", "South")
COLUMNS = {
    "dose": {"kind": "number", "low": 0, "high": 5},
    "age": {"kind": "number", "low": 20, "high": 90},
    "person": "id",
    "rows_per_person": 2,
}
RUNS = {
    "mixture": {"components": 2, "columns": COLUMNS},
    "regression": {"columns": COLUMNS, "target": "dose"},
    "summary": {"columns": COLUMNS, "statistics": ["mean"]},
    "network-regressor": {
        "columns": COLUMNS, "target": "dose", "rows": 200, "hidden": [], "training": {"steps": 2},
    },
}  # fmt: skip
PRIVACY = {"epsilon": 20.0, "delta": 1e-6, "unit": "user", "trust": "site"}


def rows(seed, count=100):
    rng = np.random.default_rng(seed)
    age = np.where(rng.random(count) < 0.5, 35.0, 75.0) + rng.normal(0, 3, count)
    dose = 3.5 + rng.normal(0, 0.2, count)
    pairs = zip(age.clip(20, 90), dose.clip(0, 5), strict=True)
    return [[f"{k // 2:04d}", f"{a:.3f}", f"{d:.3f}"] for k, (a, d) in enumerate(pairs)]


def site(folder, name, computation, table, order):
    folder.mkdir()
    heading = ["id", "age", "dose"]
    lines = [";".join(line[k] for k in order) for line in [heading, *table]]
    (folder / "visits.csv").write_text("\n".join(lines) + "\n")
    ledger = {"file": "ledger.db", "epsilon": 25.0, "delta": 1e-5, "unit": "user"}
    allow = [{
        "computation": computation, "tables": ["visits"], "rounds": 5, **PRIVACY,
        "settings": RUNS[computation],
    }]  # fmt: skip
    (folder / "site.toml").write_text(
        f'name = "{name}"\nledger = {toml(ledger)}\n'
        f"data = {toml({'visits': {'file': 'visits.csv'}})}\nallow = {toml(allow)}\n"
    )
    return ready(folder / "site.toml")


def services(folder, computation, south):
    return {
        "North": site(folder / "North", "North", computation, rows(0), (0, 1, 2)),
        "South": site(folder / "South", "South", computation, south, (2, 0, 1)),
    }


@pytest.fixture(params=RUNS)
def computation(request):
    if request.param.startswith("network"):
        pytest.importorskip("torch")
    return request.param


@pytest.mark.filterwarnings("ignore:.*cannot be told from the noise")
def test_sites_agree_on_columns_whatever_their_order(computation, tmp_path):
    found = services(tmp_path, computation, rows(1))
    assert all(not service.problems() for service in found.values())
    run = Proposal(computation, RUNS[computation], PRIVACY, SITES, "run")
    result = run_proposal(run, Direct(found))
    assert {c.unit for c in result.certificates.values()} == {"user"}
    assert all(
        "at most 2 rows of one person count" in c.assumptions for c in result.certificates.values()
    )


def test_what_is_wrong_is_said_at_home_and_nowhere_else(computation, tmp_path):
    bad = rows(1)
    bad[6][1], bad[8][2], bad[9][0] = "HIV clinic", "", ""
    found = services(tmp_path, computation, bad)
    (problems,) = found["South"].problems().values()
    assert {(p.column, p.places[0][1]) for p in problems} == {("age", 7), ("dose", 9), ("id", 10)}
    direct = Direct(found)
    run = Proposal(computation, RUNS[computation], PRIVACY, SITES, "run")
    with pytest.raises(SiteFailure) as caught:
        run_proposal(run, direct)
    said = str(caught.value)
    assert SENTENCES["silent"] in said
    for word in ("HIV", "age", "dose", "visits", "row", "BadTable"):
        assert word not in said.replace("own log", "")
    ledger = Ledger.open(tmp_path / "South" / "ledger.db")
    assert ledger.spent.epsilon == 0.0
    logs = "".join(
        path.read_text(encoding="utf-8") for path in (tmp_path / "South" / "state").rglob("*.log")
    )
    assert "HIV clinic" in logs and "row 9" in logs  # the holder's own
    for path in (tmp_path / "North").rglob("*"):
        if path.is_file() and path.suffix in (".log", ".json"):
            assert "HIV" not in path.read_text(encoding="utf-8", errors="replace")
