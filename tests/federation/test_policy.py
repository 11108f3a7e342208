"""A site's policy: what differs from what was consented to is refused, and said."""

import math
from dataclasses import replace

import pytest

from tacit.errors import PolicyRefused
from tacit.federation.policy import Permission, Policy
from tacit.federation.proposal import Proposal

PRIVACY = {
    "epsilon": 1.0,
    "delta": 1e-6,
    "unit": "row",
    "neighbours": "add-remove-one",
    "trust": "aggregator",
}
SETTINGS = {"columns": {"age": [0, 100]}, "bins": 4}
ALLOWED = Permission(
    "summary", 1.0, 1e-6, "row", SETTINGS, partners=3, neighbours="add-remove-one",
    trust="aggregator", sites=("A", "B", "C", "D"), secure=True,
)  # fmt: skip
ASKED = Proposal("summary", SETTINGS, PRIVACY, ("A", "B", "C"), "run", threshold=3)


def privacy(**more):
    return {"privacy": {**PRIVACY, **more}}


def test_what_was_consented_to_is_accepted():
    stricter = Permission("summary", 0.5, 1e-6, "row", SETTINGS)
    policy = Policy((stricter, ALLOWED))
    assert policy.check(ASKED) is ALLOWED
    less = replace(ASKED, **privacy(epsilon=0.1, delta=1e-9), sites=("A", "B", "C", "D"))
    assert Policy((ALLOWED,)).check(less) is ALLOWED
    same = {"columns": {"age": [0.0, 100.0]}, "bins": 4.0}  # the same numbers
    assert Policy((ALLOWED,)).check(replace(ASKED, settings=same)) is ALLOWED


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"privacy": None}, "no guarantee is asked for"),
        (privacy(epsilon=math.nextafter(1.0, 2.0)), "ε = 1 is more than 1"),
        (privacy(delta=2e-6), "δ = 2e-06 is more than 1e-06"),
        (privacy(unit="user"), "unit is 'user', not 'row'"),
        (privacy(neighbours="replace-one"), "neighbours is 'replace-one'"),
        (privacy(trust="site"), "trust is 'site'"),
        ({"sites": ("A", "B"), "threshold": 2}, "2 sites take part, fewer than 3"),
        ({"sites": ("A", "B", "X")}, "'X' takes part, who was not agreed on"),
        ({"threshold": 2, "colluding": 0}, "sums over fewer than 3 sites could be seen"),
        ({"colluding": 0}, "0 colluding sites are assumed, fewer than 1"),
        ({"seed": 0}, "the noise would be seeded"),
        ({"seed": 7}, "the noise would be seeded"),
        ({"settings": {**SETTINGS, "bins": 5}}, "bins is 5.0, not 4.0"),
        ({"settings": {"bins": 4}}, "columns is not stated"),
        ({"settings": {**SETTINGS, "by": "sex"}}, 'by is "sex", not not stated'),
        ({"computation": "regression"}, "regression.*allow|allow.*regression"),
    ],
)
def test_whatever_else_is_asked_for_is_refused(change, why):
    with pytest.raises(PolicyRefused, match=why):
        Policy((ALLOWED,)).check(replace(ASKED, **change))


def test_sums_in_clear_are_refused_where_secure_ones_are_asked_for():
    masked = replace(ALLOWED, trust="site")
    clear = replace(ASKED, **privacy(trust="site"), threshold=None)
    assert clear.threshold is None
    with pytest.raises(PolicyRefused, match="sums over fewer than 3 sites could be seen"):
        Policy((masked,)).check(clear)


def test_a_policy_without_permissions_refuses_everything():
    with pytest.raises(PolicyRefused, match="allow"):
        Policy().check(ASKED)


def test_seeded_noise_is_accepted_where_the_policy_says_so():
    for_tests = replace(ALLOWED, seeded=True)
    assert Policy((for_tests,)).check(replace(ASKED, seed=0)) is for_tests
