"""What a release holds: names of files and arrays, dimensions and coordinates, tables, sums."""

from __future__ import annotations

import csv
import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from tacit.data.written import read_names
from tacit.errors import NotCertified
from tacit.privacy.certificate import Certificate

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "LARGEST",
    "SCHEMA",
    "Release",
    "described",
    "kept_names",
    "sums_of",
    "tables_of",
]

SCHEMA = 2
# file → how many bytes it may have: what is larger is not opened
LARGEST = {
    "README.md": 1 << 24,
    "SHA256SUMS": 1 << 20,
    "SHA256SUMS.sig": 1 << 16,
    "arrays.npz": 1 << 33,
    "certificates.json": 1 << 28,
    "manifest.json": 1 << 28,
}
TABLE_BYTES = 1 << 26
KINDS = "biuf"  # of arrays: truth values and numbers
_MOST_CELLS = 200_000  # of a table; what is larger is read from the array
_NAME = re.compile(r"[A-Za-z0-9_%.~-]{1,150}")


@dataclass(frozen=True)
class Release:
    """A release that was read and verified.

    Attributes
    ----------
    estimator
        The class that can read it back.
    arrays
        What was learned, by name.
    certificates
        Whose data → the certificate that the numbers rest on.
    manifest
        Everything that is said about it.
    signers
        Who signed the list of digests, each in words; empty where nobody did.
    """

    estimator: str
    arrays: Mapping[str, NDArray[Any]]
    certificates: Mapping[str, Certificate]
    manifest: Mapping[str, Any]
    signers: tuple[Mapping[str, Any], ...] = field(default=())

    @property
    def settings(self) -> dict[str, Any]:
        """The public settings of the fit."""
        return dict(self.manifest["settings"])

    @property
    def cites(self) -> tuple[str, ...]:
        """Keys of what the method builds on, where the release says so."""
        return tuple(str(key) for key in self.manifest.get("cites", ()))

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        """The names of the dimensions of every array."""
        about = self.manifest["arrays"].values()
        return {str(one["name"]): tuple(one["dims"]) for one in about}

    @property
    def coords(self) -> dict[str, tuple[Any, ...]]:
        """The names along dimensions: members, words, columns."""
        return {dim: read_names(names) for dim, names in self.manifest["coords"].items()}


def kept_names(names: Sequence[str]) -> dict[str, str]:
    """Return array → the name that it has in the archive, safe as the name of a file.

    A slash becomes a dot, what is no letter, digit, dot, dash or underscore is percent-encoded,
    and of names that differ only by case one is numbered.

    Examples
    --------
    >>> kept_names(["mean/age", "Mean.age", "größe"])
    {'mean/age': 'mean.age', 'Mean.age': 'Mean.age~2', 'größe': 'gr%C3%B6%C3%9Fe'}
    """
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        stem = quote(name.replace("/", "."), safe="").strip(".")[:120] or "array"
        kept, number = stem, 2
        while kept.lower() in taken:
            kept, number = f"{stem}~{number}", number + 1
        taken.add(kept.lower())
        found[name] = kept
    return found


def described(
    arrays: Mapping[str, NDArray[Any]],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[Any]],
) -> dict[str, dict[str, Any]]:
    """Return what the manifest says of every array, by its name in the archive.

    Parameters
    ----------
    arrays
        Name → array.
    dims
        Name → the names of its dimensions; numbered ones for arrays that are not listed.
    coords
        Dimension → names along it; their number must be the arrays'.
    """
    found = {}
    for name, kept in kept_names(list(arrays)).items():
        array = arrays[name]
        own = tuple(dims.get(name, (f"{kept}.{k}" for k in range(array.ndim))))
        if len(own) != array.ndim:
            raise NotCertified(
                f"{name!r} has {array.ndim} dimensions, and {len(own)} names: {own}"
            )
        for dim, length in zip(own, array.shape, strict=True):
            if dim in coords and len(coords[dim]) != length:
                raise NotCertified(
                    f"{name!r} has {length} along {dim!r}, where {len(coords[dim])} are named"
                )
        found[kept] = {
            "name": name,
            "dims": list(own),
            "shape": list(array.shape),
            "dtype": array.dtype.str,
        }
    return found


def tables_of(
    arrays: Mapping[str, NDArray[Any]],
    dims: Mapping[str, Sequence[str]],
    coords: Mapping[str, Sequence[Any]],
) -> dict[str, bytes]:
    """Return the numbers as CSV tables, beside the names of what they are about.

    One table for every named dimension, with a column for each array that begins with it (or one
    for each of its second dimension's names); and ``numbers.csv`` with what has no dimension.

    Examples
    --------
    >>> arrays = {"base": np.array([3.0, 4.0]), "spread": np.array(1.5)}
    >>> tables = tables_of(arrays, {"base": ("item",)}, {"item": ["Alien", "Brazil"]})
    >>> print(tables["item.csv"].decode())
    item,base
    Alien,3.0
    Brazil,4.0
    <BLANKLINE>
    """
    alone = [(name, array[()]) for name, array in arrays.items() if array.ndim == 0]
    found = {}
    if alone:
        rows = [[name, value] for name, value in alone]
        found["numbers"] = _csv(["name", "value"], rows)
    for dim, names in coords.items():
        heads: list[str] = [dim]
        columns: list[Any] = [list(map(_shown, names))]
        for name, array in arrays.items():
            own = tuple(dims.get(name, ()))
            if own[:1] != (dim,) or array.ndim > 2 or len(set(own)) < len(own):
                continue
            if array.ndim == 1:
                heads.append(name)
                columns.append(array)
                continue
            others = coords.get(own[1], range(array.shape[1]))
            heads += [f"{name}[{_shown(other)}]" for other in others]
            columns += list(array.T)
        cells = len(heads) * len(names)
        if len(heads) > 1 and names and cells <= _MOST_CELLS:
            found[dim] = _csv(heads, zip(*columns, strict=True))
    kept = kept_names(list(found))
    return {f"{kept[name]}.csv": data for name, data in found.items()}


def _shown(name: Any) -> str:
    return name.isoformat() if hasattr(name, "isoformat") else str(name)


def _csv(head: Sequence[str], rows: Any) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_cell(name) for name in head])
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    return text.getvalue().encode()


def _cell(value: Any) -> Any:
    """Return a cell as text; one that a spreadsheet would take for a formula is quoted."""
    if isinstance(value, str):
        return f"'{value}" if value[:1] in tuple("=+-@\t\r") else value
    return repr(value.item()) if isinstance(value, np.generic) else value


def sums_of(files: Mapping[str, bytes]) -> bytes:
    """Return the list of digests, as ``sha256sum -c`` takes it."""
    lines = [f"{hashlib.sha256(files[name]).hexdigest()}  {name}\n" for name in sorted(files)]
    return "".join(lines).encode()


def is_kept_name(name: str) -> bool:
    """Whether a name is one that `kept_names` gives."""
    return _NAME.fullmatch(name) is not None and ".." not in name
