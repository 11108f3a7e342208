"""`SingleTopicModel`: topics of documents from noisy word pairs and triples."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from tacit._core.answers import Answer
from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real
from tacit.data.documents import Documents, counted_words
from tacit.data.duplicates import RULES, duplicates_note
from tacit.data.members import distinct_ids, members_stated
from tacit.data.reading import Table
from tacit.data.relations import Relation
from tacit.data.schema import Columns
from tacit.data.words import named_words, spelled_out
from tacit.data.written import read_names, written_names
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.agreement import Agreement
from tacit.estimators.features import check_fitted
from tacit.estimators.release import Release
from tacit.moments.agreement import MOST_COMPONENTS, TopicAgreement
from tacit.moments.answers import topics_answer
from tacit.moments.blanks import TO_STATE
from tacit.moments.estimator import COMMON, MomentEstimator
from tacit.moments.numerics.sums import DocumentMoments
from tacit.moments.numerics.whitening import Whitening, as_weights, onto_simplex
from tacit.moments.sides import Spectrum, check_room
from tacit.moments.signal import check_delta
from tacit.moments.simulation import topics_error
from tacit.moments.texts import TextColumn
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
        How much of a word's probability is uniform when documents are scored: a topic that
        misses a word would exclude every document with it.
    share
        The second moment's share of the budget; see `tacit.moments.agreement`.
    restarts, iterations
        Of the power method: starts for each topic (10 + 2·topics unless given), and steps.
    privacy
        The guarantee asked for, with unit ``"document"``, or ``"user"`` where ``columns`` name
        the person; None adds no noise. With
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

    _unit = "document"
    _purpose = "a single-topic model"
    _told: ClassVar[tuple[str, ...]] = (
        "topics", "vocabulary", "columns", "smoothing", "unknown", "privacy",
    )  # fmt: skip
    _to_state = TO_STATE
    _inference_only: ClassVar[tuple[str, ...]] = ("restarts", "iterations", "smoothing")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "topics": Integer(1, MOST_COMPONENTS),
        "vocabulary": AnyOf(Integer(1), InstanceOf(Sequence, np.ndarray), None),
        "smoothing": Real(0, 1, open_low=True, open_high=True),
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

    @property
    def _text(self) -> TextColumn | None:
        """The column of text, where columns are stated."""
        columns = self._stated_columns
        return None if columns is None else TextColumn(columns)

    @property
    def _default_unit(self) -> str:
        columns = self._stated_columns
        return self._unit if columns is None or columns.person is None else columns.unit

    def _words(self) -> Any:
        """Return the words or their number, as stated or as read from what is no secret."""
        if (text := self._text) is not None:
            return text.vocabulary
        found = vars(self).get("_read_words") if self.vocabulary is None else self.vocabulary
        return None if self._noisy and self.vocabulary is None else found

    @property
    def _unknown(self) -> str:
        return str(self._given("unknown", "error"))

    @property
    def _noisy(self) -> bool:
        return self.privacy is not None and math.isfinite(self.privacy.epsilon)

    def _stated_size(self) -> int | None:
        words = self._words()
        return None if words is None else members_stated("word", words).size

    def _facts(self, data: Any) -> int | None:
        """Return how many words there are: the columns of an array are public."""
        size = self._stated_size()
        if size is not None:
            return size
        if self._noisy and named_words(data) is not None:
            raise UnboundedData(
                "vocabulary must be stated, and is never read from private documents: pass "
                "vocabulary=[…], the public list of words"
            )
        return counted_words(data)

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> Agreement:
        size = self._size(facts)
        privacy = self._request(len(facts))
        rules, per_unit = duplicates_note([self._given("duplicates", "error")]), 1
        if (columns := self._stated_columns) is not None:
            rules += columns.assumptions()
            per_unit = columns.rows_per_unit
        if self._unknown == "drop" or columns is not None:
            rules += ("words outside the vocabulary are left out",)
        return TopicAgreement(
            size, self.topics, privacy, len(facts), self.share, shares, rules, per_unit
        )

    def fit(self, data: Any, y: None = None) -> Self:
        """Learn from the documents of one holder or of several sites.

        Parameters
        ----------
        data
            A table of counts, documents × words (an array, or a frame whose columns are words);
            a sequence of documents, each a sequence of words, or of word numbers where no words
            are stated; a `Relation` of documents and words; with ``columns`` a table of texts,
            wherever it is kept; or a list of `Site` with such.
        y
            Ignored.
        """
        self._read_words: Any = None
        self._check_parameters()
        if not self._noisy and self.vocabulary is None and self._text is None:
            found = [named_words(site.data) for site in self._as_sites(data)]
            if None not in found:
                words = [word for own in found for word in own or ()]
                self._read_words = distinct_ids(words, "the vocabulary")[0]
        return super().fit(data)

    def _read(self, data: Any, agreement: Agreement) -> Documents:
        text = self._text
        if text is None:
            documents = Documents.read(data, self._words(), self._unknown)
        else:
            documents = text.read(data)
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
        if self._text is not None:
            return table
        (found,) = tables.values()
        names = {entity: found["columns"].get(entity, entity) for entity in ("document", "word")}
        words = self.vocabulary
        labels = range(words) if isinstance(words, int) else words or ()
        cells = Relation.from_frame(
            table,
            names,
            found.get("value"),
            labels={"word": labels},
            duplicates=self._given("duplicates", "error"),
        )
        return coo_array((cells.values, tuple(cells.indices.T)), shape=cells.shape).tocsr()

    def _learn(self, found: Spectrum, white: Whitening) -> None:
        documents = max(float(found.sums.sum()), 0.0)
        check_delta(self.privacy, documents, self._default_unit)
        topics, mass = self._decompose(found.third, white, found.rng)
        self._publish(onto_simplex(topics), mass, documents)

    def _publish(self, topics: Array, mass: Array, documents: float) -> None:
        """Keep topics with the weights that follow from their masses."""
        self.documents_ = documents
        self.vocabulary_ = self._names(topics.shape[1])
        self.topics_, self.weights_ = topics, as_weights(mass, documents)
        self.shared_ = {
            "topics": self.topics_,
            "weights": self.weights_,
            "documents": np.array(documents),
            **self._spectrum(),
        }

    def _names(self, size: int) -> tuple[Any, ...]:
        words = self._words()
        names = None if words is None else members_stated("word", words).names
        return tuple(range(size)) if names is None else names

    def _settings(self) -> dict[str, Any]:
        words = self.vocabulary
        if words is not None and not isinstance(words, int | np.integer):
            words = written_names(members_stated("word", words).names or ())
        columns = self._stated_columns
        return {
            "topics": self.topics,
            "vocabulary": words,
            "smoothing": self.smoothing,
            "unknown": self._unknown,
            "privacy": self._asked(),
            "columns": None if columns is None else columns.described(),
        }

    @classmethod
    def _stated(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """Return the parameters; columns that only name document and word are the table's."""
        found = dict(settings)
        columns = found.get("columns")
        if isinstance(columns, Mapping) and set(columns) <= {"document", "word"}:
            del found["columns"]
        return found, None

    def _dimensions(self) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
        dims = {"topics": ("topic", "word"), "weights": ("topic",)}
        topics = [f"topic {k}" for k in range(len(self.topics_))]
        return dims, {"topic": topics, "word": list(self.vocabulary_)}

    _simulate = classmethod(topics_error)

    def _adopt(self, release: Release) -> None:
        settings = release.settings
        stated = {name: settings[name] for name in settings if name in self._get_param_names()}
        settings = {name: value for name, value in stated.items() if name != "privacy"}
        if isinstance(settings["vocabulary"], list):
            settings["vocabulary"] = list(read_names(settings["vocabulary"]))
        type(self).__init__(self, **settings)
        self.topics_, self.weights_ = release.arrays["topics"], release.arrays["weights"]
        self.documents_ = float(release.arrays["documents"])
        self.vocabulary_ = self._names(self.topics_.shape[1])
        self._take_spectrum(release)

    def _predict_table(
        self, table: Table, data: Any = None, interval: float | None = None
    ) -> dict[str, list[Any]]:
        """Return the topic of every document: of rows (document, word, count), or of counts."""
        if not (table.has("document") and table.has("word")):
            return super()._predict_table(table)
        words = self._words()
        owners, bags = spelled_out(table, words is None or isinstance(words, int | np.integer))
        return {"document": owners, **{n: v.tolist() for n, v in self._shares(bags).items()}}

    def _row_schema(self) -> dict[str, dict[str, Any]]:
        said = "how often the word occurs; 1 unless given"
        return {
            "document": {"type": "string", "description": "which document the word stands in"},
            "word": {"type": "string", "description": "a word of the public vocabulary"},
            "count": {"type": "integer", "description": said},
        }

    def _found(self, level: float) -> Answer:
        check_fitted(self, "topics_")
        learned = self.topics_, self.weights_, self.documents_
        return topics_answer(*learned, self.vocabulary_, self.shared_, level)

    # -- using the result ------------------------------------------------------------------

    def _bags(self, documents: Any) -> Documents:
        check_fitted(self, "topics_")
        words, text = self._words(), self._text
        found = None if text is None else text.encode(documents)
        if found is not None:
            return found
        return Documents.read(
            documents, self.topics_.shape[1] if words is None else words, self._unknown
        )

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

    def top_words(self, count: int = 10, *, positions: bool = False) -> list[list[Any]]:
        """Return every topic's most probable words, or their numbers without a vocabulary.

        A topic of which nothing is known, because noise hides it, is uniform and has none.

        Parameters
        ----------
        count
            How many of each.
        positions
            Whether words are shown by position all the same.
        """
        check_fitted(self, "topics_")
        order = np.argsort(-self.topics_, axis=1, kind="stable")[:, :count]
        known = np.ptp(self.topics_, axis=1) > 1e-9 * self.topics_.max(axis=1)
        known |= self.topics_.shape[1] == 1
        chosen = [row if some else row[:0] for row, some in zip(order, known, strict=True)]
        return [[int(i) if positions else self.vocabulary_[i] for i in row] for row in chosen]
