"""Draws of members' rows: their law, that they are a member's own, and what comes of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import tacit as tc
from experiments.sites_calibration import langevin_ranks
from tacit.errors import ParameterError
from tacit.factorization import Langevin, PrivateFactorization
from tacit.factorization.langevin.members import perturbed_rows
from tacit.factorization.langevin.numerics.clipped_gradients import Layout, OwnerRule, cell_table
from tacit.factorization.language.structure import CoupledModel

ASKED = tc.Privacy(5.0, 1e-5, unit="user", trust="site")


def table_of(values, weight=3.0):
    """Return the cells of a matrix as a site keeps them, NaN for missing."""
    cells = np.argwhere(~np.isnan(values)).astype(np.int32)
    relation = tc.Relation.from_dense(("user", "item"), values)
    bound = CoupledModel("user:k item:k", 2, "euclidean").bind({"data": relation})
    layout = Layout({"item": (values.shape[1], 2)})
    own = {"data": (cells, values[tuple(cells.T)], weight)}
    return cell_table(bound, own, layout, "user"), layout


def test_rows_have_the_conditional_law():
    rng = np.random.default_rng(0)
    items, row = rng.normal(size=(5, 2)), rng.normal(size=5)
    copies = 20_000
    table, layout = table_of(np.tile(row, (copies, 1)))
    theta = layout.vector({"item": items})
    rule = OwnerRule(np.ones(2), np.zeros(2), precision=2.0)
    drawn = perturbed_rows(np.arange(copies), table, theta, rule, key=7)
    precision = 3.0 * items.T @ items + 2.0 * np.eye(2)
    mean = np.linalg.solve(precision, 3.0 * items.T @ row)
    covariance = np.linalg.inv(precision)
    error = np.sqrt(np.diag(covariance) / copies)
    assert (np.abs(drawn.mean(axis=0) - mean) < 6 * error).all()
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.06 * covariance.max())


def test_a_fixed_column_stays():
    rng = np.random.default_rng(0)
    table, layout = table_of(rng.normal(size=(4, 3)))
    rule = OwnerRule(np.array([0.0, 1.0]), np.array([1.0, 0.0]), precision=2.0)
    theta = layout.vector({"item": rng.normal(size=(3, 2))})
    drawn = perturbed_rows(np.arange(4), table, theta, rule, key=1)
    assert (drawn[:, 0] == 1.0).all() and np.ptp(drawn[:, 1]) > 0


def test_a_row_depends_on_nobody_else():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(6, 4))
    without = values.copy()
    without[2] = np.nan
    rule, theta = OwnerRule(np.ones(2), np.zeros(2)), None
    found = []
    for own in (values, without):
        table, layout = table_of(own)
        theta = layout.vector({"item": np.ones((4, 2))}) if theta is None else theta
        found.append(perturbed_rows(np.arange(6), table, theta, rule, key=5))
    others = [0, 1, 3, 4, 5]
    np.testing.assert_array_equal(found[0][others], found[1][others])


@pytest.mark.parametrize("options", [{"divergence": "kl"}, {"unit": "entry"}])
def test_rows_are_drawn_where_they_have_a_normal_law(options):
    asked = ASKED.changed(unit=options.pop("unit", "user"))
    model = PrivateFactorization("user:k item:k", rank=2, bounds=(0, 4), privacy=asked,
                                 method=Langevin(rounds=2, rows="drawn"), **options)  # fmt: skip
    with pytest.raises(ParameterError, match="rows='drawn' is for unit='user'"):
        model.fit(np.ones((4, 3)))


def p_value(ranks, draws=10):
    return stats.chisquare(np.bincount(ranks, minlength=draws + 1)).pvalue


def test_drawn_rows_are_calibrated_and_solved_ones_are_not():
    for ranks in langevin_ranks(math.inf, 3, 80, rounds=500).values():
        assert p_value(ranks) > 1e-4
    solved = langevin_ranks(math.inf, 30, 60, rows="solved", rounds=100)
    assert p_value(solved["shared factor"]) < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "members", "blocks"), [(10.0, 100, 100), (1.0, 3000, 40)])
def test_a_certified_posterior_is_calibrated(epsilon, members, blocks):
    for ranks in langevin_ranks(epsilon, members, blocks).values():
        assert p_value(ranks) > 1e-4


@pytest.mark.parametrize(("method", "divergence"), [
    (Langevin(rounds=6), "euclidean"), (Langevin(rounds=6, rows="drawn"), "euclidean"),
    (Langevin(rounds=6), "kl")])  # fmt: skip
def test_sites_and_coordinator_have_a_posterior(method, divergence, tmp_path):
    table = np.random.default_rng(0).poisson(1.5, (12, 5)).clip(0, 4).astype(float)
    model = PrivateFactorization("user:k item:k", rank=3, bounds=(0, 4), divergence=divergence,
                                 method=method, privacy=ASKED)  # fmt: skip
    model.fit([tc.Site("a", table), tc.Site("b", table[:7])])
    cells = np.argwhere(np.ones(table.shape))
    mean, variance = model.predict("a", cells, return_variance=True)
    np.testing.assert_array_equal(mean, model.predict("a", cells))
    assert (variance >= 0).all() and variance.max() > 0
    more = model.predict("a", cells, return_variance=True, observation=True)[1]
    own = np.ones(len(cells)) if divergence == "euclidean" else mean
    np.testing.assert_allclose(more - variance, own)
    _, low, high = model.predict("a", cells, interval=0.8)
    _, lower, higher = model.predict("a", cells, interval=0.8, observation=True)
    assert (low <= high).all() and (high - low).mean() < (higher - lower).mean()
    assert model.to_arviz().posterior["item"].sizes["draw"] == 3
    assert set(model.to_arviz("a").posterior) == {"user", "item"}
    model.release(tmp_path / "release")
    again = PrivateFactorization.from_release(tmp_path / "release").adopt(tc.Site("a", table))
    assert again.to_arviz().posterior["item"].sizes["draw"] == 3
    np.testing.assert_allclose(again.predict("a", cells), mean)
    assert again.predict("a", cells, return_variance=True)[1].max() > 0


def test_what_has_no_posterior_says_so():
    table = np.random.default_rng(0).uniform(1, 5, (8, 4))
    options = {"rank": 2, "bounds": (1, 5), "privacy": ASKED}
    offsets = PrivateFactorization("user:k item:k", method="offsets", **options).fit(table)
    with pytest.raises(ParameterError, match="method='sgld' and method='local'"):
        offsets.predict("the data", [[0, 0]], return_variance=True)
    with pytest.raises(ParameterError, match="use method='sgld' or method='local'"):
        offsets.to_arviz("the data")
    descent = Langevin(rounds=2, langevin=False)
    model = PrivateFactorization("user:k item:k", method=descent, **options).fit(table)
    with pytest.raises(ParameterError, match=r"Langevin\(langevin=True\) makes them"):
        model.predict("the data", [[0, 0]], interval=0.9)
    with pytest.raises(ParameterError, match="not both"):
        model.predict("the data", [[0, 0]], interval=0.9, return_variance=True)
    with pytest.raises(ParameterError, match="observation goes with"):
        model.predict("the data", [[0, 0]], observation=True)
    with pytest.raises(ParameterError, match="interval must be"):
        PrivateFactorization("user:k item:k", method=Langevin(rounds=2), **options).fit(
            table
        ).predict("the data", [[0, 0]], interval=1.5)
