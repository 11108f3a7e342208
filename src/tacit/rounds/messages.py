"""Messages: named arrays of one round, in a self-describing binary form without pickle.

Layout: 8 bytes of magic, 8 bytes of header length, a JSON header (round, names, dtypes, shapes),
the arrays' bytes in order, and a SHA-256 over all of it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import SiteFailure, TacitError

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["DIGEST", "ArraySpec", "Message", "Size", "check_arrays", "check_reply"]

_MAGIC = b"TACITM1\n"
DIGEST = 32  # bytes of a SHA-256
_DTYPES = ("float64", "float32", "int64", "int32", "uint64", "uint8", "bool")
_LARGEST_HEADER = 1 << 20
_UNREADABLE = (ValueError, LookupError, TypeError, OverflowError, RecursionError, MemoryError)


@dataclass(frozen=True)
class Message:
    """Named arrays that travel in one round, about one step of what was agreed.

    >>> Message.from_bytes(Message(3, {"sum": np.arange(3)}).to_bytes())["sum"].tolist()
    [0, 1, 2]
    """

    round: int
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    step: str = ""

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
                "step": self.step,
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

        The digest, which follows where it is ``sealed`` as in files, does not cover the bytes
        ``before``.
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
            found = cls(int(header["round"]), arrays, str(header.get("step", "")))
            if sealed:
                found.__dict__["digest"] = bytes(whole[-DIGEST:])
            return found
        except _UNREADABLE as error:
            raise SiteFailure(f"a message cannot be read: {error}") from None


def _digest(parts: Sequence[bytes | memoryview]) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


@dataclass(frozen=True)
class Size:
    """A length that only a message fixes: a name, and the largest it may be."""

    name: str
    largest: int


@dataclass(frozen=True)
class ArraySpec:
    """What an array of a request or a reply must look like.

    Parameters
    ----------
    shape
        The exact shape. A `Size` stands for a length that is the same wherever its name stands;
        ``None`` for any length along an axis.
    dtype
        The exact dtype.
    low, high
        Every number must lie in [low, high]; it must be finite in any case.
    exponent
        Where floats are whole numbers of 2^exponent: what a secure sum needs to know.
    rule
        A further demand: returns what is wrong with an array, or None. Its name stands for it
        where two sides compare what they agreed on.
    """

    shape: tuple[int | Size | None, ...]
    dtype: str = "float64"
    low: float = -math.inf
    high: float = math.inf
    exponent: int | None = None
    rule: Callable[[NDArray[Any]], str | None] | None = None

    @property
    def text(self) -> str:
        """Everything about it in words, the same on every machine."""
        rule = "" if self.rule is None else f", {self.rule.__module__}.{self.rule.__qualname__}"
        limits = f"[{self.low!r}, {self.high!r}]"
        return f"{self.dtype} {self.shape!r} in {limits} of 2^{self.exponent}{rule}"

    def resolved(self, sizes: Mapping[str, int]) -> ArraySpec:
        """Return it with those named sizes that are known put in."""
        shape = tuple(sizes.get(n.name, n) if isinstance(n, Size) else n for n in self.shape)
        return dataclasses.replace(self, shape=shape)

    def problem(self, array: NDArray[Any], sizes: dict[str, int] | None = None) -> str | None:
        """Return what is wrong with an array, or None; ``sizes`` gathers named ones."""
        known = {} if sizes is None else sizes
        if array.dtype.name != self.dtype:
            return f"has dtype {array.dtype.name}, not {self.dtype}"
        if len(array.shape) != len(self.shape):
            return f"has shape {array.shape}, not {self._shown}"
        for want, got in zip(self.shape, array.shape, strict=True):
            if isinstance(want, Size):
                if got > want.largest:
                    return f"has more than {want.largest} {want.name}"
                if known.setdefault(want.name, got) != got:
                    return f"has another number of {want.name} than it should"
            elif want is not None and want != got:
                return f"has shape {array.shape}, not {self._shown}"
        if array.size:
            least, most = array.min(), array.max()  # of an array with a NaN both are NaN
            if not (-math.inf < least and most < math.inf):
                return "holds numbers that are not finite"
            if least < self.low or most > self.high:
                return f"holds numbers outside [{self.low:g}, {self.high:g}]"
        return None if self.rule is None else self.rule(array)

    @property
    def most_bytes(self) -> int | None:
        """The bytes of the longest array that fits, or None where there is no longest."""
        lengths = [n.largest if isinstance(n, Size) else n for n in self.shape]
        known = [n for n in lengths if n is not None]
        if len(known) < len(lengths):
            return None
        return math.prod(known) * np.dtype(self.dtype).itemsize

    @property
    def fixed(self) -> tuple[int, ...]:
        """The shape, where all of it is numbers."""
        return tuple(n for n in self.shape if isinstance(n, int))

    @property
    def _shown(self) -> tuple[Any, ...]:
        return tuple(n.name if isinstance(n, Size) else n for n in self.shape)


def check_arrays(
    arrays: Mapping[str, Any], specs: Mapping[str, ArraySpec], refusal: type[TacitError]
) -> dict[str, int]:
    """Raise unless there are exactly the arrays that specs name, each as it must be.

    Returns the named sizes. What is said is made from names and shapes, never from values.
    """
    present = {name for name, array in arrays.items() if array is not None}
    if present != set(specs):
        raise refusal(f"sent {sorted(present)} where {sorted(specs)} was asked for")
    sizes: dict[str, int] = {}
    for name, spec in specs.items():
        problem = spec.problem(arrays[name], sizes)
        if problem:
            raise refusal(f"array {name!r} {problem}")
    return sizes


def check_reply(message: Message, round: int, specs: Mapping[str, ArraySpec]) -> None:
    """Raise `SiteFailure` unless a reply belongs to the round and matches its specs."""
    if message.round != round:
        raise SiteFailure(f"answered for round {message.round} in round {round}")
    check_arrays(message.arrays, specs, SiteFailure)
