"""Certify and calibrate are inverse for every mechanism."""

import pytest

from tacit.errors import NotCertified
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.catalogue import CATALOGUE, Query
from tacit.privacy.events import REPLACE


@pytest.mark.parametrize("name", sorted(CATALOGUE))
@pytest.mark.parametrize("steps", [1, 3])
def test_calibrated_noise_gives_the_target(name, steps):
    query = Query(
        sensitivity=2.0, steps=steps, delta=1e-5, categories=4,
        neighbours="replace-one" if name == "smooth-laplace" else "add-remove-one",
    )  # fmt: skip
    value = CATALOGUE[name].calibrate(1.5, query)
    epsilon = epsilon_of(CATALOGUE[name].event(value, query), 1e-5)
    assert 1.49 < epsilon <= 1.5 * (1 + 1e-9)


def test_replacement_needs_twice_the_additive_noise():
    once = CATALOGUE["laplace"].calibrate(1.0, Query())
    assert CATALOGUE["laplace"].calibrate(1.0, Query(neighbours="replace-one")) == (
        pytest.approx(2 * once)
    )


def test_what_cannot_be_certified_says_why():
    with pytest.raises(NotCertified, match="replace-one"):
        CATALOGUE["smooth-laplace"].event(1.0, Query(delta=1e-5))
    with pytest.raises(NotCertified, match="ε = 10"):
        CATALOGUE["smooth-laplace"].event(0.1, Query(delta=1e-5, neighbours="replace-one"))
    with pytest.raises(NotCertified, match="sampling"):
        CATALOGUE["k-norm"].event(1.0, Query(rate=0.5))
    for name in ("one-bit", "piecewise"):
        with pytest.raises(NotCertified, match="exceed 1"):
            CATALOGUE[name].event(0.9, Query())


def test_a_utility_moves_twice_as_far_where_a_unit_is_replaced():
    """A utility that counts units goes down for one candidate and up for another."""
    for scale, epsilon in ((4.0, 0.5), (2.0, 1.0)):
        added = CATALOGUE["exponential"].event(scale, Query())
        replaced = CATALOGUE["exponential"].event(scale, Query(neighbours=REPLACE))
        assert (added.epsilon, replaced.epsilon) == (epsilon, 2 * epsilon)
    assert CATALOGUE["exponential"].calibrate(1.0, Query(neighbours=REPLACE)) == pytest.approx(4.0)


def test_smooth_sensitivity_is_certified_up_to_a_tenth():
    query = Query(neighbours=REPLACE, delta=0.2)
    with pytest.raises(NotCertified, match=r"δ = 0\.1"):
        CATALOGUE["smooth-laplace"].event(2.0, query)
    assert CATALOGUE["smooth-laplace"].event(2.0, Query(neighbours=REPLACE, delta=0.1))
