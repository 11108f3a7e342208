"""Standard errors of components against how far components really are from fit to fit."""

from __future__ import annotations

import numpy as np
import pytest

import tacit as tc
from tacit.moments.numerics.spread import MomentNoise, joint_errors, mixture_errors, topic_errors

TOPICS = np.array([[0.5, 0.3, 0.1, 0.05, 0.05], [0.05, 0.05, 0.1, 0.3, 0.5]])
WEIGHTS = np.array([0.6, 0.4])
MEANS = np.array([[3.0, 0.0, 1.0], [0.0, 3.0, -1.0]])


def documents(rng: np.random.Generator, words: int, count: int = 4000) -> np.ndarray:
    return rng.multinomial(words, TOPICS[rng.choice(2, count, p=WEIGHTS)])


@pytest.mark.parametrize(("words", "low", "high"), [(3, 0.6, 1.6), (8, 0.6, 1.6)])
def test_errors_of_topics_are_those_of_new_documents_and_new_noise(
    words: int, low: float, high: float
) -> None:
    privacy = tc.Privacy(2.0, 1e-5)
    found = []
    for seed in range(16):
        data = documents(np.random.default_rng(seed), words)
        model = tc.SingleTopicModel(2, vocabulary=5, privacy=privacy, random_state=seed).fit(data)
        found.append(np.sort(model.topics_, axis=0))  # which one is heavier may change
    stated = joint_errors(model.shared_)
    real = np.std(found, axis=0, ddof=1).mean()
    assert low < stated.components.mean() / real < high


@pytest.mark.parametrize("covariance", ["spherical", "diagonal"])
@pytest.mark.parametrize("variances", ["common", "own"])
def test_errors_of_gaussians_are_those_of_new_samples_and_new_noise(
    variances: str, covariance: str
) -> None:
    found, weights, counts, spreads = [], [], [], []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        data = MEANS[rng.choice(2, 3000, p=WEIGHTS)] + 0.5 * rng.standard_normal((3000, 3))
        model = tc.GaussianMixture(
            2,
            radius=5,
            features=3,
            variances=variances,
            covariance=covariance,
            privacy=tc.Privacy(4.0, 1e-5),
            random_state=seed,
        ).fit(data)
        found.append(model.means_)
        weights.append(model.weights_)
        counts.append(model.rows_)
        spreads.append(model.variances_)
    noise = MomentNoise(*model.shared_["moment_noise"])
    own, one = variances == "own", np.full((2, 3)[: 1 + (covariance == "diagonal")], 0.01)
    stated = mixture_errors(MEANS / 5, WEIGHTS, one, 3000.0, noise, own)
    for real, ours in (
        (np.std(found, axis=0, ddof=1), 5 * stated.components),
        (np.std(weights, axis=0, ddof=1), stated.weights),
        (np.std(counts, ddof=1), stated.number),
        (np.std(spreads, axis=0, ddof=1), 25 * stated.variance),
    ):
        assert 0.6 < np.mean(ours) / np.mean(real) < 1.6


def test_errors_are_the_same_every_time() -> None:
    noise = MomentNoise(10.0, 10.0)
    first, second = (topic_errors(TOPICS, WEIGHTS, 1e4, noise) for _ in range(2))
    np.testing.assert_array_equal(first.components, second.components)


def test_a_vocabulary_of_thousands_needs_no_matrix_of_its_size() -> None:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(5000, 0.01), 4)
    found = topic_errors(topics, np.full(4, 0.25), 1e5, MomentNoise(20.0, 20.0))
    assert found.components.shape == topics.shape and np.isfinite(found.components).all()
