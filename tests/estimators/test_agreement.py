"""Steps, the order in which they are asked, their price, and the gate that draws them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tacit.errors import BudgetExceeded, NothingReleased, ParameterError, RequestRefused
from tacit.estimators.agreement import Agreement, Ask, Kind, Neighbours, Start, Step
from tacit.estimators.fit import reserve
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Order
from tacit.estimators.site import Site
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import GaussianDpEvent, compose, repeat
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.messages import ArraySpec

NUMBER = {"number": ArraySpec(())}
WEAK, STRONG = Gaussian(20.0, 1.0), Gaussian(40.0, 1.0)
REQUEST = Privacy(1.0, 1e-6, unit="row")


@dataclass(frozen=True)
class Rounds(Agreement):
    """A number, asked for three times, and another one in two disjoint parts."""

    privacy: Privacy | None = REQUEST
    sites: int = 1
    assumptions = ()

    def _steps(self) -> tuple[Step, ...]:
        return (
            Step("sizes", open="a size", replies=NUMBER, optional=True),
            Step("walk", STRONG, replies=NUMBER, times=3),
            Step("men", WEAK, replies=NUMBER, part="men"),
            Step("women", STRONG, replies=NUMBER, part="women"),
        )

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Any:
        raise NotImplementedError

    def coordinate(self, start: Start) -> Any:
        yield Ask("walk")

    def worst_case(self) -> Neighbours:
        return Neighbours(0.0, 1.0)

    @classmethod
    def examples(cls) -> Iterator[Rounds]:
        yield cls()


def gate_of(agreement: Agreement) -> Gate:
    ledger = Ledger.memory(epsilon=1.0, delta=1e-6)
    held = reserve(agreement, [Site("site", None, ledger)], "test")["site"]
    return Gate(held, Noise("grid", seed=0))


def test_the_price_is_that_of_every_round_and_of_the_dearest_part():
    found = Rounds().event
    assert found == compose([repeat(STRONG.event, 3), WEAK.event])
    assert isinstance(WEAK.event, GaussianDpEvent)
    assert WEAK.event.noise_multiplier < STRONG.event.noise_multiplier
    assert (Rounds().rounds, Rounds().open_rounds, Rounds().opened) == (6, 1, ("a size",))


def test_every_round_is_drawn_once():
    agreement = Rounds()
    gate, walk = gate_of(agreement), agreement.step("walk")
    drawn = [float(gate.release(walk, np.array(1.0), position)) for position in range(3)]
    assert len(set(drawn)) == 3
    for position in range(3):
        with pytest.raises(BudgetExceeded, match="before"):
            gate.release(walk, np.array(1.0), position)


def test_disjoint_parts_are_paid_for_together():
    agreement = Rounds()
    gate = gate_of(agreement)
    for name in ("men", "women"):
        gate.release(agreement.step(name), np.array(1.0))
        with pytest.raises(BudgetExceeded):
            gate.release(agreement.step(name), np.array(1.0))


def test_the_gate_draws_with_what_was_agreed_on():
    agreement = Rounds()
    gate, walk = gate_of(agreement), agreement.step("walk")
    with pytest.raises(NothingReleased, match="agreed"):
        gate.release(walk, np.array(1.0), mechanism=WEAK)
    with pytest.raises(ParameterError, match="draws nothing"):
        gate.release(agreement.step("sizes"), np.array(1.0))
    with pytest.raises(ParameterError, match="not open"):
        gate.open(walk, {"number": 1.0})
    gate.release(walk, np.array(1.0), mechanism=Gaussian(40.0, 1.0))


def test_steps_are_asked_in_order_and_no_more_often_than_agreed():
    order = Order(Rounds().steps)
    with pytest.raises(RequestRefused):
        order.admit(0, "men")
    step, used = order.admit(0, "walk")  # what is optional may be skipped
    assert (step.name, used) == ("walk", 0)
    order.advance(step)
    with pytest.raises(RequestRefused, match="next"):
        order.admit(1, "sizes")
    for round in (1, 2):
        assert order.admit(round, "walk")[1] == round
        order.advance(step)
    with pytest.raises(RequestRefused, match="next"):
        order.admit(3, "walk")
    with pytest.raises(RequestRefused, match="round"):
        order.admit(2, "men")
    assert order.admit(3, "men") == (Rounds().step("men"), 0)


def test_a_kind_or_a_choice_beyond_what_is_paid_for_is_refused():
    with pytest.raises(ParameterError, match="moves a sum"):
        Step("sum", WEAK, replies=NUMBER, kinds={"far": Kind({}, 1.01)})
    Step("sum", WEAK, replies=NUMBER, kinds={"near": Kind({}, 1.0)})
    with pytest.raises(ParameterError, match="costs more"):
        Step("sum", STRONG, replies=NUMBER, kinds={"weak": Kind({}, mechanism=WEAK)})
    same = Kind({}, mechanism=Gaussian(40.0, 1.0))
    Step("sum", STRONG, replies=NUMBER, kinds={"same": same})
    for wrong in ({}, {"mechanism": WEAK, "open": "a size"}, {"open": "x", "view_of": "y"}):
        with pytest.raises(ParameterError, match="must have"):
            Step("sum", **wrong)
