"""Documents from a column of text: over its public vocabulary, each text by itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from tacit.data.documents import Documents
from tacit.data.free_text import Text
from tacit.data.problems import raise_for, trouble
from tacit.data.reading import is_table, read_rows
from tacit.data.schema import Columns
from tacit.errors import ParameterError

__all__ = ["TextColumn"]


class TextColumn:
    """The column of text of a table whose rows are documents.

    Parameters
    ----------
    columns
        What is public about the table: one of them is text, or the target is. Others are not read.

    Examples
    --------
    >>> from tacit.data.stating import text
    >>> notes = TextColumn(Columns(note=text(["fever", "cough", "blood pressure"])))
    >>> found = notes.read({"note": ["Fever; cough, FEVER", "high blood pressure", "nothing"]})
    >>> found.lengths.tolist(), notes.vocabulary
    ([3, 1, 0], ('fever', 'cough', 'blood pressure'))
    """

    def __init__(self, columns: Columns) -> None:
        texts = [name for name, kind in columns.items() if isinstance(kind, Text)]
        if columns.target in texts:
            texts = [str(columns.target)]
        if len(texts) != 1:
            raise ParameterError(
                "columns must have one column of text, tc.text(vocabulary), or name it as their "
                f"target; there are {texts or 'none'}"
            )
        if columns.averaged:
            raise ParameterError("texts have no average: pass rows_per_person, not averages")
        self.columns, self.name = columns, texts[0]

    @property
    def kind(self) -> Text:
        """What is public about the column."""
        found = self.columns[self.name]
        assert isinstance(found, Text)
        return found

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """The public words."""
        return self.kind.vocabulary

    def read(self, data: Any) -> Documents:
        """Return a holder's documents, or raise everything that is wrong with them."""
        rows = self.columns.read(data, [self.name])
        if not len(rows):
            raise ParameterError("there is no document left: at least one is needed")
        return Documents.read(self.kind.counts(rows.values[self.name]))

    def encode(self, data: Any) -> Documents | None:
        """Return the documents of rows to predict for, one each; None where there is no text.

        Data are a table with the column, or texts.
        """
        if isinstance(data, list | tuple | np.ndarray) and all(isinstance(t, str) for t in data):
            data = {self.name: list(data)}
        if not is_table(data):
            return None
        table = read_rows(data)
        column, parsed = table.column(self.name), table.parse(self.name, self.kind)
        remedy = "a text is needed to say what it is about: fill it in, or take the row out"
        raise_for(trouble(table, "missing", self.name, parsed.missing, column, remedy))
        return Documents.read(self.kind.counts(parsed.values))
