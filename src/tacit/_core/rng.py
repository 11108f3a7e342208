"""The only place that makes random generators.

Inference takes NumPy generators from `streams`: one seed, named children, so that adding a
stream does not move the others. Privacy noise takes 64-bit words from a `WordStream`, a
ChaCha20 stream seeded from the operating system unless a test passes a seed. `KeyedWords` gives
the same words again whenever they are asked for, for noise that is too large to be stored.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "KeyedWords",
    "WordStream",
    "choices",
    "fresh_seed",
    "generator",
    "keyed_choices",
    "streams",
]

_choosing: ContextVar[Iterator[bytes] | None] = ContextVar("_choosing", default=None)

Seed = int | np.random.SeedSequence | None


def _sequence(seed: Seed, name: str = "") -> np.random.SeedSequence:
    """Return the seed sequence of the child ``name`` of ``seed``."""
    if isinstance(seed, np.random.SeedSequence):
        entropy, key = seed.entropy, tuple(seed.spawn_key)
    else:
        entropy, key = (np.random.SeedSequence().entropy if seed is None else seed), ()
    if name:
        digest = hashlib.sha256(name.encode()).digest()
        key += tuple(int.from_bytes(digest[i : i + 4], "big") for i in (0, 4, 8, 12))
    return np.random.SeedSequence(entropy, spawn_key=key)


def generator(seed: Seed, name: str = "") -> np.random.Generator:
    """Return a generator for inference: the stream ``name`` of ``seed``.

    >>> bool(generator(1, "proposal").random() == generator(1, "proposal").random())
    True
    >>> bool(generator(1, "proposal").random() == generator(1, "accept").random())
    False
    """
    return np.random.Generator(np.random.PCG64DXSM(_sequence(seed, name)))


def fresh_seed() -> int:
    """Return a seed from the operating system, for a run that has to remember its own."""
    return int.from_bytes(os.urandom(16), "little")


def streams(seed: Seed, *names: str) -> tuple[np.random.Generator, ...]:
    """Return one generator per name, all children of one seed."""
    parent = _sequence(seed)
    return tuple(generator(parent, name) for name in names)


class WordStream:
    """An endless stream of uniform 64-bit words from ChaCha20, never shared across a fork.

    Without a seed the operating system gives the key, the only choice for a release; an int is for
    tests and for reproducing tables.
    """

    _BLOCK = 1 << 12
    _LIMIT = 1 << 34  # words of one key, half of what a 32-bit block counter allows

    def __init__(self, seed: int | None = None) -> None:
        self.seed = seed
        self._used_keys = 0
        self._restart()

    def _key(self) -> bytes:
        """Return 256 bits that decide the next stretch of the stream."""
        if self.seed is None:
            return os.urandom(32)
        name = "privacy noise" + (f" {self._used_keys}" if self._used_keys else "")
        return _sequence(self.seed, name).generate_state(8).astype("<u4").tobytes()

    def _restart(self) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20

        self._pid = os.getpid()
        self._lock = threading.RLock()
        # every key is used once, so block counter and nonce start at zero
        self._cipher = Cipher(ChaCha20(self._key(), bytes(16)), mode=None).encryptor()
        self._used_keys += 1
        self._left = self._LIMIT
        self._spare: list[int] = []  # the next one last

    def _start_anew(self) -> None:
        """Start a stream of its own in a forked child."""
        if self.seed is not None:
            self.seed = self.seed ^ (os.getpid() << 64)
            self._used_keys = 0
        self._restart()

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` fresh words."""
        if os.getpid() != self._pid:
            self._start_anew()
        fresh = np.empty(count, np.uint64)
        with self._lock:
            if count > self._left:
                self._restart()
            self._left -= count
            # the key stream is what zeros are encrypted to
            self._cipher.update_into(bytes(8 * count), fresh.view(np.uint8).data)
        return fresh

    def word(self) -> int:
        """Return one fresh word, buffered for code that asks one at a time."""
        if os.getpid() != self._pid:  # a child gets a stream and a lock of its own
            self._start_anew()
        with self._lock:
            if not self._spare:
                self._spare = self.words(self._BLOCK)[::-1].tolist()
            return self._spare.pop()

    def __deepcopy__(self, memo: object) -> WordStream:
        return self  # a copy with the same key and counter would repeat the noise

    def __reduce__(self) -> tuple[Any, ...]:
        # another process starts a stream of its own
        anew = None if self.seed is None else self.seed ^ (int.from_bytes(os.urandom(8)) << 64)
        return WordStream, (anew,)

    def bits(self, count: int) -> int:
        """Return a uniform integer of ``count`` bits."""
        value = 0
        for _ in range(-(-count // 64)):
            value = (value << 64) | self.word()
        return value >> (-count % 64)

    def below(self, limit: int) -> int:
        """Return a uniform integer in [0, limit), by rejection."""
        size = (limit - 1).bit_length()
        while size:
            value = self.bits(size)
            if value < limit:
                return value
        return 0


class KeyedWords:
    """Streams of words that can be produced again: one ChaCha20 stream per block number.

    The key of a block is the SHA-256 of the master key and the number, so blocks are independent
    to anybody who does not know the master key, 256 fresh random bits. That key is as secret as
    what the noise hides: it is neither printed nor pickled.

    Examples
    --------
    >>> keyed = KeyedWords(7)
    >>> bool((keyed.block(3).words(4) == keyed.block(3).words(4)).all())
    True
    """

    def __init__(self, key: int) -> None:
        self._key = key.to_bytes(32, "little")

    def block(self, number: int) -> WordStream:
        """Return the stream of one block, from its beginning."""
        digest = hashlib.sha256(self._key + number.to_bytes(8, "little")).digest()
        return _Keyed(digest)

    def __deepcopy__(self, memo: object) -> KeyedWords:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key of privacy noise cannot be pickled: it would undo the noise")


class _Keyed(WordStream):
    """A stream of a given key."""

    def __init__(self, key: bytes) -> None:
        self._given = key
        super().__init__()

    def _key(self) -> bytes:
        return self._given

    def _start_anew(self) -> None:
        raise RuntimeError("a keyed stream belongs to the process that made it: ask for its block")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key of privacy noise cannot be pickled: it would undo the noise")


@contextmanager
def keyed_choices(key: bytes) -> Iterator[None]:
    """Let `choices` be made by a key, so that who reads the same data again makes the same ones.

    Parameters
    ----------
    key
        As secret as the data.
    """
    keys = (hashlib.sha256(key + number.to_bytes(8, "little")).digest() for number in count())
    before = _choosing.set(keys)
    try:
        yield
    finally:
        _choosing.reset(before)


def choices() -> WordStream:
    """Return a secret stream that chooses among a unit's rows: fresh, or by a key.

    >>> with keyed_choices(b"a"):
    ...     first = choices().words(2).tolist()
    >>> with keyed_choices(b"a"):
    ...     choices().words(2).tolist() == first
    True
    """
    keys = _choosing.get()
    return WordStream() if keys is None else _Keyed(next(keys))
