"""Offsets and alternating least squares over sites: privacy, exactness, faults and use."""

import math

import numpy as np
import pytest

import tacit as tc
from tacit.errors import BudgetExceeded, NotCertified, ParameterError, SiteFailure, UnboundedData
from tacit.estimators import joint_als_parts
from tacit.estimators.joint import site_relations, state_problem
from tacit.estimators.joint_als import AlternatingLeastSquares
from tacit.mechanisms.noise import Noise
from tacit.models.structure import CoupledModel
from tacit.rounds.messages import Message

BOUNDS = (1.0, 5.0)
MODEL = "user:k item:k"


def ratings(seed=0, users=60, items=12, share=0.5, rank=2, size=0.6):
    rng = np.random.default_rng(seed)
    taste = size * rng.normal(size=(users, rank)) @ rng.normal(size=(items, rank)).T
    x = 3.2 + taste + 0.5 * rng.normal(size=(users, 1)) + 0.5 * rng.normal(size=items)
    x = np.clip(np.round(x + 0.5 * rng.normal(size=x.shape)), *BOUNDS)
    x[rng.random(x.shape) > share] = np.nan
    return x


def relation(table):
    return tc.Relation.from_dense(("user", "item"), table)


def privacy(unit="user", epsilon=1.0, **more):
    return tc.Privacy(epsilon, 1e-6, unit=unit, trust="site", **more)


def factorization(unit="user", epsilon=1.0, **options):
    options = {"rank": 2, "bounds": BOUNDS, "random_state": 0, **options}
    options.setdefault("privacy", privacy(unit, epsilon))
    return tc.CoupledFactorization(MODEL, **options)


# --- use -------------------------------------------------------------------------------------


def test_the_example_of_the_design(tmp_path):
    request = tc.Privacy(epsilon=1, delta=1e-6, unit="user", trust="site")
    tables = {"A": ratings(1), "B": ratings(2)}
    sites = [
        tc.Site(name, relation(t), ledger=tc.Ledger.open(tmp_path / f"{name}.db", epsilon=4,
                                                         delta=1e-5))
        for name, t in tables.items()
    ]  # fmt: skip
    model = tc.CoupledFactorization("user:k item:k", rank=3, bounds=(1, 5), privacy=request)
    price = model.price(sites)
    assert price.affordable and price.sites[0].epsilon == pytest.approx(1.0, rel=1e-6)
    assert sites[0].ledger.remaining.epsilon == 4.0  # asking for a price costs nothing
    model.fit(sites)
    assert sites[0].ledger.remaining.epsilon == pytest.approx(3.0)
    predicted = model.predict("A", [[0, 1], [5, 3]])
    assert predicted.shape == (2,) and (predicted >= 1).all() and (predicted <= 5).all()
    certificate = model.certificate_.verify()
    assert certificate.epsilon <= 1.0 + 1e-9 and certificate.unit == "user"
    assert "public bounds" in str(certificate.assumptions)
    released = tc.read_release(model.release(tmp_path / "release"))
    assert set(released.certificates) == {"A", "B"}
    np.testing.assert_array_equal(released.arrays["item"], model.shared_factors_["item"])


def test_a_single_holder_needs_no_site():
    model = tc.CoupledFactorization(
        MODEL, rank=2, bounds=BOUNDS, privacy=tc.Privacy(1.0, 1e-6, unit="entry")
    ).fit(ratings())
    assert model.certificate_.unit == "entry"
    assert model.predict("the data", [[0, 0]]).shape == (1,)


def test_seeded_noise_is_not_released(tmp_path):
    fitted = factorization().fit([tc.Site("A", relation(ratings()))])
    with pytest.raises(NotCertified, match="seeded"):
        fitted.release(tmp_path)
    with pytest.raises(ParameterError, match="release"):
        fitted.save(tmp_path / "model.npz")


@pytest.mark.parametrize("unit", ["entry", "user"])
def test_factors_help_where_there_is_something_to_learn(unit):
    whole = ratings(3, users=1500, items=40, share=1.0)
    rng = np.random.default_rng(0)
    train = np.where(rng.random(whole.shape) < 0.4, whole, np.nan)
    test = np.argwhere(np.isnan(train))
    errors = {}
    for method in ("offsets", "als"):
        fitted = factorization(unit, 10.0, method=method).fit([tc.Site("A", relation(train))])
        predicted = fitted.predict("A", test)
        errors[method] = np.sqrt(np.mean((predicted - whole[tuple(test.T)]) ** 2))
    assert errors["als"] < 0.95 * errors["offsets"]
    assert errors["offsets"] < 0.98 * whole[tuple(test.T)].std()


def test_few_users_have_all_spent_on_offsets():
    """What a later round is spent on follows from the released number of members."""
    few = factorization(epsilon=0.5).fit([tc.Site("A", relation(ratings()))])
    assert not few.shared_factors_["item"].any()
    many = factorization(epsilon=10.0).fit([tc.Site("A", relation(ratings(users=2000)))])
    assert many.shared_factors_["item"].any()
    assert many.budget_ == few.budget_


# --- exactness -------------------------------------------------------------------------------


def naive_offsets(tables, unit):
    """Offsets by hand, on values in [−2, 2], without noise."""
    x = np.vstack([t - 3.0 for t in tables])
    seen = np.isfinite(x)
    counts = seen.sum(axis=1)
    if unit == "entry":
        mean = np.nansum(x) / seen.sum()
    else:
        own = np.nansum(x, axis=1)[counts > 0] / counts[counts > 0]
        mean = own.sum() / len(own)
    own = (np.nansum(x, axis=1) + 5.0 * mean) / (counts + 5.0)
    deviations = np.clip(x - own[:, None], -1.5, 1.5)
    if unit == "entry":
        return mean, np.nansum(deviations, axis=0), seen.sum(axis=0).astype(float)
    squares = np.nansum(deviations**2, axis=1) + 0.25 * counts
    scale = 1.0 / np.sqrt(squares + 0.25)
    return mean, np.nansum(scale[:, None] * deviations, axis=0), scale @ seen


@pytest.mark.parametrize("unit", ["entry", "user"])
def test_without_noise_sums_are_those_by_hand_over_any_sites(unit):
    tables = [ratings(1, users=20), ratings(2, users=30)]
    mean, sums, weights = naive_offsets(tables, unit)
    for split in ([tables[0], tables[1]], [np.vstack(tables)]):
        sites = [tc.Site(str(k), relation(t)) for k, t in enumerate(split)]
        fitted = factorization(unit, math.inf, method="offsets").fit(sites)
        shared = fitted.shared_factors_
        assert shared["mean"][0] == pytest.approx(mean, abs=1e-9)
        within = 0.8 if unit == "entry" else 50 / weights.sum() * 0.8 / 1.05
        expected = joint_als_parts.shrink(sums, weights, 0.0, within)
        np.testing.assert_allclose(shared["item offset"], expected, atol=1e-7)


@pytest.mark.parametrize("unit", ["entry", "user"])
def test_no_noise_and_very_little_of_it_are_the_same(unit):
    sites = [tc.Site("A", relation(ratings(users=300)))]
    method = AlternatingLeastSquares(factors=True)
    found = [
        factorization(unit, epsilon, method=method).fit(sites).shared_factors_
        for epsilon in (math.inf, 1e9)
    ]
    for name in ("mean", "item offset"):
        np.testing.assert_allclose(found[0][name], found[1][name], atol=2e-3)


def test_no_request_runs_the_same_rounds_as_an_infinite_one():
    sites = [tc.Site("A", relation(ratings()))]
    first = factorization(privacy=None).fit(sites)
    second = factorization(epsilon=math.inf).fit(sites)
    for name, value in first.shared_factors_.items():
        np.testing.assert_array_equal(value, second.shared_factors_[name])
    assert not first.certificate_.is_private


# --- sensitivity -----------------------------------------------------------------------------

METHOD = AlternatingLeastSquares(factors=True, popular=6)


def stated(tables, unit, neighbours=None, epsilon=math.inf, method=METHOD, rank=2):
    model = CoupledModel(MODEL, rank, "euclidean")
    data = [site_relations(model, "A", relation(t)) for t in tables]
    request = tc.Privacy(epsilon, 1e-6, unit=unit, neighbours=neighbours, trust="site")
    return state_problem(model, data, bounds=BOUNDS, privacy=request), data


def requests(problem, items, rng, rank=2):
    """Yield (stage, request) of every noisy round, with what a coordinator might send."""
    stages = METHOD.stages(problem)
    weights = rng.random(items)
    popular = rng.permutation(items)[:6]
    common = {
        "mean": np.array([rng.uniform(-2, 2)]),
        "offsets": rng.normal(size=items),
        "popular": popular.astype(np.int64),
        "rates": weights[popular] / weights[popular].sum(),
        "features": 2.0 * rng.normal(size=(items, rank)),
    }
    for number, stage in enumerate(stages):
        if stage.split()[0] in ("counts", "pattern"):
            continue
        kinds = [stage.split()[0]] if not stage.startswith("later") else (
            ["covariance", "factors"] + (["offsets"] if problem.unit == "user" else [])
        )  # fmt: skip
        for kind in kinds:
            code = joint_als_parts._KINDS.index(kind) if kind != "mean" else 0
            yield kind, Message(number, {**common, "kind": np.array([code])})


def site(problem, data):
    return METHOD.part(problem, "A", data, None, Noise("grid", seed=0), np.random.default_rng(0))


def answer(problem, data, request):
    return site(problem, data).respond(request)["sum"]


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
        problem, (first, *_) = stated([tables[0]], unit, how)
        _, (second, *_) = stated([tables[1]], unit, how)
        bounds = METHOD.sensitivities(problem)
        parts = site(problem, first), site(problem, second)
        for kind, request in requests(problem, items, np.random.default_rng(trial)):
            one, two = (part.respond(request)["sum"] for part in parts)
            moved = np.linalg.norm(one - two)
            assert moved <= bounds[kind] * (1.0 + 1e-6), (kind, tables)
            largest[kind] = max(largest.get(kind, 0.0), moved / bounds[kind])
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
        problem, (first,) = stated([table], "entry")
        _, (second,) = stated([other], "entry")
        request = Message(METHOD.stages(problem).index("offsets"), {"mean": np.zeros(1)})
        moved = np.linalg.norm(answer(problem, first, request) - answer(problem, second, request))
        worst = max(worst, moved)
    assert without < worst <= METHOD.sensitivities(problem)["offsets"] * (1.0 + 1e-9)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e17, -1e300])
@pytest.mark.parametrize("unit", ["entry", "user"])
def test_whatever_a_coordinator_sends_the_bound_holds(unit, bad):
    rng = np.random.default_rng(12)
    how = "replace-one" if unit == "entry" else "add-remove-one"
    for trial in range(10):
        tables = neighbours(unit, how, rng, 9)
        problem, (first,) = stated([tables[0]], unit)
        _, (second,) = stated([tables[1]], unit)
        parts = site(problem, first), site(problem, second)
        for kind, request in requests(problem, 9, np.random.default_rng(trial)):
            arrays = {n: a.copy() for n, a in request.arrays.items()}
            for name in ("mean", "offsets", "rates", "features"):
                arrays[name].flat[::2] = bad
            hostile = Message(request.round, arrays)
            one, two = (part.respond(hostile)["sum"] for part in parts)
            moved = np.linalg.norm(one - two)
            assert moved <= METHOD.sensitivities(problem)[kind] * (1.0 + 1e-6)


def test_popular_items_that_are_none_are_refused():
    problem, (data,) = stated([ratings(items=9)], "user")
    for popular in ([0, 0], [-1, 2], [3, 99]):
        request = Message(2, {"kind": np.array([1]), "popular": np.array(popular),
                              "mean": np.zeros(1), "offsets": np.zeros(9),
                              "rates": np.ones(2) / 2})  # fmt: skip
        with pytest.raises(SiteFailure, match="distinct"):
            answer(problem, data, request)


# --- what leaves a site ----------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["entry", "user"])
def test_nothing_leaves_but_what_passed_the_gate_or_is_public(unit, monkeypatch):
    gated, sent = [], []
    gate = joint_als_parts.privatize
    monkeypatch.setattr(
        joint_als_parts, "privatize", lambda *a, **k: gated.append(gate(*a, **k)) or gated[-1]
    )
    respond = joint_als_parts.MemberPart.respond
    monkeypatch.setattr(
        joint_als_parts.MemberPart, "respond",
        lambda self, request: sent.append((self._stages[request.round], respond(self, request)))
        or sent[-1][1],
    )  # fmt: skip
    table = ratings(users=300)
    factorization(unit, 10.0, method=METHOD).fit([tc.Site("A", relation(table))])
    private = [reply for stage, reply in sent if stage.split()[0] not in ("counts", "pattern")]
    assert len(private) == len(gated) == len(sent) - (7 if unit == "entry" else 0)
    for reply, released in zip(private, gated, strict=True):
        assert list(reply.arrays) == ["sum"]
        np.testing.assert_array_equal(reply["sum"], released)
    # what is public for entries depends on which cells are observed alone
    other = np.where(np.isfinite(table), 6.0 - table, np.nan)
    before = [reply for stage, reply in sent if stage.split()[0] in ("counts", "pattern")]
    sent.clear()
    factorization(unit, 10.0, method=METHOD).fit([tc.Site("A", relation(other))])
    after = [reply for stage, reply in sent if stage.split()[0] in ("counts", "pattern")]
    for one, two in zip(before, after, strict=True):
        np.testing.assert_array_equal(one["sum"], two["sum"])


def test_a_site_answers_no_more_rounds_than_it_paid_for():
    problem, (data,) = stated([ratings()], "user", epsilon=1.0)
    ledger = tc.Ledger.memory(epsilon=1.0, delta=1e-6)
    reservation = ledger.reserve(METHOD.schedule(problem), purpose="test", delta=1e-6)
    part = METHOD.part(problem, "A", data, reservation, Noise(), np.random.default_rng(0))
    request = Message(0, {"kind": np.array([0])})
    part.respond(request)
    with pytest.raises(BudgetExceeded):
        part.respond(request)


def test_noise_has_the_promised_size():
    """Twice the same sums differ by noise alone, of the scale that the events state."""
    problem, (data,) = stated([ratings(users=100, items=40)], "user", epsilon=2.0)
    stages = METHOD.stages(problem)
    mechanism = METHOD.mechanisms(problem)["offsets"]
    request = Message(stages.index("offsets"), {"mean": np.zeros(1), "kind": np.array([0])})
    exact_problem, _ = stated([ratings(users=100, items=40)], "user")
    exact = answer(exact_problem, data, request)
    noise = Noise("grid", seed=1)
    errors = []
    for _ in range(100):
        ledger = tc.Ledger.memory(epsilon=2.0, delta=1e-6)
        reservation = ledger.reserve(METHOD.schedule(problem), purpose="test", delta=1e-6)
        part = METHOD.part(problem, "A", data, reservation, noise, np.random.default_rng(0))
        errors.append(part.respond(request)["sum"] - exact)
    assert np.std(errors) == pytest.approx(mechanism.scale, rel=0.05)
    assert mechanism.scale >= mechanism.sensitivity * mechanism.event.noise_multiplier * 0.999


# --- accountants, prices, ledgers ------------------------------------------------------------


def test_valid_accountants_need_more_noise_the_coarser_they_are():
    scales = {}
    for accountant in ("pld", "rdp", "zcdp", "advanced"):
        model = CoupledModel(MODEL, 2, "euclidean")
        data = [site_relations(model, "A", relation(ratings()))]
        problem = state_problem(
            model, data, bounds=BOUNDS, privacy=privacy(), accountant=accountant
        )
        scales[accountant] = METHOD.mechanisms(problem)["offsets"].scale
        fitted = factorization(accountant=accountant).fit([tc.Site("A", relation(ratings()))])
        assert fitted.certificate_.verify().epsilon <= 1.0 + 1e-9
    assert scales["pld"] < scales["rdp"] <= scales["zcdp"] * 1.001 < scales["advanced"]


def test_all_sites_pay_or_none():
    rich = tc.Ledger.memory(epsilon=5.0, delta=1e-5)
    poor = tc.Ledger.memory(epsilon=0.5, delta=1e-5)
    sites = [tc.Site("A", relation(ratings(1)), rich), tc.Site("B", relation(ratings(2)), poor)]
    with pytest.raises(BudgetExceeded, match="B"):
        factorization().fit(sites)
    assert rich.remaining.epsilon == 5.0
    assert not factorization().price(sites).affordable


# --- faults ----------------------------------------------------------------------------------


class Death(BaseException):
    """What kill -9 looks like from inside."""


def break_site(monkeypatch, name, at, how):
    respond = joint_als_parts.MemberPart.respond

    def broken(self, request):
        if self.name == name and request.round == at:
            if isinstance(how, type):
                raise how("lost")
            reply = respond(self, request)
            return Message(request.round, {"sum": how(reply["sum"])})
        return respond(self, request)

    monkeypatch.setattr(joint_als_parts.MemberPart, "respond", broken)


@pytest.mark.parametrize(
    "how",
    [RuntimeError, ConnectionError, lambda s: s * np.nan, lambda s: s[:-1], lambda s: s[None]],
    ids=["raises", "disappears", "nan", "short", "axis"],
)
def test_a_site_that_fails_stops_the_run_or_is_left_out(monkeypatch, how):
    break_site(monkeypatch, "B", 1, how)
    ledgers = {n: tc.Ledger.memory(epsilon=3.0, delta=1e-5) for n in "AB"}
    sites = [tc.Site(n, relation(ratings(k)), ledgers[n]) for k, n in enumerate("AB")]
    with pytest.raises(SiteFailure, match="'B' failed in round 1"):
        factorization().fit(sites)
    fitted = factorization(on_failure="exclude").fit(sites)
    assert [f.site for f in fitted.failures_] == ["B"] and list(fitted.parts_) == ["A"]
    assert np.isfinite(fitted.predict("A", [[0, 0]])).all()
    with pytest.raises(ParameterError, match="no site 'B'"):
        fitted.predict("B", [[0, 0]])
    for ledger in ledgers.values():  # two runs were reserved in full at either site
        assert ledger.remaining.epsilon == pytest.approx(1.0)


@pytest.mark.parametrize("at", [0, 2, 4])
def test_a_run_that_died_goes_on_and_pays_once(tmp_path, monkeypatch, at):
    ledgers = {n: tc.Ledger.open(tmp_path / f"{n}.db", epsilon=3.0, delta=1e-5) for n in "AB"}
    sites = [tc.Site(n, relation(ratings(k)), ledgers[n]) for k, n in enumerate("AB")]
    sent = []
    respond = joint_als_parts.MemberPart.respond

    def recorded(self, request):
        if not died and self.name == "B" and request.round == at:
            died.append(True)
            raise Death
        reply = respond(self, request)
        sent.append((self.name, request.round, reply.to_bytes()))
        return reply

    died = []
    monkeypatch.setattr(joint_als_parts.MemberPart, "respond", recorded)
    model = factorization(random_state=None, checkpoint=tmp_path / "run")
    with pytest.raises(Death):
        model.fit(sites)
    fitted = factorization(random_state=None, checkpoint=tmp_path / "run").fit(sites)
    assert fitted.record_.resumed_at == at
    for ledger in ledgers.values():
        assert ledger.remaining.epsilon == pytest.approx(2.0)
    drawn = [(name, number) for name, number, _ in sent]
    assert len(drawn) == len(set(drawn)) == 10  # five rounds at two sites, each drawn once
    assert fitted.certificate_.verify()


# --- bad input -------------------------------------------------------------------------------


def test_bad_input_is_refused_before_anybody_pays():
    ledger = tc.Ledger.memory(epsilon=1.0, delta=1e-5)
    holder = tc.Site("A", relation(ratings()), ledger)
    other = tc.Site("B", relation(ratings(items=13)))
    cases = [
        ({"bounds": None}, [holder], UnboundedData, "bounds must be given"),
        ({"bounds": (5, 1)}, [holder], ParameterError, "low < high"),
        ({"bounds": "abc"}, [holder], ParameterError, "low < high"),
        ({"privacy": privacy("row")}, [holder], ParameterError, "'entry' or 'user'"),
        ({"privacy": tc.Privacy(1.0, unit="user", trust="site")}, [holder], ParameterError,
         "delta"),
        ({"privacy": privacy("entry", neighbours="add-remove-one")}, [holder], ParameterError,
         "replaced"),
        ({"shared": ("user",)}, [holder], ParameterError, "shared names 'user'"),
        ({"protected": "patient"}, [holder], ParameterError, "protected names"),
        ({"calibration": "published"}, [holder], ParameterError, "published"),
        ({}, [holder, other], ParameterError, "sites disagree about 'item'"),
        ({"method": "magic"}, [holder], ParameterError, "method must be"),
    ]  # fmt: skip
    for options, sites, kind, message in cases:
        with pytest.raises(kind, match=message):
            factorization(**options).fit(sites)
    assert ledger.remaining.epsilon == 1.0


def test_cells_outside_of_a_site_are_refused():
    fitted = factorization().fit([tc.Site("A", relation(ratings()))])
    for cells in ([[0, 99]], [[-1, 0]], [[60, 0]], [[0.5, 1]], [0, 1]):
        with pytest.raises(ParameterError, match="cells must"):
            fitted.predict("A", cells)


def test_values_outside_their_bounds_are_clipped_silently():
    table = ratings()
    wild = table.copy()
    wild[np.isfinite(table) & (table == 5.0)] = 1e12
    fitted = [
        factorization(epsilon=math.inf).fit([tc.Site("A", relation(t))]) for t in (table, wild)
    ]
    for name, value in fitted[0].shared_factors_.items():
        np.testing.assert_array_equal(value, fitted[1].shared_factors_[name])


def test_the_protected_entity_may_be_the_second_one():
    table = ratings()
    turned = tc.Relation.from_dense(("item", "user"), table.T)
    one = factorization(epsilon=math.inf).fit([tc.Site("A", relation(table))])
    two = tc.CoupledFactorization(
        "item:k user:k", rank=2, bounds=BOUNDS, protected="user", random_state=0,
        privacy=privacy(epsilon=math.inf),
    ).fit([tc.Site("A", turned)])  # fmt: skip
    np.testing.assert_allclose(
        one.predict("A", [[3, 1], [4, 2]]), two.predict("A", [[1, 3], [2, 4]]), rtol=1e-9
    )


def test_adopted_factors_predict_as_the_fit_does_and_charge_nothing():
    ledger = tc.Ledger.memory(epsilon=1.0, delta=1e-5)
    site = tc.Site("A", relation(ratings()), ledger)
    fitted = factorization(epsilon=1.0).fit([site])
    spent = ledger.counter
    adopted = factorization(epsilon=1.0).adopt(fitted.shared_factors_, site)
    cells = [[3, 1], [4, 2], [59, 11]]
    np.testing.assert_array_equal(adopted.predict("A", cells), fitted.predict("A", cells))
    newcomers = tc.Site("B", relation(ratings(seed=5, users=7)))
    assert adopted.adopt(fitted.shared_factors_, newcomers).predict("B", [[6, 0]]).shape == (1,)
    assert ledger.counter == spent
    with pytest.raises(NotCertified, match="nothing to release"):
        adopted.release("nowhere")
    with pytest.raises(ParameterError, match="not about the 9 members of 'item'"):
        factorization().adopt(fitted.shared_factors_, tc.Site("C", relation(ratings(items=9))))
    with pytest.raises(ParameterError, match="least squares only"):
        factorization(method="sgld").adopt(fitted.shared_factors_, site)
