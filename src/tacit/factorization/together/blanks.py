"""What a file of `tacit new` leaves blank besides columns, in this family."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.estimators.blanks import Blank

__all__ = ["TO_STATE"]

TO_STATE: Mapping[str, Blank] = {
    ".value": Blank("the column of values"),
    "parameters.model": Blank(
        "who or what a cell is about; :k is the pattern that they share", '"person:k item:k"'
    ),
    "parameters.bounds": Blank("the lowest and the highest value there can be", '["…", "…"]'),
    "parameters.options": Blank(
        "settings of the method, such as rounds", '{rounds = "…"}', needed=False
    ),
    "columns.person": Blank("the column that names the person, who is protected"),
    "columns.item": Blank("the column that names the item"),
    "labels.item": Blank(
        "the public list of items, the same at every site; or a text file, a line for each",
        '["…"]',
    ),
}
