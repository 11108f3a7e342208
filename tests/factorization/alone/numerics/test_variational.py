"""Variational Bayes: against the dense formulas, the exact evidence, and Monte-Carlo."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special, stats

from tacit import CoupledFactorization, CoupledModel, Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.variational import VariationalBayes, VariationalState
from tests.oracles.dense import MASKS, MODELS, Oracle, as_dense, engine_of, make

DISPERSION = {"x": 0.5, "y": 10.0, "z": 2.0}


def counts(data):
    """The same cells with whole values."""
    return {
        v: Relation.from_cells(
            r.entities, r.indices, np.floor(r.values), shape=r.shape, zeros=r.zeros,
            held_out=r.held_out if len(r.held_out) else None,
        )
        for v, r in data.items()
    }  # fmt: skip


def case(name, mask="missing", dispersed=False):
    phi = {v: DISPERSION[v] for v in MODELS[name][0]} if dispersed else 1.0
    model, data = make(name, mask, dispersion=phi)
    return model, counts(data)


def random_q(engine, seed=0, shape=0.5, mean=10.0):
    rng = np.random.default_rng(seed)
    sizes = {n: (f.rows, f.columns) for n, f in engine.model.factors.items()}
    return VariationalState(
        {n: rng.uniform(0.5, 4.0, size) for n, size in sizes.items()},
        {n: rng.uniform(0.2, 1.0, size) for n, size in sizes.items()},
        dict.fromkeys(sizes, shape),
        dict.fromkeys(sizes, mean),
    )


# --- against the dense formulas ----------------------------------------------------------------


def dense_step(model, oracle, state, a, b):
    """PRIVACY B1: numerators with L of every factor, denominators with E of the other ones.

    C = A + L ∘ Σ_v Δ_L(x/x̂_L)/φ_v, D = 1/(A/B + Σ_v Δ_E(1)/φ_v), factor after factor.
    """
    shapes, scales = dict(state.shapes), dict(state.scales)
    for name in shapes:
        geometric = {n: np.exp(special.digamma(shapes[n])) * scales[n] for n in shapes}
        means = {n: shapes[n] * scales[n] for n in shapes}
        c, rate = a, a / b
        for v in oracle.using(name):
            ratio = oracle.mask[v] * oracle.values[v] / oracle.estimate(v, geometric)
            pull = oracle.delta(v, name, ratio, geometric)
            exposure = oracle.delta(v, name, oracle.mask[v] * 1.0, means)
            c = c + geometric[name] * pull / model.dispersions[v]
            rate = rate + exposure / model.dispersions[v]
        shapes[name], scales[name] = c, 1.0 / rate
    return shapes, scales


def dense_bound(model, oracle, state):
    """E_q[log p(x, s, θ)] + entropy, with allocations at their optimum, term by term."""
    total = 0.0
    for v in model.forms:
        mask, x = oracle.mask[v], oracle.values[v]
        rates = oracle.estimate(v, state.log_means)
        inner = special.xlogy(x, rates) - special.gammaln(x + 1) - oracle.estimate(v, state.means)
        total += inner[mask].sum() / model.dispersions[v]
    for n, c in state.shapes.items():
        d, a, b = state.scales[n], state.prior_shape[n], state.prior_mean[n]
        q = stats.gamma(c, scale=d)
        log_theta = special.digamma(c) + np.log(d)
        prior = a * np.log(a / b) - special.gammaln(a) + (a - 1) * log_theta - a / b * c * d
        total += (prior + q.entropy()).sum()
    return total


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", MODELS)
def test_one_step_equals_the_dense_formulas(name, mask):
    model, data = case(name, mask, dispersed=True)
    engine, oracle = engine_of(model, data), Oracle(model, data)
    start = random_q(engine)
    state, info = VariationalBayes(engine, 0.5, 10.0).step(start)
    shapes, scales = dense_step(model, oracle, start, 0.5, 10.0)
    for factor in shapes:
        np.testing.assert_allclose(state.shapes[factor], shapes[factor], rtol=1e-9)
        np.testing.assert_allclose(state.scales[factor], scales[factor], rtol=1e-9)
    assert info.bound == pytest.approx(dense_bound(model, oracle, state), rel=1e-9)


@pytest.mark.parametrize("adapt", [False, True])
@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", MODELS)
def test_the_bound_never_decreases(name, mask, adapt):
    model, data = case(name, mask, dispersed=True)
    engine, oracle = engine_of(model, data), Oracle(model, data)
    kernel = VariationalBayes(engine, 0.5, 10.0, adapt=adapt)
    state = random_q(engine, seed=3)
    first = last = kernel.bound(state)
    for _ in range(25):
        state, info = kernel.step(state)
        assert info.bound >= last - 1e-9 * (1 + abs(last))
        last = info.bound
    assert last > first
    expected = dense_bound(model, oracle, state)
    if adapt:  # a quarter as many entries, drawn with the stated shape and mean
        expected += sum(0.25 * c.size * stated_part(state, n) for n, c in state.shapes.items())
    assert last == pytest.approx(expected, rel=1e-9)


def stated_part(state, name):
    """E[log p(θ | A, B)] over θ of shape 0.5 and mean 10."""
    a, b = state.prior_shape[name], state.prior_mean[name]
    logs = special.digamma(0.5) + np.log(20.0)
    return (a - 1) * logs - a / b * 10.0 + a * np.log(a / b) - special.gammaln(a)


def test_adaptation_does_not_shrink_factors_of_even_data_to_constants():
    """Values that vary less than Poisson counts would have priors of any precision."""
    rng = np.random.default_rng(0)
    values = np.rint(2.0 + rng.random((30, 1)) * rng.random((1, 20)) * 4.0)
    engine = engine_of(CoupledModel({"x": "a:k b:k"}, 2), {"x": Relation.from_dense("ab", values)})
    kernel = VariationalBayes(engine, 1.0, 1.0, adapt=True)
    state = kernel.init(rng)
    for _ in range(300):
        state, _ = kernel.step(state, objective=False)
    assert max(state.prior_shape.values()) < 10.0


def test_adapted_hyper_parameters_maximise_the_bound():
    engine = engine_of(*case("coupled cp"))
    kernel = VariationalBayes(engine, adapt=True)
    state, info = kernel.step(random_q(engine))
    for change in (0.99, 1.01):
        for name in state.shapes:
            for field in ("prior_shape", "prior_mean"):
                moved = dict(getattr(state, field))
                moved[name] *= change
                assert kernel.bound(state._replace(**{field: moved})) < info.bound


def test_without_adaptation_the_hyper_parameters_stay():
    engine = engine_of(*case("matrix"))
    kernel = VariationalBayes(engine, 0.7, 3.0)
    state, _ = kernel.step(kernel.init(np.random.default_rng(0)))
    assert state.prior_shape == {"a": 0.7, "b": 0.7}
    assert state.prior_mean == {"a": 3.0, "b": 3.0}


def test_observed_zeros_equal_explicit_zeros():
    model, sparse = case("coupled tucker", "zeros with held-out cells")
    dense = {v: Relation.from_dense(r.entities, as_dense(r)) for v, r in sparse.items()}
    kernels = [VariationalBayes(engine_of(model, d)) for d in (sparse, dense)]
    states = [random_q(kernels[0].engine)] * 2
    for _ in range(3):
        pairs = [k.step(s) for k, s in zip(kernels, states, strict=True)]
        states = [state for state, _ in pairs]
    assert pairs[0][1].bound == pytest.approx(pairs[1][1].bound, rel=1e-9)
    for name in states[0].shapes:
        np.testing.assert_allclose(states[0].shapes[name], states[1].shapes[name], rtol=1e-8)


def test_rows_without_data_keep_their_prior():
    relation = Relation.from_cells("ab", [[0, 0], [2, 1]], [1.0, 2.0], shape=(4, 3))
    model = CoupledModel({"x": "a:k b:k"}, 2)
    kernel = VariationalBayes(engine_of(model, {"x": relation}), 0.5, 3.0)
    state = kernel.init(np.random.default_rng(0))
    for _ in range(5):
        state, _ = kernel.step(state)
    np.testing.assert_allclose(state.shapes["a"][[1, 3]], 0.5)
    np.testing.assert_allclose(state.means["a"][[1, 3]], 3.0)


@pytest.mark.parametrize("shape", [1e-3, 1e-2, 100.0])
def test_extreme_priors_stay_finite(shape):
    engine = engine_of(*case("coupled cp", "zeros"))
    kernel = VariationalBayes(engine, shape, 1.0)
    state = kernel.init(np.random.default_rng(0))
    last = -np.inf
    for _ in range(30):
        state, info = kernel.step(state)
        assert np.isfinite(info.bound)
        assert info.bound >= last - 1e-9 * (1 + abs(last))
        last = info.bound


# --- against the exact posterior ----------------------------------------------------------------


def exact(x, rank, a, b):
    """Return (log evidence, posterior means of the rates) of a 1 × n count matrix.

    x_j ~ Poisson(Σ_k u_k·v_jk). Given u the v are integrated out: u_k·v_jk makes negative-binomial
    counts, and x_j is their sum over k. The rank-dimensional integral over u is a trapezoidal
    sum over log u, which converges geometrically.
    """
    logs = np.linspace(-16.0, 4.5, 400 if rank == 2 else 4000)
    u = np.exp(logs)
    weight = stats.gamma(a, scale=b / a).pdf(u) * u * (logs[1] - logs[0])
    success = (a / b) / (a / b + u)
    counts = np.arange(max(x) + 1)
    alone = stats.nbinom.pmf(counts[:, None], a, success)  # (counts, grid)
    # E[u·v | count s] under the posterior of v given s: u·(a + s)/(a/b + u)
    lifted = alone * u * (a + counts[:, None]) / (a / b + u)
    if rank == 1:
        terms, lifts = [alone[n] for n in x], [lifted[n] for n in x]
    else:
        weight = np.outer(weight, weight)
        terms = [sum(np.outer(alone[s], alone[n - s]) for s in range(n + 1)) for n in x]
        lifts = [
            sum(
                np.outer(lifted[s], alone[n - s]) + np.outer(alone[s], lifted[n - s])
                for s in range(n + 1)
            )
            for n in x
        ]
    everything = np.prod(terms, axis=0)
    evidence = (weight * everything).sum()
    means = [
        (weight * lift * np.prod([t for i, t in enumerate(terms) if i != j], axis=0)).sum()
        for j, lift in enumerate(lifts)
    ]
    return np.log(evidence), np.array(means) / evidence


def test_the_exact_reference_is_right():
    """The reference against plain Monte-Carlo over the prior."""
    rng = np.random.default_rng(0)
    x, a, b, draws = [2, 1], 1.5, 1.0, 400_000
    u, v = rng.gamma(a, b / a, (draws, 1, 2)), rng.gamma(a, b / a, (draws, 2, 2))
    rates = (u * v).sum(axis=2)
    likelihood = stats.poisson.pmf(x, rates).prod(axis=1)
    evidence, means = exact(x, 2, a, b)
    assert np.log(likelihood.mean()) == pytest.approx(evidence, abs=0.02)
    np.testing.assert_allclose((likelihood @ rates) / likelihood.sum(), means, rtol=0.02)


TINY = [
    ([0], 1, 0.5, 10.0),
    ([3], 1, 0.5, 10.0),
    ([7], 1, 2.0, 1.0),
    ([0], 2, 1.0, 1.0),
    ([4], 2, 1.5, 1.0),
    ([2, 0], 1, 0.5, 2.0),
    ([5, 1], 1, 2.0, 1.0),
    ([3, 6], 2, 1.5, 1.0),
    ([8, 2], 2, 3.0, 1.0),
]


def settled(x, rank, a, b, seed, steps=400, adapt=False):
    relation = Relation.from_dense("ab", [np.array(x, float)])
    model = CoupledModel({"x": "a:k b:k"}, rank)
    kernel = VariationalBayes(engine_of(model, {"x": relation}), a, b, adapt=adapt)
    state = kernel.init(np.random.default_rng(seed))
    bounds = []
    for _ in range(steps):
        state, info = kernel.step(state)
        bounds.append(info.bound)
    return state, bounds


@pytest.mark.parametrize("tiny", TINY, ids=str)
def test_the_bound_never_exceeds_the_exact_evidence(tiny):
    evidence, _ = exact(*tiny)
    for seed in range(2):
        _, bounds = settled(*tiny, seed)
        assert max(bounds) <= evidence + 1e-9
        assert max(bounds) > evidence - 2.0  # and is worth something


@pytest.mark.parametrize("tiny", TINY, ids=str)
def test_variational_means_come_close_to_the_exact_ones(tiny):
    _, means = exact(*tiny)
    state, _ = settled(*tiny, seed=0)
    rates = (state.means["a"] * state.means["b"]).sum(axis=1)
    np.testing.assert_allclose(rates, means, rtol=0.15, atol=0.25)


# --- predictive variances -------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["matrix", "three-way cp", "tucker", "two cores", "coupled tucker"]
)
def test_predicted_moments_are_those_of_q(name):
    model, data = case(name)
    forms = {v: " ".join(f"{f}:{k}" for f, k in tokens) for v, tokens in model.forms.items()}
    fitted = CoupledFactorization(
        forms, rank=model.ranks, inference="vb", prior=(2.0, 1.0),
        iterations=15, random_state=0,
    ).fit(data)  # fmt: skip
    state, draws = fitted._state, 40_000
    rng = np.random.default_rng(1)
    samples = {
        n: rng.gamma(c, state.scales[n], (draws, *c.shape)) for n, c in state.shapes.items()
    }
    cells = data["x"].indices[:4]
    bound = fitted._bound.relations[0]
    product = np.ones((draws, len(cells), bound.combinations))
    for position, factor in enumerate(bound.factors):
        rows = cells[:, position] if position < bound.modes else np.zeros(len(cells), int)
        product *= samples[factor][:, rows][:, :, bound.columns[position]]
    rates = product.sum(axis=2)
    mean, variance = fitted.predict("x", cells, return_variance=True)
    spread = rates.std(axis=0)
    np.testing.assert_array_less(np.abs(rates.mean(axis=0) - mean), 5 * spread / np.sqrt(draws))
    fourth = ((rates - rates.mean(axis=0)) ** 4).mean(axis=0)
    error = np.sqrt((fourth - spread**4) / draws)
    np.testing.assert_array_less(np.abs(rates.var(axis=0) - variance), 5 * error)


# --- what is refused ------------------------------------------------------------------------


def test_other_divergences_are_refused():
    with pytest.raises(ParameterError, match=r"no closed form for p = 0: relation 'x' .*'kl'"):
        VariationalBayes(engine_of(*make("matrix", divergence=0.0)))


@pytest.mark.parametrize("options", [{"shape": 0.0}, {"mean": -1.0}, {"mean": np.inf}])
def test_impossible_priors_are_refused(options):
    with pytest.raises(ParameterError, match="must be a number"):
        VariationalBayes(engine_of(*case("matrix")), **options)
