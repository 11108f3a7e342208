"""Curves ε(δ): the whole trade-off of a release, of which a headline is one point."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tacit._core.check import Real, check
from tacit.privacy.accounting.accountants import accountant as new_accountant
from tacit.privacy.events import DpEvent
from tacit.privacy.guarantee import round_up

__all__ = ["DELTAS", "Curve", "curve_of"]

DELTAS = tuple(10.0**-power for power in range(1, 13))


@dataclass(frozen=True)
class Curve:
    """ε at every δ, rounded up and falling: a release has all of these guarantees at once.

    Attributes
    ----------
    points
        (δ, ε), the largest δ first; ε is infinite where there is no guarantee.
    accountant
        Which accountant computed it.
    """

    points: tuple[tuple[float, float], ...]
    accountant: str = "pld"

    @property
    def finite(self) -> tuple[tuple[float, float], ...]:
        """The points that are a guarantee."""
        return tuple((delta, epsilon) for delta, epsilon in self.points if math.isfinite(epsilon))


def curve_of(
    events: DpEvent | Iterable[DpEvent],
    *,
    accountant: str = "pld",
    deltas: Sequence[float] | None = None,
) -> Curve:
    """Return ε of an event at several δ; of several events that of the dearest at each δ.

    Parameters
    ----------
    events
        A fixed schedule; or one for each group of units.
    accountant
        Which one computes.
    deltas
        Where; 10⁻¹ … 10⁻¹² unless given.

    Examples
    --------
    >>> from tacit.privacy.events import GaussianDpEvent
    >>> curve_of(GaussianDpEvent(2.0), deltas=[1e-3, 1e-6]).points
    ((0.001, 1.35227625), (1e-06, 2.25408466))
    """
    wanted = sorted(DELTAS if deltas is None else deltas, reverse=True)
    for delta in wanted:
        check("delta", delta, Real(0, 1, open_high=True))
    each = [events] if isinstance(events, DpEvent) else list(events)
    counted = [new_accountant(accountant).add(event) for event in each]
    points, least = [], 0.0
    for delta in wanted:
        # a guarantee at a smaller δ holds at a larger one: the curve falls as δ grows
        least = max([least, *(round_up(one.epsilon(delta)) for one in counted)])
        points.append((float(delta), least))
    return Curve(tuple(points), accountant)
