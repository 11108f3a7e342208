"""`SingleTopicModel`: topics of documents from noisy word pairs and triples."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, Real
from tacit.data.documents import Documents
from tacit.errors import ParameterError
from tacit.estimators import spectral_published
from tacit.estimators.spectral import COMMON, MOST_COMPONENTS, SpectralEstimator
from tacit.estimators.spectral_rounds import Spectrum
from tacit.estimators.spectral_signal import check_delta
from tacit.models.moments import DocumentMoments, SampleMoments
from tacit.models.whitening import Whitening, onto_simplex
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger import Ledger, Reservation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise

__all__ = ["SingleTopicModel"]


class SingleTopicModel(SpectralEstimator):
    """Topics and their weights, where each document has one topic (a mixture of unigrams).

    A document's words are independent given its topic. Word pairs and triples, released once with
    noise, determine topics and weights. Every document counts the same, however long it is; those
    with fewer than three words do not count.

    Parameters
    ----------
    topics
        How many topics.
    vocabulary
        The public vocabulary: the words, or how many there are. By default the columns of a
        table of counts, which are public then.
    smoothing
        How much of a word's probability is uniform when documents are scored: a topic that
        misses a word would exclude every document with it.
    share
        The second moment's share of the budget; see `tacit.estimators.spectral_release`.
    restarts, iterations
        Of the power method: starts for each topic (10 + 2·topics unless given), and steps.
    privacy
        The guarantee asked for, with unit ``"document"``; None adds no noise. With
        ``trust="site"`` each site adds noise of its own; with ``trust="aggregator"`` a secure sum
        hides the sites from the coordinator and they share the noise of one curator.
    strategy, calibration
        ``"certified"``; or one of ``"agn"``, ``"avn"`` and ``"dp-tpm"`` with
        ``calibration="published"``, for tables, of one holder with few words.
    on_failure
        ``"stop"`` at a site's first failure, or ``"exclude"`` it and go on with the others.
    ledger
        Who pays when a single corpus is fitted; sites bring their own.
    random_state
        A seed for noise and starts, for tests only: certificates then say so.

    Attributes
    ----------
    topics_
        Word probabilities, topics × words, the heaviest topic first.
    weights_
        Topic probabilities.
    documents_
        The noisy number of documents.
    eigenvalues_
        The leading eigenvalues of the noisy second moment.
    failures_
        Which sites were excluded, in which round, and why.
    certificate_, certificates_
        The certificate with the largest ε, and one per site that paid.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> topics = np.array([[0.5, 0.5, 0, 0], [0, 0.1, 0.4, 0.5]])
    >>> documents = [rng.choice(4, 6, p=topics[k]) for k in rng.integers(0, 2, 3000)]
    >>> model = SingleTopicModel(2, vocabulary=4, random_state=0).fit(documents)
    >>> bool(np.abs(np.sort(model.topics_[:, 0]) - [0, 0.5]).max() < 0.05)
    True
    """

    _unit = "document"
    _purpose = "a single-topic model"
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "topics": Integer(1, MOST_COMPONENTS),
        "vocabulary": AnyOf(Integer(1), InstanceOf(Sequence, np.ndarray), None),
        "smoothing": Real(0, 1, open_low=True, open_high=True),
        **COMMON,
    }

    def __init__(
        self,
        topics: int = 10,
        *,
        vocabulary: int | Sequence[str] | None = None,
        smoothing: float = 0.05,
        share: float = 0.5,
        restarts: int | None = None,
        iterations: int = 100,
        privacy: Privacy | None = None,
        strategy: str = "certified",
        calibration: str = "certified",
        on_failure: str = "stop",
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.topics = topics
        self.vocabulary = vocabulary
        self.smoothing = smoothing
        self.share = share
        self.restarts = restarts
        self.iterations = iterations
        self.privacy = privacy
        self.strategy = strategy
        self.calibration = calibration
        self.on_failure = on_failure
        self.ledger = ledger
        self.random_state = random_state

    def _rank(self) -> int:
        return self.topics

    def _public_size(self) -> int | None:
        if self.vocabulary is None or isinstance(self.vocabulary, int | np.integer):
            return None if self.vocabulary is None else int(self.vocabulary)
        return len(self.vocabulary)

    def _moments(self, data: Any) -> DocumentMoments:
        documents = Documents.read(data, self._public_size())
        short = int((documents.lengths < 3).sum())
        if self.privacy is None and short:  # what is private is never said
            if short == len(documents):
                raise ParameterError("no document has three words: there is nothing to learn")
            warnings.warn(
                f"{short} of {len(documents)} documents have fewer than three words and do not "
                "count",
                UserWarning,
                stacklevel=6,
            )
        return DocumentMoments(documents)

    def fit(self, documents: Any, y: None = None) -> SingleTopicModel:
        """Release moments and learn the topics.

        Parameters
        ----------
        documents
            A sparse or dense table of counts; a sequence of documents, each a sequence of word
            numbers; `tacit.data.documents.Documents`; pieces of such; or a list of `Site` with
            any of these.
        y
            Ignored.
        """
        self._fit(documents)
        return self

    def _learn(self, found: Spectrum, white: Whitening) -> None:
        self.documents_ = max(float(found.sums.sum()), 0.0)
        check_delta(self.privacy, self.documents_, self._unit)
        topics, mass = self._decompose(found.third, white)
        self._keep(onto_simplex(topics), mass)

    def _keep(self, topics: NDArray[np.float64], mass: NDArray[np.float64]) -> None:
        # a topic cannot have more documents than there are
        mass = np.minimum(mass, max(self.documents_, 1.0))
        total = float(mass.sum())
        self.topics_ = topics
        self.weights_ = mass / total if total > 0.0 else np.full(len(mass), 1.0 / len(mass))

    def _fit_published(
        self,
        moments: DocumentMoments | SampleMoments,
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> None:
        assert self.privacy is not None and self.plan_ is not None
        assert isinstance(moments, DocumentMoments)
        found = spectral_published.release(
            moments, self.plan_, self.privacy, self.strategy, reservation, noise, rng
        )
        white, values, vectors = found.white, found.values, found.vectors
        self.eigenvalues_ = white.values
        self.documents_ = found.count
        check_delta(self.privacy, self.documents_, self._unit)
        topics = np.maximum(white.components(values, vectors), 0.0)
        sums = topics.sum(axis=1, keepdims=True)
        topics = np.where(sums > 0.0, topics / np.maximum(sums, 1e-300), 1.0 / topics.shape[1])
        mass = np.where(values > 0.0, np.maximum(values, 1e-150) ** -2.0, 0.0)
        order = np.argsort(-mass, kind="stable")
        self._keep(topics[order], mass[order])

    # -- using the result ------------------------------------------------------------------

    def _log_joint(self, documents: Any) -> tuple[NDArray[np.float64], Documents]:
        """Return log p(document, topic) for every document and topic."""
        if not hasattr(self, "topics_"):
            raise ParameterError("there is no model yet: call fit first")
        size = self.topics_.shape[1]
        bags = Documents.read(documents, size)
        smooth = (1.0 - self.smoothing) * self.topics_ + self.smoothing / size
        from scipy.sparse import csr_array

        table = csr_array((bags.counts, bags.words, bags.starts), shape=(len(bags), size))
        with np.errstate(divide="ignore"):
            prior = np.log(self.weights_)
        return np.asarray(table @ np.log(smooth).T + prior), bags

    def predict_proba(self, documents: Any) -> NDArray[np.float64]:
        """Return every document's topic probabilities."""
        joint, _ = self._log_joint(documents)
        joint = np.exp(joint - joint.max(axis=1, keepdims=True))
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def predict(self, documents: Any) -> NDArray[np.intp]:
        """Return every document's most probable topic."""
        return np.asarray(self._log_joint(documents)[0].argmax(axis=1))

    def score(self, documents: Any, y: None = None) -> float:
        """Return the mean log probability of a word; not private."""
        from scipy.special import logsumexp

        joint, bags = self._log_joint(documents)
        words = float(bags.lengths.sum())
        if words == 0.0:
            raise ParameterError("the documents have no words: there is nothing to score")
        return float(logsumexp(joint, axis=1).sum() / words)

    def perplexity(self, documents: Any) -> float:
        """Return exp(−score): as hard as guessing among that many equally likely words."""
        return float(np.exp(-self.score(documents)))

    def top_words(self, count: int = 10) -> list[list[Any]]:
        """Return every topic's most probable words, or their numbers without a vocabulary.

        A topic of which nothing is known, because noise hides it, is uniform and has none.

        Parameters
        ----------
        count
            How many of each.
        """
        if not hasattr(self, "topics_"):
            raise ParameterError("there is no model yet: call fit first")
        order = np.argsort(-self.topics_, axis=1, kind="stable")[:, :count]
        known = np.ptp(self.topics_, axis=1) > 1e-9 * self.topics_.max(axis=1)
        known |= self.topics_.shape[1] == 1
        chosen = [row if some else row[:0] for row, some in zip(order, known, strict=True)]
        words = self.vocabulary
        if words is None or isinstance(words, int | np.integer):
            return [row.tolist() for row in chosen]
        return [[words[i] for i in row] for row in chosen]

    def release(self, folder: str | os.PathLike[str]) -> None:
        """Write topics, weights and certificates to a folder, without pickle."""
        if not hasattr(self, "topics_"):
            raise ParameterError("there is nothing to release: call fit first")
        arrays = {"topics": self.topics_, "weights": self.weights_,
                  "documents": np.array(self.documents_)}  # fmt: skip
        self._write(folder, arrays, {"topics": self.topics, "strategy": self.strategy})
