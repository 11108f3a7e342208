"""What a certificate says in words, and that it cannot state less than its events give."""

import json
import math
from dataclasses import replace

import pytest

from tacit.errors import NotCertified, VerificationFailed
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
)
from tacit.privacy.guarantee import UNITS, Privacy

_LAPLACE = {"type": "LaplaceDpEvent", "noise_multiplier": 1.0}
WORDS = {"entry": "cell", "row": "row", "user": "user", "document": "document"}


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    ("neighbours", "change"), [(REPLACE, "replaced"), (ADD_REMOVE, "added or removed")]
)
def test_the_sentence_says_what_one_neighbour_changes_and_how(unit, neighbours, change):
    asked = Privacy(1.0, unit=unit, neighbours=neighbours)
    text = str(Certificate.issue(asked, LaplaceDpEvent(1.0)))
    other = {"replaced", "added or removed"} - {change}
    assert WORDS[unit] in text and change in text and neighbours in text
    assert not any(word in text for word in other)


def _changed(**fields):
    from tacit.privacy.certificate import _digest

    asked = Privacy(1.0, 1e-6, unit="row", trust="site")
    given = Certificate.issue(asked, GaussianDpEvent(4.0), assumptions=("a",), holder="North")
    data = json.loads(given.to_json()) | fields
    data.pop("digest")
    return json.dumps(data | {"digest": _digest(data)})


@pytest.mark.parametrize(
    "fields",
    [
        {"epsilon": -1.0},
        {"epsilon": "1.0"},
        {"epsilon": None},
        {"epsilon": True},
        {"delta": 1.0},
        {"delta": "inf"},
        {"unit": "patient"},
        {"neighbours": "swap"},
        {"trust": "me"},
        {"against": 7},
        {"assumptions": "none"},
        {"assumptions": [1]},
        {"accountant": "mine"},
        {"groups": 3},
        {"groups": {"a": {"epsilon": 1.0}}},
        {"groups": {"a": [1, 2]}},
        {"groups": {"a": {"epsilon": 1.0, "event": _LAPLACE, "more": 1}}},
        {"calibration": "trusted"},
        {"claimed_epsilon": "small"},
        {"holder": ["North"]},
        {"ledger": {"ledger": "x"}},
        {"ledger": {"ledger": "x", "counter": -1, "digest": "", "durable": True}},
        {"event": "GaussianDpEvent"},
        {"event": {"type": "GaussianDpEvent", "noise_multiplier": "4"}},
        {"event": {"type": "SelfComposedDpEvent", "event": 3, "count": 2}},
        {"more": 1},
        {"schema": 1.5},
    ],
    ids=str,
)
def test_every_field_of_a_certificate_that_is_read_is_checked(fields):
    Certificate.from_json(_changed()).verify()
    with pytest.raises(VerificationFailed):
        Certificate.from_json(_changed(**fields))


@pytest.mark.parametrize("event", [LaplaceDpEvent(1.0), GaussianDpEvent(2.0)])
def test_a_certificate_states_the_epsilon_of_its_events_to_six_digits(event):
    stated = Certificate.issue(Privacy(1.0, 1e-6), event, groups={"some": event}).verify()
    for factor in (1.0 - 1e-5, 1.0 + 1e-5, 0.5, math.inf):
        wrong = stated.epsilon * factor
        with pytest.raises(VerificationFailed, match="the certificate states"):
            replace(stated, epsilon=wrong).verify()
        with pytest.raises(VerificationFailed, match="group 'some' states"):
            replace(stated, groups={"some": (event, wrong)}).verify()


def test_a_certificate_of_another_relation_is_not_issued():
    for stated, recorded in ((REPLACE, ADD_REMOVE), (ADD_REMOVE, REPLACE)):
        event = PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0), recorded)
        with pytest.raises(NotCertified, match="was recorded for"):
            Certificate.issue(Privacy(1.0, 1e-6, neighbours=stated), event)


def test_a_published_claim_says_what_it_leaves_out():
    with pytest.raises(NotCertified, match="what it omits"):
        Certificate.issue(Privacy(1.0, 1e-6), GaussianDpEvent(2.0), claimed_epsilon=0.5)
