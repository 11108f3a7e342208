"""Who saw what: a picture of the trust model, drawn from the certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tacit._core.html import Html, join, table, tag
from tacit.privacy.certificate import Certificate
from tacit.privacy.guarantee import round_up
from tacit.report.drawing import WIDTH, Drawing, number, short
from tacit.report.words import NAMELESS

__all__ = ["Party", "parties", "trust_section"]

_BOX, _GAP = 46.0, 50.0
_SHOWN, _LISTED = 3, 50


@dataclass(frozen=True)
class Party:
    """Someone in the picture: what they see, and whether any of it is raw."""

    name: str
    sees: str
    raw: bool


# trust → the parties between the data holders and the public, and what they see
_BETWEEN = {
    "central": (),
    "site": (Party("Coordinator", "what sites send, with noise", False),),
    "local": (Party("Coordinator", "perturbed answers", False),),
    "aggregator": (Party("Coordinator", "the sum over all sites", False),),
    "shuffler": (
        Party("Shuffler", "answers in a random order", False),
        Party("Analyst", "shuffled answers", False),
    ),
}
_HOLDS = {
    "central": "all raw data, as curator",
    "site": "its own raw data",
    "local": "their own data",
    "aggregator": "its own raw data",
    "shuffler": "their own data",
}
_BARRIER = {
    "central": "noise is added by the curator",
    "site": "noise is added at the site",
    "local": "noise is added by each person",
    "aggregator": "noise and masks are added at the site",
    "shuffler": "noise is added by each person",
}


def parties(certificates: Mapping[str, Certificate]) -> list[Party]:
    """Return everyone who takes part, from those with raw data down to the public.

    Certificates, by holder, all have the same trust.
    """
    trust = next(iter(certificates.values())).trust
    private = all(certificate.is_private for certificate in certificates.values())
    personal = trust in ("local", "shuffler")
    holders = (
        [Party("Each person", _HOLDS[trust], True)]
        if personal
        else [Party(_called(name), _HOLDS[trust], True) for name in certificates]
    )
    others = [*_BETWEEN[trust], Party("The public", "what is released", False)]
    if not private:  # without noise, what is passed on is as good as raw
        others = [Party(other.name, f"{other.sees}: no noise", True) for other in others]
    return [*holders, *others]


def trust_section(certificates: Mapping[str, Certificate]) -> Html:
    """Return who saw what, once for every kind of trust.

    Parameters
    ----------
    certificates
        Holder → certificate.
    """
    trusts = dict.fromkeys(certificate.trust for certificate in certificates.values())
    return join(
        trust_picture({name: one for name, one in certificates.items() if one.trust == trust})
        for trust in trusts
    )


def trust_picture(certificates: Mapping[str, Certificate]) -> Html:
    """Return the picture, and the same as a table; all certificates have the same trust.

    >>> from tacit.privacy.guarantee import Privacy
    >>> from tacit.privacy.events import LaplaceDpEvent
    >>> given = Certificate.issue(Privacy(1.0, trust="site"), LaplaceDpEvent(1.0))
    >>> "Coordinator" in trust_picture({"North": given})
    True
    """
    everyone = parties(certificates)
    certificate = next(iter(certificates.values()))
    personal = certificate.trust in ("local", "shuffler")
    count = 1 if personal else len(certificates)
    holders, others = everyone[:count], everyone[count:]
    drawing = Drawing(8 + (_BOX + _GAP) * len(others) + _BOX + 30)
    shown = holders[:_SHOWN]
    width = (WIDTH - 8 * (len(shown) - 1) - 8) / len(shown)
    middles = []
    for k, holder in enumerate(shown):
        x = 4 + k * (width + 8)
        _draw(drawing, holder, x, 8, width)
        middles.append(x + width / 2)
    y = 8 + _BOX
    for party in others:
        for x in middles:
            _arrow(drawing, x, y, WIDTH / 2 + (x - WIDTH / 2) * 0.35, y + _GAP)
        if party is others[0]:
            _barrier(drawing, y + _GAP / 2, certificates)
        _draw(drawing, party, 50, y + _GAP, WIDTH - 100)
        middles, y = [WIDTH / 2], y + _GAP + _BOX
    for x, kind, words in (
        (4.0, "raw", "sees raw data"),
        (WIDTH / 2 + 4, "noisy", "sees noisy results only"),
    ):
        drawing.box(x, y + 14, 14, 12, class_=kind)
        drawing.text(x + 20, y + 24, words)
    more = len(holders) - len(shown)
    words = "; ".join(f"{short(p.name, 40)} sees {p.sees}" for p in everyone[:12])
    caption = f"The guarantee holds against {certificate.against}."
    if more > 0:
        caption += f" {more:,} more sites are not drawn."
    told = [*holders[:_LISTED], *others]
    rows = table(
        "Who saw what",
        ["party", "sees", "raw data"],
        ([short(p.name, 80), p.sees, "yes" if p.raw else "no"] for p in told),
    )
    picture = drawing.render("Who saw what", words + ".")
    return tag("div", tag("figure", picture, tag("figcaption", caption)), rows, class_="grid")


def _called(holder: str) -> str:
    return "The holder" if holder == NAMELESS else holder[:1].upper() + holder[1:]


def _draw(drawing: Drawing, party: Party, x: float, y: float, width: float) -> None:
    drawing.box(x, y, width, _BOX, class_="raw" if party.raw else "noisy", rx=6)
    name, middle = short(party.name, int(width / 7.2)), x + width / 2
    drawing.text(middle, y + 19, name, 12, text_anchor="middle", font_weight="bold")
    drawing.text(middle, y + 35, party.sees, 10 if width > 110 else 9, text_anchor="middle")


def _arrow(drawing: Drawing, x: float, y: float, x2: float, y2: float) -> None:
    drawing.line(x, y, x2, y2 - 1)
    drawing.area([(x2 - 4, y2 - 8), (x2 + 4, y2 - 8), (x2, y2)], "ink")


def _barrier(drawing: Drawing, y: float, certificates: Mapping[str, Certificate]) -> None:
    """Draw the line that raw data does not cross, with the ε at which it is drawn."""
    certificate = max(certificates.values(), key=lambda c: c.epsilon)
    words = _BARRIER[certificate.trust] + f": ε = {number(round_up(certificate.epsilon, 4))}"
    if not certificate.is_private:
        words = "no noise: no guarantee"
    drawing.box(30, y - 9, WIDTH - 60, 18, class_="barrier", rx=4, stroke_dasharray="4 3")
    drawing.text(WIDTH / 2, y + 4, words, text_anchor="middle")
