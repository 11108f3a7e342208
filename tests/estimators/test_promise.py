"""Certificates together: whatever was inferred from several releases rests on all of them."""

import numpy as np
import pytest

import tacit as tc
from tacit import networks as nn
from tacit.estimators.pipeline import make_pipeline
from tacit.estimators.release.promise import gathered, promises
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import GaussianDpEvent, LaplaceDpEvent
from tacit.privacy.guarantee import Privacy

PRIVACY = tc.Privacy(8.0, 1e-5)
RNG = np.random.default_rng(0)
X = np.array([[3.0, 0.0], [0.0, 3.0]])[RNG.integers(0, 2, 6000)]
X = X + 0.3 * RNG.standard_normal(X.shape)


def issued(epsilon, holder="A", **more):
    asked = Privacy(epsilon=epsilon, **more)
    return Certificate.issue(asked, LaplaceDpEvent(1.0 / epsilon), holder=holder)


def test_certificates_of_one_holder_compose_and_others_stand_apart():
    found = promises({"A": issued(1.0), "A (2)": issued(2.0), "B": issued(0.5, "B")})
    assert [(one.certificates, one.epsilon) for one in found] == [
        (("A", "A (2)"), 3.0),
        (("B",), 0.5),
    ]


def test_gaussian_releases_compose_tightly():
    asked = Privacy(epsilon=1.0, delta=1e-6)
    one, two = (Certificate.issue(asked, GaussianDpEvent(s), holder="A") for s in (5.0, 6.0))
    (found,) = promises({"A": one, "A (2)": two})
    assert max(one.epsilon, two.epsilon) < found.epsilon < one.epsilon + two.epsilon


def test_different_units_are_not_added_up():
    (found,) = promises({"A": issued(1.0), "A (2)": issued(1.0, unit="user")})
    assert found.epsilon is None
    assert "different units" in str(found)


def test_a_certificate_counts_once_whatever_it_is_called():
    one = issued(1.0)
    assert gathered([("A", one), ("step: A", one), ("A", issued(2.0))]).keys() == {"A", "A (2)"}


@pytest.fixture(scope="module")
def pipeline():
    """A private mixture, and a private regression on its components."""
    mixture = tc.GaussianMixture(2, radius=5, features=2, privacy=PRIVACY)
    model = tc.PrivateLinearRegression(
        bounds=[(0, 1)] * 2,
        y_bounds=(0, 4),
        intercept=False,
        method="Bayes-fixedS-fast",
        privacy=PRIVACY,
    )
    return make_pipeline(mixture, model).fit(X, X[:, 0].clip(0, 4))


def test_a_step_after_a_private_one_rests_on_both(pipeline, tmp_path):
    last = pipeline[-1]
    assert len(last.certificates_) == 2
    release = tc.read_release(last.release(tmp_path / "release"))
    (promise,) = release.manifest["promises"]
    assert promise["epsilon"] > 8.5
    back = tc.PrivateLinearRegression.from_release(tmp_path / "release")
    assert back.certificates_ == last.certificates_
    grown = back.add_sites(
        [tc.Site("later", (np.random.default_rng(1).random((200, 2)), np.ones(200)))]
    )
    assert set(last.certificates_) < set(grown.certificates_)


def test_a_fit_outside_of_the_pipeline_rests_on_itself(pipeline):
    last = tc.PrivateLinearRegression(**pipeline[-1].get_params(deep=False))
    last._upstream = pipeline[-1]._upstream
    last.fit(np.random.default_rng(1).random((300, 2)), np.ones(300))
    assert len(last.certificates_) == 1


def test_a_network_that_starts_from_a_private_one_rests_on_both(tmp_path):
    rows, labels = X[:300] / 5, (X[:300, 0] > 1).astype(int)
    options = dict(classes=(0, 1), bounds=(-1, 1), rows=300, training=nn.Training(steps=2))
    first = nn.PrivateDropoutClassifier(hidden=(3,), privacy=PRIVACY, **options).fit(rows, labels)
    second = nn.PrivateDropoutClassifier(module=first.module_, privacy=PRIVACY, **options)
    second.fit(rows, labels)
    assert [name for name in second.certificates_] == ["the data", "module: the data"]
    release = tc.read_release(second.release(tmp_path / "release"))
    assert len(release.manifest["promises"]) == 1 and len(release.certificates) == 2
