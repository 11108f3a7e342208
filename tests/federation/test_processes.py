"""A real federation on loopback: a server and three sites, each behind its wall."""

import json
import socket
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from tacit.federation.engine.processes import run_coordinator
from tacit.federation.engine.sites import running_site
from tacit.federation.files import SiteConfig
from tacit.federation.provision import init_federation
from tacit.rounds.messages import Message

from .engine.support import need, processes_of, way_named
from .support import (
    FACTORIZATION,
    INFERENCE,
    REGRESSION,
    ROW,
    SITES,
    USER,
    factorization_in_one_process,
    regression_in_one_process,
    site_file,
    toml,
)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("localhost", 0))
        return one.getsockname()[1]


def strays() -> set[Path]:
    """Return what the engine leaves behind where it is not told better, and what lies here."""
    places = (Path("/tmp"), Path.home())
    named = {p for place in places for p in place.iterdir() if "nvf" in p.name.lower()}
    return named | {p for p in Path.cwd().iterdir() if not p.name.startswith(".")}


def federation(folder: Path) -> Path:
    """Write a federation of three sites with data and permissions; return where it is."""
    place = init_federation(folder / "federation", SITES, port=free_port())
    for site in SITES:
        home = place / "sites" / site
        partners = home.joinpath("site.toml").read_text().partition("[partners]")[2].split("\n", 1)
        keys = dict(line.split(" = ") for line in partners[1].strip().splitlines())
        extra = 'identity = "identity.key"\n' + "\n".join(
            f"partners.{name} = {key}" for name, key in keys.items()
        )
        path = site_file(home, site, epsilon=4.0, extra=extra, known=False)
        SiteConfig.read(path).create_ledger()
    steps = [
        {"name": "regression", "computation": "regression", "privacy": ROW, "seed": 7,
         "settings": REGRESSION | INFERENCE},
        {"name": "factorization", "computation": "factorization", "privacy": USER, "seed": 7,
         "settings": FACTORIZATION},
        {"name": "secure", "computation": "factorization", "privacy": USER, "seed": 7,
         "settings": FACTORIZATION, "threshold": 2, "colluding": 0},
    ]  # fmt: skip
    (place / "coordinator" / "coordinator.toml").write_text(
        f"sites = {toml(SITES)}\ntimeout = 60.0\nretries = 0\ncomputation = {toml(steps)}\n"
        + "".join(f"partners.{name} = {key}\n" for name, key in keys.items())
    )
    return place


def test_a_federation_of_processes_equals_the_run_in_one_process(tmp_path, monkeypatch):
    """Through the wall, made by the kernel's own calls: bubblewrap is not on every machine."""
    way = way_named("namespaces")
    need(way)
    monkeypatch.setattr("tacit.federation.engine.isolation.WAYS", (way,))
    before = strays()
    place = federation(tmp_path)
    seen = []
    with ExitStack() as stack:
        for site in SITES:
            file = place / "sites" / site / "site.toml"
            assert stack.enter_context(running_site(file)).isolation == "namespaces"
        run_coordinator(place / "coordinator" / "coordinator.toml", show=seen.append)
    result = place / "coordinator" / "result"
    records = {
        name: json.loads((result / name / "record.json").read_text())
        for name in ("regression", "factorization", "secure")
    }
    assert all(record["failures"] == [] for record in records.values())
    assert records["secure"]["rounds"] == 5 * records["factorization"]["rounds"] == 20
    assert len(seen) == 1 + 4 + 20
    found = {n: Message.from_bytes((result / n / "outcome.tacit").read_bytes()) for n in records}
    for name in ("factorization", "secure"):
        for key, factor in factorization_in_one_process(7).shared_factors_.items():
            assert np.array_equal(found[name][key], factor)
    assert np.array_equal(found["regression"]["coef"], regression_in_one_process(7).coef_)
    assert "seeded" in records["secure"]["not_released"]
    assert not processes_of(tmp_path)
    assert strays() == before
