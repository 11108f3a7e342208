"""The promise: one certificate for all holders that agree, then where they differ, then the rest.

The sentence for experts and the certificate's table are folded; paper shows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tacit._core.html import Html, join, table, tag
from tacit._core.pictures import Lines
from tacit.privacy.certificate import Certificate
from tacit.privacy.curve import Curve
from tacit.privacy.guarantee import change_words, shown
from tacit.report.drawing import short
from tacit.report.figures import figure
from tacit.report.words import Kind, guess_words, joint_words, kinds, listed, unit_words

__all__ = ["assumption_section", "curve_figure", "promise_section"]

_MOST_KINDS = 8
_ADDED = "adding up everything that was released (accountant: {})"
_SEEN = {
    "central": "the curator, who holds all of them",
    "site": "each site, its own only",
    "local": "nobody but the person",
    "aggregator": "each site, its own only; sums are added up unseen",
    "shuffler": "nobody but the person; answers are shuffled",
}


def promise_section(certificates: Mapping[str, Certificate]) -> Html:
    """Return every different promise once, and who charged it where."""
    if not certificates:
        return Html()
    found = kinds(certificates)
    curves = {_whose(kind, len(found)): kind.certificate.curve() for kind in found[:6]}
    curve = curve_figure(curves, "what was released")
    together = [
        tag("p", tag("strong", f"{size}."), f" {words}")
        for size, words in joint_words(certificates)
    ]
    short_form = tag("div", *together, _in_short(found))
    parts = [tag("div", short_form, curve, class_="wide-left")]
    parts += [_in_full(kind) for kind in found[:_MOST_KINDS]]
    if len(found) > _MOST_KINDS:
        parts.append(tag("p", f"{len(found) - _MOST_KINDS:,} more are not shown in full."))
    return join([*parts, _charges(certificates)])


def _whose(kind: Kind, count: int) -> str:
    if count == 1:
        return "every site" if len(kind.holders) > 1 else kind.holders[0]
    return listed(kind.holders, 2)


def _in_short(found: Sequence[Kind]) -> Html:
    """Return what all promise alike, and then what differs."""
    told = {
        "in words": [guess_words(kind.certificate) for kind in found],
        "ε": [shown(kind.certificate.epsilon, 6) for kind in found],
        "δ": [shown(kind.certificate.delta, 6) for kind in found],
        "for whom": [unit_words(kind.certificate) for kind in found],
        "holds when": [_change(kind.certificate) for kind in found],
        "raw data are seen by": [_SEEN[kind.certificate.trust] for kind in found],
        "against": [kind.certificate.against for kind in found],
        "computed by": [_ADDED.format(kind.certificate.accountant) for kind in found],
        "noise": [_noise(kind.certificate) for kind in found],
    }
    alike = [[name, cells[0]] for name, cells in told.items() if len(set(cells)) == 1]
    differ = {name: cells for name, cells in told.items() if len(set(cells)) > 1}
    holders = [holder for kind in found for holder in kind.holders]
    same = f"What {listed(holders)} promise alike" if len(holders) > 1 else "What is promised"
    parts = [table(same, ["what", "value"], alike)] if alike else []
    if differ:
        rows = [
            [listed(kind.holders), *(cells[k] for cells in differ.values())]
            for k, kind in enumerate(found)
        ]
        parts.append(table("Where the promises differ", ["holder", *differ], rows))
    return join(parts)


def _in_full(kind: Kind) -> Html:
    """Return the sentence and the table for experts, folded."""
    return tag(
        "details",
        tag("summary", f"The certificate in full, for experts: {listed(kind.holders)}"),
        tag("p", str(kind.certificate), class_="exact"),
        kind.certificate.html_table(),
        class_="printed",
    )


def _noise(certificate: Certificate) -> str:
    """Return whether the noise is tacit's own, or a paper's with what its claim leaves out."""
    if certificate.claimed_epsilon is None:
        return "calibrated to the ε that was asked for"
    return (
        f"as a paper has it, which claims ε = {shown(certificate.claimed_epsilon, 4)}: "
        f"{certificate.claim}"
    )


def _change(certificate: Certificate) -> str:
    return change_words(certificate.unit, certificate.neighbours)


def _charges(certificates: Mapping[str, Certificate]) -> Html:
    rows = [
        [
            short(holder, 80),
            shown(one.epsilon, 6),
            f"ledger {one.ledger.ledger[:8]}, row {one.ledger.counter}"
            + ("" if one.ledger.durable else ", in memory only"),
            one.signed_by,
        ]
        for holder, one in certificates.items()
        if one.ledger is not None
    ]
    if not rows:
        return Html()
    heads = ["holder", "ε", "charged to", "signature"]
    told = table("Where each was charged", heads, rows)
    return tag(
        "details",
        tag("summary", "Ledgers and signatures"),
        told,
        class_="printed",
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
    picture = Lines(
        f"ε at every δ of {whose}",
        "δ (more to the left is the stronger promise)",
        "ε",
        series,
        logarithmic=True,
    )
    return figure(picture, "One release has all of these guarantees at once.", zero=True)


def assumption_section(certificates: Mapping[str, Certificate]) -> Html:
    """Return bounds and everything else that is taken as given, with who relies on it."""
    everybody = list(certificates)
    who: dict[str, list[str]] = {}
    for holder, certificate in certificates.items():
        for assumption in dict.fromkeys(certificate.assumptions):
            who.setdefault(assumption, []).append(holder)
    if not who:
        return Html()
    several = len(everybody) > 1
    rows = [
        [str(k), text, *([_all(holders, everybody)] if several else [])]
        for k, (text, holders) in enumerate(who.items(), 1)
    ]
    heads = ["no.", "what is taken as given", *(["whose"] if several else [])]
    words = tag(
        "p",
        "The promise holds if all of this is so. Bounds are stated, never read from the data; "
        "what lies outside of them is moved to the nearest bound.",
    )
    return join([words, table("Bounds and assumptions", heads, rows)])


def _all(holders: Sequence[str], everybody: Sequence[str]) -> str:
    return "all" if len(holders) == len(everybody) else listed(holders)
