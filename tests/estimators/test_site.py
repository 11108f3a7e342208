"""Sites: a name, data that never shows, a ledger of one's own."""

import pytest

from tacit.errors import ParameterError
from tacit.estimators.site import Site, check_sites
from tacit.privacy.ledger.ledger import Ledger


def test_the_representation_does_not_show_the_data():
    site = Site("North", {"diagnosis": ["secret"]}, Ledger.memory(epsilon=1.0))
    assert "North" in repr(site)
    assert "secret" not in repr(site)
    assert "diagnosis" not in repr(site)


def test_a_site_cannot_be_changed():
    site = Site("North", None)
    with pytest.raises(AttributeError):
        site.ledger = Ledger.memory(epsilon=100.0)


@pytest.mark.parametrize("name", [None, 3, b"North", ("North",)])
def test_a_name_must_be_text(name):
    with pytest.raises(ParameterError, match="name must be of type str"):
        Site(name, None)


@pytest.mark.parametrize("ledger", ["north.db", 1.0, {}])
def test_a_ledger_must_be_a_ledger(ledger):
    with pytest.raises(ParameterError, match="ledger must be of type Ledger or None"):
        Site("North", None, ledger)


def test_sites_need_distinct_names():
    check_sites([Site("North", None), Site("South", None)])
    with pytest.raises(ParameterError, match="distinct names"):
        check_sites([Site("North", None), Site("South", None), Site("North", None)])


def test_sites_need_ledgers_of_their_own(tmp_path):
    one, other = Ledger.memory(epsilon=1.0), Ledger.memory(epsilon=1.0)
    check_sites([Site("North", None, one), Site("South", None, other), Site("West", None)])
    with pytest.raises(ParameterError, match="a ledger of its own"):
        check_sites([Site("North", None, one), Site("South", None, one)])
    first = Ledger.open(tmp_path / "a.db", epsilon=1.0)
    again = Ledger.open(tmp_path / "a.db")  # another handle of the same file
    with pytest.raises(ParameterError, match="a ledger of its own"):
        check_sites([Site("North", None, first), Site("South", None, again)])
