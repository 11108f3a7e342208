"""What every method of `PrivateRecommender` has in common.

A method learns a public table of items (a base value and features each) from ratings that stay
with their users. A prediction is base_j + w_i·f_j, divided by W_ij where ratings were stretched;
the row w_i is the user's own and never leaves the device.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from tacit.errors import ParameterError
from tacit.estimators.recommender_weights import PrivacyWeights
from tacit.inference.members import ByMember
from tacit.privacy.events import REPLACE, DpEvent, NonPrivateDpEvent
from tacit.privacy.guarantee import Privacy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

    Floats = NDArray[np.float64]

__all__ = ["Learned", "RecommenderMethod", "Task", "nothing_private"]

_BANDS = 10  # groups of ratings on a certificate, by weight


@dataclass(frozen=True)
class Task:
    """What is public before a fit.

    Attributes
    ----------
    users, items
        How many.
    bounds
        The range of a rating.
    rank
        Features per item.
    privacy
        What is asked for.
    weights
        W_ij.
    sites, shares
        Over sites: how many there are, and into how many shares noise is split under a secure sum.
    """

    users: int
    items: int
    bounds: tuple[float, float]
    rank: int
    privacy: Privacy | None
    weights: PrivacyWeights
    sites: int = 0
    shares: int = 1

    @property
    def noisy(self) -> bool:
        """Whether noise is added at all."""
        return self.privacy is not None and bool(np.isfinite(self.privacy.epsilon))

    @property
    def range(self) -> float:
        """Δ, the length of the range."""
        return self.bounds[1] - self.bounds[0]


class Learned(NamedTuple):
    """What a method learned: what everybody may see, and what each user keeps.

    Attributes
    ----------
    shared
        ``base`` (items,), ``features`` (items, width), and what a device folds its own ratings in
        with: ``penalties`` (choices, width) and ``spread`` (1,), the variance that is expected
        to remain.
    rows
        (users, width); never leaves the devices.
    stretched
        Whether predictions are divided by W_ij.
    """

    shared: Mapping[str, Floats]
    rows: Floats
    stretched: bool = False


class RecommenderMethod(ABC):
    """One way to learn; frozen settings, no state."""

    unit: ClassVar[str] = "entry"
    trusts: ClassVar[tuple[str, ...]] = ("aggregator",)
    source: ClassVar[str] = "grid"  # of noise

    def check(self, task: Task) -> None:
        """Raise where the request and the method do not go together."""
        privacy = task.privacy
        if privacy is None:
            return
        name = type(self).__name__
        if privacy.unit != self.unit:
            raise ParameterError(
                f"{name} protects unit={self.unit!r}, and {privacy.unit!r} was asked for"
            )
        if privacy.neighbours != REPLACE:
            raise ParameterError(f"{name} needs neighbours='replace-one'")
        if privacy.trust not in self.trusts:
            raise ParameterError(
                f"{name} needs trust={' or '.join(map(repr, self.trusts))}, got {privacy.trust!r}"
            )

    @abstractmethod
    def schedule(self, task: Task) -> DpEvent:
        """Return everything that a fit releases, as the worst protected rating sees it."""

    def groups(self, task: Task, cells: ByMember) -> dict[str, DpEvent]:
        """Return group of ratings → everything that a fit releases, as that group sees it."""
        return {}

    def bands(self, task: Task, cells: ByMember) -> dict[str, DpEvent]:
        """Return bands of weights that occur, each with what its heaviest rating sees."""
        weights = task.weights.of(cells.owners, cells.items)
        band = np.clip(np.ceil(weights * _BANDS - 1e-12), 1, _BANDS).astype(int)
        return {
            f"{(k - 1) / _BANDS:g} < weight ≤ {k / _BANDS:g}": self.scaled(
                task, float(weights[band == k].max())
            )
            for k in np.unique(band).tolist()
        }

    def scaled(self, task: Task, weight: float) -> DpEvent:
        """Return what a rating of some weight sees; the same for all unless weights count."""
        return self.schedule(task)

    def claim(self, task: Task) -> tuple[float, str] | None:
        """Return the ε that a paper claims and what the claim leaves out, where published."""
        return None

    @abstractmethod
    def assumptions(self, task: Task) -> tuple[str, ...]:
        """Return the public inputs and caveats besides bounds and sizes."""

    @abstractmethod
    def learn(
        self,
        task: Task,
        cells: ByMember,
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> Learned:
        """Run the protocol; ratings leave their user only through the gate."""


def nothing_private(task: Task) -> DpEvent | None:
    """Return the event of a run without noise, if this is one."""
    return None if task.noisy else NonPrivateDpEvent()
