"""What a plan simulates: ratings with tastes, and how much better than own means they are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.data.split import hold_out_cells, members_of, split_members
from tacit.data.synthetic import simulated_ratings
from tacit.estimators.facts import Facts
from tacit.estimators.site import Site
from tacit.factorization.arrays import Floats

__all__ = ["held_out_errors", "own_mean_error", "planned_ratings", "rms", "simulated_error"]

_SHARE = 0.2  # of ratings that are held out


def planned_ratings(facts: Facts, seed: int) -> tuple[Any, Any, Any, Any]:
    """Return ratings, those to learn from, and cells that were held out with their values."""
    per_user = min(facts.per_row, facts.features)
    ratings = simulated_ratings(facts.rows, facts.features, per_user=per_user, seed=seed)
    train, cells, values = hold_out_cells(ratings, _SHARE, generator(seed, "held out"))
    return ratings, train, cells, values


def own_mean_error(train: Any, cells: Any, values: Any) -> float:
    """Return the error of a member's own shrunken mean, which needs no privacy."""
    users, size = train.indices[:, 0], train.shape[0]
    mean = float(train.values.mean())
    counts = np.bincount(users, minlength=size)
    own = np.bincount(users, train.values - mean, size) / (counts + 2.0) + mean
    return rms(values - own[cells[:, 0]])


def rms(errors: Floats) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(errors**2)))


def simulated_error(kind: Any, facts: Facts, seed: int) -> float:
    """Return the error of a kind of factorization over sites, relative to members' own means."""
    ratings, train, cells, values = planned_ratings(facts, seed)
    model = kind(
        "user:k item:k",
        rank=facts.rank,
        bounds=(1, 5),
        divergence="euclidean",
        privacy=facts.request("user", "site"),
        random_state=seed,
    )
    rng = generator(seed, "tuning 0")
    (found,) = held_out_errors([model], ratings, "user", sites=facts.sites, share=0.2, rng=rng)
    return found / own_mean_error(train, cells, values)


def held_out_errors(
    models: Sequence[Any],
    public: Relation,
    entity: str,
    *,
    sites: int,
    share: float,
    rng: np.random.Generator,
) -> list[float]:
    """Return the error of each estimator on cells of public or simulated data held out.

    All are fitted to the same split, over sites that have the members of an entity among them.
    """
    train, cells, values = hold_out_cells(public, share, rng)
    groups = split_members(public, entity, sites, rng)
    parts = [Site(f"site {k}", members_of(train, entity, g)) for k, g in enumerate(groups)]
    mode = public.entities.index(entity)
    errors = []
    for model in models:
        model.fit(parts)
        names = next(iter(model.coupled_model().forms.values()))
        order = [public.entities.index(name) for name, _ in names if name in public.entities]
        total = 0.0
        for k, group in enumerate(groups):
            number = np.full(public.shape[mode], -1, np.int64)
            number[group] = np.arange(len(group))
            own = number[cells[:, mode]] >= 0
            mine = cells[own].astype(np.int64)
            mine[:, mode] = number[mine[:, mode]]
            found = model.predict(f"site {k}", mine[:, order], positions=True)
            total += float(((found - values[own]) ** 2).sum())
        errors.append(float(np.sqrt(total / max(len(cells), 1))))
    return errors
