"""The one shape: steps in order, claims by name, coordinators that go on where they died."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tacit as tc
from tacit.errors import BudgetExceeded, NothingReleased, ParameterError, RequestRefused
from tacit.estimators.agreement import Agreement, Ask, Kind, Step
from tacit.estimators.coordinator import Asking
from tacit.estimators.fit import Place, fit
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder, Order, merged
from tacit.estimators.site import Site
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.grid import Grid, GridSum
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.piecewise import Piecewise
from tacit.mechanisms.sampled import PoissonSampled
from tacit.mechanisms.symmetric_operator import OperatorGaussian
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import ADD_REMOVE, ApproximateDpEvent, GaussianDpEvent, compose, repeat
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.checkpoint import Checkpoint, Outbox, Remembering
from tacit.rounds.messages import ArraySpec, Message, Size, check_arrays
from tacit.rounds.run import run
from tacit.summary.agreement import SummaryAgreement

PRIVACY = Privacy(1.0, 1e-6, unit="row", trust="site")


# -- steps --------------------------------------------------------------------------------------


def step(name: str, **more: Any) -> Step:
    return Step(name, Gaussian(8.0, 1.0, (1,)), replies={"sum": ArraySpec((1,))}, **more)


def test_a_step_has_a_mechanism_or_is_open_or_a_view() -> None:
    with pytest.raises(ParameterError, match="must have a mechanism"):
        Step("nothing")
    with pytest.raises(ParameterError, match="must have a mechanism"):
        step("both", open="the count")


def test_a_name_cannot_be_taken_for_the_position_of_a_claim() -> None:
    with pytest.raises(ParameterError, match="must not hold"):
        step("a[0:1]")


def test_a_kind_may_not_cost_more_than_the_step() -> None:
    cost = ApproximateDpEvent(1.0, 1e-6)
    fine = Gaussian.for_privacy(1.0, 1e-6, 1.0)
    dear = Kind({}, mechanism=Gaussian.for_privacy(1.2, 1e-6, 1.0))
    Step("part", fine, cost=cost, kinds={"fine": Kind({}, mechanism=fine)})
    with pytest.raises(ParameterError, match="costs more"):
        Step("part", fine, cost=cost, kinds={"dear": dear})
    with pytest.raises(ParameterError, match="costs more"):
        Step("part", fine, kinds={"dear": dear})


def test_a_price_does_not_pay_for_a_draw_without_noise() -> None:
    fine = Gaussian.for_privacy(1.0, 1e-6, 1.0)
    part = Step("part", fine, cost=ApproximateDpEvent(1.0, 1e-6))
    assert part.affords(fine)
    assert not part.affords(Gaussian(0.0, 1.0))
    with pytest.raises(ParameterError, match="costs more"):
        Step("part", fine, cost=part.cost, kinds={"free": Kind({}, mechanism=Gaussian(0.0, 1.0))})


def test_a_mechanism_at_exactly_the_price_is_afforded() -> None:
    price = ApproximateDpEvent(1.0, 1e-6)
    part = Step("part", Gaussian.for_privacy(1.0, 1e-6, 1.0), cost=price)
    # δ = 1e-6 buys (1 + 1/e)·1e-6 of ε
    within, beyond = Piecewise(1.0 + 1.3680e-6), Piecewise(1.0 + 1.3700e-6)
    assert epsilon_of(within.event, 1e-6) <= 1.0 + 1e-9 < epsilon_of(beyond.event, 1e-6)
    assert part.affords(within)
    assert not part.affords(beyond)


@pytest.mark.parametrize("kind", [-1, 2])
def test_a_kind_that_there_is_not_is_refused(kind: int) -> None:
    two = step("a", kinds={"first": Kind({}, 1.0), "second": Kind({}, 1.0)})
    for known in (0, 1):
        asked = two.read(Message(0, {"kind": np.array([known])}, "a"))
        assert asked.kind == ("first", "second")[known]
    with pytest.raises(RequestRefused):
        two.read(Message(0, {"kind": np.array([kind])}, "a"))


def test_the_headline_is_the_certificate_of_the_largest_epsilon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = tc.PrivateSummary.__new__(tc.PrivateSummary)
    sites = {
        name: Certificate.issue(PRIVACY, GaussianDpEvent(noise), holder=name)
        for name, noise in (("A", 8.0), ("B", 2.0), ("C", 4.0))
    }
    record, agreement = SimpleNamespace(failures=()), SimpleNamespace(cites=())
    monkeypatch.setattr(type(model), "_conclude", lambda self, outcome: None)
    model._keep(SimpleNamespace(record=record, certificates=sites, agreement=agreement))
    assert model.certificate_ is sites["B"]


@pytest.mark.parametrize(
    "wrong", [{"sum": np.zeros(2)}, {}, {"sum": np.full(99, np.nan)}, {"more": np.zeros(1)}]
)
def test_an_answer_that_was_not_agreed_on_does_not_leave(
    wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    agreement = next(SummaryAgreement.examples())
    if "sum" in wrong and np.isnan(wrong["sum"]).any():
        wrong = {"sum": np.full(agreement.size, np.nan)}
    gate = Gate(None, Noise(agreement.noise, seed=0))
    ledger = Ledger.memory(epsilon=10.0)
    gate.reservation = ledger.reserve(agreement.event, purpose="run", delta=1e-6)
    holder = agreement.holder("A", agreement.worst_case().data, gate, 0)
    monkeypatch.setattr(type(holder), "sends", lambda self, step, asked, released: wrong)
    with pytest.raises(NothingReleased, match="not what was agreed on"):
        holder.respond(Message(0, {}, "rows"))


def test_a_sample_has_the_rate_that_was_paid_for() -> None:
    rate, units, gate = 0.25, 40_000, Gate(None, Noise(seed=0))
    sampled = Step("part", PoissonSampled(Gaussian(8.0, 1.0), rate, ADD_REMOVE))
    taken = gate.sample(sampled, units)
    assert abs(len(taken) - rate * units) < 5.0 * (units * rate * (1.0 - rate)) ** 0.5
    assert gate.sample(step("all"), 3).tolist() == [0, 1, 2]


def test_keys_of_standing_releases_do_not_outlive_the_run(tmp_path: Path) -> None:
    mechanism = OperatorGaussian(8.0, 1.0, (2, 2))
    gate = Gate(None, Noise(seed=0), tmp_path)
    ledger = Ledger.memory(epsilon=100.0, delta=1e-6)
    gate.reservation = ledger.reserve(mechanism.event, purpose="run", delta=1e-6)
    gate.release(Step("second", mechanism), np.eye(2))
    assert gate.holds("second") and len(list(tmp_path.iterdir())) == 1
    gate.close()
    assert not gate.holds("second") and not list(tmp_path.iterdir())


def test_steps_are_taken_in_order_and_optional_ones_may_be_skipped() -> None:
    order = Order([step("a"), step("b", times=2), step("c", optional=True), step("d")])
    asked = []
    for round, (name, good) in enumerate([("a", True), ("b", True), ("b", True), ("d", True)]):
        found, used = order.admit(round, name)
        asked.append((found.name, used))
        order.advance(found)
        assert good
    assert asked == [("a", 0), ("b", 0), ("b", 1), ("d", 0)]


@pytest.mark.parametrize(
    ("before", "name"),
    [((), "b"), (("a",), "a"), (("a", "b", "b"), "b"), (("a", "b"), "a"), (("a",), "d"),
     (("a", "b", "d"), "c"), (("a", "b", "d"), "d"), ((), "unknown")],
)  # fmt: skip
def test_a_step_out_of_order_is_refused(before: tuple[str, ...], name: str) -> None:
    order = Order([step("a"), step("b", times=2), step("c", optional=True), step("d")])
    for round, earlier in enumerate(before):
        order.advance(order.admit(round, earlier)[0])
    with pytest.raises(RequestRefused):
        order.admit(len(before), name)
    with pytest.raises(RequestRefused, match="is next"):
        order.admit(len(before) + 1, "b")


def test_named_sizes_agree_across_a_request_and_have_a_largest_value() -> None:
    width = Size("width", 4)
    specs = {"a": ArraySpec((3, width)), "b": ArraySpec((width,))}
    assert check_arrays({"a": np.zeros((3, 2)), "b": np.zeros(2)}, specs, RequestRefused) == {
        "width": 2
    }
    for a, b in ((2, 3), (5, 5)):
        with pytest.raises(RequestRefused):
            check_arrays({"a": np.zeros((3, a)), "b": np.zeros(b)}, specs, RequestRefused)


def test_shards_merge_to_the_same_bits() -> None:
    grid, rng = Grid(-20), np.random.default_rng(0)
    rows = rng.normal(size=(1000, 3))
    whole = grid.sum(rows)
    for cuts in ([500], [1, 2, 3], [999]):
        parts = [grid.sum(part) for part in np.split(rows, cuts)]
        found = merged("sum", parts)
        assert isinstance(found, GridSum)
        np.testing.assert_array_equal(found.integers, whole.integers)
    assert merged("values", [np.array([3, 1]), np.array([2])]).tolist() == [1, 2, 3]
    assert merged("stack", [np.array([3, 1]), np.array([2])]).tolist() == [3, 1, 2]


# -- claims by name -----------------------------------------------------------------------------

EVENT = GaussianDpEvent(8.0)


def reserved(ledger: Ledger, run: str = "run", block: int = 1) -> Any:
    return ledger.reserve(
        compose([repeat(EVENT, 6)]), purpose="test", delta=1e-6, run=run, claim=block
    )


def test_equal_events_of_two_steps_are_not_interchangeable() -> None:
    held = reserved(Ledger.memory(epsilon=9.0, delta=1e-5))
    held.at("second", 0, 1, EVENT).claim()
    with pytest.raises(BudgetExceeded, match="'second' of 'test' was drawn before"):
        held.at("second", 0, 1, EVENT).claim()
    held.at("third", 0, 1, EVENT).claim()
    assert held.claimed("second") == held.claimed("third") == 1


@pytest.mark.parametrize("block", [1, 3])
def test_a_restarted_run_goes_on_and_repeats_nothing(tmp_path: Any, block: int) -> None:
    path = tmp_path / "ledger.db"
    first = reserved(Ledger.open(path, epsilon=9.0, delta=1e-5), block=block)
    first.at("round", 0, 6, EVENT).claim()
    again = reserved(Ledger.open(path), block=block)
    assert again.claimed("round") == block
    with pytest.raises(BudgetExceeded):
        again.at("round", 0, 6, EVENT).claim()
    again.at("round", block, 6, EVENT).claim()
    assert Ledger.open(path).verify() >= 3


def test_no_more_is_claimed_than_was_paid_for() -> None:
    held = reserved(Ledger.memory(epsilon=9.0, delta=1e-5))
    for position in range(6):
        held.at("round", position, 7, EVENT).claim()
    with pytest.raises(BudgetExceeded, match="at this price"):
        held.at("round", 6, 7, EVENT).claim()


def test_disjoint_parts_are_paid_for_once() -> None:
    ledger = Ledger.memory(epsilon=9.0, delta=1e-5)
    held = ledger.reserve(EVENT, purpose="test", delta=1e-6)
    held.at("first", 0, 1, EVENT, True).claim()
    held.at("rest", 0, 1, EVENT, True).claim()
    with pytest.raises(BudgetExceeded):
        held.at("rest", 0, 1, EVENT, True).claim()
    with pytest.raises(BudgetExceeded):
        held.at("more", 0, 1, EVENT).claim()
    ledger.verify()


# -- coordinators that die ----------------------------------------------------------------------


class Death(Exception):
    pass


class Adds(Holder):
    def contribute(self, step: Step, asked: Any, kept: Any, shard: Any, picks: Any) -> GridSum:
        assert step.mechanism is not None
        return step.mechanism.grid.sum(np.full((len(shard), 1), float(asked["x"][0])))


@dataclass(frozen=True)
class Walk(Agreement):
    """Six rounds, each asking at a point that follows from the totals before and a generator."""

    privacy: Privacy | None = PRIVACY
    sites: int = 2
    keeps: bool = False
    dies: int | None = None

    def _steps(self) -> tuple[Step, ...]:
        mechanism = Gaussian.calibrated(20.0, 1.0, (1,))
        asks = {"x": ArraySpec((1,), low=-1.0, high=1.0)}
        return (Step("round", mechanism, asks, {"sum": ArraySpec((1,))}, times=6),)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return ()

    def holder(self, name: str, data: Any, gate: Any, seed: int | None) -> Adds:
        return Adds(self, name, [data], gate)

    def coordinate(self, start: Any) -> Any:
        first, x, seen = 0, np.zeros(1), []
        rng = np.random.default_rng(start.seed)
        jitter = rng.normal(size=6) / 100
        if start.state is not None:
            first, x = int(start.state["round"][0]), start.state["x"]
        for k in range(first, 6):
            if k == self.dies:
                raise Death
            keep = {"round": np.array([k]), "x": x} if self.keeps else None
            found = yield Ask("round", x=x, keep=keep)
            seen.append(float(found.total["sum"][0]))
            x = np.clip(0.1 * found.total["sum"] / 100 + jitter[k], -1, 1)
        return x

    def worst_case(self) -> Any:
        raise NotImplementedError

    @classmethod
    def examples(cls) -> Any:
        yield cls()


def walk(folder: Any, agreement: Walk, seed: int = 3) -> Any:
    place = Place("walk", seed=seed, checkpoint=folder)
    sites = [Site("a", None), Site("b", None)]
    ledgers = [Ledger.open(folder / f"{s.name}.db", epsilon=9.0, delta=1e-5) for s in sites]
    sites = [Site(s.name, None, ledger) for s, ledger in zip(sites, ledgers, strict=True)]
    return fit(agreement, sites, {"a": np.zeros(5), "b": np.zeros(7)}, place)


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("dies", [1, 3, 5])
def test_a_run_that_died_goes_on_with_the_same_words(tmp_path, monkeypatch, keeps, dies) -> None:
    privacy = PRIVACY.with_epsilon(4.0)
    tmp_path.mkdir(exist_ok=True)
    with pytest.raises(Death):
        walk(tmp_path, Walk(privacy, keeps=keeps, dies=dies))
    asked = []
    monkeypatch.setattr(
        Remembering, "respond", _recording(Remembering.respond, asked), raising=True
    )
    outcome = walk(tmp_path, Walk(privacy, keeps=keeps))
    assert outcome.record.rounds == 6 and outcome.record.resumed_at == dies - 1
    assert [request.round for request in asked[::2]] == list(range(dies - 1, 6))
    for name in "ab":
        rows = list(Ledger.open(tmp_path / f"{name}.db").rows())
        assert [row.kind for row in rows] == ["charge"] + ["claim"] * 6


def _recording(respond: Any, asked: list[Any]) -> Any:
    def recorded(self: Any, request: Any) -> Any:
        asked.append(request)
        return respond(self, request)

    return recorded


def test_a_request_that_was_sent_is_sent_again_as_it_was(tmp_path: Any) -> None:
    """Also where the coordinator would ask something else by now."""

    class Changed(Walk):
        jitter = 0.0

        def coordinate(self, start: Any) -> Any:
            found = yield Ask("round", x=np.full(1, Changed.jitter))
            return found.total["sum"]

    agreement = Changed()

    class Lost(Remembering):
        def respond(self, request: Any) -> Any:
            super().respond(request)
            raise Death

    def once(kind: type[Remembering]) -> Any:
        from tacit.estimators.gate import Gate
        from tacit.mechanisms.noise import Noise

        ledger = Ledger.open(tmp_path / "a.db", epsilon=9.0, delta=1e-5)
        held = ledger.reserve(agreement.event, purpose="test", delta=1e-6, asked=1.0, run="run")
        holder = Adds(agreement, "a", [np.zeros(3)], Gate(held, Noise("grid", seed=1)))
        asking = Asking(agreement, 5)
        run(asking, [kind(holder, Outbox(tmp_path / "a"))],
            checkpoint=Checkpoint(tmp_path / "c"))  # fmt: skip
        return asking.result

    with pytest.raises(Exception, match="Death"):
        once(Lost)
    Changed.jitter = 0.5
    once(Remembering)
    sent = Checkpoint(tmp_path / "c").asked(0)
    assert sent is not None and sent["x"].tolist() == [0.0]


def test_a_checkpoint_of_another_agreement_is_refused(tmp_path: Any) -> None:
    privacy = PRIVACY.with_epsilon(4.0)
    with pytest.raises(Death):
        walk(tmp_path, Walk(privacy, dies=2))
    with pytest.raises(Exception, match=r"other settings|another (schedule|run)"):
        walk(tmp_path, Walk(PRIVACY.with_epsilon(4.5)))


# -- once per fit -------------------------------------------------------------------------------


def test_an_agreement_is_computed_once_per_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    import tacit as tc
    from tacit.privacy import calibration
    from tacit.summary.agreement import SummaryAgreement

    sites = [tc.Site(n, {"x": np.arange(9.0)}) for n in ("a", "b", "c")]
    model = tc.PrivateSummary({"x": (0, 9)}, privacy=PRIVACY)
    model.fit(sites)  # the first one in a process is rehearsed on made-up data
    calibration.gaussian_sigma.cache_clear()
    made, calibrated = [], []
    init, sigma = SummaryAgreement.__init__, calibration.gaussian_sigma
    monkeypatch.setattr(
        SummaryAgreement,
        "__init__",
        lambda self, *a, **k: (made.append(1), init(self, *a, **k))[1],
    )
    monkeypatch.setattr(
        calibration, "gaussian_sigma", lambda *a: (calibrated.append(a), sigma(*a))[1]
    )
    model.fit(sites)
    assert len(made) == 1 and len(calibrated) <= 1


def test_the_price_changes_nothing() -> None:
    import tacit as tc

    model = tc.PrivateSummary({"x": (0, 9)}, privacy=PRIVACY)
    before = dict(vars(model))
    model.price([tc.Site("a", {"x": np.arange(9.0)})])
    assert vars(model) == before


def test_what_can_fail_is_tried_before_anybody_is_charged() -> None:
    """A side that cannot be made, or a coordinator that cannot begin, costs nothing."""

    class NoHolder(Walk):
        def holder(self, name: str, data: Any, gate: Any, seed: int | None) -> Any:
            raise Death

    class NoStart(Walk):
        def coordinate(self, start: Any) -> Any:
            raise Death
            yield

    for kind in (NoHolder, NoStart):
        ledger = Ledger.memory(epsilon=9.0, delta=1e-5)
        sites = [Site("a", None, ledger)]
        with pytest.raises(Death):
            fit(kind(PRIVACY.with_epsilon(4.0)), sites, {"a": np.zeros(5)}, Place("walk"))
        assert ledger.counter == 0
