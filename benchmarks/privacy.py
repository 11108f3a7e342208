"""Accounting, noise, ledger and import: the speed of the ground everything stands on."""

from __future__ import annotations

import sqlite3
import statistics
import subprocess
import sys
import tempfile
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np

from benchmarks.timing import median_seconds
from experiments.runner import Outcome
from tacit._core.rng import WordStream, generator
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.accounting.pld import clear_caches
from tacit.privacy.calibration import gaussian_event
from tacit.privacy.events import GaussianDpEvent, LaplaceDpEvent
from tacit.privacy.ledger.keys import head_text
from tacit.privacy.ledger.ledger import Ledger
from tacit.privacy.ledger.rows import Row, next_row


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    _accounting(outcome)
    _noise(outcome, 200_000 if quick else 2_000_000)
    _ledger(outcome, 100 if quick else 500)
    _signatures(outcome)
    _long_ledger(outcome, 10_000 if quick else 100_000)
    _import(outcome)
    return outcome


def _accounting(outcome: Outcome) -> None:
    def cold() -> float:
        clear_caches()
        return epsilon_of(gaussian_event(3.23, rate=0.01, steps=20_000), 1e-4)

    took = median_seconds(cold)
    outcome.rows.append({"what": "ε of 20,000 sampled Gaussian steps, no cache", "seconds": took})
    outcome.check("ε of 20,000 Poisson-sampled Gaussian steps [s]", took, "under 1 s", took < 1.0)


def _noise(outcome: Outcome, count: int) -> None:
    source, words, plain = Noise("grid"), WordStream(), generator(None)
    took = {
        "grid Gaussian": median_seconds(lambda: source.gaussian(count, 2.0**20)),
        "grid Laplace": median_seconds(lambda: source.laplace(count, 2.0**20)),
        "grid two-sided geometric": median_seconds(lambda: source.geometric(count, 10.0)),
        "ChaCha20 words alone": median_seconds(lambda: words.words(count)),
        "NumPy PCG64 Gaussian (not for privacy)": median_seconds(
            lambda: plain.standard_normal(count)
        ),
    }
    exact, few = Noise("exact"), 2000
    exact_took = median_seconds(lambda: exact.gaussian(few, 2.0**32), 3)
    for what, time_taken in took.items():
        outcome.rows.append(
            {"what": what, "seconds": time_taken, "millions a second": count / time_taken / 1e6}
        )
    outcome.rows.append(
        {"what": "exact Gaussian (OpenDP)", "seconds": exact_took,
         "millions a second": few / exact_took / 1e6}
    )  # fmt: skip
    rate = count / took["grid Gaussian"] / 1e6
    outcome.check("grid Gaussians a second on one core [million]", rate, "≥ 10", rate >= 10)


def _ledger(outcome: Outcome, count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(Path(folder) / "speed.db", epsilon=1e6, delta=0.5)
        event = LaplaceDpEvent(1000.0)

        def charges() -> None:
            for _ in range(count):
                ledger.charge(event, purpose="speed")

        alone = count / median_seconds(charges, 3)
        fresh = iter(np.linspace(100.0, 200.0, 10 * count))

        def accounted() -> None:  # another event each time, so nothing is cached
            for _ in range(count // 5):
                step = gaussian_event(next(fresh))
                ledger.charge(step, purpose="speed", delta=1e-9)
                assert isinstance(step, GaussianDpEvent)

        with_accounting = (count // 5) / median_seconds(accounted, 3)

        def sampled() -> None:  # a new schedule of sampled steps each time: a new distribution
            for _ in range(5):
                step = gaussian_event(next(fresh) / 50.0, rate=0.01, steps=100)
                ledger.charge(step, purpose="speed", delta=1e-9)

        with_distributions = 5 / median_seconds(sampled, 3)
    outcome.rows.append({"what": "durable charges", "a second": alone})
    outcome.rows.append(
        {"what": "durable charges, each accounted afresh", "a second": with_accounting}
    )
    outcome.rows.append(
        {"what": "durable charges, each a new sampled schedule", "a second": with_distributions}
    )
    outcome.check("durable charges a second, ledger alone", alone, "≥ 400", alone >= 400)
    outcome.check(
        "durable charges a second with accounting", with_accounting, "≥ 20", with_accounting >= 20
    )


def _signatures(outcome: Outcome) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger.open(Path(folder) / "signed.db", epsilon=1e6)
        ledger.charge(LaplaceDpEvent(1000.0), purpose="speed")
        head, many = ledger._store.head(), 200

        def sign() -> None:
            for _ in range(many):
                signing = ledger._store.signing()
                assert signing is not None
                signing.sign(head_text(ledger.id, head.counter, head.digest))

        took = 1e3 * median_seconds(sign) / many
    outcome.rows.append({"what": "signing the head, for each charge", "seconds": took / 1e3})
    outcome.check("signing the head per charge [ms]", took, "under 0.2 ms", took < 0.2)


def _long_ledger(outcome: Outcome, count: int) -> None:
    """Measure a ledger of many rows; they are written in one transaction, signed one by one."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "long.db"
        event = LaplaceDpEvent(1000.0)
        ledger = Ledger.open(path, epsilon=1e6)
        ledger.charge(event, purpose="speed")
        _lengthen(path, ledger, count)

        def use() -> None:
            again = Ledger.open(path)
            assert again.verify() == count
            assert again.admits(event)

        took = median_seconds(use, 3)
    outcome.rows.append({"what": f"open, verify and admit, {count:,} rows", "seconds": took})
    bar = count / 100_000  # a quick run has fewer rows, and as many seconds for each
    outcome.check(
        f"a ledger of {count:,} rows opens, verifies and admits [s]",
        took,
        f"under {bar:g} s",
        took < bar,
    )


def _lengthen(path: Path, ledger: Ledger, count: int) -> None:
    signing, (first,) = ledger._store.signing(), ledger.rows()
    assert signing is not None
    same = ("time", "kind", "run", "purpose", "event", "unit", "neighbours", "terms", "run_delta")
    fields = {name: getattr(first, name) for name in (*same, "cost", "cost_delta")}
    head, rows = first.head(), []
    while head.counter < count:
        amount = head.amount + first.cost
        row = next_row(head, **fields, amount=amount, epsilon=float(amount))
        row = row._replace(signature=signing.sign(head_text(ledger.id, row.counter, row.digest)))
        rows.append([str(v) if isinstance(v, Fraction) else v for v in row])
        head = row.head()
    with closing(sqlite3.connect(path)) as connection:
        marks = ",".join("?" * len(Row._fields))
        connection.executemany(f"INSERT INTO entries VALUES ({marks})", rows)
        connection.commit()


def _import(outcome: Outcome) -> None:
    code = "import time; t = time.perf_counter(); import tacit; print(time.perf_counter() - t)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                             check=True).stdout)
        for _ in range(5)
    ]  # fmt: skip
    took = statistics.median(times)
    outcome.rows.append({"what": "import tacit", "seconds": took})
    outcome.check("import tacit [s]", took, "under 1 s", took < 1.0)
