"""Arrays in one file, and how such a file of a stranger is opened.

Arrays are stored as they are, uncompressed: an archive can then not be larger inside than it is
on disk. Names, kinds and shapes are those that the manifest states, or nothing is read.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import NotCertified, VerificationFailed
from tacit.estimators.release.layout import KINDS, LARGEST, is_kept_name, kept_names

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["packed", "unpacked"]

_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal arrays are equal files
_HEADER = 4096  # bytes of an array's own header


def packed(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return arrays as one ``.npz`` file, each under its own name.

    Parameters
    ----------
    arrays
        Name → truth values or numbers.
    """
    for name, array in arrays.items():
        if array.dtype.kind not in KINDS:
            raise NotCertified(f"{name!r} is an array of {array.dtype}: only numbers are released")
    if sum(array.nbytes for array in arrays.values()) > LARGEST["arrays.npz"] - (1 << 28):
        raise NotCertified("the arrays are too large for one release")
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name, kept in kept_names(list(arrays)).items():
            own = io.BytesIO()
            array = np.array(arrays[name], order="C")
            np.lib.format.write_array(own, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{kept}.npy", _EPOCH), own.getvalue())
    return whole.getvalue()


def unpacked(content: bytes, about: Mapping[str, Mapping[str, Any]]) -> dict[str, NDArray[Any]]:
    """Return the arrays of a file, checked against what is said of them.

    Parameters
    ----------
    content
        The file.
    about
        Name in the archive → the array's own name, ``dtype`` and ``shape``.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise VerificationFailed(f"arrays.npz is no archive: {error}") from None
    with archive:
        members = archive.infolist()
        names = [member.filename for member in members]
        if len(set(names)) != len(names) or set(names) != {f"{kept}.npy" for kept in about}:
            raise VerificationFailed("arrays.npz does not hold the arrays that the manifest names")
        if archive.comment or sum(member.file_size for member in members) > len(content):
            raise VerificationFailed("arrays.npz holds more than its arrays")
        found = {}
        for kept, said in about.items():
            member = archive.getinfo(f"{kept}.npy")
            stored = member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 0x41
            if not stored or member.file_size != member.compress_size or not is_kept_name(kept):
                raise VerificationFailed(f"{member.filename} is not stored as it is")
            found[str(said["name"])] = _array(archive, member, said)
    if len(found) != len(about):
        raise VerificationFailed("two arrays have one name")
    return found


def _array(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, said: Mapping[str, Any]
) -> NDArray[Any]:
    """Return one array, whose header says what the manifest says."""
    try:
        data = archive.read(member)
        stream = io.BytesIO(data)
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise ValueError(f"version {version}")
        shape, fortran, dtype = np.lib.format.read_array_header_1_0(
            stream, max_header_size=_HEADER
        )
    except (ValueError, EOFError, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise VerificationFailed(f"{member.filename} is no array: {error}") from None
    if dtype.kind not in KINDS or dtype.hasobject or dtype.names is not None or fortran:
        raise VerificationFailed(f"{member.filename} holds {dtype}: only numbers are read")
    if list(shape) != list(said["shape"]) or dtype.str != said["dtype"]:
        raise VerificationFailed(
            f"{member.filename} is {dtype.str} {list(shape)}, and the manifest says "
            f"{said['dtype']} {list(said['shape'])}"
        )
    start = stream.tell()
    if len(data) - start != math.prod(shape) * dtype.itemsize:
        raise VerificationFailed(f"{member.filename} is not as long as its shape says")
    return np.frombuffer(data, dtype, offset=start).reshape(shape).copy()
