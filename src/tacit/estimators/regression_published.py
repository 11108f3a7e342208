"""Bounds read from the data, as behind the regression tables of Alparslan (2023); on purpose.

Features are standardised by their mean and standard deviation, the response is centred by its
mean and divided by its largest absolute value, and R is the largest norm of a standardised row.
All of these are statistics of the private rows, so with them no finite ε holds at all (PRIVACY
A3, B5). They serve ``calibration="published"`` alone, whose certificate says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.errors import ParameterError
from tacit.estimators.regression_release import Design
from tacit.models.regression import Prior
from tacit.privacy.events import ADD_REMOVE

__all__ = ["read_design", "sampling_options"]


def read_design(tables: list[Any], statistics: str = "Sz") -> Design:
    """Return the thesis's design for all sites' rows together.

    Parameters
    ----------
    tables
        A pair (X, y) of arrays for each site.
    statistics
        ``"Sz"``, or ``"Szu"`` for Bernstein & Sheldon's method.
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
    )


def sampling_options(method: str, prior: Any = None) -> dict[str, Any]:
    """Return the thesis's hyper-parameters: a = 20, b = ½, C = (a − 1)/b·I, and σ̃² = ‖Y‖/3.

    Parameters
    ----------
    method
        The method; only ``"Bayes-fixedS-fast"`` fixes σ².
    prior
        A prior to use instead.
    """
    if prior is None:
        prior = Prior(sd=38.0**0.5, noise_shape=20.0, noise_scale=0.5)
    fixed = {"noise_variance": 1.0 / 3.0} if method == "Bayes-fixedS-fast" else {}
    return {"prior": prior, **fixed}
