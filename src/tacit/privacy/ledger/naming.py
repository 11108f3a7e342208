"""A data set names its ledger once: the same people must not be charged to two budgets.

A small file beside the data remembers which ledger pays for it. A run with another ledger is
refused, unless the holder names the one that it replaces; then both ledgers say so in a row of
their own. A copy of the data in another place is not recognised: that is the holder's to know.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tacit.errors import LedgerError
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["name_ledger"]

_SHORTEST = 8  # characters of an id that name a ledger


def name_ledger(place: Path, file: Path, ledger: Ledger, instead_of: str | None = None) -> None:
    """Note that a data set is charged to a ledger, or refuse another one.

    Parameters
    ----------
    place
        The small file beside the data.
    file, ledger
        The ledger, and where it lies.
    instead_of
        The id of the ledger that paid before, at least its first eight characters, to take over
        the data set from it.
    """
    here = str(file.resolve())
    try:
        known = json.loads(place.read_text(encoding="utf-8"))
        before, where = str(known["ledger"]), Path(str(known["file"]))
    except FileNotFoundError:
        _write(place, ledger.id, here)
        return
    except (OSError, ValueError, KeyError, TypeError):
        raise LedgerError(f"{place} does not say which ledger pays for the data") from None
    if before == ledger.id:
        return
    told = instead_of or ""
    if len(told) < _SHORTEST or not before.startswith(told):
        raise LedgerError(
            f"the data are charged to ledger {before[:8]} ({where}), not to {ledger.id[:8]}: the "
            "same people would have two budgets. Use that one, or name it as the one that is "
            f"replaced: instead_of = {before[:8]!r}. Nothing was released"
        )
    old = Ledger.open(where)
    if old.id != before:
        raise LedgerError(f"{where} is not ledger {before[:8]}, which the data name")
    old.note(f"data that were charged here are charged to ledger {ledger.id} from now on")
    ledger.note(f"takes over data that were charged to ledger {before}: add what was spent there")
    _write(place, ledger.id, here)


def _write(place: Path, ledger: str, file: str) -> None:
    draft = place.with_name(place.name + ".new")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        draft.write_text(json.dumps({"ledger": ledger, "file": file}) + "\n", encoding="utf-8")
        os.replace(draft, place)
    except OSError as error:
        raise LedgerError(
            f"{place} cannot be written ({error.strerror}): the data must name their ledger. "
            "Nothing was released"
        ) from None
