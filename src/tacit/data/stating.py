"""How people state what a column holds: `number`, `category`, `date` …, or plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.data.free_text import Keys, Text
from tacit.data.kinds import Boolean, Category, Date, Kind, Number
from tacit.data.values import is_real, moment, writable
from tacit.errors import ParameterError, UnboundedData

__all__ = ["boolean", "category", "date", "keys", "kind_of", "number", "text", "time"]


def number(low: float, high: float, unit: str = "", step: float = 0.0) -> Number:
    """Return the kind of a column of numbers in a public range.

    Parameters
    ----------
    low, high
        The range.
    unit
        In which they are measured.
    step
        How far apart neighbouring values are, counted from ``low``: 1 of whole numbers. Between
        them there is no quantile.

    Examples
    --------
    >>> number(20, 90, "years").range
    (20.0, 90.0)
    """
    return Number(low, high, unit, step)


def category(*levels: Any) -> Category:
    """Return the kind of a column that holds one of some public values.

    Examples
    --------
    >>> category("f", "m", "x").encoded("sex")
    ['sex=m', 'sex=x']
    """
    if len(levels) == 1 and isinstance(levels[0], list | tuple):
        levels = tuple(levels[0])
    return Category(tuple(levels))


def boolean(true: Any = (), false: Any = ()) -> Boolean:
    """Return the kind of a column of true and false.

    Parameters
    ----------
    true, false
        The word, or words, that stand for each in text, in any case; left out, true and false, yes
        and no, 1 and 0, and their first letters.

    Examples
    --------
    >>> boolean("ja", "nein").described()
    {'kind': 'boolean', 'true': ['ja'], 'false': ['nein']}
    """
    if not true and not false:
        return Boolean()
    return Boolean(
        *((words,) if isinstance(words, str) else tuple(words) for words in (true, false))
    )


def date(low: Any, high: Any, formats: str | Sequence[str] = ()) -> Date:
    """Return the kind of a column of dates in a public range.

    Examples
    --------
    >>> date("2020-01-01", "2026-12-31").show(19000)
    '2022-01-08'
    """
    forms = (formats,) if isinstance(formats, str) else tuple(formats)
    return Date(moment(low), moment(high), forms)


def time(low: Any, high: Any, formats: str | Sequence[str] = ()) -> Date:
    """Return the kind of a column of dates with times in a public range."""
    forms = (formats,) if isinstance(formats, str) else tuple(formats)
    return Date(moment(low), moment(high), forms, timed=True)


def text(vocabulary: Sequence[str]) -> Text:
    """Return the kind of a column of text, over a public vocabulary."""
    return Text(tuple(vocabulary))


def keys(at_most: int = 1000, length: int = 64) -> Keys:
    """Return the kind of a column whose list of values is not public; for summaries.

    The values that many people have are named, with noisy counts: which ones depends on the data
    through a mechanism only, and costs a part of ε and of δ. Where the list is public, `category`
    is better.

    Parameters
    ----------
    at_most
        How many are named at most; of more, those with the largest noisy counts.
    length
        Bytes of the longest value (in UTF-8); a longer one is an error to the holder, unless
        ``Columns(unknown=…)`` says what becomes of it.

    Examples
    --------
    >>> keys(at_most=500).described()
    {'kind': 'keys', 'at_most': 500, 'length': 64}
    """
    return Keys(at_most, length)


def kind_of(name: str, stated: Any) -> Kind:
    """Return the kind that somebody stated: one of the above, a pair, a list, or plain data.

    Examples
    --------
    >>> kind_of("age", (20, 90)).word, kind_of("sex", ["f", "m"]).word
    ('number', 'category')
    """
    writable(name)
    if isinstance(stated, Kind):
        return stated
    if stated is None:
        raise UnboundedData(f"columns[{name!r}] must be given: its public range, or its values")
    try:
        return _kind(name, stated)
    except (ParameterError, UnboundedData) as error:
        raise type(error)(f"columns[{name!r}] must be stated in full: {error}") from None


def _kind(name: str, stated: Any) -> Kind:
    if isinstance(stated, tuple) and len(stated) == 2:
        return number(*stated)
    if isinstance(stated, list):
        both = len(stated) == 2 and all(is_real(value) for value in stated)
        return number(*stated) if both else category(*stated)
    if isinstance(stated, Mapping):
        return _from_mapping(name, dict(stated))
    raise ParameterError(
        f"it is a kind such as tc.number(low, high), a pair or a list of "
        f"values, got {type(stated).__name__}"
    )


_MAKERS: dict[str, tuple[Any, tuple[str, ...], tuple[str, ...]]] = {
    "number": (number, ("low", "high"), ("unit", "step")),
    "category": (category, ("levels",), ()),
    "boolean": (boolean, (), ("true", "false")),
    "date": (date, ("low", "high"), ("formats",)),
    "time": (time, ("low", "high"), ("formats",)),
    "text": (text, ("vocabulary",), ()),
    "keys": (keys, (), ("at_most", "length")),
}


def _from_mapping(name: str, stated: dict[str, Any]) -> Kind:
    word = stated.pop("kind", "number")
    if word not in _MAKERS:
        raise ParameterError(f"there is no kind {word!r} among {sorted(_MAKERS)}")
    maker, needed, further = _MAKERS[word]
    missing = [key for key in needed if key not in stated]
    if missing:
        raise UnboundedData(
            f"{name!r} needs {' and '.join(missing)}: what is public about it is stated, "
            "never read from the data"
        )
    extra = sorted(set(stated) - {*needed, *further})
    if extra:
        raise ParameterError(f"{extra} is nothing that a {word} knows")
    levels = stated.pop("levels", ())
    found: Kind = maker(*levels, **stated)
    return found
