"""No row moves a round by more than its bound, whatever a coordinator asks for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tacit.estimators.agreement import Asked
from tacit.estimators.gate import Gate
from tacit.mechanisms.grid import Grid
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.regression.generalised.agreement import LARGEST, GeneralisedAgreement
from tacit.regression.generalised.gradients import (
    framed,
    gradient_rows_reference,
    gradient_sum,
    unit,
)
from tacit.regression.generalised.rows import site_rows

LINKS = ("logistic", "poisson")


def example(link: str, neighbours: str, several: bool = False) -> GeneralisedAgreement:
    for one in GeneralisedAgreement.examples():
        people = one.design.rows_per_unit > 1
        if (one.link, one.design.neighbours, people) == (link, neighbours, several) and one.asked:
            return one
    raise AssertionError("there is no such example")


def contribution(agreement, x, y, request):
    """Return what rows contribute to a round, through the site's own code."""
    rows = site_rows(x, y, agreement.design, agreement.top, agreement.logs)
    step = agreement.step("gradient 1")
    holder = agreement.holder("site", rows, Gate(None, Noise("grid")), 0)
    found = holder.contribute(step, Asked(step.name, "", request, {}), {}, rows, np.arange(len(y)))
    return found.value()


def requests(agreement, rng, count):
    """Yield requests of every size that is admitted, most of them hostile."""
    size = agreement.size
    for _ in range(count):
        frame = rng.standard_normal((size, size)) * 10.0 ** rng.uniform(-3, 5)
        frame[rng.random((size, size)) < 0.3] = 0.0
        coefficients = rng.standard_normal(size) * 10.0 ** rng.uniform(-3, 6)
        if rng.random() < 0.3:
            frame[0] = 0.0
            frame[0, 0] = 10.0 ** rng.uniform(-3, 3)
        request = {
            "frame": np.clip(frame, -LARGEST, LARGEST),
            "coefficients": np.clip(coefficients, -LARGEST, LARGEST),
        }
        if agreement.link == "poisson":
            request["residual"] = np.array([agreement.top * 10.0 ** rng.uniform(-6, 0)])
        yield request


@pytest.mark.parametrize("link", LINKS)
def test_the_kernel_agrees_with_numpy(link):
    rng = np.random.default_rng(0)
    x, y = rng.uniform(-1, 1, (300, 3)), (rng.random(300) < 0.5) * (1.0 if link else 4.0)
    frame, coefficients = rng.standard_normal((4, 4)), rng.standard_normal(4)
    grid, top, residual = Grid(-40), 10.0, 1.0 if link == "logistic" else 2.5
    found = gradient_sum([(framed(x, frame), y)], coefficients, residual, link, top, grid)
    own = gradient_rows_reference(x, y, frame, coefficients, residual, link, top)
    scale = unit(grid, 4, link)
    np.testing.assert_allclose(found.value() / scale, own.sum(axis=0), rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("link", LINKS)
def test_hostile_requests_never_move_a_round_further_than_it_says(link, neighbours):
    agreement = example(link, neighbours)
    rng, most = np.random.default_rng(1), 0.0
    middle, half = np.array(agreement.design.middle[:-1]), np.array(agreement.design.half[:-1])
    for request in requests(agreement, rng, 150):
        t = rng.choice([-1.0, 1.0, 1.5, 0.0, np.nan], (6, 2)) * rng.choice([1.0, 1e-9], (6, 1))
        x = middle + half * np.nan_to_num(t)
        y = agreement.top * rng.choice([0.0, 1.0], 6)
        if neighbours == ADD_REMOVE:
            pairs = [((x[:k], y[:k]), (x[: k - 1], y[: k - 1])) for k in (3, 6)]
        else:
            other, response = x.copy(), y.copy()
            # rows that are nearly the same, with the other label, are worst
            other[-1] = x[-1] + half * rng.choice([0.0, 1e-6, 2.0]) * rng.standard_normal(2)
            response[-1] = agreement.top - y[-1]
            pairs = [((x, y), (other, response))]
        for first, second in pairs:
            moved = contribution(agreement, *first, request)
            moved = moved - contribution(agreement, *second, request)
            most = max(most, float(np.linalg.norm(moved)))
    assert most <= agreement.reach
    assert most > (0.9 if neighbours == ADD_REMOVE else 0.75) * agreement.reach  # it was attacked


def test_nearly_opposite_gradients_show_that_replacement_costs_two():
    agreement = example("logistic", REPLACE)
    frame = np.zeros((3, 3))
    frame[0, 0] = 1.0
    frame[1, 1] = 1e-3
    request = {"frame": frame, "coefficients": np.array([0.0, LARGEST, 0.0])}
    x = np.array([[50.0 + 50.0 * 0.5, 0.0], [50.0 - 50.0 * 0.5, 0.0]])
    first = contribution(agreement, x[:1], np.array([0.0]), request)
    second = contribution(agreement, x[1:], np.array([1.0]), request)
    assert 1.8 < np.linalg.norm(first - second) <= agreement.reach == 2.0


def test_all_rows_of_a_person_move_it_no_further_than_they_may():
    agreement = example("poisson", ADD_REMOVE, several=True)
    x, y = np.full((3, 2), [100.0, 1.0]), np.full(3, 10.0)
    rng = np.random.default_rng(2)
    moved = [
        np.linalg.norm(contribution(agreement, x, y, request))
        for request in requests(agreement, rng, 100)
    ]
    assert 0.9 * 3.0 < max(moved) <= agreement.reach == 3.0


def test_a_row_contributes_the_same_bits_beside_any_others():
    agreement = example("logistic", ADD_REMOVE)
    rng = np.random.default_rng(3)
    x, y = rng.uniform([0, -1], [100, 1], (50, 2)), (rng.random(50) < 0.5).astype(float)
    for request in requests(agreement, rng, 20):
        parts = sum(
            contribution(agreement, x[k : k + 1], y[k : k + 1], request) for k in range(50)
        )
        assert np.array_equal(parts, contribution(agreement, x, y, request))


def test_the_whole_run_costs_what_was_asked_for():
    for one in GeneralisedAgreement.examples():
        if one.privacy is None:
            continue
        spent = sum(1.0 / step.mechanism.noise_multiplier**2 for step in one.steps)
        assert spent <= 1.0 / one.multiplier**2
        # in some rounds less is lost to rounding than a ten-thousandth
        assert spent > 0.9999 / one.multiplier**2
    free = replace(one, privacy=None)
    assert free.is_free
