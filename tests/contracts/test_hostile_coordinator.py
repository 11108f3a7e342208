"""Every agreement that exists is attacked as a hostile coordinator would (DESIGN §9, PRIVACY A10).

Requests that must be refused, releases that must not be drawn twice, and a search over accepted
requests for neighbours that move a release further than was agreed.
"""

from __future__ import annotations

import copy
import dataclasses
import math

import numpy as np
import pytest

from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.privacy.guarantee import TRUSTS
from tests.contracts.hostile import (
    ROOM,
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


@pytest.mark.parametrize("kind", sorted({type(a) for a in EXAMPLES.values()}, key=repr))
def test_a_trust_that_is_not_given_is_refused(kind: type[Agreement], monkeypatch) -> None:
    """Whatever an estimator forgets to check: no steps are made for it, so no certificate."""
    private = [a for a in EXAMPLES.values() if type(a) is kind and a.privacy is not None]
    for trust in set(TRUSTS) - set(kind.trusts):
        twin = copy.copy(private[0])
        twin.__dict__.pop("steps", None)
        other = dataclasses.replace(private[0].privacy, trust=trust, against=None)
        if "privacy" in vars(twin):
            object.__setattr__(twin, "privacy", other)
        else:  # it follows from another field
            monkeypatch.setattr(kind, "privacy", other)
        with pytest.raises(ParameterError, match="does not give it"):
            _ = twin.steps


def test_no_site_can_make_a_total_infinite(agreement: Agreement) -> None:
    """A reply that no data and no noise can give is refused, whoever sends it."""
    for step in agreement.steps:
        for name, spec in step.resolved({}).items():
            shape = tuple(n if isinstance(n, int) else 1 for n in spec.shape)
            assert math.isfinite(spec.low) and math.isfinite(spec.high), (step.name, name)
            if spec.dtype == "float64" and math.prod(shape):
                known = dataclasses.replace(spec, shape=shape, rule=None)
                for huge in (1e300, -1e300):
                    assert known.problem(np.full(shape, huge)) is not None, (step.name, name)


def test_a_step_is_not_drawn_twice(agreement: Agreement) -> None:
    attack_restart(agreement)


def test_no_accepted_request_moves_a_release_too_far(agreement: Agreement) -> None:
    """Nor does a member of weight w move one by more than w of what others may."""
    reached = attack_neighbours(agreement, searches=20)
    check_reach(agreement, reached)
    weights = getattr(getattr(agreement, "problem", None), "weights", {})
    assert max(reached.values(), default=0.0) <= weights.get("0", 1.0) + ROOM, reached


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
