"""The clean table behind all messy ones: visits of patients, typed by whoever made them up.

Each patient has two rows, with two different tests. What is right about a messy table is computed
from these lists, never read from a file.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np

import tacit as tc

TESTS = ("LDL", "HDL", "TSH", "CRP", "K")
WARDS = ("Köln", "Bonn", "Ulm")
JOBS, WORDS = ("nurse", "Ärztin", "cook"), ("fever", "cough", "bone", "x-ray")
COLUMNS = ("patient", "test", "result", "n", "age", "dose", "steps", "pressure", "sex", "ward",
           "treated", "admitted", "remark", "job", "note")  # fmt: skip
NUMBERS = ("result", "n", "age", "dose", "steps", "pressure")
Typed = dict[str, list[Any]]
Cells = dict[str, list[Any]]


def visits(rows: int = 240, seed: int = 7) -> Typed:
    """Return the typed columns."""
    rng = np.random.default_rng(seed)
    days = [dt.date(2020, 1, 1) + dt.timedelta(int(k)) for k in rng.integers(0, 2000, rows)]
    return {
        "patient": [f"{k // 2 + 10:04d}" for k in range(rows)],
        "test": [TESTS[k % 5] for k in range(rows)],
        "result": rng.uniform(0, 10, rows).round(2).tolist(),
        "n": rng.integers(2, 5, rows).tolist(),
        "age": rng.integers(20, 90, rows).tolist(),
        "dose": rng.uniform(0.1, 5, rows).round(3).tolist(),
        "steps": rng.integers(1_000, 20_000, rows).tolist(),
        "pressure": rng.uniform(60, 220, rows).round(1).tolist(),
        "sex": rng.choice(["f", "m"], rows).tolist(),
        "ward": rng.choice(WARDS, rows).tolist(),
        "treated": rng.choice([True, False], rows).tolist(),
        "admitted": days,
        "remark": ["fine"] * rows,
        "job": rng.choice(JOBS, rows).tolist(),
        "note": [" and ".join(rng.choice(WORDS, 4)) for _ in range(rows)],
    }


def written(typed: Typed) -> Cells:
    """Return every cell as plain text."""

    def text(value: Any) -> str:
        if isinstance(value, bool):
            return "yes" if value else "no"
        return value.isoformat() if isinstance(value, dt.date) else str(value)

    return {name: [text(value) for value in column] for name, column in typed.items()}


def kinds(formats: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what is public about the columns, as plain data."""
    forms = {"formats": list(formats)} if formats else {}
    return {
        "age": {"kind": "number", "low": 20, "high": 90},
        "dose": {"kind": "number", "low": 0, "high": 5},
        "steps": {"kind": "number", "low": 0, "high": 20_000},
        "pressure": {"kind": "number", "low": 60, "high": 220},
        "sex": {"kind": "category", "levels": ["f", "m"]},
        "ward": {"kind": "category", "levels": list(WARDS)},
        "treated": {"kind": "boolean"},
        "admitted": {"kind": "date", "low": "2020-01-01", "high": "2026-12-31", **forms},
        "job": {"kind": "keys", "at_most": 9, "length": 20},
        "note": {"kind": "text", "vocabulary": list(WORDS)},
    }


def stated(names: tuple[str, ...], policy: dict[str, Any], person: bool) -> dict[str, Any]:
    """Return the [columns] of some columns, with what a case states about them."""
    own = dict(policy)
    formats, constants = own.pop("formats", ()), own.pop("constants", {})
    rows = own.pop("rows_per_person", 2)
    found = {name: kind for name, kind in kinds(formats).items() if name in names}
    filled = {name: value for name, value in constants.items() if name in names}
    whose = {"person": "patient", "rows_per_person": rows} if person else {}
    return {**found, **own, **whose, **({"constants": filled} if filled else {})}


def as_columns(plain: dict[str, Any]) -> tc.Columns:
    """Return plain data as columns."""
    return tc.Columns.of(plain)
