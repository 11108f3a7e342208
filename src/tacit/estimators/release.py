"""The release bundle: arrays, certificates and a manifest of hashes; opens without running code.

release/
  manifest.json       schema, estimator, settings, versions, SHA-256 of every file
  certificates.json   one certificate per site
  arrays.npz          named arrays, never pickled
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._version import __version__
from tacit.errors import NotCertified, VerificationFailed
from tacit.privacy.certificate import Certificate

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Release", "read_release", "write_release"]

SCHEMA = 1
# Each upgrade turns the manifest of one release schema into the next one's.
UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
_FILES = ("arrays.npz", "certificates.json")


@dataclass(frozen=True)
class Release:
    """A release that was read and verified."""

    estimator: str
    arrays: Mapping[str, NDArray[Any]]
    certificates: Mapping[str, Certificate]
    manifest: Mapping[str, Any]

    @property
    def cites(self) -> tuple[str, ...]:
        """Keys of what the method builds on, where the release says so."""
        return tuple(str(key) for key in self.manifest.get("cites", ()))


def write_release(
    folder: str | os.PathLike[str],
    estimator: str,
    arrays: Mapping[str, Any],
    certificates: Mapping[str, Certificate],
    settings: Mapping[str, Any],
    cites: Sequence[str] = (),
) -> Path:
    """Write a release; refused where there is no guarantee or the noise was seeded.

    Parameters
    ----------
    folder
        Where to; created if need be, and must not hold another release.
    estimator, arrays, certificates, settings
        What was fitted, what it released, under which guarantee and with which parameters.
    cites
        Keys of what the method builds on (`tacit.report.citations`).
    """
    if not certificates:
        raise NotCertified("there is no certificate: nothing is written")
    for site, certificate in certificates.items():
        if not certificate.is_private:
            raise NotCertified(f"what {site!r} gave has no finite guarantee: nothing is written")
        if any(note.startswith("seeded noise") for note in certificate.assumptions):
            raise NotCertified(f"the noise of {site!r} was seeded: not for release")
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    if (target / "manifest.json").exists():
        raise NotCertified(f"{target} holds a release already: choose another folder")
    buffer = io.BytesIO()
    numbered: dict[str, Any] = {f"array_{k}": np.asarray(v) for k, v in enumerate(arrays.values())}
    try:
        np.savez(buffer, allow_pickle=False, **numbered)
    except ValueError:
        raise NotCertified("an array of objects cannot be released: only numbers") from None
    texts = {site: json.loads(c.to_json()) for site, c in certificates.items()}
    contents = {
        "arrays.npz": buffer.getvalue(),
        "certificates.json": json.dumps(texts, ensure_ascii=False, indent=1).encode(),
    }
    manifest = {
        "schema": SCHEMA,
        "estimator": estimator,
        "settings": dict(settings),
        "arrays": list(arrays),
        "cites": list(cites),
        "versions": {
            "tacit": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "sha256": {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()},
    }
    for name, data in contents.items():
        (target / name).write_bytes(data)
    body = json.dumps(manifest, ensure_ascii=False, indent=1, sort_keys=True)
    seal = hashlib.sha256(body.encode()).hexdigest()
    (target / "manifest.json").write_bytes(f"{body}\n{seal}\n".encode())
    return target


def read_release(folder: str | os.PathLike[str]) -> Release:
    """Read a release and verify every byte and every certificate of it.

    Raises
    ------
    VerificationFailed
        If a file is missing or changed, or a certificate does not follow from its events.
    """
    target = Path(folder)
    try:
        return _read(target)
    except (
        OSError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        EOFError,
        RecursionError,
        zipfile.BadZipFile,
    ) as error:
        raise VerificationFailed(f"{target} is not a whole release: {error}") from None


def _read(target: Path) -> Release:
    """Read and verify; whatever is malformed raises something."""
    manifest = _manifest((target / "manifest.json").read_bytes(), target)
    extra = sorted({entry.name for entry in target.iterdir()} - {"manifest.json", *_FILES})
    if extra:
        raise VerificationFailed(f"{target / extra[0]} is no part of the release: take it away")
    contents = {name: (target / name).read_bytes() for name in _FILES}
    for name, data in contents.items():
        if hashlib.sha256(data).hexdigest() != manifest["sha256"].get(name):
            raise VerificationFailed(f"{target / name} was changed after the release")
    certificates = {
        site: Certificate.from_json(json.dumps(text, ensure_ascii=False)).verify()
        for site, text in json.loads(contents["certificates.json"]).items()
    }
    if not certificates:
        raise VerificationFailed(f"{target} has no certificate")
    with np.load(io.BytesIO(contents["arrays.npz"]), allow_pickle=False) as archive:
        if len(archive.files) != len(manifest["arrays"]):
            raise VerificationFailed(f"{target} does not hold the arrays it names")
        arrays = {name: archive[f"array_{k}"] for k, name in enumerate(manifest["arrays"])}
    return Release(str(manifest["estimator"]), arrays, certificates, manifest)


def _manifest(content: bytes, target: Path) -> dict[str, Any]:
    """Return the manifest, checked against its seal and brought to the current schema."""
    body, _, seal = content.removesuffix(b"\n").rpartition(b"\n")
    if content != body + b"\n" + seal + b"\n" or (
        hashlib.sha256(body).hexdigest().encode() != seal
    ):
        raise VerificationFailed(f"{target}: the manifest was changed")
    manifest: dict[str, Any] = json.loads(body)
    schema = int(manifest["schema"])
    while schema in UPGRADES and schema < SCHEMA:
        manifest = UPGRADES[schema](manifest)
        schema = int(manifest["schema"])
    if schema != SCHEMA:
        raise VerificationFailed(f"release schema {schema} is unknown here: update tacit")
    return manifest
