"""`SingleTopicModel`: topics of documents from noisy word pairs and triples."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real, check
from tacit.data.documents import Documents
from tacit.data.duplicates import RULES, duplicates_note
from tacit.data.members import members_stated
from tacit.data.schema import Columns
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.fit import Outcome
from tacit.moments.agreement import MOST_COMPONENTS, TopicAgreement
from tacit.moments.estimator import COMMON
from tacit.moments.numerics.frequencies import word_probabilities
from tacit.moments.numerics.groups import public_probabilities, public_vectors, word_groups
from tacit.moments.numerics.joint import learn
from tacit.moments.numerics.multisets import read_first
from tacit.moments.numerics.whitening import Whitening, around, whiten
from tacit.moments.sides import Spectrum
from tacit.moments.signal import check_delta, check_many, check_signal
from tacit.moments.simulation import topics_error
from tacit.moments.topic_estimator import TopicEstimator
from tacit.moments.words.agreement import FEW, JointAgreement
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["SingleTopicModel"]

GROUPS = COMMONEST = 48  # of words, from what is public; and of the most common words


class SingleTopicModel(TopicEstimator):
    """Topics and their weights, where each document has one topic, or mixes a few.

    A document's words are independent given its topics. Words, word pairs and triples, released
    once with noise, determine topics and weights. Documents with fewer than three words say which
    words are common and no more. Where noise hides the topics, all of them are the one word
    distribution of all documents; which it is, released numbers decide.

    Up to 64 words are taken with all their pairs and triples. Of more words, topics are about the
    most common ones, or about groups of words from what is public (``embeddings``, ``public``,
    ``groups``); ``common="all"`` takes all of them, which takes many documents.

    Parameters
    ----------
    topics
        How many topics.
    vocabulary
        The public vocabulary: the words, or how many there are. By default the columns of an array
        of counts, which are public then. With a guarantee it is needed wherever words come by
        name: it is never read from the documents.
    columns
        What is public about a table whose rows are documents: `tacit.Columns` with one column of
        `text`, which has the vocabulary. Each text is read by itself, and words outside the
        vocabulary are left out. With a person the unit is the user, and at most
        ``rows_per_person`` documents of each count.
    unknown
        What a word outside the vocabulary is: an ``"error"`` to the holder, or a reason to
        ``"drop"`` that word. Of a column of text such words are always left out.
    duplicates
        What a count is that a table lists several times for one document and word: an
        ``"error"``, or one count with the ``"first"`` value, their ``"mean"`` or their ``"sum"``.
    smoothing
        How much of a word's probability is that of all documents when documents are scored: a
        topic that misses a word would exclude every document with it.
    mixing
        α₀ of Dirichlet(α₀·weights), the law of a document's shares in the topics (latent Dirichlet
        allocation): 0 where each has one topic.
    common
        How many words topics are about: those that the words of all documents, which are released
        first, show to be the most common. At most 64, and 48 unless given, where there are more
        words than 64; ``"all"`` takes the pairs of all words, and triples along the leading
        eigenvectors of these.
    embeddings
        Public vectors of the words, words × dimensions: words that are alike are in one group.
    public
        Public documents of the same kind, in any form that `fit` takes: they give word vectors
        unless there are ``embeddings``, and which words are common to begin with.
    groups
        How many groups the words are put in by what is public (48 unless given), or the public
        group of every word, −1 for none.
    share
        The pairs' share of what is spent on pairs and triples.
    restarts, iterations
        Of few words or groups: random starts (8 unless given) and steps of the fit. Of many words,
        of the power method: starts for each topic (10 + 2·topics unless given), and steps.
    privacy
        The guarantee asked for, with unit ``"document"``, or ``"user"`` where ``columns`` name
        the person; None adds no noise. δ = 0 is purely ε-private, for at most 64 words or groups.
        With
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
        Word probabilities, topics × words, the heaviest topic first; words are in the order of
        ``vocabulary_``.
    vocabulary_
        The words; their numbers where they have no names.
    weights_
        Topic probabilities.
    words_
        Word probabilities of all documents.
    known_
        Whether topics stand out of the noise; else all of them are ``words_``.
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
    >>> topics = np.array([[0.7, 0.3, 0, 0], [0, 0.1, 0.3, 0.6]])
    >>> documents = [rng.choice(4, 6, p=topics[k]) for k in rng.integers(0, 2, 3000)]
    >>> model = SingleTopicModel(2, vocabulary=4, random_state=0).fit(documents)
    >>> bool(np.abs(np.sort(model.topics_[:, 0]) - [0, 0.7]).max() < 0.05)
    True
    >>> named = [[["ant", "bee", "cat", "dog"][word] for word in words] for words in documents]
    >>> model = SingleTopicModel(2, random_state=0).fit(named)  # nothing private: words are read
    >>> sorted(model.top_words(1))
    [['ant'], ['dog']]
    """

    _purpose = "a single-topic model"
    _simulate = classmethod(topics_error)
    _inference_only: ClassVar[tuple[str, ...]] = ("restarts", "iterations", "smoothing")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "topics": Integer(1, MOST_COMPONENTS),
        "vocabulary": AnyOf(Integer(1), InstanceOf(Sequence, np.ndarray), None),
        "smoothing": Real(0, 1, open_low=True, open_high=True),
        "mixing": Real(0),
        "common": AnyOf(Integer(3, FEW), OneOf("all"), None),
        "groups": AnyOf(Integer(3, FEW), InstanceOf(Sequence, np.ndarray), None),
        "unknown": OneOf("error", "drop"),
        "duplicates": OneOf(*RULES),
        **COMMON,
    }

    def __init__(
        self,
        topics: int = 10,
        *,
        vocabulary: int | Sequence[Any] | None = None,
        columns: Columns | Mapping[str, Any] | str | None = None,
        unknown: str = "error",
        duplicates: str = "error",
        smoothing: float = 0.05,
        mixing: float = 0.0,
        common: int | str | None = None,
        embeddings: Any = None,
        public: Any = None,
        groups: int | Sequence[int] | None = None,
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
        self.columns = columns
        self.unknown = unknown
        self.duplicates = duplicates
        self.smoothing = smoothing
        self.mixing = mixing
        self.common = common
        self.embeddings = embeddings
        self.public = public
        self.groups = groups
        self.share = share
        self.restarts = restarts
        self.iterations = iterations
        self.privacy = privacy
        self.on_failure = on_failure
        self.ledger = ledger
        self.random_state = random_state

    # -- what every family says ------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.vocabulary is not None:
            members_stated("word", self.vocabulary)
        if self._text is not None:
            if self.vocabulary is not None:
                raise ParameterError("columns hold the vocabulary: leave vocabulary out")
            if self._given("duplicates", "error") != "error":
                raise ParameterError(
                    "columns say what is done about records: pass Columns(key=…, duplicates=…)"
                )
        alike = [n for n in ("embeddings", "public", "groups") if self._given(n) is not None]
        if self._given("common") is not None and alike:
            raise ParameterError(
                f"topics are about the common words or about groups of words: pass common or "
                f"{alike[0]}, not both"
            )
        if isinstance(self._given("groups"), int) and alike == ["groups"]:
            raise ParameterError(
                "groups of words follow from what is public: pass embeddings=… or public=… too, "
                "or the group of every word"
            )

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> Agreement:
        size = self._size(facts)
        privacy = self._request(len(facts))
        rules, per_unit = duplicates_note([self._given("duplicates", "error")]), 1
        if (columns := self._stated_columns) is not None:
            rules += columns.assumptions()
            per_unit = columns.rows_per_unit
        if self._unknown == "drop" or columns is not None:
            rules += ("words outside the vocabulary are left out",)
        moments = size, self.topics, privacy, len(facts), self.share, shares, rules, per_unit
        groups = self._groups(size)
        if groups is not None:
            return JointAgreement(*moments, groups=groups)
        chosen = self._given("common")
        if chosen is None and self.topics <= COMMONEST:
            chosen = COMMONEST
        if size > FEW and isinstance(chosen, int):
            return JointAgreement(*moments, common=chosen)
        if size <= FEW:
            return JointAgreement(*moments)
        check_many(size, privacy, self._given("mixing", 0.0))
        return TopicAgreement(*moments, words=True)

    def _groups(self, size: int) -> tuple[int, ...] | None:
        """Return the group of every word, from what is public."""
        stated, vectors = self._given("groups"), self._given("embeddings")
        if stated is not None and not isinstance(stated, int | np.integer):
            for group in stated:
                check("groups", group, Integer(-1, FEW - 1))
            return tuple(int(group) for group in stated)
        if vectors is None and self._given("public") is None:
            return None
        if vectors is None:
            vectors = public_vectors(self._public_bags(size))
        return tuple(word_groups(vectors, size, min(int(stated or GROUPS), size)).tolist())

    def _public_bags(self, size: int) -> Documents:
        """Return the public documents."""
        words, text = self._words(), self._text
        if text is not None:
            return text.read(self.public)
        return Documents.read(self.public, size if words is None else words, "drop")

    def _conclude(self, outcome: Outcome) -> None:
        if isinstance(outcome.agreement, TopicAgreement):
            super()._conclude(outcome)
            return
        seen, public = outcome.result, outcome.agreement
        assert isinstance(public, JointAgreement)
        noise = public.noise(seen)
        like = self._given("public")
        found = learn(
            seen.first,
            seen.joint,
            noise,
            seen.places,
            public.kinds,
            self.topics,
            seen.rng,
            mixing=self.mixing,
            like=None if like is None else public_probabilities(self._public_bags(public.size)),
            starts=self.restarts,
            steps=3 * self.iterations,
        )
        self.noise_edge_, self.eigenvalues_ = found.edge, found.values
        white = whiten(found.values, np.eye(len(found.values)), found.edge)
        check_signal(white, found.edge, self.privacy, known=found.known)
        check_delta(self.privacy, found.facts.documents, self._default_unit)
        self._publish(found.topics, found.weights, found.facts.documents, found.words, found.known)
        self.shared_ |= found.arrays(noise, self.mixing) | {"places": seen.places}

    def _learn(self, found: Spectrum, white: Whitening) -> None:
        assert isinstance(found.public, TopicAgreement)
        mechanism = found.public.first
        sums, factor, facts = read_first(found.words_on(mechanism.grid.exponent))
        sd = factor * mechanism.scale * math.sqrt(len(found.sites) / found.public.shares)
        documents = max(float(facts.documents), 0.0)
        check_delta(self.privacy, documents, self._default_unit)
        words = word_probabilities(sums, sd)
        seen = len(white.values) - white.hidden
        topics, mass = self._decompose(found.third, white, found.rng)
        topics = around(topics, white, words)
        self._publish(topics, mass, documents, words, seen > (len(topics) > 1))
