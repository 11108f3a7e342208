"""Every private estimator attacked at ten settings: claimed, certified and attacked ε.

The attacker knows everything but one unit and sees every release of a run through the estimator's
own code (`tacit.audit`). Bounds hold with 99.9 % confidence each. ``--quick`` takes two settings
of each and fewer runs. The guide shows its record, estimator by estimator (``--record``).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from experiments._audit_subjects import SUBJECTS, Subject
from experiments.runner import Outcome
from tacit.audit import Audit, audit
from tacit.published.attacks import audit_sums

QUICK = (4, 9)  # of the ten settings


def runs_for(subject: Subject, epsilon: float, quick: bool) -> int:
    """Return how many runs it takes to see half of ε: Clopper–Pearson limits shrink as √runs."""
    if subject.runs is not None:
        return subject.runs // 4 if quick else subject.runs
    if quick:
        return 8_000
    return 160_000 if epsilon < 1.0 else 60_000


def attack(subject: Subject, setting: dict[str, Any], runs: int) -> Audit:
    """Audit one estimator at one setting."""
    estimator = subject.build(**setting)
    if setting.get("kind", "").endswith(
        "pmf"
    ):  # published methods whose messages do not pass the gate
        table = np.random.default_rng(0).integers(1, 6, (12, 6)).astype(float)
        return audit_sums(estimator.fit(table), runs=runs)
    if subject.rows is not None:
        x, y = (np.array(part) for part in subject.rows)
        return audit(
            estimator, (x, y), (x[:-1], y[:-1]), runs=runs, fit=lambda m, given: m.fit(*given)
        )
    return audit(estimator, runs=runs)


def row_of(subject: Subject, setting: dict[str, Any], found: Audit) -> dict[str, Any]:
    own = {
        key: type(value).__name__ if key == "method" else value
        for key, value in setting.items()
        if key not in ("epsilon", "delta", "unit", "neighbours", "trust")
    }
    return {
        "estimator": subject.name, "unit": found.unit, "neighbours": found.neighbours,
        "trust": found.trust, "setting": ", ".join(f"{k} {v}" for k, v in own.items()),
        "δ": found.delta, "claimed": found.claimed, "certified": found.certified,
        "attacked": found.attacked, "share": found.attacked / found.certified,
        "best attack known": subject.best,
    }  # fmt: skip


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    for subject in SUBJECTS:
        chosen = [subject.settings[k] for k in QUICK] if quick else subject.settings
        for setting in chosen:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = attack(subject, setting, runs_for(subject, setting["epsilon"], quick))
            outcome.add(row_of(subject, setting, found))
    rows = outcome.rows
    broken = [row for row in rows if row["attacked"] > row["certified"]]
    outcome.check(f"attacked above certified, of {len(rows)}", float(len(broken)), "0", not broken)
    known = [row for row in rows if row["best attack known"]]
    least = min(known, key=lambda row: row["share"])
    outcome.check(
        f"least share of certified ε, of {len(known)} best attacks ({least['estimator']}, "
        f"certified {least['certified']:.3g})", least["share"], "≥ 0.5", least["share"] >= 0.5,
    )  # fmt: skip
    return outcome
