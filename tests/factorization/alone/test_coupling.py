"""Dispersions chosen by what they help to predict: coupling helps, or it is left alone."""

import numpy as np
import pytest

from tacit import CoupledFactorization, Privacy, PrivateFactorization
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.alone.coupling import APART, MULTIPLES

FORMS = {"visits": "user:k place:k", "profile": "user:k trait:k"}


def counts(seed, related):
    """Return few visits of many users, whose profile has the same factor or another one."""
    rng = np.random.default_rng(seed)
    users, places, traits = (rng.gamma(0.4, 1.5, (n, 2)) for n in (60, 30, 25))
    other = users if related else rng.permutation(users)
    visits = rng.poisson(users @ places.T).astype(float)
    truth = users @ places.T
    visits[rng.random(visits.shape) < 0.9] = np.nan
    return truth, {"visits": visits, "profile": rng.poisson(3.0 * other @ traits.T).astype(float)}


def fitted(data, dispersion, **options):
    forms = {name: FORMS[name] for name in data}
    options = {"rank": 2, "random_state": 0, "iterations": 100, **options}
    return CoupledFactorization(forms, dispersion=dispersion, **options).fit(data)


def error(model, truth):
    cells = np.argwhere(np.ones(truth.shape))
    return np.sqrt(np.mean((model.predict("visits", cells) - truth.ravel()) ** 2))


def test_a_relation_that_helps_is_coupled():
    truth, data = counts(2, related=True)
    model = fitted(data, "choose")
    assert model.dispersion_["visits"] == 1.0  # counts: Poisson
    learned = fitted(data, {"profile": "estimate"}).dispersion_["profile"]
    assert model.dispersion_["profile"] < 10.0 * max(MULTIPLES) * learned
    single = fitted({"visits": data["visits"]}, 1.0)
    assert error(model, truth) < 0.9 * error(single, truth)


def test_a_relation_that_misleads_is_left_alone():
    truth, data = counts(2, related=False)
    model = fitted(data, {"profile": "choose"})
    learned = fitted(data, {"profile": "estimate"}).dispersion_["profile"]
    assert model.dispersion_["profile"] > 0.1 * APART * learned
    single = fitted({"visits": data["visits"]}, 1.0)
    assert error(model, truth) < 1.02 * error(single, truth)
    assert error(fitted(data, 1.0), truth) > error(model, truth)


def test_gaussian_relations_learn_the_noise_of_what_is_predicted():
    rng = np.random.default_rng(3)
    users = rng.normal(size=(40, 2))
    data = {
        "visits": 100.0 * (users @ rng.normal(size=(2, 20)) + 0.3 * rng.normal(size=(40, 20))),
        "profile": users @ rng.normal(size=(2, 15)) + 0.3 * rng.normal(size=(40, 15)),
    }
    data["visits"][rng.random((40, 20)) < 0.85] = np.nan
    options = {"divergence": "euclidean", "inference": "vb"}
    model = fitted(data, "choose", **options)
    assert model.dispersion_["profile"] < 1.0
    assert model.dispersion_["visits"] == pytest.approx(900.0, rel=0.5)


def test_many_zeros_are_sampled_and_count_for_all():
    rng = np.random.default_rng(4)
    links = Relation.from_cells(
        ("user", "place"), np.unique(rng.integers(0, (60, 40), (300, 2)), axis=0),
        zeros="observed", shape=(60, 40),
    )  # fmt: skip
    traits = Relation.from_dense(("user", "trait"), rng.poisson(1.0, (60, 10)).astype(float))
    model = fitted({"visits": links, "profile": traits}, "choose", iterations=30)
    assert set(model.dispersion_) == {"visits", "profile"}


def test_what_cannot_be_chosen_says_so():
    _, data = counts(5, related=True)
    with pytest.raises(ParameterError, match="'profile' has divergence='logit'"):
        fitted(
            {**data, "profile": (data["profile"] > 0).astype(float)}, {"profile": "choose"},
            divergence={"profile": "logit"},
        )  # fmt: skip
    with pytest.raises(ParameterError, match="must be stated: with privacy"):
        PrivateFactorization(
            "user:k item:k", dispersion="choose", bounds=(1, 5), privacy=Privacy(1.0, 1e-6),
        ).fit(np.ones((5, 4)))  # fmt: skip
