"""The hostile contract finds every planted mistake: it would notice if a family made one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from tacit.errors import NothingReleased, ParameterError
from tacit.estimators.agreement import Agreement, Ask, Kind, Neighbours, Start, Step
from tacit.estimators.shards import Holder, Order
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import GridSum
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec
from tests.contracts.hostile import attack_neighbours, attack_requests, attack_restart

PRIVACY = Privacy(1.0, 1e-6, unit="row")


class Scaled(Holder):
    """Sums rows that the coordinator may weigh: once plainly, once by kind."""

    agreement: Toy

    def contribute(self, step: Step, asked: Any, kept: Any, shard: Any, picks: Any) -> GridSum:
        weight = float(asked["weight"][0])
        rows = shard * weight
        if asked.kind == "doubled":
            rows = rows * 2.0
        assert step.mechanism is not None
        return step.mechanism.grid.sum(rows[:, None])

    def sends(self, step: Step, asked: Any, released: Any) -> dict[str, Any]:
        more = {"rows": np.array([len(self.shards[0])])} if self.agreement.plant == "reply" else {}
        return {"sum": released, **more}


@dataclass(frozen=True)
class Toy(Agreement):
    """Two steps about numbers in [0, 1], with one planted mistake."""

    family = "toy"
    plant: str = ""
    privacy: Privacy | None = PRIVACY
    sites: int = 1

    def _steps(self) -> tuple[Step, ...]:
        stated = 0.99 if self.plant == "sensitivity" else 1.0
        high = 1.01 if self.plant == "range" else 1.0
        asks = {"weight": ArraySpec((1,), low=0.0, high=high)}
        replies = {"sum": ArraySpec((1,))}
        mechanism = Gaussian.calibrated(20.0, stated, (1,))
        kinds = {"plain": Kind(asks, stated)}
        if self.plant == "kind":
            kinds["doubled"] = Kind(asks, stated)
        return (
            Step("first", mechanism, asks, replies),
            Step("second", mechanism, kinds=kinds, replies=replies),
        )

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ("numbers in [0, 1]",)

    def holder(self, name: str, data: Any, gate: Any, seed: int | None) -> Holder:
        kind = {"twice": AskedTwice, "undeclared": Undeclared}.get(self.plant, Scaled)
        return kind(self, name, [data], gate)

    def coordinate(self, start: Start) -> Any:
        first = yield Ask("first", weight=np.ones(1))
        second = yield Ask("second", "plain", weight=np.ones(1))
        return first.total["sum"] + second.total["sum"]

    def worst_case(self) -> Neighbours:
        return Neighbours(np.array([0.5, 1.0]), np.array([0.5]))

    @classmethod
    def examples(cls) -> Iterator[Toy]:
        yield cls()


class AskedTwice(Scaled):
    """Does not remember that a step was asked."""

    def respond(self, request: Any) -> Any:
        self._last = None
        self._order = Order(self.agreement.steps)
        self._order.round = request.round
        if request.step == "second":
            self._order.at = 1
        return super().respond(request)


class Undeclared(Scaled):
    """Reads an array that its step does not name."""

    def respond(self, request: Any) -> Any:
        if "surprise" in request.arrays:
            arrays = {n: a for n, a in request.arrays.items() if n != "surprise"}
            request = replace(request, arrays=arrays)
        return super().respond(request)


def test_a_sound_agreement_passes() -> None:
    toy = Toy()
    attack_requests(toy)
    attack_restart(toy)
    reached = attack_neighbours(toy, 30)
    assert all(0.99 < share <= 1.0 + 1e-9 for share in reached.values())


@pytest.mark.parametrize("plant", ["sensitivity", "range", "kind"])
def test_a_sensitivity_that_is_stated_too_small_is_found(plant: str) -> None:
    with pytest.raises(AssertionError, match="of the stated sensitivity"):
        attack_neighbours(Toy(plant), 60)


@pytest.mark.parametrize("plant", ["twice", "undeclared"])
def test_a_request_that_must_be_refused_is_found(plant: str) -> None:
    with pytest.raises(AssertionError):
        attack_requests(Toy(plant))


def test_a_reply_that_is_not_declared_never_leaves() -> None:
    with pytest.raises(NothingReleased, match="not what was agreed on"):
        attack_requests(Toy("reply"))


def test_a_kind_beyond_its_mechanism_cannot_be_written_down() -> None:
    """The first version's hole: √(9 + 4/κ) = 3.13 under a mechanism for 2."""
    asks = {"mean": ArraySpec((1,))}
    wide = Kind(asks, math.sqrt(9.0 + 4.0 / 5.0))
    with pytest.raises(ParameterError, match="calibrated for 2"):
        Step("later", Gaussian.calibrated(4.0, 2.0, (3,)), kinds={"offsets": wide})
