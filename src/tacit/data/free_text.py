"""Columns of free text: documents over a public vocabulary, and keys whose list is not public."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit._core.check import Integer, check
from tacit.data.kinds import Kind, Parsed
from tacit.data.values import NA_WORDS, lowered, texts
from tacit.errors import ParameterError, UnboundedData

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray
    from scipy.sparse import csr_matrix

__all__ = ["Keys", "Text"]

_TOKEN = r"(?u)\w+"
_MOST_KEYS, _LONGEST_KEY = 100_000, 1024


def _missing(found: pl.Series, words: Sequence[str]) -> NDArray[np.bool_]:
    """Return where a text is missing: null, or one of the words."""
    marks = found.str.to_lowercase().is_in(lowered(words)).fill_null(True)
    return np.asarray(marks.to_numpy(), bool)


@dataclass(frozen=True)
class Keys(Kind):
    """Texts whose list is not public: a summary names those that many people have.

    How many are named at most, and how long they are at most (in bytes of UTF-8), is public: it
    fixes the length of what a site sends.
    """

    at_most: int = 1000
    length: int = 64

    word: ClassVar[str] = "keys"
    modelled: ClassVar[bool] = False
    listed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check("at_most", self.at_most, Integer(1, _MOST_KEYS))
        check("length", self.length, Integer(1, _LONGEST_KEY))

    def parse(self, column: pl.Series, words: Sequence[str] = NA_WORDS) -> Parsed:
        """Return texts without blanks around, each as it is; those too long are outside."""
        found = texts(column)
        missing = _missing(found, words)
        long = (found.str.len_bytes() > self.length).fill_null(False).to_numpy()
        values = np.array(found.fill_null("").to_list() or [], object)
        return Parsed(values, missing, np.zeros(len(values), bool), long & ~missing)

    @property
    def remedy(self) -> str:
        """What to do about a key that is too long."""
        what = f"a key has at most {self.length} bytes"
        return f"{what}: shorten it, or pass tc.keys(length=…) or unknown="

    @property
    def remedy_outside(self) -> str:
        """The same: to be too long is the only way to be wrong."""
        return self.remedy

    @property
    def range(self) -> tuple[float, float]:
        """A key is no number."""
        raise ParameterError("keys are no numbers: list the values with tc.category(…)")

    def described(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"kind": self.word, "at_most": self.at_most, "length": self.length}


@dataclass(frozen=True)
class Text(Kind):
    """Free text, read as a document over a public vocabulary.

    Words are compared in small letters. A word of the vocabulary may have several parts, such as
    ``"blood pressure"`` or ``"x-ray"``: it is found where they follow each other.
    """

    vocabulary: tuple[str, ...]

    word: ClassVar[str] = "text"
    modelled: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.vocabulary or len(set(self._spelled)) < len(self.vocabulary):
            raise UnboundedData(
                "a vocabulary must be stated, different words: it is never read from private text"
            )
        if "" in self._spelled:
            word = self.vocabulary[self._spelled.index("")]
            raise ParameterError(f"{word!r} is no word: it has no letter or digit")

    @cached_property
    def _spelled(self) -> tuple[str, ...]:
        """The vocabulary as it is looked for: parts in small letters with blanks between them."""
        return tuple(" ".join(re.findall(_TOKEN, str(word).lower())) for word in self.vocabulary)

    def parse(self, column: pl.Series, words: Sequence[str] = NA_WORDS) -> Parsed:
        """Return how many words of the vocabulary each text holds; all else is not there."""
        found = texts(column)
        missing = _missing(found, words)
        counts = np.asarray(self.counts(found).sum(axis=1), np.float64).reshape(-1)
        nothing = np.zeros(len(counts), bool)
        return Parsed(np.where(missing, np.nan, counts), missing, nothing, nothing)

    def counts(self, column: pl.Series) -> csr_matrix:
        """Return how often each word of the vocabulary stands in each text, text by text."""
        from sklearn.feature_extraction.text import CountVectorizer

        parts = max(word.count(" ") for word in self._spelled) + 1
        reader = CountVectorizer(
            vocabulary=list(self._spelled), token_pattern=_TOKEN, ngram_range=(1, parts)
        )
        return reader.transform(texts(column).fill_null("").to_list())

    @property
    def remedy(self) -> str:
        """Any text will do."""
        return "text is needed"

    @property
    def range(self) -> tuple[float, float]:
        """There is no largest number of words."""
        return 0.0, math.inf

    def described(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {"kind": self.word, "vocabulary": list(self.vocabulary)}
