"""What a posterior and a choice of statistics say to a person: released numbers and draws."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tacit._core.answers import SPREAD, Answer, Table, shown_number
from tacit._core.draws import draws_pictures, draws_table, headline_of, mixing_warnings
from tacit._core.estimates import HIGH, LOW, ends, intervals, texts
from tacit._core.pictures import Bars, Lines, Picture
from tacit.posterior.numerics.shown import noisy_table

__all__ = ["people_answer", "ranking_answer", "ranking_table", "selector_answer"]

_READ_BACK = (
    "only means and standard deviations are part of a release: intervals are normal, and infer() "
    "draws again"
)
_COUNTED = "the posterior counts the sampling of people and the privacy noise"


def people_answer(model: Any, releases: Any, level: float) -> Answer:
    """Return the posterior of a model, and what it follows from.

    Parameters
    ----------
    model
        A fitted `tacit.PrivatePosterior` or `tacit.StatisticSelector`.
    releases
        What was released.
    level
        Of the intervals.
    """
    law, columns = model._law, model._stated_columns
    about = "" if columns is None else f" of {model._number_of(columns)[0]}"
    title = f"{type(law).__name__}{about}: {', '.join(law.names)}"
    tables = [noisy_table(one, level) for one in releases]
    if len(tables) > 1:
        tables = [
            replace(one, name=f"released {k}", caption=f"{one.caption} of part {k}")
            for k, one in enumerate(tables, 1)
        ]
    own = vars(model)
    if "posterior_" in own:
        found = draws_table(law.names, own["posterior_"].draws, level)
        found = replace(found, notes=(_COUNTED,))
        pictures = draws_pictures(law.names, own["posterior_"].draws, found)
    elif "mean_" in own:
        found = _normal(law.names, own["mean_"], own["sd_"], level)
        pictures = {"parameters": intervals(found.caption, "value", found, "mean")}
    else:
        shown: dict[str, Picture] = {
            "released": intervals("What was released", "value", tables[0], "released")
        }
        reason = own.get("unexplained_")
        said = "Nothing could be inferred" + (f": {reason}" if reason else ".")
        return Answer(title, said, tuple(tables), pictures=shown)
    return Answer(
        title,
        headline_of(found, level),
        (found, *tables),
        mixing_warnings(found),
        pictures=pictures,
    )


def _normal(names: Any, means: Any, spreads: Any, level: float) -> Table:
    """Return the table of parameters of which no draws are here."""
    low, high = ends(means, spreads, level)
    columns = {
        "parameter": texts(names),
        "mean": np.asarray(means).tolist(),
        SPREAD: np.asarray(spreads).tolist(),
        LOW: low,
        HIGH: high,
    }
    caption = f"Posterior, {100 * level:g} % intervals"
    return Table("parameters", caption, columns, (_COUNTED, _READ_BACK))


def selector_answer(model: Any, level: float) -> Answer:
    """Return the posterior of a fitted `tacit.StatisticSelector`, and how it was chosen."""
    found = people_answer(model, model.releases_, level)
    head = f"{model.selected_.name} was released of the second part. {found.headline}"
    ranking = vars(model).get("ranking_")
    if ranking is None:
        return replace(found, headline=head)
    chosen = ranking_answer(ranking, level)
    return replace(
        found,
        headline=head,
        tables=(*found.tables, *chosen.tables),
        pictures={**found.pictures, **chosen.pictures},
    )


def ranking_table(ranking: Any) -> Table:
    """Return the table of a `Ranking`."""
    rows = ranking.table()
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["Monte-Carlo error"] = columns.pop("standard error")
    return Table("ranking", f"Statistics by what they tell {ranking.request}", columns)


def ranking_answer(ranking: Any, level: float) -> Answer:
    """Return the answer of a `Ranking`."""
    order = np.argsort(ranking.parameters[:, 0], kind="stable")
    at = ranking.parameters[order, 0].tolist()
    lines = {}
    for one in ranking.candidates:
        left = [math.sqrt(max(found.variance, 0.0)) for found in one.information]
        points = [(x, left[k]) for x, k in zip(at, order, strict=True)]
        lines[one.name] = [(x, y) for x, y in points if math.isfinite(y)]
    names = [one.name for one in ranking.candidates]
    spreads = [math.sqrt(one.posterior_variance) for one in ranking.candidates]
    prior = math.sqrt(ranking.prior_variance)
    known = {"without data": prior} if math.isfinite(prior) else {}
    return Answer(
        f"{len(names)} statistics compared {ranking.request}",
        f"{ranking.advice} It leaves an expected standard deviation of "
        f"{shown_number(spreads[0])}" + (f", instead of {prior:.4g}." if known else "."),
        (ranking_table(ranking),),
        () if ranking.informative else ("no candidate is informative.",),
        pictures={
            "information": Lines(
                "What a release leaves uncertain", "θ", "standard deviation", lines, known
            ),
            "ranking": Bars("Expected uncertainty", "standard deviation", names, spreads),
        },
    )
