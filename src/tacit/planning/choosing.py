"""What choosing settings on private data costs: every candidate is a release of its own."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tacit._core.answers import Answer, Answering, Table
from tacit._core.check import Integer, check
from tacit._core.pictures import Bars
from tacit.errors import ParameterError
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.answers import left_number, spent_number
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import GaussianDpEvent, repeat
from tacit.privacy.guarantee import Privacy, round_up, shown, shown_left

__all__ = ["ChoicePrice", "price_of_choosing"]


@dataclass(frozen=True)
class ChoicePrice(Answering):
    """What choosing among candidates on private data costs.

    Parameters
    ----------
    candidates
        How many are fitted.
    total
        ε of all of them, if each has what was asked for.
    each
        ε that each may have, if all of them together are to have what was asked for.
    """

    candidates: int
    total: float
    each: float

    def _answer(self, level: float) -> Answer:
        what = [f"all {self.candidates}, each as asked for", "each, if all are as asked for"]
        costs = [spent_number(self.total), left_number(self.each)]
        return Answer(
            f"Choosing among {self.candidates} candidates on private data",
            f"{str(self)[0].upper()}{str(self)[1:]}.",
            (Table("price", "What choosing costs", {"of": what, "ε": costs}),),
            pictures={"price": Bars("What choosing costs", "ε", what, costs)},
        )

    def __str__(self) -> str:
        return (
            f"fitting {self.candidates} candidates on the private data and keeping the best costs "
            f"ε = {shown(self.total, 4)} in all, or leaves each ε = {shown_left(self.each, 4)} of "
            "the budget"
        )


def price_of_choosing(privacy: Privacy, candidates: int) -> ChoicePrice:
    """Return what it costs to choose settings on private data, by fits that each are released.

    Parameters
    ----------
    privacy
        The guarantee of one fit, with Gaussian noise.
    candidates
        How many settings are tried.

    Examples
    --------
    >>> found = price_of_choosing(Privacy(1.0, 1e-6), 4)
    >>> 1.9 < found.total < 2.3, 0.4 < found.each < 0.6
    (True, True)
    """
    check("candidates", candidates, Integer(1))
    if not privacy.delta > 0.0:
        raise ParameterError("privacy.delta must be positive: pass Privacy(epsilon, delta=1e-6)")
    sigma = gaussian_sigma(privacy.epsilon, privacy.delta)
    total = epsilon_of(repeat(GaussianDpEvent(sigma), candidates), privacy.delta)
    # k Gaussian releases with noise √k·σ are one with σ
    each = epsilon_of(GaussianDpEvent(sigma * math.sqrt(candidates)), privacy.delta)
    return ChoicePrice(candidates, round_up(total, 6), round_up(each, 6))
