"""Independent draws of one parameter whose posterior is known as a table.

Where log p(y | θ) is tabulated, nothing is left for a Markov chain to do: the posterior's
distribution function is the integral of the table, and draws are its inverse at uniform numbers.
Several separate peaks, which a walk would not leave, get their share.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit.posterior.numerics.priors import ScalarPrior
from tacit.posterior.numerics.splines import Table, from_line, log_slope

__all__ = ["independent_draws"]

_FINER = 8  # steps of the integral for one of the table


def independent_draws(
    rng: np.random.Generator,
    table: Table,
    eta: Array,
    log_posterior: Array,
    prior: ScalarPrior,
    shape: tuple[int, ...],
) -> Array:
    """Return draws of θ.

    Parameters
    ----------
    rng
        A generator.
    table
        log p(y | θ) over η.
    eta, log_posterior
        The table's nodes and the log posterior there, −∞ where nothing has mass.
    prior
        Of θ.
    shape
        Of what is returned.
    """
    alive = np.isfinite(log_posterior)
    cells = alive[:-1] & alive[1:]
    fine = np.linspace(eta[0], eta[-1], (len(eta) - 1) * _FINER + 1)
    place = np.arange(len(fine)) / _FINER
    cell = np.minimum(place.astype(np.int64), len(eta) - 2)
    logs = np.full(len(fine), -np.inf)
    kept = cells[cell] | np.concatenate([[False], cells[cell[:-1]]])
    t, c = (place - cell)[kept], table.coefficients[cell[kept]]
    logs[kept] = c[:, 0] + t * (c[:, 1] + t * (c[:, 2] + t * c[:, 3]))
    logs[kept] += [_log_prior(prior, table.scale, float(e)) for e in fine[kept]]
    density = np.exp(logs - logs.max())
    inside = np.repeat(cells, _FINER)
    mass = np.where(inside, 0.5 * (density[1:] + density[:-1]), 0.0)
    total = np.concatenate([[0.0], np.cumsum(mass)])
    level = rng.random(shape) * total[-1]
    k = np.clip(np.searchsorted(total, level, side="right") - 1, 0, len(mass) - 1)
    # within a step the density is straight: solve a·s + (b − a)·s²/2 = what is left
    left, a, b = level - total[k], density[k], density[k + 1]
    root = np.sqrt(np.maximum(a * a + 2.0 * (b - a) * left, 0.0))
    share = np.clip(2.0 * left / np.maximum(a + root, 1e-300), 0.0, 1.0)
    found = fine[k] + share * (fine[1] - fine[0])
    values: Any = [from_line(table.scale, float(e)) for e in found.ravel()]
    return np.array(values, np.float64).reshape(shape)


def _log_prior(prior: ScalarPrior, scale: int, eta: float) -> float:
    theta = float(from_line(scale, eta))
    return prior.log_density(theta) + float(log_slope(scale, theta))
