"""Reading a release: every byte, every certificate, every table checked, or nothing is read."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.data.written import read_names
from tacit.errors import TacitError, VerificationFailed
from tacit.estimators.release.archive import unpacked
from tacit.estimators.release.certified import certificates_of
from tacit.estimators.release.layout import (
    LARGEST,
    SCHEMA,
    TABLE_BYTES,
    Release,
    described,
    is_kept_name,
    sums_of,
    tables_of,
)
from tacit.estimators.release.older import UPGRADES, is_first_schema, read_first_schema
from tacit.estimators.release.plain import check_text, parsed
from tacit.estimators.release.promise import promises
from tacit.estimators.release.signature import check_signatures

__all__ = ["MALFORMED", "file_bytes", "read_release"]

_NEEDED = set(LARGEST) - {"SHA256SUMS.sig"}
_TEXTS = ("estimator", "module", "date", "learned", "purpose", "contact")
_FIELDS = {
    *_TEXTS,
    "format",
    "schema",
    "settings",
    "arrays",
    "coords",
    "promises",
    "signers",
    "cites",
    "versions",
}
# what readers of JSON, archives and arrays raise about nonsense
MALFORMED = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    EOFError,
    MemoryError,
    RuntimeError,
    struct.error,
    zipfile.BadZipFile,
)


def read_release(folder: str | os.PathLike[str]) -> Release:
    """Read a release and verify every byte and every certificate of it.

    Parameters
    ----------
    folder
        Where `release` wrote it.

    Raises
    ------
    VerificationFailed
        If a file is missing, changed or added, a table does not say what the arrays say, or a
        certificate does not follow from its events.
    """
    target = Path(folder)
    try:
        return _read(target)
    except VerificationFailed as error:
        text = str(error)
        named = text if str(target) in text else f"{target}: {text}"
        raise VerificationFailed(named) from None
    except (*MALFORMED, TacitError) as error:
        raise VerificationFailed(f"{target} is not a whole release: {error}") from None


def _read(target: Path) -> Release:
    """Read and verify; whatever is malformed raises something."""
    if is_first_schema(file_bytes(target / "manifest.json", LARGEST["manifest.json"])):
        return read_first_schema(target, file_bytes)
    files = _files(target)
    signature, sums = files.pop("SHA256SUMS.sig", None), files.pop("SHA256SUMS")
    _check_sums(target, files, sums)
    manifest = _manifest(files["manifest.json"])
    certificates = certificates_of(files["certificates.json"])
    stated = [promise.as_json() for promise in promises(certificates)]
    if manifest["promises"] != stated:
        raise VerificationFailed("the promises are not what the certificates give together")
    arrays = unpacked(files["arrays.npz"], manifest["arrays"])
    dims = {said["name"]: said["dims"] for said in manifest["arrays"].values()}
    coords = {dim: read_names(names) for dim, names in manifest["coords"].items()}
    if manifest["arrays"] != described(arrays, dims, coords):
        raise VerificationFailed("the manifest does not describe the arrays")
    tables = {f"tables/{name}": data for name, data in tables_of(arrays, dims, coords).items()}
    if tables != {name: data for name, data in files.items() if name.startswith("tables/")}:
        raise VerificationFailed("the tables do not say what the arrays say")
    signers = check_signatures(manifest["signers"], signature, sums, certificates)
    return Release(str(manifest["estimator"]), arrays, certificates, manifest, signers)


def file_bytes(path: Path, most: int) -> bytes:
    """Return a file's bytes; links, devices and what is too large are not opened.

    Parameters
    ----------
    path
        The file.
    most
        How many bytes it may have.
    """
    number = os.open(
        path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    )
    with open(number, "rb") as file:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            raise VerificationFailed(f"{path} is no plain file")
        if about.st_size > most:
            raise VerificationFailed(f"{path} has {about.st_size} bytes, more than {most}")
        content = file.read(most + 1)
    if len(content) > most:
        raise VerificationFailed(f"{path} has more than {most} bytes")
    return content


def _files(target: Path) -> dict[str, bytes]:
    """Return the content of every file; raise where one is missing or does not belong."""
    found: dict[str, bytes] = {}
    for entry in sorted(os.scandir(target), key=lambda one: one.name):
        if entry.name == "tables" and entry.is_dir(follow_symlinks=False):
            for table in sorted(os.scandir(entry.path), key=lambda one: one.name):
                if not is_kept_name(table.name) or not table.name.endswith(".csv"):
                    raise VerificationFailed(
                        f"{table.path} is no part of the release: take it away"
                    )
                found[f"tables/{table.name}"] = file_bytes(Path(table.path), TABLE_BYTES)
        elif entry.name in LARGEST:
            found[entry.name] = file_bytes(Path(entry.path), LARGEST[entry.name])
        else:
            raise VerificationFailed(f"{entry.path} is no part of the release: take it away")
    missing = sorted(_NEEDED - set(found))
    if missing:
        raise VerificationFailed(f"{target} is not a whole release: {missing[0]} is missing")
    return found


def _check_sums(target: Path, files: Mapping[str, bytes], sums: bytes) -> None:
    """Raise unless the list of digests is exactly that of the files."""
    own = sums_of(files)
    if own == sums:
        return
    for line in own.decode().splitlines():
        if line not in sums.decode("utf-8", "replace").splitlines():
            raise VerificationFailed(f"{target / line[66:]} was changed after the release")
    raise VerificationFailed(
        f"{target} is not a whole release: SHA256SUMS lists other files than there are"
    )


def _manifest(content: bytes) -> dict[str, Any]:
    """Return the manifest, brought to the current schema."""
    manifest = parsed("manifest.json", content)
    if not isinstance(manifest, dict) or manifest.get("format") != "tacit release":
        raise VerificationFailed("manifest.json is that of no release")
    schema = manifest["schema"]
    while schema in UPGRADES and schema < SCHEMA:
        manifest = UPGRADES[schema](manifest)
        schema = manifest["schema"]
    if type(schema) is not int or schema != SCHEMA:
        raise VerificationFailed(f"release schema {schema} is unknown here: update tacit")
    if set(manifest) != _FIELDS:
        odd = sorted(set(manifest) ^ _FIELDS)[0]
        raise VerificationFailed(f"manifest.json has {odd!r} too much or too little")
    for name in _TEXTS:
        if not isinstance(manifest[name], str):
            raise VerificationFailed(f"{name} is no text")
        check_text(name, manifest[name])
    for name in ("estimator", "module"):
        own: str = manifest[name]
        if not own.isascii() or not all(part.isidentifier() for part in own.split(".")):
            raise VerificationFailed(f"{own!r} is no name of an estimator")
    return dict(manifest)
