"""Estimated dispersions: recovered on simulated data, never lowering the quasi-likelihood."""

import numpy as np
import pytest

from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.estimator import CoupledFactorization
from tacit.factorization.alone.numerics.dispersion import SMALLEST, estimate_dispersions
from tacit.factorization.language.structure import CoupledModel

FORMS = {"x": "a:k b:k", "y": "a:k c:k"}


def simulated(seed, spread_x, spread_y, rows=80):
    rng = generator(seed)
    a, b, c = (rng.gamma(2.0, 1.0, (n, 2)) for n in (rows, 60, 70))
    return {
        "x": Relation.from_dense(("a", "b"), a @ b.T + spread_x * rng.normal(size=(rows, 60))),
        "y": Relation.from_dense(("a", "c"), a @ c.T + spread_y * rng.normal(size=(rows, 70))),
    }


@pytest.mark.parametrize(("spread_x", "spread_y"), [(0.1, 1.0), (1.0, 0.1), (0.5, 0.5)])
def test_gaussian_variances_are_found(spread_x, spread_y):
    data = simulated(0, spread_x, spread_y)
    model = CoupledModel(FORMS, 2, "euclidean", "estimate")
    found = estimate_dispersions(model, data, generator(1))
    assert found["x"] == pytest.approx(spread_x**2, rel=0.15)
    assert found["y"] == pytest.approx(spread_y**2, rel=0.15)


def test_scaling_a_relation_scales_its_gaussian_dispersion():
    data = simulated(3, 0.3, 0.3)
    data["y"] = data["y"].scaled(10.0)
    model = CoupledModel({"y": FORMS["y"]}, 2, "euclidean", "estimate")
    found = estimate_dispersions(model, {"y": data["y"]}, generator(1))
    assert found["y"] == pytest.approx(100 * 0.09, rel=0.15)


def test_poisson_counts_with_large_means_have_dispersion_one():
    rng = generator(5)
    means = 5 * rng.gamma(4.0, 1.0, (60, 2)) @ rng.gamma(4.0, 1.0, (2, 50))
    counts = Relation.from_dense(("a", "b"), rng.poisson(means).astype(float))
    found = estimate_dispersions(
        CoupledModel({"x": "a:k b:k"}, 2, "kl", "estimate"), {"x": counts}, generator(0)
    )
    assert found["x"] == pytest.approx(1.0, abs=0.1)


def test_only_open_dispersions_are_estimated():
    data = simulated(0, 0.2, 0.4)
    model = CoupledModel(FORMS, 2, "euclidean", {"x": "estimate", "y": 7.0})
    assert model.open == ["x"]
    found = estimate_dispersions(model, data, generator(0))
    assert set(found) == {"x"}
    assert model.with_dispersions(found).dispersions == {"x": found["x"], "y": 7.0}
    assert model.dispersions["x"] == "estimate"  # the original is left as it was


def test_an_open_model_cannot_be_bound():
    with pytest.raises(ParameterError, match="estimate it first"):
        CoupledModel({"x": "a:k b:k"}, 2, "kl", "estimate").bind(
            {"x": Relation.from_dense(("a", "b"), np.ones((2, 2)))}
        )


def test_a_perfect_fit_has_the_smallest_dispersion():
    data = {"x": Relation.from_dense(("a", "b"), np.ones((5, 4)))}
    model = CoupledModel({"x": "a:k b:k"}, 1, "euclidean", "estimate")
    assert estimate_dispersions(model, data, generator(0))["x"] == pytest.approx(SMALLEST)


@pytest.mark.parametrize("inference", ["map", "vb", "sgld"])
def test_every_method_fits_with_estimated_dispersions(inference):
    data = simulated(0, 0.2, 0.4)
    data = {n: Relation.from_dense(r.entities, np.abs(r.values.reshape(r.shape)))
            for n, r in data.items()}  # fmt: skip
    divergence = "kl" if inference == "vb" else "euclidean"
    fitted = CoupledFactorization(
        FORMS, rank=2, divergence=divergence, dispersion="estimate", inference=inference,
        iterations=30, random_state=0,
    ).fit(data)  # fmt: skip
    assert set(fitted.dispersion_) == {"x", "y"}
    assert all(0 < phi != 1.0 for phi in fitted.dispersion_.values())
    assert fitted.coupled_model().dispersions == fitted.dispersion_


def test_estimates_are_saved_and_kept_by_a_warm_start(tmp_path):
    data = simulated(0, 0.2, 0.4)
    fitted = CoupledFactorization(
        FORMS, rank=2, divergence="euclidean", dispersion="estimate", iterations=20,
        warm_start=True, random_state=0,
    ).fit(data)  # fmt: skip
    before = dict(fitted.dispersion_)
    assert fitted.fit(data).dispersion_ == before
    fitted.save(tmp_path / "model.npz")
    loaded = CoupledFactorization.load(tmp_path / "model.npz")
    assert loaded.dispersion_ == before
    np.testing.assert_allclose(
        loaded.predict("x", [[0, 0]]), fitted.predict("x", [[0, 0]]), rtol=1e-12
    )
    new = Relation.from_dense(("a", "b"), np.abs(data["x"].values.reshape(80, 60))[:3])
    np.testing.assert_allclose(
        loaded.fold_in("a", {"x": new}), fitted.fold_in("a", {"x": new}), rtol=1e-8
    )


@pytest.mark.parametrize("bad", ["guess", 0.0, -1.0, float("nan")])
def test_other_dispersions_are_refused(bad):
    with pytest.raises(ParameterError, match="dispersion of 'x'"):
        CoupledModel({"x": "a:k b:k"}, 2, "kl", bad)
