"""What a generalised linear model shows: coefficients with intervals, and what they mean."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tacit._core.answers import SPREAD, Answer, Table, shown_number
from tacit._core.arrays import Array
from tacit._core.estimates import texts
from tacit._core.pictures import Intervals

__all__ = ["answer_of"]

_WIDE = 1.5  # of log-odds over a feature's whole range: an interval as wide tells little more


def answer_of(model: Any, what: str, level: float) -> Answer:
    """Return everything that a model has to show.

    Parameters
    ----------
    model
        A fitted one.
    what
        What a coefficient is about: ``"log-odds of …"`` or ``"log-rate of …"``.
    level
        The probability of intervals.
    """
    names = texts(["intercept", *model.columns_[:-1]])
    draws: Array = model.draws_.reshape(-1, len(names))
    value = np.concatenate([[model.intercept_], model.coef_])
    sd = np.concatenate([[model.intercept_sd_], model.coef_sd_])
    low, high = np.quantile(draws, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0)
    kind = "odds ratio" if model._link == "logistic" else "rate ratio"
    coefficients = Table(
        "coefficients",
        f"Coefficients of the {what}, with {100 * level:g} % intervals",
        {
            "coefficient": names,
            "estimate": value.tolist(),
            SPREAD: sd.tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
        },
    )
    whole = 2.0 * np.array(model.design_.half[:-1])
    order = [1 + int(k) for k in np.argsort(-np.abs(value[1:]) / np.maximum(sd[1:], 1e-300))]
    best = order[0]
    told = [shown_number(math.exp(min(max(x[best], -50.0), 50.0))) for x in (value, low, high)]
    headline = (
        f"One unit more of {names[best]} multiplies the {kind.split()[0]}"
        f"{'' if model._link == 'logistic' else ' of counts'} by {told[0]} "
        f"[{told[1]}, {told[2]}], all else equal ({100 * level:g} % interval)."
    )
    wide = [
        name
        for name, width in zip(names[1:], (high - low)[1:] * whole, strict=True)
        if width > 2.0 * _WIDE * math.sqrt(len(names))
    ]
    warnings = (
        (
            f"Hardly anything was learned about {', '.join(wide[:5])}: use a larger ε, or more "
            "rows.",
        )
        if wide
        else ()
    )
    over = Intervals(
        f"What each feature does over its range, with {100 * level:g} % intervals",
        f"change of the {what}",
        names[1:],
        (value[1:] * whole).tolist(),
        (low[1:] * whole).tolist(),
        (high[1:] * whole).tolist(),
        reference=0.0,
    )
    return Answer(
        f"{'Private ' if model._noisy else ''}{model._link} regression".capitalize(),
        headline,
        (coefficients, *_about(model)),
        warnings,
        pictures={"coefficients": over},
    )


def _about(model: Any) -> tuple[Table, ...]:
    """Return the table of what else was learned of counts."""
    if model._link != "poisson":
        return ()
    rows = {"what": ["variance of counts relative to their mean"], "value": [model.dispersion_]}
    return (Table("dispersion", "How counts vary", rows),)
