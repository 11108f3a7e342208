"""The live view of `tacit coordinate`: rounds, sites, seconds and bytes a round, ε per site."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from tacit.report.run_record import headline, read_record, site_rows

__all__ = ["run_with_view", "show_record"]


def run_with_view(path: Path, *, wait: float = 300.0, quiet: bool = False) -> list[dict[str, Any]]:
    """Run a coordinator's file, showing every round; return the run records.

    ``wait`` is how many seconds to wait for sites; ``quiet`` shows nothing.
    """
    from rich.console import Console

    from tacit.federation.engine.processes import run_coordinator
    from tacit.federation.files import CoordinatorConfig

    console = Console(stderr=quiet, quiet=quiet)
    config = CoordinatorConfig.read(path)
    console.print(f"Waiting for {', '.join(config.sites)} …")
    before = {step.name: 0 for step in config.steps}

    def show(line: dict[str, Any]) -> None:
        received = line["bytes"] - before[line["step"]]
        before[line["step"]] = line["bytes"]
        console.print(
            f"{line['step']}: round {line['round']}, {len(line['sites'])} sites, "
            f"{line['seconds']:.2f} s, {max(received, 0):,} bytes received",
            highlight=False,
        )

    run_coordinator(path, wait=wait, show=show)
    records = [read_record(config.output / step.name / "record.json") for step in config.steps]
    for record in records:
        show_record(record, console)
    sys.stdout.flush()
    return records


def show_record(record: dict[str, Any], console: Any) -> None:
    """Print a run record: who took part, what it cost, who failed and why."""
    from rich.table import Table

    rounds = record["seconds_per_round"]
    table = Table(title=headline(record))
    for heading in ("site", "ε", "what happened"):
        table.add_column(heading)
    for row in site_rows(record):
        table.add_row(*row)
    console.print(table)
    if rounds:
        console.print(f"{sum(rounds) / len(rounds):.3f} s a round on average")
    if record["not_released"]:
        console.print(f"Not released: {record['not_released']}")
