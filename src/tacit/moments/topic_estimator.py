"""`TopicEstimator`: documents over a public vocabulary, and what topics say about them.

What certified and published topics share: how documents and words are read, what is kept of a fit,
releases, scores. How topics are learned is a child's to say.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from tacit._core.answers import Answer
from tacit._core.arrays import Array
from tacit.data.documents import Documents, counted_words
from tacit.data.members import distinct_ids, members_stated
from tacit.data.reading import Table
from tacit.data.relations import Relation
from tacit.data.shards import Read, Shards
from tacit.data.spooling import by_unit
from tacit.data.words import named_words, spelled_out
from tacit.data.written import read_names, written_names
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.agreement import Agreement
from tacit.estimators.features import check_fitted
from tacit.estimators.release import Release
from tacit.moments.agreement import TopicAgreement
from tacit.moments.answers import topics_answer
from tacit.moments.blanks import TO_STATE
from tacit.moments.estimator import MomentEstimator
from tacit.moments.numerics.sums import DocumentMoments
from tacit.moments.numerics.whitening import as_weights
from tacit.moments.scores import coherence, mean_log_probability, shares_of, table_of
from tacit.moments.sides import check_room
from tacit.moments.texts import TextColumn

__all__ = ["TopicEstimator"]

_UNSEEN = 0.2  # of the smoothing that is uniform


class TopicEstimator(MomentEstimator):
    """The common part of `SingleTopicModel` and of topics as published; see there."""

    vocabulary: Any
    topics: int
    smoothing: float
    topics_: Array
    words_: Array
    documents_: float
    vocabulary_: tuple[Any, ...]
    known_: bool

    _unit = "document"
    _takes_shards = True
    _told: ClassVar[tuple[str, ...]] = (
        "topics", "vocabulary", "columns", "smoothing", "mixing", "unknown", "privacy",
    )  # fmt: skip
    _to_state = TO_STATE

    # -- documents -------------------------------------------------------------------------

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
        table = super()._tables(tables, facts)
        if self._text is not None:
            return table
        (found,) = tables.values()
        names = {entity: found["columns"].get(entity, entity) for entity in ("document", "word")}
        words, rule = self.vocabulary, self._given("duplicates", "error")
        labels = range(words) if isinstance(words, int) else words or ()
        how = partial(_counts, names, found.get("value"), labels, rule)
        if not isinstance(table, Shards):
            return how(table)
        parted = by_unit(table, [names["document"]]) if len(table) > 1 else table
        return parted.made((Read(piece, how) for piece in parted), parted.units)

    def _publish(
        self, topics: Array, mass: Array, documents: float, words: Array, known: bool
    ) -> None:
        """Keep topics with the weights that follow from their masses."""
        self.documents_ = documents
        self.vocabulary_ = self._names(topics.shape[1])
        self.known_, self.words_ = known, words
        self.topics_ = topics if known else np.tile(words, (len(topics), 1))
        self.weights_ = as_weights(mass, max(documents, 1.0) if mass.max() > 1.0 else 1.0)
        if not known:
            self.weights_ = np.full(len(topics), 1.0 / len(topics))
        self.shared_ = {
            "topics": self.topics_,
            "weights": self.weights_,
            "words": words,
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
            "mixing": self._given("mixing", 0.0),
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

    def _adopt(self, release: Release) -> None:
        settings = release.settings
        stated = {name: settings[name] for name in settings if name in self._get_param_names()}
        settings = {name: value for name, value in stated.items() if name != "privacy"}
        if isinstance(settings["vocabulary"], list):
            settings["vocabulary"] = list(read_names(settings["vocabulary"]))
        type(self).__init__(self, **settings)
        self.topics_, self.weights_ = release.arrays["topics"], release.arrays["weights"]
        self.documents_ = float(release.arrays["documents"])
        self.words_ = release.arrays["words"]
        self.known_ = bool(np.ptp(self.topics_, axis=0).max() > 0.0 or len(self.topics_) == 1)
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

    def _likely(self) -> Array:
        """Return topics as documents are scored by: none excludes a word."""
        base = (1.0 - _UNSEEN) * self.words_ + _UNSEEN / len(self.words_)
        return np.asarray((1.0 - self.smoothing) * self.topics_ + self.smoothing * base)

    def _log_joint(self, data: Any) -> Array:
        bags = self._bags(data)
        with np.errstate(divide="ignore"):
            prior = np.log(self.weights_)
        return np.asarray(table_of(bags) @ np.log(self._likely()).T + prior)

    def predict_proba(self, data: Any) -> Array:
        """Return the share of every topic in every document.

        Where each document has one topic, the probability that it is that; where documents mix
        topics, the shares that explain its words best.
        """
        mixing = self._given("mixing", 0.0)
        if not mixing:
            return super().predict_proba(data)
        return shares_of(self._bags(data), self._likely(), self.weights_, mixing)

    def predict(self, data: Any) -> Any:
        """Return the topic of every document that has the largest share in it."""
        return self.predict_proba(data).argmax(axis=1)

    def score(self, documents: Any, y: None = None) -> float:
        """Return the mean log probability of a word; the holder's own, not private.

        Where documents mix topics, every other place of a document gives its shares, and the words
        between are scored.
        """
        mixing = self._given("mixing", 0.0)
        return mean_log_probability(self._bags(documents), self._likely(), self.weights_, mixing)

    def perplexity(self, documents: Any) -> float:
        """Return exp(−score): as hard as guessing among that many equally likely words."""
        return float(np.exp(-self.score(documents)))

    def coherence(self, documents: Any, count: int = 10) -> Array:
        """Return how often the top words of every topic stand together; not private.

        Parameters
        ----------
        documents
            The holder's own, or public ones.
        count
            How many words of each topic.

        Returns
        -------
        array
            The mean normalised pointwise mutual information of their pairs: 1 where they always
            stand in one document, 0 where that is chance, −1 never; nan of a topic without words.
        """
        return coherence(self._bags(documents), self.top_words(count, positions=True))

    def top_words(self, count: int = 10, *, positions: bool = False) -> list[list[Any]]:
        """Return every topic's most probable words, or their numbers without a vocabulary.

        Where noise hides all topics, none has words of its own.

        Parameters
        ----------
        count
            How many of each.
        positions
            Whether words are shown by position all the same.
        """
        check_fitted(self, "topics_")
        order = np.argsort(-self.topics_, axis=1, kind="stable")[:, :count]
        chosen = [row if self.known_ else row[:0] for row in order]
        return [[int(i) if positions else self.vocabulary_[i] for i in row] for row in chosen]


def _counts(names: Mapping[str, str], value: Any, labels: Any, rule: str, table: Any) -> Any:
    """Return documents × words: a row of a table is a document, a word and how often it occurs."""
    from scipy.sparse import coo_array

    cells = Relation.from_frame(table, names, value, labels={"word": labels}, duplicates=rule)
    return coo_array((cells.values, tuple(cells.indices.T)), shape=cells.shape).tocsr()
