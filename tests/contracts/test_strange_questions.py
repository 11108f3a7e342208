"""Whatever a fitted estimator is asked about, it answers or refuses in words of its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tacit.errors import TacitError
from tests.contracts.answering import ESTIMATORS, HOSTILE, fitted

VERBS = ("predict", "predict_proba", "transform", "score", "top", "recommend", "factors")
# made anew for every question: an iterator is asked once
STRANGE: list[Callable[[], Any]] = [
    lambda: None, lambda: 3, lambda: "x", lambda: b"x", lambda: "missing.csv", object, list, dict,
    lambda: {"dose": [None]}, lambda: {"dose": ["a"], HOSTILE: ["b"]}, lambda: iter([1]),
    lambda: [[["a"]]], lambda: np.zeros((2, 99)), lambda: np.full((2, 2), np.nan),
    lambda: np.array([], object), pd.DataFrame, lambda: pd.DataFrame({"nope": [1]}),
    lambda: pd.Series([1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_strange_question_is_answered_or_refused(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows there is little to be learned
        model = fitted(name)
    wrong: list[str] = []
    for verb in VERBS:
        ask = getattr(model, verb, None)
        for make in STRANGE if callable(ask) else ():
            asked = [make(), make()] if verb == "score" else [make()]
            try:
                ask(*asked)
            except TacitError:
                pass
            except (TypeError, ValueError) as error:
                called_wrongly = isinstance(error, TypeError) and "argument" in str(error)
                if type(error).__module__ == "builtins" and not called_wrongly:
                    wrong.append(f"{verb}({asked!r}): {error!r}")
    assert not wrong
