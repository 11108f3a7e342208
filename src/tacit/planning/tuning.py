"""Choosing settings without spending budget: on data that is no secret.

Defaults follow from public facts. Whoever wants other settings tries them on public data or on
simulated data of the same size, with the noise that the real fit would have. Trying them on the
private data is possible too, by fitting there: every fit charges the ledger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid

from tacit._core.answers import Answer, Answering, Table
from tacit._core.check import Integer, Real, check
from tacit._core.pictures import Bars
from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.simulation import held_out_errors
from tacit.factorization.together.estimator import PrivateFactorization

__all__ = ["Tuned", "tune"]


@dataclass(frozen=True)
class Tuned(Answering):
    """What `tune` found.

    Attributes
    ----------
    best
        The settings with the smallest error.
    table
        Every choice with its error, the mean over repeats, best first.
    estimator
        A copy of the estimator with the best settings, not fitted.
    """

    best: dict[str, Any]
    table: tuple[tuple[dict[str, Any], float], ...]
    estimator: PrivateFactorization

    def _answer(self, level: float) -> Answer:
        names = [", ".join(f"{n} = {v}" for n, v in choice.items()) for choice, _ in self.table]
        errors = [error for _, error in self.table]
        caption = "Settings by their error on public or simulated data"
        return Answer(
            f"{len(names)} settings tried where nothing is secret",
            f"The best is {names[0]}, with an error of {errors[0]:.4g}.",
            (Table("settings", caption, {"settings": names, "error": errors}),),
            pictures={"settings": Bars(caption, "error", names, errors)},
        )


def tune(
    estimator: PrivateFactorization,
    public: Relation,
    grid: Mapping[str, Sequence[Any]],
    *,
    sites: int = 1,
    share: float = 0.2,
    repeats: int = 3,
    random_state: int = 0,
) -> Tuned:
    """Try settings on a matrix that is no secret, with the noise that a real fit would have.

    Parameters
    ----------
    estimator
        What is to be tuned, with its ``privacy``; it is not fitted and its ledger not charged.
    public
        Public or simulated data (`tacit.data.synthetic.simulated_ratings`), best of the size of
        the private data.
    grid
        Parameter → values to try, as in scikit-learn.
    sites
        Over how many sites the protected members are spread.
    share
        The share of cells that errors are measured on.
    repeats
        Random splits and noise, over which errors are averaged.
    random_state
        The seed of both.

    Examples
    --------
    >>> import tacit as tc
    >>> from tacit.data.synthetic import simulated_ratings
    >>> model = tc.PrivateFactorization("user:k item:k", bounds=(1, 5),
    ...     privacy=tc.Privacy(1.0, 1e-6, unit="entry", trust="site"))
    >>> found = tune(model, simulated_ratings(200, 20, per_user=8), {"rank": [1, 3]}, repeats=1)
    >>> sorted(found.best), len(found.table)
    (['rank'], 2)
    """
    check("sites", sites, Integer(1))
    check("share", share, Real(0, 1, open_low=True, open_high=True))
    check("repeats", repeats, Integer(1))
    choices = list(ParameterGrid(dict(grid)))
    entity = estimator.protected or estimator.coupled_model().forms.popitem()[1][0][0]
    if entity not in public.entities:
        raise ParameterError(f"the data has the entities {public.entities}, not {entity!r}")
    errors = np.zeros(len(choices))
    for repeat in range(repeats):
        changes = {"ledger": None, "checkpoint": None, "random_state": random_state + repeat}
        models = [clone(estimator).set_params(**changes, **choice) for choice in choices]
        rng = generator(random_state, f"tuning {repeat}")
        found = held_out_errors(models, public, entity, sites=sites, share=share, rng=rng)
        errors += np.array(found) / repeats
    order = np.argsort(errors, kind="stable")
    best = choices[int(order[0])]
    table = tuple((choices[c], float(errors[c])) for c in order)
    return Tuned(best, table, clone(estimator).set_params(**best))
