"""HTML that cannot be injected into: whatever is not built here is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any

__all__ = ["Html", "join", "table", "tag"]

_WORD = 24  # letters of a word that may be broken, so that a table does not grow with it
_VOID = {"meta", "br", "line", "rect", "path", "circle", "polyline"}


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(element: str, /, *children: object, **attributes: Any) -> Html:
    """Return an element; children that are not `Html` are escaped.

    Attribute names lose a trailing underscore, and inner ones become hyphens.

    >>> tag("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    words = [element]
    for name, value in attributes.items():
        if value is not None:
            key = name.rstrip("_").replace("_", "-")
            words.append(f'{key}="{html.escape(str(value))}"')
    if element in _VOID:
        return Html(f"<{' '.join(words)}/>")
    return Html(f"<{' '.join(words)}>{join(children)}</{element}>")


def join(children: Iterable[object], between: str = "") -> Html:
    """Return children in a row, escaped where they are not markup."""
    return Html(
        between.join(c if isinstance(c, Html) else html.escape(str(c), False) for c in children)
    )


def table(
    caption: str,
    headings: Sequence[object],
    rows: Iterable[Sequence[object]],
    numbers: int | Sequence[bool] = 0,
) -> Html:
    """Return a table whose first cells are row headings, in a box that scrolls on a phone.

    ``numbers`` is which columns hold numbers, or how many of the last; they are set to the right.
    """
    if isinstance(numbers, int):
        numbers = [k >= len(headings) - numbers for k in range(len(headings))]
    right = list(numbers)

    def kind(k: int, cell: object) -> str | None:
        if right[k]:
            return "number"
        return "long" if any(len(word) > _WORD for word in str(cell).split()) else None

    head = tag(
        "tr", *(tag("th", h, scope="col", class_=kind(k, h)) for k, h in enumerate(headings))
    )
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row", class_=kind(0, row[0])),
            *(tag("td", cell, class_=kind(k, cell)) for k, cell in enumerate(row) if k),
        )
        for row in rows
    ]
    inner = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    return tag(
        "div", inner, class_="scroll", tabindex=0, role="region", aria_label=f"Table: {caption}"
    )
