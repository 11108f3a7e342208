"""The folder of a demonstration: what is no demonstration's stays as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

from tacit.errors import ParameterError

__all__ = ["PURPOSE", "make_room"]

PURPOSE = "to show what tacit does, on simulated data"  # of every demonstration's release


def make_room(folder: Path, ledger: str, fresh: bool) -> None:
    """Make the folder of a demonstration.

    Parameters
    ----------
    folder
        Where the result goes.
    ledger
        A file by which an earlier run of the same demonstration is known.
    fresh
        Whether the result of such a run is removed first.
    """
    ours = (folder / ledger).exists()
    if folder.exists() and not ours and (not folder.is_dir() or any(folder.iterdir())):
        raise ParameterError(
            f"{folder} holds something else than this demonstration: choose another --folder"
        )
    if fresh and ours:
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
