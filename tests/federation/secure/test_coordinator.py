"""Secure aggregation around joint computations: the same sums, drop-outs, resuming, refusals."""

import numpy as np
import pytest

from tacit.errors import ParameterError, RequestRefused, SiteFailure
from tacit.federation.secure import keys as masks
from tacit.federation.secure.arrays import as_text
from tacit.federation.secure.coordinator import SecureCoordinator
from tacit.federation.secure.exchange import Member, Terms
from tacit.federation.secure.shamir import SHARE_BYTES
from tacit.federation.secure.site import SecureParticipant
from tacit.rounds.aggregate import SumAggregator
from tacit.rounds.checkpoint import Checkpoint, Outbox, Remembering
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.run import run
from tacit.rounds.sides import Coordinator, Participant
from tacit.summary.agreement import SummaryAgreement
from tests.contracts.hostile import Witness
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


def secure(inner, names, threshold=2, **more):
    return SecureCoordinator(inner, names, threshold=threshold, run="run 1", **more)


@pytest.mark.parametrize("bits", [32, 64])
def test_the_computation_sees_the_same_sums_as_with_a_trusted_one(bits):
    plain, hidden = Averager(), Averager()
    holders = [Holder(name, k + 1) for k, name in enumerate("ABC")]
    run(plain, holders, aggregator=SumAggregator(2))
    record = run(
        secure(hidden, "ABC", bits=bits), [SecureParticipant(h, minimum=2) for h in holders]
    )
    assert record.rounds == 12
    assert plain.seen == hidden.seen
    assert np.array_equal(plain.totals, hidden.totals)


def test_a_site_that_fails_in_the_middle_drops_out_and_the_rest_goes_on():
    hidden = Averager()
    parts = [
        SecureParticipant(Holder(name, k + 1, fail_at=1 if name == "B" else None), minimum=3)
        for k, name in enumerate("ABCD")
    ]
    record = run(secure(hidden, "ABCD", 3), parts, on_failure="exclude", minimum=3)
    assert hidden.seen == [
        (("A", "B", "C", "D"), 10), (("A", "C", "D"), 8), (("A", "C", "D"), 8),
    ]  # fmt: skip
    assert [(f.site, f.reason) for f in record.failures] == [("B", "out of order")]


def test_answers_to_different_requests_add_up_to_nothing():
    """A coordinator that asks one site for something else does not see that one's answer."""

    class Lied(SecureParticipant):
        def respond(self, request):
            arrays = dict(request.arrays)
            if self.name == "A" and "ask/last" in arrays:
                arrays["ask/last"] = arrays["ask/last"] + 4.0
            return super().respond(Message(request.round, arrays, request.step))

    for kind, apart in ((SecureParticipant, False), (Lied, True)):
        inner = Averager()
        sites = [kind(Holder(name, k), minimum=2) for k, name in enumerate("ABC")]
        run(secure(inner, "ABC"), sites)
        assert (np.abs(inner.totals[1]) > 1e12).all() == apart  # 64 random bits


def test_one_drop_out_too_many_reveals_nothing():
    hidden = Averager()
    parts = [
        SecureParticipant(Holder(name, 1, fail_at=0 if name in "BC" else None), minimum=3)
        for name in "ABCD"
    ]
    with pytest.raises(SiteFailure, match="3 are needed"):
        run(secure(hidden, "ABCD", 3), parts, on_failure="exclude", minimum=3)
    assert not hidden.seen


def test_a_site_refuses_to_hide_among_too_few():
    parts = [SecureParticipant(Holder(name, 1), minimum=3) for name in "ABC"]
    with pytest.raises(SiteFailure, match="asks for at least 3"):
        run(secure(Averager(), "ABC", 2), parts)
    assert all(part.inner.asked == 0 for part in parts)


def test_a_site_refuses_partners_that_were_not_agreed_on():
    keys = {name: masks.fresh_identity() for name in "ABX"}
    known = {name: masks.identity_public(keys[name]) for name in "AB"} | {"C": bytes(32)}
    parts = [
        SecureParticipant(Holder(n, 1), minimum=2, identity=keys[n], partners=known) for n in "ABX"
    ]
    with pytest.raises(SiteFailure, match="'X' is none of the partners"):
        run(secure(Averager(), "ABX"), parts)


def test_floats_off_the_grid_are_refused():
    class Off(Holder):
        def respond(self, request):
            return Message(request.round, {"x": np.full((2, 2), 0.1), "count": np.array([1])})

    parts = [SecureParticipant(Off(n, 1), minimum=2) for n in "ABC"]
    with pytest.raises(SiteFailure, match=r"no multiples of 2\^-4"):
        run(secure(Averager(), "ABC"), parts)


@pytest.mark.parametrize(
    ("spec", "reason"), [(ArraySpec((None,)), "no fixed shape"), (ArraySpec((2,)), "on no grid")]
)
def test_an_array_without_a_fixed_shape_or_a_grid_has_no_secure_sum(spec, reason):
    class Loose(Averager):
        replies = {"x": spec}  # noqa: RUF012

    parts = [SecureParticipant(Holder(n, 1), minimum=2) for n in "ABC"]
    with pytest.raises(ParameterError, match=reason):
        run(secure(Loose(), "ABC"), parts)


class Dies(Exception):
    """A process that is gone."""


@pytest.mark.parametrize("dropped", ["", "B"])
@pytest.mark.parametrize("last", [1, 2, 3, 6, 7, 8])
def test_a_run_that_died_between_exchanges_goes_on_to_the_same_sums(tmp_path, last, dropped):
    expected, holders = Averager(), []

    def sites():
        return [Holder(n, k + 1, 1 if n == dropped else None) for k, n in enumerate("ABC")]

    run(expected, sites(), aggregator=SumAggregator(2), on_failure="exclude")

    def go(stop):
        hidden = Averager()
        fresh = sites()
        holders.extend(fresh)
        parts = [
            Remembering(SecureParticipant(h, minimum=2), Outbox(tmp_path / h.name)) for h in fresh
        ]

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


def test_the_aggregator_in_one_process_reveals_the_sum_and_nothing_else():
    replies = {
        name: Message(0, {"x": np.array([0.25 * k, -1.0]), "n": np.array([k])})
        for k, name in enumerate("ABC")
    }
    found = SecureAggregator(2, grids={"x": -2}).collect(replies)
    plain = SumAggregator(2).collect(replies)
    assert found.by_site is None and found.sites == plain.sites
    assert all(np.array_equal(found.total[name], plain.total[name]) for name in ("x", "n"))


@pytest.mark.parametrize("done", range(5))
def test_a_restarted_site_takes_no_step_of_an_exchange_again(done):
    """What was shown about one list is never shown about another."""
    names = ("A", "B", "C")
    ours = SecureParticipant(Holder("A", 1.0))
    ours._member = Member("A", Terms(b"session", names, 3))
    ours._member.held = dict.fromkeys(names, bytes(2 * SHARE_BYTES))
    ours._member.done = done
    again = SecureParticipant(Holder("A", 1.0))
    again.restore(ours.state())
    member = again._member
    assert member.done == done
    assert (member.sealing, member.masking, member.seed, member.held) == (
        ours._member.sealing, ours._member.masking, ours._member.seed, ours._member.held
    )  # fmt: skip
    if done != 3:
        with pytest.raises(SiteFailure, match="out of turn"):
            member.unmask(names)


def test_a_site_sums_what_was_agreed_on_and_on_that_grid_only():
    agreement = next(SummaryAgreement.examples())
    inner = agreement.holder("A", agreement.worst_case().data, Witness(agreement), None)
    site, (step,) = SecureParticipant(inner), agreement.steps
    specs = inner.leaving(Message(0, {}, step.name))
    grid = [spec.exponent or 0 for spec in specs.values()]
    for names, grids in (
        (["other"], grid),
        ([*specs, "more"], [*grid, 0]),
        (list(specs), [grid[0] + 1]),
        (list(specs), []),
    ):
        asked = {"names": as_text(names), "grids": np.array(grids, np.int64)}
        with pytest.raises(RequestRefused, match="not what was agreed on"):
            site._values(0, Message(0, asked, step.name))
    asked = {"names": as_text(list(specs)), "grids": np.array(grid)}
    assert site._values(0, Message(0, asked, step.name)).shape == (agreement.size,)
