"""Factorization over sites on synthetic data (Ermiş 2020, 7.1.1): counts perturbed locally."""

from __future__ import annotations

from experiments._sites_local import run_local
from experiments.runner import Outcome


def run(quick: bool) -> Outcome:
    outcome = Outcome()
    run_local(quick, outcome)
    return outcome
