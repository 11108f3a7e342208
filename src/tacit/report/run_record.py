"""A run record, as `tacit coordinate` wrote it: who took part, what it cost, and who did not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tacit._core.html import Html, table, tag
from tacit._core.pictures import Lines
from tacit.errors import ParameterError
from tacit.privacy.guarantee import shown
from tacit.report.drawing import short
from tacit.report.figures import figure

__all__ = ["headline", "read_record", "run_section", "site_rows"]


def read_record(path: Path) -> dict[str, Any]:
    """Read the record of one computation."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        site_rows(found)
        headline(found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ParameterError(f"{path} is no run record: {error}") from None
    return dict(found)


def headline(record: dict[str, Any]) -> str:
    """Return how long the run was.

    >>> headline({"step": "pressure", "rounds": 2, "seconds": 1.0, "bytes_received": 4096})
    'pressure: 2 rounds, 1.0 s, 4,096 bytes received'
    """
    return (
        f"{record['step']}: {record['rounds']} rounds, {record['seconds']:.1f} s, "
        f"{record['bytes_received']:,} bytes received"
    )


def site_rows(record: dict[str, Any]) -> list[list[str]]:
    """Return every site, its ε and what happened to it."""
    failed = {failure["site"]: failure for failure in record["failures"]}
    rows = []
    for site in sorted({*record["epsilon"], *failed}):
        epsilon = record["epsilon"].get(site)
        story = "took part to the end"
        if site in failed:
            story = f"left in round {failed[site]['round']}: {failed[site]['reason']}"
        rows.append([site, "–" if epsilon is None else shown(epsilon, 4), story])
    return rows


def run_section(record: dict[str, Any] | None) -> Html:
    """Return the run as a section of the report."""
    if record is None:
        return Html()
    rows = [[short(cell, 300) for cell in row] for row in site_rows(record)]
    parts = [table(headline(record), ["site", "ε", "what happened"], rows)]
    if record.get("resumed_at"):
        parts.append(tag("p", f"The run was resumed after round {record['resumed_at']}."))
    rounds = [float(seconds) for seconds in record["seconds_per_round"]]
    if len(rounds) > 1:
        points = [(float(k + 1), seconds) for k, seconds in enumerate(rounds)]
        picture = Lines("Seconds a round", "round", "seconds", {"seconds": points})
        mean = f"{sum(rounds) / len(rounds):.3f} s a round on average."
        parts.append(figure(picture, mean, zero=True))
    return tag("div", *parts, class_="grid")
