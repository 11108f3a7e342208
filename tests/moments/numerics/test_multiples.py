"""Word probabilities as multiples of public ones, and how common words are in public texts."""

import numpy as np
import pytest

from tacit.data.documents import Documents
from tacit.moments.numerics.frequencies import word_probabilities
from tacit.moments.numerics.groups import public_probabilities
from tacit.moments.numerics.multiples import multiples_of

WORDS = 3000


def texts(rng, truth, documents, length=120):
    """Return documents whose words come in bursts."""
    bags = []
    for _ in range(documents):
        own = rng.gamma(np.maximum(40.0 * truth, 1e-8))
        bags.append(np.repeat(np.arange(WORDS), rng.multinomial(length, own / own.sum())))
    return Documents.read(bags, vocabulary=WORDS)


def kind_of_text(rng):
    truth = rng.gamma(1.0, size=WORDS) / (np.arange(1, WORDS + 1) + 10.0)
    return truth / truth.sum()


def surprise(truth, found):
    """Return the cross entropy over that of the truth."""
    return float(truth @ np.log(truth / found))


@pytest.mark.parametrize(("clear", "gain"), [(0.1, 0.0), (3.0, 0.0), (30.0, 0.0), (1000.0, 0.2)])
def test_public_words_are_never_lost_to_noise_and_private_ones_help_where_they_are_seen(
    clear, gain
):
    """``clear``: how many standard deviations the sum of the most common word has."""
    rng, ours, free = np.random.default_rng(0), [], []
    for _ in range(6):
        truth = kind_of_text(rng)
        base = public_probabilities(texts(rng, truth, 150))
        moved = truth * np.exp(0.4 * rng.standard_normal(WORDS))  # here, somewhat other words
        moved /= moved.sum()
        sums = clear * moved / moved.max() + rng.standard_normal(WORDS)
        ours.append(surprise(moved, word_probabilities(sums, 1.0, like=base)))
        free.append(surprise(moved, base))
    assert np.mean(ours) <= (1.0 - gain) * np.mean(free) + 2e-3
    assert np.max(np.array(ours) - free) < 0.02


def test_what_stands_out_of_the_noise_is_taken_as_it_is():
    base, sums = np.ones(500), np.full(500, 50.0)
    sums[3] = 5000.0  # a hundred times as common as in public
    found = multiples_of(base, sums + np.random.default_rng(0).standard_normal(500), 1.0)
    assert found[3] == pytest.approx(5000.0, rel=1e-2)
    assert np.abs(np.delete(found, 3) - 50.0).max() < 5.0


def test_one_document_says_little_of_the_next():
    """Words in bursts ask for more smoothing than words that are drawn one by one."""
    rng = np.random.default_rng(1)
    truth = kind_of_text(rng)
    found = {}
    for name, length in (("bursts", 120), ("single words", 3)):
        public = texts(rng, truth, 120 * 120 // length, length)
        common = public_probabilities(public)
        counts = np.bincount(public.words, public.counts, minlength=WORDS)
        alpha = (common[0] * counts.sum() - counts[0]) / (1.0 - WORDS * common[0])
        found[name] = alpha
        half = (counts + 0.5) / (counts + 0.5).sum()
        assert surprise(truth, common) <= surprise(truth, half) + 1e-3
    assert found["bursts"] > 1.5 * found["single words"]
