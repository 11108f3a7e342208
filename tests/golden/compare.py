"""Holding one record to another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .record import values_of

TOLERANCE = 1e-9  # of floats, relative
_NOTHING = 1e-12  # of an array's largest number: below, a number is rounding
# a message's header names its step, so its frame differs; arrays of replies are held one by one
_FRAMES = ("recorded.replies", "answers.")
# attributes that held how the inside was built, and are gone: none was released, and what of them
# is a number stands elsewhere (`released_.size`, certificates, prices)
_GONE = ("budget_", "size_")


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[float, str]:
    """Return how far two rows are apart, 0 for the same bits and ∞ where none can be told."""
    if old.get("kind") != new.get("kind"):
        return np.inf, f"was {old.get('kind')}, is {new.get('kind')}"
    if any(old.get(key) != new.get(key) for key in ("dtype", "shape")):
        was, now = (f"{row.get('dtype')}{row.get('shape')}" for row in (old, new))
        return np.inf, f"was {was}, is {now}"
    if old["sha256"] == new["sha256"]:
        return 0.0, ""
    if old["kind"] != "float":
        return np.inf, f"was {old.get('text', 'other bytes')!r:.200}, is {new.get('text')!r:.200}"
    one, two = (values_of(row).astype(np.float64) for row in (old, new))
    if not (np.isfinite(one) == np.isfinite(two)).all():
        return np.inf, "other numbers are finite"
    rest = ~np.isfinite(one)
    if not np.array_equal(one[rest], two[rest], equal_nan=True):
        return np.inf, "other infinities"
    one, two = one[~rest], two[~rest]
    if not one.size:
        return 0.0, ""
    size = np.maximum(np.abs(one), np.abs(two))
    size = np.maximum(size, _NOTHING / TOLERANCE * size.max())
    apart = np.abs(one - two) / np.where(size > 0.0, size, 1.0)
    worst = float(apart.max())
    return worst, f"{int((apart > 0).sum())} of {apart.size} numbers, by at most {worst:.3g}"


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[list[str], bool]:
    """Return the report's lines, and whether the new record holds."""
    lines: list[str] = []
    same, close, bad = [], [], []
    for name in sorted({*old["cases"], *new["cases"]}):
        before, after = old["cases"].get(name), new["cases"].get(name)
        if before is None:
            lines.append(f"only here   {name}")
            continue
        if after is None:
            bad.append(name)
            lines.append(f"MISSING     {name}")
            continue
        told, worst = [], 0.0
        for part in sorted({*before, *after}):
            if part.startswith(_FRAMES):
                continue
            if part not in before:
                told.append(f"              {part}: only here")
                continue
            if part not in after and any(name in _GONE for name in part.split(".")):
                continue
            if part not in after:
                worst = np.inf
                told.append(f"              {part}: missing")
                continue
            apart, words = difference(before[part], after[part])
            worst = max(worst, apart)
            if apart:
                told.append(f"              {part}: {words}")
        kind = same if not worst else close if worst <= TOLERANCE else bad
        kind.append(name)
        if "raised" in after:
            told.append(f"              raised at {after['raised'].get('at')}")
        word = "identical " if not worst else "close     " if worst <= TOLERANCE else "DIFFERS   "
        largest = f"  (largest relative difference {worst:.3g})" if 0.0 < worst < np.inf else ""
        lines += [f"{word}  {name}{largest}", *told]
    lines.append(
        f"{len(same)} cases identical to the last bit, {len(close)} within {TOLERANCE:g}, "
        f"{len(bad)} different" + "".join(f"\n  {name}" for name in bad)
    )
    return lines, not bad
