"""What one site released for a regression, as a person reads it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tacit._core.answers import ERROR, Answer, Table, shown_number
from tacit._core.noise_sums import reach
from tacit.privacy.certificate import Certificate
from tacit.privacy.promises import promise
from tacit.regression.design import Design
from tacit.regression.numerics.moments import Moments

__all__ = ["site_answer", "table_of_rows"]


def table_of_rows(sites: Mapping[str, tuple[Moments, Certificate]]) -> Table:
    """Return how many rows each site has, the noise on that number, and its ε.

    Parameters
    ----------
    sites
        Name → what was released, and the certificate.
    """
    every = list(sites.values())
    return Table(
        "sites",
        "Rows of each site, weighted where they were scaled down",
        {
            "site": list(sites),
            "rows": [float(moments.rows) for moments, _ in every],
            ERROR: [float(moments.rows_sd) for moments, _ in every],
            "ε": [float(certificate.epsilon) for _, certificate in every],
        },
    )


def site_answer(
    site: str,
    columns: tuple[str, ...],
    design: Design,
    moments: Moments,
    certificate: Certificate,
    level: float,
) -> Answer:
    """Return what one site released: its rows, and every sum with the noise on it.

    Parameters
    ----------
    site, columns, design, moments, certificate
        As in `SiteSummary`.
    level
        The probability of intervals.
    """
    target = columns[-1]
    named = [*(["constant"] if design.intercept else []), *columns[:-1]]
    sums: list[tuple[str, str, float, float]] = []
    for i, one in enumerate(named):
        for j, other in enumerate(named[: i + 1]):
            sd = moments.gram_sd if i == j else moments.gram_sd / math.sqrt(2.0)
            sums.append((other, one, float(moments.gram[j, i]), sd))
    sums += [(n, target, float(moments.cross[i]), moments.cross_sd) for i, n in enumerate(named)]
    if moments.square is not None:
        sums.append((target, target, float(moments.square), moments.square_sd))
    headings = ("of", "times", "sum", ERROR)
    return Answer(
        f"What {site} released for a regression",
        f"{_rows(moments, level)} rows, {len(sums)} sums of {len(columns)} columns.",
        (
            table_of_rows({site: (moments, certificate)}),
            Table(
                "sums",
                "Sums of products over rows mapped to [−1, 1]; the constant is "
                f"{design.constant:g}",
                dict(zip(headings, map(list, zip(*sums, strict=True)), strict=True)),
            ),
        ),
        promise=promise({site: certificate}),
        details={f"The certificate of {site}": str(certificate)},
    )


def _rows(moments: Moments, level: float) -> str:
    """Return the number of rows, with its interval where it has noise."""
    if not moments.rows_sd:
        return shown_number(float(moments.rows))
    far = reach(level, moments.rows_sd**2)
    told = (moments.rows, max(0.0, moments.rows - far), moments.rows + far)
    value, low, high = (shown_number(float(x), moments.rows_sd) for x in told)
    return f"{value} [{low}, {high}]"
