"""Whether another Unix user could read a file, by owners and modes along its path."""

from __future__ import annotations

import os
import pwd
import stat
from pathlib import Path

__all__ = ["may_read"]


def may_read(user: int, path: Path) -> bool:
    """Return whether a user can reach and read a path; False where there is none.

    Access control lists are not looked at.
    """
    try:
        entry = pwd.getpwuid(user)
        groups = set(os.getgrouplist(entry.pw_name, entry.pw_gid))
    except KeyError:
        groups = set()
    whole = path.resolve()
    try:
        return all(_has(user, groups, place, 0o1) for place in whole.parents) and _has(
            user, groups, whole, 0o4
        )
    except OSError:
        return False


def _has(user: int, groups: set[int], place: Path, right: int) -> bool:
    info = place.stat()
    mode = stat.S_IMODE(info.st_mode)
    if info.st_uid == user:
        return bool(mode >> 6 & right)
    if info.st_gid in groups:
        return bool(mode >> 3 & right)
    return bool(mode & right)
