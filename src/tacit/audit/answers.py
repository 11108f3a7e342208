"""What an audit says to a person: what was promised, and what an attack got out of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from tacit._core.answers import Answer, Table
from tacit._core.pictures import Bars
from tacit.privacy.answers import left_number, spent_number
from tacit.privacy.guarantee import shown, shown_left

__all__ = ["audit_answer"]


def audit_answer(
    title: str,
    promised: Mapping[str, float],
    attacked: float,
    holds: bool,
    more: Mapping[str, float],
) -> Answer:
    """Return the answer of an audit.

    Parameters
    ----------
    title
        Of what.
    promised
        Name → ε, the certified one last.
    attacked
        The lower bound on ε that the attack proves.
    holds
        Whether it stays below what is certified.
    more
        Name → number, about the attack.

    Examples
    --------
    >>> print(audit_answer("An audit", {"certified": 1.0}, 0.8, True, {"runs": 9}).headline)
    The attack proves ε ≥ 0.8, and ε = 1 is certified: the certificate holds.
    """
    names = [*promised, "proved by the attack"]
    values = [*(spent_number(one) for one in promised.values()), left_number(attacked)]
    certified = list(promised.values())[-1]
    verdict = "the certificate holds" if holds else "the certificate IS BROKEN"
    drawn = [value if math.isfinite(value) else math.nan for value in values]
    return Answer(
        title,
        f"The attack proves ε ≥ {shown_left(attacked, 4)}, and ε = {shown(certified, 4)} is "
        f"certified: {verdict}.",
        (
            Table("audit", "ε", {"": names, "ε": values}),
            Table("attack", "The attack", {"": list(more), "number": list(more.values())}),
        ),
        () if holds else ("an attack got more out of it than is certified.",),
        pictures={"audit": Bars("What is promised, and what an attack proves", "ε", names, drawn)},
    )
