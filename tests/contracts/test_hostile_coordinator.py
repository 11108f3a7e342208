"""Every agreement that exists is attacked as a hostile coordinator would (DESIGN §9, PRIVACY A10).

Requests that must be refused, releases that must not be drawn twice, and a search over accepted
requests for neighbours that move a release further than was agreed.
"""

from __future__ import annotations

import math

import pytest

from tacit.estimators.agreement import Agreement
from tests.contracts.hostile import (
    Wild,
    attack_neighbours,
    attack_requests,
    attack_restart,
    check_reach,
    examples,
    play,
)

EXAMPLES = dict(examples())


@pytest.fixture(params=EXAMPLES.values(), ids=EXAMPLES.keys())
def agreement(request: pytest.FixtureRequest) -> Agreement:
    return request.param


def test_what_is_not_agreed_is_refused_before_anything_happens(agreement: Agreement) -> None:
    attack_requests(agreement)


def test_a_step_is_not_drawn_twice(agreement: Agreement) -> None:
    attack_restart(agreement)


def test_no_accepted_request_moves_a_release_too_far(agreement: Agreement) -> None:
    check_reach(agreement, attack_neighbours(agreement, searches=20))


RANGED = {
    name: agreement
    for name, agreement in EXAMPLES.items()
    if all(step.merge == "sum" for step in agreement.steps)
    and any(
        math.isfinite(spec.high)
        for step in agreement.steps
        for asks in (step.asks, *(kind.asks for kind in step.kinds.values()))
        for spec in asks.values()
    )
}


@pytest.mark.parametrize("name", RANGED)
def test_an_honest_coordinator_asks_within_the_ranges_whatever_was_released(name: str) -> None:
    """A request that noise has carried out of its range would be refused, and the run lost."""
    agreement = EXAMPLES[name]
    play(agreement, agreement.worst_case().data, Wild(agreement))


@pytest.mark.slow
def test_no_accepted_request_moves_a_release_too_far_in_a_long_search(
    agreement: Agreement,
) -> None:
    attack_neighbours(agreement, searches=1000)
