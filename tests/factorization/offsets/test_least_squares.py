"""Offsets and alternating least squares over sites: use, exactness, prices and faults."""

import math
from dataclasses import replace

import numpy as np
import pytest

import tacit as tc
from tacit.errors import BudgetExceeded, NotCertified, ParameterError, SiteFailure, UnboundedData
from tacit.factorization.offsets import items as coordinators
from tacit.factorization.offsets.agreement import AlternatingLeastSquares, LeastSquaresAgreement
from tacit.factorization.offsets.least_squares import SiteMembers
from tacit.factorization.offsets.numerics.ridge import by_member, offset_share
from tacit.factorization.offsets.numerics.shrinkage import shrink_towards
from tacit.privacy.calibration import gaussian_sigma
from tacit.rounds.messages import Message

if not hasattr(tc, "PrivateFactorization"):
    pytest.skip("least squares are fitted by PrivateFactorization", allow_module_level=True)

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
    return tc.PrivateFactorization(MODEL, **options)


# --- use -------------------------------------------------------------------------------------


def test_the_example_of_the_design(tmp_path):
    request = tc.Privacy(epsilon=1, delta=1e-6, unit="user", trust="site")
    tables = {"A": ratings(1), "B": ratings(2)}
    sites = [
        tc.Site(name, relation(t), ledger=tc.Ledger.open(
            tmp_path / f"{name}.db", epsilon=4, delta=1e-5, unit="user"))
        for name, t in tables.items()
    ]  # fmt: skip
    model = tc.PrivateFactorization("user:k item:k", rank=3, bounds=(1, 5), privacy=request)
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
    model = tc.PrivateFactorization(
        MODEL, rank=2, bounds=BOUNDS, privacy=tc.Privacy(1.0, 1e-6, unit="entry")
    ).fit(ratings())
    assert model.certificate_.unit == "entry"
    assert model.predict("the data", [[0, 0]]).shape == (1,)


def test_seeded_noise_is_not_released(tmp_path):
    fitted = factorization().fit([tc.Site("A", relation(ratings()))])
    with pytest.raises(NotCertified, match="seeded"):
        fitted.release(tmp_path)


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
    assert many.agreement_.budget == few.agreement_.budget


@pytest.mark.parametrize("sites", [1, 4])
def test_a_taste_is_visible_from_as_many_members_as_outweigh_the_noise(sites):
    """An eigenvalue of 0.05·M against σ·√(2pN), at half of the squared multiplier."""
    first = next(LeastSquaresAgreement.examples())
    agreement = replace(first, sites=sites, problem=replace(first.problem, sites=sites))
    privacy, bound = agreement.privacy, agreement.sensitivities["covariance"]
    sigma = math.sqrt(2.0) * gaussian_sigma(privacy.epsilon, privacy.delta) * bound
    enough = sigma * math.sqrt(2.0 * agreement.popular * sites) / 0.05
    assert agreement.visible(1.001 * enough)
    assert not agreement.visible(0.999 * enough)
    beside = replace(agreement, products=6)  # the pattern says much of a taste already
    assert beside.visible(2.001 * enough) and not beside.visible(1.999 * enough)
    crowded = replace(agreement, items=1)
    assert crowded.refines(6.001 * enough) and not crowded.refines(5.999 * enough)
    assert not replace(agreement, items=10**9).refines(6.001 * enough)
    assert crowded.refines(2.501 * enough, each=0.25)  # of so many items which ones says little
    assert not crowded.refines(2.499 * enough, each=0.25)
    assert not crowded.refines(2.501 * enough, each=0.249)


def test_a_taste_that_hardly_stands_out_gets_all_later_rounds_for_its_covariance():
    asked = []
    few = [tc.Site("A", relation(ratings(users=300, items=40, share=0.15)))]
    many = [tc.Site("A", relation(ratings(users=300, items=40, share=0.5)))]
    for epsilon, sites in ((8.0, few), (8.0, many), (200.0, few)):
        fitted = factorization("user", epsilon, method=AlternatingLeastSquares(popular=12))
        with pytest.MonkeyPatch.context() as patch:
            kind = coordinators._Items.kind
            patch.setattr(
                coordinators._Items,
                "kind",
                lambda self, step, kind=kind: asked.append(kind(self, step)) or asked[-1],
            )
            fitted.fit(sites)
    assert asked[-15:] == [
        "mean", "offsets", "covariance", "covariance", "covariance",
        "mean", "offsets", "covariance", "factors", "factors",
        "mean", "offsets", "covariance", "factors", "factors",
    ]  # fmt: skip


# --- what is public of items -----------------------------------------------------------------

WITH_KINDS = {"ratings": MODEL, "kinds": "item:k kind:k"}


def films(seed=0, users=200, items=40):
    """Ratings that people give by the kind of a film, and the kinds."""
    rng = np.random.default_rng(seed)
    kinds = (np.arange(items)[:, None] % 4 == np.arange(4)).astype(float)
    liked = rng.normal(size=(users, 4)) + np.array([1.0, 0.5, -0.5, -1.0])
    x = np.clip(np.round(3.0 + liked @ kinds.T + 0.5 * rng.normal(size=(users, items))), *BOUNDS)
    return x, kinds


@pytest.mark.parametrize("unit", ["entry", "user"])
def test_public_kinds_of_items_are_free_and_help(unit):
    x, kinds = films()
    rng = np.random.default_rng(1)
    train = np.where(rng.random(x.shape) < 0.25, x, np.nan)
    held = np.argwhere(np.isnan(train))
    errors, certified = [], []
    for model, data, public in (
        (MODEL, relation(train), None),
        (
            WITH_KINDS,
            {"ratings": relation(train)},
            {"kinds": tc.Relation.from_dense(("item", "kind"), kinds)},
        ),
    ):
        fitted = tc.PrivateFactorization(
            model, rank=2, bounds=BOUNDS, privacy=privacy(unit), random_state=0
        ).fit([tc.Site("A", data)], public=public)
        assert type(fitted.method_) is AlternatingLeastSquares
        relation_name = "ratings" if public else None
        found = fitted.predict("A", held, relation_name)
        errors.append(np.sqrt(np.mean((found - x[tuple(held.T)]) ** 2)))
        certified.append(fitted.certificate_.epsilon)
    assert errors[1] < 0.9 * errors[0] and certified[0] == certified[1]
    assert any("kinds" in note for note in fitted.certificate_.assumptions)


@pytest.mark.parametrize(("form", "shape", "said"), [
    ("item:k kind:k", (7, 2), "disagree about the members of 'item'"),
    ("user:k item:k", (60, 12), "names the protected entity"),
])  # fmt: skip
def test_a_public_relation_about_other_items_or_about_people_is_refused(form, shape, said):
    modes = [token.split(":")[0] for token in form.split()]
    public = {"kinds": tc.Relation.from_dense(modes, np.ones(shape))}
    model = tc.PrivateFactorization(
        {"ratings": MODEL, "kinds": form}, rank=2, bounds=BOUNDS, privacy=privacy(), method="als"
    )
    with pytest.raises(ParameterError, match=said):
        model.fit([tc.Site("A", {"ratings": relation(ratings())})], public=public)


def test_offsets_that_are_noise_give_way_to_members_own_means():
    cells = by_member(relation(ratings(users=300)), "user")
    cells = cells._replace(values=cells.values - 3.0)
    noise = np.random.default_rng(0).normal(0.0, 3.0, 12)
    assert offset_share(cells, 0.2, noise) == 0.0
    assert offset_share(cells, 0.2, np.zeros(12)) == 1.0
    nobody = by_member(relation(np.full((3, 12), np.nan)), "user")
    assert offset_share(nobody, 0.0, noise) == 1.0


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
        known = np.log1p(weights)[:, None]
        expected = shrink_towards(sums, weights, 0.0, weights * within, known)
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


# --- accountants, prices, ledgers ------------------------------------------------------------


def test_valid_accountants_need_more_noise_the_coarser_they_are():
    scales = {}
    for accountant in ("pld", "rdp", "zcdp", "advanced"):
        fitted = factorization(accountant=accountant).fit([tc.Site("A", relation(ratings()))])
        scales[accountant] = fitted.agreement_.mechanisms["offsets"].scale
        assert fitted.certificate_.verify().epsilon <= 1.0 + 1e-9
    assert scales["pld"] < scales["rdp"] <= scales["zcdp"] * 1.001 < scales["advanced"]


def test_all_sites_pay_or_none():
    rich = tc.Ledger.memory(unit="user", epsilon=5.0, delta=1e-5)
    poor = tc.Ledger.memory(unit="user", epsilon=0.5, delta=1e-5)
    sites = [tc.Site("A", relation(ratings(1)), rich), tc.Site("B", relation(ratings(2)), poor)]
    with pytest.raises(BudgetExceeded, match="B"):
        factorization().fit(sites)
    assert rich.remaining.epsilon == 5.0
    assert not factorization().price(sites).affordable


# --- faults ----------------------------------------------------------------------------------


class Death(BaseException):
    """What kill -9 looks like from inside."""


def break_site(monkeypatch, name, at, how):
    respond = SiteMembers.respond

    def broken(self, request):
        if self.name == name and request.round == at:
            if isinstance(how, type):
                raise how("lost")
            reply = respond(self, request)
            return Message(request.round, {"sum": how(reply["sum"])}, request.step)
        return respond(self, request)

    monkeypatch.setattr(SiteMembers, "respond", broken)


@pytest.mark.parametrize(
    "how",
    [RuntimeError, ConnectionError, lambda s: s * np.nan, lambda s: s[:-1], lambda s: s[None]],
    ids=["raises", "disappears", "nan", "short", "axis"],
)
def test_a_site_that_fails_stops_the_run_or_is_left_out(monkeypatch, how):
    break_site(monkeypatch, "B", 1, how)
    ledgers = {n: tc.Ledger.memory(unit="user", epsilon=3.0, delta=1e-5) for n in "AB"}
    sites = [tc.Site(n, relation(ratings(k)), ledgers[n]) for k, n in enumerate("AB")]
    with pytest.raises(SiteFailure, match="'B' failed in round 2"):
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
    ledgers = {
        n: tc.Ledger.open(tmp_path / f"{n}.db", unit="user", epsilon=3.0, delta=1e-5) for n in "AB"
    }
    sites = [tc.Site(n, relation(ratings(k)), ledgers[n]) for k, n in enumerate("AB")]
    sent = []
    respond = SiteMembers.respond

    def recorded(self, request):
        if not died and self.name == "B" and request.round == at:
            died.append(True)
            raise Death
        reply = respond(self, request)
        sent.append((self.name, request.round, reply.to_bytes()))
        return reply

    died = []
    monkeypatch.setattr(SiteMembers, "respond", recorded)
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
    ledger = tc.Ledger.memory(unit="user", epsilon=1.0, delta=1e-5)
    holder = tc.Site("A", relation(ratings()), ledger)
    other = tc.Site("B", relation(ratings(items=13)))
    cases = [
        ({"bounds": None}, [holder], UnboundedData, "bounds must be given"),
        ({"bounds": (5, 1)}, [holder], ParameterError, "low < high"),
        ({"bounds": "abc"}, [holder], ParameterError, "low < high"),
        ({"privacy": privacy("row")}, [holder], ParameterError, "'entry' or 'user'"),
        ({"privacy": tc.Privacy(1.0, unit="user", trust="site")}, [holder], ParameterError,
         "adds Gaussian noise"),
        ({"privacy": privacy("entry", neighbours="add-remove-one")}, [holder], ParameterError,
         "replaced"),
        ({"shared": ("user",)}, [holder], ParameterError, "shared names 'user'"),
        ({"protected": "patient"}, [holder], ParameterError, "protected names"),
        ({"privacy": tc.Privacy(1.0, 1e-6, unit="user", trust="local"), "method": "als"}, [holder],
         ParameterError, "nobody sees them"),
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
    two = tc.PrivateFactorization(
        "item:k user:k", rank=2, bounds=BOUNDS, protected="user", random_state=0,
        privacy=privacy(epsilon=math.inf),
    ).fit([tc.Site("A", turned)])  # fmt: skip
    np.testing.assert_allclose(
        one.predict("A", [[3, 1], [4, 2]]), two.predict("A", [[1, 3], [2, 4]]), rtol=1e-9
    )


def test_adopted_factors_predict_as_the_fit_does_and_charge_nothing():
    ledger = tc.Ledger.memory(unit="user", epsilon=1.0, delta=1e-5)
    site = tc.Site("A", relation(ratings()), ledger)
    fitted = factorization(epsilon=1.0).fit([site])
    spent = ledger.counter
    adopted = factorization(epsilon=1.0).adopt(site, fitted.shared_factors_)
    cells = [[3, 1], [4, 2], [59, 11]]
    np.testing.assert_array_equal(adopted.predict("A", cells), fitted.predict("A", cells))
    newcomers = tc.Site("B", relation(ratings(seed=5, users=7)))
    assert adopted.adopt(newcomers, fitted.shared_factors_).predict("B", [[6, 0]]).shape == (1,)
    assert ledger.counter == spent
    with pytest.raises(NotCertified, match="nothing to release"):
        adopted.release("nowhere")
    with pytest.raises(ParameterError, match="not about the 9 members of 'item'"):
        factorization().adopt(tc.Site("C", relation(ratings(items=9))), fitted.shared_factors_)


@pytest.mark.parametrize("method", ["als", "offsets"])
@pytest.mark.parametrize("divergence", ["kl", 1.5])
def test_least_squares_refuse_another_divergence(method, divergence):
    table = np.random.default_rng(0).uniform(1, 5, (6, 4))
    model = tc.PrivateFactorization(
        "user:k item:k", rank=2, bounds=(1, 5), divergence=divergence, method=method)  # fmt: skip
    with pytest.raises(ParameterError, match="this method is least squares"):
        model.fit([tc.Site("a", table)])
