"""Running cases, and writing down digests and values."""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import time
import traceback
import warnings
import zlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from .cases import load


def flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the leaves of nested results by path."""
    if isinstance(value, Mapping):
        if not value:
            yield name, "empty"
        for key, part in value.items():
            yield from flat(f"{name}.{key}" if name else str(key), part)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "OSU":
        yield from flat(name, [str(part) for part in value.ravel()])
    elif isinstance(value, list | tuple):
        if value and all(isinstance(x, int | float | np.number | bool) for x in value):
            yield name, np.array(value)
        elif not value:
            yield name, "empty"
        else:
            for k, part in enumerate(value):
                yield from flat(f"{name}[{k}]", part)
    else:
        yield name, value


def entry(value: Any) -> dict[str, Any]:
    """Return what is written down of one value: a digest, and floats as they are."""
    if value is None or isinstance(value, str | bytes):
        data = value if isinstance(value, bytes) else str(value).encode()
        row: dict[str, Any] = {"kind": "text", "sha256": hashlib.sha256(data).hexdigest()}
        if not isinstance(value, bytes) and len(data) <= 2000:
            row["text"] = str(value)
        return row
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{type(value).__name__} cannot be written down: {value!r:.80}")
    data = np.ascontiguousarray(array).tobytes()
    row = {
        "kind": "float" if array.dtype.kind == "f" else "int",
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    if array.dtype.kind == "f":
        row["values"] = base64.b64encode(zlib.compress(data)).decode()
    elif array.size == 1:
        row["text"] = str(array.item())
    return row


def values_of(row: Mapping[str, Any]) -> np.ndarray:
    """Return the floats of a row."""
    data = zlib.decompress(base64.b64decode(row["values"]))
    return np.frombuffer(data, row["dtype"]).reshape(row["shape"])


def run_case(name: str) -> tuple[str, dict[str, Any], float]:
    """Run one case; return its name, its rows by name, and seconds."""
    from .hooks import recorded_replies

    logging.disable(logging.WARNING)  # dp_accounting tells of orders that it leaves out
    started = time.perf_counter()
    rows: dict[str, Any] = {}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function = load()[name]
            # replies under secure sums are masked at random
            with recorded_replies(replies="secure" not in name) as recorder:
                results = function()
        results["recorded"] = recorder.found()
        rows = {path: entry(value) for path, value in flat("", results)}
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        place = traceback.extract_tb(error.__traceback__)[-1]
        rows = {"raised": {**entry(text), "at": f"{Path(place.filename).name}:{place.lineno}"}}
    return name, rows, time.perf_counter() - started


def record(only: str = "*", jobs: int = 1, say: bool = True) -> dict[str, Any]:
    """Run all cases that match; return what is written down."""
    names = [name for name in load() if fnmatch(name, only)]
    found: dict[str, Any] = {}
    seconds: dict[str, float] = {}

    def keep(outcome: tuple[str, dict[str, Any], float]) -> None:
        name, found[name], seconds[name] = outcome
        if say:
            raised = found[name].get("raised", {}).get("text", "")
            print(f"{seconds[name]:7.2f} s  {name}  {raised}", flush=True)

    if jobs == 1:
        for name in names:
            keep(run_case(name))
    else:  # spawned, not forked: each process is as if it were alone
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            for outcome in pool.map(run_case, names):
                keep(outcome)
    import tacit

    return {
        "tacit": str(Path(tacit.__file__).parent),
        "seconds": seconds,
        "cases": {name: found[name] for name in sorted(found)},
    }


def write(path: Path, found: Mapping[str, Any]) -> None:
    """Write a record."""
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
