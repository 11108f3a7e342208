"""One threshold for the exchange, the noise and the policy, and what it holds against.

With n sites, threshold t and c sites on the coordinator's side, two lists that t sites confirm
share an honest site as long as **2t > n + c**: the honest ones are n − c, each confirms one list,
and the c confirm both, so two lists would need 2t ≤ (n − c) + 2c. Every sum that is revealed then
holds at least t vectors, of which t − c are honest: with variance σ²/(t − c) in each, what the
coordinator does not know of the noise has variance σ². With c′ instead of c on its side it is
σ²·(t − c′)/(t − c).
"""

from __future__ import annotations

import dataclasses
import math

from tacit._core.check import Integer, check
from tacit.errors import NotCertified, ParameterError
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from tacit.privacy.guarantee import round_up, shown

__all__ = [
    "check_threshold",
    "default_threshold",
    "epsilon_against",
    "most_colluding",
    "said_of_colluding",
]


def default_threshold(sites: int, colluding: int = 1) -> int:
    """Return ⌈2n/3⌉, raised until 2t > n + c.

    >>> [default_threshold(n) for n in (2, 3, 5, 10, 100)]
    [2, 3, 4, 7, 67]
    """
    check("colluding", colluding, Integer(0))
    found = max(2, -(-2 * sites // 3), (sites + colluding) // 2 + 1)
    check_threshold(sites, found, colluding)
    return found


def check_threshold(sites: int, threshold: int, colluding: int) -> None:
    """Raise unless 2t > n + c and t ≤ n."""
    check("colluding", colluding, Integer(0))
    check("threshold", threshold, Integer(2))
    if not sites + colluding < 2 * threshold <= 2 * sites:
        raise ParameterError(
            f"threshold must be more than half of the {sites} sites and {colluding} that collude "
            f"together, and at most all of them, got {threshold}: with less, two lists could be "
            "confirmed"
        )


def most_colluding(sites: int, threshold: int) -> int:
    """Return the largest c with 2t > n + c; it is below t."""
    return 2 * threshold - sites - 1


def against(event: DpEvent, factor: float) -> DpEvent:
    """Return an event of Gaussian noise with the noise multiplied by a factor."""
    if isinstance(event, GaussianDpEvent):
        return GaussianDpEvent(event.noise_multiplier * factor)
    if isinstance(event, SelfComposedDpEvent | PoissonSampledDpEvent):
        return dataclasses.replace(event, event=against(event.event, factor))
    if isinstance(event, ComposedDpEvent):
        return ComposedDpEvent(tuple(against(part, factor) for part in event.events))
    if isinstance(event, NoOpDpEvent | NonPrivateDpEvent):
        return event
    raise NotCertified(f"{type(event).__name__} does not come in shares of Gaussian noise")


def epsilon_against(
    event: DpEvent, delta: float, threshold: int, colluding: int, others: int
) -> float:
    """Return ε against a coordinator with another number of sites on its side, rounded up.

    Parameters
    ----------
    event, delta
        What is charged, for ``colluding`` sites.
    threshold, colluding
        t and c: each share of the noise has variance σ²/(t − c).
    others
        c′ < t, how many really collude.
    """
    factor = math.sqrt((threshold - others) / (threshold - colluding))
    return round_up(epsilon_of(against(event, factor), delta))


def said_of_colluding(
    sites: int, threshold: int, colluding: int, event: DpEvent | None, delta: float
) -> tuple[str, ...]:
    """Return what a certificate or a policy's page says about secure sums, in words.

    Parameters
    ----------
    sites, threshold, colluding
        n, t and c.
    event, delta
        What is charged where the noise comes in shares; None where each site adds all of its own.
    """
    most = most_colluding(sites, threshold)
    lines = [
        f"secure sums over at least {threshold} of {sites} sites, whose identities are pinned; no "
        f"sum over fewer is seen while at most {most} of them are on the coordinator's side",
    ]
    if event is not None:
        line = f"ε is for a coordinator with {colluding} of the other sites on its side"
        for others in sorted({0, most} - {colluding}):
            epsilon = epsilon_against(event, delta, threshold, colluding, others)
            line += f"; with {others} it is {shown(epsilon, 4)}"
        lines.append(line)
    lines.append(
        "integrity is not promised: nobody sees through a secure sum, so one site can spoil it"
    )
    return tuple(lines)
