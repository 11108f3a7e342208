"""The promise in one line says what an attacker gains, for whom it agrees, and what spoils it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from tacit.privacy.certificate import Certificate
from tacit.privacy.events import GaussianDpEvent, LaplaceDpEvent
from tacit.privacy.guarantee import Privacy
from tacit.privacy.promises import best_guess, promise

ROW = Privacy(1, 1e-6, unit="row")


@pytest.mark.parametrize("scale", [0.3, 1.0, 4.0])
def test_the_best_test_against_laplace_noise_is_right_as_often_as_stated(scale: float) -> None:
    # sign(x − ½) is the best test between 0 and 1 under Laplace noise: 1 − e^{−1/2b}/2
    right = 1.0 - math.exp(-0.5 / scale) / 2.0
    assert right <= best_guess(1.0 / scale, 0.0)
    # randomized response reaches the bound
    flip = 1.0 / (1.0 + math.exp(1.0 / scale))
    assert best_guess(1.0 / scale, 0.0) == pytest.approx(1.0 - flip)


def test_the_bound_grows_with_both_numbers_and_ends_at_one() -> None:
    guesses = [best_guess(e, d) for e in (0.0, 1.0, 5.0) for d in (0.0, 0.1)]
    assert np.all(np.diff(guesses) > 0)
    assert best_guess(1e4, 0.0) == best_guess(0.0, 1.0) == 1.0


def test_sites_that_agree_have_one_line_and_others_have_their_own() -> None:
    one = Certificate.issue(ROW, GaussianDpEvent(4.8))
    other = Certificate.issue(ROW, LaplaceDpEvent(1.0))
    assert promise({"a": one, "b": one}).startswith("Promise of each of 2 sites")
    told = promise({"a": one, "b": one, "c": other}).split("\n")
    assert [line.split(":")[0] for line in told] == ["Promise of a, b", "Promise of c"]


def test_what_spoils_a_promise_is_said() -> None:
    seeded = Certificate.issue(ROW, GaussianDpEvent(4.8), assumptions=("seeded noise: no",))
    assert "not for release" in promise({"a": seeded})
    none = dataclasses.replace(seeded, epsilon=math.inf)
    assert "Nothing hides" in promise({"a": none})
