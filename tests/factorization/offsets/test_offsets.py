"""What leaves a site for offsets and least squares: sensitivity, refusals, and noise."""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import tacit as tc
from tacit.errors import BudgetExceeded, ParameterError, RequestRefused
from tacit.estimators.agreement import Kind, Step
from tacit.estimators.fit import Place, fit, reserve
from tacit.estimators.gate import Gate
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.offsets import least_squares, sides
from tacit.factorization.offsets.agreement import AlternatingLeastSquares
from tacit.factorization.offsets.least_squares import SiteMembers
from tacit.factorization.together.problem import state_problem
from tacit.mechanisms.grid import GridSum
from tacit.mechanisms.noise import Noise
from tacit.rounds.messages import Message
from tests.contracts.hostile import play

BOUNDS = (1.0, 5.0)
METHOD = AlternatingLeastSquares(factors=True, popular=6)


def ratings(seed=0, users=60, items=12, share=0.5, rank=2, size=0.6):
    rng = np.random.default_rng(seed)
    taste = size * rng.normal(size=(users, rank)) @ rng.normal(size=(items, rank)).T
    x = 3.2 + taste + 0.5 * rng.normal(size=(users, 1)) + 0.5 * rng.normal(size=items)
    x = np.clip(np.round(x + 0.5 * rng.normal(size=x.shape)), *BOUNDS)
    x[rng.random(x.shape) > share] = np.nan
    return x


def relations(table):
    return {"data": tc.Relation.from_dense(("user", "item"), table)}


def agreed(table, unit, neighbours=None, epsilon=math.inf, method=METHOD, trust="site"):
    model = CoupledModel("user:k item:k", 2, "euclidean")
    request = tc.Privacy(epsilon, 1e-6, unit=unit, neighbours=neighbours, trust=trust)
    return method.agree(state_problem(model, [relations(table)], bounds=BOUNDS, privacy=request))


def holder(agreement, table):
    return agreement.holder("A", relations(table), Gate(None, Noise("grid", seed=0)), 0)


def requests(agreement, rng):
    """Yield (kind, step, request) of every noisy step, with what a coordinator might send."""
    items = agreement.items
    weights, popular = rng.random(items), rng.permutation(items)[:6]
    known = {
        "mean": np.array([rng.uniform(-2, 2)]),
        "offsets": np.clip(rng.normal(size=items), -4, 4),
        "popular": popular.astype(np.int64),
        "rates": weights[popular] / weights[popular].sum(),
        "features": 2.0 * rng.normal(size=(items, 2)),
    }
    for step in agreement.steps:
        if step.mechanism is None:
            continue
        for kind in step.kinds or {step.name: Kind(step.asks, 0.0)}:
            asks = step.kinds[kind].asks if step.kinds else step.asks
            arrays = {name: known[name] for name in asks}
            if step.kinds:
                arrays["kind"] = np.array([list(step.kinds).index(kind)])
            yield kind, step, Message(0, arrays, step.name)


def contribution(side, step: Step, request):
    asked = step.read(request)
    sent = side.contribute(step, asked, {}, side.shards[0], np.arange(0))
    value = side.completed(step, asked, sent)
    return value.value() if isinstance(value, GridSum) else value


# --- sensitivity -----------------------------------------------------------------------------


def extreme(rng, n_items):
    """A user's values: extreme, moderate, few or many."""
    row = rng.choice([1.0, 5.0, 3.0, 1e9, -np.inf], n_items) if rng.random() < 0.5 else (
        rng.uniform(1, 5, n_items)
    )  # fmt: skip
    row[rng.random(n_items) > rng.choice([0.1, 0.5, 1.0])] = np.nan
    return np.clip(row, -1e12, 1e12)


def neighbours(unit, relation_kind, rng, items):
    table = np.vstack([extreme(rng, items) for _ in range(4)])
    other = table.copy()
    if unit == "entry":
        seen = np.argwhere(np.isfinite(table))
        if not len(seen):
            return table, other
        i, j = seen[rng.integers(len(seen))]
        table[i, j], other[i, j] = rng.permutation([1.0, 5.0])
        if rng.random() < 0.5:  # all others in the middle, where a moved mean shows most
            rest = np.isfinite(table[i]) & (np.arange(items) != j)
            table[i, rest] = other[i, rest] = 3.0
    elif relation_kind == "add-remove-one":
        other[0] = np.nan
    else:
        other[0] = extreme(rng, items)
        if rng.random() < 0.5:
            other[0] = np.where(np.isfinite(table[0]), 6.0 - table[0], np.nan)
    return table, other


@pytest.mark.parametrize(
    ("unit", "how"),
    [("entry", "replace-one"), ("user", "add-remove-one"), ("user", "replace-one")],
)
def test_no_neighbour_moves_a_message_further_than_its_sensitivity(unit, how):
    rng = np.random.default_rng(11)
    largest: dict[str, float] = {}
    for trial in range(120):
        items = int(rng.choice([6, 9, 15]))
        tables = neighbours(unit, how, rng, items)
        agreement = agreed(tables[0], unit, how)
        sides = [holder(agreement, table) for table in tables]
        for kind, step, request in requests(agreement, np.random.default_rng(trial)):
            one, two = (contribution(side, step, request) for side in sides)
            moved, bound = np.linalg.norm(one - two), agreement.sensitivities[kind]
            assert moved <= bound * (1.0 + 1e-6), (kind, tables)
            assert bound <= step.mechanism.sensitivity
            largest[kind] = max(largest.get(kind, 0.0), moved / bound)
    assert set(largest) == {"mean", "offsets", "covariance", "factors"}
    assert largest["mean"] > 0.95 and largest["offsets"] > 0.8  # the search is no pushover
    assert largest["covariance"] > 0.6


def test_the_search_catches_a_bound_that_forgets_the_own_mean():
    """A rating moves its user's mean, and the mean all of the user's messages (PRIVACY B2)."""
    without = min(2.0 * METHOD.clip, 4.0)
    worst = 0.0
    for count in range(2, 40):
        table = np.full((1, count), 3.0)
        other = table.copy()
        table[0, 0], other[0, 0] = 1.0, 5.0
        agreement = agreed(table, "entry")
        request = Message(0, {"mean": np.zeros(1)}, "offsets")
        one, two = (
            contribution(holder(agreement, t), agreement.step("offsets"), request)
            for t in (table, other)
        )
        worst = max(worst, float(np.linalg.norm(one - two)))
    assert without < worst <= agreement.sensitivities["offsets"] * (1.0 + 1e-9)


# --- what a coordinator may ask --------------------------------------------------------------


def test_a_later_step_of_entries_cannot_be_asked_for_offsets():
    """Offsets of entries move by up to 3.13; a later step is calibrated for 2."""
    agreement = agreed(ratings(), "entry", epsilon=1.0)
    assert agreement.sensitivities["offsets"] > 3.1
    for name in ("later 0", "later 1", "later 2"):
        step = agreement.step(name)
        assert set(step.kinds) == {"covariance", "factors"}
        assert step.mechanism.sensitivity == pytest.approx(2.0)
        for kind in (-1, 2, 3):
            arrays = {"mean": np.zeros(1), "kind": np.array([kind])}
            with pytest.raises(RequestRefused, match="kind"):
                step.read(Message(0, arrays, name))
    users = agreed(ratings(), "user", epsilon=1.0).step("later 0")
    assert set(users.kinds) == {"offsets", "covariance", "factors"}
    moved = agreement.sensitivities["offsets"]
    with pytest.raises(ParameterError, match="is calibrated for 2"):
        Step("later", agreement.mechanisms["later 0"], kinds={"offsets": Kind({}, moved)})


@pytest.mark.parametrize("shape", [(11, 2), (13, 2), (12, 1), (12, 3), (24,), (0, 2)])
def test_features_of_another_shape_are_refused(shape):
    step = agreed(ratings(), "user").step("later 0")
    arrays = {"mean": np.zeros(1), "offsets": np.zeros(12), "features": np.zeros(shape),
              "kind": np.array([2])}  # fmt: skip
    with pytest.raises(RequestRefused, match="features"):
        step.read(Message(0, arrays, "later 0"))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e17, -1e300])
@pytest.mark.parametrize("unit", ["entry", "user"])
def test_what_is_out_of_range_is_refused(unit, bad):
    agreement = agreed(ratings(), unit)
    asked = 0
    for _, step, request in requests(agreement, np.random.default_rng(0)):
        for name in set(request.arrays) - {"kind", "popular"}:
            spoiled = request[name].copy()
            spoiled.flat[-1] = bad
            with pytest.raises(RequestRefused, match=name):
                step.read(Message(0, dict(request.arrays) | {name: spoiled}, step.name))
            asked += 1
    assert asked > 6


def test_popular_items_that_are_none_are_refused():
    step = agreed(ratings(items=9), "user").step("later 0")
    for popular in ([0, 0, 1, 2, 3, 4], [-1, 2, 3, 4, 5, 6], [3, 99, 1, 2, 4, 5], [0, 1]):
        arrays = {"kind": np.array([1]), "popular": np.array(popular), "mean": np.zeros(1),
                  "offsets": np.zeros(9), "rates": np.ones(6) / 6}  # fmt: skip
        with pytest.raises(RequestRefused, match="popular"):
            step.read(Message(0, arrays, "later 0"))


def test_nobody_is_promised_what_a_site_cannot_give():
    for trust in ("local", "shuffler"):
        with pytest.raises(ParameterError, match="nobody sees them"):
            agreed(ratings(), "user", epsilon=1.0, trust=trust)


def test_more_features_than_items_are_not_asked_for():
    """With fewer items than the rank, sums of a step on factors have a column per item."""
    model = CoupledModel("user:k item:k", 5, "euclidean")
    table = ratings(users=40, items=3, share=1.0)
    request = tc.Privacy(50.0, 1e-6, unit="user", trust="site")
    problem = state_problem(model, [relations(table)], bounds=BOUNDS, privacy=request)
    agreement = AlternatingLeastSquares(factors=True).agree(problem)
    assert agreement.step("later 1").kinds["factors"].asks["features"].shape == (3, 3)
    found = fit(agreement, [tc.Site("A", None)], {"A": relations(table)}, Place("t", 0))
    assert found.result["item"].shape == (3, 3) and np.isfinite(found.result["item"]).all()


# --- what leaves a site ----------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["entry", "user"])
def test_nothing_leaves_but_what_passed_the_gate_or_is_public(unit, monkeypatch):
    gated, sent = [], []
    release, respond = Gate.release, SiteMembers.respond
    monkeypatch.setattr(
        Gate, "release", lambda *a, **k: gated.append(release(*a, **k)) or gated[-1]
    )
    monkeypatch.setattr(
        SiteMembers, "respond", lambda self, r: sent.append(respond(self, r)) or sent[-1]
    )
    table = ratings(users=300)

    def run(values):
        agreement = agreed(values, unit, epsilon=10.0)
        fit(agreement, [tc.Site("A", None)], {"A": relations(values)}, Place("t", 0))

    run(table)
    private = [reply for reply in sent if reply.step not in ("counts", "pattern")]
    assert len(private) == len(gated) == len(sent) - (7 if unit == "entry" else 0)
    for reply, released in zip(private, gated, strict=True):
        assert list(reply.arrays) == ["sum"]
        np.testing.assert_array_equal(reply["sum"], released)
    # what is public for entries depends on which cells are observed alone
    before = [reply for reply in sent if reply.step in ("counts", "pattern")]
    sent.clear()
    run(np.where(np.isfinite(table), 6.0 - table, np.nan))
    after = [reply for reply in sent if reply.step in ("counts", "pattern")]
    for one, two in zip(before, after, strict=True):
        np.testing.assert_array_equal(one["sum"], two["sum"])


def test_a_site_answers_no_more_rounds_than_it_paid_for():
    agreement = agreed(ratings(), "user", epsilon=1.0)
    site = tc.Site("A", None, tc.Ledger.memory(unit="user", epsilon=1.0, delta=1e-6))
    gate = Gate(reserve(agreement, [site], "test")["A"], Noise("grid"))
    agreement.holder("A", relations(ratings()), gate, 0).respond(Message(0, {}, "mean"))
    with pytest.raises(BudgetExceeded):
        agreement.holder("A", relations(ratings()), gate, 0).respond(Message(0, {}, "mean"))


def test_noise_has_the_promised_size():
    """Twice the same sums differ by noise alone, of the scale that the events state."""
    table = ratings(users=100, items=40)
    agreement = agreed(table, "user", epsilon=2.0)
    mechanism, step = agreement.mechanisms["offsets"], agreement.step("offsets")
    requests = play(agreement, relations(table)).requests[:2]
    exact = contribution(holder(agreement, table), step, requests[1])
    noise, errors = Noise("grid", seed=1), []
    for _ in range(100):
        gate = Gate(reserve(agreement, [tc.Site("A", None)], "test")["A"], noise)
        side = agreement.holder("A", relations(table), gate, 0)
        errors.append([side.respond(request) for request in requests][1]["sum"] - exact)
    assert np.std(errors) == pytest.approx(mechanism.scale, rel=0.05)
    assert mechanism.scale >= mechanism.sensitivity * mechanism.event.noise_multiplier * 0.999


@pytest.mark.parametrize("unit", ["user", "entry"])
@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_sums_do_not_depend_on_how_many_members_are_taken_at_a_time(monkeypatch, unit, zeros):
    """Sums, and what members make of releases, bit for bit; on one thread and on several."""
    relation = replace(relations(ratings())["data"], zeros=zeros)
    model = CoupledModel("user:k item:k", 2, "euclidean")
    privacy = tc.Privacy(math.inf, 1e-6, unit=unit, trust="site")
    problem = state_problem(model, [{"data": relation}], bounds=BOUNDS, privacy=privacy)
    agreement, found = replace(METHOD, factors=True).agree(problem), []
    shared = {
        "mean": np.array([0.1]), "item offset": np.linspace(-1, 1, 12),
        "item": np.random.default_rng(2).normal(size=(12, 2)), "kinds": np.full(2, 2.0),
    }  # fmt: skip
    for least, most, workers in ((1 << 17, 1 << 21, "1"), (1, 1, "1"), (40, 40, "3")):
        monkeypatch.setenv("TACIT_NUM_THREADS", workers)
        monkeypatch.setattr(sides, "_LEAST", least)
        monkeypatch.setattr(sides, "_MOST", most)
        monkeypatch.setattr(least_squares, "_CELLS", most)
        side = agreement.holder("A", {"data": relation}, Gate(None, Noise("grid", seed=0)), 0)
        sums = [
            contribution(side, *rest) for _, *rest in requests(agreement, np.random.default_rng(1))
        ]
        side.finish(shared)
        found.append([*sums, side.rows()])
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("unit", ["user", "entry"])
def test_what_is_formed_of_cells_is_let_go(monkeypatch, unit):
    """A side keeps 12 bytes of each cell; a sum and the regressions form little beside that."""
    rng, cells = np.random.default_rng(0), 100_000
    key = np.unique(rng.integers(0, 2_000 * 400, cells))
    index = np.column_stack(np.divmod(key, 400)).astype(np.int32)
    rng.shuffle(index)
    values = rng.integers(1, 6, len(key)).astype(float)
    relation = tc.Relation(("user", "item"), (2_000, 400), index, values)
    agreement = agreed(ratings(items=400, users=5), unit)
    monkeypatch.setattr(sides, "_LEAST", 1 << 12)
    monkeypatch.setattr(least_squares, "_CELLS", 1 << 12)
    tracemalloc.start()
    try:
        side = agreement.holder("A", {"data": relation}, Gate(None, Noise("grid", seed=0)), 0)
        kept = tracemalloc.get_traced_memory()[0]
        for _, step, request in requests(agreement, rng):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            contribution(side, step, request)
            formed = tracemalloc.get_traced_memory()[1] - before
            assert formed < 16 * len(key), step.name
    finally:
        tracemalloc.stop()
    assert kept < 14 * len(key)


def test_what_offsets_leave_is_clipped():
    agreement, rng = agreed(ratings(), "user"), np.random.default_rng(1)
    side = holder(
        agreement, np.where(np.isnan(ratings()), np.nan, rng.choice([1.0, 5.0], (60, 12)))
    )
    for kind, step, request in requests(agreement, rng):
        if kind in ("covariance", "factors"):
            left = side._residuals(step.read(request), side.formed(side.shards[0]).cells)
            assert np.abs(left).max() == agreement.clip


def test_members_send_directions_of_length_one(monkeypatch):
    agreement, table, told = agreed(ratings(), "user"), ratings(), []
    scales = sides.message_scales

    def watched(cells, left, right, *more):
        told.append(right)
        return scales(cells, left, right, *more)

    monkeypatch.setattr(sides, "message_scales", watched)
    side = holder(agreement, table)
    for kind, step, request in requests(agreement, np.random.default_rng(0)):
        if kind == "factors":
            contribution(side, step, request)
    assert told
    for right in told:
        lengths = np.linalg.norm(right, axis=1)
        np.testing.assert_allclose(lengths[lengths > 0.0], 1.0, rtol=1e-6)
