"""What a summary shows: tables with errors and intervals, warnings, pictures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from tacit._core.answers import NOISE, Answer, Table, shown_number
from tacit._core.estimates import few
from tacit._core.pictures import Bars, Histogram, Intervals, Picture
from tacit.summary.block import Block, Law
from tacit.summary.layout import Layout
from tacit.summary.totals import Totals
from tacit.summary.uncertainty import (
    Estimate,
    cell_estimates,
    count_estimate,
    estimates,
    share_estimates,
)

__all__ = ["answer_of"]

_WIDE = 0.5  # the share of a range that an interval covers where it says little
_MOST_BARS = 40


class _Row(NamedTuple):
    """A number of the first table: of which column, statistic and group, and the estimate."""

    column: str
    statistic: str
    group: str | None
    found: Estimate


def answer_of(
    layout: Layout,
    totals: Totals,
    level: float,
    groups: Sequence[str],
    values: Mapping[str, Sequence[str]],
    by: str | None,
    named: Mapping[str, tuple[Mapping[str, Any], float]] = MappingProxyType({}),
    dates: Mapping[str, Callable[[float], str]] = MappingProxyType({}),
) -> Answer:
    """Return everything that a summary has to show.

    Parameters
    ----------
    layout, totals
        What was released, and where it stands.
    level
        The probability of intervals.
    groups, by
        The values of the category that rows are grouped by, and its name.
    values
        Of every other category.
    named
        By column whose values are not public: the counts of those that were named, and the
        standard deviation of the noise on each.
    dates
        By column of dates, how a number of days since 1970 is written.
    """
    names: Sequence[str | None] = groups or [None]
    blocks = dict(zip(names, totals.blocks(layout), strict=True))
    rows = [row for group, block in blocks.items() for row in _numbers(block, group, level)]
    plain = [row for row in rows if row.column not in dates]
    tables = [_first(plain, by, layout, level)] if plain else []
    if len(plain) < len(rows):
        tables.append(_dates([row for row in rows if row.column in dates], dates, by, level))
    if layout.categories:
        tables += _categories(blocks, values, by, level)
    if named:
        tables.append(_keys(named, totals.law.sites, by, level))
    if "histogram" in layout.statistics and layout.columns:
        tables.append(_histograms(blocks, by, level))
    return Answer(
        "Private summary" if totals.law.sd > 0.0 or layout.alone else "Summary",
        _headline(plain or rows, level),
        tuple(tables),
        _warnings(rows, layout),
        pictures=_pictures(blocks, rows, values, by, level),
        details={"How errors are told": _TOLD},
    )


_TOLD = (
    "Counts, sums, histograms and counts of categories are those of the table itself: privacy "
    "noise alone makes them uncertain. Means, variances, quantiles and shares are those of the "
    "population that the rows are a sample of: sampling counts as well, and rows of one person "
    "are taken to depend on one another as much as they can. 'Share of noise' is the part of a "
    "number's variance that is privacy noise. Counts of a histogram or a category are the nearest "
    "to those released that are not negative and add up to the number of rows. Values outside of "
    "their bounds count as the bounds, and what that changes is in no error."
)


def _numbers(block: Block, group: str | None, level: float) -> Iterable[_Row]:
    """Yield the numbers of one group."""
    if "count" in block.layout.statistics:
        yield _Row("rows", "count", group, count_estimate(block, level))
    for column, statistic, found in estimates(block, level):
        yield _Row(column, statistic, group, found)


def _first(rows: Sequence[_Row], by: str | None, layout: Layout, level: float) -> Table:
    """Return the table of single numbers."""
    columns: dict[str, list[Any]] = {
        "column": [row.column for row in rows],
        "statistic": [row.statistic for row in rows],
    }
    if by is not None:
        columns[by] = [row.group for row in rows]
    columns |= _told([row.found for row in rows], "estimate")
    notes = []
    if any(row.found.error is None for row in rows):
        notes.append(
            "A quantile has an error where the number of rows and another quantile, or a "
            "histogram, are released with it: ask for 'count', and for quantiles on either side."
        )
    if layout.squared and not layout.cells:
        notes.append(
            "Errors of variances are the largest possible: ask for a histogram, and they are told."
        )
    open_columns = [
        name for c, name in enumerate(layout.columns) if not layout.grid_of(c)
    ]  # whose values may lie anywhere
    if "quantiles" in layout.statistics and open_columns:
        notes.append(
            f"Quantiles of {few(open_columns)} are those of a column with values close "
            "together: state whole numbers with step=1, or their intervals are too short."
        )
    caption = f"Statistics, with {100 * level:g} % intervals"
    return Table("statistics", caption, columns, tuple(notes))


def _dates(
    rows: Sequence[_Row], dates: Mapping[str, Callable[[float], str]], by: str | None, level: float
) -> Table:
    """Return means and quantiles of dates as dates, and spreads in days."""
    spread = [row for row in rows if row.statistic == "standard deviation"]
    shown = [r for r in rows if r.statistic == "mean" or r.statistic.startswith("quantile")]
    columns: dict[str, list[Any]] = {
        "column": [row.column for row in (*shown, *spread)],
        "statistic": [row.statistic for row in (*shown, *spread)],
    }
    if by is not None:
        columns[by] = [row.group for row in (*shown, *spread)]

    def written(row: _Row, value: float | None) -> str | None:
        return None if value is None else dates[row.column](value)

    for heading, part in (("estimate", "value"), ("low", "low"), ("high", "high")):
        columns[heading] = [written(row, getattr(row.found, part)) for row in shown]
        columns[heading] += [_days(getattr(row.found, part)) for row in spread]
    columns["error in days"] = [_days(row.found.error) for row in (*shown, *spread)]
    columns[NOISE] = [row.found.noise for row in (*shown, *spread)]
    return Table("dates", f"Dates, with {100 * level:g} % intervals", columns)


def _days(value: float | None) -> str | None:
    return None if value is None else f"{value:.1f} days"


def _told(found: Sequence[Estimate], name: str) -> dict[str, list[Any]]:
    return {
        name: [one.value for one in found],
        "standard error": [one.error for one in found],
        "low": [one.low for one in found],
        "high": [one.high for one in found],
        NOISE: [one.noise for one in found],
    }


def _categories(
    blocks: Mapping[Any, Block], values: Mapping[str, Sequence[str]], by: str | None, level: float
) -> tuple[Table, Table]:
    """Return counts in the table, and shares in the population, value by value."""
    names: dict[str, list[Any]] = {"column": [], "value": [], **({by: []} if by else {})}
    counts, shares = [], []
    for group, block in blocks.items():
        for k, (column, _) in enumerate(block.layout.categories):
            cells = block.category(k)
            counts += cell_estimates(block, level, cells)
            shares += share_estimates(block, level, cells)
            names["column"] += [column] * len(cells)
            names["value"] += values[column]
            if by:
                names[by] += [group] * len(cells)
    return (
        Table(
            "categories",
            f"Rows of the table by category, with {100 * level:g} % intervals",
            {**names, **_told(counts, "count")},
        ),
        Table(
            "shares",
            f"Shares in the population, with {100 * level:g} % intervals",
            {**names, **_told(shares, "share")},
        ),
    )


def _keys(
    named: Mapping[str, tuple[Mapping[str, Any], float]],
    sites: int,
    by: str | None,
    level: float,
) -> Table:
    """Return counts of values whose list is not public; those that few have are not named."""
    names: dict[str, list[Any]] = {"column": [], "value": [], **({by: []} if by else {})}
    found: list[Estimate] = []
    for column, (counts, sd) in named.items():
        far = Law(sd, sites, laplace=True).reach(level, [1.0])
        for value, told in counts.items():
            for group, count in told.items() if by else [(None, told)]:
                low = max(0.0, count - far)
                found.append(Estimate(count, sd, low, count + far, 1.0 if sd else 0.0))
                names["column"].append(column)
                names["value"].append(value)
                if by:
                    names[by].append(group)
    return Table(
        "keys",
        f"Values that many have, with {100 * level:g} % intervals",
        {**names, **_told(found, "count")},
        ("A value that few have is not named, and a count lacks the sites where few have it.",),
    )


def _histograms(blocks: Mapping[Any, Block], by: str | None, level: float) -> Table:
    """Return the counts of all cells; they add up to the number of rows."""
    names: dict[str, list[Any]] = {"column": [], "from": [], "to": [], **({by: []} if by else {})}
    found = []
    for group, block in blocks.items():
        for c, column in enumerate(block.layout.columns):
            cells, edges = block.cells(c), block.edges(c)
            found += cell_estimates(block, level, cells)
            names["column"] += [column] * len(cells)
            names["from"] += [shown_number(edge) for edge in edges[:-1]]
            names["to"] += [shown_number(edge) for edge in edges[1:]]
            if by:
                names[by] += [group] * len(cells)
    return Table(
        "histograms",
        f"Histograms, with {100 * level:g} % intervals",
        {**names, **_told(found, "count")},
        shown=0,
    )


def _headline(rows: Sequence[_Row], level: float) -> str:
    """Return the number of rows and the first mean, or the first number there is."""
    told = [row for row in rows if row.found.error is not None]
    first = next((row for row in told if row.statistic == "count"), None)
    second = next((row for row in told if row.statistic in ("mean", "quantile 0.5")), None)
    parts = []
    if first is not None:
        parts.append(f"{_sure(first.found)} rows{_of(first)}")
    if second is not None:
        name = "mean" if second.statistic == "mean" else "median"
        parts.append(f"the {name} of {second.column}{_of(second)} is {_sure(second.found)}")
    return "; ".join(parts) + f" ({100 * level:g} % intervals)." if parts else ""


def _of(row: _Row) -> str:
    return "" if row.group is None else f" of {row.group}"


def _sure(found: Estimate) -> str:
    low, value, high = (shown_number(x, found.error) for x in (found.low, found.value, found.high))
    return f"{value} [{low}, {high}]" if found.error else value


def _warnings(rows: Sequence[_Row], layout: Layout) -> tuple[str, ...]:
    """Name the numbers that say little, and why."""
    ranges = {name: high - low for name, low, high in layout.bounds}
    noisy: list[str] = []
    unsure: list[str] = []
    for row in rows:
        found = row.found
        if found.low is None or found.high is None or found.noise is None:
            continue
        name = f"{row.statistic} of {row.column}{_of(row)}"
        if row.statistic in ("count", "sum"):
            if found.error is not None and found.error > 0.5 * abs(found.value) > 0.0:
                noisy.append("the count" + _of(row) if row.statistic == "count" else name)
            continue
        whole = ranges[row.column] ** (2 if row.statistic == "variance" else 1)
        whole *= {"variance": 0.25, "standard deviation": 0.5}.get(row.statistic, 1.0)
        if found.high - found.low > _WIDE * whole:
            (noisy if found.noise > 0.5 else unsure).append(name)
    return tuple(
        f"{_list(names)} {'is' if len(names) == 1 else 'are'} {what}"
        for names, what in (
            (noisy, "mostly noise: use a larger ε, or more rows."),
            (unsure, "hardly known: there are few rows."),
        )
        if names
    )


def _list(names: Sequence[str]) -> str:
    """Return names as one phrase that begins a sentence."""
    most = 6
    text = few(names, most)
    return text[0].upper() + text[1:]


def _pictures(
    blocks: Mapping[Any, Block],
    rows: Sequence[_Row],
    values: Mapping[str, Sequence[str]],
    by: str | None,
    level: float,
) -> dict[str, Picture]:
    """Return histograms with quantiles, means by group, bars of categories."""
    found: dict[str, Picture] = {}
    for group, block in blocks.items():
        layout, of = block.layout, "" if group is None else f", {by} = {group}"
        for c, column in enumerate(layout.columns):
            if "histogram" in layout.statistics:
                cells = block.cells(c)
                marks = {
                    row.statistic.removeprefix("quantile "): row.found.value
                    for row in rows
                    if (row.column, row.group) == (column, group)
                    and row.statistic.startswith("quantile")
                }
                errors = [one.error or 0.0 for one in cell_estimates(block, level, cells)]
                found[f"histogram of {column}{of}"] = Histogram(
                    f"{column}{of}: rows and their standard errors",
                    column,
                    block.edges(c).tolist(),
                    block.shown(cells).tolist(),
                    errors,
                    marks,
                )
        for k, (column, _) in enumerate(layout.categories):
            counts = cell_estimates(block, level, block.category(k))[:_MOST_BARS]
            found[f"{column}{of}"] = Bars(
                f"{column}{of}, with {100 * level:g} % intervals",
                "rows",
                values[column][:_MOST_BARS],
                [one.value for one in counts],
                [one.low or 0.0 for one in counts],
                [one.high or 0.0 for one in counts],
            )
    means = _means(blocks, rows, by, level)
    return {**means, **found} if by else {**found, **means}


def _means(
    blocks: Mapping[Any, Block], rows: Sequence[_Row], by: str | None, level: float
) -> dict[str, Picture]:
    """Return each column's means by group; without groups, its mean and quantiles."""
    found: dict[str, Picture] = {}
    columns = next(iter(blocks.values())).layout.columns
    for column in columns:
        shown = [
            row
            for row in rows
            if row.column == column
            and row.found.low is not None
            and (row.statistic == "mean" or (not by and row.statistic.startswith("quantile")))
        ]
        if not shown:
            continue
        name = f"mean of {column} by {by}" if by else f"mean and quantiles of {column}"
        only = "mean" if by or len(shown) == 1 else "mean and quantiles"
        found[name] = Intervals(
            f"{only} of {column}, with {100 * level:g} % intervals",
            column,
            [row.group or row.statistic for row in shown],
            [row.found.value for row in shown],
            [row.found.low or 0.0 for row in shown],
            [row.found.high or 0.0 for row in shown],
        )
    return found
