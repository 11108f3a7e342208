"""Constructors that are a certified one's but for a few parameters."""

import inspect

import pytest
from sklearn.base import BaseEstimator, clone

from tacit.published.constructor import constructor


class Certified(BaseEstimator):
    def __init__(self, rank=2, *, share=0.5, seed=None):
        self.rank, self.share, self.seed = rank, share, seed


class Published(Certified):
    __init__ = constructor(Certified, "share", rank=3, method="agn")


def test_parameters_are_the_parents_without_some_and_with_others():
    found = {name: one.default for name, one in inspect.signature(Published).parameters.items()}
    assert found == {"rank": 3, "seed": None, "method": "agn"}


def test_what_is_given_is_stored_and_cloned():
    model = clone(Published(5, method="avn"))
    assert vars(model) == {"rank": 5, "seed": None, "method": "avn"}
    assert model.get_params() == {"rank": 5, "seed": None, "method": "avn"}


@pytest.mark.parametrize("given", [{"share": 0.1}, {"other": 1}])
def test_what_was_left_out_or_is_unknown_is_refused(given):
    with pytest.raises(TypeError, match="unexpected keyword"):
        Published(**given)


def test_what_was_by_name_only_stays_so():
    with pytest.raises(TypeError):
        Published(5, 7)
