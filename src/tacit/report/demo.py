"""The demonstration: three hospitals release private statistics of their patients."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tacit.data.synthetic import HOSPITAL_BOUNDS, hospital_tables
from tacit.estimators.site import Site
from tacit.estimators.summary import PrivateSummary
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger import Ledger

__all__ = ["run_demo"]

_SIZES = {"North": 4000, "South": 2500, "West": 9000}
_EPSILON, _DELTA = 4.0, 1e-5  # ceiling of each ledger


def run_demo(folder: Path) -> dict[str, Any]:
    """Run the demonstration, print what happens, and write the release and the ledgers.

    Every run adds to the ledgers in ``folder``: after four the budget is spent, and the
    ledgers refuse.
    """
    from rich.console import Console
    from rich.table import Table

    console = Console()
    folder.mkdir(parents=True, exist_ok=True)
    tables = hospital_tables(_SIZES)
    sites = [
        Site(name, table, Ledger.open(folder / f"{name}.db", epsilon=_EPSILON, delta=_DELTA))
        for name, table in tables.items()
    ]
    privacy = Privacy(epsilon=1.0, delta=1e-6, unit="row", trust="site")
    summary = PrivateSummary(HOSPITAL_BOUNDS, privacy=privacy)
    console.print("[bold]Three hospitals, each with its own patients and its own ledger.[/bold]")
    console.print("What it will cost each, before any data is read:")
    price = summary.price(sites)
    console.print(str(price), soft_wrap=True)
    if not price.affordable:
        console.print(
            f"\nThe budget is spent: every run of this demonstration charges the ledgers in "
            f"{folder}, as it would in earnest. Remove that folder to start anew.",
            soft_wrap=True,
        )
        return {"refused": True}
    summary.fit(sites)
    truth = {c: np.concatenate([t[c] for t in tables.values()]) for c in HOSPITAL_BOUNDS}
    table = Table(title="All patients together: released, and (for this demonstration) the truth")
    for heading in ("column", "mean", "true", "sd", "true", "quartiles", "true"):
        table.add_column(heading, justify="left" if heading == "column" else "right")
    for column, values in truth.items():
        quartiles = np.quantile(values, summary.quantiles)
        table.add_row(
            column,
            f"{summary.mean_[column]:.1f}",
            f"{values.mean():.1f}",
            f"{summary.variance_[column] ** 0.5:.1f}",
            f"{values.std():.1f}",
            " ".join(f"{q:.0f}" for q in summary.quantiles_[column]),
            " ".join(f"{q:.0f}" for q in quartiles),
        )
    console.print(table)
    console.print("[bold]The certificates[/bold]")
    for site in sites:
        certificate = summary.certificates_[site.name].verify(site.ledger)
        console.print(f"• {certificate}", soft_wrap=True)
    console.print("[bold]What is left in each ledger[/bold]")
    for site in sites:
        assert site.ledger is not None
        left = site.ledger.remaining
        console.print(
            f"• {site.name}: ε = {left.epsilon:.4g} of {site.ledger.epsilon:g}, "
            f"δ = {left.delta:.2g} of {site.ledger.delta:g}"
        )
    number = 1
    while (folder / f"release-{number}").exists():
        number += 1
    target = folder / f"release-{number}"
    summary.release(target)
    console.print(
        f"\nThe result is in {target} (arrays, certificates, manifest). Check it with: "
        f"tacit verify {target}\nLook at a ledger with: tacit ledger show {folder / 'North.db'}",
        soft_wrap=True,
    )
    return json.loads(summary.certificate_.to_json())  # type: ignore[no-any-return]
