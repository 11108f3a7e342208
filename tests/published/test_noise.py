"""The thesis's own recipes: what they print, what they claim, what they give."""

import math

import pytest

from tacit.errors import NotCertified, ParameterError
from tacit.privacy.certificate import Certificate
from tacit.privacy.guarantee import Privacy
from tacit.published.noise import (
    PRINTED,
    advanced_composition_noise,
    langevin_step_size,
    zcdp_noise,
)

MNIST = {"epsilon": 0.5, "delta": 1e-4, "rate": 0.01}


def test_mnist_noise_follows_from_passes_not_iterations():
    """The thesis leaves δ_iter open; with T = 200 passes these values reproduce the print."""
    zcdp = zcdp_noise(**MNIST, compositions=200, delta_iter=7e-9, steps=20_000)
    advanced = advanced_composition_noise(**MNIST, compositions=200, delta_iter=1.3e-9)
    assert zcdp.noise_multiplier == pytest.approx(3.23, rel=2e-3)
    assert advanced.noise_multiplier == pytest.approx(10.88, rel=2e-3)
    assert "200 compositions where 20000 steps" in zcdp.claim
    assert zcdp.epsilon() == pytest.approx(1.51, abs=0.01)


@pytest.mark.parametrize("delta_iter", [1e-7, 1e-9])
def test_at_the_iterations_really_taken_the_recipes_ask_for_far_more_than_needed(delta_iter):
    zcdp = zcdp_noise(**MNIST, compositions=20_000, delta_iter=delta_iter)
    advanced = advanced_composition_noise(**MNIST, compositions=20_000, delta_iter=delta_iter)
    assert 12 < zcdp.noise_multiplier < 15
    assert 74 < advanced.noise_multiplier < 90
    assert zcdp.epsilon() < 0.5 / 1.5
    assert advanced.epsilon() < 0.1


def test_synthetic_noise_is_reproduced():
    settings = {"rate": 0.02, "compositions": 300}
    assert zcdp_noise(1.0, 1e-3, delta_iter=1e-5, **settings).noise_multiplier == pytest.approx(
        2.87, rel=5e-3
    )
    advanced = advanced_composition_noise(1.0, 1e-3, delta_iter=8e-5, **settings)
    assert advanced.noise_multiplier == pytest.approx(8.14, rel=2e-2)


def test_the_recipes_satisfy_their_own_equations():
    noise = advanced_composition_noise(**MNIST, compositions=200, delta_iter=1e-8)
    step = math.sqrt(2 * math.log(1.25 / 1e-8)) / noise.noise_multiplier
    amplified = math.log(1 + 0.01 * math.expm1(step))
    delta_prime = 1e-4 - 200 * 0.01 * 1e-8
    assert math.sqrt(400 * math.log(1 / delta_prime)) * amplified + 200 * amplified**2 == (
        pytest.approx(0.5)
    )


@pytest.mark.parametrize(
    ("name", "real"),
    [("MNIST, zCDP", 1.51), ("MNIST, advanced composition", 0.37),
     ("synthetic, zCDP", 0.26), ("synthetic, advanced composition", 0.07)],
)  # fmt: skip
def test_a_published_certificate_shows_claim_and_truth(name, real):
    noise = PRINTED[name]
    certificate = Certificate.issue(
        Privacy(epsilon=noise.claimed_epsilon, delta=noise.delta),
        noise.event(), claimed_epsilon=noise.claimed_epsilon, claim=noise.claim,
    )  # fmt: skip
    assert certificate.calibration == "published"
    assert round(certificate.epsilon, 2) == real
    assert f"The published claim was ε = {noise.claimed_epsilon:g}" in str(certificate)
    certificate.verify()


def test_a_published_certificate_must_say_what_the_claim_leaves_out():
    with pytest.raises(NotCertified, match="claim"):
        Certificate.issue(Privacy(1.0, 1e-5), PRINTED["MNIST, zCDP"].event(), claimed_epsilon=0.5)


def test_step_size_formula():
    size = langevin_step_size(
        3, epsilon=1.0, delta=1e-3, entries=5000, passes=10, batch=100, lipschitz=2.0
    )
    expected = 0.9 / (128 * 4 * math.log(2.5 * 5000 * 10 / (100 * 1e-3)) * math.log(2e3) * 3)
    assert size == pytest.approx(expected)


def test_bad_input_is_refused():
    with pytest.raises(ParameterError, match="delta_iter"):
        advanced_composition_noise(**MNIST, compositions=200, delta_iter=1e-2)
    with pytest.raises(ParameterError, match="rate"):
        zcdp_noise(1.0, 1e-3, rate=0.0, compositions=10, delta_iter=1e-5)
    with pytest.raises(NotCertified, match="batch"):
        langevin_step_size(
            1, epsilon=1.0, delta=1e-3, entries=5, passes=10, batch=100, lipschitz=2.0
        )
