"""Topic models, mixtures and decompositions: what they find, what they say, what they refuse."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import tacit as tc
from experiments.metrics import matched_error, matching
from tacit.data.documents import Documents
from tacit.data.synthetic import spherical_mixture, topic_documents
from tacit.errors import BudgetExceeded, NotCertified, ParameterError, UnboundedData
from tacit.moments.agreement import TopicAgreement
from tacit.moments.numerics.power import symmetrise
from tacit.moments.sides import Spectrum
from tacit.privacy.events import REPLACE
from tacit.published.imtiaz2017 import NoisyTopics
from tacit.published.imtiaz2017_noise import METHODS


def privacy(epsilon=5.0, delta=1e-6, **more):
    return tc.Privacy(epsilon, delta, unit="document", **more)


@pytest.fixture(scope="module")
def corpus():
    return topic_documents(40_000, 12, 3, words=6, seed=2)


def fit(documents, topics=3, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return tc.SingleTopicModel(topics, **{"random_state": 0, **options}).fit(documents)


# -- what they find ------------------------------------------------------------------------------


def test_topics_and_weights_are_recovered(corpus):
    documents, truth, weights = corpus
    for options, tolerance in (({}, 0.02), ({"privacy": privacy()}, 0.03)):
        model = fit(documents, **options)
        assert matched_error(model.topics_, truth) < tolerance
        order = matching(model.topics_, truth)
        assert np.abs(model.weights_[order] - weights).max() < 0.05
        assert model.documents_ == pytest.approx(40_000, rel=0.02)
        np.testing.assert_allclose(model.topics_.sum(axis=1), 1.0)
        assert (np.diff(model.weights_) <= 0).all()


def test_infinite_epsilon_gives_what_no_privacy_gives(corpus):
    documents, _, _ = corpus
    plain = fit(documents)
    open_ended = fit(documents, privacy=privacy(np.inf))
    np.testing.assert_allclose(plain.topics_, open_ended.topics_, atol=1e-12)
    assert not open_ended.certificate_.is_private


def test_the_order_of_documents_does_not_change_a_bit(corpus):
    documents, _, _ = corpus
    halves = [documents[:15_000], documents[15_000:40_000]]
    one = fit(documents, privacy=privacy())
    other = fit(halves[::-1], privacy=privacy())
    np.testing.assert_array_equal(one.topics_, other.topics_)


def test_prediction_and_score(corpus):
    documents, _truth, _weights = corpus
    model = fit(documents, privacy=privacy())
    probability = model.predict_proba(documents[:200])
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    np.testing.assert_array_equal(probability.argmax(axis=1), model.predict(documents[:200]))
    assert model.perplexity(documents) < 12.0
    assert [len(top) for top in model.top_words(4)] == [4, 4, 4]
    named = fit(documents, vocabulary=list("abcdefghijkl"))
    assert named.top_words(1)[0][0] == "abcdefghijkl"[int(named.topics_[0].argmax())]


def test_long_and_short_documents_have_the_same_expectation():
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(8, 0.4), 2)
    documents = [rng.choice(8, rng.integers(1, 60), p=truth[k]) for k in rng.integers(0, 2, 8000)]
    with pytest.warns(UserWarning, match="fewer than three words"):
        model = tc.SingleTopicModel(2, vocabulary=8, random_state=0).fit(documents)
    assert matched_error(model.topics_, truth) < 0.02


def test_gaussians_are_recovered():
    samples, means, weights = spherical_mixture(40_000, 6, 3, seed=1)
    for options, tolerance in (({}, 0.1), ({"privacy": tc.Privacy(5.0, 1e-6)}, 0.15)):
        model = tc.GaussianMixture(3, radius=5.0, random_state=0, **options).fit(samples)
        assert matched_error(model.means_, means) < tolerance
        assert model.variance_ == pytest.approx(0.25, rel=0.15)
        assert np.abs(model.weights_[matching(model.means_, means)] - weights).max() < 0.05
        assert model.rows_ == pytest.approx(40_000, rel=0.02)
        assert model.predict(samples[:50]).shape == (50,)
        assert np.isfinite(model.score(samples[:100]))


def test_rounds_of_products_find_what_a_dense_solver_finds():
    documents, _, _ = topic_documents(20_000, 520, 3, words=10, concentration=0.05, seed=3)
    from tacit.mechanisms.noise import Noise
    from tacit.moments.numerics.sums import DocumentMoments
    from tacit.rounds.sides import Collected

    for trust in ("site", "aggregator"):
        agreement = TopicAgreement(520, 3, privacy(20.0, trust=trust))
        noisy = agreement.mechanisms[0].draw(DocumentMoments(documents), Noise(seed=9))
        exact = np.linalg.eigvalsh(np.asarray(noisy))[::-1][:3]
        spectrum = Spectrum(agreement, np.random.default_rng(0))
        while spectrum.basis is None:
            product = noisy.apply(spectrum.sent)
            assert product.dtype == (np.int64 if trust == "aggregator" else np.float64)
            spectrum.take_products(Collected(("x",), {"product": product}, None))
        np.testing.assert_allclose(spectrum.values, exact, rtol=5e-3)
        gap = spectrum.basis.T @ spectrum.basis - np.eye(3)
        assert np.abs(gap).max() < 1e-12


# -- over sites ------------------------------------------------------------------------------


def sites_of(documents, count=4):
    edges = np.linspace(0, len(documents), count + 1).astype(int)
    return [tc.Site(f"s{k}", documents[edges[k] : edges[k + 1]]) for k in range(count)]


def test_sites_without_noise_are_one_holder(corpus):
    documents, _, _ = corpus
    alone, together = fit(documents), fit(sites_of(documents))
    np.testing.assert_allclose(alone.topics_, together.topics_, atol=1e-6)


def test_a_secure_sum_has_the_noise_of_one_curator(corpus):
    documents, truth, _ = corpus
    errors = {}
    for trust in ("central", "site", "aggregator"):
        data = documents if trust == "central" else sites_of(documents)
        fits = [fit(data, privacy=privacy(0.3, trust=trust), random_state=s) for s in range(6)]
        errors[trust] = np.mean([matched_error(m.topics_, truth) for m in fits])
        assert all(c.epsilon <= 0.3 for c in fits[0].certificates_.values())
    assert errors["site"] > 1.3 * errors["central"]
    assert errors["aggregator"] < 0.8 * errors["site"]
    assert any("only the sum" in note for note in fits[0].certificate_.assumptions)
    assert fits[0].certificate_.trust == "aggregator"


def test_a_secure_sum_of_a_large_vocabulary():
    documents, truth, _ = topic_documents(4000, 513, 2, words=20, concentration=0.02, seed=1)
    model = fit(sites_of(documents, 2), 2, privacy=privacy(50.0, trust="aggregator"))
    assert matched_error(model.topics_, truth) < 0.1


def test_every_site_pays_once(corpus):
    documents, _, _ = corpus
    sites = [tc.Site(s.name, s.data, tc.Ledger.memory(unit="document", epsilon=1.5, delta=1e-5))
             for s in sites_of(documents, 2)]  # fmt: skip
    model = tc.SingleTopicModel(3, vocabulary=12, privacy=privacy(1.0, trust="site"))
    assert model.price(sites).affordable
    model.fit(sites)
    assert all(c.epsilon <= 1.0 for c in model.certificates_.values())
    with pytest.raises(BudgetExceeded):
        clone(model).fit(sites)


# -- what they say -----------------------------------------------------------------------------


@pytest.mark.parametrize("neighbours", [None, REPLACE])
def test_the_certificate_is_what_was_asked_for(corpus, neighbours):
    model = fit(corpus[0], privacy=privacy(1.0, neighbours=neighbours))
    certificate = model.certificate_.verify()
    assert 0.999 < certificate.epsilon <= 1.0
    assert certificate.unit == "document"
    assert "document" in str(certificate)
    assert model.price(tc.Site("the data", corpus[0])).sites[0].epsilon <= 1.0


@pytest.mark.parametrize("method", METHODS)
def test_published_methods_show_their_claim(corpus, method, tmp_path):
    ledger = tc.Ledger.memory(unit="document", neighbours=REPLACE, epsilon=1.0, delta=1e-5)
    model = NoisyTopics(3, method=method, privacy=privacy(1.0, neighbours=REPLACE), ledger=ledger)
    model.fit(corpus[0])
    certificate = model.certificate_.verify()
    assert certificate.claimed_epsilon == 1.0
    assert 0.0 < certificate.epsilon < 1.0  # more noise than the claim needs
    assert "classical" in certificate.claim
    np.testing.assert_allclose(model.topics_.sum(axis=1), 1.0)
    assert ledger.remaining.epsilon == pytest.approx(1.0 - certificate.epsilon, rel=0.01)
    model.release(tmp_path / "out")
    again = NoisyTopics.from_release(tmp_path / "out")
    assert again.method == method
    np.testing.assert_array_equal(again.predict(corpus[0][:50]), model.predict(corpus[0][:50]))


def test_the_price_is_known_before_any_data():
    model = tc.SingleTopicModel(3, vocabulary=100, privacy=privacy(1.0))
    assert model.price().sites[0].epsilon <= 1.0
    with pytest.raises(NotCertified):
        tc.SingleTopicModel(3, privacy=privacy(1.0)).price()


def test_noise_that_hides_topics_is_said():
    documents, _, _ = topic_documents(300, 30, 5, seed=0)
    with pytest.warns(UserWarning, match=r"guesses.*times the data, or\s+ε of at least"):
        model = tc.SingleTopicModel(5, privacy=privacy(0.1), random_state=0).fit(documents)
    assert np.isfinite(model.topics_).all()
    assert np.isfinite(model.weights_).all()


def test_a_large_delta_is_said(corpus):
    with pytest.warns(UserWarning, match="delta"):
        tc.SingleTopicModel(3, privacy=privacy(5.0, 0.01), random_state=0).fit(corpus[0])


def test_release_and_seed(corpus, tmp_path):
    seeded = fit(corpus[0], privacy=privacy())
    with pytest.raises(NotCertified, match="seeded"):
        seeded.release(tmp_path / "seeded")
    model = fit(corpus[0], privacy=privacy(), random_state=None)
    model.release(tmp_path / "out")
    found = tc.read_release(tmp_path / "out")
    np.testing.assert_array_equal(found.arrays["topics"], model.topics_)
    samples, _, _ = spherical_mixture(5000, 4, 2)
    mixture = tc.GaussianMixture(2, radius=5.0, privacy=tc.Privacy(5.0, 1e-6)).fit(samples)
    mixture.release(tmp_path / "mixture")
    assert tc.read_release(tmp_path / "mixture").arrays["means"].shape == (2, 4)


def test_a_release_predicts_as_the_model_did(corpus, tmp_path):
    words = list("abcdefghijkl")
    model = fit(corpus[0], privacy=privacy(), random_state=None, vocabulary=words)
    model.release(tmp_path / "topics")
    again = tc.SingleTopicModel.from_release(tmp_path / "topics")
    new = corpus[0][:100]
    np.testing.assert_array_equal(again.predict_proba(new), model.predict_proba(new))
    assert again.top_words(3) == model.top_words(3)
    assert again.score(new) == model.score(new)
    assert again.certificate_.epsilon == model.certificate_.epsilon
    samples, _, _ = spherical_mixture(5000, 4, 2)
    for centre in (0.5, (0.5, 0.0, 0.0, 0.1)):
        mixture = tc.GaussianMixture(
            2, radius=5.0, centre=centre, privacy=tc.Privacy(5.0, 1e-6)
        ).fit(samples)
        mixture.release(tmp_path / f"mixture {np.size(centre)}")
        again = tc.GaussianMixture.from_release(tmp_path / f"mixture {np.size(centre)}")
        np.testing.assert_array_equal(
            again.predict_proba(samples[:50]), mixture.predict_proba(samples[:50])
        )
        assert again.score(samples[:50]) == mixture.score(samples[:50])
    tensor = np.einsum("a,b,c->abc", *[np.eye(3)[0]] * 3)
    one = tc.OrthogonalDecomposition(1, sensitivity=0.1, privacy=tc.Privacy(2.0)).fit(tensor)
    one.release(tmp_path / "tensor")
    again = tc.OrthogonalDecomposition.from_release(tmp_path / "tensor")
    np.testing.assert_array_equal(again.components_, one.components_)


# -- orthogonal, private -----------------------------------------------------------------------


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_private_decomposition_is_pure_without_delta(delta):
    vectors = np.linalg.qr(np.random.default_rng(0).standard_normal((5, 2)))[0].T
    tensor = np.einsum("k,ka,kb,kc->abc", [9.0, 6.0], vectors, vectors, vectors)
    model = tc.OrthogonalDecomposition(
        2, sensitivity=0.01, privacy=tc.Privacy(1.0, delta), random_state=0
    ).fit(tensor)
    assert model.certificate_.epsilon <= 1.0
    assert model.certificate_.delta == delta
    np.testing.assert_allclose(np.abs(model.components_ @ vectors.T), np.eye(2), atol=0.2)


def test_a_private_tensor_is_symmetrised_before_noise():
    """A neighbour that differs in the antisymmetric part only changes nothing."""
    rng = np.random.default_rng(0)
    tensor = rng.standard_normal((4, 4, 4))
    model = tc.OrthogonalDecomposition(
        2, sensitivity=1.0, privacy=tc.Privacy(1.0, 1e-6), random_state=3
    )
    one = clone(model).fit(tensor).components_
    other = clone(model).fit(symmetrise(tensor)).components_
    np.testing.assert_allclose(one, other, atol=1e-5)


# -- what they refuse ----------------------------------------------------------------------------

DOCUMENTS = Documents.from_words([[0, 1, 2], [0, 0, 1], [2, 2, 1, 0]] * 5, 3)


@pytest.mark.parametrize(("options", "data", "message"), [
    ({"topics": 4}, DOCUMENTS, "4 components cannot be found in 3"),
    ({"topics": 2}, [[0, 0, 0]] * 9, "no more than 1"),
    ({}, [[0], [1, 2]], "no document has three words"),
    ({}, np.array([[1, -1, 2]]), "negative"),
    ({"vocabulary": 5}, DOCUMENTS, "vocabulary has 5"),
    ({"privacy": tc.Privacy(1.0, 1e-6, unit="row")}, DOCUMENTS, "unit"),
    ({"privacy": privacy(1.0, 0.0), "vocabulary": 80, "common": "all"},
     Documents.from_words([[0, 1, 79]], 80), "delta must be positive.*common="),
    ({"mixing": 0.5, "vocabulary": 80, "common": "all"},
     Documents.from_words([[0, 1, 79]], 80), "mix topics.*embeddings="),
    ({"common": 5, "groups": [0, 1, 2]}, DOCUMENTS, "common or groups, not both"),
    ({"groups": 3}, DOCUMENTS, "public=… too"),
    ({"groups": [0, 1]}, DOCUMENTS, "2 groups of words for 3 words"),
    ({"embeddings": np.ones((2, 2))}, DOCUMENTS, "for each of the 3 words"),
    ({"privacy": privacy(1.0, trust="local")}, DOCUMENTS, "trust"),
    ({"share": 1.0}, DOCUMENTS, "share"), ({"topics": 0}, DOCUMENTS, "topics"),
    ({"smoothing": 0.0}, DOCUMENTS, "smoothing"),
    ({"privacy": privacy(1.0, trust="central")},
     [tc.Site("a", DOCUMENTS), tc.Site("b", DOCUMENTS)], "trust='site'"),
    ({}, [tc.Site("a", DOCUMENTS), tc.Site("b", np.ones((3, 4), int))], "different sizes"),
])  # fmt: skip
def test_bad_topic_models_are_refused(options, data, message):
    given = {"topics": 2, "vocabulary": 3 if isinstance(data, list) and isinstance(data[0], list)
             else None, **options}  # fmt: skip
    with pytest.raises(ParameterError, match=message):
        tc.SingleTopicModel(**given).fit(data)


def test_published_methods_need_a_guarantee():
    with pytest.raises(ParameterError, match="needs privacy"):
        NoisyTopics(2).fit(DOCUMENTS)
    with pytest.raises(ParameterError, match="at most 128 words"):
        NoisyTopics(2, vocabulary=129, privacy=privacy(1.0)).price()


def test_a_corpus_of_short_documents_says_nothing_but_its_noise():
    """With privacy nothing is said about private lengths: the noisy moments say it."""
    model = tc.SingleTopicModel(2, vocabulary=30, privacy=privacy(1.0), random_state=0)
    with pytest.warns(UserWarning, match="guesses"):
        model.fit([[0], [1, 2]] * 10)
    assert np.isfinite(model.topics_).all()


def test_what_is_hidden_is_not_made_up():
    """Topics that noise hides are the words of all documents and have no top words."""
    documents, _, _ = topic_documents(50, 40, 2, seed=0)
    model = fit(documents, 2, privacy=privacy(0.01))
    assert (model.eigenvalues_ < model.noise_edge_).all()  # of this seed's noise
    assert not model.known_
    np.testing.assert_array_equal(model.topics_, [model.words_] * 2)
    np.testing.assert_allclose(model.words_, 1 / 40, rtol=0.1)  # ε = 0.01 says next to nothing
    assert model.top_words(3) == [[], []]
    assert model.perplexity(documents) == pytest.approx(40.0, rel=0.02)
    assert "No topic stands out" in str(model.summary())


@pytest.mark.parametrize(("options", "data", "error", "message"), [
    ({"radius": None}, np.ones((5, 3)), UnboundedData, "radius must be given"),
    ({"components": 4}, np.ones((5, 3)), ParameterError, "4 components cannot be found in 3"),
    ({}, np.array([[1.0, np.nan, 2.0]] * 4), ParameterError, "column .1., missing: X, row 1"),
    ({}, np.ones(5), ParameterError, "samples × features"),
    ({"centre": [0.0, 1.0]}, np.ones((5, 3)), ParameterError, "centre has 2"),
    ({"features": 4}, np.ones((5, 3)), ParameterError, "4 were stated"),
    ({"privacy": privacy()}, np.ones((5, 3)), ParameterError, "unit"),
    ({}, np.zeros((50, 3)), ParameterError, "no more than 0"),
])  # fmt: skip
def test_bad_mixtures_are_refused(options, data, error, message):
    with pytest.raises(error, match=message):
        tc.GaussianMixture(**{"components": 2, "radius": 3.0, **options}).fit(data)


def test_a_private_tensor_needs_its_sensitivity():
    with pytest.raises(UnboundedData, match="sensitivity must be given"):
        tc.OrthogonalDecomposition(1, privacy=tc.Privacy(1.0)).fit(np.ones((2, 2, 2)))
    with pytest.raises(UnboundedData, match=r"second_sensitivity must be given.*whitening"):
        tc.OrthogonalDecomposition(1, privacy=tc.Privacy(1.0), sensitivity=1.0).fit(
            np.ones((2, 2, 2)), np.eye(2)
        )


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_moments_that_a_caller_brings_are_whitened_by_what_was_released(delta, tmp_path):
    """The paper's own input: averages over 100,000 documents, each Δ = √2/N under replace-one."""
    rng = np.random.default_rng(0)
    topics, weights = rng.dirichlet(np.full(6, 0.3), 2), np.array([0.6, 0.4])
    second, third = (np.einsum(f, weights, *[topics] * n) for f, n in
                     (("k,ka,kb->ab", 2), ("k,ka,kb,kc->abc", 3)))  # fmt: skip
    far = np.sqrt(2.0) / 100_000
    request = tc.Privacy(1.0, delta, "document", "replace-one")
    model = tc.OrthogonalDecomposition(
        2, privacy=request, sensitivity=far, second_sensitivity=far, largest=1.0
    ).fit(third, second)
    assert matched_error(model.components_, topics) < 0.05
    assert np.abs(model.weights_ - weights).max() < 0.05
    certificate = model.certificate_
    assert certificate.epsilon <= 1.0 and certificate.delta == delta
    assert any("second moment by at most" in line for line in certificate.assumptions)
    again = tc.OrthogonalDecomposition.from_release(model.release(tmp_path / "r"))
    np.testing.assert_array_equal(again.weights_, model.weights_)


def test_pure_noise_longer_than_the_second_moment_is_refused_before_it_is_paid_for():
    """Noise of d = D(D + 1)/2 numbers is about d·Δ₂/ε₂ long; the refusal says what would do."""
    ledger = tc.Ledger.memory(epsilon=2.0)
    options = {"sensitivity": 0.01, "second_sensitivity": 0.01, "ledger": ledger}
    wide = tc.OrthogonalDecomposition(1, privacy=tc.Privacy(1.0), **options, largest=1.0)
    with pytest.raises(ParameterError, match=r"At most 9 dimensions would do.*ε of at least 1.1"):
        wide.fit(np.ones((10,) * 3), np.eye(10))
    with pytest.raises(UnboundedData, match="largest must be given"):
        tc.OrthogonalDecomposition(1, privacy=tc.Privacy(1.0), **options).fit(
            np.ones((9,) * 3), np.eye(9)
        )
    assert ledger.remaining.epsilon == 2.0
    assert wide.set_params(dimension=9).price().sites[0].epsilon <= 1.0
