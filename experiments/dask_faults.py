"""Private runs on a holder's Dask cluster, whose workers are killed at random moments.

Summaries, regressions and networks are fitted to shards that two workers hold. While a run goes on
one or two workers are killed with SIGKILL, at random moments: while shards are read, while they
are looked at, while they contribute. Every run has a durable ledger of its own and seeded noise.

Bars: all runs complete; what each learned is what an undisturbed run in one process learned, to
the last bit; each ledger has one charge, of the request's ε. The control has workers that draw
randomness of their own when they read shards, and must be noticed.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import tacit as tc
from experiments.runner import Outcome
from tacit.data.shards import Piece

RUNS, QUICK_RUNS, ROWS, PARTS = 50, 3, 4_000, 8
ASKED = tc.Privacy(1, 1e-6)


class Slow(Piece):
    """A piece that takes a while to read, so that its worker can die meanwhile."""

    def __init__(self, table: dict[str, Any], noisy: bool = False) -> None:
        self.table, self.noisy = table, noisy

    def read(self) -> Any:
        """Return the table."""
        time.sleep(0.02)
        if not self.noisy:
            return self.table
        extra = int.from_bytes(os.urandom(2)) / 65536  # what a reader must not do
        return {name: column + extra for name, column in self.table.items()}


def table() -> dict[str, Any]:
    """Return rows of three numbers."""
    rng = np.random.default_rng(0)
    a, b = rng.uniform(0, 1, (2, ROWS))
    return {"a": a, "b": b, "y": 0.5 * a - 0.2 * b + rng.normal(0, 0.1, ROWS)}


def models() -> dict[str, Any]:
    """Return how each kind is made."""
    columns = tc.Columns(
        a=tc.number(0, 1), b=tc.number(0, 1), y=tc.number(-2, 2), target="y", outside="clip"
    )
    few = tc.networks.Training(steps=6, sampling_rate=0.1)
    return {
        "summary": lambda: tc.PrivateSummary(
            columns, privacy=ASKED, noise="grid", random_state=1
        ),
        "regression": lambda: tc.PrivateLinearRegression(
            columns, privacy=ASKED, random_state=1, chains=1, draws=20, warmup=20
        ),
        "network": lambda: tc.networks.PrivateDropoutRegressor(
            columns=columns, hidden=(8,), rows=ROWS, privacy=ASKED, training=few, random_state=1
        ),
    }  # fmt: skip


def shards(noisy: bool = False) -> tc.Shards:
    """Return the rows in parts."""
    rows = table()
    cut = [np.array_split(column, PARTS) for column in rows.values()]
    return tc.Shards(
        [Slow(dict(zip(rows, part, strict=True)), noisy) for part in zip(*cut, strict=True)]
    )


class Killer(threading.Thread):
    """Kills workers of a client at random moments until it is told to stop."""

    def __init__(self, client: Any, rng: random.Random, most: int) -> None:
        super().__init__(daemon=True)
        self.client, self.rng, self.most, self.done = client, rng, most, threading.Event()
        self.killed = 0

    def run(self) -> None:
        """Wait, and kill one; again."""
        while self.killed < self.most and not self.done.wait(self.rng.uniform(0.02, 0.3)):
            workers = self.client.run(os.getpid, on_error="ignore")
            if workers:
                os.kill(self.rng.choice(sorted(workers.values())), signal.SIGKILL)
                self.killed += 1


def played(client: Any, rng: random.Random, kind: str, ledger: tc.Ledger) -> dict[str, Any]:
    """Fit once while workers are killed; return what came of it."""
    make = models()[kind]
    killer = Killer(client, rng, rng.choice((1, 2)))
    killer.start()
    try:
        found = make().fit([tc.Site("the data", shards(), ledger, executor=client)]).shared_
        said = ""
    except Exception as error:
        found, said = {}, f"{type(error).__name__}: {error}"
    finally:
        killer.done.set()
        killer.join()
    whole = make().fit(table()).shared_
    same = found.keys() == whole.keys() and all(
        np.array_equal(found[key], part) for key, part in whole.items()
    )
    spent = 3 - ledger.remaining.epsilon
    row = {"kind": kind, "killed": killer.killed, "same bits": same, "ε": spent}
    return row | ({"lost": said} if said else {})


def run(quick: bool) -> Outcome:
    """Run, kill and compare."""
    from distributed import Client, LocalCluster

    outcome, rng, runs = Outcome(), random.Random(0), QUICK_RUNS if quick else RUNS
    kinds = list(models())
    how: Any = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None,
                "host": "127.0.0.1", "silence_logs": 50}  # fmt: skip
    with (
        tempfile.TemporaryDirectory() as place,
        LocalCluster(**how) as cluster,
        Client(cluster) as client,
    ):
        for number in range(runs):
            ledger = tc.Ledger.open(Path(place) / f"{number}.db", epsilon=3, delta=1e-5)
            outcome.add(played(client, rng, kinds[number % len(kinds)], ledger))
        client.wait_for_workers(2)
        odd = tc.Site("the data", shards(noisy=True), executor=client)
        summary = models()["summary"]
        seen = summary().fit([odd]).shared_["mean/a"] != summary().fit(table()).shared_["mean/a"]
    rows = outcome.rows
    lost, wrong = sum("lost" in row for row in rows), sum(not row["same bits"] for row in rows)
    charges = sum(abs(row["ε"] - 1) > 1e-6 for row in rows)
    kills = sum(row["killed"] for row in rows)
    outcome.check("runs that did not complete", lost, "0", lost == 0)
    outcome.check("runs with other bits", wrong, "0", wrong == 0)
    outcome.check("ledgers without exactly one charge", charges, "0", charges == 0)
    outcome.check("workers that were killed", kills, f"≥ {runs // 2}", kills >= runs // 2)
    outcome.check("a reader with randomness is noticed", str(bool(seen)), "True", bool(seen))
    return outcome
