"""What a site's holder sees while it takes part: who asks, what it cost, what was refused.

Between runs it is quiet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.privacy.guarantee import shown, shown_left

__all__ = ["line_about"]


def line_about(what: str, told: Mapping[str, Any]) -> str:
    """Return one line about what happened; `tacit.federation.service` tells it.

    >>> line_about("refused", {"call": "open", "why": "ε = 2 is more than 1"})
    'refused to open: ε = 2 is more than 1'
    """
    if what == "opened":
        kind = "a rehearsal of " if told["rehearsal"] else ""
        others = ", ".join(told["with"]) or "nobody else"
        return (
            f"{told['for']} opened {kind}{told['computation']} with {others}, "
            f"ε = {shown(told['epsilon'])} (run {told['run'][:8]})"
        )
    if what == "began":
        return f"data read, run reserved: ε = {shown_left(told['epsilon left'], 4)} left"
    if what == "answered":
        return f"request {told['round']} of at most {told['of']} answered"
    if what == "closed":
        return f"run {told['run'][:8]} is over; its certificate has gone out"
    return f"refused to {told['call']}: {told['why']}"
