"""Names of members as plain data, in releases and saved models, and back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from tacit.data.members import key

__all__ = ["read_names", "written_names"]


def written_names(names: Iterable[Any]) -> list[Any]:
    """Return names as plain data for JSON; dates and times say what they are."""
    return [_written(name) for name in names]


def _written(name: Any) -> Any:
    if isinstance(name, np.generic):
        name = name.item()
    if isinstance(name, dt.datetime):
        return {"time": name.isoformat()}
    if isinstance(name, dt.date):
        return {"date": name.isoformat()}
    return name if isinstance(name, str | int | float | bool) else key(name)


def read_names(names: Iterable[Any]) -> tuple[Any, ...]:
    """Return what `written_names` wrote."""
    return tuple(_read(name) for name in names)


def _read(name: Any) -> Any:
    if not isinstance(name, Mapping):
        return name
    if "time" in name:
        return dt.datetime.fromisoformat(str(name["time"]))
    return dt.date.fromisoformat(str(name["date"]))
