"""Fits of 10⁶ to 10⁸ rows or cells: seconds, memory, exponents, and a holder's workers.

Every fit runs in a process of its own, whose largest memory is measured, after a small one of the
same kind has compiled what it needs. Data lie in Parquet files of a million rows.

- **Shards**: summaries, regressions, networks, factorizations and recommenders read files in parts
  and let them go, cells brought together by user first; 10⁸ rows are larger than the memory that a
  fit may take.
- **One table**: the same factorizations and recommenders of a holder's data whole, and topics.
- **Workers**: one worker of Dask against this process, and two against one, on the same files.

Bars: exponents of seconds at most 1.05; shards of 10⁸ rows below 4 GB; at most 1.15 for one worker
over none, and at least 1.7 for two over one. The quick form is a hundred times smaller, and shows
that everything runs.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import tacit as tc
from experiments.runner import Outcome

SIZES = (10**6, 10**7, 10**8)
QUICK = (10**4, 10**5)
FILE = 10**6  # rows of a file
EXPONENT, MEMORY, OVERHEAD, SPEEDUP = 1.05, 4.0, 1.15, 1.7
SHARDED = ("summary", "regression", "network")
CELLS = ("user-level factorization", "entry-level factorization", "recommender")
PARTED = tuple(f"{kind} in shards" for kind in CELLS)
WHOLE = (*CELLS, "topics")
MOST_WHOLE, WORDS = 10**7, 1000
OPTIONS = {
    "--only": {"default": "", "help": "a part of a kind's name"},
    "--largest": {"type": int, "default": SIZES[-1], "help": "rows of the largest"},
}


def write_rows(folder: Path, rows: int) -> Path:
    """Write so many rows of four numbers, in files."""
    import polars as pl

    rng = np.random.default_rng(0)
    folder.mkdir()
    for number, first in enumerate(range(0, rows, FILE)):
        count = min(FILE, rows - first)
        x = rng.uniform(-1, 1, (count, 3)).astype(np.float32)
        y = (x @ np.array([0.5, -0.3, 0.2]) + rng.normal(0, 0.2, count)).astype(np.float32)
        columns = {"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "y": np.clip(y, -2, 2)}
        pl.DataFrame(columns).write_parquet(folder / f"{number:04d}.parquet")
    return folder


def write_cells(folder: Path, cells: int) -> Path:
    """Write so many ratings of a thousand items, in one file that is never in memory."""
    import polars as pl

    rng, parts = np.random.default_rng(0), []
    folder.mkdir()
    for first in range(0, cells, FILE):
        rows = np.arange(first, min(first + FILE, cells))
        columns = {
            "user": (rows // 50).astype(np.int32),
            "item": rng.integers(0, 20, len(rows)) + 20 * (rows % 50),  # of a user all different
            "rating": rng.integers(1, 6, len(rows)).astype(np.float32),
        }
        parts.append(folder / f"part-{first}")
        pl.DataFrame(columns).write_parquet(parts[-1])
    pl.scan_parquet(parts).sink_parquet(folder / "0000.parquet")
    for part in parts:
        part.unlink()
    return folder


def model_of(kind: str, rows: int) -> Any:
    """Return the estimator of a kind, for data of a size."""
    asked, ranges = tc.Privacy(1, 1e-9), {name: tc.number(-1, 1) for name in "abc"}
    columns = tc.Columns(ranges | {"y": tc.number(-2, 2)}, target="y", outside="clip")
    if kind == "summary":
        return tc.PrivateSummary(columns, privacy=asked, statistics=("count", "mean", "variance"))
    if kind == "regression":
        return tc.PrivateLinearRegression(columns, privacy=asked, chains=1, draws=100, warmup=100)
    if kind == "network":
        rounds = tc.networks.Training(steps=20, sampling_rate=min(1.0, 4096 / rows))
        return tc.networks.PrivateDropoutRegressor(
            columns=columns, hidden=(16,), rows=rows, privacy=asked, training=rounds
        )
    if kind.startswith("recommender"):
        return tc.PrivateRecommender(bounds=(1, 5), items=1000, privacy=asked)
    if kind == "topics":
        return tc.SingleTopicModel(5, vocabulary=WORDS, privacy=asked)
    return tc.PrivateFactorization(
        "user:k item:k", rank=4, bounds=(1, 5), entities={"item": 1000},
        privacy=tc.Privacy(1, 1e-9, unit=kind.partition("-")[0]),
    )  # fmt: skip


def data_of(kind: str, folder: Path) -> Any:
    """Return what a kind is fitted on."""
    if kind in (*SHARDED, *PARTED):
        return tc.Shards.parquet(folder)
    if kind == "topics":
        import polars as pl

        items = pl.read_parquet(folder)["item"].to_numpy()  # of each user, in increasing order
        starts, ones = np.arange(0, len(items) + 1, 50), np.ones(len(items), np.int32)
        return tc.Documents(starts, items.astype(np.int32), ones, WORDS)
    return str(folder / "0000.parquet")


def fit(kind: str, folder: Path, rows: int, workers: int = 0) -> dict[str, float]:
    """Fit once small, then on the data; return seconds and gigabytes."""
    import resource

    def one(where: Path, size: int, executor: Any = None) -> float:
        model, data = model_of(kind, size), data_of(kind, where)
        started = time.perf_counter()
        model.fit([tc.Site("here", data, executor=executor)])
        return time.perf_counter() - started

    with tempfile.TemporaryDirectory() as small:
        write = write_rows if kind in SHARDED else write_cells
        warm = write(Path(small) / "warm", 2_000)
        if not workers:
            one(warm, 2_000)
            seconds = one(folder, rows)
        else:
            from distributed import Client, LocalCluster

            how: Any = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": None,
                        "host": "127.0.0.1", "silence_logs": 50}  # fmt: skip
            with LocalCluster(**how) as cluster, Client(cluster) as client:
                one(warm, 2_000, client)
                seconds = one(folder, rows, client)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {"seconds": seconds, "GB": used}


def measured(kind: str, folder: Path, rows: int, workers: int = 0) -> dict[str, float]:
    """Run `fit` in a process of its own."""
    call = [sys.executable, "-c", _CALL, kind, str(folder), str(rows), str(workers)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


_CALL = """
import json, sys
from pathlib import Path
from benchmarks.scale import fit
if __name__ == "__main__":
    kind, folder, rows, workers = sys.argv[1:]
    print(json.dumps(fit(kind, Path(folder), int(rows), int(workers))))
"""


def run(quick: bool, only: str = "", largest: int = SIZES[-1]) -> Outcome:
    """Measure every kind at every size, then workers."""
    outcome = Outcome()
    sizes = [size for size in (QUICK if quick else SIZES) if size <= largest]
    with tempfile.TemporaryDirectory() as place:
        rows = {n: write_rows(Path(place) / f"rows-{n}", n) for n in sizes}
        cells = {n: write_cells(Path(place) / f"cells-{n}", n) for n in sizes}
        small = {n: folder for n, folder in cells.items() if n <= MOST_WHOLE}
        for kind in (*SHARDED, *PARTED, *WHOLE):
            if only in kind:
                parted = rows if kind in SHARDED else cells
                _sizes(outcome, kind, small if kind in WHOLE else parted)
        if only in "workers":
            _workers(outcome, rows[sizes[0] if quick else sizes[min(1, len(sizes) - 1)]], quick)
    return outcome


def _sizes(outcome: Outcome, kind: str, folders: dict[int, Path]) -> None:
    """Measure one kind at every size."""
    found = {}
    for size, folder in folders.items():
        found[size] = measured(kind, folder, size)
        outcome.add({"kind": kind, "rows": size, **found[size]})
        if size == SIZES[-1]:
            used = found[size]["GB"]
            outcome.check(f"{kind}: GB at 10⁸", used, f"≤ {MEMORY:g}", used <= MEMORY)
    first, last = min(found), max(found)
    if last > first:
        ratio = found[last]["seconds"] / found[first]["seconds"]
        power = math.log(ratio) / math.log(last / first)
        outcome.check(f"{kind}: exponent of seconds", power, f"≤ {EXPONENT:g}", power <= EXPONENT)


def _workers(outcome: Outcome, folder: Path, quick: bool) -> None:
    """Compare no worker, one and two on the same files."""
    rows = sum(int(_height(file)) for file in folder.iterdir())
    for kind in ("summary", "network"):
        times = {w: measured(kind, folder, rows, w)["seconds"] for w in (0, 1, 2)}
        for workers, seconds in times.items():
            outcome.add({"kind": f"{kind}, Dask", "rows": rows, "workers": workers,
                         "seconds": seconds})  # fmt: skip
        if quick:  # too small for workers to pay
            continue
        over, up = times[1] / times[0], times[1] / times[2]
        outcome.check(f"{kind}: one worker over none", over, f"≤ {OVERHEAD:g}", over <= OVERHEAD)
        outcome.check(f"{kind}: two workers over one", up, f"≥ {SPEEDUP:g}", up >= SPEEDUP)


def _height(file: Path) -> int:
    import polars as pl

    return int(pl.scan_parquet(file).select(pl.len()).collect().item())
