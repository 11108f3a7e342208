"""Many levels of trust: an ε by site, what is public, weights, people at many sites."""

import math
from dataclasses import replace

import numpy as np
import pytest

import tacit as tc
from tacit.data.relations import Relation
from tacit.errors import BudgetExceeded, ParameterError
from tacit.estimators.agreement import Asked
from tacit.estimators.coordinator import Asking
from tacit.estimators.gate import Gate
from tacit.factorization import AlternatingLeastSquares, Langevin
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.offsets.numerics.pooling import between_sites, pooled, shares_of_sites
from tacit.factorization.together.people import assigned_to
from tacit.factorization.together.problem import state_problem
from tacit.mechanisms.noise import Noise
from tacit.privacy.calibration import gaussian_sigma

MODEL = {"ratings": "user:k item:k"}
ITEMS = 12


def table(seed, users=40, names=None, share=0.6):
    rng = np.random.default_rng(seed)
    cells = np.argwhere(rng.random((users, ITEMS)) < share)
    labels = {} if names is None else {"user": names}
    shape = (users, ITEMS)
    values = rng.integers(1, 6, len(cells)).astype(float)
    return Relation.from_cells(("user", "item"), cells, values, shape=shape, labels=labels)


def privacy(unit="user", epsilon=1.0, trust="site", **by_site):
    return tc.Privacy(epsilon, 1e-5, unit=unit, trust=trust, by_site=by_site)


def model(asked, **options):
    options = {"rank": 2, "bounds": (1, 5), "random_state": 0, **options}
    return tc.PrivateFactorization(MODEL, privacy=asked, **options)


def sites(count=3, **more):
    return [tc.Site(f"S{k}", {"ratings": table(k)}, **more) for k in range(count)]


# --- an ε for each site --------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["user", "entry"])
@pytest.mark.parametrize(
    "method", ["als", Langevin(rounds=4), Langevin(rounds=4, sampling_rate=0.5)]
)
def test_every_site_pays_and_promises_its_own(unit, method):
    asked = privacy(unit, 1.0, S0=0.1, S2=3.0)
    ledger = {n: tc.Ledger.memory(epsilon=4, delta=1e-4, unit=unit) for n in ("S0", "S1", "S2")}
    if unit == "entry":
        ledger = {n: tc.Ledger.memory(epsilon=4, delta=1e-4, unit=unit, neighbours="replace-one")
                  for n in ledger}  # fmt: skip
    held = [replace(site, ledger=ledger[site.name]) for site in sites()]
    one = model(asked, method=method)
    price = {found.site: found.epsilon for found in one.price(held).sites}
    one.fit(held)
    for name, epsilon in {"S0": 0.1, "S1": 1.0, "S2": 3.0}.items():
        certificate = one.certificates_[name]
        assert 0.9 * epsilon < certificate.epsilon <= epsilon * (1 + 1e-9)
        assert price[name] == pytest.approx(certificate.epsilon, rel=1e-8)
        assert ledger[name].spent.epsilon == pytest.approx(certificate.epsilon, rel=1e-6)
        assert any("S0 0.1, S2 3" in said for said in certificate.assumptions)
        certificate.verify()
    together = next(s for s in one.certificate_.assumptions if "whoever is at 3" in s)
    assert float(together.split("has ")[1].split(" ")[0]) > 3.0


def test_a_ledger_that_cannot_pay_its_own_part_stops_everybody():
    held = sites()
    held[2] = replace(held[2], ledger=tc.Ledger.memory(epsilon=2, delta=1e-4, unit="user"))
    assert not model(privacy(S2=3.0)).price(held).affordable
    with pytest.raises(BudgetExceeded, match="S2"):
        model(privacy(S2=3.0)).fit(held)
    model(privacy(epsilon=3.0, S2=1.0)).fit(held)  # what the others pay is not its business


def test_sites_that_are_not_there_are_refused():
    with pytest.raises(ParameterError, match="by_site names 'X'"):
        model(privacy(X=0.5)).price(sites())
    with pytest.raises(ParameterError, match="all sites are public"):
        model(privacy(**{f"S{k}": math.inf for k in range(3)})).fit(sites())
    summary = tc.PrivateSummary({"age": (0, 90)}, privacy=tc.Privacy(1, by_site={"A": 0.5}))
    with pytest.raises(ParameterError, match="all sites have one ε"):
        summary.fit([tc.Site("A", {"age": [1.0, 2.0]})])


def test_sums_count_by_noise_sampling_and_how_sites_differ():
    rng = np.random.default_rng(0)
    truth, weights = rng.normal(0, 0.3, 400), np.full((3, 400), 50.0)
    noise = np.array([1.0, 1e2, 1e4])
    sums = weights * truth + rng.normal(0, np.sqrt(0.8 * weights + noise[:, None]))
    found = pooled(sums, weights, noise, 0.8)
    error = np.square(found.sums / found.weights - truth).mean()
    best = np.square(sums[0] / weights[0] - truth).mean()
    plain = np.square(sums.sum(axis=0) / weights.sum(axis=0) - truth).mean()
    assert error < best < plain
    assert error == pytest.approx((found.variance / found.weights**2).mean(), rel=0.2)
    # sites that differ count more alike: the best one's opinion is one of three
    apart = sums + weights * rng.normal(0, 2.0, weights.shape)
    spread = between_sites(apart[:, :, None], weights, 0.8 * weights + noise[:, None])
    assert spread == pytest.approx(4.0, rel=0.15)
    assert shares_of_sites(noise, np.full(3, 50.0), 0.1).tolist() == pytest.approx(
        [1.0, 0.12 / 2.1, 0.12 / 200.1]
    )


def test_a_sum_of_all_scales_what_sites_contribute():
    """Noise is that of the largest ε; the values of others are multiplied before they are sent."""
    asked = privacy("user", 2.0, "aggregator", S0=0.2)
    agreement = model(asked)._agreed(sites())
    weak, strong = agreement.at("S0"), agreement.at("S1")
    for name, mechanism in weak.mechanisms.items():
        other = strong.mechanisms[name]
        assert mechanism.scale == other.scale and mechanism.grid == other.grid
        assert mechanism.sensitivity == pytest.approx(weak.own_weight * other.sensitivity)
    ratio = gaussian_sigma(2.0, 1e-5) / gaussian_sigma(0.2, 1e-5)
    assert weak.own_weight == pytest.approx(ratio, rel=1e-3)
    held = {"ratings": table(0)}
    request = Asking(agreement, 0).request(0)
    values = []
    for one in (weak, strong):
        gate = Watching()
        one.holder("S0", held, gate, 0).respond(request)
        values.append(gate.value)
    assert values[0] == pytest.approx(weak.own_weight * values[1], abs=1e-3)  # the grid


class Watching(Gate):
    """Keeps what comes to it, and releases nothing private."""

    def __init__(self):
        super().__init__(None, Noise(seed=1))
        self.value = None

    def release(self, step, value, position=0, mechanism=None):
        self.value = value.grid.values(value.integers)
        return np.zeros(step.mechanism.shape)


# --- weights of members --------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["user", "entry"])
def test_a_member_of_little_weight_moves_sums_less(unit):
    names = tuple(f"u{k}" for k in range(40))
    held = [tc.Site("A", {"ratings": table(0, names=names)})]
    one = model(privacy(unit), weights={"u3": 0.25, "u5": 0.1, "u9": 1.0}).fit(held)
    groups = one.certificate_.groups
    assert list(groups) == ["0 < weight ≤ 0.1", "0.2 < weight ≤ 0.3"]
    epsilons = [epsilon for _, epsilon in groups.values()]
    assert epsilons[0] < epsilons[1] < 0.3 * one.certificate_.epsilon
    with pytest.raises(ParameterError, match="'u3' is 2"):
        model(privacy(unit), weights={"u3": 2.0}).price(held)
    with pytest.raises(ParameterError, match="als"):
        model(privacy(unit), weights={"u3": 0.5}, method="sgld").price(held)


@pytest.mark.parametrize("kind", ["mean", "offsets", "covariance", "factors"])
def test_a_member_moves_no_sum_by_more_than_its_weight(kind):
    """Whatever the member holds: without it, every sum of users moves by at most β·Δ."""
    rng = np.random.default_rng(1)
    names, beta = tuple(f"u{k}" for k in range(6)), 0.07
    method = AlternatingLeastSquares(factors=True, rounds=1, popular=5)
    for trial in range(10):
        cells = np.argwhere(np.ones((6, ITEMS), bool))
        values = rng.choice([1.0, 5.0, 3.0], len(cells))
        whole = Relation.from_cells(
            ("user", "item"), cells, values, shape=(6, ITEMS), labels={"user": names}
        )
        problem = state_problem(
            CoupledModel(MODEL, 2, "euclidean"), [{"ratings": whole}], bounds=(1, 5),
            privacy=privacy(),
            weights={"u0": beta},
        )  # fmt: skip
        agreement = method.agree(problem)
        step = agreement.step(kind if kind in ("mean", "offsets") else "later 0")
        arrays = _asked(agreement, kind, rng)
        rest = replace(whole.subset(np.flatnonzero(cells[:, 0] > 0)))
        moved = []
        for relation in (whole, rest):
            side = agreement.holder("A", {"ratings": relation}, Watching(), 0)
            sent = side.contribute(step, arrays, {}, side.shards[0], np.arange(6))
            found = side.completed(step, arrays, sent)
            moved.append(np.asarray(getattr(found, "integers", found), float))
        reach = np.linalg.norm(moved[0] - moved[1]) * step.mechanism.grid.step
        growth = step.mechanism.grid.growth(step.mechanism.size, 2, "replace-one")
        assert reach <= beta * agreement.sensitivities[kind] + growth, trial


def _asked(agreement, kind, rng):
    asks = agreement.asks(kind) if kind != "mean" else {}
    arrays = {name: rng.uniform(-1, 1, spec.shape) for name, spec in asks.items()}
    if kind == "covariance":
        arrays["popular"] = np.arange(len(arrays["rates"]))
        arrays["rates"] = np.abs(arrays["rates"])
    return Asked("later 0", kind, arrays, {})


# --- what is public ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method", ["als", Langevin(rounds=4), Langevin(rounds=4, sampling_rate=0.5)]
)
def test_public_members_are_like_a_site_without_noise(method):
    """A site whose data are public, and the same members held by the coordinator."""
    first, second = sites(2)
    asked = privacy("user", 1.0)
    held = model(replace(asked, by_site={"S1": math.inf}), method=method).fit([first, second])
    assert set(held.certificates_) == {"S0"} and set(held.parts_) == {"S0", "S1"}
    price = model(replace(asked, by_site={"S1": math.inf})).price([first, second])
    assert [one.epsilon for one in price.sites][1] == 0.0
    opened = model(asked, method=method).fit([first], public={"ratings": second.data["ratings"]})
    said = opened.certificate_.assumptions
    assert any("the cells of 'ratings' of 40 members of 'user'" in one for one in said)
    assert opened.certificate_.epsilon == pytest.approx(held.certificate_.epsilon)
    # without noise both are the fit on everybody
    free = [
        model(None, method=method).fit([first, second]),
        model(None, method=method).fit([first], public={"ratings": second.data["ratings"]}),
    ]
    if getattr(method, "sampling_rate", 1.0) == 1.0:
        for name, array in free[0].shared_.items():
            assert np.allclose(array, free[1].shared_[name], atol=1e-6), name


def test_public_counts_are_members_too():
    asked = tc.Privacy(2.0, unit="entry", trust="site", by_site={"S1": math.inf})
    one = model(asked, method="local", divergence="kl", bounds=(0, 5))
    one.fit(sites(2), public={"ratings": table(9)})
    assert set(one.certificates_) == {"S0"} and one.certificate_.epsilon == 2.0


# --- people whom several sites know ---------------------------------------------------------


def test_a_person_at_all_sites_counts_once():
    names = tuple(f"u{k}" for k in range(60))
    same = {"ratings": table(0, 60, names)}
    key = b"shared by the sites"
    held = [tc.Site(name, same, key=key) for name in ("A", "B", "C")]
    places = [assigned_to(key, name, ("A", "B", "C")) for name in names]
    assert {place: places.count(place) > 8 for place in "ABC"} == dict.fromkeys("ABC", True)
    assert places != [assigned_to(b"another", name, ("A", "B", "C")) for name in names]
    asked = privacy()
    one = model(asked, sites_per_person="assigned").fit(held)
    said = one.certificate_.assumptions
    assert any("assigns every member of 'user' to one of A, B, C" in text for text in said)
    assert not any("whoever is at" in text for text in said)
    assert one.predict("A", [["u1", 3], ["u2", 4]]).shape == (2,)  # also of who counts elsewhere
    # leaving u0 out everywhere changes what one site contributes, and no other
    agreement = model(asked, sites_per_person="assigned")._agreed(held)
    cells = same["ratings"].indices[:, 0] > 0
    less = {"ratings": same["ratings"].subset(np.flatnonzero(cells))}
    request, changed = Asking(agreement, 0).request(0), []
    for site in held:
        values = []
        for data in (same, less):
            gate = Watching()
            part = agreement.own_part(site, data)
            agreement.at(site.name).holder(site.name, part, gate, 0).respond(request)
            values.append(gate.value)
        if not np.array_equal(*values):
            changed.append(site.name)
    assert changed == [assigned_to(key, "u0", ("A", "B", "C"))]


@pytest.mark.parametrize("method", ["sgld", "local"])
def test_whoever_counts_elsewhere_sends_nothing(method):
    names = tuple(f"u{k}" for k in range(60))
    held = [tc.Site(n, {"ratings": table(0, 60, names)}, key=b"k") for n in ("A", "B")]
    local = method == "local"
    asked = tc.Privacy(
        1.0, 0.0 if local else 1e-5, unit="entry" if local else "user", trust="site"
    )
    one = model(asked, method=method, sites_per_person="assigned",
                divergence="kl" if local else "euclidean", bounds=(0, 5))  # fmt: skip
    agreement = one._agreed(held)
    total = 0
    for site in held:
        part = agreement.own_part(site, site.data)
        side = agreement.at(site.name).holder(site.name, part, Gate(None, Noise(seed=1)), 0)
        shard = side.shards[0]
        total += shard["ratings"].cells if local else len(shard.values)
    assert total == held[0].data["ratings"].cells


def test_who_counts_where_needs_a_key_and_names():
    named = {"ratings": table(0, 40, tuple("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"))}
    for held, why in (
        ([tc.Site("A", named), tc.Site("B", named)], "key that the sites share"),
        ([tc.Site(n, {"ratings": table(0)}, key=b"k") for n in "AB"], "names of members"),
    ):
        with pytest.raises(ParameterError, match=why):
            model(privacy(), sites_per_person="assigned").fit(held)


# --- zeros that are observed -----------------------------------------------------------------


@pytest.mark.parametrize("unit", ["user", "entry"])
def test_links_are_learned_without_listing_what_is_none(unit):
    """The regressions at a site are those on every cell, listed one by one."""
    from tacit.factorization.offsets.numerics.filled import (
        filled_by_member,
        filled_errors,
        filled_rows,
    )
    from tacit.factorization.offsets.numerics.ridge import by_member, leave_one_out, ridge_rows

    rng = np.random.default_rng(0)
    cells = np.argwhere(rng.random((30, ITEMS)) < 0.15)
    apart = cells[::7]
    kept = np.delete(cells, np.s_[::7], axis=0)
    links = Relation.from_cells(
        ("user", "item"), kept, shape=(30, ITEMS), zeros="observed", held_out=apart
    )
    found = filled_by_member(links, "user", 0.0)
    dense = by_member(links.listed(), "user")
    base, features = rng.normal(size=ITEMS), rng.normal(size=(ITEMS, 3))
    penalties = np.array([1.0, 2.0, 3.0])
    rest = dense._replace(values=dense.values - base[dense.items])
    rows = filled_rows(found, base, features, penalties)
    assert np.allclose(rows, ridge_rows(rest, features, penalties))
    whole = filled_by_member(replace(links, held_out=np.empty((0, 2), np.int32)), "user", 0.0)
    every = by_member(replace(links, held_out=np.empty((0, 2), np.int32)).listed(), "user")
    rest = every._replace(values=every.values - base[every.items])
    expected = leave_one_out(rest, np.arange(30), features, penalties[None])[0]
    assert filled_errors(whole, base, features, penalties) == pytest.approx(expected)
    one = model(privacy(unit, 5.0), bounds=(0, 1)).fit([tc.Site("A", {"ratings": links})])
    assert one.predict("A", [[0, 3], [29, 0]]).shape == (2,)
    assert all(item not in cells[cells[:, 0] == 0, 1] or [0, item] in apart.tolist()
               for item, _ in one.recommend("A", 0, n=3))  # fmt: skip
    assert one.certificate_.epsilon <= 5.0
    free = model(None, bounds=(0, 1)).fit([tc.Site("A", {"ratings": links})])
    liked = np.bincount(kept[:, 1], minlength=ITEMS)
    assert np.corrcoef(free.shared_["item offset"], liked)[0, 1] > 0.9


def test_sites_must_agree_on_what_unlisted_cells_are():
    listed = table(0)
    held = [tc.Site("A", {"ratings": listed}),
            tc.Site("B", {"ratings": replace(listed, zeros="observed")})]  # fmt: skip
    with pytest.raises(ParameterError, match="unlisted cells of 'ratings'"):
        model(privacy()).fit(held)


def test_a_coordinator_goes_on_after_it_died(tmp_path):
    """Sums that are looked at one by one are recorded, and members who are public asked anew."""
    asked = privacy("user", 1.0, S1=0.3)
    public = {"ratings": table(5)}
    straight = model(asked).fit(sites(), public=public)
    recorded = model(asked, checkpoint=tmp_path / "run").fit(sites(), public=public)
    again = model(asked, checkpoint=tmp_path / "run").fit(sites(), public=public)
    assert (recorded.record_.resumed_at, again.record_.resumed_at) == (0, recorded.record_.rounds)
    for name, array in straight.shared_.items():
        assert np.array_equal(array, again.shared_[name]), name
