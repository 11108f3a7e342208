"""Words of documents by a public vocabulary, each looked at by itself (PRIVACY A13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.features import labels_of, numbers
from tacit.data.members import Members, distinct_ids, key, shown
from tacit.data.problems import BadTable, Problem
from tacit.data.reading import Table, is_table
from tacit.data.relations import Relation
from tacit.data.values import lowered, texts
from tacit.errors import ParameterError, UnboundedData

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["named_words", "spelled_out", "table_words", "word_counts", "word_numbers"]

_KEPT = 20
_LONGEST = 1_000_000  # words of documents that are spelled out


def named_words(documents: Any) -> list[Any] | None:
    """Return the words by which documents name themselves; None where they only have numbers.

    Only for documents that are no secret: a private fit has its vocabulary stated.
    """
    if isinstance(documents, Relation):
        unstated = documents.entities[-1] in documents.unstated
        named = documents.labels.get(documents.entities[-1])
        if named is None and not unstated:
            return None
        return list(range(documents.shape[-1]) if named is None else named)
    if is_table(documents):
        return table_words(documents)
    if isinstance(documents, list | tuple) and documents:
        if is_table(documents[0]):
            return [word for part in documents for word in table_words(part)]
        if any(_is_sequence(one) and _has_text(one) for one in documents):
            return [key(word) for document in documents for word in _split(document)]
    return None


def word_numbers(documents: list[Any], words: Members | None, unknown: str) -> list[Any]:
    """Return documents as word numbers, by the names of words where these are stated.

    Parameters
    ----------
    documents
        Each a sequence of words; of word numbers, where only the number of words is stated.
    words
        The vocabulary, where its words are stated.
    unknown
        Whether a word outside of it is an ``"error"``, or is to be dropped.
    """
    for document in documents:
        if not hasattr(document, "__iter__"):
            kind = type(document).__name__
            raise ParameterError(f"a document must be a sequence of words, got {kind}")
    if words is None:
        if any(_has_text(document) for document in documents):
            raise UnboundedData(
                "vocabulary must be stated for documents of words: pass vocabulary=[…], the "
                "public list of words"
            )
        return documents
    own = [list(_split(document)) for document in documents]
    flat = [word for document in own for word in document]
    found, each = distinct_ids(flat, "documents")
    where = words.known(found)[each] if flat else np.empty(0, np.int64)
    ends = np.cumsum([len(document) for document in own])
    if unknown == "error" and (where < 0).any():
        strange = np.flatnonzero(where < 0)
        owner = np.searchsorted(ends, strange, side="right")
        places = tuple(
            ("the documents", int(n) + 1, key(flat[k])[:60])
            for n, k in zip(owner[:_KEPT], strange[:_KEPT], strict=True)
        )
        remedy = (
            f"it is not among the {words.size} words of the vocabulary, {shown(words.names or ())}"
            ": state it, pass unknown='drop' to leave such words out, or for word numbers pass "
            "vocabulary=… as the number of words"
        )
        raise BadTable([Problem("unknown word", "", places, len(strange), remedy)])
    return [part[part >= 0] for part in np.split(where, ends[:-1])]


def _is_sequence(document: Any) -> bool:
    flat = isinstance(document, np.ndarray) and document.ndim == 1
    return flat or isinstance(document, list | tuple | str)


def _has_text(document: Any) -> bool:
    if isinstance(document, np.ndarray):
        return document.dtype.kind in "UO" and document.size > 0
    return isinstance(document, str) or any(isinstance(word, str) for word in document)


def _split(document: Any) -> Sequence[Any]:
    if isinstance(document, str):
        raise ParameterError(
            "a document must be a sequence of words: pass [text.split() for text in documents]"
        )
    return document  # type: ignore[no-any-return]


def table_words(frame: Any) -> list[Any]:
    """Return the words that the columns of a table of counts are named after."""
    if not hasattr(frame, "iloc"):
        return list(labels_of(frame))
    return [name.item() if isinstance(name, np.generic) else name for name in frame.columns]


def word_counts(frame: Any, words: Members | None, unknown: str) -> NDArray[np.float64]:
    """Return a table of counts, a row for each document and a column for each word, in order.

    Columns are found by name, in any order. A table with one row for each document and word is
    refused: its columns are no words.
    """
    names = table_words(frame)
    if words is None or words.names is None:
        size = len(names) if words is None else words.size
        if [key(name) for name in names] != [str(k) for k in range(size)]:
            raise ParameterError(
                f"the columns {shown(names)} must be the words of a stated vocabulary: pass "
                "vocabulary=[…], the words; or the counts as an array. For one row per document "
                "and word pass Relation.from_frame(frame, {'document': …, 'word': …}, value)"
            )
        return numbers(frame, [key(name) for name in names])
    stated = [key(word) for word in words.names]
    alike = {*stated, *lowered(stated)}
    strange = [name for name in names if not {key(name), key(name).lower()} & alike]
    if strange and (unknown == "error" or len(strange) == len(names)):
        raise ParameterError(
            f"the columns {shown(strange)} are not in the vocabulary: state them, pass "
            "unknown='drop', or for one row per document and word "
            "Relation.from_frame(frame, {'document': …, 'word': …}, value)"
        )
    known = {key(name) for name in names} | set(lowered([key(name) for name in names]))
    lacking = [word for word in stated if not {word, word.lower()} & known]
    if lacking:
        raise ParameterError(
            f"the counts have no column for {shown(lacking)}: a word that does not occur has zeros"
        )
    return numbers(frame, stated)


def spelled_out(table: Table, numbered: bool) -> tuple[list[str], list[list[Any]]]:
    """Return documents and their words, from rows (document, word, count).

    Parameters
    ----------
    table
        Columns ``document``, ``word`` and perhaps ``count``, 1 where it is left out.
    numbered
        Whether words are numbers.
    """
    owners, words = (texts(table.column(name)).to_list() for name in ("document", "word"))
    counts = [1.0] * len(words)
    if table.has("count"):
        counts = numbers({"count": table["count"]})[:, 0].tolist()
    if any(count < 0 or count % 1 for count in counts) or sum(counts) > _LONGEST:
        raise ParameterError(f"count must be whole numbers, {_LONGEST} words in all at most")
    bags: dict[str, list[Any]] = {}
    for owner, word, count in zip(owners, words, counts, strict=True):
        if owner is None or word is None:
            raise ParameterError("every row needs a document and a word")
        if numbered and not word.isdecimal():
            raise ParameterError(f"words are numbers here, got {word!r}")
        bags.setdefault(owner, []).extend([int(word) if numbered else word] * int(count))
    return list(bags), list(bags.values())
