"""Factorization over sites on simulated data: log likelihood against ε, N and the notion.

Source: Ermiş (2020), section 7.2.1 (Langevin dynamics, in `experiments._sites_langevin`): Figures
7.7–7.10, Tables 7.4 and 7.5, with the noise that valid accountants ask for beside the printed one.
Section 7.1.1, on counts, is ``sites-counts``.
"""

from __future__ import annotations

from experiments._sites_langevin import run_langevin
from experiments.runner import Outcome


def run(quick: bool) -> Outcome:
    """Run all tables."""
    outcome = Outcome()
    run_langevin(quick, outcome)
    return outcome
