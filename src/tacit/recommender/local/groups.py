"""`LocalGroups`: the settings of offsets of public groups of items; see `group_agreement`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit._core.lazy import late
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.factorization.offsets.sums import HALF
from tacit.mechanisms.local import LocalNumber
from tacit.mechanisms.one_bit import OneBitMean
from tacit.mechanisms.piecewise import Piecewise
from tacit.privacy.calibration import gaussian_sigma, shuffled_local_epsilon
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.recommender.local.hierarchy import (
    LevelNeed,
    level_needs,
    levels_of,
)
from tacit.recommender.method import RecommenderMethod, Task

__all__ = ["LOCAL", "OWN", "LocalGroups"]

_ANSWERS: dict[str, type[LocalNumber]] = {"one-bit": OneBitMean, "piecewise": Piecewise}
LOCAL = ("local", "shuffler")
OWN = 0.15  # the typical variance of a person's own answer about a group, for values in [−2, 2]


@dataclass(frozen=True)
class LocalGroups(RecommenderMethod):
    """Certified: the overall mean and offsets of public groups of items, whoever is trusted.

    Parameters
    ----------
    levels
        The public hierarchy, coarse levels first: name → a label for every item, in the order of
        items. Without one only the overall mean is learned.
    answer
        ``"one-bit"``, ``"piecewise"``, or ``"auto"``: whichever has the smaller variance at ε.
    clip
        c, where a person's answer is clipped, of a half-range of 2.

    Examples
    --------
    >>> method = LocalGroups({"kind": [0, 0, 1, 1]})
    >>> [need.people for need in method.needs(people=100_000, privacy=Privacy(1.0))]
    [95000]
    """

    levels: Any = ()
    answer: str = "auto"
    clip: float = 0.5

    unit: ClassVar[str] = "user"
    trusts: ClassVar[tuple[str, ...]] = (*LOCAL, "aggregator", "site", "central")
    told: ClassVar[tuple[str, ...]] = ("levels", "answer", "clip")

    def __post_init__(self) -> None:
        check("answer", self.answer, OneOf("auto", *_ANSWERS))
        check("clip", self.clip, Real(0, 2 * HALF, open_low=True))
        object.__setattr__(self, "levels", levels_of(self.levels))

    def settings(self) -> dict[str, Any]:
        """Return the settings that a release carries: the hierarchy too, which is public."""
        levels = [[level.name, list(level.groups)] for level in self.levels]
        return {**super().settings(), "levels": levels}

    def check(self, task: Task) -> None:
        """Refuse a hierarchy of other items, and what a trust cannot give."""
        super().check(task)
        if self.levels and len(self.levels[0].groups) != task.items:
            raise ParameterError(
                f"levels are of {len(self.levels[0].groups)} items, and there are {task.items}: "
                "pass a label for every item, in the order of items"
            )
        privacy = task.privacy
        if privacy is None or not task.noisy:
            return
        if privacy.trust == "shuffler" and not task.devices:
            raise ParameterError("a shuffler needs all messages in one place: pass trust='local'")
        self._check_delta(privacy)

    @staticmethod
    def _check_delta(privacy: Privacy) -> None:
        if privacy.trust not in ("local", None) and privacy.delta == 0.0:
            raise ParameterError(
                f"trust={privacy.trust!r} gives (ε, δ): pass Privacy(…, delta=1e-6)"
            )

    def agree(self, task: Task) -> Agreement:
        """Return what is public about a fit."""
        self.check(task)
        kind = late(f"{__package__}.group_agreement").GroupsAgreement
        found: Agreement = kind(self, task, task.privacy, task.sites)
        return found

    def needs(
        self, people: int, privacy: Privacy, sizes: Sequence[int] | None = None
    ) -> list[LevelNeed]:
        """Return what every level needs, before any data is read.

        Parameters
        ----------
        people
            How many there will be.
        privacy
            What they will be given; its trust is ``"local"`` unless stated.
        sizes
            How many groups there are in every level, where there is no hierarchy yet.
        """
        check("people", people, Integer(1))
        privacy = privacy.suiting(self.unit, "local", REPLACE)
        self._check_delta(privacy)
        if sizes is None:
            names, sizes = [v.name for v in self.levels], [v.size for v in self.levels]
        else:
            names = [f"level {k + 1}" for k in range(len(sizes))]
        if privacy.trust != "shuffler":
            return level_needs(
                names,
                sizes,
                people,
                privacy.epsilon,
                lambda epsilon, count: self.variance(privacy.with_epsilon(epsilon), count),
            )
        # as the bound's leading term has it, e^{ε₀/2} ~ ε·√n: the bound itself at one place only
        here = shuffled_local_epsilon(privacy.epsilon, privacy.delta, people)

        def alone(epsilon: float, count: int) -> float:
            gained = 2.0 * math.log(epsilon / privacy.epsilon) + math.log(max(count, 1) / people)
            local = min(max(here + gained, epsilon, 1e-3), 25.0)
            return self.variance(Privacy(local, unit="user", trust="local"), count)

        return level_needs(names, sizes, people, privacy.epsilon, alone)

    def variance(self, privacy: Privacy, people: int) -> float:
        """Return s², the variance of an answer, for values in [−2, 2]; as a rule.

        Of a sum it is that of one person's part of it, by which people are shared out as well.
        """
        if privacy.trust in (*LOCAL, None):
            inner = self._inner(privacy, people)
            return self.clip**2 * float(np.mean(inner.variance(np.array([0.0, 0.5])))) + OWN
        noise = 2.0 * gaussian_sigma(privacy.epsilon, max(privacy.delta, 1e-12))
        return self.clip**2 * noise**2 / max(people, 1) + OWN

    def _inner(self, privacy: Privacy, people: int) -> LocalNumber:
        epsilon = privacy.epsilon
        if privacy.trust == "shuffler":
            epsilon = shuffled_local_epsilon(epsilon, privacy.delta, max(people, 1))
        if self.answer != "auto":
            return _ANSWERS[self.answer](epsilon)
        middle = np.array([0.4])  # of the size of a typical answer
        both = [kind(epsilon) for kind in _ANSWERS.values()]
        return min(both, key=lambda one: float(one.variance(middle)[0]))
