"""A statistic of the first people, then the best candidate of all others: why that is private.

**Adaptively** (thesis 6.5) n_1 people come first and n_2 after them. A neighbour is replaced where
it stands, so it changes one of both parts. Every part's release is (ε, δ)-private for its own
people whatever was released of the other, also when the statistic is chosen from that, so both
together are (ε, δ)-private: a person's data enter one of the releases, and what happens before and
after is a mixture over, or post-processing of, it. The choice is a request like any other: of each
candidate that may be asked for, the mechanism is stated, and costs no more than (ε, δ). A
coordinator that asks for another one than the best learns less, not more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit._core.lazy import late
from tacit._core.reasons import told_to_holder
from tacit._core.rng import generator
from tacit.estimators.agreement import Agreement, Ask, Coordinating, Kind, Neighbours, Start, Step
from tacit.estimators.gate import Gate
from tacit.posterior.agreement import POWERS, PosteriorAgreement
from tacit.posterior.numerics.infer import ParameterPosterior
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic
from tacit.posterior.numerics.populations.laws import Bernoulli, Exponential
from tacit.posterior.numerics.statistics import as_statistic
from tacit.posterior.ranking import Comparison, Ranking
from tacit.privacy.calibration import SOURCE_SHARE
from tacit.privacy.events import REPLACE, ApproximateDpEvent
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import Size
from tacit.rounds.sides import Participant

__all__ = ["Selected", "SelectorAgreement"]


class Selected(NamedTuple):
    """What choosing adaptively gave."""

    releases: tuple[NoisyStatistic, NoisyStatistic]  # of the first people, and of the rest
    ranking: Ranking  # of the candidates, given the first release
    posterior: ParameterPosterior | None  # given both; None where the prior excludes them
    unexplained: str = ""  # why there is none


@dataclass(frozen=True)
class SelectorAgreement(Agreement):
    """A statistic of the first people, then the best of the candidates of all others.

    Parameters
    ----------
    first, rest
        What the first people release, and what the others may be asked for.
    model
        Under which candidates are compared; it decides what is asked for, and nothing else.
    privacy
        What both parts are asked to give.
    sites
        One: both parts have one holder.
    """

    family = "posterior"
    trusts = ("central", "local")

    first: PosteriorAgreement
    rest: tuple[PosteriorAgreement, ...]
    model: Comparison
    privacy: Privacy | None
    sites: int = 1

    @property
    def cites(self) -> tuple[str, ...]:
        """What any of both parts builds on."""
        return tuple(dict.fromkeys(key for part in (self.first, *self.rest) for key in part.cites))

    @property
    def cost(self) -> ApproximateDpEvent | None:
        """What a person is charged: one (ε, δ), less what is left for the noise source."""
        privacy = self.privacy
        if privacy is None or math.isinf(privacy.epsilon):
            return None
        return ApproximateDpEvent(privacy.epsilon, privacy.delta * (1.0 - SOURCE_SHARE))

    @cached_property
    def kinds(self) -> dict[str, Kind]:
        """What the rest may be asked for; one candidate is named by its place."""
        return {
            f"{number} {part.statistic.name}": Kind(
                {}, reach=part.reach, mechanism=part.mechanism, merge=part.merge
            )
            for number, part in enumerate(self.rest)
        }

    def _steps(self) -> tuple[Step, ...]:
        replies = self.rest[0].replies["values"]
        numbers = Size("numbers", max(part.width for part in self.rest))
        rest = Step(
            "rest",
            self.rest[0].mechanism,
            replies={"values": replace(replies, shape=(numbers,))},
            kinds=self.kinds,
            part="rest",
            cost=self.cost,
            reach="the worst neighbour is among the first people",
        )
        return self.first.step_called("first", part="first", cost=self.cost), rest

    @property
    def size(self) -> int:
        """The number of people."""
        return self.first.size + self.rest[0].size

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The public inputs; a part's own number of people follows from the two stated."""
        ranges = (note for part in (self.first, *self.rest) for note in part.ranges)
        return (
            f"the first {self.first.size} people and the others are disjoint; the order says "
            "nothing",
            f"the number of people, {self.size}, is public",
            *dict.fromkeys(ranges),
        )

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return the holder of one number for each person, in an order that says nothing."""
        parts = {"first": data[: self.first.size], "rest": data[self.first.size :]}
        made: Participant = late(f"{__package__}.sides").Chunks(self, name, [parts], gate)
        return made

    def rank(self, thetas: Array, seed: int | None) -> Ranking:
        """Return the candidates for the rest, the most informative at θ first."""
        assert self.privacy is not None
        return self.model.rank([part.planned for part in self.rest], thetas, self.privacy, seed)

    def coordinate(self, start: Start) -> Coordinating:
        """Ask the first people, choose by what they told, ask the rest, infer from both."""
        rng = generator(start.seed, "adaptive")
        found = yield Ask("first")
        early = self.first.told(found.total["values"])
        try:
            points = self.model.drawn(self.model.infer([early], rng), rng)
            ranking = self.rank(points, start.seed)
        except Exception:  # such as a prior that excludes what the first people released
            ranking = self.rank(self.model.points, start.seed)
        best = ranking.best.place
        found = yield Ask("rest", list(self.kinds)[best])
        late = self.rest[best].told(found.total["values"])
        try:
            posterior = self.model.infer([early, late], rng)
        except Exception as error:  # both were paid for: the fit does not fail any more
            return Selected((early, late), ranking, None, told_to_holder(error))
        return Selected((early, late), ranking, posterior)

    def shared(self, result: Selected) -> dict[str, Any]:
        """The noisy numbers of both parts."""
        early, late = result.releases
        return {"first": early.values, "rest": late.values}

    def worst_case(self) -> Neighbours:
        """The worst case of the first people's statistic; nobody else moves."""
        data, other = self.first.worst_case()
        rest = self.rest[0].worst_case().data
        return Neighbours(*(np.concatenate([part, rest]) for part in (data, other)))

    @classmethod
    def examples(cls) -> Iterator[SelectorAgreement]:
        """Sums, order statistics, vectors and local answers to choose from."""
        central = Privacy(2.0, 1e-5, unit="row", neighbours=REPLACE)
        local = replace(central, unit="user", trust="local", delta=0.0)
        wide, bits = (0.0, 10.0), (0.0, 1.0)
        waits = Comparison(Exponential(), None, wide, (3.0,), 1, 40, 4)
        shares = Comparison(Bernoulli(), None, bits, (0.3,), 1, 40, 4)
        for model, privacy, candidates, how in (
            (waits, central, ("|x|^2", "mean", "median", POWERS), "auto"),
            (waits, local, ("mean",), "laplace"),
            (shares, local, ("mean",), "randomized-response"),
        ):
            first, *rest = (
                PosteriorAgreement(as_statistic(one), model.bounds, 30, privacy, how, "grid")
                for one in ("mean", *candidates)
            )
            yield cls(first, tuple(rest), model, privacy)
