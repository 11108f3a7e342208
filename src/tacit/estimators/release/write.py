"""Writing a release: all of it or nothing, never over another one."""

from __future__ import annotations

import datetime as dt
import json
import os
import platform
import shutil
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tacit._version import __version__
from tacit.data.written import written_names
from tacit.errors import NotCertified
from tacit.estimators.release.archive import packed
from tacit.estimators.release.certified import check_certificates
from tacit.estimators.release.layout import LARGEST, SCHEMA, described, sums_of, tables_of
from tacit.estimators.release.plain import check_text, dumped, plain, shown_text
from tacit.estimators.release.promise import promises
from tacit.estimators.release.signature import signatures, signers_of
from tacit.estimators.release.words import readme
from tacit.privacy.certificate import Certificate
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["write_release"]


def write_release(
    folder: str | os.PathLike[str],
    estimator: str,
    arrays: Mapping[str, Any],
    certificates: Mapping[str, Certificate],
    settings: Mapping[str, Any],
    cites: Sequence[str] = (),
    *,
    module: str = "tacit",
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Sequence[Any]] | None = None,
    learned: str = "",
    purpose: str = "",
    contact: str = "",
    ledgers: Sequence[Ledger] = (),
) -> Path:
    """Write a release; refused where there is no guarantee or the noise was seeded.

    Parameters
    ----------
    folder
        Where to; it must not exist, or be empty.
    estimator, arrays, certificates, settings
        What was fitted, what it released, every certificate that this rests on, and its public
        parameters as plain data.
    cites
        Keys of what the method builds on (`tacit.report.citations`).
    module
        Where the estimator is imported from.
    dims, coords
        Array → the names of its dimensions, and dimension → the names along it.
    learned, purpose, contact
        For people: what was learned in one sentence, what it is for, and whom to ask.
    ledgers
        Those whose keys sign; each must have paid for something here.
    """
    check_certificates(certificates)
    target = Path(folder)
    _check_free(target)
    named = {dim: list(names) for dim, names in (coords or {}).items()}
    numbers = {name: np.asarray(array) for name, array in arrays.items()}
    archive = packed(numbers)
    signers = signers_of(ledgers, certificates)
    words = {"purpose": purpose, "contact": contact}
    manifest = {
        "format": "tacit release",
        "schema": SCHEMA,
        "estimator": estimator,
        "module": module,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "learned": shown_text(learned),
        **{name: check_text(name, " ".join(text.split())) for name, text in words.items()},
        "settings": {name: plain(name, value) for name, value in settings.items()},
        "arrays": described(numbers, dims or {}, named),
        "coords": {dim: plain(dim, written_names(names)) for dim, names in named.items()},
        "promises": [promise.as_json() for promise in promises(certificates)],
        "signers": [said for _, said in signers],
        "cites": list(cites),
        "versions": {
            "tacit": __version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
    }
    texts = {site: json.loads(c.to_json()) for site, c in certificates.items()}
    files = {
        "manifest.json": dumped(manifest),
        "arrays.npz": archive,
        "certificates.json": dumped(texts),
        "README.md": readme(manifest, certificates),
    }
    tables = tables_of(numbers, dims or {}, named)
    files |= {f"tables/{name}": data for name, data in tables.items()}
    for name, data in files.items():
        if len(data) > LARGEST.get(name, len(data)):
            raise NotCertified(f"{name} would have {len(data)} bytes: too large for one release")
    files["SHA256SUMS"] = sums = sums_of(files)
    if signers:
        files["SHA256SUMS.sig"] = signatures(signers, sums)
    return _moved(files, target)


def _check_free(target: Path) -> None:
    if (target / "manifest.json").exists():
        raise NotCertified(f"{target} holds a release already: choose another folder")
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise NotCertified(f"{target} is not an empty folder: choose another one")


def _moved(files: Mapping[str, bytes], target: Path) -> Path:
    """Write everything beside the target and rename it: a crash leaves no half of a release."""
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.{uuid.uuid4().hex}.partial")
    try:
        draft.mkdir()
        for name, data in files.items():
            place = draft / name
            place.parent.mkdir(exist_ok=True)
            with open(place, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        if target.exists():
            target.rmdir()  # empty, or this raises
        os.rename(draft, target)
    except OSError as error:
        if target.exists():
            raise NotCertified(f"{target} is not an empty folder: choose another one") from None
        raise NotCertified(f"{target} cannot be written: {error.strerror}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target
