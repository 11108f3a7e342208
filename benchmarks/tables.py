"""Reading a million-row CSV by its stated columns, beside Polars reading and casting it.

Both read every cell as text, since a type that is inferred from a column is a fact about other
people, and turn it into what it stands for: Polars by one expression per column, which is all that
it says about cells that do not fit; `tc.Columns.read` by the kind of each column, with every cell
that is missing, unreadable, unknown or out of range known by file and row, and with people told
apart. Times are medians of runs in turns, in one process, so that other load hits both alike.

``plain`` has numbers, a category, truth values and dates. ``people`` has the ids of 400,000 people
besides, of whom at most three rows count: Polars makes a categorical of them, which is its way of
telling them apart; beside it with ids left as text, which tells nobody apart. ``commas`` has
decimal commas and semicolons.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tacit as tc
from benchmarks.timing import in_turns
from experiments.runner import Outcome

ROWS, QUICK_ROWS = 1_000_000, 100_000
SEX, FORM = ["f", "m", "x"], "%Y-%m-%d"
KINDS = {
    "age": tc.number(20, 90),
    "dose": tc.number(0, 5),
    "pressure": tc.number(60, 220),
    "sex": tc.category(*SEX),
    "treated": tc.boolean(),
    "admitted": tc.date("2020-01-01", "2026-12-31"),
}


def table(rows: int) -> Any:
    """Return visits of people as a frame."""
    import polars as pl

    rng = np.random.default_rng(0)
    days = np.datetime64("2020-01-01") + rng.integers(0, 2000, rows).astype("timedelta64[D]")
    return pl.DataFrame(
        {
            "id": [f"{k:07d}" for k in rng.integers(0, max(1, rows * 2 // 5), rows)],
            "age": rng.integers(20, 90, rows),
            "dose": rng.uniform(0, 5, rows).round(4),
            "sex": rng.choice(SEX, rows),
            "treated": rng.choice(["yes", "no"], rows),
            "admitted": days.astype(str),
            "pressure": rng.uniform(60, 220, rows).round(2),
        }
    )


def by_polars(file: Path, *, ids: str, comma: bool = False) -> Any:
    """Read a file as text and cast it."""
    import polars as pl

    frame = pl.read_csv(file, infer_schema=False, separator=";" if comma else ",")
    numbers = pl.col("age", "dose", "pressure")
    if comma:
        numbers = numbers.str.replace(",", ".", literal=True)
    casts = [
        numbers.cast(pl.Float64, strict=False),
        pl.col("sex").cast(pl.Enum(SEX), strict=False),
        pl.col("treated").replace_strict(["yes", "no"], [True, False], default=None),
        pl.col("admitted").str.to_date(FORM, strict=False),
    ]
    if ids == "apart":
        casts.append(pl.col("id").cast(pl.Categorical))
    return frame.with_columns(casts)


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    rows = QUICK_ROWS if quick else ROWS
    with tempfile.TemporaryDirectory() as folder:
        plain, comma = Path(folder, "plain.csv"), Path(folder, "comma.csv")
        made = table(rows)
        made.write_csv(plain)
        made.write_csv(comma, separator=";", decimal_comma=True)
        stated = tc.source(comma, separator=";", decimal=",")
        alone, people = tc.Columns(KINDS), tc.Columns(KINDS, person="id", rows_per_person=3)
        settings: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
            "plain": (lambda: by_polars(plain, ids="text"), lambda: alone.read(plain)),
            "people": (lambda: by_polars(plain, ids="apart"), lambda: people.read(plain)),
            "people, ids as text": (
                lambda: by_polars(plain, ids="text"), lambda: people.read(plain),
            ),
            "commas": (
                lambda: by_polars(comma, ids="text", comma=True), lambda: alone.read(stated),
            ),
        }  # fmt: skip
        for name, (polars, ours) in settings.items():
            _same(polars(), ours(), name)
            seconds = in_turns({"Polars": polars, "tacit": ours}, 3 if quick else 9)
            row = {"table": name, "rows": rows, "Polars s": seconds["Polars"],
                   "tacit s": seconds["tacit"]}  # fmt: skip
            row["ratio"] = row["tacit s"] / row["Polars s"]
            outcome.add(row)
            if name != "people, ids as text":  # it does less: nobody is told apart
                what, ratio = f"{name}: time over that of Polars", row["ratio"]
                outcome.check(what, ratio, "≤ 2", ratio <= 2.0)
    return outcome


def _same(frame: Any, found: Any, name: str) -> None:
    """Refuse to time readers that do not agree; rows are left out only where people crowd."""
    if not name.startswith("people"):
        for column in ("age", "dose", "pressure"):
            assert np.array_equal(frame[column].to_numpy(), found.values[column]), column
    else:
        counts = frame["id"].cast(str).value_counts()["count"].to_numpy()
        assert len(found) == np.minimum(counts, 3).sum()
