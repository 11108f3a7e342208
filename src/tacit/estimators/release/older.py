"""Releases of earlier schemas, read as far as they say what a release says now.

Schema 1 had a manifest with a seal behind its JSON, numbered arrays without dimensions, and
digests within the manifest.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import VerificationFailed
from tacit.estimators.release.archive import unpacked
from tacit.estimators.release.certified import certificates_of
from tacit.estimators.release.layout import LARGEST, SCHEMA, Release, described
from tacit.estimators.release.plain import parsed
from tacit.estimators.release.promise import promises
from tacit.privacy.certificate import Certificate

__all__ = ["UPGRADES", "is_first_schema", "read_first_schema"]

# Each upgrade turns the manifest of one release schema into the next one's.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
_FILES = ("arrays.npz", "certificates.json")


def is_first_schema(content: bytes) -> bool:
    """Whether a manifest ends with a seal, as the first schema's did."""
    seal = content.removesuffix(b"\n").rpartition(b"\n")[2]
    return len(seal) == 64 and all(byte in b"0123456789abcdef" for byte in seal)


def read_first_schema(target: Path, file_bytes: Callable[[Path, int], bytes]) -> Release:
    """Read a release of schema 1, verified as it was then.

    Parameters
    ----------
    target
        The folder.
    file_bytes
        Opens a file of a stranger.
    """
    content = file_bytes(target / "manifest.json", LARGEST["manifest.json"])
    body, _, seal = content.removesuffix(b"\n").rpartition(b"\n")
    if content != body + b"\n" + seal + b"\n" or (
        hashlib.sha256(body).hexdigest().encode() != seal
    ):
        raise VerificationFailed("the manifest was changed")
    manifest: dict[str, Any] = parsed("manifest.json", body)
    if manifest["schema"] != 1:
        raise VerificationFailed(f"release schema {manifest['schema']} is unknown here")
    extra = sorted({entry.name for entry in target.iterdir()} - {"manifest.json", *_FILES})
    if extra:
        raise VerificationFailed(f"{target / extra[0]} is no part of the release: take it away")
    contents = {name: file_bytes(target / name, LARGEST[name]) for name in _FILES}
    for name, data in contents.items():
        if hashlib.sha256(data).hexdigest() != manifest["sha256"].get(name):
            raise VerificationFailed(f"{target / name} was changed after the release")
    certificates = certificates_of(contents["certificates.json"])
    arrays = _numbered(contents["arrays.npz"], [str(name) for name in manifest["arrays"]])
    return Release(
        str(manifest["estimator"]), arrays, certificates, _upgraded(manifest, arrays, certificates)
    )


def _numbered(content: bytes, names: list[str]) -> dict[str, Any]:
    """Return arrays that were stored by number."""
    about = {}
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for number, name in enumerate(names):
            with archive.open(f"array_{number}.npy") as stream:
                np.lib.format.read_magic(stream)
                shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
            about[f"array_{number}"] = {"name": name, "shape": list(shape), "dtype": dtype.str}
    return unpacked(content, about)


def _upgraded(
    manifest: dict[str, Any], arrays: dict[str, Any], certificates: dict[str, Certificate]
) -> dict[str, Any]:
    """Return a manifest of schema 1 as one of today."""
    return {
        "format": "tacit release",
        "schema": SCHEMA,
        "estimator": manifest["estimator"],
        "module": "tacit",
        "date": "",
        "learned": "",
        "purpose": "",
        "contact": "",
        "settings": manifest["settings"],
        "arrays": described(arrays, {}, {}),
        "coords": {},
        "promises": [promise.as_json() for promise in promises(certificates)],
        "signers": [],
        "cites": manifest.get("cites", []),
        "versions": manifest["versions"],
    }
