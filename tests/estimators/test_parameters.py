"""Constructors made of fields: what scikit-learn reads, and what a class shows."""

from dataclasses import KW_ONLY

import pytest
from sklearn.base import BaseEstimator, clone

from tacit.estimators.parameters import stores_parameters


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
