"""Words, pairs and triples at once: what leaves, how far one document moves it, what it gives."""

import itertools
import warnings

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

import tacit as tc
from experiments.metrics import matched_error
from tacit.data.documents import Documents
from tacit.data.synthetic import topic_documents
from tacit.errors import TacitError
from tacit.estimators.pipeline import seen_before
from tacit.moments.numerics.frequencies import word_probabilities
from tacit.moments.numerics.likelihood import NoisyMoments, _Problem, expected_moments
from tacit.moments.numerics.multisets import (
    first_sums,
    joint_sums,
    pair_scale,
    triple_scale,
)
from tacit.moments.numerics.sums import DocumentMoments
from tacit.moments.numerics.whitening import spread
from tacit.moments.scores import halves, mean_log_probability

SIZE = 4


def values(integers):
    return np.ldexp(np.asarray(integers, np.float64), -36)


def bags():
    """Every bag of up to five of four words, and long and lopsided ones."""
    found = [list(b) for n in range(6) for b in
             itertools.combinations_with_replacement(range(SIZE), n)]  # fmt: skip
    return [*found, [0] * 50 + [1], [0] * 9 + [1] * 9 + [2] * 9, [3] * 5000]


@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("most", [(1.0, 1.0), (30.0, 2.0), (2.0**40, 2.0**40)])
@pytest.mark.parametrize("places", [(0, 1, 2, 3), (0, 1, 1, -1)])
def test_no_document_is_longer_than_one_nor_two_farther_apart_than_said(norm, most, places):
    groups, kinds = np.array(places), max(places) + 1
    far = 2.0 if norm == 1 else np.sqrt(2.0)
    for made in (
        lambda d: joint_sums(d, groups, kinds, most, 0.3, norm),
        lambda d: first_sums(d, norm),
    ):
        found = np.array([values(made(Documents.from_words([b], SIZE))) for b in bags()])
        assert found.min() >= 0.0
        assert np.linalg.norm(found, norm, axis=1).max() <= 1.0
        apart = [np.linalg.norm(a - b, norm) for a, b in itertools.combinations(found, 2)]
        assert 0.95 * far < max(apart) <= far


def test_the_search_catches_documents_that_weigh_by_their_length():
    """A twin that multiplies by the weight asked for, without a bound of its own."""
    heavy = [30.0 * values(joint_sums(Documents.from_words([b], SIZE), np.arange(SIZE), SIZE,
                                      (1.0, 1.0), 0.5)) for b in bags()]  # fmt: skip
    assert max(np.linalg.norm(one) for one in heavy) > 10.0


def test_pairs_and_triples_are_those_of_the_moments_and_add_up():
    rng = np.random.default_rng(0)
    words = [rng.integers(0, SIZE, rng.integers(0, 9)).tolist() for _ in range(40)]
    documents = Documents.from_words(words, SIZE)
    moments, upper = DocumentMoments(documents), np.triu_indices(SIZE)
    whole = values(joint_sums(documents, np.arange(SIZE), SIZE, (1.0, 1.0), 0.5, 1)) / 0.5
    pairs = len(upper[0])
    second, third = values(moments.rows(0, SIZE))[upper], values(moments.whole_third())
    np.testing.assert_allclose(whole[:pairs] / pair_scale(SIZE, 1), second, atol=1e-8)
    np.testing.assert_allclose(whole[pairs:] / triple_scale(SIZE), third, atol=1e-8)
    turned = Documents.from_words([w[::-1] for w in words[::-1]], SIZE)
    most = (3.0, 4.0)
    facts = np.arange(SIZE), SIZE, most, 0.5
    np.testing.assert_array_equal(joint_sums(documents, *facts), joint_sums(turned, *facts))
    parts = [joint_sums(Documents.from_words(words[k::2], SIZE), *facts) for k in (0, 1)]
    np.testing.assert_array_equal(joint_sums(documents, *facts), sum(parts))


@pytest.mark.parametrize("mixing", [0.0, 0.7])
def test_the_gradient_is_that_of_the_objective(mixing):
    rng = np.random.default_rng(0)
    rank, size = 3, 5
    exact = expected_moments(rng.dirichlet(np.ones(size), rank), rng.dirichlet(np.ones(rank)),
                             mixing)  # fmt: skip
    noise = rng.standard_normal((size, size))
    cube = spread(rng.standard_normal(35), size)
    seen = NoisyMoments(
        100 * exact[0], 100 * exact[1] + noise + noise.T, 100 * exact[2] + cube,
        *(np.ones(part.shape) for part in exact),
    )  # fmt: skip
    problem, x = _Problem(seen, rank, exact[0], mixing), rng.standard_normal(rank * (size + 1))
    steps = 1e-5 * np.eye(len(x))
    slopes = [(problem.value(x + s)[0] - problem.value(x - s)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(problem.value(x)[1], slopes, rtol=1e-5, atol=1e-5)


def test_expected_moments_of_mixing_documents_are_those_of_drawn_ones():
    rng = np.random.default_rng(1)
    topics, weights, mixing = rng.dirichlet(np.ones(4), 2), np.array([0.7, 0.3]), 0.8
    shares = rng.dirichlet(mixing * weights, 400_000) @ topics
    first, second, third = expected_moments(topics, weights, mixing)
    np.testing.assert_allclose(shares.mean(axis=0), first, atol=2e-3)
    np.testing.assert_allclose(shares.T @ shares / len(shares), second, atol=2e-3)
    drawn = np.einsum("na,nb,nc->abc", shares, shares, shares, optimize=True) / len(shares)
    np.testing.assert_allclose(drawn, third, atol=2e-3)


def fit(documents, topics, epsilon, delta=1e-6, **more):
    privacy = tc.Privacy(epsilon, delta, unit="document")
    return tc.SingleTopicModel(topics, random_state=0, privacy=privacy, **more).fit(documents)


def test_pure_epsilon_finds_topics():
    documents, truth, _ = topic_documents(40_000, 10, 3, seed=4)
    model = fit(documents, 3, 0.5, 0.0)
    assert matched_error(model.topics_, truth) < 0.05
    assert model.certificate_.delta == 0.0 and model.certificate_.epsilon <= 0.5


def zipf(seed=0, count=4000, size=300, length=60):
    """Return documents of three topics over a vocabulary whose words are rare, with the truth."""
    rng = np.random.default_rng(seed)
    base = 1.0 / np.arange(1, size + 1)
    topics = base * rng.gamma(0.3, 1.0, (3, size))
    topics /= topics.sum(axis=1, keepdims=True)
    return rng.multinomial(length, topics[rng.integers(0, 3, count)]), topics


def test_many_words_never_lose_to_one_distribution_or_to_none():
    table, _ = zipf()
    train, test = table[:3000], table[3000:]
    for epsilon in (0.01, 0.3, 3.0):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of topics that noise hides
            model = fit(train, 3, epsilon)
        one = tc.SingleTopicModel(1, random_state=0, privacy=model.privacy).fit(train)
        found = model.perplexity(test)
        assert found < 1.02 * min(one.perplexity(test), 300.0)
        assert model.known_ == (epsilon > 0.1)
    assert found < 0.8 * one.perplexity(test)


def test_public_texts_and_vectors_group_words():
    table, truth = zipf(1)
    test = table[3000:]
    for public in ({"public": table[:400]}, {"embeddings": truth.T}):
        model = fit(table[400:3000], 3, 1.0, **public, groups=16)
        one = tc.SingleTopicModel(1, random_state=0, privacy=model.privacy).fit(table[400:3000])
        assert model.known_ and model.perplexity(test) < one.perplexity(test)
        assert any("16 groups" in line for line in model.certificate_.assumptions)


def test_documents_that_mix_topics_are_told_apart_from_those_that_do_not():
    rng = np.random.default_rng(3)
    truth = rng.dirichlet(np.full(12, 0.3), 3)
    shares = rng.dirichlet(np.full(3, 0.4), 20_000)
    table = np.array([rng.multinomial(20, p) for p in shares @ truth])
    mixed = fit(table, 3, 3.0, mixing=1.2)
    assert matched_error(mixed.topics_, truth) < 0.06
    assert matched_error(fit(table, 3, 3.0).topics_, truth) > 0.1
    found = mixed.transform(table[:500])
    order = np.argmax(mixed.topics_ @ truth.T, axis=0)
    assert np.abs(found[:, order] - shares[:500]).mean() < 0.15
    assert mixed.coherence(table, 3).shape == (3,)


def test_a_document_is_not_told_what_it_is_asked():
    documents = Documents.read([[0, 0, 1, 2, 2]], vocabulary=3)
    seen, asked = halves(documents)
    assert seen.counts.sum() == 3 and asked.counts.sum() == 2
    topics = np.eye(3) * 0.97 + 0.01
    apart = Documents.read([[0, 1]], vocabulary=3)  # one place each: the other says nothing of it
    assert mean_log_probability(apart, topics, np.full(3, 1 / 3), 0.1) < np.log(1 / 3)


def test_word_probabilities_know_nothing_under_noise_and_all_without():
    rng = np.random.default_rng(0)
    truth = 1000.0 / np.arange(1, 2001)
    for sd, bar in ((0.3, 0.1), (3.0, 0.5)):
        seen = truth + sd * rng.standard_normal(2000)
        ours = word_probabilities(seen, sd)
        plain = np.maximum(seen, 0.0)
        gap = np.abs(ours - truth / truth.sum()).sum()
        assert gap < bar and gap < np.abs(plain / plain.sum() - truth / truth.sum()).sum()
    blind = word_probabilities(1e9 * rng.standard_normal(2000), 1e9)
    assert np.abs(blind * 2000 - 1.0).max() < 0.3
    like = word_probabilities(rng.standard_normal(2000) * 1e3, 1e3, like=truth)
    assert np.abs(like - truth / truth.sum()).sum() < 0.3


def test_a_vectorizer_with_a_public_vocabulary_reads_each_text_by_itself():
    words = ["fever", "cough", "bone", "cast"]
    texts = ["fever cough fever unlisted", "bone cast bone", "cough fever cough"] * 400
    privacy = tc.Privacy(50.0, 1e-5, unit="document")
    model = tc.SingleTopicModel(2, privacy=privacy)
    pipe = tc.make_pipeline(CountVectorizer(vocabulary=words), model).fit(texts)
    assert not any("NOT COVERED" in line for line in pipe[-1].certificate_.assumptions)
    assert pipe.predict(["fever cough cough"]) != pipe.predict(["bone cast cast"])
    for open_one in (CountVectorizer(), CountVectorizer(vocabulary=words, tokenizer=str.split)):
        assert "NOT COVERED" in seen_before("words", open_one)[0]


@pytest.mark.parametrize("bad", [
    np.ones((66, 3)) + 1j, np.full((66, 3), "0.5"), np.full((66, 3), None), np.zeros((66, 0)),
    np.ma.masked_array(np.ones((66, 3)), mask=np.eye(66, 3)), np.full((66, 3), np.nan),
    np.full((66, 3), np.datetime64("2020-01-01")), [[1.0]] * 65 + [[1.0, 2.0]], {0: [1.0]}, "file",
    (row for row in np.eye(66)), np.rec.fromarrays(np.eye(66)), 3.0, np.ones((65, 3)),
    type("Odd", (), {"__array__": lambda self, *a, **k: 1 / 0})(), len,
], ids=range(16))  # fmt: skip
def test_embeddings_that_are_none_are_refused_before_anybody_pays(bad):
    counts = np.random.default_rng(0).multinomial(6, np.full(66, 1 / 66), 50)
    ledger = tc.Ledger.memory(epsilon=9, delta=1e-2, unit="document")
    with pytest.raises(TacitError):
        tc.SingleTopicModel(2, embeddings=bad, privacy=tc.Privacy(1.0, 1e-5), ledger=ledger).fit(
            counts
        )
    assert ledger.remaining.epsilon == 9


@pytest.mark.parametrize("kind", ["flat", "rare", "mixed"])
@pytest.mark.parametrize("epsilon", [0.1, 0.4, 3.0])
def test_topics_are_believed_only_where_they_foretell_new_documents(kind, epsilon):
    """The rule of `tacit.moments.numerics.joint` on corpora that it was not made on."""
    rng = np.random.default_rng(77)
    word = 1.0 / np.arange(1, 13)
    truth = rng.dirichlet(np.ones(12) if kind == "flat" else 4.0 * word / word.sum() + 0.02, 3)
    shares = (
        rng.dirichlet([0.5] * 3, 4000)
        if kind == "mixed"
        else np.eye(3)[rng.integers(3, size=4000)]
    )
    counts = np.array([rng.multinomial(10, p) for p in shares @ truth])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = tc.SingleTopicModel(3, vocabulary=12, privacy=tc.Privacy(epsilon, 1e-6),
                                    restarts=4, random_state=0).fit(counts[:2500])  # fmt: skip
    assert model.known_ or not np.ptp(model.topics_, axis=0).max()
    alone = np.exp(-(counts[2500:] @ np.log(model.words_)).sum() / counts[2500:].sum())
    assert model.perplexity(counts[2500:]) <= alone * (1.0 + 1e-9)
    assert model.known_ or epsilon < 3.0
