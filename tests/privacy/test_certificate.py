"""What a certificate says in words: the unit, and how a neighbour changes it."""

import pytest

from tacit.privacy.certificate import Certificate
from tacit.privacy.events import ADD_REMOVE, REPLACE, LaplaceDpEvent
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
