"""What went wrong, and where, for whoever holds the data and for nobody else (PRIVACY A11).

An error of another library may hold what a cell held. It is shown where the data are: to the
caller of a fit on one holder's data, and in a site's own log. A record of a run and a message to
others hold its kind at most.
"""

from __future__ import annotations

import traceback
from pathlib import Path

from tacit.errors import NothingReleased, TacitError

__all__ = ["told_to_holder"]

_HOME = Path(__file__).resolve().parent.parent
_LONGEST = 2000  # letters of a reason


def told_to_holder(error: BaseException) -> str:
    """Return what an error says, with its kind and the place in tacit where it was raised.

    Examples
    --------
    >>> told_to_holder(TypeError("12 mg is no number"))
    'TypeError: 12 mg is no number'
    """
    text = str(error)[:_LONGEST]
    if isinstance(error, NothingReleased):
        return f"{text} (for the holder alone: {error.reason})" if error.reason else text
    if isinstance(error, TacitError):
        return text
    kind, where = type(error).__name__, _where(error)
    said = f"{kind}: {text}" if text else kind
    return f"{said} ({where})" if where else said


def _where(error: BaseException) -> str:
    """Return the innermost place in tacit that an error came through."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_relative_to(_HOME):
            return f"{file.relative_to(_HOME).as_posix()}, line {frame.lineno}, {frame.name}"
    return ""
