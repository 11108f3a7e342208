"""Requests that a family over rows can answer: for rows or people, of a curator or of sites."""

from __future__ import annotations

from collections.abc import Sequence

from tacit.data.schema import Columns
from tacit.errors import ParameterError
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy

__all__ = ["check_dropping", "check_row_privacy"]


def check_dropping(privacy: Privacy | None, columns: Columns | None) -> None:
    """Raise where rows would be left out although their number is public (PRIVACY A13)."""
    replaced = privacy is not None and privacy.neighbours == REPLACE
    if replaced and columns is not None and columns.drops:
        raise ParameterError(
            "under replace-one the number of rows is public, so none may be left out for what "
            "it holds: pass missing='impute', or Privacy(…, neighbours='add-remove-one')"
        )


def check_row_privacy(
    privacy: Privacy | None,
    columns: Columns | None,
    unit: str,
    what: str,
    trusts: Sequence[str] = ("central", "site"),
) -> None:
    """Raise unless a request is one for rows or people, held by those who can give it.

    Parameters
    ----------
    privacy, columns
        The request, and what is public about the table.
    unit
        The only unit that makes sense: a row, or a user where columns name the person.
    what
        What is fitted, for errors.
    trusts
        Those that it can give.
    """
    if privacy is not None and privacy.unit != unit:
        hint = ": name the person in columns" if privacy.unit == "user" else ""
        raise ParameterError(
            f"privacy.unit must be {unit!r} for {what}, got {privacy.unit!r}{hint}"
        )
    check_dropping(privacy, columns)
    if privacy is not None and privacy.trust not in trusts:
        known = " or ".join(map(repr, trusts))
        raise ParameterError(f"privacy.trust must be {known}, got {privacy.trust!r}")
