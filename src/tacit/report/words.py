"""The promise in plain words, once for all holders that promise the same."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tacit.estimators.release.promise import promises
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import round_up, shown
from tacit.privacy.promises import best_guess

__all__ = [
    "GLOSSARY",
    "NAMELESS",
    "Kind",
    "guess_words",
    "kinds",
    "listed",
    "times_right",
    "unit_words",
]

NAMELESS = "the data"  # what a single holder is called that has no name
_OWN = ("holder", "ledger", "seal", "version", "assumptions")  # differs between equal promises
_UNITS = {
    "entry": "every single value (one observed cell)",
    "row": "every row",
    "user": "every person, with everything about them",
    "document": "every document",
}
_SIZES = {"entry": "values", "row": "rows", "user": "people", "document": "documents"}
_ONE = {"entry": "one value", "row": "one row", "user": "one person", "document": "one document"}

GLOSSARY = {
    "ε (epsilon)": "How far a result may depend on one unit. At 0 a result says nothing about "
    "anybody; the larger, the better somebody can guess.",
    "δ (delta)": "A small probability with which the promise may fail; it should be far below one "
    "in the number of people.",
    "Unit": "What the promise hides: one value, one row, one person or one document.",
    "Neighbours": "Two data sets that differ in one unit: it was replaced by another one "
    "(replace-one), or it is there in one of them only (add-remove-one).",
    "Noise": "Random numbers that are added before anything leaves, so that one unit cannot be "
    "made out.",
    "Certificate": "The promise with the list of everything that was released, from which "
    "anybody can compute ε again.",
    "Ledger": "A holder's book of what was spent; it refuses what would go over its ceiling.",
    "Site": "A party that holds data, and its own ledger.",
    "Release": "What leaves, with its certificate.",
    "Open": "Public, sent without noise, and listed.",
    "Standard error": "How far an estimate may well be off, through chance in who was asked and "
    "through noise.",
    "R-hat": "1 where several runs of a random computation agree; above 1.01 they do not.",
    "Effective draws": "How many independent draws the dependent ones of a computation are worth.",
}


@dataclass(frozen=True)
class Kind:
    """One promise, and the holders that give it.

    Attributes
    ----------
    holders
        Who gives it.
    certificate
        What they promise, with everything that any of them assumes; who charged it where, and who
        signed, is each one's own.
    """

    holders: tuple[str, ...]
    certificate: Certificate


def kinds(certificates: Mapping[str, Certificate]) -> list[Kind]:
    """Return every different promise once.

    Parameters
    ----------
    certificates
        Holder → certificate.

    Examples
    --------
    >>> from tacit.privacy.events import LaplaceDpEvent
    >>> from tacit.privacy.guarantee import Privacy
    >>> one, two = (Certificate.issue(Privacy(1.0), LaplaceDpEvent(b)) for b in (1.0, 2.0))
    >>> [kind.holders for kind in kinds({"North": one, "South": two, "West": one})]
    [('North', 'West'), ('South',)]
    """
    found: list[tuple[list[object], dict[str, Certificate]]] = []
    for holder, certificate in certificates.items():
        stated: list[object] = [
            getattr(certificate, part.name)
            for part in dataclasses.fields(certificate)
            if part.name not in _OWN
        ]
        stated.append(_is_seeded(certificate))
        for known, alike in found:
            if known == stated:
                alike[holder] = certificate
                break
        else:
            found.append((stated, {holder: certificate}))
    return [Kind(tuple(alike), _together(alike)) for _, alike in found]


def _together(alike: Mapping[str, Certificate]) -> Certificate:
    """Return what certificates that promise the same state together."""
    assumed = dict.fromkeys(text for one in alike.values() for text in one.assumptions)
    return dataclasses.replace(
        next(iter(alike.values())),
        assumptions=tuple(assumed),
        holder=listed(list(alike)),
        ledger=None,
        seal=None,
    )


def _is_seeded(certificate: Certificate) -> bool:
    return any(note.startswith("seeded noise") for note in certificate.assumptions)


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return names in a row.

    >>> listed(["North", "South", "West"]), listed(["a", "b", "c"], most=2)
    ('North, South and West', 'a, b and 1 more')
    """
    cut = [name if len(name) <= 60 else name[:59] + "…" for name in names]
    shown_names = cut[:most]
    if len(cut) > most:
        return f"{', '.join(shown_names)} and {len(cut) - most:,} more"
    return " and ".join([", ".join(shown_names[:-1]), shown_names[-1]]).removeprefix(" and ")


def unit_words(certificate: Certificate) -> str:
    """Return for whom a promise is."""
    if certificate.group > 1:
        return f"any {certificate.group} {_SIZES[certificate.unit]} together"
    return _UNITS[certificate.unit]


def times_right(share: float) -> str:
    """Return how often in 100 a guess is right, rounded up, and 100 only where it is certain.

    >>> times_right(0.7310586), times_right(0.99966465), times_right(1.0)
    ('73.2', '99.97', '100')
    """
    found = [round_up(100.0 * share, digits) for digits in (3, 4, 5, 6, 7, 8)]
    return f"{next((one for one in found if one < 100.0), 100.0):.8g}"


def guess_words(certificate: Certificate) -> str:
    """Return ε in words: what an attacker's best guess improves to.

    >>> from tacit.privacy.events import LaplaceDpEvent
    >>> from tacit.privacy.guarantee import Privacy
    >>> guess_words(Certificate.issue(Privacy(1.0), LaplaceDpEvent(1.0)))[-60:]
    'is right at most 73.2 times in 100. Tossing a coin gives 50.'
    """
    if not certificate.is_private:
        return "Nothing is promised: what was released may show what one person's data were."
    what = _ONE[certificate.unit]
    if certificate.group > 1:
        what = f"{certificate.group} {_SIZES[certificate.unit]}"
    text = _guess(certificate.epsilon, certificate.delta, what, certificate.neighbours)
    if certificate.claimed_epsilon is not None:
        text += (
            f" The paper behind the method claims ε = {shown(certificate.claimed_epsilon, 4)}; "
            "what counts is the ε that was computed here."
        )
    if _is_seeded(certificate):
        text += " But the noise was seeded, and can be computed: this is not for release."
    return text


def _guess(epsilon: float, delta: float, what: str, neighbours: str) -> str:
    if neighbours == REPLACE:
        question = f"which of two versions of {what} was used"
    else:
        question = f"whether {what} was in the data"
    return (
        f"Somebody who knows everything else, and guesses {question}, is right at most "
        f"{times_right(best_guess(epsilon, delta))} times in 100. Tossing a coin gives 50."
    )


def joint_words(certificates: Mapping[str, Certificate]) -> list[tuple[str, str]]:
    """Return what several certificates that protect the same people promise together.

    Parameters
    ----------
    certificates
        Name → certificate.

    Returns
    -------
        Whose and how much, and the same as a guess; nothing where every holder has one.
    """
    told = []
    for found in promises(certificates):
        if len(found.certificates) < 2:
            continue
        whose = f"{listed(found.certificates)} protect the same people"
        if found.epsilon is None or not math.isfinite(found.epsilon):
            told.append((whose, "What each of them gives adds up for a person in both."))
        else:
            size = f"ε = {shown(found.epsilon, 4)}, δ = {shown(found.delta, 3)}"
            guess = _guess(found.epsilon, found.delta, _ONE[found.unit], found.neighbours)
            told.append((f"{whose}: together {size}", guess))
    return told
