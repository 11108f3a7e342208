"""`SingleTopicModel`: topics of documents from noisy word pairs and triples."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from scipy.optimize import linear_sum_assignment

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, Real
from tacit.data.documents import Documents
from tacit.data.relations import Relation
from tacit.data.synthetic import topic_documents
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.facts import Facts
from tacit.estimators.features import check_fitted
from tacit.estimators.release import Release
from tacit.estimators.site import Site
from tacit.moments.agreement import MOST_COMPONENTS, TopicAgreement
from tacit.moments.estimator import COMMON, MomentEstimator
from tacit.moments.numerics.sums import DocumentMoments
from tacit.moments.numerics.whitening import Whitening, as_weights, onto_simplex
from tacit.moments.sides import Spectrum, check_room
from tacit.moments.signal import check_delta
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["SingleTopicModel"]


class SingleTopicModel(MomentEstimator):
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
        The second moment's share of the budget; see `tacit.moments.agreement`.
    restarts, iterations
        Of the power method: starts for each topic (10 + 2·topics unless given), and steps.
    privacy
        The guarantee asked for, with unit ``"document"``; None adds no noise. With
        ``trust="site"`` each site adds noise of its own; with ``trust="aggregator"`` a secure sum
        hides the sites from the coordinator and they share the noise of one curator.
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
    eigenvalues_, noise_edge_
        The leading eigenvalues of the noisy second moment, and where the spectrum of the noise
        ends: what lies below is hidden.
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
    _inference_only: ClassVar[tuple[str, ...]] = ("restarts", "iterations", "smoothing")
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
        self.on_failure = on_failure
        self.ledger = ledger
        self.random_state = random_state

    # -- what every family says ------------------------------------------------------------

    def _stated_size(self) -> int | None:
        if self.vocabulary is None or isinstance(self.vocabulary, int | np.integer):
            return None if self.vocabulary is None else int(self.vocabulary)
        return len(self.vocabulary)

    def _facts(self, data: Any) -> int | None:
        """Return how many words there are: the columns of a table are public."""
        size = self._stated_size()
        return _columns(data) if size is None else size

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> Agreement:
        size = self._size(facts)
        privacy = self._request(len(facts))
        return TopicAgreement(size, self.topics, privacy, len(facts), self.share, shares)

    def _read(self, data: Any, agreement: Agreement) -> Documents:
        documents = Documents.read(data, self._stated_size())
        short = int((documents.lengths < 3).sum())
        if self.privacy is None and short:  # what is private is never said
            if short == len(documents):
                raise ParameterError("no document has three words: there is nothing to learn")
            warnings.warn(
                f"{short} of {len(documents)} documents have fewer than three words and do not "
                "count",
                UserWarning,
                stacklevel=4,
            )
        units = DocumentMoments(documents).units  # raises where there are too many
        if isinstance(agreement, TopicAgreement):
            check_room(agreement, units)
        return documents

    def _tables(self, tables: Mapping[str, Any], facts: Any) -> Any:
        """Return a site's documents: a row is a document, a word and how often it occurs."""
        from scipy.sparse import coo_array

        table = super()._tables(tables, facts)
        (found,) = tables.values()
        names = {entity: found["columns"].get(entity, entity) for entity in ("document", "word")}
        words = self.vocabulary
        labels = range(words) if isinstance(words, int) else words or ()
        cells = Relation.from_frame(table, names, found.get("value"), labels={"word": labels})
        return coo_array((cells.values, tuple(cells.indices.T)), shape=cells.shape).tocsr()

    def _learn(self, found: Spectrum, white: Whitening) -> None:
        documents = max(float(found.sums.sum()), 0.0)
        check_delta(self.privacy, documents, self._unit)
        topics, mass = self._decompose(found.third, white, found.rng)
        self._publish(onto_simplex(topics), mass, documents)

    def _publish(self, topics: Array, mass: Array, documents: float) -> None:
        """Keep topics with the weights that follow from their masses."""
        self.documents_ = documents
        self.topics_, self.weights_ = topics, as_weights(mass, documents)
        self.shared_ = {
            "topics": self.topics_,
            "weights": self.weights_,
            "documents": np.array(documents),
        }

    def _settings(self) -> dict[str, Any]:
        words = self.vocabulary
        if words is not None and not isinstance(words, int | np.integer):
            words = [str(word) for word in words]
        return {"topics": self.topics, "vocabulary": words, "smoothing": self.smoothing}

    @classmethod
    def _simulate(cls, facts: Facts, seed: int) -> float:
        """Return the mean total variation of word probabilities of documents of one topic each."""
        words = max(facts.features, facts.rank)
        documents, topics, _ = topic_documents(
            facts.rows, words, facts.rank, words=max(3, facts.per_row), seed=seed
        )
        ends = np.linspace(0, facts.rows, facts.sites + 1).astype(int).tolist()
        sites = [
            Site(f"site {k}", documents[start:stop])
            for k, (start, stop) in enumerate(itertools.pairwise(ends))
        ]
        model = cls(
            facts.rank, vocabulary=words, random_state=seed, privacy=facts.request("document")
        )
        found = model.fit(sites).topics_
        far = 0.5 * np.abs(found[:, None, :] - topics[None, :, :]).sum(axis=2)
        return float(far[linear_sum_assignment(far)].mean())

    def _adopt(self, release: Release) -> None:
        type(self).__init__(self, **release.manifest["settings"])
        self.topics_, self.weights_ = release.arrays["topics"], release.arrays["weights"]
        self.documents_ = float(release.arrays["documents"])

    # -- using the result ------------------------------------------------------------------

    def _bags(self, documents: Any) -> Documents:
        check_fitted(self, "topics_")
        return Documents.read(documents, self.topics_.shape[1])

    def _log_joint(self, data: Any) -> Array:
        from scipy.sparse import csr_array

        bags, size = self._bags(data), self.topics_.shape[1]
        smooth = (1.0 - self.smoothing) * self.topics_ + self.smoothing / size
        table = csr_array((bags.counts, bags.words, bags.starts), shape=(len(bags), size))
        with np.errstate(divide="ignore"):
            prior = np.log(self.weights_)
        return np.asarray(table @ np.log(smooth).T + prior)

    def score(self, documents: Any, y: None = None) -> float:
        """Return the mean log probability of a word; not private."""
        from scipy.special import logsumexp

        bags = self._bags(documents)
        joint, words = self._log_joint(bags), float(bags.lengths.sum())
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
        check_fitted(self, "topics_")
        order = np.argsort(-self.topics_, axis=1, kind="stable")[:, :count]
        known = np.ptp(self.topics_, axis=1) > 1e-9 * self.topics_.max(axis=1)
        known |= self.topics_.shape[1] == 1
        chosen = [row if some else row[:0] for row, some in zip(order, known, strict=True)]
        words = self.vocabulary
        if words is None or isinstance(words, int | np.integer):
            return [row.tolist() for row in chosen]
        return [[words[i] for i in row] for row in chosen]


def _columns(data: Any) -> int:
    """Return how many columns a table of counts has; no count is looked at."""
    first = data[0] if isinstance(data, list | tuple) and data else data
    if isinstance(first, Documents):
        return first.vocabulary
    if hasattr(first, "tocsr") or np.ndim(first) == 2:
        return int(np.shape(first)[1])
    raise ParameterError(
        "vocabulary must be given for documents of word numbers: pass vocabulary=…, how many "
        "words there are"
    )
