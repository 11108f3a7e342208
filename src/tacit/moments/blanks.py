"""What a file of `tacit new` leaves blank besides columns, in this family."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.estimators.blanks import Blank

__all__ = ["TO_STATE"]

TO_STATE: Mapping[str, Blank] = {
    ".value": Blank("the column that counts how often a word occurs in a document"),
    "parameters.vocabulary": Blank("the public list of words", '["…"]'),
    "columns.document": Blank("the column that names the document"),
    "columns.word": Blank("the column of words"),
}
