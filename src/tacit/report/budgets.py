"""Budgets: what every ledger promises, and what it has counted over time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tacit._core.html import Html, join, table, tag
from tacit._core.pictures import Lines
from tacit.privacy.guarantee import shown, shown_left
from tacit.report.drawing import number, short
from tacit.report.figures import figure
from tacit.report.promise import curve_figure

if TYPE_CHECKING:
    from tacit.privacy.ledger.ledger import Ledger

__all__ = ["budget_section"]

_MOST_LEDGERS, _MOST_CHARGES = 12, 100


def budget_section(ledgers: Mapping[str, Ledger]) -> Html:
    """Return what every ledger promises and has spent, and its charges.

    Parameters
    ----------
    ledgers
        Holder → ledger.
    """
    if not ledgers:
        return Html()
    words = tag(
        "p",
        "A ledger promises its ceiling, whatever is charged and when; what was spent so far is "
        "bookkeeping and no guarantee of its own.",
    )
    rows = [
        [
            short(name, 80),
            f"{ledger.unit}, {ledger.neighbours}",
            shown(ledger.spent.epsilon, 4),
            number(ledger.epsilon),
            shown_left(ledger.remaining.epsilon, 4),
            shown(ledger.spent.delta, 3),
            f"{ledger.delta:g}",
        ]
        for name, ledger in ledgers.items()
    ]
    heads = ["ledger", "for one", "ε spent", "ε at most", "ε left", "δ spent", "δ at most"]
    summary = table("Budgets", heads, rows, numbers=5)
    shown_ledgers = list(ledgers.items())[:_MOST_LEDGERS]
    charges = [_charges(name, ledger) for name, ledger in shown_ledgers]
    spent = _spent(dict(shown_ledgers))
    ceilings = {f"the ceiling of {name}": ledger.curve() for name, ledger in shown_ledgers[:6]}
    alike = {curve: name for name, curve in reversed(ceilings.items())}  # one line for equal ones
    curves = curve_figure(
        {name if len(alike) > 1 else "every ceiling": curve for curve, name in alike.items()},
        "what ledgers promise",
    )
    pictures = tag("div", spent, curves, class_="grid")
    return join([words, summary, pictures, *charges])


def _spent(ledgers: Mapping[str, Ledger]) -> Html:
    series = {
        short(name, 60): [
            (float(k), epsilon)
            for k, epsilon in enumerate(
                [0.0, *(row.epsilon for row in ledger.rows() if row.kind == "charge")]
            )
        ]
        for name, ledger in ledgers.items()
    }
    if all(len(points) < 2 for points in series.values()):
        return Html()
    tops = {ledger.epsilon for ledger in ledgers.values()}
    levels = {"the ceiling": tops.pop()} if len(tops) == 1 else {}
    if not levels:
        levels = {f"ceiling of {short(n, 50)}": one.epsilon for n, one in ledgers.items()}
    picture = Lines("Budgets over time", "charge, in order of time", "total ε", series, levels)
    return figure(picture, "ε after each charge.", steps=True, zero=True)


def _charges(name: str, ledger: Ledger) -> Html:
    """Return the charges of a ledger: each in its own unit, and as it counts here."""
    rows = [
        [number, time, purpose, whose, own, here, total]
        for number, time, kind, purpose, whose, own, here, total in ledger.table()
        if kind == "charge"
    ]
    if not rows:
        return Html()
    heads = ["row", "time (UTC)", "purpose", "for one", "own ε", "ε here", "total ε"]
    cut = rows[-_MOST_CHARGES:]
    caption = f"Charges of {short(name, 80)}"
    if len(cut) < len(rows):
        caption += f", the last {len(cut)} of {len(rows):,}"
    return tag(
        "details",
        tag("summary", f"The charges of {short(name, 80)}"),
        table(caption, heads, cut, 3),
    )
