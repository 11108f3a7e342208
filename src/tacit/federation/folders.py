"""Folders and files for their owner only, whatever the umask; nothing is overwritten by chance."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from tacit.errors import ParameterError

__all__ = ["make_folder", "read_small", "replace_file", "write_new"]

_LARGEST = 1 << 24  # bytes of any file that institutions send each other


def make_folder(path: Path) -> Path:
    """Make a folder, and those above it, that only its owner can enter."""
    if not path.parent.exists():
        make_folder(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(0o700)
    return path


def write_new(path: Path, content: bytes | str) -> Path:
    """Write a file that does not exist yet, for its owner only."""
    make_folder(path.parent)
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise ParameterError(f"{path} exists already: it is not overwritten") from None
    with open(number, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
        file.flush()
        os.fsync(file.fileno())
    return path


def replace_file(path: Path, content: bytes | str) -> Path:
    """Write a file, or put it in the place of an older one, in one step."""
    draft = path.with_name(path.name + ".new")
    draft.unlink(missing_ok=True)
    os.replace(write_new(draft, content), path)
    return path


def read_small(path: Path) -> bytes:
    """Return a file that others sent, unless it is absurdly long."""
    try:
        with open(path, "rb") as file:
            found = file.read(_LARGEST + 1)
    except OSError as error:
        raise ParameterError(f"{path} cannot be read: {error.strerror}") from None
    if len(found) > _LARGEST:
        raise ParameterError(f"{path} is longer than {_LARGEST} bytes")
    return found
