"""Where a holder's shards are kept and worked on: in this process, or on the holder's cluster.

An executor is four methods: `load` reads shards where they will stay, `each` lets a function go
through all of them, `size` and `close`. Functions and what they give travel; shards stay. A worker
is inside the holder's trust: it has no noise, no ledger and no gate, and what it gives is merged
here before anything leaves (`tacit.estimators.shards`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from tacit.errors import MissingExtra, ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["DaskWorkers", "Executor", "Here", "Loaded", "executor_of", "shards_of"]

T = TypeVar("T")
Load = Callable[[], Any]
Work = Callable[[Any, Any], T]  # of a shard, and of what is particular to it
_TRIES = 20  # of one task that workers die with


class Executor(ABC):
    """Where shards are: what is asked of a cluster of any kind."""

    @abstractmethod
    def load(self, loads: Sequence[Load], look: Callable[[Any], T]) -> list[T | Exception]:
        """Read every shard where it will be worked on; return what a look at it gives.

        What cannot be read gives its error.
        """

    @abstractmethod
    def each(self, work: Work[T], given: Sequence[Any]) -> Iterator[T]:
        """Yield what a function gives of each shard, in order."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many shards were loaded."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the shards."""


@dataclass(frozen=True)
class _Failed:
    """A shard that cannot be read."""

    error: Exception


class Here(Executor):
    """One process: so many shards in memory at a time, read again in every round.

    Parameters
    ----------
    at_once
        How many are in memory at a time: the one that is worked on, and those that are read
        meanwhile, each in a thread of its own.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._loads: tuple[Load, ...] = ()
        self._kept: dict[int, Any] = {}  # those that stay, where all of them fit

    def load(self, loads: Sequence[Load], look: Callable[[Any], T]) -> list[T | Exception]:
        """Read every shard once; keep them where no more are there than may be."""
        self._loads, self._kept = tuple(loads), {}
        keep = len(loads) <= self._at_once
        found: list[T | Exception] = []
        for k, shard in enumerate(self._in_turn(lambda k: _read(self._loads[k]))):
            if isinstance(shard, _Failed):
                found.append(shard.error)
                continue
            try:
                found.append(look(shard))
            except Exception as error:
                found.append(error)
            if keep:
                self._kept[k] = shard
        return found

    def each(self, work: Work[T], given: Sequence[Any]) -> Iterator[T]:
        """Read, work, let go; results come in order."""
        if self._kept:
            yield from (work(self._kept[k], given[k]) for k in range(self.size))
            return
        for k, shard in enumerate(self._in_turn(lambda k: self._loads[k]())):
            yield work(shard, given[k])
            del shard

    def _in_turn(self, read: Callable[[int], Any]) -> Iterator[Any]:
        """Yield shards in order, the next of which are read while the caller works."""
        ahead = self._at_once - 1
        if ahead == 0:
            yield from map(read, range(self.size))
            return
        waiting: deque[Future[Any]] = deque()
        with ThreadPoolExecutor(ahead) as pool:
            try:
                for k in range(self.size):
                    waiting.append(pool.submit(copy_context().run, read, k))
                    if len(waiting) > ahead:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:  # an error stops what is not begun
                for future in waiting:
                    future.cancel()

    @property
    def size(self) -> int:
        """How many shards were loaded."""
        return len(self._loads)

    def close(self) -> None:
        """Let go of what was kept."""
        self._kept.clear()


class DaskWorkers(Executor):
    """The workers of a cluster of Dask's: each shard stays with the worker that read it.

    Where a worker dies, Dask has its shards read again by others, and what it was doing is done
    again. Reading and contributing are functions, so that the bits are the same. A task that
    several workers died with is tried again: they may have died of something else.

    Parameters
    ----------
    client
        A ``distributed.Client``.
    own
        Whether it is closed with this.
    """

    def __init__(self, client: Any, own: bool = False) -> None:
        self._client, self._own = client, own
        self._loads: tuple[Load, ...] = ()
        self._shards: list[Any] = []

    def load(self, loads: Sequence[Load], look: Callable[[Any], T]) -> list[T | Exception]:
        """Have every worker read its shards, and look at them where they are."""
        self._loads = tuple(loads)
        self._shards = [self._submit(_read, one) for one in self._loads]
        return list(self._in_turn(_tried, look, self._loads))

    def each(self, work: Work[T], given: Sequence[Any]) -> Iterator[T]:
        """Send a function to the shards; only what it gives comes back, in order."""
        return self._in_turn(_worked, work, given)

    def _in_turn(self, do: Callable[..., T], what: Any, given: Sequence[Any]) -> Iterator[T]:
        sent = self._submit(_itself, what)  # made again where it is lost, as data would not be
        waiting = deque(
            self._submit(do, sent, shard, one)
            for shard, one in zip(self._shards, given, strict=True)
        )
        for k, one in enumerate(given):
            task = waiting.popleft()
            for left in reversed(range(_TRIES)):
                try:
                    found = task.result()
                    break
                except (_killed(), CancelledError):
                    if not left:
                        raise
                    self._shards[k] = self._submit(_read, self._loads[k])
                    task = self._submit(do, self._submit(_itself, what), self._shards[k], one)
            yield found

    def _submit(self, *what: Any) -> Any:
        return self._client.submit(*what, pure=False)

    @property
    def size(self) -> int:
        """How many shards were loaded."""
        return len(self._loads)

    def close(self) -> None:
        """Let the workers forget the shards."""
        self._shards.clear()
        if self._own:
            self._client.close()


def _killed() -> type[Exception]:
    """Return the error of a task that workers died with."""
    from distributed import KilledWorker

    kind: type[Exception] = KilledWorker
    return kind


def _itself(what: T) -> T:
    return what


def _tried(look: Callable[[Any], T], shard: Any, load: Load) -> T | Exception:
    if isinstance(shard, _Failed):
        return shard.error
    try:
        return look(shard)
    except Exception as error:
        return error


def _read(load: Load) -> Any:
    try:
        return load()
    except Exception as error:  # for its holder, before anybody pays
        return _Failed(error)


def _worked(work: Work[T], shard: Any, one: Any) -> T:
    if isinstance(shard, _Failed):
        raise shard.error
    return work(shard, one)


@dataclass(frozen=True, eq=False)
class Loaded:
    """A site's shards as its side takes them.

    Attributes
    ----------
    executor
        Where they are.
    sizes
        Of each, how many units it holds and how many bounded parts it adds to a sum.
    source
        What they are read from, which lasts as long as they do.
    order
        Where units stand among those of all shards, in an order that does not depend on the cut;
        None: as they stand.
    """

    executor: Executor = field(repr=False)
    sizes: tuple[tuple[int, int], ...]
    source: Any = field(default=None, repr=False)
    order: NDArray[np.int64] | None = field(default=None, repr=False)


def shards_of(data: Any) -> list[Any] | Loaded:
    """Return what a holder takes as its shards, of what was read: where they are, or the one."""
    return data if isinstance(data, Loaded) else [data]


def executor_of(stated: Any, at_once: int) -> Executor:
    """Return where a holder wants its shards: in this process unless something else is stated.

    Parameters
    ----------
    stated
        None, an `Executor`, a ``distributed.Client``, or an address such as
        ``"dask://scheduler:8786"``; ``"dask://"`` starts a cluster on this machine.
    at_once
        How many are in memory at a time, in this process.
    """
    if stated is None:
        return Here(at_once)
    if isinstance(stated, Executor):
        return stated
    if isinstance(stated, str) and stated.startswith("dask://"):
        return DaskWorkers(_client(stated.removeprefix("dask://")), own=True)
    if hasattr(stated, "submit") and hasattr(stated, "scatter"):
        return DaskWorkers(stated)
    raise ParameterError(
        "executor must be a client of dask.distributed, an address such as "
        f"'dask://scheduler:8786', or an Executor, got {type(stated).__name__}"
    )


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise MissingExtra("working on a cluster of Dask", "dask") from None
    made: Any = Client
    return made(f"tcp://{address}" if address else None, dashboard_address=None)
