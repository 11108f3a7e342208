"""Gibbs sampling: the joint-distribution test of Geweke (2004), and exact posteriors.

The successive-conditional simulator draws data from the current factors and then takes one Gibbs
step. If the step leaves the posterior invariant, the factors keep their prior, and the data
their prior predictive law, whose moments are known exactly.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
from scipy import stats

from tacit import CoupledModel, Relation
from tacit._core import kernels
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.factorization.alone.numerics.gibbs import GibbsSampler, GibbsState, _share_out
from tacit.factorization.alone.numerics.sums import Engine, Expanded
from tests.oracles.dense import MASKS, MODELS, Oracle, engine_of, make

SHAPE, MEAN = 2.0, 1.0  # of the prior
# Bonferroni over at most 15 statistics: P(any |z| > 5.2) < 15 · 2e-7 < 1e-5
THRESHOLD = 5.2


def with_counts(relation, rates, rng):
    """Return the relation with new Poisson counts at its observed cells."""
    where = np.argwhere(~np.isnan(rates))
    drawn = rng.poisson(rates[tuple(where.T)]).astype(float)
    if relation.zeros == "observed":
        where, drawn = where[drawn > 0], drawn[drawn > 0]
        held_out = relation.held_out if len(relation.held_out) else None
        return Relation.from_cells(
            relation.entities, where, drawn, shape=relation.shape, zeros="observed",
            held_out=held_out,
        )  # fmt: skip
    return Relation.from_cells(relation.entities, where, drawn, shape=relation.shape)


def geweke(model, data, steps, burn_in, seed, statistics, break_engine=None):
    """Return the statistics of every successive-conditional draw, (steps, …)."""
    rng = np.random.default_rng(seed)
    oracle, bound = Oracle(model, data), model.bind(data)
    masks = {v: np.where(mask, 1.0, np.nan) for v, mask in oracle.mask.items()}
    state = GibbsSampler(Engine(bound, data), SHAPE, MEAN).prior(rng)
    traces = []
    for step in range(steps + burn_in):
        drawn = {
            v: with_counts(r, oracle.estimate(v, state.factors) * masks[v], rng)
            for v, r in data.items()
        }
        engine = Engine(bound, drawn)
        if break_engine is not None:
            break_engine(engine)
        state, _ = GibbsSampler(engine, SHAPE, MEAN).step(rng, state)
        if step >= burn_in:
            traces.append(statistics(state.factors, drawn))
    return np.array(traces)


def batch_z(trace, expected, batches=25):
    """Return the z-scores of means of columns, with batch-means errors."""
    means = np.array([part.mean(axis=0) for part in np.array_split(trace, batches)])
    error = means.std(axis=0, ddof=1) / np.sqrt(batches)
    # Student's t of the batches → a normal score of the same probability
    score = (means.mean(axis=0) - expected) / error
    tail = stats.t.logsf(np.abs(score), batches - 1)
    return -stats.norm.ppf(np.exp(np.maximum(tail, -700.0)))


def test_the_score_of_a_fair_chain_is_small():
    """The judge itself: batch means of an autoregressive chain with known mean."""
    rng = np.random.default_rng(0)
    noise, chain = rng.normal(size=(5000, 4)), np.zeros((5000, 4))
    for t in range(1, 5000):
        chain[t] = 0.9 * chain[t - 1] + noise[t]
    assert (np.abs(batch_z(chain, 0.0)) < 4).all()
    assert (np.abs(batch_z(chain, 2.0)) > THRESHOLD).all()


# --- a CP model: many independent copies in one block-diagonal relation ------------------------

COPIES, SIDE = 100, 2


def block_diagonal(zeros):
    """Return a matrix of 2 × 2 blocks, each a model of its own; other cells are missing."""
    blocks = np.kron(np.eye(COPIES), np.ones((SIDE, SIDE)))
    where = np.argwhere(blocks > 0)
    size = COPIES * SIDE
    if zeros == "missing":
        return Relation.from_cells("ab", where, np.zeros(len(where)), shape=(size, size))
    return Relation.from_cells(
        "ab", np.empty((0, 2), int), np.empty(0), shape=(size, size), zeros="observed",
        held_out=np.argwhere(blocks == 0),
    )  # fmt: skip


def cp_statistics(factors, data):
    """Return per copy: moments of the factors, of the data, and across the two."""
    u = factors["a"].reshape(COPIES, SIDE, 2)
    v = factors["b"].reshape(COPIES, SIDE, 2)
    found = data["x"]
    x = np.zeros((COPIES, SIDE, SIDE))
    row, column = found.indices.T
    x[row // SIDE, row % SIDE, column % SIDE] = found.values
    flat = [a.reshape(COPIES, -1).mean(axis=1) for a in (u, u**2, np.log(u), v, v**2, np.log(v))]
    rate = np.einsum("cik,cjk->cij", u, v)
    cross = [(rate * x).mean(axis=(1, 2)), (u[:, 0, 0] * u[:, 0, 1]), (u[:, 0, 0] * u[:, 1, 0])]
    return np.column_stack([*flat, x.mean(axis=(1, 2)), (x**2).mean(axis=(1, 2)), *cross])


def cp_expected():
    """Exact means of `cp_statistics` but the one across (its x is older than its rate)."""
    second = MEAN**2 * (1 + 1 / SHAPE)
    log = stats.gamma(SHAPE, scale=MEAN / SHAPE).expect(np.log)
    rate, rate_second = 2 * MEAN**2, 2 * second**2 + 2 * MEAN**4
    return np.array([MEAN, second, log, MEAN, second, log, rate, rate_second + rate,
                     np.nan, MEAN**2, MEAN**2])  # fmt: skip


def cp_scores(seed, zeros="missing", steps=250, burn_in=50, break_engine=None):
    """Return z-scores; copies are independent, so their spread is the Monte-Carlo error."""
    model = CoupledModel({"x": "a:k b:k"}, 2)
    traces = geweke(
        model, {"x": block_diagonal(zeros)}, steps, burn_in, seed, cp_statistics, break_engine
    )
    per_copy = traces.mean(axis=0)
    keep = ~np.isnan(cp_expected())
    error = per_copy.std(axis=0, ddof=1) / np.sqrt(COPIES)
    return ((per_copy.mean(axis=0) - cp_expected()) / error)[keep]


@pytest.mark.parametrize("zeros", ["missing", "observed"])
def test_a_cp_chain_keeps_the_joint_distribution(zeros):
    assert np.abs(cp_scores(1, zeros)).max() < THRESHOLD


def exposure_times(share):
    def broken(engine):
        whole = engine.denominator
        engine.denominator = lambda *arguments: share * whole(*arguments)

    return broken


def stale_factors(engine):
    """Every factor is drawn given the old values of the others."""
    whole, old = engine.denominator, []

    def stale(expanded, *arguments):
        if not old:
            old.append(copy.deepcopy(expanded))
        return whole(old[0], *arguments)

    engine.denominator = stale


def uneven_allocation(engine):
    """Counts of every second column go to the first one."""
    whole = engine.reduce

    def uneven(relation, position, values):
        out = whole(relation, position, values).copy()
        out[:, 0] += out[:, 1]
        out[:, 1] = 0.0
        return out

    engine.reduce = uneven


TWINS = {
    "half the exposure": (exposure_times(0.5), 10),
    "a tenth of the exposure is missing": (exposure_times(0.9), 100),
    "stale factors": (stale_factors, 250),
    "uneven allocation": (uneven_allocation, 100),
}


@pytest.mark.parametrize("twin", TWINS)
def test_a_broken_chain_is_caught(twin):
    broken, steps = TWINS[twin]
    assert np.abs(cp_scores(1, steps=steps, burn_in=5, break_engine=broken)).max() > THRESHOLD


# --- a Tucker model, one chain -------------------------------------------------------------------


def tucker_statistics(factors, data):
    names = ("a", "b", "c", "g")
    means = [np.mean(factors[n]) for n in names] + [np.mean(factors[n] ** 2) for n in names]
    core = factors["g"][0]
    return [*means, data["x"].values.sum() / data["x"].observed, core[0] * core[1]]


def tucker_scores(seed, steps=1500, burn_in=50, break_engine=None):
    model = CoupledModel({"x": "a:k b:l c:l g:kl"}, {"k": 2, "l": 2})
    cells = np.argwhere(np.ones((2, 2, 1)))[:3]  # one cell is missing
    data = {"x": Relation.from_cells("abc", cells, np.zeros(3), shape=(2, 2, 1))}
    trace = geweke(model, data, steps, burn_in, seed, tucker_statistics, break_engine)
    second = MEAN**2 * (1 + 1 / SHAPE)
    expected = [MEAN] * 4 + [second] * 4 + [4 * MEAN**4, MEAN**2]
    return batch_z(trace, np.array(expected))


def test_a_tucker_chain_keeps_the_joint_distribution():
    assert np.abs(tucker_scores(2)).max() < THRESHOLD


def test_a_broken_tucker_chain_is_caught():
    assert np.abs(tucker_scores(2, 400, 50, exposure_times(1.5))).max() > THRESHOLD


# --- exact posteriors -------------------------------------------------------------------------


@pytest.mark.parametrize("x", [0, 3, 12])
def test_the_posterior_mean_equals_quadrature_on_one_cell(x):
    """1 × 1: many copies of u·v, each observed once with the same count."""
    copies, steps = 400, 300
    relation = Relation.from_cells(
        "ab", np.column_stack([np.arange(copies)] * 2), np.full(copies, float(x)),
        shape=(copies, copies),
    )  # fmt: skip
    sampler = GibbsSampler(
        engine_of(CoupledModel({"x": "a:k b:k"}, 1), {"x": relation}), SHAPE, MEAN
    )
    rng = np.random.default_rng(x)
    state, rates = sampler.prior(rng), []
    for step in range(steps):
        state, _ = sampler.step(rng, state)
        if step >= 50:
            rates.append((state.factors["a"] * state.factors["b"]).ravel())
    per_copy = np.mean(rates, axis=0)
    logs = np.linspace(-14, 5, 800)
    u = np.exp(logs)
    weight = np.outer(*[stats.gamma(SHAPE, scale=MEAN / SHAPE).pdf(u) * u] * 2)
    rate = np.outer(u, u)
    weight *= stats.poisson.pmf(x, rate)
    expected = (weight * rate).sum() / weight.sum()
    error = per_copy.std(ddof=1) / np.sqrt(copies)
    assert abs(per_copy.mean() - expected) < 5 * error
    assert error < 0.03 * expected


def test_a_one_mode_chain_draws_the_conjugate_posterior():
    """x_i ~ Poisson(θ_i): every step is an exact draw of Gamma(A + x, rate A/B + 1)."""
    x = np.array([0.0, 2.0, 9.0])
    sampler = GibbsSampler(
        engine_of(CoupledModel({"x": "a:k"}, 1), {"x": Relation.from_dense("a", x)}), 0.5, 10.0
    )
    rng = np.random.default_rng(0)
    state, draws = sampler.init(rng), []
    for _ in range(1500):
        state, _ = sampler.step(rng, state)
        draws.append(state.factors["a"][:, 0])
    for drawn, count in zip(np.transpose(draws), x, strict=True):
        law = stats.gamma(0.5 + count, scale=1 / (0.5 / 10.0 + 1.0))
        assert stats.kstest(drawn, law.cdf).pvalue > 1e-5


# --- states and bad input ------------------------------------------------------------------------


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", MODELS)
def test_every_model_and_mask_can_be_sampled(name, mask):
    model, data = make(name, mask)
    data = {v: r.subset(np.arange(r.cells)).scaled(0.0) for v, r in data.items()}
    data = {
        v: Relation(r.entities, r.shape, r.indices, np.arange(r.cells) % 3.0, r.zeros, r.held_out)
        for v, r in data.items()
    }
    engine, oracle = engine_of(model, data), Oracle(model, data)
    sampler, rng = GibbsSampler(engine, SHAPE, MEAN), np.random.default_rng(0)
    state = sampler.init(rng)
    for _ in range(3):
        state, info = sampler.step(rng, state)
    total = sum(oracle.estimate(v, state.factors)[oracle.mask[v]].sum() for v in model.forms)
    assert info.total == pytest.approx(total, rel=1e-9)
    assert all((theta > 0).all() for theta in state.factors.values())


def test_every_count_is_allocated_once():
    model, data = make("coupled tucker")
    data = {v: r.scaled(0.0) for v, r in data.items()}
    data = {
        v: Relation(r.entities, r.shape, r.indices, np.arange(r.cells) + 1.0)
        for v, r in data.items()
    }
    engine = engine_of(model, data)
    sampler, rng = GibbsSampler(engine), np.random.default_rng(0)
    state = sampler.init(rng)
    counts = {n: np.zeros_like(theta) for n, theta in state.factors.items()}
    for relation in engine.model.relations:
        expanded, values = Expanded(engine.model, state.factors), data[relation.name].values
        sampler._allocate(rng, expanded, relation, values, counts)
    for name, allocated in counts.items():
        for row in range(len(allocated)):
            expected = 0.0
            for relation, position in engine.model.using(name):
                found = data[relation.name]
                mine = (
                    found.indices[:, position] == row if position < relation.modes
                    else np.ones(found.cells, bool)
                )  # fmt: skip
                expected += found.values[mine].sum()
            assert allocated[row].sum() == expected


@pytest.mark.parametrize("count", [1, 16, 17, 100_000])
def test_counts_are_shared_out_by_a_multinomial_law(count):
    """Few and many counts go different ways; both have its means and covariances."""
    cells, rates = 20_000, np.array([[0.1, 1.0, 3.0, 2.0], [2.0, 1.0, 0.5, 0.01]])
    where = np.column_stack([np.arange(cells), np.zeros(cells)]).astype(np.int32)
    bank = np.vstack([np.tile(rates[0], (cells, 1)), rates[1]])
    rows, core = np.zeros((cells + 1, 4)), np.zeros((1, 4))
    kernels.compiled(_share_out, unchecked=True)(
        generator(count, "shares"), where, np.full(cells, float(count)), bank,
        np.array([0, cells, cells + 1]), np.ones(4), rows, core,
    )  # fmt: skip
    drawn, shares = rows[:cells], rates.prod(axis=0) / rates.prod(axis=0).sum()
    assert (drawn.sum(axis=1) == count).all()
    np.testing.assert_array_equal(core[0], rows[cells])
    expected = count * (np.diag(shares) - np.outer(shares, shares))
    z = (drawn.mean(axis=0) - count * shares) / np.sqrt(np.diag(expected) / cells)
    assert np.abs(z).max() < 5
    spread = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    assert np.abs((np.cov(drawn.T) - expected) / spread).max() < 0.1


@pytest.mark.parametrize("form", ["a:k b:k", "a:k b:l g:kl", "a:k b:l h:k g:l"])
def test_allocations_follow_the_shares(form):
    """One cell with 100,000 counts and two components in the ratio 1 : 3."""
    model = CoupledModel({"x": form}, {"k": 2, "l": 1} if "l" in form else 2)
    sampler = GibbsSampler(engine_of(model, {"x": Relation.from_dense("ab", [[1e5]])}), 1.0, 1.0)
    ratio, rest = np.array([[1.0, 3.0]]), np.ones((1, 1))
    factors = {"a": np.ones((1, 2)), "b": ratio if form == "a:k b:k" else rest}
    if "g" in form:
        factors |= {"g": rest, "h": ratio} if "h" in form else {"g": ratio}
    state, _ = sampler.step(np.random.default_rng(0), GibbsState(factors))
    share = state.factors["a"][0] * [2.0, 4.0]  # drawn with rates 1 + 1 and 1 + 3
    np.testing.assert_allclose(share / share.sum(), [0.25, 0.75], atol=0.01)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"divergence": 0.0}, r"relation 'x' must have divergence='kl' and dispersion 1"),
        ({"dispersion": 2.0}, r"relation 'x' must have divergence='kl' and dispersion 1"),
        ({}, "whole counts, and relation 'x' has others"),
    ],
)
def test_data_that_are_no_counts_are_refused(change, message):
    with pytest.raises(ParameterError, match=message):
        GibbsSampler(engine_of(*make("matrix", **change)))


@pytest.mark.parametrize("options", [{"shape": 0.0}, {"mean": np.nan}])
def test_impossible_priors_are_refused(options):
    relation = Relation.from_dense("a", [1.0])
    with pytest.raises(ParameterError, match="must be a number"):
        GibbsSampler(engine_of(CoupledModel({"x": "a:k"}, 1), {"x": relation}), **options)
