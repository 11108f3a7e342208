"""Langevin dynamics over sites: equal to a naive twin, over every form, under faults."""

import dataclasses
import math

import numpy as np
import pytest

import tacit as tc
from tacit.data.relations import Relation
from tacit.errors import BudgetExceeded, ParameterError, RequestRefused, SiteFailure, TacitError
from tacit.estimators.gate import Gate
from tacit.factorization import Langevin
from tacit.factorization.langevin import agreement as langevin_agreement
from tacit.factorization.langevin import sides as langevin_sides
from tacit.factorization.langevin.sides import LangevinSite
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.together.problem import state_problem
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.events import leaves
from tacit.published.ermis2020 import RULES, PublishedLangevin, published_steps
from tacit.rounds.messages import Message

BOUNDS = (1.0, 5.0)


def ratings(users=12, items=6, seed=0, missing=0.4):
    rng = np.random.default_rng(seed)
    truth = 3.0 + rng.normal(size=(users, 2)) @ rng.normal(size=(2, items))
    values = np.clip(np.round(truth), 1, 5)
    values[rng.random(values.shape) < missing] = np.nan
    return values


def privacy(epsilon=4.0, unit="user", **more):
    return tc.Privacy(epsilon, 1e-4, unit=unit, trust="site", **more)


def estimator(method, asked, model="user:k item:k", rank=3, bounds=BOUNDS, **more):
    return tc.PrivateFactorization(
        model, rank=rank, bounds=bounds, privacy=asked, method=method, random_state=7, **more
    )


def sites(count=2, **more):
    return [tc.Site(f"s{k}", ratings(seed=k, **more)) for k in range(count)]


# -- known answers ----------------------------------------------------------------------------


def naive(data, unit, start, rounds, clip, step, decay, rank, weight, precision, own_start=None):
    """Alternate nothing, share nothing with tacit: plain loops over users and ratings."""
    items = start.copy()
    own = [part.copy() for part in own_start] if unit == "entry" else None
    for t in range(1, rounds + 1):
        size = step / t**decay
        total = np.zeros_like(items)
        for s, table in enumerate(data):
            own_total = np.zeros((len(table), rank))
            for i, row in enumerate(table):
                seen = np.flatnonzero(~np.isnan(row))
                x = (row[seen] - 3.0) / 2.0
                if unit == "user":
                    gram = weight * items[seen].T @ items[seen] + precision * np.eye(rank)
                    u = np.linalg.solve(gram, weight * items[seen].T @ x)
                    gradient = np.zeros_like(items)
                    for j, value in zip(seen, x, strict=True):
                        gradient[j] += weight * (value - u @ items[j]) * u
                    length = np.linalg.norm(gradient)
                    total += gradient * min(1.0, clip / length if length else 1.0)
                else:
                    u = own[s][i]
                    for j, value in zip(seen, x, strict=True):
                        slope = weight * (value - u @ items[j])
                        both = np.concatenate([slope * u, slope * items[j]])
                        both *= min(1.0, clip / np.linalg.norm(both))
                        total[j] += both[:rank]
                        own_total[i] += both[rank:]
            if unit == "entry":
                own[s] = own[s] + size * (own_total - precision * own[s])
        items = items + size * (total - precision * items)
    return items


@pytest.mark.parametrize("unit", ["user", "entry"])
@pytest.mark.parametrize("clip", [0.3, 50.0])
def test_without_noise_it_equals_a_naive_twin(unit, clip, monkeypatch):
    """ε = ∞ keeps the clipping; the grid is 2^-40 of the clip, far below this tolerance."""
    method = Langevin(
        rounds=6, clip=clip, step_size=0.02, langevin=False, offsets=False, burn_in=0.9,
        clipped=unit,
    )  # fmt: skip
    holders = sites(2)
    fitted = estimator(method, privacy(math.inf, unit), dispersion=2.0)
    starts = {}
    original = langevin_sides.fresh_values

    def remember(problem, shapes, rng):
        values = original(problem, shapes, rng)
        for name, value in values.items():
            starts.setdefault(name, []).append(value.copy())
        return values

    for module in (langevin_sides, langevin_agreement):
        monkeypatch.setattr(module, "fresh_values", remember)
    fitted.fit(holders)
    scale = (0.4 / math.sqrt(3)) ** 0.5
    expected = naive(
        [site.data for site in holders], unit, starts["item"][0], 6, clip, 0.02, 0.51, 3,
        4.0 / 2.0, 1.0 / scale**2, starts.get("user"),
    )  # fmt: skip
    np.testing.assert_allclose(fitted.shared_factors_["item"], expected, rtol=1e-7, atol=1e-8)


def test_no_privacy_and_infinite_epsilon_are_the_same_computation():
    method = Langevin(rounds=5, sampling_rate=0.5, offsets=False)
    one = estimator(method, None).fit(sites())
    two = estimator(method, privacy(math.inf)).fit(sites())
    assert (one.shared_factors_["item"] == two.shared_factors_["item"]).all()
    assert not one.certificate_.is_private and not two.certificate_.is_private


def test_at_the_end_users_are_solved_from_raw_data_at_the_site():
    method = Langevin(rounds=4, offsets=False, own_effects=False)
    fitted = estimator(method, privacy(2.0, "entry"), dispersion=2.0).fit(sites())
    part, row = fitted.parts_["s0"], ratings(seed=0)[3]
    seen = np.flatnonzero(~np.isnan(row))
    scale = (0.4 / math.sqrt(3)) ** 0.5

    def solved(items):
        gram = 2.0 * items[seen].T @ items[seen] + np.eye(3) / scale**2
        return np.linalg.solve(gram, 2.0 * items[seen].T @ ((row[seen] - 3) / 2))

    u = solved(fitted.shared_factors_["item"])
    np.testing.assert_allclose(part.final["user"][3], u, rtol=1e-8)
    # predictions are averaged over draws, not factors
    cells = np.array([[3, j] for j in range(6)])
    draws = fitted.shared_["item draws"]
    expected = np.mean([3.0 + 2.0 * items @ solved(items) for items in draws], axis=0)
    np.testing.assert_allclose(fitted.predict("s0", cells), np.clip(expected, 1, 5), rtol=1e-8)


def places(seed=0, users=40):
    """Visits whose value is nearly the same for all activities of one person at one place."""
    rng = np.random.default_rng(seed)
    here = 3.0 + rng.normal(0, 1.2, (users, 6, 1)) + rng.normal(0, 0.2, (users, 6, 4))
    return np.where(rng.random(here.shape) < 0.5, np.clip(here, 1, 5), np.nan)


@pytest.mark.parametrize(("unit", "divergence"), [("entry", "euclidean"), ("user", "kl")])
def test_noise_does_not_hide_what_members_own_cells_say(unit, divergence):
    """At ε = 0.05 nothing is learned together; own means are free, those at one place too."""
    whole = places()
    rng = np.random.default_rng(1)
    held = np.argwhere(~np.isnan(whole) & (rng.random(whole.shape) < 0.2))
    train = whole.copy()
    train[tuple(held.T)] = np.nan
    model = estimator(
        Langevin(rounds=3), privacy(0.05, unit), "user:k place:k act:k", divergence=divergence
    ).fit(train)
    mean = np.nanmean(train)
    counts = (~np.isnan(train)).sum(axis=(1, 2))
    own = mean + np.nansum(train - mean, axis=(1, 2)) / (counts + 2.0)
    errors = [
        np.sqrt(np.mean((found - whole[tuple(held.T)]) ** 2))
        for found in (model.predict("the data", held), own[held[:, 0]])
    ]
    assert errors[0] < 0.75 * errors[1]


def test_an_entry_is_better_protected_as_part_of_its_user():
    """A tensor is learned where users' rows are solved, and not where they follow noise."""
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(n, 2)) for n in (150, 10, 4)]
    whole = np.clip(
        3.0 + np.einsum("uk,pk,ak->upa", *parts) + rng.normal(0, 0.3, (150, 10, 4)), 1, 5
    )
    train = np.where(rng.random(whole.shape) < 0.4, whole, np.nan)
    held = np.argwhere(np.isnan(train))
    errors = {}
    for clipped in ("entry", "user", "auto"):
        model = estimator(
            Langevin(rounds=20, clipped=clipped), privacy(20.0, "entry"), "user:k place:k act:k"
        ).fit(train)
        found = model.predict("the data", held)
        errors[clipped] = np.sqrt(np.mean((found - whole[tuple(held.T)]) ** 2))
    assert errors["auto"] == errors["user"] < 0.9 * errors["entry"]


@pytest.mark.parametrize("unit", ["entry", "user"])
def test_values_outside_their_bounds_are_clipped_silently(unit):
    wild = ratings(seed=0)
    seen = np.argwhere(~np.isnan(wild))
    wild[tuple(seen[0])], wild[tuple(seen[1])] = 1e6, -7.0
    found = [
        estimator(Langevin(rounds=2), privacy(50.0, unit)).fit([tc.Site("s", table)])
        for table in (wild, np.clip(wild, *BOUNDS))
    ]
    np.testing.assert_array_equal(*(one.shared_factors_["item"] for one in found))


def test_predictions_lie_within_the_bounds():
    method = Langevin(rounds=2, offsets=False, own_effects=False)
    fitted = estimator(method, privacy(2.0, "entry")).fit(sites())
    part, cells = fitted.parts_["s0"], np.array([[i, j] for i in range(12) for j in range(6)])
    part._drawn = {"item": 1e3 * part._drawn["item"]}
    part._rows_by_draw = {False: np.ones((1, 12, 3))}
    found = fitted.predict("s0", cells)
    assert found.min() == BOUNDS[0] and found.max() == BOUNDS[1]


def test_kl_learns_non_negative_factors_that_predict():
    rng = np.random.default_rng(0)
    item = rng.gamma(2.0, 0.5, (8, 2))
    counts = [rng.poisson(rng.gamma(2.0, 1.0, (40, 2)) @ item.T).clip(0, 12) for _ in range(2)]
    holders = [tc.Site(f"s{k}", table.astype(float)) for k, table in enumerate(counts)]
    for unit in ("user", "entry"):
        method = Langevin(rounds=60, clip=20.0)
        fitted = estimator(method, privacy(math.inf, unit), rank=2, bounds=(0, 12),
                           divergence="kl").fit(holders)  # fmt: skip
        assert (fitted.shared_factors_["item"] >= 0).all()
        cells = np.argwhere(np.ones(counts[0].shape))
        error = np.sqrt(np.mean((fitted.predict("s0", cells) - counts[0].ravel()) ** 2))
        assert error < 0.75 * counts[0].std()


# -- what it covers ---------------------------------------------------------------------------


def tensor(seed=0, users=6):
    rng = np.random.default_rng(seed)
    return rng.poisson(1.0, (users, 5, 3)).astype(float).clip(0, 4)


@pytest.mark.parametrize("unit", ["user", "entry"])
@pytest.mark.parametrize("divergence", ["euclidean", "kl"])
@pytest.mark.parametrize(
    ("form", "shared"),
    [
        ("user:k place:k act:k", ["place"]),
        ("user:k place:k act:k", ["place", "act"]),
        ("user:k place:l act:m core:klm", ["place", "act", "core"]),
        ("user:k place:l act:m core:klm", ["place"]),
    ],
)
def test_tensors_with_any_choice_of_shared_factors(unit, divergence, form, shared):
    """Models 1 and 2 of the thesis, and Tucker."""
    holders = [tc.Site(f"s{k}", tensor(k, 6 + k)) for k in range(3)]
    asked = privacy(3.0, unit)
    fitted = estimator(Langevin(rounds=3), asked, form, 2, (0, 4), divergence=divergence,
                       shared=shared).fit(holders)  # fmt: skip
    assert set(fitted.shared_factors_) == set(shared)
    assert set(fitted.certificates_) == {"s0", "s1", "s2"}
    assert fitted.certificate_.epsilon <= 3.0 * (1 + 1e-6)
    private = set(fitted.parts_["s1"].walk.values)
    names = {token.partition(":")[0] for token in form.split()}
    assert private == names - set(shared) - {"user"}  # their rows are solved anew
    assert np.isfinite(fitted.predict("s2", [[0, 1, 2]])).all()


@pytest.mark.parametrize("unit", ["user", "entry"])
def test_sites_with_different_relations_and_a_public_one(unit):
    """Model 3 of the thesis: a public side matrix joins at the coordinator, free of charge."""
    rng = np.random.default_rng(3)
    model = {"visits": "user:k place:k act:k", "gps": "user:k place:k", "poi": "place:k tag:k"}
    visits = Relation.from_dense(("user", "place", "act"), tensor(0))
    gps = Relation.from_dense(("user", "place"), rng.poisson(1.0, (7, 5)).clip(0, 4))
    third = Relation.from_dense(("user", "place"), rng.poisson(1.0, (6, 5)).clip(0, 4))
    both = {"visits": Relation.from_dense(("user", "place", "act"), tensor(1)), "gps": third}
    holders = [tc.Site("a", {"visits": visits}), tc.Site("b", {"gps": gps}), tc.Site("c", both)]
    public = {"poi": Relation.from_dense(("place", "tag"), rng.random((5, 4)))}
    fitted = estimator(Langevin(rounds=4), privacy(2.0, unit), model, 2, (0, 4)).fit(
        holders, public=public
    )
    assert set(fitted.shared_factors_) == {"place", "act", "tag"}
    alone = estimator(Langevin(rounds=4), privacy(2.0, unit), model, 2, (0, 4)).fit(
        holders, public={"poi": public["poi"].scaled(2.0)}
    )
    assert not np.allclose(fitted.shared_factors_["place"], alone.shared_factors_["place"])
    assert fitted.certificate_.epsilon == alone.certificate_.epsilon
    assert fitted.parts_["c"].predict("gps", np.array([[0, 1]], np.int32)).shape == (1,)
    with pytest.raises(ParameterError, match="holds"):
        fitted.parts_["a"].predict("gps", np.array([[0, 1]], np.int32))


def test_offsets_have_columns_of_their_own():
    fitted = estimator(Langevin(rounds=5, offsets=True), privacy(3.0), rank=4).fit(sites())
    assert (fitted.shared_factors_["item"][:, 1] == 1.0).all()
    assert (fitted.parts_["s0"].final["user"][:, 0] == 1.0).all()
    method = Langevin(rounds=5, offsets=True, clipped="entry")
    entry = estimator(method, privacy(3.0, "entry"), rank=4).fit(sites())
    assert (entry.parts_["s0"].walk.values["user"][:, 0] == 1.0).all()


def test_factors_can_start_from_given_arrays():
    start = {"item": np.full((6, 3), 0.25)}
    method = Langevin(rounds=1, sampling_rate=1.0, step_size=1e-12, langevin=False, start=start,
                      offsets=False)  # fmt: skip
    fitted = estimator(method, privacy(math.inf)).fit(sites())
    np.testing.assert_allclose(fitted.shared_factors_["item"], 0.25, atol=1e-8)
    with pytest.raises(ParameterError, match="start names"):
        estimator(Langevin(start={"item": np.ones((2, 2))}), privacy()).fit(sites())


def test_a_limit_bounds_what_a_user_contributes():
    _, parts = parts_of(Langevin(rounds=1, limit=2), privacy(math.inf))
    held = np.diff(parts[0].shards[0].owner_starts)
    assert held.max() == 2
    assert len(parts[0].cells["data"][1]) > held.sum()  # predictions use all of them


def test_langevin_noise_fills_up_to_twice_the_step():
    """Without privacy noise, the walk of one round has variance 2κ around its drift."""
    moves = []
    for langevin in (True, False):
        method = Langevin(rounds=1, step_size=0.01, decay=0.0, langevin=langevin, burn_in=0.0,
                          offsets=False)  # fmt: skip
        fitted = estimator(method, privacy(math.inf), rank=8).fit(
            [tc.Site("s", ratings(items=60))]
        )
        moves.append(fitted.shared_factors_["item"])
    noise = moves[0] - moves[1]
    assert noise.std() == pytest.approx(math.sqrt(0.02), rel=0.1)
    method = Langevin(rounds=1, step_size=5.0, decay=0.0, burn_in=0.0, offsets=False)
    noisy = [
        estimator(dataclasses.replace(method, langevin=langevin), privacy(0.1)).fit(sites())
        for langevin in (True, False)
    ]
    same = [fitted.shared_factors_["item"] for fitted in noisy]
    assert (same[0] == same[1]).all()  # privacy noise is more than enough


# -- the price --------------------------------------------------------------------------------


def parts_of(method, asked, data=None, model="user:k item:k", rank=3, bounds=BOUNDS, **more):
    """Return the agreement and the sites' sides, with nothing to charge or with ledgers."""
    tables = [ratings(seed=k) for k in range(2)] if data is None else data
    coupled = CoupledModel(model, rank, more.pop("divergence", "euclidean"))
    entities = [token.partition(":")[0] for token in model.split() if "core" not in token]
    relations = [{"data": Relation.from_dense(entities, table)} for table in tables]
    agreement = method.agree(
        state_problem(coupled, relations, bounds=bounds, privacy=asked, **more)
    )
    found = []
    for k, held in enumerate(relations):
        reservation = None
        if agreement.problem.noisy:
            ledger = tc.Ledger.memory(
                unit=asked.unit, neighbours=asked.neighbours, epsilon=1e6, delta=asked.delta
            )
            reservation = ledger.reserve(
                agreement.event, purpose="test", delta=asked.delta, asked=1e6
            )
        gate = Gate(reservation, Noise(seed=k))
        found.append(LangevinSite(agreement, f"s{k}", held, gate, np.random.default_rng(k)))
    return agreement, found


@pytest.mark.parametrize("accountant", ["pld", "rdp", "zcdp", "advanced"])
@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_every_accountant_confirms_the_request(accountant, rate):
    method = Langevin(rounds=20, sampling_rate=rate)
    agreement, _ = parts_of(method, privacy(1.0), accountant=accountant)
    spent = epsilon_of(agreement.event, 1e-4, accountant)
    assert 0.95 < spent <= 1.0
    assert epsilon_of(agreement.event, 1e-4) <= 1.0


def test_the_valid_accountants_ask_for_noise_in_order():
    noise = {}
    for accountant in ("pld", "rdp", "advanced", "zcdp"):
        method = Langevin(rounds=50, sampling_rate=0.1)
        agreement, _ = parts_of(method, privacy(1.0), accountant=accountant)
        noise[accountant] = agreement.multiplier(0)
    assert noise["pld"] <= noise["rdp"] <= noise["advanced"]
    assert noise["pld"] < noise["zcdp"]  # samples count in full there


@pytest.mark.parametrize("unit", ["user", "entry"])
@pytest.mark.parametrize("rate", [1.0, 0.3])
@pytest.mark.parametrize("clip", [1.0, 0.3, 7.7e-3])
def test_one_price_holds_for_vectors_of_any_length(unit, rate, clip):
    method = Langevin(rounds=7, sampling_rate=rate, clip=clip)
    agreement, _ = parts_of(method, privacy(1.5, unit))
    schedule = leaves(agreement.event)
    for size in (1, 18, 1_000, 123_457):
        release = agreement.mechanism(0, size)
        assert leaves(release.event) == dict.fromkeys(schedule, 1)
        inner = release.mechanism
        assert inner.sensitivity + inner.grid.growth(size, 2, "replace-one") <= clip
        assert inner.sensitivity > 0.9 * clip
    assert set(schedule.values()) == {7}


def test_a_release_too_fine_for_the_grid_is_refused():
    method = Langevin(rounds=1, clip=1.0)
    agreement, _ = parts_of(method, privacy(1e-3))
    with pytest.raises(ParameterError, match="too fine for the grid"):
        agreement.mechanism(0, 10**9)


def test_a_fit_charges_the_ledger_once_and_certifies_the_request():
    ledgers = [tc.Ledger.memory(unit="user", epsilon=3.0, delta=1e-3) for _ in range(2)]
    holders = [tc.Site(s.name, s.data, ledger) for s, ledger in
               zip(sites(), ledgers, strict=True)]  # fmt: skip
    fitted = estimator(Langevin(rounds=5, sampling_rate=0.5), privacy(2.0)).fit(holders)
    for name, ledger in zip(("s0", "s1"), ledgers, strict=True):
        assert fitted.certificates_[name].epsilon == pytest.approx(2.0, rel=1e-3)
        fitted.certificates_[name].verify(ledger)
        assert ledger.remaining.epsilon == pytest.approx(1.0, abs=0.01)
    with pytest.raises(BudgetExceeded):
        estimator(Langevin(rounds=5, sampling_rate=0.5), privacy(2.0)).fit(holders)
    text = str(fitted.certificate_)
    assert "each user's gradient is clipped" in text and "sampled with probability 0.5" in text


def test_the_price_is_known_before_any_data_is_read():
    price = estimator(Langevin(rounds=5), privacy(2.0)).price(sites())
    assert price.affordable
    assert price.sites[0].epsilon == pytest.approx(2.0, rel=1e-3)


# -- published rules --------------------------------------------------------------------------


def test_published_noise_is_rederived():
    settings = {"epsilon": 1.0, "delta": 1e-3, "rate": 0.02, "rounds": 300, "clip": 2.0,
                "step": None, "bound": 2.0}  # fmt: skip
    steps = {rule: published_steps(rule, **settings) for rule in RULES}
    # the printed values of section 7.2.1
    assert steps["ermis-zcdp"].multipliers[0] == pytest.approx(2.87, rel=5e-3)
    assert steps["ermis-ac"].multipliers[0] == pytest.approx(8.14, rel=2e-2)
    # (4.27), by hand
    size = 0.9 / (128 * 4 * math.log(2.5 * 300 / 1e-3) * math.log(2 / 1e-3) * 7)
    for rule in ("ermis-zcdp", "ermis-ac", "wang2015"):
        assert steps[rule].sizes[6] == pytest.approx(size)
    # Langevin noise of variance η on the factor
    for rule in ("wang2015", "li2019", "li2019-fixed"):
        for t in (0, 100, 299):
            eta, z = steps[rule].sizes[t], steps[rule].multipliers[t]
            assert (eta / 0.02 * z * 2.0) ** 2 == pytest.approx(eta)
    # appendix B: σ_t² = c₂²·q²·T^(2/3)·t^(1/3)·ln(1/δ)/ε², relative to the clip, c₂ = 1
    z = steps["li2019"].multipliers[26]
    assert z**2 == pytest.approx(0.02**2 * 300 ** (2 / 3) * 27 ** (1 / 3) * math.log(1e3))
    # Theorem 4.2: η = ε²/(G²·T·ln(1/δ)), the same in every round
    assert steps["li2019-fixed"].sizes == (pytest.approx(1.0 / (4.0 * 300 * math.log(1e3))),) * 300
    # a posterior at temperature ε/4B
    liu = steps["liu2015"]
    assert liu.sizes[0] == pytest.approx(1e-3 / 8.0)
    assert (liu.sizes[0] / 0.02 * liu.multipliers[0] * 2.0) ** 2 == pytest.approx(1e-3)
    with pytest.raises(ParameterError, match="rule must be one of"):
        published_steps("hua2015", **settings)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("level", ["entry", "site"])
def test_published_certificates_say_what_is_claimed_and_what_is_given(rule, level):
    method = PublishedLangevin(rounds=4, sampling_rate=0.3, rule=rule, level=level)
    fitted = estimator(method, privacy(1.0, "entry")).fit(sites())
    certificate = fitted.certificate_.verify()
    assert certificate.claimed_epsilon == 1.0 and certificate.calibration == "published"
    real = epsilon_of(fitted.agreement_.event, 1e-4)
    assert certificate.epsilon == pytest.approx(real, rel=1e-6)
    said = str(certificate)
    assert ("conditional on that factor being public" in said) == (level == "site")
    assert ("leaks through every gradient" in said) == (level == "site")


def test_published_rules_are_for_entries_and_noise():
    for asked in (privacy(), privacy(math.inf, "entry"), None):
        with pytest.raises(ParameterError, match="unit='entry'"):
            estimator(PublishedLangevin(rule="li2019"), asked).fit(sites())


# -- faults -----------------------------------------------------------------------------------


class Faulty:
    """Wraps a site's part so that it misbehaves from a round on."""

    def __init__(self, monkeypatch, fault, at=2, site="s1"):
        original = LangevinSite.respond

        def respond(part, request):
            reply = original(part, request)
            if part.name != site or request.round < at:
                return reply
            return fault(reply)

        monkeypatch.setattr(LangevinSite, "respond", respond)


def raises(reply):
    raise RuntimeError("a private detail: rating 5")


def sends_nan(reply):
    return type(reply)(reply.round, {n: a * np.nan for n, a in reply.arrays.items()})


def sends_wrong_shape(reply):
    return type(reply)(reply.round, {n: a[:-1] for n, a in reply.arrays.items()})


def sends_nothing(reply):
    return type(reply)(reply.round, {})


@pytest.mark.parametrize("fault", [raises, sends_nan, sends_wrong_shape, sends_nothing])
def test_a_faulty_site_stops_the_run_or_is_left_out(fault, monkeypatch):
    Faulty(monkeypatch, fault)
    with pytest.raises(SiteFailure, match="site 's1' failed in round 3") as caught:
        estimator(Langevin(rounds=5), privacy()).fit(sites())
    assert "private detail" not in str(caught.value)
    ledgers = [tc.Ledger.memory(unit="user", epsilon=5.0, delta=1e-3) for _ in range(2)]
    holders = [tc.Site(s.name, s.data, ledger) for s, ledger in
               zip(sites(), ledgers, strict=True)]  # fmt: skip
    fitted = estimator(Langevin(rounds=5), privacy(), on_failure="exclude").fit(holders)
    assert [f.site for f in fitted.failures_] == ["s1"]
    assert set(fitted.parts_) == {"s0"} and np.isfinite(fitted.shared_factors_["item"]).all()
    assert ledgers[0].remaining.epsilon == ledgers[1].remaining.epsilon  # both were reserved


def test_a_request_that_was_not_agreed_on_is_refused_without_a_charge():
    _, parts = parts_of(Langevin(rounds=2), privacy())
    before = parts[0].gate.reservation.left
    factor = np.ones((6, 3))
    for arrays in (
        {}, {"factor/item": np.ones((2, 2))}, {"factor/item": np.full((6, 3), 1e31)},
        {"factor/item": np.full((6, 3), np.nan)}, {"factor/item": factor, "factor/user": factor},
    ):  # fmt: skip
        with pytest.raises(RequestRefused):
            parts[0].respond(Message(0, arrays, "round"))
    assert parts[0].gate.reservation.left == before
    parts[0].respond(Message(0, {"factor/item": factor}, "round"))


@pytest.mark.parametrize("unit", ["user", "entry"])
def test_a_resumed_run_neither_charges_nor_draws_again(unit, tmp_path, monkeypatch):
    method, asked = Langevin(rounds=6, sampling_rate=0.5), privacy(2.0, unit)
    ledger = tc.Ledger.memory(unit=unit, neighbours=asked.neighbours, epsilon=3.0, delta=1e-3)
    holders = [tc.Site("s0", ratings(seed=0), ledger), tc.Site("s1", ratings(seed=1))]
    sent = {}
    original = LangevinSite.respond
    broken = {"at": 3}

    def respond(part, request):
        if part.name == "s1" and request.round == broken["at"]:
            raise RuntimeError("power cut")
        reply = original(part, request)
        key = (part.name, request.round)
        assert key not in sent, "drawn twice"
        sent[key] = reply
        return reply

    monkeypatch.setattr(LangevinSite, "respond", respond)

    def fit():
        return tc.PrivateFactorization(
            "user:k item:k", rank=3, bounds=BOUNDS, privacy=privacy(2.0, unit), method=method,
            checkpoint=tmp_path / "run",
        ).fit(holders)  # fmt: skip

    with pytest.raises(SiteFailure):
        fit()
    left = ledger.remaining.epsilon
    assert ("s0", 3) in sent and ("s1", 3) not in sent  # s0 has answered round 3 already
    broken["at"] = -1
    fitted = fit()
    assert ledger.remaining.epsilon == left
    assert fitted.record_.resumed_at == 3
    assert set(sent) == {(s, t) for s in ("s0", "s1") for t in range(6)}
    # private state went on from where it was: the average holds every round after the burn-in
    assert fitted.parts_["s0"].walk.averaged == 3


def test_a_seeded_run_is_reproduced_by_its_resumed_twin(tmp_path, monkeypatch):
    """Without noise the resumed run is the run."""
    method = Langevin(rounds=6)
    whole = estimator(method, privacy(math.inf, "entry")).fit(sites())
    original = LangevinSite.respond
    state = {"broken": True}

    def respond(part, request):
        if state["broken"] and request.round == 4:
            raise RuntimeError
        return original(part, request)

    monkeypatch.setattr(LangevinSite, "respond", respond)
    folder = tmp_path / "run"
    with pytest.raises(SiteFailure):
        estimator(method, privacy(math.inf, "entry"), checkpoint=folder).fit(sites())
    state["broken"] = False
    resumed = estimator(method, privacy(math.inf, "entry"), checkpoint=folder).fit(sites())
    assert (resumed.shared_factors_["item"] == whole.shared_factors_["item"]).all()
    cells = [[0, 1], [2, 3]]
    assert (resumed.predict("s0", cells) == whole.predict("s0", cells)).all()


# -- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [{"rounds": 0}, {"sampling_rate": 0.0}, {"sampling_rate": 1.5}, {"clip": 0.0},
     {"clip": math.inf}, {"step_size": -1},
     {"decay": 2.0}, {"reach": 0.0}, {"langevin": 2}, {"burn_in": 1.0}, {"precision": 0.0},
     {"shape": 0.5}, {"mean": 0.0}, {"iterations": 0}, {"limit": 0}, {"offsets": "yes"},
     {"rule": "hua"}, {"level": "user"}],
    ids=str,
)  # fmt: skip
def test_bad_settings_are_refused(settings):
    with pytest.raises(TacitError, match=next(iter(settings))):
        PublishedLangevin(**settings)  # has all of them


def test_problems_that_it_cannot_solve_are_refused_by_name():
    def fit(method=None, asked=None, data=None, **more):
        return estimator(method or Langevin(), asked or privacy(), **more).fit(data or sites())

    with pytest.raises(ParameterError, match="divergence"):
        fit(divergence="is")
    with pytest.raises(ParameterError, match=r"privacy\.unit"):
        fit(asked=privacy(unit="row"))
    with pytest.raises(ParameterError, match=r"privacy\.trust"):
        fit(asked=tc.Privacy(1.0, 1e-6, unit="user", trust="local"))
    with pytest.raises(ParameterError, match=r"privacy\.delta"):
        fit(asked=tc.Privacy(1.0, unit="user", trust="site"))
    with pytest.raises(ParameterError, match="negative"):
        fit(divergence="kl", bounds=(-1, 5))
    with pytest.raises(ParameterError, match="nothing to"):
        fit(shared=[])
    with pytest.raises(ParameterError, match="limit"):
        fit(Langevin(limit=2, clipped="entry"), privacy(unit="entry"))
    with pytest.raises(ParameterError, match="clipped='entry' does not fit"):
        fit(Langevin(clipped="entry"))
    with pytest.raises(ParameterError, match="offsets=True needs"):
        fit(Langevin(offsets=True), rank=2)
    with pytest.raises(ParameterError, match="rdp"):
        fit(Langevin(sampling_rate=0.5), privacy(unit="entry"), accountant="rdp")
    model = {"a": "user:k item:k", "b": "item:k tag:k"}
    side = Relation.from_dense(("item", "tag"), np.ones((6, 2)))
    seen = Relation.from_dense(("user", "item"), ratings())
    with pytest.raises(ParameterError, match="does not name the protected entity"):
        fit(model=model, data=[tc.Site("s", {"a": seen, "b": side})])
    model = {"a": "user:k item:k", "b": "user:k tag:k"}
    with pytest.raises(ParameterError, match="names the protected entity"):
        estimator(Langevin(), privacy(), model).fit(
            [tc.Site("s", {"a": seen})],
            public={"b": Relation.from_dense(("user", "tag"), np.ones((12, 2)))},
        )
    fitted = fit(Langevin(rounds=1))
    with pytest.raises(ParameterError, match="must lie within"):
        fitted.predict("s0", [[0, 99]])
