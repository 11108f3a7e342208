"""A hostile coordinator against secure sums: every attack reads something from a weakened build.

Five sites, three of which see a sum through, unless said otherwise. The attacks are those of
`experiments._hostile.sums`, which ``python -m experiments hostile`` plays against processes. Each
returns what it could read: the vector of V alone, or of V and A, which are fewer than three.
"""

import functools

import numpy as np
import pytest

from experiments._hostile import builds
from experiments._hostile.sums import (
    ALL,
    SPLIT,
    different_requests,
    invented_partners,
    low_threshold,
    rolled_back,
    shorter_list,
    split_lists,
    split_sharers,
    stale_confirmations,
    swapped_keys,
)
from tacit.errors import ParameterError, RequestRefused, SiteFailure
from tacit.federation import service
from tacit.federation.secure import exchange, keys, threshold
from tacit.rounds.checkpoint import Outbox, Remembering
from tests.federation.identities import identity, pinned

from .rogue import World, vector

PAIR = vector("A") + vector("V")


def test_the_coordinator_of_these_tests_adds_up_what_an_honest_one_would():
    world = World()
    for step in range(2):
        assert np.array_equal(world.honest_sum(step=step), sum(map(vector, ALL)))


# --- different lists for different sites --------------------------------------------------------


def test_a_list_that_fewer_than_t_sites_confirmed_is_not_unmasked():
    with pytest.raises(SiteFailure, match="fewer than 3 of 5"):
        split_lists(World)


def test_signatures_under_other_lists_do_not_count():
    """Three signatures are there, but not all of them under this list."""
    world = World()
    signed = {}

    def gathered(name, same):
        for other in SPLIT[name]:
            message = world.sent[other, "confirm"]
            signed[other] = world.sites[other]._member._text() + message.digest  # any 64 bytes
        return {other: same.get(other, signed[other]) for other in SPLIT[name]}

    with pytest.raises(RequestRefused, match="did not confirm this list"):
        split_lists(lambda: world, gathered)


@pytest.mark.parametrize("how", ["stranger", "absent", "swapped"])
def test_signatures_of_others_do_not_count(how):
    world = World(colluding=0)
    _, boxes, _ = world.until_masked()
    arrived = ("A", "B", "C", "V")
    signed = {name: world.confirm(name, arrived) for name in arrived}
    text = world.sites["V"]._member._text()
    wrong = {
        "stranger": {"A": keys.sign(keys.fresh_identity(), text)},
        "absent": {"D": keys.sign(identity("D"), text)},
        "swapped": {"A": signed["B"], "B": signed["A"]},
    }[how]
    with pytest.raises(RequestRefused, match=r"did not confirm|did not arrive"):
        world.unmask("V", {n: signed[n] for n in "BCV"} | wrong, boxes)
    world.unmask("V", {n: signed[n] for n in "BCV"}, boxes)  # a refusal changes nothing


def test_without_the_check_of_confirmations_two_vectors_are_read():
    with builds.taken("unconfirmed"):
        assert np.array_equal(split_lists(World), PAIR)


def test_confirmations_of_another_run_do_not_count():
    with pytest.raises(RequestRefused, match="did not confirm this list"):
        stale_confirmations(World)


def test_were_confirmations_not_bound_to_their_run_two_vectors_would_be_read():
    with builds.taken("unbound confirmations"):
        assert np.array_equal(stale_confirmations(World), PAIR)


def test_different_lists_of_sharers_are_refused():
    with pytest.raises(RequestRefused, match="does not fit who shared"):
        split_sharers(World)


def test_were_sharers_not_confirmed_a_vector_would_be_read():
    with builds.taken("unconfirmed sharers"):
        assert np.array_equal(split_sharers(World), vector("V"))


# --- keys and partners that the coordinator made ------------------------------------------------


def test_keys_that_the_coordinator_made_are_refused():
    with pytest.raises(SiteFailure, match="are not signed by"):
        swapped_keys(World)


def test_were_keys_not_signed_a_vector_would_be_read():
    with builds.taken("unsigned keys"):
        assert np.array_equal(swapped_keys(World), vector("V"))


def test_invented_partners_are_refused():
    with pytest.raises(ParameterError, match="the public key of 'W' is not known here"):
        invented_partners(functools.partial(World, known=pinned(ALL)), identity)


def test_were_identities_taken_from_the_coordinator_a_vector_would_be_read():
    assert np.array_equal(invented_partners(World, identity), vector("V"))


# --- going back ---------------------------------------------------------------------------------


def remembering(folder):
    """Return what makes worlds whose sites remember as they do in a service."""

    def make():
        return World(wrap=lambda one: service.Remembering(one, Outbox(folder / one.name)))

    return make


def test_a_repeated_old_request_takes_nobody_back(tmp_path):
    with pytest.raises(RequestRefused, match="answered already, to another request"):
        rolled_back(remembering(tmp_path))


def test_were_sites_to_go_back_a_vector_would_be_read(tmp_path):
    with builds.taken("rolling back"):
        assert np.array_equal(rolled_back(remembering(tmp_path)), vector("V"))


def test_neither_does_a_restart(tmp_path):
    """After a restart every earlier exchange is refused, whatever it holds."""

    def made():
        return World(wrap=lambda one: Remembering(one, Outbox(tmp_path / one.name)))

    world = made()
    _, boxes, _ = world.until_masked()
    signed = {name: world.confirm(name, ALL) for name in ALL}
    confirmed = dict(world.sent)
    world.sites = made().sites
    for name in ALL:  # the last request gets the same bytes
        reply = world.sites[name].respond(confirmed[name, "confirm"])
        assert reply["signature"].tobytes() == signed[name]
        for before in ("advertise", "share", "mask"):
            with pytest.raises(RequestRefused, match="answered already"):
                world.sites[name].respond(confirmed[name, before])
    with pytest.raises(RequestRefused, match="only the same list can be finished"):
        world.advertise("A", attempt=1)
    with pytest.raises(RequestRefused, match="confirm out of turn"):
        world.confirm("A", ("A", "B", "C", "D"))
    for name in ALL:
        world.unmask(name, signed, boxes)
    world.sites = made().sites
    for again in (lambda: world.unmask("A", signed, boxes), lambda: world.confirm("A", ALL),
                  lambda: world.advertise("A", attempt=1)):  # fmt: skip
        with pytest.raises(RequestRefused, match="round 1 is next"):
            again()


def test_no_second_list_is_confirmed_for_a_step():
    with pytest.raises(RequestRefused, match="round 1 is next"):
        shorter_list(World)
    world = World()
    world.until_masked()
    for name in ALL:
        world.confirm(name, ALL)
        with pytest.raises(RequestRefused, match="only the same list can be finished"):
            world.advertise(name, attempt=1)


def test_were_a_shorter_list_confirmed_later_a_vector_would_be_read():
    with builds.taken("retrying"):
        assert np.array_equal(shorter_list(World), vector("V"))


def test_a_try_before_confirming_uses_fresh_keys_and_the_same_vector():
    world = World()
    adverts, _, masked = world.until_masked()
    again, _, anew = world.until_masked(("A", "B", "C", "V"), attempt=1)
    public = [a[k : k + 32] for found in (adverts, again) for a in found.values() for k in (0, 32)]
    assert len(set(public)) == len(public)
    assert not any(np.array_equal(masked[name], anew[name]) for name in anew)
    assert all(world.sites[name].inner.asked == 1 for name in ALL)
    with pytest.raises(RequestRefused, match="this try of the step is over"):
        world.advertise("A", attempt=1)
    with pytest.raises(RequestRefused, match="before any keys were advertised"):
        world.confirm("A", ALL, attempt=0)
    with pytest.raises(RequestRefused, match="with another request"):
        world.advertise("A", attempt=2, times=2)


# --- what is asked, and of how many -------------------------------------------------------------


def test_sites_that_are_asked_for_different_things_do_not_share():
    with pytest.raises(SiteFailure, match="are not signed by"):
        different_requests(World)


def test_were_requests_not_bound_a_vector_would_be_read():
    with builds.taken("unbound requests"):
        assert np.array_equal(different_requests(World), vector("V"))


def test_a_threshold_that_two_lists_can_reach_is_refused():
    with pytest.raises(ParameterError, match="two lists could be confirmed"):
        low_threshold(World)


def test_with_a_threshold_that_two_lists_reach_a_vector_is_read():
    with builds.taken("low threshold"):
        assert np.array_equal(low_threshold(World), vector("V"))
    assert threshold.default_threshold(5, 0) == 4


def test_a_colluding_site_that_signs_two_lists_does_not_make_up_for_an_honest_one():
    """Four sites, t = 3, c = 1: whatever E signs, only one list gets three signatures."""
    world = World("ABEV", 3, 1)
    world.until_masked()
    lists = {"V": "ABEV", "A": "ABEV", "B": "ABE"}
    signed = {name: world.confirm(name, lists[name]) for name in lists}

    def of_e(arrived):  # what the colluding site would sign
        member = world.sites["E"]._member
        text = exchange.confirmation(member.terms, member.adverts, member.sharers, arrived)
        return keys.sign(identity("E"), text)

    both = {**signed, "E": of_e(tuple("ABEV"))}
    world.unmask("V", {name: both[name] for name in "AEV"}, "ABEV")
    alone = {"B": signed["B"], "E": of_e(tuple("ABE")), "A": signed["A"]}
    with pytest.raises(RequestRefused, match="'A' did not confirm"):
        world.unmask("B", alone, "ABEV")
