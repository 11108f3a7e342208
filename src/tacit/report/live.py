"""Live views: what `tacit coordinate` and `tacit site` show of a run while it lasts."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.report.run_record import headline, read_record, site_rows

__all__ = ["SiteView", "run_with_view", "show_record"]


class SiteView:
    """What a site's holder sees: who asks for what, what it cost, what was refused.

    Rounds are one line that is written over on a terminal; between runs it is quiet.

    Parameters
    ----------
    console
        Where to.

    Examples
    --------
    >>> import io
    >>> from rich.console import Console
    >>> console = Console(file=io.StringIO(), width=200)
    >>> SiteView(console)("refused", {"call": "open", "why": "ε = 2 is more than 1"})
    >>> console.file.getvalue().strip()
    'refused to open: ε = 2 is more than 1'
    """

    def __init__(self, console: Any) -> None:
        self._console = console
        self._midway = False

    def __call__(self, what: str, details: Mapping[str, Any]) -> None:
        """Show what happened."""
        line = self._line(what, details)
        over = what == "answered" and self._console.is_terminal
        if self._midway and not over:
            self._console.print()
        self._midway = over
        self._console.print(
            line, highlight=False, markup=False, soft_wrap=True, end="\r" if over else "\n"
        )

    @staticmethod
    def _line(what: str, told: Mapping[str, Any]) -> str:
        if what == "opened":
            kind = "a rehearsal of " if told["rehearsal"] else ""
            others = ", ".join(told["with"]) or "nobody else"
            return (
                f"{told['for']} opened {kind}{told['computation']} with {others}, "
                f"ε = {told['epsilon']:g} (run {told['run'][:8]})"
            )
        if what == "began":
            return f"data read, run reserved: ε = {told['epsilon left']:.4g} left"
        if what == "answered":
            return f"round {told['round']} of at most {told['of']} answered"
        if what == "closed":
            return f"run {told['run'][:8]} is over; its certificate has gone out"
        return f"refused to {told['call']}: {told['why']}"


def run_with_view(path: Path, *, wait: float = 300.0, quiet: bool = False) -> list[dict[str, Any]]:
    """Run a coordinator's file, showing every round; return the run records.

    ``wait`` is how many seconds to wait for sites; ``quiet`` shows nothing.
    """
    from rich.console import Console

    from tacit.federation.files import CoordinatorConfig
    from tacit.federation.processes import run_coordinator

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
