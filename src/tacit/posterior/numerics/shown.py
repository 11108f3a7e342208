"""Noisy statistics and draws of parameters as people read them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.answers import ERROR, Answer, Table, shown_number
from tacit._core.estimates import estimates, intervals

__all__ = ["noisy_answer", "noisy_table"]

_NOISE_ONLY = "standard errors are those of the noise: what sampling adds, a posterior counts"
_BOTH = "standard errors count the privacy noise and the sampling of people"
_UNKNOWN = "how much noise smooth sensitivity added depends on the data, and is not released"


def noisy_table(release: Any, level: float) -> Table:
    """Return the table of a `NoisyStatistic`."""
    name, values, errors, note = release.statistic.name, release.values, None, _UNKNOWN
    name = f"mean of {name}" if release.additive else name
    kind, scale = release.noise.kind, release.noise.scale
    if release.local:
        note = _BOTH
        mean = float(values.mean())
        errors = [float(values.std()) / math.sqrt(release.size)]
        if kind == "response":  # a yes is told with probability `scale`, else its opposite
            name, slope = f"share of {release.statistic.name}", 2.0 * scale - 1.0
            mean, errors = (mean - (1.0 - scale)) / slope, [errors[0] / slope]
        values = np.array([mean])
    elif kind == "exponential":
        note = f"its rank is off by about a Laplace error of {scale:.3g} people"
    elif kind in ("gaussian", "laplace"):
        sd = scale * (1.0 if kind == "gaussian" else math.sqrt(2.0))
        errors, note = [sd] * len(values), _NOISE_ONLY
        if (count := release.count) is not None:  # of a quotient of two noisy numbers
            away = (values - release.middle) * count.sd / release.size
            errors = np.hypot(sd, away).tolist()
    several = len(values) > 1
    names = [f"{name}, number {k}" if several else name for k in range(1, len(values) + 1)]
    columns = estimates({"statistic": names}, "released", values, errors, level)
    columns |= {
        "people": [release.size] * len(names),
        "noise": [release.noise.name] * len(names),
    }
    notes: tuple[str, ...] = (note,)
    if (count := release.count) is not None:
        off = shown_number(count.sd, count.sd)
        notes += (f"the number of people is private, and released with a standard error of {off}",)
    return Table("released", "What was released", columns, notes)


def noisy_answer(release: Any, level: float) -> Answer:
    """Return the answer of a `NoisyStatistic`."""
    table = noisy_table(release, level)
    (name, value), errors = _first(table), table.columns.get(ERROR, (None,))
    sure = "" if errors[0] is None else f" ± {shown_number(errors[0], errors[0])}"
    low, high = release.bounds
    return Answer(
        f"A noisy statistic of {release.size} people",
        f"{name} is {shown_number(value, errors[0])}{sure}, of numbers in [{low:g}, {high:g}].",
        (table,),
        pictures={"released": intervals("What was released", "value", table, "released")},
    )


def _first(table: Table) -> tuple[str, float]:
    return str(table.columns["statistic"][0]), float(table.columns["released"][0])
