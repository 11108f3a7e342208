"""Counts that were perturbed locally: conditionals, joint law, exact posteriors, accuracy.

The oracle enumerates: given the rate λ and the perturbed count z, the count has
P(x) ∝ λ^x/x!·α^|z−x|, and given both the noise is a difference of two geometric counts.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from tacit import CoupledModel, Relation
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.gibbs import GibbsSampler
from tacit.factorization.counts.numerics import gibbs as local
from tacit.factorization.counts.numerics.gibbs import LocalGibbsSampler
from tacit.factorization.counts.numerics.latent import latent_counts
from tests.oracles.bessel import draw_latent
from tests.oracles.dense import Oracle, engine_of

SHAPE, MEAN = 2.0, 1.0  # of the prior
# Bonferroni over at most 20 statistics: P(any |z| > 5.2) < 20 · 2e-7 < 1e-5
THRESHOLD = 5.2


# --- samplers that are wrong in one place ------------------------------------------------------


def wrong_alpha(rng, z, rates, alpha, added, removed):
    """The noise is taken for a smaller one."""
    return draw_latent(rng, z, rates, 0.9 * alpha, added, removed)


def wide_rates(rng, z, rates, alpha, added, removed):
    """The noise's rates have a scale that is a tenth too large."""
    x, added, removed = draw_latent(rng, z, rates, alpha, added, removed)
    return x, 1.1 * added, 1.1 * removed


def no_binomial(rng, z, rates, alpha, added, removed):
    """All of y⁺ is taken for the count."""
    x, _, removed = draw_latent(rng, z, rates, alpha, np.full_like(added, 1e-200), removed)
    return x, alpha * rng.standard_gamma(np.ones_like(added)), removed


def swapped(rng, z, rates, alpha, added, removed):
    """The two signs of the noise are mistaken for each other."""
    x, added, removed = draw_latent(rng, z, rates, alpha, added, removed)
    return x, removed, added


BROKEN = [wrong_alpha, wide_rates, no_binomial, swapped]


# --- conditionals --------------------------------------------------------------------------------


def posterior(z, rate, alpha):
    """Return P(x | z, λ) for x = 0, 1, …, by enumeration."""
    x = np.arange(int(max(z, 0) + 20 * (rate + 1) + 60))
    log = stats.poisson.logpmf(x, rate) + np.abs(z - x) * math.log(alpha)
    weights = np.exp(log - log.max())
    return weights / weights.sum()


def stationary(rng, z, rate, alpha, copies):
    """Return copies of (x, t₁, t₂) given z and λ."""
    law = posterior(z, rate, alpha)
    x = rng.choice(len(law), copies, p=law)
    smaller = rng.geometric(1 - alpha**2, copies) - 1  # min(g₁, g₂) given their difference
    added = alpha * rng.standard_gamma(1.0 + smaller + np.maximum(z - x, 0))
    removed = alpha * rng.standard_gamma(1.0 + smaller + np.maximum(x - z, 0))
    return x.astype(float), added, removed


def count_p_value(x, law):
    """Return the p-value of a chi-square test, the tail merged."""
    expected = law * len(x)
    usual = expected >= 20
    counts = np.bincount(x.astype(int), minlength=len(law))
    observed = np.append(counts[usual], counts[~usual].sum())
    wanted = np.append(expected[usual], expected[~usual].sum())
    if wanted[-1] < 5:
        observed, wanted = observed[:-1], wanted[:-1]
    return stats.chisquare(observed, wanted * observed.sum() / wanted.sum()).pvalue


def conditional_p_values(z, rate, alpha, step=draw_latent, copies=100_000):
    """Take one step from the exact conditional law; return p-values that it is still there."""
    rng = generator(1, f"{z} {rate} {alpha}")
    full = [np.full(copies, value) for value in (float(z), rate, alpha)]
    old = stationary(rng, z, rate, alpha, copies)
    new = step(rng, *full, *old[1:])
    fresh = stationary(rng, z, rate, alpha, copies)
    pairs = [(new[1], fresh[1]), (new[2], fresh[2]), (new[0] * new[1], fresh[0] * fresh[1])]
    return [
        count_p_value(new[0], posterior(z, rate, alpha)),
        *(stats.ks_2samp(mine, wanted, method="asymp").pvalue for mine, wanted in pairs),
    ]


CELLS = [(0, 0.5, 0.3), (4, 2.0, 0.6), (-6, 1.0, 0.7), (15, 3.0, 0.9), (-30, 8.0, 0.95),
         (2, 40.0, 0.5)]  # fmt: skip


@pytest.mark.parametrize(("z", "rate", "alpha"), CELLS)
def test_one_step_keeps_the_conditional_law(z, rate, alpha):
    assert min(conditional_p_values(z, rate, alpha)) > 1e-5


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_step_loses_the_conditional_law(broken):
    assert min(conditional_p_values(4, 2.0, 0.6, broken)) < 1e-9


def test_the_counts_forget_where_they_started():
    copies, (z, rate, alpha) = 20_000, (-3, 2.0, 0.8)
    rng = generator(2, "forget")
    full = [np.full(copies, value) for value in (float(z), rate, alpha)]
    added, removed = np.full(copies, 50.0), np.full(copies, 1e-200)
    for _ in range(60):
        x, added, removed = draw_latent(rng, *full, added, removed)
    assert count_p_value(x, posterior(z, rate, alpha)) > 1e-5


def test_the_noise_is_a_mixture_of_poisson_differences():
    """The exponential has mean α/(1−α): the law of τ = g₁ − g₂ is the two-sided geometric one."""
    alpha, count = 0.7, 400_000
    rng = generator(3, "mixture")
    mean = alpha / (1 - alpha)
    tau = rng.poisson(rng.exponential(mean, count)) - rng.poisson(rng.exponential(mean, count))
    k = np.arange(-15, 16)
    expected = count * (1 - alpha) / (1 + alpha) * alpha ** np.abs(k)
    observed = np.array([(tau == value).sum() for value in k])
    rest = [count - observed.sum()], [count - expected.sum()]
    both = (np.concatenate(pair) for pair in zip((observed, expected), rest, strict=True))
    assert stats.chisquare(*both).pvalue > 1e-5


@pytest.mark.parametrize(("z", "rate", "alpha"), CELLS)
def test_counts_are_drawn_from_the_same_law_at_once(z, rate, alpha):
    drawn = latent_counts(generator(4, "at once"), np.full(100_000, float(z)), rate, alpha)
    assert count_p_value(drawn, posterior(z, rate, alpha)) > 1e-5


# --- the joint distribution (Geweke 2004) --------------------------------------------------------

COPIES, ALPHA = 100, 0.6


def blocks(rows, columns):
    """Return the cells of a block-diagonal relation, each block a model of its own."""
    return np.argwhere(np.kron(np.eye(COPIES), np.ones((rows, columns))) > 0)


def relation(names, cells, values, rows, columns):
    shape = (COPIES * rows, COPIES * columns)
    return Relation.from_cells(names, cells, values, shape=shape)


def geweke_scores(seed, steps=250, burn_in=30, own=True):
    """Return z-scores of prior moments along a successive-conditional chain.

    ``own`` adds a relation of raw counts that shares the factor b, as LDP2 does.
    """
    rng = generator(seed, "geweke")
    forms = {"z": "a:k b:k", "y": "b:k c:k"} if own else {"z": "a:k b:k"}
    where = {"z": blocks(2, 2), "y": blocks(2, 1)}
    shapes = {"z": ("ab", 2, 2), "y": ("bc", 2, 1)}

    def with_values(values):
        return {
            v: relation(shapes[v][0], where[v], values[v], *shapes[v][1:]) for v in forms
        }  # fmt: skip

    bound = CoupledModel(forms, 2).bind(with_values({v: np.zeros(len(where[v])) for v in forms}))

    def sampler(values):
        return LocalGibbsSampler(bound, with_values(values), {"z": ALPHA}, SHAPE, MEAN)

    state = sampler({v: np.zeros(len(where[v])) for v in forms}).prior(rng)
    traces = []
    for step in range(steps + burn_in):
        f = state.factors
        values = {}
        for v in forms:
            (one, two), (i, j) = shapes[v][0], where[v].T
            values[v] = rng.poisson((f[one][i] * f[two][j]).sum(axis=1)).astype(float)
        x = values["z"].copy()
        values["z"] += rng.geometric(1 - ALPHA, len(x)) - rng.geometric(1 - ALPHA, len(x))
        old, (state, info) = state, sampler(values).step(rng, state)
        if step >= burn_in:
            a, b = (state.factors[n].reshape(COPIES, 4) for n in "ab")
            # (x, z) belong to the factors before the step
            i, j = where["z"].T
            rates = (old.factors["a"][i] * old.factors["b"][j]).sum(axis=1)
            x, z, rates = (m.reshape(COPIES, 4) for m in (info.counts["z"], values["z"], rates))
            parts = [a, a**2, np.log(a), b, b**2, np.log(b), z, z**2, x, x**2, x * z, x * rates,
                     z * rates, (z - x) ** 2, np.abs(z - x), (z - x) * rates,
                     a[:, :1] * a[:, 1:2], a[:, :1] * b[:, :1]]  # fmt: skip
            traces.append([part.mean(axis=1) for part in parts])
    second = MEAN**2 * (1 + 1 / SHAPE)
    log = stats.gamma(SHAPE, scale=MEAN / SHAPE).expect(np.log)
    rate, rate_second = 2 * MEAN**2, 2 * second**2 + 2 * MEAN**4
    noise = 2 * ALPHA / (1 - ALPHA) ** 2
    count_second = rate_second + rate
    expected = np.array([
        MEAN, second, log, MEAN, second, log, rate, count_second + noise, rate, count_second,
        count_second, rate_second, rate_second, noise, 2 * ALPHA / (1 - ALPHA**2), 0.0, MEAN**2,
        MEAN**2,
    ])  # fmt: skip
    per_copy = np.mean(traces, axis=0)  # copies are independent: their spread is the error
    error = per_copy.std(axis=1, ddof=1) / math.sqrt(COPIES)
    return (per_copy.mean(axis=1) - expected) / error


@pytest.mark.parametrize("own", [False, True])
def test_the_chain_keeps_the_joint_distribution(own):
    assert np.abs(geweke_scores(1, own=own)).max() < THRESHOLD


def smaller_noise(rng, z, rates, alpha):
    """The noise is taken for a smaller one."""
    return latent_counts(rng, z, rates, 0.9 * alpha)


def other_rates(rng, z, rates, alpha):
    """The counts are drawn for rates that are a tenth too large."""
    return latent_counts(rng, z, 1.1 * rates, alpha)


def one_sided(rng, z, rates, alpha):
    """A count never exceeds what was seen, unless that is negative."""
    return np.minimum(latent_counts(rng, z, rates, alpha), np.maximum(z, 0.0))


def naive(rng, z, rates, alpha):
    """What was seen is taken for the count."""
    return np.maximum(z, 0.0)


@pytest.mark.parametrize("broken", [smaller_noise, other_rates, one_sided, naive])
def test_a_broken_chain_is_caught(broken, monkeypatch):
    monkeypatch.setattr(local, "latent_counts", broken)
    assert np.abs(geweke_scores(1, steps=80)).max() > THRESHOLD


# --- exact posteriors ----------------------------------------------------------------------------


@pytest.mark.parametrize("z", [-4, 0, 7])
def test_the_posterior_mean_of_one_rate_is_exact(z):
    """One mode: x ~ Poisson(θ) with θ ~ Gamma, summed over all x."""
    alpha, copies, steps = 0.6, 2000, 120
    seen = {"x": Relation.from_dense("a", np.full(copies, float(z)))}
    bound = CoupledModel({"x": "a:k"}, 1).bind(seen)
    sampler = LocalGibbsSampler(bound, seen, {"x": alpha}, SHAPE, MEAN)
    rng = generator(z + 10, "one rate")
    state, total, counts = sampler.init(rng), np.zeros(copies), np.zeros(copies)
    for step in range(steps):
        state, info = sampler.step(rng, state)
        if step >= 20:
            total += state.factors["a"][:, 0] / (steps - 20)
            counts += info.counts["x"] / (steps - 20)
    x = np.arange(200)
    rate = SHAPE / MEAN
    weights = stats.nbinom.pmf(x, SHAPE, rate / (rate + 1)) * alpha ** np.abs(z - x)
    weights /= weights.sum()
    for mine, expected in ((total, weights @ (SHAPE + x) / (rate + 1)), (counts, weights @ x)):
        error = mine.std(ddof=1) / math.sqrt(copies)
        assert abs(mine.mean() - expected) < 5 * error
        assert error < 0.02 * expected


# --- special cases -------------------------------------------------------------------------------


def small(seed=0):
    """Return a coupled model with one perturbed and one raw relation, and their data."""
    rng = np.random.default_rng(seed)
    z = rng.integers(-3, 9, (5, 4)).astype(float)
    z[1, 2] = np.nan
    data = {
        "z": Relation.from_dense(("user", "item"), z),
        "y": Relation.from_dense(("item", "kind"), rng.poisson(2.0, (4, 3)).astype(float)),
    }
    return CoupledModel({"z": "user:k item:k", "y": "item:k kind:k"}, 2), data


def run(sampler, steps=4, seed=5):
    rng = generator(seed, "run")
    state = sampler.init(rng)
    for _ in range(steps):
        state, info = sampler.step(rng, state)
    return state, info


def assert_same(one, two):
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


def clipped(data):
    values = np.maximum(data["z"].values, 0.0)
    return data | {"z": Relation.from_cells(("user", "item"), data["z"].indices, values)}


def test_without_noise_it_is_the_ordinary_sampler():
    model, data = small()
    data = clipped(data)
    ordinary = run(GibbsSampler(engine_of(model, data), SHAPE, MEAN))
    for alpha in ({"z": 0.0}, {}):
        state, info = run(LocalGibbsSampler(model.bind(data), data, alpha, SHAPE, MEAN))
        assert_same(state.factors, ordinary[0].factors)
        assert info.total == ordinary[1].total


def test_naive_is_the_ordinary_sampler_on_clipped_counts():
    model, data = small()
    naive = LocalGibbsSampler(model.bind(data), data, {"z": 0.5}, SHAPE, MEAN, mode="naive")
    state, info = run(naive)
    ordinary, _ = run(GibbsSampler(engine_of(model, clipped(data)), SHAPE, MEAN))
    assert_same(state.factors, ordinary.factors)
    assert_same(info.counts, {"z": np.maximum(data["z"].values, 0.0)})


@pytest.mark.parametrize("alpha", [1e-300, 1e-30, 1e-12])
def test_vanishing_noise_leaves_the_counts_alone(alpha):
    model, data = small()
    data = clipped(data)
    _, info = run(LocalGibbsSampler(model.bind(data), data, {"z": alpha}, SHAPE, MEAN), 20)
    assert_same(info.counts, {"z": data["z"].values})


def test_vanishing_noise_gives_the_ordinary_posterior():
    seen = {"x": Relation.from_dense("a", np.repeat([0.0, 3.0, 12.0], 2000))}
    bound = CoupledModel({"x": "a:k"}, 1).bind(seen)
    state, _ = run(LocalGibbsSampler(bound, seen, {"x": 1e-9}, SHAPE, MEAN), 3)
    for k, x in enumerate((0, 3, 12)):
        law = stats.gamma(SHAPE + x, scale=1 / (SHAPE / MEAN + 1))
        drawn = state.factors["a"][2000 * k : 2000 * (k + 1), 0]
        assert stats.kstest(drawn, law.cdf).pvalue > 1e-5


def test_the_order_of_cells_makes_no_difference():
    model, data = small()
    rng = np.random.default_rng(1)
    orders = {v: rng.permutation(r.cells) for v, r in data.items()}
    shuffled = {v: r.subset(orders[v]) for v, r in data.items()}
    alpha = rng.uniform(0.2, 0.8, data["z"].cells)
    one = run(LocalGibbsSampler(model.bind(data), data, {"z": alpha}))
    two = run(LocalGibbsSampler(model.bind(shuffled), shuffled, {"z": alpha[orders["z"]]}))
    assert_same(one[0].factors, two[0].factors)
    np.testing.assert_array_equal(one[1].counts["z"][orders["z"]], two[1].counts["z"])


def test_one_alpha_per_cell():
    model, data = small()
    bound, cells = model.bind(data), data["z"].cells
    one = run(LocalGibbsSampler(bound, data, {"z": 0.5}))
    two = run(LocalGibbsSampler(bound, data, {"z": np.full(cells, 0.5)}))
    assert_same(one[0].factors, two[0].factors)
    mixed = np.where(data["z"].values < 0, 0.5, 0.0)
    _, info = run(LocalGibbsSampler(bound, data, {"z": mixed}))
    kept = mixed == 0
    np.testing.assert_array_equal(info.counts["z"][kept], data["z"].values[kept])


def test_a_complete_relation_is_the_same_with_either_kind_of_zeros():
    z = np.random.default_rng(2).integers(-3, 5, (6, 5)).astype(float)
    cells = np.argwhere(np.isfinite(z))  # all of them, zeros included
    results = []
    for zeros in ("missing", "observed"):
        data = {"z": Relation.from_cells(("user", "item"), cells, z.ravel(), zeros=zeros)}
        bound = CoupledModel({"z": "user:k item:k"}, 2).bind(data)
        results.append(run(LocalGibbsSampler(bound, data, {"z": 0.4})))
    assert_same(results[0][0].factors, results[1][0].factors)


def test_held_out_cells_of_a_perturbed_relation_are_missing():
    """Listing all but the held-out cells says the same with either kind of zeros."""
    model, data = small()
    z = data["z"]
    other = Relation.from_cells(
        z.entities, z.indices, z.values, shape=z.shape, zeros="observed", held_out=[[1, 2]]
    )
    one = run(LocalGibbsSampler(model.bind(data), data, {"z": 0.4}), 1)
    two = run(LocalGibbsSampler(model.bind(data), data | {"z": other}, {"z": 0.4}), 1)
    for name, theta in one[0].factors.items():
        np.testing.assert_allclose(theta, two[0].factors[name], rtol=1e-9)


@pytest.mark.parametrize("form", ["a:k b:l c:m g:klm", "a:k b:k c:k", "a:kl b:k c:l"])
def test_tensors_of_any_form_can_be_sampled(form):
    rng = np.random.default_rng(3)
    z = rng.integers(-4, 7, (4, 3, 2)).astype(float)
    z[rng.random(z.shape) < 0.2] = np.nan
    data = {"x": Relation.from_dense("abc", z)}
    model = CoupledModel({"x": form}, 2)
    state, info = run(LocalGibbsSampler(model.bind(data), data, {"x": 0.7}, SHAPE, MEAN))
    oracle = Oracle(model, data)
    expected = oracle.estimate("x", state.factors)[oracle.mask["x"]].sum()
    assert info.total == pytest.approx(expected, rel=1e-9)
    assert (info.counts["x"] >= 0).all()


def test_noise_without_any_signal_is_no_trouble():
    """All counts zero, ε = 0.001: rates and Bessel arguments in the thousands."""
    alpha = math.exp(-0.001)
    rng = generator(4, "noise")
    z = (rng.geometric(1 - alpha, (20, 10)) - rng.geometric(1 - alpha, (20, 10))).astype(float)
    data = {"z": Relation.from_dense("ab", z)}
    bound = CoupledModel({"z": "a:k b:k"}, 2).bind(data)
    state, info = run(LocalGibbsSampler(bound, data, {"z": alpha}), 50)
    assert all(np.isfinite(theta).all() for theta in state.factors.values())
    assert np.isfinite(info.total)


# --- accuracy --------------------------------------------------------------------------------


def held_out_scores(seed, epsilon=0.5, scale=0.5, steps=250, burn_in=50):
    """Return the log-likelihood a held-out cell of site 1, for four ways to learn."""
    rng = generator(seed, "sites")
    alpha, rank = math.exp(-epsilon), 2
    item = rng.gamma(1.0, 1.0, (25, rank))
    counts = {v: rng.poisson(rng.gamma(1.0, scale, (n, rank)) @ item.T).astype(float)
              for v, n in (("one", 40), ("two", 80))}  # fmt: skip
    test = rng.random(counts["one"].shape) < 0.15
    raw = {v: x.copy() for v, x in counts.items()}
    raw["one"][test] = np.nan
    noisy = {
        v: x + rng.geometric(1 - alpha, x.shape) - rng.geometric(1 - alpha, x.shape)
        for v, x in raw.items()
    }
    model = CoupledModel({"one": "user1:k item:k", "two": "user2:k item:k"}, rank)
    everything, others = dict.fromkeys(raw, alpha), {"two": alpha}
    mixed = {"one": raw["one"], "two": noisy["two"]}
    ways = {
        "LDP1 exact": (noisy, everything, "exact"), "LDP1 naive": (noisy, everything, "naive"),
        "LDP2 exact": (mixed, others, "exact"), "LDP2 naive": (mixed, others, "naive"),
    }  # fmt: skip
    scores = {}
    for name, (arrays, noise, mode) in ways.items():
        data = {v: Relation.from_dense((f"user{k}", "item"), arrays[v])
                for k, v in enumerate(("one", "two"), 1)}  # fmt: skip
        sampler = LocalGibbsSampler(model.bind(data), data, noise, 1.0, 1.0, mode=mode)
        rng_chain = generator(seed, "chain")
        state, likelihoods = sampler.init(rng_chain), []
        for step in range(steps):
            state, _ = sampler.step(rng_chain, state)
            if step >= burn_in:
                rate = state.factors["user1"] @ state.factors["item"].T
                likelihoods.append(stats.poisson.logpmf(counts["one"][test], rate[test]))
        top = np.max(likelihoods, axis=0)
        scores[name] = float((top + np.log(np.mean(np.exp(likelihoods - top), axis=0))).mean())
    return scores


def test_exact_inference_beats_naive_and_own_counts_beat_perturbed_ones():
    """Over twelve seeds: 0.250 ± 0.013, 0.093 ± 0.016 and 0.064 ± 0.011 nats a cell."""
    runs = [held_out_scores(seed) for seed in (1, 2, 3)]
    pairs = [("LDP1 exact", "LDP1 naive"), ("LDP2 exact", "LDP1 exact"),
             ("LDP2 exact", "LDP2 naive")]  # fmt: skip
    gains = np.array([[scores[a] - scores[b] for a, b in pairs] for scores in runs])
    assert (gains > [0.1, 0.0, 0.0]).all()
    assert (gains.mean(axis=0) > [0.15, 0.04, 0.02]).all()


# --- bad input -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "message"),
    [
        ({"x": 0.5}, r"alpha names 'x', which is no relation of the model: it has \['z', 'y'\]"),
        ({"z": 1.0}, r"alpha of 'z' must be a number in \[0, 1\)"),
        ({"z": -0.1}, "alpha of 'z' must be"),
        ({"z": math.nan}, "alpha of 'z' must be"),
        ({"z": "strong"}, "alpha of 'z' must be"),
        ({"z": None}, "alpha of 'z' must be"),
        ({"z": [0.5, 0.5]}, "or one for each of the 19 listed cells"),
        ({"z": 0.0}, "relation 'z' has negative values where alpha is 0"),
        ({}, "relation 'z' has negative values"),
    ],
)
def test_impossible_noise_is_refused(alpha, message):
    model, data = small()
    with pytest.raises(ParameterError, match=message):
        LocalGibbsSampler(model.bind(data), data, alpha)


@pytest.mark.parametrize("value", [0.5, 1e10])
def test_perturbed_values_that_are_no_counts_are_refused(value):
    model, data = small()
    values = data["z"].values.copy()
    values[3] = value
    broken = data | {"z": Relation.from_cells(("user", "item"), data["z"].indices, values)}
    with pytest.raises(ParameterError, match="'z' must hold whole numbers of at most 1e"):
        LocalGibbsSampler(model.bind(data), broken, {"z": 0.5})


def test_unlisted_zeros_of_a_perturbed_relation_are_refused():
    model, data = small()
    z = data["z"]
    sparse = Relation.from_cells(z.entities, z.indices, z.values, shape=z.shape, zeros="observed")
    with pytest.raises(ParameterError, match="'z' has 1 observed cells that are not listed"):
        LocalGibbsSampler(model.bind(data), data | {"z": sparse}, {"z": 0.5})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "fast"}, "mode must be"),
        ({"shape": 0.0}, "shape must be"),
        ({"mean": math.inf}, "mean must be"),
    ],
)
def test_impossible_settings_are_refused(options, message):
    model, data = small()
    with pytest.raises(ParameterError, match=message):
        LocalGibbsSampler(model.bind(data), data, {"z": 0.5}, **options)


@pytest.mark.parametrize("change", [{"divergence": "euclidean"}, {"dispersion": 2.0}])
def test_other_models_are_refused(change):
    _, data = small()
    model = CoupledModel({"z": "user:k item:k"}, 2, **change)
    data = {"z": data["z"]}
    with pytest.raises(ParameterError, match="must have divergence='kl' and dispersion 1"):
        LocalGibbsSampler(model.bind(data), data, {"z": 0.5})
