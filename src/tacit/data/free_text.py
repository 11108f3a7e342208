"""Columns of free text: documents over a public vocabulary, and keys whose list is not public."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar
from unicodedata import normalize

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


def _read(column: pl.Series, words: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return texts without blanks around, and where there is none: null, or one of the words.

    Letters that can be written in two ways are written in one.
    """
    found = texts(column)
    marks = found.str.to_lowercase().is_in(lowered(words)).fill_null(True)
    values = np.empty(len(found), object)
    values[:] = found.fill_null("").to_list()
    return values, np.asarray(marks.to_numpy(), bool)


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
        found, missing = _read(column, words)
        long = np.array([len(text.encode()) > self.length for text in found], bool)
        return Parsed(found, missing, np.zeros(len(found), bool), long & ~missing)

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
        return tuple(
            " ".join(re.findall(_TOKEN, normalize("NFC", str(word)).lower()))
            for word in self.vocabulary
        )

    def parse(self, column: pl.Series, words: Sequence[str] = NA_WORDS) -> Parsed:
        """Return texts as they are; `counts` says which words they hold."""
        found, missing = _read(column, words)
        nothing = np.zeros(len(found), bool)
        return Parsed(found, missing, nothing, nothing)

    def counts(self, documents: Sequence[str] | NDArray[Any]) -> csr_matrix:
        """Return how often each word of the vocabulary stands in each text, text by text."""
        from sklearn.feature_extraction.text import CountVectorizer

        parts = max(word.count(" ") for word in self._spelled) + 1
        reader = CountVectorizer(
            vocabulary=list(self._spelled), token_pattern=_TOKEN, ngram_range=(1, parts)
        )
        return reader.transform(list(documents))

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
