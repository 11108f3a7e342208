"""Bounds and noise behind the regression tables of Alparslan (2023); on purpose.

Features are standardised by their mean and standard deviation, the response is centred by its
mean and divided by its largest absolute value, and R is the largest norm of a standardised row.
All of these are statistics of the private rows, so with them no finite ε holds at all (PRIVACY
A3, B5). They serve ``calibration="published"`` alone, whose certificate says so.

**adaSSP** spends three parts, S, z and the smallest eigenvalue of S, at a third of ε each. The
thesis does not print their noise. Its mean errors fit any noise between 1.5 and 10 times each
part's sensitivity, as the ridge decides them; its intervals fit 1.487·√3, what a calibration that
scales as 1/√ε makes of 1.487 at ε/3. So that is the noise here. Three parts of it compose to what
1.487 on one part costs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit.errors import ParameterError
from tacit.estimators.regression_release import Design
from tacit.estimators.regression_summary import SiteSummary
from tacit.models.regression import Prior
from tacit.privacy.events import ADD_REMOVE
from tacit.privacy.guarantee import Privacy

__all__ = ["read_design", "sampling_options"]

FAILURE = 0.05  # ϱ of adaSSP: the chance that its ridge is too small


def read_design(tables: list[Any], statistics: str = "Sz", *, eigenvalue: bool = False) -> Design:
    """Return the thesis's design for all sites' rows together.

    Parameters
    ----------
    tables
        A pair (X, y) of arrays for each site.
    statistics
        ``"Sz"``, or ``"Szu"`` for Bernstein & Sheldon's method.
    eigenvalue
        Whether the smallest eigenvalue of S is released as well, for adaSSP.
    """
    if not all(isinstance(table, tuple) and len(table) == 2 for table in tables):
        raise ParameterError("published tables are reproduced from pairs (X, y) of arrays only")
    if statistics == "moments":
        raise ParameterError("published noise goes with statistics='Sz' or 'Szu'")
    x = np.concatenate([np.asarray(table[0], float) for table in tables])
    y = np.concatenate([np.asarray(table[1], float) for table in tables])
    middle, spread = x.mean(axis=0), x.std(axis=0)
    if not (spread > 0.0).all():
        raise ParameterError("a feature is constant: leave it out")
    norm = float(np.linalg.norm((x - middle) / spread, axis=1).max())
    largest = float(np.abs(y - y.mean()).max())
    return Design(
        middle=(*middle.tolist(), float(y.mean())),
        half=(*(spread * norm).tolist(), largest),
        intercept=False,
        neighbours=ADD_REMOVE,
        statistics=statistics,
        clip=1.0,
        published=norm,
        eigenvalue=eigenvalue,
    )


def sampling_options(
    method: str, privacy: Privacy, summaries: Sequence[SiteSummary], prior: Any = None
) -> dict[str, Any]:
    """Return the thesis's hyper-parameters: a = 20, b = ½, C = (a − 1)/b·I, and σ̃² = ‖Y‖/3.

    Parameters
    ----------
    method
        The method; only ``"Bayes-fixedS-fast"`` fixes σ², only ``"adaSSP"`` has ridges.
    privacy
        The claim.
    summaries
        What the sites released.
    prior
        A prior to use instead.
    """
    if prior is None:
        prior = Prior(sd=38.0**0.5, noise_shape=20.0, noise_scale=0.5)
    options: dict[str, Any] = {"prior": prior}
    if method == "Bayes-fixedS-fast":
        options["noise_variance"] = 1.0 / 3.0
    if method == "adaSSP":
        options["ridges"] = [_ridge(summary, privacy) for summary in summaries]
    return options


def _ridge(summary: SiteSummary, privacy: Privacy) -> float:
    """Return λ of adaSSP (Wang 2018, algorithm 2) for one site.

    With τ = √ln(6/δ)·R²/(ε/3), which Wang takes for the noise of each part: λ̃_min is what was
    released less √ln(6/δ)·τ, and λ = max(0, √(d·ln(2d²/ϱ))·τ − λ̃_min).
    """
    assert summary.eigenvalue is not None and summary.design.published is not None
    d, square = summary.design.coefficients, summary.design.published**2
    slack = math.sqrt(math.log(6.0 / privacy.delta))
    noise = 3.0 * slack * square / privacy.epsilon
    smallest = max(summary.eigenvalue * square - slack * noise, 0.0)
    return max(0.0, math.sqrt(d * math.log(2.0 * d * d / FAILURE)) * noise - smallest)
