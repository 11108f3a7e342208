"""Moments over sites: sites that are lost, and noise that is shared."""

import warnings

import numpy as np
import pytest
from scipy import stats

import tacit as tc
from experiments.metrics import matched_error, matching
from tacit.data.documents import Documents
from tacit.data.synthetic import spherical_mixture, topic_documents
from tacit.errors import ParameterError, SiteFailure, UnboundedData
from tacit.estimators.fit import reserve
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder
from tacit.mechanisms.noise import Noise
from tacit.moments.agreement import TopicAgreement
from tacit.moments.numerics.sums import DocumentMoments
from tacit.moments.sides import Spectrum
from tacit.published.imtiaz2017 import NoisyTopics
from tacit.published.imtiaz2017_noise import METHODS
from tacit.rounds.aggregate import SumAggregator
from tacit.rounds.messages import Message


@pytest.fixture
def loses(monkeypatch):
    """Make the site "lost" fail at a basis, or from a round of products on."""
    answer = Holder.respond

    def install(when):
        def respond(self, request):
            last = "basis" in request.arrays or request.step == "joint"
            if self.name == "lost" and (last if when == "basis" else request.round >= when):
                raise OSError("the line is dead")
            return answer(self, request)

        monkeypatch.setattr(Holder, "respond", respond)

    return install


def corpora(vocabulary, **more):
    """Two sites with the same topics; the lost one has the first topic only."""
    documents, truth, _ = topic_documents(30_000, vocabulary, 3, words=8, seed=2, **more)
    rng = np.random.default_rng(0)
    single = Documents.from_words(rng.choice(vocabulary, (20_000, 8), p=truth[0]), vocabulary)
    return documents, single, truth


def fit(data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return tc.SingleTopicModel(3, **{"random_state": 0, "common": "all", **options}).fit(data)


@pytest.mark.parametrize(
    ("vocabulary", "when"), [(12, 0), (12, "basis"), (520, 2), (520, "basis")]
)
def test_a_lost_site_is_taken_out_of_everything(loses, vocabulary, when):
    documents, single, truth = corpora(vocabulary, concentration=0.5 if vocabulary == 12 else 0.05)
    alone = fit(documents)
    loses(when)
    sites = [tc.Site("left", documents), tc.Site("lost", single)]
    model = fit(sites, on_failure="exclude")
    assert [(f.site, f.reason) for f in model.failures_] == [("lost", "OSError")]
    assert model.record_.sites == ("left",)
    assert model.documents_ == pytest.approx(30_000, rel=1e-6)
    assert matched_error(model.topics_, truth) < 0.03
    order = matching(model.topics_, alone.topics_)
    np.testing.assert_allclose(model.weights_[order], alone.weights_, atol=0.02)
    with pytest.raises(SiteFailure, match="'lost' failed in round"):
        fit(sites)


def test_moments_that_keep_a_lost_site_are_noticed(loses, monkeypatch):
    """The control of the test above: without the turn the weights are far off."""
    documents, single, _ = corpora(520, concentration=0.05)
    alone = fit(documents)
    loses("basis")
    monkeypatch.setattr(Spectrum, "_turn", lambda self: None)
    model = fit([tc.Site("left", documents), tc.Site("lost", single)], on_failure="exclude")
    order = matching(model.topics_, alone.topics_)
    assert np.abs(model.weights_[order] - alone.weights_).max() > 0.1


def test_a_lost_site_of_samples_is_taken_out(loses):
    samples, means, weights = spherical_mixture(30_000, 5, 2, seed=1)
    loses("basis")
    other = means[0] + 0.5 * np.random.default_rng(0).standard_normal((20_000, 5))
    sites = [tc.Site("left", samples), tc.Site("lost", other)]
    model = tc.GaussianMixture(2, radius=6.0, random_state=0, on_failure="exclude").fit(sites)
    assert matched_error(model.means_, means) < 0.05
    assert np.abs(model.weights_[matching(model.means_, means)] - weights).max() < 0.03
    assert model.rows_ == pytest.approx(30_000, rel=1e-3)


def test_samples_of_sites_share_the_noise_of_one_curator():
    samples, means, _ = spherical_mixture(30_000, 5, 2, seed=1)
    sites = [tc.Site(str(k), samples[k::3]) for k in range(3)]
    privacy = tc.Privacy(2.0, 1e-6, trust="aggregator")
    model = tc.GaussianMixture(2, radius=6.0, random_state=0, privacy=privacy).fit(sites)
    assert matched_error(model.means_, means) < 0.1
    assert model.rows_ == pytest.approx(30_000, abs=200)
    assert all(c.epsilon <= 2.0 for c in model.certificates_.values())


def test_a_site_that_cannot_read_its_data_is_left_out_and_pays_nothing():
    documents, _, _ = corpora(12)
    ledgers = [tc.Ledger.memory(unit="document", epsilon=1.5, delta=1e-5) for _ in range(2)]
    sites = [tc.Site("good", documents, ledgers[0]),
             tc.Site("bad", np.array([[1, -1] + [0] * 10]), ledgers[1])]  # fmt: skip
    privacy = tc.Privacy(1.0, 1e-6, unit="document", trust="site")
    with pytest.raises(ParameterError, match="site 'bad': counts must not be negative"):
        fit(sites, privacy=privacy, vocabulary=12)
    model = fit(sites, privacy=privacy, vocabulary=12, on_failure="exclude")
    assert [f.site for f in model.failures_] == ["bad"]
    assert list(model.certificates_) == ["good"]
    assert ledgers[1].remaining.epsilon == 1.5
    assert ledgers[0].remaining.epsilon < 1.0
    bad = [tc.Site(name, np.array([[-1, 0, 0]])) for name in "ab"]
    with pytest.raises(SiteFailure, match="no site can read its data"):
        fit(bad, on_failure="exclude")


def test_a_lost_site_has_paid_and_says_so(loses):
    documents, single, _ = corpora(12)
    loses("basis")
    sites = [tc.Site(name, data, tc.Ledger.memory(unit="document", epsilon=1.5, delta=1e-5))
             for name, data in (("left", documents), ("lost", single))]  # fmt: skip
    privacy = tc.Privacy(1.0, 1e-6, unit="document", trust="site")
    model = fit(sites, privacy=privacy, on_failure="exclude")
    assert sorted(model.certificates_) == ["left", "lost"]
    assert all(site.ledger.remaining.epsilon < 0.6 for site in sites)


def test_a_secure_sum_loses_no_site(loses):
    documents, single, _ = corpora(12)
    sites = [tc.Site("left", documents), tc.Site("lost", single)]
    privacy = tc.Privacy(1.0, 1e-6, unit="document", trust="aggregator")
    with pytest.raises(ParameterError, match="on_failure must be 'stop'"):
        fit(sites, privacy=privacy, on_failure="exclude")
    loses("basis")
    with pytest.raises(SiteFailure, match="'lost' failed"):
        fit(sites, privacy=privacy)


@pytest.mark.parametrize("method", METHODS)
def test_published_methods_add_their_noise_at_every_site(method):
    """Sums of sites have the noise of each: the authors' data lie at five."""
    documents, truth, _ = topic_documents(60_000, 6, 2, words=8, seed=2)
    privacy = tc.Privacy(90.0, 1e-6, unit="document", trust="site")
    sites = [tc.Site("a", documents[:20_000]), tc.Site("b", documents[20_000:])]
    model = NoisyTopics(2, method=method, privacy=privacy, random_state=0, restarts=3).fit(sites)
    assert sorted(model.certificates_) == ["a", "b"]
    assert model.documents_ == pytest.approx(60_000, rel=0.01)
    assert matched_error(model.topics_, truth) < 0.1


def test_pure_avn_is_refused_where_its_noise_is_longer_than_any_moment():
    documents, truth, _ = topic_documents(60_000, 6, 2, words=8, seed=2)
    pure = tc.Privacy(5.0, 0.0, unit="document")
    with pytest.raises(ParameterError, match="at most 6 words would do, or 12 documents"):
        NoisyTopics(2, vocabulary=7, method="avn", privacy=pure, documents=11).price()
    with pytest.raises(UnboundedData, match="documents must be given"):
        NoisyTopics(2, vocabulary=7, method="avn", privacy=pure).price()
    model = NoisyTopics(2, method="avn", privacy=pure, documents=60_000, random_state=0)
    model.fit(documents)
    assert model.certificate_.delta == 0.0 and model.certificate_.epsilon <= 5.0
    assert matched_error(model.topics_, truth) < 0.1


def test_a_site_too_large_for_whole_numbers_is_refused_before_anybody_pays(monkeypatch):
    documents, _, _ = topic_documents(600, 600, 2, words=5, seed=1)
    sites = [tc.Site(name, documents, tc.Ledger.memory(unit="document", epsilon=2.0, delta=1e-5))
             for name in "ab"]  # fmt: skip
    privacy = tc.Privacy(1.0, 1e-6, unit="document", trust="aggregator")
    read = DocumentMoments.__init__

    def huge(self, given):
        read(self, given)
        self.units = 10**9

    monkeypatch.setattr(DocumentMoments, "__init__", huge)
    with pytest.raises(ParameterError, match=r"too many for whole-number"):
        fit(sites, privacy=privacy)
    assert all(site.ledger.remaining.epsilon == 2.0 for site in sites)


# -- shared noise --------------------------------------------------------------------------------

SIZE, RANK, COUNT = 40, 3, 5


def summed_noise(shared, seed):
    """Return the noise in what the coordinator sees of five sites: second and third moment."""
    privacy = tc.Privacy(1.0, 1e-6, unit="document", trust="aggregator")
    agreement = TopicAgreement(SIZE, RANK, privacy, COUNT, shares=COUNT if shared else 1)
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((SIZE, RANK)))[0]
    documents = Documents.from_words([[0, 1, 2], [3, 3, 4]], SIZE)
    corpus = DocumentMoments(documents)
    sites = [tc.Site(f"s{k}", documents) for k in range(COUNT)]
    reserved = reserve(agreement, sites, "law")
    replies = {}
    for number, site in enumerate(sites):
        gate = Gate(reserved[site.name], Noise(seed=1000 * seed + number))
        holder = agreement.holder(site.name, documents, gate, None)
        vectors = np.eye(SIZE, dtype=np.int64)
        first = holder.respond(Message(0, {"vectors": vectors}, "second"))
        last = holder.respond(Message(1, {"basis": basis}, "third"))
        replies[site.name] = Message(1, {**first.arrays, **last.arrays})
    total = SumAggregator(COUNT).collect(replies).total
    mechanisms = agreement.mechanisms
    second = total["product"] * mechanisms[0].grid.step
    second = second - COUNT * np.ldexp(corpus.rows(0, SIZE).astype(float), corpus.exponent)
    third = total["third"] * mechanisms[1].grid.step  # the documents' part is below 10 of τ = 6
    return second / mechanisms[0].scale, third / mechanisms[1].scale


def laws(shared):
    """Return how well the sum fits the noise of one curator: two p-values."""
    draws = [summed_noise(shared, seed) for seed in range(40)]
    upper = np.concatenate([second[np.triu_indices(SIZE, 1)] for second, _ in draws])
    centred = np.array([third for _, third in draws])
    centred = (centred[::2] - centred[1::2]) / np.sqrt(2.0)  # the documents cancel
    return (
        stats.kstest(upper, stats.norm(scale=np.sqrt(0.5)).cdf).pvalue,
        stats.kstest(centred.ravel(), stats.norm().cdf).pvalue,
    )


def test_what_a_secure_sum_shows_has_the_noise_of_one_curator_exactly():
    assert min(laws(True)) > 1e-6
    assert max(laws(False)) < 1e-6  # noise of one's own at every site is five times that
