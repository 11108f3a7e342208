"""The sections of the report; each returns nothing where it has nothing to show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tacit._core.html import Html, join, table, tag
from tacit.privacy.guarantee import shown, shown_left
from tacit.report.charts import Chart, line_chart
from tacit.report.citations import citation_keys, citations
from tacit.report.contents import Accuracy, Contents, Factor
from tacit.report.drawing import number
from tacit.report.heatmap import heat_map
from tacit.report.posteriors import intervals
from tacit.report.trust import trust_picture

if TYPE_CHECKING:
    from tacit.privacy.curve import Curve
    from tacit.privacy.ledger.ledger import Ledger

__all__ = [
    "accuracy_section",
    "budget_section",
    "certificate_section",
    "citation_section",
    "convergence_section",
    "curve_figure",
    "factor_section",
    "ledger_table",
    "posterior_section",
    "rerun_section",
    "trust_section",
]


def certificate_section(contents: Contents) -> Html:
    """Return every holder's certificate, as a sentence and as a table."""
    return join(
        tag(
            "div",
            tag("h3", holder),
            tag("p", str(certificate), class_="sentence"),
            tag(
                "details",
                tag("summary", f"The certificate of {holder} as a table"),
                certificate.html_table(),
            ),
            curve_figure({f"the release of {holder}": certificate.curve()}, holder),
        )
        for holder, certificate in contents.certificates.items()
    )


def curve_figure(curves: Mapping[str, Curve], whose: str) -> Html:
    """Return ε at every δ as a picture; nothing where that is not finite."""
    series = {
        name: [(delta, epsilon) for delta, epsilon in curve.finite if delta > 0.0]
        for name, curve in curves.items()
    }
    series = {name: points for name, points in series.items() if len(points) > 1}
    if not series:
        return Html()
    chart = Chart(
        f"ε at every δ, {whose}",
        "δ (more to the left is the stronger promise)",
        "ε",
        series,
        logarithmic=True,
        zero=True,
    )
    caption = tag("figcaption", f"{whose}: one release has all of these guarantees at once.")
    return tag("figure", line_chart(chart), caption)


def trust_section(contents: Contents) -> Html:
    """Return the picture of the trust model."""
    return trust_picture(contents.certificates) if contents.certificates else Html()


def ledger_table(ledger: Ledger, name: str = "the ledger") -> Html:
    """Return the charges of a ledger as a table: each in its own unit, and as it counts here."""
    rows = [
        [number, time, purpose, whose, own, here, total]
        for number, time, kind, purpose, whose, own, here, total in ledger.table()
        if kind == "charge"
    ]
    heads = ["row", "time (UTC)", "purpose", "for one", "own ε", "ε here", "total ε"]
    return table(f"Charges of {name}", heads, rows, 3)


def budget_section(ledgers: Mapping[str, Ledger]) -> Html:
    """Return what every ledger promises, and what it has counted over time."""
    if not ledgers:
        return Html()
    promise = tag(
        "p",
        "A ledger promises its ceiling, whatever is charged and when; what was spent so far is "
        "bookkeeping and no guarantee of its own.",
    )
    summary = table(
        "Budgets",
        ["ledger", "for one", "ε spent", "of", "ε left", "δ spent", "of"],
        (
            [
                name,
                f"{ledger.unit}, {ledger.neighbours}",
                shown(ledger.spent.epsilon, 4),
                number(ledger.epsilon),
                shown_left(ledger.remaining.epsilon, 4),
                shown(ledger.spent.delta, 3),
                f"{ledger.delta:g}",
            ]
            for name, ledger in ledgers.items()
        ),
        numbers=5,
    )
    figures = []
    for name, ledger in ledgers.items():
        ceiling = curve_figure({f"the ceiling of {name}": ledger.curve()}, f"ledger {name}")
        if ceiling:
            figures.append(tag("div", ceiling))
        spent = [row.epsilon for row in ledger.rows() if row.kind == "charge"]
        if spent:
            chart = Chart(
                f"Budget of {name}",
                "charge, in order of time",
                "total ε",
                {"spent": [(float(k), e) for k, e in enumerate([0.0, *spent])]},
                {"ceiling": ledger.epsilon},
                steps=True,
                zero=True,
            )
            caption = tag("figcaption", f"{name}: ε after each charge.")
            figure = tag("figure", line_chart(chart), caption)
            charges = tag(
                "details", tag("summary", f"The charges of {name}"), ledger_table(ledger, name)
            )
            figures.append(tag("div", figure, charges))
    return join([promise, summary, tag("div", *figures, class_="grid")])


def accuracy_section(accuracy: Accuracy | None) -> Html:
    """Return accuracy against ε, beside what trivial predictors give."""
    if accuracy is None:
        return Html()
    chart = Chart(
        "Accuracy against ε",
        "ε (more to the right is less private)",
        accuracy.metric,
        accuracy.series,
        accuracy.levels,
        logarithmic=True,
    )
    epsilons = sorted({x for points in accuracy.series.values() for x, _ in points})
    rows = [
        [name, *(number(dict(points)[e]) if e in dict(points) else "" for e in epsilons)]
        for name, points in accuracy.series.items()
    ] + [[name, *([number(level)] * len(epsilons))] for name, level in accuracy.levels.items()]
    numbers = table(
        accuracy.metric,
        ["predictor", *(f"ε = {number(e)}" for e in epsilons)],
        rows,
        numbers=len(epsilons),
    )
    note = tag("p", accuracy.note) if accuracy.note else Html()
    return join([note, tag("figure", line_chart(chart)), numbers])


def factor_section(contents: Contents) -> Html:
    """Return the factors as heat maps."""

    def picture(factor: Factor) -> Html:
        return heat_map(factor.name, factor.values, factor.members)

    pictures = [picture(factor) for factor in contents.factors]
    return tag("div", *pictures, class_="grid") if pictures else Html()


def posterior_section(contents: Contents) -> Html:
    """Return the posterior of each parameter."""
    return intervals(contents.posterior) if contents.posterior else Html()


def convergence_section(contents: Contents) -> Html:
    """Return the objective over iterations, and diagnostics of chains."""
    parts = []
    if len(contents.history) > 1:
        points = [(float(k), float(v)) for k, v in enumerate(contents.history, 1)]
        chart = Chart(
            "Convergence", "look, every few iterations", "objective", {"objective": points}
        )
        parts.append(tag("figure", line_chart(chart)))
    if contents.convergence:
        parts.append(table("Diagnostics", ["what", "value"], contents.convergence.items()))
    return join(parts)


def citation_section(contents: Contents) -> Html:
    """Return BibTeX of the methods used."""
    keys = citation_keys(contents.certificates, contents.cites)
    return tag("pre", citations(keys), tabindex=0, role="region", aria_label="BibTeX entries")


def rerun_section(contents: Contents) -> Html:
    """Return versions and settings."""
    versions = table("Versions", ["package", "version"], sorted(contents.versions.items()))
    rows = [(name, _text(value)) for name, value in contents.settings.items()]
    settings = table("Settings", ["setting", "value"], rows) if rows else Html()
    return join(
        [tag("p", "The estimator was ", tag("code", contents.estimator), "."), versions, settings]
    )


def _text(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 400 else text[:399] + "…"
