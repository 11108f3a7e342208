"""A site's own side as a file: its raw cells and what it keeps, for whoever holds them.

The first line is JSON; what follows is an archive of arrays, stored as they are (``unzip`` and
``numpy`` read it). The line names the release that the side belongs to, by a digest of everything
that was released, and has the digest of the archive. The file is private, says so, and only its
owner may read it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tacit.data.relations import Relation
from tacit.data.written import read_names, written_names
from tacit.errors import ParameterError, TacitError, VerificationFailed
from tacit.estimators.release.archive import packed, unpacked
from tacit.estimators.release.layout import LARGEST, described
from tacit.estimators.release.plain import plain
from tacit.estimators.release.read import MALFORMED, file_bytes
from tacit.factorization.arrays import Arrays

__all__ = ["OwnSide", "read_side", "release_digest", "write_side"]

_FORMAT = "tacit: a site's own side, PRIVATE, not for release"
_VERSION = 1
_PARTS = ("indices", "values", "held_out")  # of a relation


class OwnSide(NamedTuple):
    """What a site keeps: its name, its relations, and what does not follow from them."""

    site: str
    relations: dict[str, Relation]
    own: Arrays


def release_digest(settings: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
    """Return a digest of what was released, the same for the fit and for its release.

    >>> release_digest({"rank": 2}, {"item": np.ones(2)})[:8]
    '93e1e354'
    """
    whole = hashlib.sha256(json.dumps(plain("settings", settings), sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        whole.update(json.dumps([name, array.dtype.str, array.shape]).encode())
        whole.update(array.tobytes())
    return whole.hexdigest()


def write_side(
    path: str | os.PathLike[str], side: OwnSide, release: str, replace: bool = False
) -> Path:
    """Write a site's side to a file that only its owner may read.

    Parameters
    ----------
    path
        Where to.
    side
        What the site keeps.
    release
        The digest of what was released.
    replace
        Whether a file of that name is written over.
    """
    target = Path(path)
    arrays: dict[str, Any] = {f"own/{name}": array for name, array in side.own.items()}
    about = {}
    for name, found in side.relations.items():
        arrays |= {f"relation/{name}/{part}": getattr(found, part) for part in _PARTS}
        about[name] = {
            "entities": found.entities,
            "shape": found.shape,
            "zeros": found.zeros,
            "labels": {e: written_names(names) for e, names in found.labels.items()},
            "columns": {e: str(column) for e, column in found.columns.items()},
            "unstated": sorted(found.unstated),
            "duplicates": found.duplicates,
        }
    content = packed(arrays)
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "site": side.site,
        "release": release,
        "sha256": hashlib.sha256(content).hexdigest(),
        "relations": about,
        "arrays": described(arrays, {}, {}),
    }
    flags = (
        os.O_WRONLY
        | os.O_CREAT
        | getattr(os, "O_NOFOLLOW", 0)
        | (os.O_TRUNC if replace else os.O_EXCL)
    )
    try:
        number = os.open(target, flags, 0o600)
    except FileExistsError:
        raise ParameterError(f"{target} exists: pass another name, or replace=True") from None
    with open(number, "wb") as file:
        os.fchmod(number, 0o600)
        file.write(json.dumps(header).encode() + b"\n" + content)
    return target


def read_side(path: str | os.PathLike[str], release: str) -> OwnSide:
    """Read a site's side, every byte verified, and that it belongs to a release.

    Parameters
    ----------
    path
        Where `write_side` wrote it.
    release
        The digest of what was released.
    """
    try:
        return _read(file_bytes(Path(path), LARGEST["arrays.npz"]), release)
    except VerificationFailed as error:
        raise VerificationFailed(f"{path}: {error}") from None
    except (*MALFORMED, TacitError) as error:
        raise VerificationFailed(f"{path} is no side of a site: {error}") from None


def _read(content: bytes, release: str) -> OwnSide:
    line, _, archive = content.partition(b"\n")
    header = json.loads(line)
    if header["format"] != _FORMAT or header["version"] != _VERSION:
        raise ValueError("another format")
    if header["sha256"] != hashlib.sha256(archive).hexdigest():
        raise VerificationFailed("it was changed after it was written")
    if header["release"] != release:
        raise VerificationFailed(
            "it belongs to another release: read that one back, or adopt the site with its data"
        )
    arrays = unpacked(archive, header["arrays"])
    relations = {}
    for name, said in header["relations"].items():
        indices, values, held_out = (arrays[f"relation/{name}/{part}"] for part in _PARTS)
        found = Relation.from_cells(
            said["entities"],
            indices,
            values,
            shape=said["shape"],
            zeros=said["zeros"],
            held_out=held_out if held_out.size else None,
            labels={e: read_names(names) for e, names in said["labels"].items()},
        )
        relations[name] = _with_history(found, said)
    own = {n.removeprefix("own/"): a for n, a in arrays.items() if n.startswith("own/")}
    return OwnSide(str(header["site"]), relations, own)


def _with_history(found: Relation, said: Mapping[str, Any]) -> Relation:
    """Return a relation that knows how it was made."""
    return dataclasses.replace(
        found,
        columns=dict(said["columns"]),
        unstated=frozenset(said["unstated"]),
        duplicates=said["duplicates"],
    )
