"""Documents as bags of words: a compact sparse table of counts, read once from many forms.

The vocabulary is public: how many words there are, and which, must not be read from private
documents. Loading is the holder's own business, so counts that are negative, fractional or
missing are refused here with a clear error, to the holder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import OneOf, check
from tacit.data.cells import with_members
from tacit.data.members import members_stated
from tacit.data.reading import is_table
from tacit.data.relations import Relation
from tacit.data.words import word_counts, word_numbers
from tacit.errors import ParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Documents"]

_LARGEST = 2**31 - 1
# a document's counts are multiplied in float64, three at a time, without rounding
_LONGEST = 2**17


@dataclass(frozen=True)
class Documents:
    """Bags of words in compressed rows: document d holds ``words[starts[d]:starts[d + 1]]``.

    Parameters
    ----------
    starts, words, counts
        Where each document begins, its words in increasing order, and how often each occurs.
    vocabulary
        How many words there are; public.

    Examples
    --------
    >>> bags = Documents.read([[0, 2, 2], [1, 1, 0, 2]], vocabulary=3)
    >>> bags.lengths.tolist(), bags.words.tolist(), bags.counts.tolist()
    ([3, 4], [0, 2, 0, 1, 2], [1, 2, 1, 2, 1])
    """

    starts: NDArray[np.int64]
    words: NDArray[np.int32]
    counts: NDArray[np.int32]
    vocabulary: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How many words each document has."""
        total = np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])
        return np.asarray(total[self.starts[1:]] - total[self.starts[:-1]])

    def __getitem__(self, chosen: slice) -> Documents:
        first, last, step = chosen.indices(len(self))
        if step != 1:
            raise ParameterError("documents are sliced with step 1 only")
        starts = self.starts[first : max(first, last) + 1]
        part = slice(int(starts[0]), int(starts[-1]))
        return Documents(starts - starts[0], self.words[part], self.counts[part], self.vocabulary)

    @classmethod
    def read(
        cls, documents: Any, vocabulary: int | Sequence[Any] | None = None, unknown: str = "error"
    ) -> Documents:
        """Read documents, once.

        Parameters
        ----------
        documents
            A sparse or dense table of counts (documents × words); a frame whose columns are words;
            `Documents`; or a sequence of documents, each a sequence of words or of word numbers,
            such as triples. An iterable of such tables is read piece by piece.
        vocabulary
            The public words in order, or their number; by default a table's number of columns.
        unknown
            What a word outside the vocabulary is: an ``"error"``, or a reason to ``"drop"`` it.
        """
        check("unknown", unknown, OneOf("error", "drop"))
        words = None
        if vocabulary is not None and not isinstance(vocabulary, int | np.integer):
            words = members_stated("word", vocabulary)
            vocabulary = words.size
        if isinstance(documents, Documents):
            found = documents
        elif isinstance(documents, Relation):
            stated = vocabulary if words is None else words.names
            found = cls._from_relation(documents, stated)
        elif is_table(documents):
            found = cls._from_dense(word_counts(documents, words, unknown))
        elif hasattr(documents, "tocsr"):
            found = cls._from_sparse(documents.tocsr())
        elif isinstance(documents, np.ndarray) and documents.ndim == 2:
            found = cls._from_dense(documents)
        elif isinstance(documents, Iterable) and not isinstance(documents, str | bytes):
            rest = iter(documents)
            first = next(rest, None)
            if first is None:
                raise ParameterError("there are no documents: pass at least one")
            if hasattr(first, "tocsr") or isinstance(first, Documents) or np.ndim(first) == 2:
                stated = vocabulary if words is None else words.names
                found = _join([cls.read(part, stated, unknown) for part in chain([first], rest)])
            else:
                found = cls.from_words(word_numbers([first, *rest], words, unknown), vocabulary)
        else:
            raise ParameterError(
                "documents must be a table of counts or a sequence of documents, got "
                f"{type(documents).__name__}"
            )
        if vocabulary is not None and found.vocabulary != vocabulary:
            raise ParameterError(
                f"documents have {found.vocabulary} words, but the vocabulary has {vocabulary}"
            )
        if len(found) == 0:
            raise ParameterError("there are no documents: pass at least one")
        if found.counts.size and int(found.lengths.max()) > _LONGEST:
            raise ParameterError(f"a document has more than {_LONGEST:,} words: split it")
        return found

    @classmethod
    def from_words(
        cls, documents: Sequence[Sequence[int]] | NDArray[Any], vocabulary: int | None
    ) -> Documents:
        """Read documents given as word numbers from 0, in any order.

        They are a sequence of sequences, or an array with one document per row; ``vocabulary`` is
        the public number of words.
        """
        if vocabulary is None:
            raise ParameterError(
                "vocabulary must be given for documents of word numbers: pass vocabulary=…, how "
                "many words there are"
            )
        if isinstance(documents, np.ndarray) and documents.ndim == 2:
            sizes = np.full(len(documents), documents.shape[1], np.int64)
            words = documents.reshape(-1)
        else:
            bags = [np.asarray(document).reshape(-1) for document in documents]
            sizes = np.array([bag.size for bag in bags], np.int64)
            filled = [bag for bag in bags if bag.size]
            words = np.concatenate(filled) if filled else np.empty(0, np.int64)
        if words.size and words.dtype.kind not in "iu":
            raise ParameterError(f"word numbers must be whole numbers, got {words.dtype}")
        if words.size and not (words.min() >= 0 and words.max() < vocabulary):
            raise ParameterError(
                f"word numbers must lie in 0 … {vocabulary - 1}: the vocabulary has {vocabulary}"
            )
        owner = np.repeat(np.arange(len(sizes)), sizes)
        code, counts = np.unique(owner * vocabulary + words.astype(np.int64), return_counts=True)
        return cls._build(code // vocabulary, code % vocabulary, counts, len(sizes), vocabulary)

    @classmethod
    def _from_relation(cls, cells: Relation, words: Any) -> Documents:
        """Read cells of (document, word); words are found by name."""
        from scipy.sparse import coo_array

        if cells.modes != 2:
            raise ParameterError("documents are a relation of documents and words, in this order")
        if words is not None:
            cells = with_members(cells, {cells.entities[1]: words})
        table = coo_array((cells.values, tuple(cells.indices.T)), shape=cells.shape)
        return cls._from_sparse(table.tocsr())

    @classmethod
    def _from_dense(cls, table: NDArray[Any]) -> Documents:
        if table.dtype.kind not in "iufb":
            raise ParameterError(f"counts must be numbers, got {table.dtype}")
        if not np.isfinite(table).all():
            raise ParameterError("counts must be finite: a missing count is 0")
        rows, words = np.nonzero(table)
        return cls._build(rows, words, table[rows, words], *table.shape)

    @classmethod
    def _from_sparse(cls, table: Any) -> Documents:
        table = table.copy()
        table.sum_duplicates()
        rows = np.repeat(np.arange(table.shape[0]), np.diff(table.indptr))
        return cls._build(rows, table.indices, table.data, *table.shape)

    @classmethod
    def _build(cls, rows: Any, words: Any, counts: Any, size: int, vocabulary: int) -> Documents:
        """Check counts and pack; rows are in order, and words in order within them."""
        counts = np.asarray(counts)
        if counts.size and not (np.isfinite(counts).all() and (counts >= 0).all()):
            raise ParameterError("counts must not be negative or missing")
        if counts.size and not ((counts == np.floor(counts)).all() and counts.max() <= _LARGEST):
            raise ParameterError(
                "counts must be whole numbers: pass how often each word occurs, not weights"
            )
        kept = counts > 0
        rows, words, counts = np.asarray(rows)[kept], np.asarray(words)[kept], counts[kept]
        starts = np.searchsorted(rows, np.arange(size + 1)).astype(np.int64)
        return cls(starts, words.astype(np.int32), counts.astype(np.int32), int(vocabulary))


def _join(parts: Sequence[Documents]) -> Documents:
    sizes = {part.vocabulary for part in parts}
    if len(sizes) != 1:
        raise ParameterError(f"pieces have different vocabularies: {sorted(sizes)} words")
    shifts = np.cumsum([0, *(part.starts[-1] for part in parts)])
    starts = [part.starts[:-1] + shift for part, shift in zip(parts, shifts[:-1], strict=True)]
    return Documents(
        np.concatenate([*starts, shifts[-1:]]).astype(np.int64),
        np.concatenate([part.words for part in parts]),
        np.concatenate([part.counts for part in parts]),
        sizes.pop(),
    )


def counted_words(data: Any) -> int:
    """Return how many words a table of counts has columns for; no count is looked at."""
    if isinstance(data, Relation):
        return data.shape[1]
    first = data[0] if isinstance(data, list | tuple) and data else data
    if isinstance(first, Documents):
        return first.vocabulary
    if hasattr(first, "tocsr") or np.ndim(first) == 2:
        return int(np.shape(first)[1])
    raise ParameterError(
        "vocabulary must be given for documents of word numbers: pass vocabulary=…, how many "
        "words there are"
    )
