"""Draws of parameters as people read them: means, intervals, how well chains mixed, densities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit._core.answers import SPREAD, Answer, Table, shown_number
from tacit._core.arrays import Array
from tacit._core.chains import effective_samples, r_hat
from tacit._core.estimates import HIGH, LOW, texts
from tacit._core.pictures import Bars, Intervals, Lines, Picture

__all__ = [
    "density",
    "draws_answer",
    "draws_pictures",
    "draws_table",
    "headline_of",
    "mixing_warnings",
]

_AGREED = 1.05  # R-hat up to which chains agree
_FEW = 100.0  # effective draws below which the ends of an interval are rough
_POINTS = 81


def draws_table(
    names: Sequence[Any],
    draws: Any,
    level: float,
    *,
    what: str = "parameter",
    caption: str = "Posterior",
) -> Table:
    """Return the table of some parameters.

    Parameters
    ----------
    names
        What they are called.
    draws
        (chains, draws, parameters).
    level
        Of the central intervals.
    what, caption
        What a row is, and what the table shows.

    Examples
    --------
    >>> drawn = np.random.default_rng(0).normal(2.0, 0.5, (4, 500, 1))
    >>> print(draws_table(["rate"], drawn, 0.9))
    Posterior, 90 % intervals
     parameter   mean   posterior sd    low   high   R-hat   effective draws
    ─────────────────────────────────────────────────────────────────────────
     rate        1.99           0.50   1.18   2.80   1.001             2,010
    """
    values = np.asarray(draws, np.float64)
    flat = values.reshape(-1, values.shape[-1])
    low, high = np.quantile(flat, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0)
    columns: dict[str, list[Any]] = {
        what: texts(names),
        "mean": flat.mean(axis=0).tolist(),
        SPREAD: flat.std(axis=0).tolist(),
        LOW: low.tolist(),
        HIGH: high.tolist(),
    }
    if values.shape[1] >= 4:
        each = [values[..., k] for k in range(values.shape[-1])]
        columns["R-hat"] = [round(r_hat(one), 3) for one in each]
        columns["effective draws"] = [round(effective_samples(one)) for one in each]
    return Table("parameters", f"{caption}, {100 * level:g} % intervals", columns)


def mixing_warnings(table: Table) -> tuple[str, ...]:
    """Return what must be said of the parameters of a table whose chains did not mix."""
    columns: Mapping[str, Sequence[Any]] = table.columns
    if "R-hat" not in columns:
        return ()
    names = next(iter(columns.values()))
    rows = list(zip(names, columns["R-hat"], columns["effective draws"], strict=True))
    apart = [str(name) for name, hat, _ in rows if hat > _AGREED]
    few = [str(name) for name, hat, count in rows if hat <= _AGREED and count < _FEW]
    said = []
    if apart:
        said.append(f"chains do not agree about {', '.join(apart)} (R-hat above {_AGREED}).")
    if few:
        said.append(f"there are few independent draws of {', '.join(few)}: draw more.")
    return tuple(said)


def density(draws: Any) -> list[tuple[float, float]]:
    """Return points (value, density) of some draws, smoothed by a normal kernel.

    The width is Silverman's rule with the smaller of both measures of spread.
    """
    flat = np.ravel(np.asarray(draws, np.float64))
    low, quarter, three, high = np.quantile(flat, [0.001, 0.25, 0.75, 0.999])
    spreads = [s for s in (float(flat.std()), float(three - quarter) / 1.349) if s > 0.0]
    if not spreads:
        return [(float(flat[0]), 0.0)]
    width = 0.9 * min(spreads) * flat.size**-0.2
    at = np.linspace(low - 2.0 * width, high + 2.0 * width, _POINTS)
    heights, edges = np.histogram(flat, bins=20 * _POINTS, density=True)
    middle, cell = (edges[1:] + edges[:-1]) / 2.0, edges[1] - edges[0]
    kernel = np.exp(-0.5 * np.square((at[:, None] - middle) / width))
    curve: Array = kernel @ heights * cell / (width * np.sqrt(2.0 * np.pi))
    return list(zip(at.tolist(), curve.tolist(), strict=True))


def draws_pictures(names: Sequence[Any], draws: Any, table: Table) -> dict[str, Picture]:
    """Return the density of every parameter, then all of them with their intervals."""
    flat = np.asarray(draws, np.float64).reshape(-1, np.shape(draws)[-1])
    columns = table.columns
    pictures: dict[str, Picture] = {
        str(name): Lines(
            f"Posterior of {name}",
            str(name),
            "density",
            {str(name): density(flat[:, k])},
        )
        for k, name in enumerate(names)
    }
    whole = Intervals(
        table.caption, "value", texts(names), columns["mean"], columns[LOW], columns[HIGH]
    )
    return pictures | {"parameters": whole}


def draws_answer(title: str, names: Any, draws: Any, level: float) -> Answer:
    """Return the answer of draws of parameters, (chains, draws, parameters); one is a point."""
    values = np.asarray(draws, np.float64)
    if values.shape[:2] == (1, 1):
        points = values[0, 0].tolist()
        alone = Table("parameters", "Point estimate", {"parameter": texts(names), "mean": points})
        first = f"{next(iter(names))} is {shown_number(points[0])}, without an interval."
        bars = {"parameters": Bars(alone.caption, "value", texts(names), points)}
        return Answer(title, first, (alone,), pictures=bars)
    table = draws_table(names, draws, level)
    return Answer(
        title,
        headline_of(table, level),
        (table,),
        mixing_warnings(table),
        pictures=draws_pictures(names, draws, table),
    )


def headline_of(table: Table, level: float) -> str:
    """Return the first parameters with their intervals in a sentence."""
    columns, said = table.columns, []
    for k, name in enumerate(next(iter(columns.values()))):
        sd = columns[SPREAD][k]
        mean, low, high = (shown_number(columns[c][k], sd) for c in ("mean", "low", "high"))
        said.append(f"{name} is {mean}, with probability {level:g} between {low} and {high}")
    return "; ".join(said[:2]) + ("; …" if len(said) > 2 else ".")
