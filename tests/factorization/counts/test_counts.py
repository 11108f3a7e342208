"""Counts that every site perturbs once: privacy, what leaves, exactness, faults, bad input."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import tacit as tc
from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.errors import BudgetExceeded, ParameterError, RequestRefused, SiteFailure
from tacit.estimators.coordinator import Asking
from tacit.estimators.gate import Gate
from tacit.factorization.alone.numerics.gibbs import GibbsSampler
from tacit.factorization.alone.numerics.sums import Engine
from tacit.factorization.counts import learn as counts_learn
from tacit.factorization.counts import views as counts_views
from tacit.factorization.counts.method import LocalCounts
from tacit.factorization.counts.sides import CountingSite
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.offsets.numerics.own_model import OwnRatesModel, Seen
from tacit.factorization.together.problem import state_problem
from tacit.mechanisms.noise import Noise
from tacit.privacy.ledger.ledger import Ledger
from tacit.rounds.aggregate import PlainAggregator
from tacit.rounds.messages import Message
from tacit.rounds.sides import Collected

SHORT = {"burn_in": 5, "draws": 5, "thin": 1}


def privacy(epsilon=1.0, unit="entry", trust="local", **more):
    return tc.Privacy(epsilon, unit=unit, trust=trust, neighbours="replace-one", **more)


def counts(seed=0, users=(12, 8), items=6, scale=1.0, observed=0.7):
    """Return arrays of counts with missing cells, one for each site, and their rates."""
    rng = np.random.default_rng(seed)
    item = rng.gamma(1.0, 1.0, (items, 2))
    rates = [scale * rng.gamma(1.0, 1.0, (n, 2)) @ item.T for n in users]
    found = []
    for rate in rates:
        x = np.minimum(rng.poisson(rate), 20).astype(float)
        x[rng.random(x.shape) > observed] = np.nan
        found.append(x)
    return found, rates


def sites(arrays, ledgers=None):
    names = "north", "south", "east", "west"
    return [
        tc.Site(name, array, ledger=None if ledgers is None else ledgers[name])
        for name, array in zip(names, arrays, strict=False)
    ]


def model(asked=None, method=None, *, bounds=(0, 20), seed=1, **more):
    return tc.PrivateFactorization(
        "user:k item:k", rank=2, divergence="kl", bounds=bounds, privacy=asked,
        method=LocalCounts(**SHORT) if method is None else method, random_state=seed, **more,
    )  # fmt: skip


def stated(arrays, asked, bounds=(0, 20), forms=None):
    coupled = CoupledModel(forms or "user:k item:k", 2)
    relations = [{"data": Relation.from_dense(("user", "item"), a)} for a in arrays]
    return state_problem(coupled, relations, bounds=bounds, privacy=asked), relations


# --- privacy -------------------------------------------------------------------------------------


def sent(array, asked, method, noise, bounds=(0, 4), seed=3):
    """Return what one site sends, through the real code path."""
    problem, relations = stated([array], asked, bounds)
    part = site_of(method.agree(problem), "north", relations[0], noise, generator(seed))
    return part.respond(Message(0, {}, "views"))["data"]


def site_of(agreement, name, relations, noise, rng):
    ledger = Ledger.memory(
        unit=agreement.privacy.unit,
        neighbours="replace-one",
        epsilon=agreement.privacy.epsilon,
        delta=0.0,
    )
    reservation = ledger.reserve(agreement.event, purpose="test", delta=0.0)
    return CountingSite(agreement, name, relations, Gate(reservation, noise), rng)


def excess(asked, method, one, two, broken=False, cells=20_000):
    """Return the standardised amount by which an event tells neighbours apart beyond e^ε.

    Many copies of a cell stand in for many runs: noise is independent between cells. The events
    are all {z ≥ t}.
    """
    found = []
    for value, seed in ((one, 1), (two, 2)):
        array = np.full((1, cells), float(value))
        if broken:  # the site takes a change of one for the largest there is
            asked = privacy(asked.epsilon * 4)
        found.append(sent(array, asked, method, Noise(seed=seed))[:, -1])
    worst = -math.inf
    for t in range(-6, 12):
        for sign in (1, -1):
            p, q = ((sign * z >= sign * t).mean() for z in found)
            bound = math.exp(1.0)  # the certified ε of the request
            spread = math.sqrt((p * (1 - p) + bound**2 * q * (1 - q)) / cells) + 1e-12
            worst = max(worst, (p - bound * q) / spread)
    return worst


# 36 events a test: P(any score > 6) < 4e-8
THRESHOLD = 6.0


@pytest.mark.parametrize(("one", "two"), [(4, 0), (0, 4), (99, -99), (4.4, 0.2)])
def test_the_perturbed_view_keeps_its_epsilon(one, two):
    """The farthest neighbours there are, and values that only bounds and rounding bring there."""
    assert excess(privacy(1.0), LocalCounts(), one, two) < THRESHOLD


def test_too_little_noise_is_caught():
    assert excess(privacy(1.0), LocalCounts(), 4, 0, broken=True) > THRESHOLD


def test_values_without_clipping_would_be_caught(monkeypatch):
    monkeypatch.setattr(counts_views, "clip_values", lambda x, low, high: np.asarray(x))
    assert excess(privacy(1.0), LocalCounts(), 9, -2) > THRESHOLD


def test_nothing_is_found_within_a_cell_that_did_not_change():
    array = np.array([[1.0, 4.0, np.nan, 0.0]])
    other = np.array([[3.0, 4.0, np.nan, 0.0]])
    one, two = (sent(a, privacy(1.0), LocalCounts(), Noise(seed=1)) for a in (array, other))
    np.testing.assert_array_equal(one[:, :-1], two[:, :-1])
    np.testing.assert_array_equal(one[1:], two[1:])
    assert one[0, -1] - two[0, -1] == -2


def test_the_certificate_says_what_epsilon_means():
    arrays, _ = counts()
    fitted = model(privacy(0.5)).fit(sites(arrays))
    for certificate in fitted.certificates_.values():
        assert certificate.epsilon == pytest.approx(0.5, rel=1e-6)
        assert (certificate.unit, certificate.neighbours) == ("entry", "replace-one")
        text = str(certificate.verify())
        for words in ("ε is per cell", "which cells are observed is public", "in [0, 20]",
                      "taken for the person"):  # fmt: skip
            assert words in text
    own = model(privacy(0.5, trust="site"), LocalCounts("own", **SHORT)).fit(sites(arrays))
    assert "made from its raw values" in str(own.certificate_)


def test_the_price_is_known_before_and_charged_once():
    arrays, _ = counts()
    ledgers = {name: Ledger.memory(unit="entry", epsilon=1.5) for name in ("north", "south")}
    estimator, holders = model(privacy(1.0)), sites(arrays, ledgers)
    assert [round(row.epsilon, 6) for row in estimator.price(holders).sites] == [1.0, 1.0]
    estimator.fit(holders)
    for ledger in ledgers.values():
        assert ledger.spent.epsilon == pytest.approx(1.0, rel=1e-6)
    with pytest.raises(BudgetExceeded):
        estimator.fit(holders)


# --- a budget per user ---------------------------------------------------------------------------


def test_a_users_budget_is_split_over_a_bound_on_their_cells():
    asked, method = privacy(2.0, "user"), LocalCounts(cells=3, **SHORT)
    array = np.arange(40.0).reshape(4, 10) % 5
    view = sent(array, asked, method, Noise(seed=1))
    assert np.bincount(view[:, 0]).tolist() == [3, 3, 3, 3]
    problem, _ = stated([array], asked, (0, 4))
    assert method.agree(problem).mechanism(0).alpha == pytest.approx(math.exp(-2.0 / (3 * 4)))
    fitted = model(asked, method, bounds=(0, 4)).fit(tc.Site("north", array))
    assert fitted.certificate_.epsilon == pytest.approx(2.0, rel=1e-6)
    assert fitted.certificate_.unit == "user"
    text = str(fitted.certificate_)
    assert "at most 3 cells" in text
    assert "which cells a member of 'user' has is public" in text


def test_noise_is_for_the_widest_of_all_bounds():
    """A changed value moves its cell by the width of its own relation: the widest counts."""
    asked, method = privacy(2.0, "entry"), LocalCounts()
    problem, _ = stated([np.zeros((4, 10))], asked, (0, 4))
    for bounds in ({"a": (0, 3), "b": (2, 12)}, {"a": (2, 12), "b": (0, 3)}):
        public = replace(method.agree(problem), problem=replace(problem, bounds=bounds))
        assert public.mechanism(5).sensitivity == 10


def test_a_site_that_is_missing_is_passed_on_with_no_cells():
    problem, _ = stated([np.zeros((4, 10))], privacy(2.0, "entry"))
    public = LocalCounts().agree(problem)
    public = replace(public, problem=replace(problem, sites=2))
    view = np.array([[0, 1, 7], [3, 9, -2]])
    heard = Collected(("north",), {}, {"north": {"members": np.array([4]), "data": view}})
    told = public._passed_on(heard)
    assert told["members"].tolist() == [4, 0]
    np.testing.assert_array_equal(told["view/0/data"], view)
    assert told["view/1/data"].shape == (0, 3)


def test_which_cells_are_sent_does_not_depend_on_values():
    asked, method = privacy(2.0, "user"), LocalCounts(cells=3)
    array = np.arange(40.0).reshape(4, 10) % 5
    one, two = (sent(a, asked, method, Noise(seed=1)) for a in (array, 4 - array))
    np.testing.assert_array_equal(one[:, :-1], two[:, :-1])


def test_a_user_who_changes_everything_moves_what_is_sent_by_the_sensitivity_at_most():
    asked, method = privacy(2.0, "user"), LocalCounts(cells=3)
    array = np.zeros((4, 10))
    other = array.copy()
    other[2] = 1e9
    one, two = (sent(a, asked, method, Noise(seed=1)) for a in (array, other))
    problem, _ = stated([array], asked, (0, 4))
    assert np.abs(one - two)[:, -1].sum() == method.agree(problem).mechanism(0).sensitivity == 12


def test_observed_zeros_are_perturbed_too():
    relation = Relation.from_cells(
        ("user", "item"), [[0, 1]], [3.0], shape=(2, 3), zeros="observed"
    )
    fitted = model(privacy(0.1)).fit(tc.Site("north", relation))
    assert fitted.record_.bytes_received == 8 * (6 * 3 + 1) + 8


# --- what leaves a site --------------------------------------------------------------------------


@pytest.mark.parametrize("views", ["perturbed", "own"])
def test_nothing_raw_leaves_a_site(views, monkeypatch):
    """Every array that leaves is recorded; noise so large that no raw count survives it."""
    arrays, _ = counts()
    left, released, gate = [], [], Gate.release

    def respond(part, request, original=CountingSite.respond):
        reply = original(part, request)
        left.append((part.name, request.round, dict(reply.arrays)))
        return reply

    def recorded(*args, **options):
        released.append(gate(*args, **options))
        return released[-1]

    monkeypatch.setattr(CountingSite, "respond", respond)
    monkeypatch.setattr(Gate, "release", recorded)
    model(privacy(1e-3), LocalCounts(views, **SHORT)).fit(sites(arrays))
    assert [(name, round) for name, round, _ in left] == [
        ("north", 0), ("south", 0), ("north", 1), ("south", 1)
    ]  # fmt: skip
    for (_, _, reply), passed, array in zip(left[:2], released, arrays, strict=True):
        assert set(reply) == {"data", "members"}
        np.testing.assert_array_equal(reply["data"][:, -1], passed)
        np.testing.assert_array_equal(reply["data"][:, :-1], np.argwhere(np.isfinite(array)))
        assert reply["members"].tolist() == [len(array)]
    for _, _, reply in left[2:]:
        assert {n: a.tolist() for n, a in reply.items()} == {"done": [1]}


@pytest.mark.parametrize("views", ["perturbed", "own"])
def test_the_coordinator_learns_the_same_whatever_the_raw_counts_were(views):
    """Raw counts and noise that differ, and what is sent does not."""
    (one, two), _ = counts()
    found = []
    for shift in (0, 1):
        method = LocalCounts(views, **SHORT)
        problem, relations = stated([one + shift, two + shift], privacy(1.0), (0, 40))
        agreement = method.agree(problem)
        coordinator = Asking(agreement, 1)
        request = coordinator.request(0)
        replies = {}
        for name, held in zip(("north", "south"), relations, strict=True):
            part = site_of(agreement, name, held, Noise(seed=1), generator(2))
            reply = part.respond(request)
            data = reply["data"].copy()
            data[:, -1] -= shift  # as if the noise had made up for it
            replies[name] = Message(0, {"data": data, "members": reply["members"]})
        coordinator.absorb(0, PlainAggregator().collect(replies))
        told = coordinator.request(1)
        done = {name: Message(1, {"done": np.ones(1, np.int64)}) for name in replies}
        coordinator.absorb(1, PlainAggregator().collect(done))
        found.append((agreement.shared(coordinator.result), told))
    for name in found[0][0]:
        np.testing.assert_array_equal(found[0][0][name], found[1][0][name])
    assert found[0][1].to_bytes() == found[1][1].to_bytes()


def test_only_own_views_use_raw_counts():
    """A site's raw counts change its predictions, not its neighbour's, nor what is shared."""
    arrays, _ = counts(users=(30, 8))
    results = {}
    for views in ("perturbed", "own"):
        method = LocalCounts(views, own_effects=False, **SHORT)
        fitted = model(privacy(0.05, trust="site"), method).fit(sites(arrays))
        results[views] = fitted
    one, two = (results[v].shared_factors_["item"] for v in ("perturbed", "own"))
    np.testing.assert_array_equal(one, two)
    cells = np.argwhere(np.isfinite(arrays[0]))
    truth = arrays[0][tuple(cells.T)]
    error = {v: np.mean((r.predict("north", cells) - truth) ** 2) for v, r in results.items()}
    assert error["own"] < error["perturbed"]


@pytest.mark.parametrize("views", ["perturbed", "own"])
def test_predictions_lose_to_nothing_that_is_free(views):
    """Under noise that hides everything a site predicts as well as its own effects do."""
    arrays, rates = counts(users=(60, 30))
    fitted = model(privacy(0.01, trust="site"), LocalCounts(views, **SHORT)).fit(sites(arrays))
    hidden = np.argwhere(np.isnan(arrays[0])).astype(np.int32)
    seen = np.argwhere(np.isfinite(arrays[0])).astype(np.int32)
    nothing = np.zeros((len(seen), 0))
    alone = OwnRatesModel(
        {"x": Seen(seen, arrays[0].shape, 0, arrays[0][tuple(seen.T)], nothing.sum(1), nothing)}
    ).predict("x", hidden, nothing[: len(hidden), :0])
    truth = rates[0][tuple(hidden.T)]
    ours = fitted.predict("north", hidden)
    misfit = [np.mean(found - truth * np.log(found)) for found in (ours, alone)]
    assert misfit[0] <= misfit[1] + 0.01
    drawn = model(privacy(0.01, trust="site"), LocalCounts(views, own_effects=False, **SHORT)).fit(
        sites(arrays)
    )
    theirs = np.maximum(drawn.predict("north", hidden), 1e-3)
    assert misfit[0] < np.mean(theirs - truth * np.log(theirs))
    mean, low, high = fitted.predict("north", hidden, interval=0.9)
    np.testing.assert_array_equal(mean, ours)
    assert (low <= high).all()


# --- exactness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("views", ["perturbed", "own"])
@pytest.mark.parametrize("inference", ["exact", "naive"])
def test_infinite_epsilon_is_the_ordinary_sampler_on_raw_counts(views, inference):
    arrays, _ = counts()
    method = LocalCounts(views, inference, shape=1.0, mean=0.7, own_effects=False, **SHORT)
    open_ended = model(privacy(math.inf), method).fit(sites(arrays))
    twin = model(None, method).fit(sites(arrays))
    huge = model(privacy(1e6), method).fit(sites(arrays))  # α underflows to 0
    cells = np.argwhere(np.isfinite(arrays[0]))
    expected = open_ended.predict("north", cells)
    np.testing.assert_array_equal(expected, twin.predict("north", cells))
    np.testing.assert_array_equal(expected, huge.predict("north", cells))
    assert not open_ended.certificate_.is_private

    data = {"data": Relation.from_dense(("user", "item"), np.vstack(arrays))}
    forms = {"data": "user:k item:k"}
    sampler = GibbsSampler(Engine(CoupledModel(forms, 2).bind(data), data), 1.0, 0.7)
    rng = generator(1, "coordinator" if views == "perturbed" else "site north")
    state, total = sampler.init(rng), 0.0
    for step in range(10):
        state, _ = sampler.step(rng, state)
        if step >= 5:
            rates = state.factors["user"] @ state.factors["item"].T
            total = total + rates[tuple(cells.T)] / 5
    np.testing.assert_allclose(expected, np.clip(total, 0, 20), rtol=1e-12)


def calibration_p_value(copies=400, draws=7):
    """Return the p-value that ranks of true rates among draws are uniform (Talts et al. 2018).

    From the prior through sites, gate and chain. Both sites hold block-diagonal data: every block
    of three users and four items is a model of its own.
    """
    rng = generator(1, "calibration")
    item = rng.gamma(2.0, 0.5, 4 * copies)
    users = [rng.gamma(2.0, 0.5, 3 * copies) for _ in range(2)]
    block = np.array([[i, j] for i in range(3) for j in range(4)])
    cells = (np.arange(copies)[:, None, None] * [3, 4] + block).reshape(-1, 2)
    held = [
        Relation.from_cells(
            ("user", "item"),
            cells,
            rng.poisson(u[cells[:, 0]] * item[cells[:, 1]]),
            shape=(3 * copies, 4 * copies),
        )
        for u in users
    ]
    fitted = tc.PrivateFactorization(
        "user:k item:k", rank=1, divergence="kl", bounds=(0, 50), privacy=privacy(20.0),
        method=LocalCounts(shape=2.0, mean=1.0, burn_in=100, draws=draws, thin=25), random_state=1,
    ).fit(sites(held))  # fmt: skip
    found = fitted.parts_["north"].kept
    drawn = found["draws/user"][:, ::3, 0] * found["draws/item"][:, ::4, 0]
    ranks = (drawn < users[0][::3] * item[::4]).sum(axis=0)
    return stats.chisquare(np.bincount(ranks, minlength=draws + 1)).pvalue


def test_the_whole_method_keeps_the_joint_distribution():
    assert calibration_p_value() > 1e-4


@pytest.mark.parametrize("wrong", ["naive", "half"])
def test_a_wrong_likelihood_is_noticed(wrong, monkeypatch):
    def sampler(bound, data, alpha, *prior, mode):
        mode = "naive" if wrong == "naive" else mode
        return SAMPLER(
            bound, data, {name: 0.5 * a for name, a in alpha.items()}, *prior, mode=mode
        )

    monkeypatch.setattr(counts_learn, "LocalGibbsSampler", sampler)
    assert calibration_p_value() < 1e-8


SAMPLER = counts_learn.LocalGibbsSampler


# --- several relations, tensors, public data -----------------------------------------------------


def test_relations_public_data_and_private_factors_of_any_form():
    rng = np.random.default_rng(5)
    forms = {"visits": "user:k place:l act:m core:klm", "poi": "place:l kind:l",
             "calls": "user:k hour:k"}  # fmt: skip
    poi = Relation.from_dense(("place", "kind"), rng.poisson(2.0, (5, 3)).astype(float))
    held = [
        {"visits": rng.poisson(1.0, (4, 5, 2)).astype(float),
         "calls": Relation.from_dense(("hour", "user"), rng.poisson(2.0, (6, 4)).astype(float))},
        {"visits": rng.poisson(1.0, (7, 5, 2)).astype(float)},
    ]  # fmt: skip
    for views in ("perturbed", "own"):
        fitted = tc.PrivateFactorization(
            forms, rank=2, divergence="kl", bounds={"visits": (0, 5), "calls": (0, 9)},
            shared=("place", "core"), privacy=privacy(3.0, trust="site"), random_state=1,
            method=LocalCounts(views, **SHORT),
        ).fit([tc.Site("a", held[0]), tc.Site("b", held[1])], public={"poi": poi})  # fmt: skip
        assert fitted.shared_factors_["core"].shape == (2, 2, 2)
        assert set(fitted.shared_factors_) == {"place", "core"}
        found = fitted.predict("b", [[6, 4, 1]], relation="visits")
        assert 0 <= found[0] <= 5
        assert fitted.predict("a", [[0, 5]], relation="calls").shape == (1,)
        with pytest.raises(ParameterError, match="'b' has no relation 'calls'"):
            fitted.predict("b", [[0, 5]], relation="calls")


def test_sizes_are_no_trouble():
    """A site with one user, users without cells, and another one with nothing to say."""
    arrays = [np.full((3, 4), np.nan), np.array([[1.0, 2.0, np.nan, 0.0]])]
    for views in ("perturbed", "own"):
        fitted = model(privacy(1.0), LocalCounts(views, **SHORT)).fit(sites(arrays))
        assert np.isfinite(fitted.predict("north", [[2, 3], [0, 0]])).all()


def test_predictions_stay_within_the_bounds():
    arrays = [np.full((5, 4), 5.0)]
    fitted = model(privacy(0.2), bounds=(1, 5)).fit(sites(arrays))
    found = fitted.predict("north", np.argwhere(arrays[0] > 0))
    assert ((found >= 1) & (found <= 5)).all()


# --- accuracy ------------------------------------------------------------------------------------


def test_exact_inference_and_own_counts_help():
    ways = {
        "LDP1": LocalCounts(thin=2),
        "naive": LocalCounts(inference="naive", thin=2),
        "LDP2": LocalCounts("own", thin=2),
    }
    scores = {name: [] for name in ways}
    for seed in (1, 2, 3):
        arrays, rates = counts(seed, (40, 80), 25, 0.7, 0.8)
        hidden = np.argwhere(np.isnan(arrays[0]))
        truth = rates[0][tuple(hidden.T)]
        for name, method in ways.items():
            fitted = model(privacy(10.0), method, seed=seed).fit(sites(arrays))
            error = fitted.predict("north", hidden) - truth
            scores[name].append(float(np.sqrt(np.mean(error**2))))
    means = {name: np.mean(found) for name, found in scores.items()}
    assert means["LDP2"] < means["LDP1"] < means["naive"]


def test_a_private_result_beats_knowing_nothing(monkeypatch):
    """Ratings with offsets of users and items, rounded: against means of what was sent (A9)."""
    rng = np.random.default_rng(6)
    level = 3.4 + rng.normal(0, 0.5, (120, 1)) + rng.normal(0, 0.6, (1, 60))
    ratings = np.clip(np.round(level + rng.normal(0, 0.8, level.shape)), 1, 5)
    test = rng.random(ratings.shape) < 0.2
    train = np.where(test, np.nan, ratings)
    cells, known = np.argwhere(test), np.argwhere(~test)
    gate, released = Gate.release, []
    monkeypatch.setattr(
        Gate, "release", lambda *a, **o: released.append(gate(*a, **o)) or released[-1]
    )
    for epsilon, margin in ((0.1, 1.01), (2.0, 1.0), (20.0, 0.97)):
        fitted = model(privacy(epsilon), LocalCounts(), bounds=(1, 5)).fit(sites([train]))
        view = released[-1]  # the very numbers that the fit had
        everybody = np.clip(1 + view.mean(), 1, 5)
        items = np.array([view[known[:, 1] == j].mean() for j in range(60)])
        item_means = np.clip(1 + items, 1, 5)[cells[:, 1]]
        guesses = fitted.predict("north", cells), everybody, item_means
        errors = [np.sqrt(np.mean((found - ratings[test]) ** 2)) for found in guesses]
        assert errors[0] < margin * min(errors[1:])


# --- faults --------------------------------------------------------------------------------------


class Killed(BaseException):
    """The process dies."""


def dying(monkeypatch, name, round, broken=None):
    """Let a site die, or answer as ``broken`` says, in a round."""
    original = CountingSite.respond

    def respond(part, request):
        if part.name == name and request.round == round:
            if broken is None:
                raise Killed
            return broken(original(part, request))
        return original(part, request)

    monkeypatch.setattr(CountingSite, "respond", respond)
    return lambda: monkeypatch.setattr(CountingSite, "respond", original)


@pytest.mark.parametrize("views", ["perturbed", "own"])
@pytest.mark.parametrize(("name", "round"), [("south", 0), ("north", 1), ("south", 1)])
def test_a_run_that_died_is_resumed_without_fresh_noise(views, name, round, monkeypatch, tmp_path):
    arrays, _ = counts()
    ledgers = {n: Ledger.memory(unit="entry", epsilon=1.0) for n in ("north", "south")}
    options = {"checkpoint": tmp_path / "run", "seed": None}
    method = LocalCounts(views, **SHORT)
    heal = dying(monkeypatch, name, round)
    drawn, gate = [], Gate.release
    monkeypatch.setattr(Gate, "release", lambda *a, **o: drawn.append(a) or gate(*a, **o))
    with pytest.raises(Killed):
        model(privacy(1.0), method, **options).fit(sites(arrays, ledgers))
    assert len(drawn) == 1 + round
    heal()
    for _ in range(2):  # a run that was complete is resumed as well
        fitted = model(privacy(1.0), method, **options).fit(sites(arrays, ledgers))
        assert np.isfinite(fitted.predict("north", [[0, 0]])).all()
    assert len(drawn) == 2  # one view of each site, whatever died
    for ledger in ledgers.values():
        assert ledger.spent.epsilon == pytest.approx(1.0, rel=1e-6)


def twice(reply):
    return Message(reply.round, {**reply.arrays, "data": np.repeat(reply["data"], 2, axis=0)})


def outside(reply):
    data = reply["data"].copy()
    data[0, 1] = 99
    return Message(reply.round, {**reply.arrays, "data": data})


def huge(reply):
    return Message(reply.round, {**reply.arrays, "data": reply["data"] + 10**10})


def floats(reply):
    return Message(reply.round, {**reply.arrays, "data": reply["data"] * math.nan})


def short(reply):
    return Message(reply.round, {"data": reply["data"]})


@pytest.mark.parametrize(
    ("broken", "reason"),
    [(twice, "names a cell twice"), (outside, "names cells outside"), (huge, "numbers outside"),
     (floats, "has dtype float64"), (short, "was asked for")],
)  # fmt: skip
def test_nonsense_stops_the_run_or_is_left_out(broken, reason, monkeypatch):
    arrays, _ = counts()
    dying(monkeypatch, "north", 0, broken)
    with pytest.raises(SiteFailure, match=reason):
        model(privacy(1.0)).fit(sites(arrays))
    fitted = model(privacy(1.0), on_failure="exclude").fit(sites(arrays))
    assert [failure.site for failure in fitted.failures_] == ["north"]
    assert fitted.predict("south", [[0, 0]]).shape == (1,)
    with pytest.raises(ParameterError, match="no site 'north'"):
        fitted.predict("north", [[0, 0]])


# --- a hostile coordinator -----------------------------------------------------------------------


def asked_twice(views, change):
    """Return a site that has sent its view, and the honest second request with one change."""
    (one, two), _ = counts()
    problem, relations = stated([one, two], privacy(1.0))
    agreement = LocalCounts(views, **SHORT).agree(problem)
    coordinator, replies = Asking(agreement, 1), {}
    parts = [
        site_of(agreement, name, held, Noise(seed=1), generator(2))
        for name, held in zip(("north", "south"), relations, strict=True)
    ]
    request = coordinator.request(0)
    for part in parts:
        replies[part.name] = part.respond(request)
    coordinator.absorb(0, PlainAggregator().collect(replies))
    arrays = {n: a.copy() for n, a in coordinator.request(1).arrays.items()}
    change(arrays)
    return parts[0], Message(1, arrays, "learned")


def cell_beyond(arrays):
    arrays["view/1/data"][0, 1] = 6


def cell_before(arrays):
    arrays["view/1/data"][0, 0] = -1


def cell_listed_twice(arrays):
    arrays["view/1/data"][1] = arrays["view/1/data"][0]


def another_site(arrays):
    arrays["view/2/data"] = arrays["view/1/data"]


def no_names(arrays):
    arrays["sites"] = np.frombuffer(b"[1, 2]", np.uint8)


def one_name_twice(arrays):
    arrays["sites"] = np.frombuffer(b'["north", "north"]', np.uint8)


def without_us(arrays):
    arrays["sites"] = np.frombuffer(b'["west", "south"]', np.uint8)


def a_crowd(arrays):
    arrays["members"][1] = 10**9


@pytest.mark.parametrize(
    "change",
    [cell_beyond, cell_before, cell_listed_twice, another_site, no_names, one_name_twice,
     without_us, a_crowd],
)  # fmt: skip
def test_views_that_travel_are_checked_like_any_other_request(change):
    site, request = asked_twice("own", change)
    with pytest.raises(RequestRefused):
        site.respond(request)


def test_draws_about_other_members_are_of_no_use():
    def fewer(arrays):
        arrays["members"][0] -= 1

    site, request = asked_twice("perturbed", fewer)
    site.respond(request)
    with pytest.raises(ParameterError, match="nothing was learned"):
        site.predict("data", np.array([[0, 0]], np.int32))


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"views": "raw"}, "views must be"),
        ({"inference": "fast"}, "inference must be"),
        ({"cells": 0}, "cells must be"),
        ({"shape": 0.0}, "shape must be"),
        ({"mean": -1.0}, "mean must be"),
        ({"burn_in": -1}, "burn_in must be"),
        ({"draws": 0}, "draws must be"),
        ({"thin": 0}, "thin must be"),
    ],
)
def test_impossible_settings_are_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        LocalCounts(**options)


@pytest.mark.parametrize(
    ("asked", "method", "options", "message"),
    [
        (tc.Privacy(1.0, unit="row", trust="site"), {}, {}, "must be 'entry'"),
        (privacy(1.0, "user"), {}, {}, "LocalCounts\\(cells="),
        (privacy(1.0), {"cells": 3}, {}, "go together"),
        (privacy(1.0, trust="central"), {}, {}, "must be 'local' or 'site'"),
        (
            tc.Privacy(1.0, unit="user", neighbours="add-remove-one", trust="site"),
            {"cells": 3},
            {},
            "neighbours='replace-one'",
        ),
        (privacy(1.0), {}, {"bounds": (0.5, 5)}, "must be whole numbers"),
        (privacy(1e-7), {}, {}, "nothing could be learned"),
    ],
)
def test_problems_without_an_honest_answer_are_refused(asked, method, options, message):
    arrays, _ = counts()
    with pytest.raises(ParameterError, match=message):
        model(asked, LocalCounts(**method), **options).fit(sites(arrays)[:1])


def test_other_divergences_are_refused():
    arrays, _ = counts()
    estimator = tc.PrivateFactorization(
        "user:k item:k", bounds=(0, 20), privacy=privacy(1.0), method="local"
    )
    with pytest.raises(ParameterError, match="pass divergence='kl'"):
        estimator.fit(sites(arrays))


@pytest.mark.parametrize("cells", [[[0, 6]], [[-1, 0]], [[12, 0]], [[0, 0, 0]]])
def test_cells_that_do_not_exist_are_refused(cells):
    arrays, _ = counts()
    fitted = model(privacy(1.0)).fit(sites(arrays))
    with pytest.raises(ParameterError, match="cells must"):
        fitted.predict("north", cells)
