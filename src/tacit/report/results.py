"""What was learned: tables and pictures of an answer side by side, as far as there is room."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from tacit._core.answers import Answer, Table
from tacit._core.html import Html, join, tag
from tacit._core.pictures import Picture
from tacit.report.drawing import short
from tacit.report.figures import figure

__all__ = ["parts_section", "results_section"]

_ROOM = 260_000  # characters, so that the whole page stays below 500 kB
_MOST_ROWS = 100
_LONG = 12  # rows of a table that would push its picture out of sight
_WIDE, _NARROW = 58, 40  # letters in a row of a table that has a line for itself, or never


def results_section(answer: Answer) -> Html:
    """Return tables and pictures in turn, long tables last, then what the answer folds.

    Parameters
    ----------
    answer
        What an estimator learned.
    """
    parts: list[Table | Picture] = []
    for table, picture in itertools.zip_longest(answer.tables, answer.pictures.values()):
        long = table is not None and len(table) > _LONG and _letters(table) > _WIDE
        pair = (picture, table) if long else (table, picture)
        parts += [part for part in pair if part is not None]
    folded = [
        tag("details", tag("summary", short(heading, 120)), parts_section(inner, _ROOM // 8))
        for heading, inner in answer.details.items()
        if not isinstance(inner, str)  # certificates have a section of their own
    ]
    return join([parts_section(parts), *folded])


def parts_section(parts: Sequence[Table | Picture], room: int = _ROOM) -> Html:
    """Return tables and pictures as cards, until ``room`` characters are full."""
    cards: list[Html] = []
    left = list(parts)
    for card in _cards(parts):
        if sum(map(len, cards)) + len(card) > room and cards:
            break
        cards.append(card)
        left.pop(0)
    if not cards:
        return Html()
    names = [part.caption if isinstance(part, Table) else part.title for part in left]
    more = f"Not shown for want of room: {', '.join(short(n, 60) for n in names[:20])}"
    more += f" and {len(names) - 20:,} more." if len(names) > 20 else "."
    rest = [tag("p", more + " The release has all numbers.", class_="soft")] if left else []
    return join([tag("div", *cards, class_="grid"), *rest])


def _cards(parts: Sequence[Table | Picture]) -> Iterator[Html]:
    for part in parts:
        if isinstance(part, Table):
            letters = _letters(part)
            kind = "wide broad" if letters > _WIDE else "broad"  # on a screen, and on paper
            small = letters <= _NARROW and len(part) <= _LONG
            told = part.html(_MOST_ROWS, "the release has them all")
            yield tag("div", told, class_=None if small else kind)
        else:
            yield tag("div", figure(part))


def _letters(table: Table) -> int:
    """Return about how many letters wide a table is."""
    rows = [[str(heading) for heading in table.columns], *table.cells[:_MOST_ROWS]]
    return sum(2 + min(40, max(map(len, column))) for column in zip(*rows, strict=True))
