"""Secure aggregation around joint computations: the same sums, drop-outs, resuming, refusals."""

import numpy as np
import pytest

from tacit.errors import ParameterError, SiteFailure
from tacit.federation.secure.arrays import asked_digest
from tacit.federation.secure.coordinator import SecureCoordinator
from tacit.federation.secure.exchange import EXCHANGES
from tacit.federation.secure.site import SecureParticipant
from tacit.federation.secure.terms import Terms
from tacit.rounds.aggregate import SumAggregator
from tacit.rounds.checkpoint import Checkpoint, Outbox, Remembering
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.run import run
from tacit.rounds.sides import Coordinator, Participant
from tests.federation.identities import identity, pinned
from tests.federation.in_process import SecureAggregator


class Averager(Coordinator):
    """Asks for numbers about its last total, three times."""

    replies = {"count": ArraySpec((1,), "int64"), "x": ArraySpec((2, 2), exponent=-4)}  # noqa: RUF012

    def __init__(self):
        self.totals, self.seen = [np.zeros((2, 2))], []

    def request(self, round):
        return Message(round, {"last": self.totals[-1]}) if round < 3 else None

    def absorb(self, round, collected):
        assert collected.by_site is None
        self.seen.append((collected.sites, int(collected.total["count"][0])))
        self.totals.append(collected.total["x"])

    def state(self):
        return {"totals": np.array(self.totals), "rounds": np.array([len(self.seen)])}

    def restore(self, state):
        self.totals = list(state["totals"])
        self.seen = [None] * int(state["rounds"][0])


class Holder(Participant):
    def __init__(self, name, number, fail_at=None):
        self.name, self.number, self.fail_at = name, number, fail_at
        self.asked = 0

    def respond(self, request):
        self.asked += 1
        if self.fail_at == request.round:
            raise SiteFailure("out of order")
        x = request["last"] / 4 + np.array([[self.number, 0.5], [-1.0, 2.0]])
        x = np.floor(x * 16) / 16
        return Message(request.round, {"x": x, "count": np.array([self.number])})


def agreed(names, threshold=2, colluding=0, bits=64):
    return Terms(b"run 1", tuple(names), threshold, colluding, bits)


def secure(inner, names, threshold=2, **more):
    return SecureCoordinator(inner, agreed(names, threshold, **more), pinned(names))


def sites(holders, threshold=2, kind=SecureParticipant, **more):
    names = [holder.name for holder in holders]
    terms = agreed(names, threshold, **more)
    return [kind(holder, terms, identity(holder.name), pinned(names)) for holder in holders]


@pytest.mark.parametrize("bits", [32, 64])
def test_the_computation_sees_the_same_sums_as_with_a_trusted_one(bits):
    plain, hidden = Averager(), Averager()
    holders = [Holder(name, k + 1) for k, name in enumerate("ABC")]
    run(plain, holders, aggregator=SumAggregator(2))
    record = run(secure(hidden, "ABC", bits=bits), sites(holders, bits=bits))
    assert record.rounds == 15
    assert plain.seen == hidden.seen
    assert np.array_equal(plain.totals, hidden.totals)


def test_a_site_that_fails_in_the_middle_drops_out_and_the_rest_goes_on():
    hidden = Averager()
    holders = [
        Holder(name, k + 1, fail_at=1 if name == "B" else None) for k, name in enumerate("ABCD")
    ]
    parts = sites(holders, 3)
    record = run(secure(hidden, "ABCD", 3), parts, on_failure="exclude", minimum=3)
    assert hidden.seen == [
        (("A", "B", "C", "D"), 10), (("A", "C", "D"), 8), (("A", "C", "D"), 8),
    ]  # fmt: skip
    assert [(f.site, f.reason) for f in record.failures] == [("B", "out of order")]


def test_sites_that_are_asked_for_different_things_do_not_accept_each_other():
    """A coordinator that asks one site for something else does not see that one's answer."""

    class Lied(SecureParticipant):
        def respond(self, request):
            arrays = dict(request.arrays)
            if self.name == "A" and "ask/last" in arrays:
                arrays["ask/last"] = arrays["ask/last"] + 4.0
                names, grids = ["count", "x"], arrays["grids"]
                asked = Message(0, {"last": arrays["ask/last"]}, request.step)
                terms = self.terms.at(0, 0, asked_digest(asked, names, grids))
                arrays["terms"] = np.frombuffer(terms.digest, np.uint8)
            return super().respond(Message(request.round, arrays, request.step))

    holders = [Holder(name, k) for k, name in enumerate("ABC")]
    with pytest.raises(SiteFailure, match="'A' failed in round 1: the keys of 'A' are not signed"):
        run(secure(Averager(), "ABC"), sites(holders, kind=Lied))
    inner = secure(Averager(), "ABC")
    inner.check = lambda site, reply: None  # were the coordinator to pass them on all the same
    with pytest.raises(SiteFailure, match=r"failed in round 2: the keys of '.' are not signed"):
        run(inner, sites(holders, kind=Lied))


def test_one_drop_out_too_many_reveals_nothing():
    hidden = Averager()
    parts = sites([Holder(name, 1, fail_at=0 if name in "BC" else None) for name in "ABCD"], 3)
    with pytest.raises(SiteFailure, match="3 are needed"):
        run(secure(hidden, "ABCD", 3), parts, on_failure="exclude", minimum=3)
    assert not hidden.seen


@pytest.mark.parametrize(
    "lie", [{"threshold": 2}, {"colluding": 1}, {"bits": 32}, {"names": "ABCX"}, {"names": "ABC"}]
)
def test_a_site_refuses_other_terms_than_it_agreed_to(lie):
    parts = sites([Holder(name, 1) for name in "ABCD"], 3)
    told = {"names": "ABCD", "threshold": 3} | lie
    names = told.pop("names")
    if told["threshold"] == 2:
        names = "ABC"
    with pytest.raises(SiteFailure, match="the terms of this sum are not those"):
        run(secure(Averager(), names, **told), [p for p in parts if p.name in names])
    assert all(part.inner.asked == 0 for part in parts)


def test_floats_off_the_grid_are_refused():
    class Off(Holder):
        def respond(self, request):
            return Message(request.round, {"x": np.full((2, 2), 0.1), "count": np.array([1])})

    parts = sites([Off(n, 1) for n in "ABC"])
    with pytest.raises(SiteFailure, match=r"no multiples of 2\^-4"):
        run(secure(Averager(), "ABC"), parts)


@pytest.mark.parametrize(
    ("spec", "reason"), [(ArraySpec((None,)), "no fixed shape"), (ArraySpec((2,)), "on no grid")]
)
def test_an_array_without_a_fixed_shape_or_a_grid_has_no_secure_sum(spec, reason):
    class Loose(Averager):
        replies = {"x": spec}  # noqa: RUF012

    parts = sites([Holder(n, 1) for n in "ABC"])
    with pytest.raises(ParameterError, match=reason):
        run(secure(Loose(), "ABC"), parts)


class Dies(Exception):
    """A process that is gone."""


@pytest.mark.parametrize("dropped", ["", "B"])
@pytest.mark.parametrize("last", range(1, 15))
def test_a_run_that_died_between_exchanges_goes_on_to_the_same_sums(tmp_path, last, dropped):
    expected, holders = Averager(), []

    def made():
        return [Holder(n, k + 1, 1 if n == dropped else None) for k, n in enumerate("ABC")]

    run(expected, made(), aggregator=SumAggregator(2), on_failure="exclude")

    def go(stop):
        hidden = Averager()
        fresh = made()
        holders.extend(fresh)
        parts = [Remembering(site, Outbox(tmp_path / site.name)) for site in sites(fresh)]

        def progress(rounds):
            if rounds == stop:
                raise Dies

        run(secure(hidden, "ABC"), parts, checkpoint=Checkpoint(tmp_path / "c"), progress=progress,
            on_failure="exclude")  # fmt: skip
        return hidden

    with pytest.raises(Dies):
        go(last)
    found = go(None)
    assert np.array_equal(found.totals, expected.totals)
    # every site was asked for each of the three rounds once, before or after
    assert sum(h.asked for h in holders) == (9 if not dropped else 8)


# --- faults of the protocol ---------------------------------------------------------------------


class Spoils(SecureParticipant):
    """Changes what B sends in one exchange of the second round."""

    exchange, change = "", staticmethod(lambda arrays: arrays)

    def respond(self, request):
        reply = super().respond(request)
        place = (1, 0, EXCHANGES.index(self.exchange))
        if self.name == "B" and tuple(request["place"]) == place:
            return Message(reply.round, self.change(dict(reply.arrays)))
        return reply


def noise(name):
    def change(arrays):
        drawn = np.random.default_rng(0).integers(0, 256, arrays[name].shape)
        return arrays | {name: drawn.astype(np.uint8)}

    return change


def shorter(name):
    return lambda arrays: arrays | {name: arrays[name][1:]}


FAULTS = {
    "advertise": (noise("advert"), "not signed by 'B'"),
    "share": (noise("boxes"), "too many sites could not open"),
    "mask": (shorter("masked"), "has shape"),
    "confirm": (noise("signature"), "did not sign the list"),
    "unmask": (noise("shares"), "shows another share"),
}


@pytest.mark.parametrize("exchange", FAULTS)
@pytest.mark.parametrize("resumed", [False, True])
def test_who_breaks_the_protocol_is_named_and_the_others_go_on(tmp_path, exchange, resumed):
    change, reason = FAULTS[exchange]
    kind = type("Broken", (Spoils,), {"exchange": exchange, "change": staticmethod(change)})
    holders = [Holder(name, 10**k) for k, name in enumerate("ABCDE")]
    with pytest.raises(SiteFailure, match=f"site 'B' failed in round \\d+: .*{reason}"):
        run(secure(Averager(), "ABCDE", 4), sites(holders, 4, kind))
    asked = [Holder(name, 10**k) for k, name in enumerate("ABCDE")]
    parts = [Remembering(site, Outbox(tmp_path / site.name)) for site in sites(asked, 4, kind)]

    def progress(rounds):
        if resumed and rounds == 8:
            raise Dies

    hidden = Averager()
    go = {"on_failure": "exclude", "minimum": 4, "checkpoint": Checkpoint(tmp_path / "c")}
    try:
        record = run(secure(hidden, "ABCDE", 4), parts, progress=progress, **go)
    except Dies:
        hidden = Averager()
        record = run(secure(hidden, "ABCDE", 4), parts, **go)
    with_b, without_b = (tuple("ABCDE"), 11111), (tuple("ACDE"), 11101)
    counted = exchange in ("confirm", "unmask")  # its vector had arrived by then
    assert hidden.seen[-2:] == [with_b if counted else without_b, without_b]
    if not resumed or exchange in ("confirm", "unmask"):
        assert [(f.site, reason in f.reason) for f in record.failures] == [("B", True)]
    # whatever was tried again, nobody's computation was asked twice for one round
    assert [h.asked for h in asked if h.name != "B"] == [3] * 4


def changed(rng, request):
    """Return a request with one array left out, replaced, cut, filled or of another kind."""
    arrays = dict(request.arrays)
    name = str(rng.choice(list(arrays)))
    array = arrays[name]
    new = [
        lambda: array.astype(rng.choice(["float64", "int64", "uint8", "bool", "int32"])),
        lambda: array[1:],
        lambda: np.concatenate([array, array]),
        lambda: array.reshape(1, *array.shape),
        lambda: np.zeros_like(array),
        lambda: rng.integers(0, 2, array.shape).astype(array.dtype),
        lambda: (array + rng.integers(-3, 300, array.shape)).astype(array.dtype),
        lambda: np.full(array.shape, 2**63 - 1).astype(array.dtype),
        lambda: np.array(0, array.dtype),
    ][rng.integers(9)]
    if rng.random() < 0.1:
        del arrays[name]
    else:
        arrays[name] = new()
    if rng.random() < 0.1:
        arrays[str(rng.choice(["ask/x", "more", "group", "boxes"]))] = np.arange(3)
    return Message(request.round, arrays, request.step)


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")
def test_whatever_a_site_is_asked_it_answers_or_refuses_and_nothing_else():
    rng, refused = np.random.default_rng(0), []

    class Fuzzed(SecureParticipant):
        def respond(self, request):
            for _ in range(60):
                clone = SecureParticipant(
                    Holder(self.name, 1), self.terms, identity(self.name), pinned("ABC")
                )
                if self._member is not None or self._next:
                    clone.restore(self.state())
                try:
                    clone.respond(changed(rng, request))
                except SiteFailure as error:
                    refused.append(str(error))
            return super().respond(request)

    inner = Averager()
    run(secure(inner, "ABC"), sites([Holder(n, 1) for n in "ABC"], kind=Fuzzed))
    assert len(inner.seen) == 3 and len(refused) > 2000
    assert len({text for text in refused if "array" not in text and "sent" not in text}) < 60


def test_the_bytes_that_a_site_receives_grow_no_faster_than_the_number_of_sites():
    def received(count):
        names = [f"{k:03d}" for k in range(count)]
        got = dict.fromkeys(names, 0)

        class Counts(SecureParticipant):
            def respond(self, request):
                reply = super().respond(request)
                got[self.name] += request.size + reply.size
                return reply

        holders = [Holder(name, 1) for name in names]
        run(secure(Averager(), names, count), sites(holders, count, Counts))
        assert max(got.values()) - min(got.values()) == 0
        return got[names[0]]

    four, eight, sixteen = (received(n) for n in (4, 8, 16))
    assert sixteen - eight == 2 * (eight - four)


def test_the_aggregator_in_one_process_reveals_the_sum_and_nothing_else():
    replies = {
        name: Message(0, {"x": np.array([0.25 * k, -1.0]), "n": np.array([k])})
        for k, name in enumerate("ABC")
    }
    found = SecureAggregator(2, grids={"x": -2}).collect(replies)
    plain = SumAggregator(2).collect(replies)
    assert found.by_site is None and found.sites == plain.sites
    assert all(np.array_equal(found.total[name], plain.total[name]) for name in ("x", "n"))
