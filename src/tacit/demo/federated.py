"""The demonstration over a real federation: one coordinator and three sites on this machine."""

from __future__ import annotations

import json
import shutil
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.synthetic import HOSPITAL_BOUNDS, hospital_tables
from tacit.estimators.site import Site
from tacit.privacy.guarantee import Privacy
from tacit.regression.estimator import PrivateLinearRegression
from tacit.rounds.messages import Message

__all__ = ["run_federated_demo"]

_SIZES = {"North": 4000, "South": 2500, "West": 9000}
_PRIVACY: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "unit": "row", "trust": "site"}
_SEED = 7  # the same noise in both runs: for the comparison, not for release


def run_federated_demo(
    folder: Path, *, fresh: bool = False, quiet: bool = False
) -> dict[str, Any]:
    """Set up a federation from nothing, run a regression over it, and compare.

    The folder must not hold one already; ``fresh`` removes an earlier demonstration's first.
    """
    from rich.console import Console

    from tacit.federation.engine.isolation import find_isolation
    from tacit.federation.engine.sites import running_site
    from tacit.federation.provision import init_federation
    from tacit.report.live import run_with_view

    console = Console(quiet=quiet)
    if fresh and (folder / "federation" / "coordinator").exists():
        shutil.rmtree(folder / "federation")
    target, *features = list(HOSPITAL_BOUNDS)[::-1]
    settings: dict[str, Any] = {
        "bounds": {name: [float(x) for x in HOSPITAL_BOUNDS[name]] for name in features},
        "y_bounds": [float(x) for x in HOSPITAL_BOUNDS[target]],
        "target": target,
        "method": "Bayes-fixedS-fast",
    }
    with socket.socket() as one:
        one.bind(("localhost", 0))
        port = one.getsockname()[1]
    console.print("[bold]Certificates, keys and start-up kits for three hospitals[/bold]")
    place = init_federation(folder / "federation", list(_SIZES), port=port)
    way, _ = find_isolation(place)
    if way is None:
        console.print("THIS MACHINE CANNOT KEEP THE ENGINE APART: NOT FOR REAL DATA")
    tables = hospital_tables(_SIZES)
    for name, table in tables.items():
        _write_site(place / "sites" / name, name, table, settings, walled=way is not None)
    _write_coordinator(place / "coordinator", settings)
    console.print("Starting a server and three sites: mutual TLS, no code in jobs.")
    with ExitStack() as stack:
        for name in _SIZES:
            stack.enter_context(running_site(place / "sites" / name / "site.toml"))
        (record,) = run_with_view(place / "coordinator" / "coordinator.toml", quiet=quiet)
    outcome = place / "coordinator" / "result" / "demo" / "outcome.tacit"
    coefficients = Message.from_bytes(outcome.read_bytes())["coef"]
    model = PrivateLinearRegression(
        bounds={n: tuple(p) for n, p in settings["bounds"].items()},
        y_bounds=tuple(settings["y_bounds"]),
        target=target,
        privacy=Privacy(**_PRIVACY),
        method="Bayes-fixedS-fast",
        random_state=_SEED,
    ).fit([Site(name, table) for name, table in tables.items()])
    same = bool(np.array_equal(coefficients, model.coef_))
    for name, value in zip(features, coefficients, strict=True):
        console.print(f"{target} per {name}: {value:.4f}")
    console.print(
        "The same answer as in one process, bit for bit."
        if same
        else "The answer differs from the one in one process."
    )
    return {"same": same, "record": record}


def _write_site(
    folder: Path, name: str, table: dict[str, Any], settings: dict[str, Any], *, walled: bool
) -> None:
    from tacit.federation.files import SiteConfig

    columns = np.column_stack([table[column] for column in table])
    rows = [",".join(table), *(",".join(repr(float(x)) for x in row) for row in columns)]
    (folder / "patients.csv").write_text("\n".join(rows) + "\n")
    agreed = {key: value for key, value in settings.items() if key != "method"}
    (folder / "site.toml").write_text(
        f'name = "{name}"\n'
        + ("" if walled else 'engine = "trusted"\n')
        + 'ledger = {file = "ledger.db", epsilon = 4.0, delta = 1e-5}\n'
        'data = {patients = {file = "patients.csv"}}\n'
        '[[allow]]\ncomputation = "regression"\nepsilon = 1.0\ndelta = 1e-6\nunit = "row"\n'
        "partners = 3\nseeded = true  # the demonstration compares with a run in one process\n"
        "[allow.settings]\n" + _settings(agreed)
    )
    SiteConfig.read(folder / "site.toml").create_ledger()


def _write_coordinator(folder: Path, settings: dict[str, Any]) -> None:
    (folder / "coordinator.toml").write_text(
        f"sites = {json.dumps(list(_SIZES))}\n"
        f'[[computation]]\nname = "demo"\ncomputation = "regression"\nseed = {_SEED}\n'
        'privacy = {epsilon = 1.0, delta = 1e-6, unit = "row", trust = "site"}\n'
        "[computation.settings]\n" + _settings(settings)
    )


def _settings(settings: dict[str, Any]) -> str:
    lines = []
    for key, value in settings.items():
        if isinstance(value, dict):
            pairs = ", ".join(f"{name} = {pair}" for name, pair in value.items())
            lines.append(f"{key} = {{{pairs}}}")
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    return "\n".join(lines) + "\n"
