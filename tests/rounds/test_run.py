"""Rounds in one process: what a failing site does to the others, and what it cannot do."""

import numpy as np
import pytest

from tacit.errors import ParameterError, SiteFailure
from tacit.rounds.aggregate import SumAggregator
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.run import drive, run
from tacit.rounds.sides import Coordinator, Participant


class Averager(Coordinator):
    """Moves an estimate towards the sites' mean, a fixed number of rounds."""

    def __init__(self, rounds=4):
        self.rounds, self.estimate, self.seen = rounds, np.zeros(2), []

    @property
    def replies(self):
        return {
            "sum": ArraySpec((2,), low=-1e6, high=1e6),
            "rows": ArraySpec((), "int64", low=0),
        }

    def request(self, round):
        return Message(round, {"estimate": self.estimate}) if round < self.rounds else None

    def absorb(self, round, collected):
        self.seen.append(collected.sites)
        self.estimate = self.estimate + 0.5 * collected.total["sum"] / collected.total["rows"]

    def state(self):
        return {"estimate": self.estimate}

    def restore(self, state):
        self.estimate = state["estimate"]


class Holder(Participant):
    """Answers with the sum of its rows' distances from the estimate."""

    def __init__(self, name, rows):
        self.name, self.rows, self.asked = name, np.asarray(rows, float), 0

    def respond(self, request):
        self.asked += 1
        distance = self.rows - request["estimate"]
        arrays = {"sum": distance.sum(axis=0), "rows": np.array(len(self.rows))}
        return Message(request.round, arrays)


class Faulty(Holder):
    """Answers well until a round, and then in its own way."""

    def __init__(self, name, rows, fault, since=2):
        super().__init__(name, rows)
        self.fault, self.since = fault, since

    def respond(self, request):
        reply = super().respond(request)
        return reply if request.round < self.since else self.fault(reply)


def raises(reply):
    raise RuntimeError("patient 4711 has no weight")


def gives_up(reply):
    raise SiteFailure("the disk is full")


def changed(**arrays):
    return lambda reply: Message(reply.round, {**reply.arrays, **arrays})


FAULTS = {
    "raises": (raises, "RuntimeError"),
    "gives up": (gives_up, "the disk is full"),
    "returns nothing": (lambda reply: None, "AttributeError"),
    "NaN": (changed(sum=np.array([0.0, np.nan])), "not finite"),
    "infinite": (changed(sum=np.array([np.inf, 0.0])), "not finite"),
    "wrong shape": (changed(sum=np.zeros(3)), "has shape"),
    "wrong dtype": (changed(sum=np.zeros(2, np.float32)), "has dtype float32"),
    "out of range": (changed(sum=np.array([2e6, 0.0])), "outside"),
    "negative count": (changed(rows=np.array(-5)), "outside"),
    "wrong round": (lambda reply: Message(reply.round - 1, reply.arrays), "answered for round 1"),
    "missing array": (lambda reply: Message(reply.round, {"sum": reply["sum"]}), "sent"),
    "extra array": (changed(more=np.zeros(1)), "sent"),
    "object array": (lambda r: Message(r.round, {"sum": np.array([object()])}), "cannot be sent"),
}
ROWS = {"a": [[1.0, 2.0], [3.0, 4.0]], "b": [[-1.0, 0.5]], "c": [[7.0, 7.0]] * 3}


def sites(*names):
    return [Holder(name, ROWS[name]) for name in names or ROWS]


def test_all_sites_reach_the_answer_of_one():
    together, alone = Averager(), Averager()
    record = run(together, sites())
    run(alone, [Holder("all", np.concatenate([*ROWS.values()]))])
    np.testing.assert_allclose(together.estimate, alone.estimate, rtol=1e-15)
    assert record.rounds == 4
    assert record.sites == ("a", "b", "c")
    assert record.failures == []
    assert len(record.seconds) == 4
    assert record.bytes_received == 4 * 3 * (2 * 8 + 8)


def test_the_order_of_the_sites_does_not_matter():
    results = []
    for order in ("abc", "cab", "bca", "cba"):
        coordinator = Averager()
        run(coordinator, sites(*order))
        results.append(coordinator.estimate.tobytes())
    assert len(set(results)) == 1


def test_progress_is_told():
    told = []
    run(Averager(3), sites(), progress=told.append)
    assert told == [1, 2, 3]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_site_stops_the_run(fault):
    how, reason = FAULTS[fault]
    coordinator = Averager()
    with pytest.raises(SiteFailure, match=f"site 'b' failed in round 3: .*{reason}"):
        run(coordinator, [*sites("a"), Faulty("b", ROWS["b"], how), *sites("c")])
    assert len(coordinator.seen) == 2  # the round that failed was not absorbed


@pytest.mark.parametrize("fault", FAULTS)
def test_a_failing_site_is_excluded_with_a_record(fault):
    how, reason = FAULTS[fault]
    coordinator, faulty = Averager(), Faulty("b", ROWS["b"], how)
    record = run(coordinator, [*sites("a"), faulty, *sites("c")], on_failure="exclude")
    assert coordinator.seen == [("a", "b", "c")] * 2 + [("a", "c")] * 2
    assert faulty.asked == 3
    assert record.sites == ("a", "c")
    (failure,) = record.failures
    assert (failure.round, failure.site) == (2, "b")
    assert reason in failure.reason


def test_an_excluded_site_does_not_touch_the_result():
    expected, found = Averager(), Averager()
    run(expected, sites("a", "c"))
    poison = Faulty("b", ROWS["b"], changed(sum=np.array([np.nan, 1e300])), since=0)
    run(found, [*sites("a"), poison, *sites("c")], on_failure="exclude")
    assert found.estimate.tobytes() == expected.estimate.tobytes()


def test_a_foreign_error_is_named_but_not_quoted():
    """An exception of the site's own may hold private values."""
    faulty = Faulty("b", ROWS["b"], raises)
    record = run(Averager(), [*sites("a"), faulty], on_failure="exclude")
    assert "4711" not in repr(record)
    with pytest.raises(SiteFailure) as caught:
        run(Averager(), [*sites("a"), Faulty("b", ROWS["b"], raises)])
    assert "4711" not in str(caught.value)


def test_too_few_sites_stop_the_run():
    faulty = [Faulty(name, ROWS[name], raises, since) for name, since in (("a", 1), ("b", 2))]
    coordinator = Averager()
    with pytest.raises(SiteFailure, match=r"1 sites are left in round 3, 2 are needed: a: .*; b:"):
        run(coordinator, [*faulty, *sites("c")], on_failure="exclude", minimum=2)
    assert len(coordinator.seen) == 2


def test_no_site_left_stops_the_run():
    with pytest.raises(SiteFailure, match="0 sites are left in round 2"):
        run(Averager(), [Faulty("a", ROWS["a"], raises, 1)], on_failure="exclude")


def test_an_interruption_is_not_a_site_failure():
    def interrupt(reply):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(Averager(), [Faulty("a", ROWS["a"], interrupt), *sites("b")], on_failure="exclude")


def test_the_aggregator_decides_what_is_seen():
    class Curious(Averager):
        def absorb(self, round, collected):
            assert collected.by_site is None
            super().absorb(round, collected)

    plain, hidden = Averager(), Curious()
    run(plain, sites())
    run(hidden, sites(), aggregator=SumAggregator())
    assert plain.estimate.tobytes() == hidden.estimate.tobytes()


def test_an_aggregator_may_refuse_too_small_a_group():
    with pytest.raises(SiteFailure, match="only 1 sites answered"):
        run(
            Averager(),
            [Faulty("a", ROWS["a"], raises), *sites("b")],
            aggregator=SumAggregator(),
            on_failure="exclude",
        )


@pytest.mark.parametrize("names", ["", "aa", "aba"])
def test_participants_need_distinct_names(names):
    with pytest.raises(ParameterError, match="distinct names"):
        run(Averager(), [Holder(name, ROWS[name]) for name in names])


@pytest.mark.parametrize("choice", ["ignore", None, True])
def test_a_failure_policy_must_be_known(choice):
    with pytest.raises(ParameterError, match="on_failure must be"):
        run(Averager(), sites(), on_failure=choice)


@pytest.mark.parametrize("minimum", [0, -1, 1.5, None])
def test_a_minimum_must_be_a_positive_number(minimum):
    with pytest.raises(ParameterError, match="minimum must be"):
        run(
            Averager(),
            [Faulty("a", ROWS["a"], raises, 1)],
            on_failure="exclude",
            minimum=minimum,
        )


def test_the_order_of_answers_does_not_matter():
    class Order(Coordinator):
        replies = {"x": ArraySpec((1,))}  # noqa: RUF012

        def request(self, round):
            return Message(round) if round < 1 else None

        def absorb(self, round, collected):
            self.seen = list(collected.by_site)

    for order in ("ABC", "CBA", "BXCA"):
        coordinator = Order()
        answers = [(name, Message(0, {"x": np.zeros(1)})) for name in order]
        drive(coordinator, ["A", "B", "C"], lambda request, names, found=answers: iter(found))
        assert coordinator.seen == ["A", "B", "C"]


class Broken(Holder):
    """Falls over a cell of its own data in the third round."""

    def respond(self, request):
        if request.round == 2:
            float("12 mg")
        return super().respond(request)


def test_what_went_wrong_and_where_is_told_to_the_holder_and_never_recorded():
    """Where whoever gets the error of a run holds the data."""
    with pytest.raises(SiteFailure, match=r"ValueError: could not convert .*'12 mg'"):
        run(Averager(), [*sites("a"), Broken("b", ROWS["b"])], own=True)
    record = run(Averager(), [*sites("a"), Broken("b", ROWS["b"])], on_failure="exclude", own=True)
    assert [(f.site, f.reason) for f in record.failures] == [("b", "ValueError")]
    with pytest.raises(SiteFailure, match=r"0 sites are left.*b: ValueError: could not .*mg'"):
        run(Averager(), [Broken("b", ROWS["b"])], on_failure="exclude", own=True)


def test_a_coordinator_elsewhere_hears_the_kind_only():
    def ask(request, names):
        for name in names:
            yield name, ValueError("could not convert '12 mg'")

    with pytest.raises(SiteFailure) as caught:
        drive(Averager(), ["b"], ask)
    assert "12 mg" not in str(caught.value) and "ValueError" in str(caught.value)
