"""Constructors made of fields: what scikit-learn reads, and what a class shows."""

from dataclasses import KW_ONLY

import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import ParameterGrid

from tacit.errors import ParameterError
from tacit.estimators.families import estimator_names, estimator_of
from tacit.estimators.parameters import stores_parameters
from tacit.networks.training import Training
from tacit.privacy.guarantee import Privacy
from tacit.summary.estimator import PrivateSummary


@stores_parameters
class Mean(BaseEstimator):
    _purpose = "a mean"

    bounds: tuple[float, float] | None = None
    _: KW_ONLY
    rank: int = 3


@stores_parameters
class Other(Mean):
    _: KW_ONLY
    rank: int = 5


def test_parameters_are_stored_untouched_and_cloned():
    pair = (1.0, 5.0)
    model = Mean(pair, rank=2)
    assert model.bounds is pair
    assert model.get_params() == {"bounds": pair, "rank": 2}
    assert clone(model).get_params() == model.get_params()
    assert repr(Mean(pair)) == "Mean(bounds=(1.0, 5.0))"


def test_only_what_stands_before_the_mark_is_positional():
    with pytest.raises(TypeError):
        Mean((1.0, 5.0), 2)


def test_a_child_may_have_another_default():
    assert (Mean().rank, Other().rank) == (3, 5)
    assert list(Other().get_params()) == ["bounds", "rank"]


def test_a_class_does_not_show_its_parameters():
    assert not {"bounds", "rank"} & set(dir(Mean))
    assert Mean() != Mean()


# -- parameters within parameters --------------------------------------------------------------


def summary(**given):
    return PrivateSummary({"x": (0, 1)}, **given)


@pytest.mark.parametrize("name", sorted(estimator_names()))
def test_every_estimator_with_a_request_takes_its_parts(name):
    kind = estimator_of(name)
    if "privacy" not in kind._get_param_names():
        pytest.skip("it asks for nothing")
    model = kind.__new__(kind)
    for parameter in kind._get_param_names():
        setattr(model, parameter, None)
    model.privacy = Privacy(1.0, 1e-6)
    assert model.get_params()["privacy__epsilon"] == 1.0
    assert model.set_params(privacy__epsilon=2.0).privacy == Privacy(2.0, 1e-6)


def test_a_part_states_another_request_and_leaves_copies_alone():
    model = summary(privacy=Privacy(1.0, 1e-6))
    asked = model.privacy
    other = clone(model).set_params(privacy__epsilon=0.5, privacy__delta=1e-9)
    assert other.privacy == Privacy(0.5, 1e-9)
    assert model.privacy is asked and asked == Privacy(1.0, 1e-6)


def test_what_nobody_stated_stays_open_and_what_a_part_states_does_not():
    model = summary(privacy=Privacy(1.0, 1e-6)).set_params(privacy__unit="entry")
    assert model.privacy.neighbours == "replace-one"
    assert model.privacy.suiting("user", "site").unit == "entry"
    assert model.privacy.suiting("user", "site").trust == "site"
    stated = summary(privacy=Privacy(1.0, unit="user", trust="site"))
    assert stated.set_params(privacy__epsilon=2.0).privacy == Privacy(
        2.0, unit="user", trust="site"
    )
    assert "unit" not in stated.privacy.open


def test_a_grid_sets_parts_of_any_frozen_settings():
    networks = pytest.importorskip("tacit.networks")
    model = networks.PrivateDropoutClassifier(privacy=Privacy(1.0), training=Training(steps=10))
    grid = ParameterGrid({"privacy__epsilon": [1.0, 2.0], "training__steps": [5, 6]})
    found = [clone(model).set_params(**choice) for choice in grid]
    assert [(m.privacy.epsilon, m.training.steps) for m in found] == [
        (1.0, 5), (1.0, 6), (2.0, 5), (2.0, 6),
    ]  # fmt: skip
    assert model.training == Training(steps=10)


def test_a_part_changes_the_whole_that_is_given_beside_it():
    model = summary().set_params(privacy=Privacy(1.0, 1e-6), privacy__epsilon=3.0)
    assert model.privacy == Privacy(3.0, 1e-6)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"privacy__epsilon": 1.0}, "privacy is None, and has no 'epsilon'"),
        ({"columns__x": 1.0}, "columns is dict, and has no 'x'"),
        ({"privacy": Privacy(1.0), "privacy__sigma": 1.0}, "privacy has no 'sigma'"),
        ({"privacy": Privacy(1.0), "privacy__epsilon": -1.0}, "epsilon"),
    ],
)
def test_a_part_that_is_none_is_refused_and_nothing_changes(given, said):
    model = summary()
    with pytest.raises(ParameterError, match=said):
        model.set_params(**given)
    assert model.privacy is None
