"""Scores where a secret Poisson sample decides what is released.

The sample is drawn inside of the estimator, so a run has to be replayed to see one. Where one unit
makes the difference, a step has two values only: without the unit, which D′ always shows, and with
it, which D shows whenever the unit is sampled. A hundred replays show both, and how often; if
that agrees with the stated rate, further runs are drawn from the two values with coins of tacit's
own sampler. If it does not agree, or there are more values than two, every trial is a replay, and
there are at most a thousand of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from tacit.audit.evidence import draw_many, plain_value, score
from tacit.audit.transcript import Step, source_of
from tacit.mechanisms.sampled import PoissonSampled

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["sampled_scores"]

REPLAYS, MOST_REPLAYS = 100, 1000
_UNLIKELY = 1e-6  # of a sampler that keeps its rate

Replays = list[list[Step]]  # a list of steps for each replay


def sampled_scores(
    steps_of: Callable[[Any, int], list[Step]], data: Any, neighbour: Any, runs: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the log likelihood ratios of many runs on either data set.

    ``steps_of`` replays a run on given data with secrets of the given number; D′ lacks the unit.
    """
    for given in (data, neighbour):
        steps_of(given, 0)  # once to the end
    first = min(runs, REPLAYS)
    sides = [[steps_of(given, 1 + k) for k in range(first)] for given in (data, neighbour)]
    pairs = [_two_values(*(_column(side, k) for side in sides)) for k in range(len(sides[0][0]))]
    known = [pair for pair in pairs if pair is not None]
    if len(known) == len(pairs):
        return _by_coins(known, runs, seed)
    more = range(first, min(runs, MOST_REPLAYS))
    for side, given in zip(sides, (data, neighbour), strict=True):
        side.extend(steps_of(given, 1 + k) for k in more)
    return _by_replays(sides, seed)


def _column(side: Replays, number: int) -> list[Step]:
    return [run[number] for run in side]


def _two_values(here: list[Step], there: list[Step]) -> tuple[Step, Step] | None:
    """Return the step with and without the unit; None where that does not describe it."""
    usual = plain_value(there[0].mechanism, there[0].value)
    if any((plain_value(s.mechanism, s.value) != usual).any() for s in there):
        return None
    present = [s for s in here if (plain_value(s.mechanism, s.value) != usual).any()]
    if not present:
        return (there[0], there[0])
    far = plain_value(present[0].mechanism, present[0].value)
    if any((plain_value(s.mechanism, s.value) != far).any() for s in present):
        return None
    mechanism = here[0].mechanism
    rate = mechanism.rate if isinstance(mechanism, PoissonSampled) else 1.0
    chance = float(stats.binomtest(len(present), len(here), rate).pvalue)
    return (present[0], there[0]) if chance > _UNLIKELY else None


def _by_coins(
    pairs: list[tuple[Step, Step]], runs: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scores of runs that are drawn from the two values of every step."""
    found = np.zeros((2, runs))
    for number, (far, usual) in enumerate(pairs):
        if far is usual:
            continue
        noise = source_of(usual, seed, number)
        rate = far.mechanism.rate if isinstance(far.mechanism, PoissonSampled) else 1.0
        sampled = noise.sample(runs, rate)
        ours = draw_many(usual.mechanism, usual.value, runs, noise)
        ours[sampled] = draw_many(far.mechanism, far.value, len(sampled), noise)
        theirs = draw_many(usual.mechanism, usual.value, runs, noise)
        for side, released in enumerate((ours, theirs)):
            found[side] += score(usual.mechanism, released, far.value, usual.value)
    return found[0], found[1]


def _by_replays(sides: list[Replays], seed: int) -> tuple[Any, Any]:
    """Return scores of one release for each replay.

    Among replays of D the one that is farthest from those of D′ has the unit in its sample.
    """
    found = np.zeros((2, len(sides[0])))
    for number in range(len(sides[0][0])):
        here, there = (_column(side, number) for side in sides)
        usual = np.median([plain_value(s.mechanism, s.value) for s in there], axis=0)
        values = [plain_value(s.mechanism, s.value) for s in here]
        far = values[int(np.argmax([np.linalg.norm(v - usual) for v in values]))]
        if not (far != usual).any():
            continue
        noise = source_of(here[0], seed, number)
        for side, steps in enumerate((here, there)):
            for k, step in enumerate(steps):
                released = draw_many(step.mechanism, step.value, 1, noise)
                found[side, k] += float(score(step.mechanism, released, far, usual)[0])
    return found[0], found[1]
