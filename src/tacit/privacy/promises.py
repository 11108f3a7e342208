"""The promise in one line, for people: what an attacker's best guess improves to.

Somebody who knows everything but one unit's data, and tosses a fair coin about that, is right half
of the time. After a release that is (ε, δ)-differentially private every test of his has
TPR ≤ e^ε·FPR + δ and, the other way round, 1 − FPR ≤ e^ε·(1 − TPR) + δ; the best guess is right
with probability (1 + TPR − FPR)/2, which under both is at most (e^ε + δ)/(1 + e^ε).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tacit.privacy.guarantee import change_words, round_up, shown

__all__ = ["best_guess", "promise"]

_NONE = "none. Nothing hides what one person's data were."


def best_guess(epsilon: float, delta: float) -> float:
    """Return how often an attacker's best guess about one unit is right, who was at one half.

    >>> best_guess(0.0, 0.0), round(best_guess(1.0, 1e-6), 4)
    (0.5, 0.7311)
    """
    if epsilon > 700.0:
        return 1.0
    odds = math.exp(epsilon)
    return min(1.0, (odds + delta) / (1.0 + odds))


def promise(certificates: Mapping[str, Any]) -> str:
    """Return one line for all holders where they agree, one for each kind of promise elsewhere.

    Parameters
    ----------
    certificates
        Holder → `tacit.Certificate`, which shows this line of itself; none where nothing was
        promised.

    Examples
    --------
    >>> from tacit.privacy.certificate import Certificate
    >>> from tacit.privacy.events import GaussianDpEvent
    >>> from tacit.privacy.guarantee import Privacy
    >>> one = Certificate.issue(Privacy(1, 1e-6, unit="row"), GaussianDpEvent(4.8))
    >>> print(promise({"North": one}))  # doctest: +ELLIPSIS
    Promise: ε = 0.87..., δ = 1e-06 when one row is added or removed, against the public. Who ...
    """
    kinds: dict[str, list[str]] = {}
    for holder, certificate in certificates.items():
        kinds.setdefault(_line(certificate), []).append(holder)
    if len(kinds) == 1 and len(certificates) > 1:
        (line,) = kinds
        return f"Promise of each of {len(certificates)} sites: {line}"
    if len(kinds) < 2:
        return f"Promise: {next(iter(kinds), _NONE)}"
    return "\n".join(f"Promise of {', '.join(who)}: {line}" for line, who in kinds.items())


def _line(certificate: Any) -> str:
    if not certificate.is_private:
        return _NONE
    change = change_words(certificate.unit, certificate.neighbours)
    if certificate.group > 1:
        change = f"up to {certificate.group} times over, {change}"
    share = round_up(100.0 * best_guess(certificate.epsilon, certificate.delta), 3)
    line = (
        f"ε = {shown(certificate.epsilon, 4)}, δ = {shown(certificate.delta)} when {change}, "
        f"against {certificate.against}. Who guesses whether that was so is right at most "
        f"{share:g} % of the time, instead of 50 %."
    )
    if certificate.claimed_epsilon is not None:
        line += f" (The paper claims ε = {certificate.claimed_epsilon:g}.)"
    if any(note.startswith("seeded noise") for note in certificate.assumptions):
        line += " The noise was seeded, so the promise does not hold: not for release."
    return line
