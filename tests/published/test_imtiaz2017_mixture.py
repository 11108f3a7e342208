"""Mixtures of Gaussians by AGN, AVN and DP-TPM: what they find, cost and refuse."""

import math

import numpy as np
import pytest

import tacit as tc
from experiments.metrics import matched_error
from tacit.data.synthetic import spherical_mixture
from tacit.errors import ParameterError, UnboundedData
from tacit.moments.numerics.samples import SampleMoments
from tacit.moments.numerics.whitening import spread
from tacit.moments.samples.agreement import MixtureAgreement
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.published import NoisyMixture
from tacit.published.imtiaz2017_mixture import NoisyMixtureAgreement
from tacit.published.imtiaz2017_noise import METHODS


def fit(data, epsilon=0.9, delta=1e-5, components=2, **more):
    privacy = tc.Privacy(epsilon, delta)
    settings = {"radius": 6.0, "random_state": 0, **more}
    return NoisyMixture(components, privacy=privacy, **settings).fit(data)  # fmt: skip


@pytest.fixture(scope="module")
def mixture():
    return spherical_mixture(60_000, 4, 2, seed=1)


def test_gaussian_noise_finds_the_means_and_the_power_method_drowns(mixture):
    """The order of Figure 1: AGN before AVN, both before noise in every step."""
    samples, means, _ = mixture
    found = {m: matched_error(fit(samples, method=m).means_, means) for m in METHODS}
    assert found["agn"] < 0.2 < found["dp-tpm"]
    assert found["agn"] <= found["avn"] < found["dp-tpm"]
    quiet = fit(samples, method="dp-tpm", epsilon=2000.0, restarts=4)
    assert matched_error(quiet.means_, means) < 0.2  # it is the noise that hides them


@pytest.mark.parametrize("method", METHODS)
def test_the_claim_stands_beside_what_the_noise_gives(mixture, method):
    samples, _, _ = mixture
    model = fit(samples[:5000], method=method)
    certificate = model.certificate_.verify()
    assert certificate.claimed_epsilon == 0.9 and certificate.epsilon < 0.9
    assert model.rows_ != 5000 and model.rows_ == pytest.approx(5000, rel=0.2)
    assert (certificate.unit, model.variances_.shape) == ("row", (2,))


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_no_sample_moves_a_step_of_the_power_method_farther_than_is_paid_for(neighbours):
    """Over pairs of samples, many W and u, and the ones that are worst for them."""
    rng, shares = np.random.default_rng(0), []
    privacy = tc.Privacy(0.9, 1e-5, neighbours=neighbours)
    ball = MixtureAgreement(3, 2, privacy, radius=2.0)
    public = NoisyMixtureAgreement(3, 2, privacy, "dp-tpm", ball=ball)
    for trial in range(40):
        w = np.eye(3)[:, :2] if trial == 0 else rng.standard_normal((3, 2))
        u = np.array([1.0, 0.0]) if trial == 0 else rng.standard_normal(2)
        y = w @ (u / np.linalg.norm(u))
        reach = np.array(public.reaches(w, u / np.linalg.norm(u))) * public.change
        rows = 2.0 * np.vstack([y, w[:, 0], w[:, 1], rng.standard_normal((4, 3))])
        rows = np.vstack([1e6 * rows, -1e6 * rows, 0.1 * rows, np.full((1, 3), np.nan)])
        moved = []
        for row in rows:
            sums = public.sums(SampleMoments(row[None], 2.0), "third")
            tensor = spread(np.ldexp(sums.entries.astype(float), sums.exponent), 3)
            moved.append((np.einsum("abc,ai,b,c->i", tensor, w, y, y),
                          np.einsum("abc,a,b,c->", tensor, y, y, y)))  # fmt: skip
        nothing = [(np.zeros(2), 0.0)]
        other = moved if neighbours == REPLACE else nothing
        far = [(np.linalg.norm(a - c), abs(b - d)) for a, b in moved for c, d in other]
        shares.append(np.max(far, axis=0) / reach)
    assert np.max(shares) <= 1.0
    assert np.max(shares) > 0.99


def test_purely_private_noise_needs_the_number_of_rows_and_room(mixture):
    samples, means, _ = mixture
    with pytest.raises(UnboundedData, match="rows must be given"):
        fit(samples, method="avn", delta=0.0)
    with pytest.raises(ParameterError, match="features would do, or"):
        fit(samples, method="avn", delta=0.0, epsilon=1e-4, rows=60_000)
    model = fit(samples, method="avn", delta=0.0, epsilon=20.0, rows=60_000)
    assert model.certificate_.delta == 0.0
    assert matched_error(model.means_, means) < 0.5


def test_people_pay_for_all_of_their_rows():
    privacy = tc.Privacy(0.9, 1e-5, unit="user")
    ball = MixtureAgreement(3, 2, privacy, radius=2.0, rows_per_unit=4)
    one = MixtureAgreement(3, 2, tc.Privacy(0.9, 1e-5), radius=2.0)
    many, single = (
        NoisyMixtureAgreement(3, 2, b.privacy, "agn", ball=b).mechanisms for b in (ball, one)
    )
    for name in ("second", "third"):
        assert many[name].scale == pytest.approx(4.0 * single[name].scale, rel=2e-2)


def test_sites_a_table_and_a_release(mixture, tmp_path):
    samples, means, _ = mixture
    model = fit([tc.Site(str(k), samples[k::2]) for k in range(2)])
    assert matched_error(model.means_, means) < 0.3 and len(model.certificates_) == 2
    model = fit(samples, random_state=None)
    model.release(tmp_path / "r")
    again = NoisyMixture.from_release(tmp_path / "r")
    np.testing.assert_array_equal(again.predict(samples[:50]), model.predict(samples[:50]))
    columns = {f"x{k}": (-6.0, 6.0) for k in range(4)}
    table = {name: samples[:, k] for k, name in enumerate(columns)}
    named = NoisyMixture(2, columns=columns, privacy=tc.Privacy(0.9, 1e-5), random_state=0)
    assert math.isfinite(named.fit(table).score(table))


def test_without_a_guarantee_there_is_nothing_published():
    with pytest.raises(ParameterError, match="needs privacy"):
        NoisyMixture(2, radius=1.0).fit(np.zeros((5, 3)))
