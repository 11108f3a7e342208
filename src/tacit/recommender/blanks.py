"""What a file of `tacit new` leaves blank besides columns, in this family."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.estimators.blanks import Blank

__all__ = ["TO_STATE"]

TO_STATE: Mapping[str, Blank] = {
    ".value": Blank("the column of ratings"),
    "parameters.bounds": Blank("the lowest and the highest rating there can be", '["…", "…"]'),
    "parameters.items": Blank("the public list of items, or how many there are", '["…"]'),
    "parameters.item_weights": Blank(
        "how sensitive ratings of each item are, in (0, 1], in the order of items",
        '["…"]',
        needed=False,
    ),
    "parameters.options": Blank(
        "settings of the method; of 'groups': levels, a name and the group of every item each",
        "{}",
        needed=False,
    ),
    "columns.user": Blank("the column that names the person"),
    "columns.item": Blank("the column that names the item"),
}
