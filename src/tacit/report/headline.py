"""The box at the top: what was learned, how well it hides one person, for whom, against whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tacit._core.html import Html, join, tag
from tacit.privacy.certificate import Certificate
from tacit.privacy.guarantee import shown
from tacit.privacy.promises import best_guess
from tacit.report.contents import Contents
from tacit.report.drawing import WIDTH, Drawing, short
from tacit.report.words import NAMELESS, Kind, guess_words, joint_words, kinds, listed, unit_words

__all__ = ["headline_box"]

_MOST_KINDS, _MOST_WARNINGS = 4, 8
_LEFT, _RIGHT, _ROW = 8.0, 8.0, 40.0


def headline_box(
    contents: Contents, facts: Mapping[str, str], summary: Sequence[str] = ()
) -> Html:
    """Return the box.

    Parameters
    ----------
    contents
        What the report is about.
    summary
        Further sentences.
    facts
        Date, purpose, contact: what is empty is left out.
    """
    answer, found = contents.answer, kinds(contents.certificates)
    learned = answer.headline or f"What {answer.title} learned stands below."
    left = [tag("p", short(learned, 700), class_="learned")]
    left += [tag("p", line) for line in summary]
    left += [
        tag("p", "⚠ ", short(warning, 500), class_="warning", role="note")
        for warning in answer.warnings[:_MOST_WARNINGS]
    ]
    more = len(answer.warnings) - _MOST_WARNINGS
    left += [tag("p", f"… and {more:,} more such warnings.", class_="soft")] if more > 0 else []
    left.append(_facts(found, contents.certificates, facts))
    together = joint_words(contents.certificates)[:_MOST_KINDS]
    right = [join([tag("p", tag("strong", size)), tag("p", words)]) for size, words in together]
    right += _promises(found)
    return tag(
        "section",
        tag("div", *left),
        tag("div", *right, class_="guess"),
        class_="box",
        aria_label="In short",
    )


def _facts(
    found: Sequence[Kind], certificates: Mapping[str, Certificate], facts: Mapping[str, str]
) -> Html:
    rows = []
    private = [kind.certificate for kind in found if kind.certificate.is_private]
    if private:
        rows = [
            ("For whom", "; ".join(dict.fromkeys(map(unit_words, private)))),
            ("Held by", listed([*certificates]) if [*certificates] != [NAMELESS] else ""),
            ("Against whom", "; ".join(dict.fromkeys(one.against for one in private))),
        ]
    rows += list(facts.items())
    pairs = [
        tag("div", tag("dt", name), tag("dd", short(text, 400))) for name, text in rows if text
    ]
    return tag("dl", *pairs, class_="facts")


def _promises(found: Sequence[Kind]) -> list[Html]:
    """Return ε in words and as a picture, once for each kind of promise."""
    if not found:
        return [
            tag("p", tag("strong", "No promise.")),
            tag(
                "p",
                "This was computed without a guarantee: it may show what one person's data "
                "were. Do not publish it.",
            ),
        ]
    parts = []
    for kind in found[:_MOST_KINDS]:
        whose = f"{listed(kind.holders)}: " if len(found) > 1 else ""
        parts.append(tag("p", tag("strong", f"{whose}{_numbers(kind.certificate)}")))
        parts.append(tag("p", guess_words(kind.certificate)))
    if len(found) > _MOST_KINDS:
        parts.append(tag("p", f"… and {len(found) - _MOST_KINDS:,} other promises, below."))
    private = [kind for kind in found if kind.certificate.is_private][:_MOST_KINDS]
    return [*parts, _picture(private)] if private else parts


def _numbers(certificate: Certificate) -> str:
    if not certificate.is_private:
        return "No promise."
    return f"ε = {shown(certificate.epsilon, 4)}, δ = {shown(certificate.delta, 3)}"


def _picture(found: Sequence[Kind]) -> Html:
    """Return the scale from tossing a coin to certainty, with a bar for each promise."""
    drawing = Drawing(_ROW * len(found) + 40)
    bottom = _ROW * len(found) + 4

    def across(share: float) -> float:
        return _LEFT + (share - 0.5) * 2.0 * (WIDTH - _LEFT - _RIGHT)

    shares = [best_guess(kind.certificate.epsilon, kind.certificate.delta) for kind in found]
    for k, (kind, share) in enumerate(zip(found, shares, strict=True)):
        y = _ROW * k + 16
        whose = listed(kind.holders, 2) if len(found) > 1 else "the best guess about one unit"
        drawing.text(_LEFT, y, short(whose, 44))
        drawing.box(_LEFT, y + 5, WIDTH - _LEFT - _RIGHT, 13, class_="track")
        drawing.box(_LEFT, y + 5, across(share) - _LEFT, 13, class_="fill s1")
    for share, side in ((0.5, "start"), (0.75, "middle"), (1.0, "end")):
        drawing.line(across(share), bottom - 2, across(share), bottom + 4)
        words = {0.5: "50: a coin", 0.75: "75", 1.0: "100: certain"}[share]
        drawing.text(across(share), bottom + 16, words, text_anchor=side)
    drawing.text(
        WIDTH / 2, bottom + 30, "times right in 100 guesses", class_="soft", text_anchor="middle"
    )
    said = join(guess_words(kind.certificate) for kind in found)
    return tag("figure", drawing.render("How often the best guess is right", str(said)))
