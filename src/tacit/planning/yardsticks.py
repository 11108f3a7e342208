"""What a simulated error is measured in, and what predictors give that cost nothing.

A private result must beat knowing nothing. A *trivial* predictor uses public facts alone; a *free*
one uses what a member or a site knows of itself, and sends nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tacit.data.synthetic import topic_documents
from tacit.estimators.facts import Facts

__all__ = ["Yardstick", "yardstick"]


@dataclass(frozen=True)
class Yardstick:
    """What the error of a kind of task is compared with.

    Attributes
    ----------
    metric
        What the error is of, and its unit.
    rivals
        Predictor that is trivial or free → its error.
    limits
        What leaves errors that no privacy would take away → how large.
    """

    metric: str = "Simulated error"
    rivals: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, float] = field(default_factory=dict)


def yardstick(kind: str, facts: Facts) -> Yardstick:
    """Return what simulated errors of a kind of task are compared with.

    Parameters
    ----------
    kind
        The short name of an estimator, as in `tacit.planning.plan`.
    facts
        What is public about the task.

    Examples
    --------
    >>> yardstick("regression", Facts()).rivals
    {'the mean response alone (trivial)': 1.0}
    """
    return _KINDS[kind](facts) if kind in _KINDS else Yardstick()


def _mean(facts: Facts) -> Yardstick:
    # |x̄ − µ| of n values uniform in [−1, 1]; a mean anywhere in the range is 1/2 from its middle
    chance = math.sqrt(2.0 / (3.0 * math.pi * facts.rows))
    rivals = {"the middle of the range (trivial)": 0.5}
    return Yardstick(
        "Error of a mean, in half-ranges", rivals, {"chance in who was asked": chance}
    )


def _fitted(facts: Facts) -> Yardstick:
    metric = "Error of fitted values, relative to their spread"
    return Yardstick(metric, {"the mean response alone (trivial)": 1.0})


def _ratings(facts: Facts) -> Yardstick:
    metric = "Held-out error, relative to members' own means"
    return Yardstick(metric, {"a member's own mean (free)": 1.0})


def _topics(facts: Facts) -> Yardstick:
    words = max(facts.features, facts.rank)
    truths = [topic_documents(1, words, facts.rank, seed=seed)[1] for seed in range(20)]
    far = np.mean([0.5 * np.abs(truth - 1.0 / words).sum(axis=1).mean() for truth in truths])
    metric = "Error of word probabilities, mean total variation"
    return Yardstick(metric, {"every word equally likely (trivial)": float(far)})


_KINDS: dict[str, Callable[[Facts], Yardstick]] = {
    "summary": _mean,
    "regression": _fitted,
    "logistic-regression": _fitted,
    "poisson-regression": _fitted,
    "factorization": _ratings,
    "recommender": _ratings,
    "topics": _topics,
}
