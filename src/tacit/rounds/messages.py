"""Messages: named arrays of one round, in a self-describing binary form without pickle.

Layout: 8 bytes of magic, 8 bytes of header length, a JSON header (round, names, dtypes, shapes),
the arrays' bytes in order, and a SHA-256 over all of it.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import SiteFailure

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DIGEST", "ArraySpec", "Message", "check_reply"]

_MAGIC = b"TACITM1\n"
DIGEST = 32  # bytes of a SHA-256
_DTYPES = ("float64", "float32", "int64", "int32", "uint64", "uint8", "bool")
_LARGEST_HEADER = 1 << 20


@dataclass(frozen=True)
class Message:
    """Named arrays that travel in one round.

    >>> Message.from_bytes(Message(3, {"sum": np.arange(3)}).to_bytes())["sum"].tolist()
    [0, 1, 2]
    """

    round: int
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        frozen = {}
        for name, array in self.arrays.items():
            found = np.array(array, order="C")  # a copy: what was sent does not change
            found.flags.writeable = False
            if found.dtype.name not in _DTYPES:
                raise SiteFailure(f"array {name!r} has dtype {found.dtype}, which cannot be sent")
            frozen[str(name)] = found
        object.__setattr__(self, "arrays", MappingProxyType(frozen))

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.arrays[name]

    @property
    def size(self) -> int:
        """The number of bytes of the arrays."""
        return sum(array.nbytes for array in self.arrays.values())

    def _parts(self) -> list[bytes | memoryview]:
        header = json.dumps(
            {
                "round": self.round,
                "arrays": [[n, a.dtype.name, list(a.shape)] for n, a in self.arrays.items()],
            },
            separators=(",", ":"),
        ).encode()
        parts: list[bytes | memoryview] = [_MAGIC, len(header).to_bytes(8, "little"), header]
        for array in self.arrays.values():
            ordered = array.astype(array.dtype.newbyteorder("<"), copy=False)
            parts.append(ordered.reshape(-1).view(np.uint8).data)
        return parts

    @cached_property
    def digest(self) -> bytes:
        """A digest that no other message has."""
        return _digest(self._parts())

    def to_bytes(self, before: bytes = b"", *, sealed: bool = True) -> bytes:
        """Return the message in its binary form.

        Parameters
        ----------
        before
            Bytes to put in front, which the digest does not cover.
        sealed
            Whether the digest follows, as it does in files.
        """
        return b"".join([before, *self._parts(), *([self.digest] if sealed else [])])

    @classmethod
    def from_bytes(cls, data: bytes | memoryview, *, sealed: bool = True) -> Message:
        """Read a message; anything that is not exactly one is refused."""
        try:
            whole = memoryview(data)
            body = whole[:-DIGEST] if sealed else whole
            if body[:8] != _MAGIC or (sealed and _digest([body]) != whole[-DIGEST:]):
                raise ValueError("wrong magic or digest")
            length = int.from_bytes(body[8:16], "little")
            if length > _LARGEST_HEADER:
                raise ValueError("header too long")
            header = json.loads(bytes(body[16 : 16 + length]))
            arrays, start = {}, 16 + length
            for name, dtype, shape in header["arrays"]:
                if dtype not in _DTYPES or any(int(n) < 0 for n in shape):
                    raise ValueError(f"array {name!r} cannot be read")
                kind = np.dtype(dtype).newbyteorder("<")
                stop = start + math.prod(shape) * kind.itemsize
                flat = np.frombuffer(body[start:stop], dtype=kind)
                arrays[name] = flat.reshape(shape).astype(dtype, copy=False)
                start = stop
            if start != len(body):
                raise ValueError("trailing bytes")
            found = cls(int(header["round"]), arrays)
            if sealed:
                found.__dict__["digest"] = bytes(whole[-DIGEST:])
            return found
        except (
            ValueError,
            KeyError,
            TypeError,
            IndexError,
            OverflowError,
            RecursionError,
            MemoryError,
        ) as error:
            raise SiteFailure(f"a message cannot be read: {error}") from None


def _digest(parts: Sequence[bytes | memoryview]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


@dataclass(frozen=True)
class ArraySpec:
    """What an array of a reply must look like.

    Parameters
    ----------
    shape
        The exact shape; ``None`` stands for any length along an axis.
    dtype
        The exact dtype.
    low, high
        Every number must lie in [low, high]; it must be finite in any case.
    exponent
        Where floats are whole numbers of 2^exponent: what a secure sum needs to know.
    """

    shape: tuple[int | None, ...]
    dtype: str = "float64"
    low: float = -math.inf
    high: float = math.inf
    exponent: int | None = None

    def problem(self, array: NDArray[Any]) -> str | None:
        """Return what is wrong with an array, or None."""
        if array.dtype.name != self.dtype:
            return f"has dtype {array.dtype.name}, not {self.dtype}"
        if len(array.shape) != len(self.shape) or any(
            want is not None and want != got
            for want, got in zip(self.shape, array.shape, strict=True)
        ):
            return f"has shape {array.shape}, not {self.shape}"
        if array.size and not np.isfinite(array).all():
            return "holds numbers that are not finite"
        bounded = self.low > -math.inf or self.high < math.inf
        if bounded and array.size and (array.min() < self.low or array.max() > self.high):
            return f"holds numbers outside [{self.low:g}, {self.high:g}]"
        return None


def check_reply(message: Message, round: int, specs: Mapping[str, ArraySpec]) -> None:
    """Raise `SiteFailure` unless a reply belongs to the round and matches its specs."""
    if message.round != round:
        raise SiteFailure(f"answered for round {message.round} in round {round}")
    if set(message.arrays) != set(specs):
        raise SiteFailure(f"sent {sorted(message.arrays)} where {sorted(specs)} was asked for")
    for name, spec in specs.items():
        problem = spec.problem(message[name])
        if problem:
            raise SiteFailure(f"array {name!r} {problem}")
