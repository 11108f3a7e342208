"""A hostile coordinator against secure sums: every attack reads something from a weakened build.

Five sites, three of which see a sum through, unless said otherwise. Each attack returns what it
could read: the vector of V alone, or of V and A, which are fewer than three.
"""

import numpy as np
import pytest

from tacit.errors import ParameterError, RequestRefused, SiteFailure
from tacit.federation.secure import exchange, keys, site, terms, threshold
from tacit.federation.secure.exchange import Member
from tacit.federation.secure.site import SecureParticipant
from tacit.rounds.checkpoint import Outbox, Remembering
from tests.federation.identities import identity, pinned

from .rogue import World, vector

ALL = ("A", "B", "C", "D", "V")
# Whom each site is told to have arrived. Every list has three names and the site's own; together
# they give three shares of the keys of B, C and D, and five of the seeds of V and A.
SPLIT = {"V": "ABV", "A": "ACV", "B": "ABV", "C": "ACV", "D": "ADV"}
PAIR = vector("A") + vector("V")


def test_the_coordinator_of_these_tests_adds_up_what_an_honest_one_would():
    world = World()
    for step in range(2):
        assert np.array_equal(world.honest_sum(step=step), sum(map(vector, ALL)))


# --- different lists for different sites --------------------------------------------------------


def split_lists(world, signatures=None):
    """Tell every site something else about who arrived."""
    adverts, boxes, masked = world.until_masked()
    signed = {name: world.confirm(name, SPLIT[name]) for name in ALL}
    shown = {}
    for name in ALL:
        same = {other: signed[other] for other in SPLIT[name] if SPLIT[other] == SPLIT[name]}
        known = same if signatures is None else signatures(name, same)
        shown[name] = world.unmask(name, known, boxes)
    private = {n: {s: v for s, v in shown[n].items() if s not in SPLIT[n]} for n in ALL}
    return world.strip(masked, adverts, boxes, shown, private, ["A", "V"])


def test_a_list_that_fewer_than_t_sites_confirmed_is_not_unmasked():
    with pytest.raises(SiteFailure, match="fewer than 3 of 5"):
        split_lists(World())


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
        split_lists(world, gathered)


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


def test_without_the_check_of_confirmations_two_vectors_are_read(monkeypatch):
    monkeypatch.setattr(Member, "_check_confirmed", lambda self, signatures: None)
    assert np.array_equal(split_lists(World()), PAIR)


def stale_confirmations():
    """Collect signatures under every list in runs of their own, then show them in another."""
    collected = {}
    for number, arrived in enumerate(set(SPLIT.values())):
        world = World(run=f"run {number}".encode())
        world.until_masked()
        collected[arrived] = {name: world.confirm(name, arrived) for name in arrived}
    return split_lists(World(), lambda name, same: collected[SPLIT[name]])


def test_confirmations_of_another_run_do_not_count():
    with pytest.raises(RequestRefused, match="did not confirm this list"):
        stale_confirmations()


def test_were_confirmations_not_bound_to_their_run_two_vectors_would_be_read(monkeypatch):
    def loose(terms, adverts, sharers, arrived):
        return terms.marks(arrived).tobytes()

    monkeypatch.setattr(exchange, "confirmation", loose)
    assert np.array_equal(stale_confirmations(), PAIR)


def split_sharers():
    """Tell V that A and B share with it, and the others that all do; then drop A and B."""
    world = World()
    adverts = world.advertise(ALL)
    boxes = {name: world.share(name, adverts) for name in ALL}
    few = {name: boxes[name] for name in "ABV"}
    masked = {name: world.mask(name, few if name == "V" else boxes) for name in ALL}
    arrived = ("C", "D", "V")
    signed = {name: world.confirm(name, arrived) for name in ("C", "D", "V")}
    shown = {n: world.unmask(n, signed, few if n == "V" else boxes) for n in ("C", "D", "V")}
    return world.strip(masked, adverts, few, shown, shown, ["V"])


def test_different_lists_of_sharers_are_refused():
    with pytest.raises(RequestRefused, match="does not fit who shared"):
        split_sharers()


def test_were_sharers_not_confirmed_a_vector_would_be_read(monkeypatch):
    def loose(terms, adverts, sharers, arrived):
        return terms.about("confirm", terms.marks(arrived).tobytes())

    monkeypatch.setattr(exchange, "confirmation", loose)
    monkeypatch.setattr(Member, "_check_arrived", lambda self, arrived: None)
    assert np.array_equal(split_sharers(), vector("V"))


# --- keys and partners that the coordinator made ------------------------------------------------


def swapped_keys(world):
    """Show V keys of the coordinator's own as those of its partners."""
    adverts = world.advertise(ALL)
    sealing, masking = ({name: keys.fresh_key() for name in "ABCD"} for _ in range(2))
    false = {"V": adverts["V"]}
    for name in sealing:
        public = keys.public_key(sealing[name]) + keys.public_key(masking[name])
        signature = keys.sign(keys.fresh_identity(), world.now.about("keys", name) + public)
        false[name] = public + signature
    boxes = world.share("V", false)
    return read_alone(world, false, boxes, sealing, masking)


def read_alone(world, adverts, boxes, sealing, masking):
    """Read V, all of whose partners are the coordinator's own."""
    seeds = {}
    for name in sealing:
        digests = boxes[name][: 2 * exchange.SHORT]
        context = world.now.about("share", "V", name, digests)
        key = keys.agree(sealing[name], adverts["V"][:32], context)
        text = keys.open_sealed(key, boxes[name][2 * exchange.SHORT :], context)
        seeds[name] = {"V": text[66:]}
    own = {name: {"V": bytes(exchange.BOX)} for name in adverts}  # V cannot open them: no matter
    masked = world.mask("V", own | {"V": boxes})
    result = masked - keys.stream(world.secret("V", seeds), masked.size, 64)
    bound = exchange.mask_context(world.now, adverts, adverts)
    for name in adverts:
        if name != "V":
            private = keys.load_key(masking[name])
            public = adverts["V"][32:64]
            exchange.add_mask(result, world.now, private, name, public, "V", bound)
    return result.astype(np.int64)


def test_keys_that_the_coordinator_made_are_refused():
    with pytest.raises(SiteFailure, match="are not signed by"):
        swapped_keys(World())


def test_were_keys_not_signed_a_vector_would_be_read(monkeypatch):
    monkeypatch.setattr(exchange, "check_advert", lambda *arguments: None)
    assert np.array_equal(swapped_keys(World()), vector("V"))


def invented_partners(known):
    """Propose a run of V with partners that do not exist."""
    world = World(("V", "W", "X", "Y"), known=known)
    sealing, masking = ({n: keys.fresh_key() for n in "WXY"} for _ in range(2))
    adverts = world.advertise("V")
    for name in "WXY":
        public = keys.public_key(sealing[name]) + keys.public_key(masking[name])
        adverts[name] = public + keys.sign(identity(name), world.now.about("keys", name) + public)
    boxes = world.share("V", adverts)
    return read_alone(world, adverts, boxes, sealing, masking)


def test_invented_partners_are_refused():
    with pytest.raises(ParameterError, match="the public key of 'W' is not known here"):
        invented_partners(pinned(ALL))


def test_were_identities_taken_from_the_coordinator_a_vector_would_be_read():
    assert np.array_equal(invented_partners(None), vector("V"))


# --- going back ---------------------------------------------------------------------------------


class Rolls(Remembering):
    """Takes up the state that followed an old request, when that is repeated."""

    def __init__(self, participant, outbox):
        super().__init__(participant, outbox)
        self.states = {}

    def respond(self, request):
        if request.digest in self.states:
            reply, state = self.states[request.digest]
            self.participant.restore(state)
            return reply
        reply = self.participant.respond(request)
        kept = {name: array.copy() for name, array in self.participant.state().items()}
        self.states[request.digest] = reply, kept
        return reply


def rolled_back(folder, kind):
    """Unmask the whole list, repeat the masking request, then unmask a list without V."""
    world = World(wrap=lambda one: kind(one, Outbox(folder / one.name)))
    adverts, boxes, masked = world.until_masked()
    repeated = {name: world.sent[name, "mask"] for name in ALL}
    shown = []
    for arrived in (ALL, ("A", "B", "C", "D")):
        signed = {name: world.confirm(name, arrived) for name in arrived}
        shown.append({name: world.unmask(name, signed, boxes) for name in arrived})
        for name in ALL:
            world.sites[name].respond(repeated[name])
    seeds, private = shown
    result = masked["V"] - keys.stream(world.secret("V", seeds), masked["V"].size, 64)
    key = keys.load_key(world.secret("V", private))
    bound = exchange.mask_context(world.now, adverts, boxes)
    for other in "ABCD":  # with its key, V's own masks can be made and taken off
        taken = np.zeros_like(result)
        public = adverts[other][32:64]
        exchange.add_mask(taken, world.now, key, "V", public, other, bound)
        result = result - taken
    return result.astype(np.int64)


def test_a_repeated_old_request_takes_nobody_back(tmp_path):
    with pytest.raises(RequestRefused, match="answered already, to another request"):
        rolled_back(tmp_path, Remembering)


def test_were_sites_to_go_back_a_vector_would_be_read(tmp_path):
    assert np.array_equal(rolled_back(tmp_path, Rolls), vector("V"))


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


class Retries(SecureParticipant):
    """Lets an exchange be tried again after a list was confirmed, and even after a sum."""

    def _advertise(self, request, attempt):
        if self._member is not None:
            self._member.done = 0
        return super()._advertise(request, attempt)

    def _unmask(self, member, arrays):
        kept = member, self._values, self._next
        found = super()._unmask(member, arrays)
        self._member, self._values, self._next = kept
        return found


def shorter_list(kind):
    """Have a list confirmed, then try again without V."""
    world = World(kind=kind)
    first = world.honest_sum()
    return first - world.honest_sum(("A", "B", "C", "D"), attempt=1)


def test_no_second_list_is_confirmed_for_a_step():
    with pytest.raises(RequestRefused, match="round 1 is next"):
        shorter_list(SecureParticipant)
    world = World()
    world.until_masked()
    for name in ALL:
        world.confirm(name, ALL)
        with pytest.raises(RequestRefused, match="only the same list can be finished"):
            world.advertise(name, attempt=1)


def test_were_a_shorter_list_confirmed_later_a_vector_would_be_read():
    assert np.array_equal(shorter_list(Retries), vector("V"))


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


def different_requests():
    """Ask V for its vector, and the others for nothing times theirs."""
    world = World()
    return world.honest_sum(times={name: int(name == "V") for name in ALL})


def test_sites_that_are_asked_for_different_things_do_not_share():
    with pytest.raises(SiteFailure, match="are not signed by"):
        different_requests()


def test_were_requests_not_bound_a_vector_would_be_read(monkeypatch):
    from . import rogue

    for module in (site, rogue):
        monkeypatch.setattr(module, "asked_digest", lambda *arguments: b"")
    assert np.array_equal(different_requests(), vector("V"))


def low_threshold():
    """Two lists of two: one gives V's seed, the other V's key."""
    world = World(threshold=2)
    adverts, boxes, masked = world.until_masked()
    lists = {"A": "ABV", "B": "ABV", "V": "ABV", "C": "CD", "D": "CD"}
    signed = {name: world.confirm(name, lists[name]) for name in ALL}
    shown = {name: world.unmask(name, {n: signed[n] for n in lists[name]}, boxes) for name in ALL}
    seeds = {name: shown[name] for name in "AB"}
    private = {name: shown[name] for name in "CD"}
    result = masked["V"] - keys.stream(world.secret("V", seeds), masked["V"].size, 64)
    key = keys.load_key(world.secret("V", private))
    bound = exchange.mask_context(world.now, adverts, boxes)
    for other in "ABCD":
        taken = np.zeros_like(result)
        exchange.add_mask(taken, world.now, key, "V", adverts[other][32:64], other, bound)
        result = result - taken
    return result.astype(np.int64)


def test_a_threshold_that_two_lists_can_reach_is_refused():
    with pytest.raises(ParameterError, match="two lists could be confirmed"):
        low_threshold()


def test_with_a_threshold_that_two_lists_reach_a_vector_is_read(monkeypatch):
    monkeypatch.setattr(terms, "check_threshold", lambda *arguments: None)
    assert np.array_equal(low_threshold(), vector("V"))
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
