"""Folders that results go to, tried before anything is computed or paid for."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tacit.errors import ParameterError

__all__ = ["check_writable"]


def check_writable(folder: str | os.PathLike[str], what: str, mode: int = 0o777) -> Path:
    """Make a folder unless it exists, and raise where nothing can be written to it.

    Parameters
    ----------
    folder
        Where something will be written.
    what
        What the folder is for, in a few words.
    mode
        Of the folder, where it is made.

    Examples
    --------
    >>> check_writable("/proc/nobody", "the release")
    Traceback (most recent call last):
    tacit.errors.ParameterError: the release cannot be written to /proc/nobody (No such file or
    directory): choose a folder that may be written. Nothing was charged
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True, mode=mode)
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(b"\0" * 4096)  # a full disk may still have room for a name
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise ParameterError(
            f"{what} cannot be written to {place} ({error.strerror}): choose a folder that may be "
            "written. Nothing was charged"
        ) from None
    return place
