"""Certify and calibrate are inverse for every mechanism."""

import pytest

from tacit.errors import NotCertified
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.catalogue import CATALOGUE, Query


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
