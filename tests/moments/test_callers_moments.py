"""Moments that the caller gives: what is refused before it is paid, and what stops no fit."""

import warnings

import numpy as np
import pytest

import tacit as tc
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.gate import Gate
from tacit.mechanisms.noise import Noise
from tacit.moments.tensor.agreement import TensorAgreement
from tacit.privacy.events import REPLACE

SIZE = 4
VECTORS = np.linalg.qr(np.random.default_rng(0).standard_normal((SIZE, SIZE)))[0][:2]
TENSOR = np.einsum("k,ka,kb,kc->abc", [3.0, 2.0], *[VECTORS] * 3)
SECOND = np.einsum("k,ka,kb->ab", [3.0, 2.0], VECTORS, VECTORS)


def fit(tensor, second=None, **more):
    ledger = tc.Ledger.memory(epsilon=50, delta=1e-3)
    settings = {"sensitivity": 0.01, "privacy": tc.Privacy(5.0, 1e-6), "random_state": 0, **more}
    if second is not None:
        settings = {"second_sensitivity": 0.01, **settings}
    model = tc.OrthogonalDecomposition(2, ledger=ledger, **settings)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "2 of 2 components", UserWarning)
        try:
            return model.fit(tensor, second) if second is not None else model.fit(tensor)
        except (ParameterError, UnboundedData):
            assert ledger.remaining.epsilon == 50  # nobody paid
            raise


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (TENSOR + 1j, "must hold real numbers"),
        (np.full((4, 4, 4), "a"), "must be an array of numbers"),
        ({"a": 1}, "must be an array of numbers"),
        (np.ma.masked_array(TENSOR, mask=TENSOR > 1), "hides entries behind a mask"),
        (TENSOR[:3], "must have shape"),
        (SECOND, "must have shape"),
        (lambda u: u, "must be an array"),
        ((np.array([3.0, 2.0]), VECTORS), "must be an array"),
    ],
)
def test_a_tensor_that_is_none_is_refused_before_anybody_pays(tensor, reason):
    with pytest.raises(ParameterError, match=reason):
        fit(tensor)


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        (SECOND + 1j, "second must hold real numbers"),
        ("x", "second must be an array of numbers"),
        (lambda u: u, "second must be an array of numbers"),
        (SECOND[:3, :3], "second must be a matrix of 4"),
        (TENSOR, "second must be a matrix of 4"),
        (np.ma.masked_array(SECOND, mask=SECOND > 1), "hides entries"),
    ],
)
def test_so_is_a_second_moment(second, reason):
    with pytest.raises(ParameterError, match=reason):
        fit(TENSOR, second)


def test_numbers_out_of_all_proportion_stop_no_fit_and_say_nothing():
    """What is not finite counts as zero, what is far off as far off: a fit never tells which."""
    for place, value in (((0, 0, 0), np.nan), ((1, 1, 1), 1e308), ((2, 2, 2), -np.inf)):
        spoiled = TENSOR.copy()
        spoiled[place] = value
        assert np.isfinite(fit(spoiled).eigenvalues_).all()
        matrix = SECOND.copy()
        matrix[place[:2]] = value
        found = fit(TENSOR, matrix)
        assert np.isfinite(found.eigenvalues_).all()
        assert np.isfinite(found.components_).all()


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_no_pair_of_moments_moves_a_release_farther_than_was_stated(delta):
    """Pairs at most the stated distances apart, asymmetric and huge ones among them."""
    rng = np.random.default_rng(1)
    privacy = tc.Privacy(5.0, delta, "row", REPLACE)
    public = TensorAgreement(SIZE, 0.5, privacy, 1, 0.3, 0.4, 1e6)
    shares = {"second": [], "tensor": []}
    for trial in range(60):
        size = (1.0, 1e12, 1e300)[trial % 3]
        pairs = []
        for bound, dims in ((0.5, 3), (0.3, 2)):
            base = size * rng.standard_normal((SIZE,) * dims)
            step = rng.standard_normal((SIZE,) * dims)
            if trial % 2:  # symmetric ones reach the bound
                step = np.zeros((SIZE,) * dims)
                step[(trial % SIZE,) * dims] = 1.0
                base = base if size > 1.0 else np.zeros((SIZE,) * dims)
            pairs.append((base, base + bound * step / np.linalg.norm(step)))
        (one, other), (low, high) = pairs
        for step in public.steps:
            drawn = []
            for data in ((one, low), (other, high)):
                holder = public.holder("x", data, Gate(None, Noise(seed=0)), None)
                total = holder.contribute(step, None, {}, data, None)
                drawn.append(total.integers.astype(float) * total.grid.step)
            far = np.linalg.norm(drawn[0] - drawn[1])
            shares[step.name].append(far / (0.5 if step.name == "tensor" else 0.3))
    for found in shares.values():
        assert 0.999 < max(found) <= 1.0 + 1e-3  # rounding to the grid is counted on top
