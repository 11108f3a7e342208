"""What a certificate says in words: the unit, and how a neighbour changes it."""

import json

import pytest

from tacit.errors import VerificationFailed
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import ADD_REMOVE, REPLACE, GaussianDpEvent, LaplaceDpEvent
from tacit.privacy.guarantee import UNITS, Privacy

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
