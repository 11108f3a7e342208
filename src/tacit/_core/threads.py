"""Compiled kernels on all cores: one kernel, called for ranges of its work by several threads.

A kernel takes ``first`` and ``last`` before its other arguments and does the work of that range
only. It is compiled once and releases the interpreter's lock, so plain threads run it side by
side. Numba's own parallel loops would compile every kernel a second time, wait for each other
with full power, and kill a forked child that enters them.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from functools import cache
from threading import local
from typing import Any

__all__ = ["PIECES", "ahead", "each", "in_forked_child", "over_range", "threads"]

PIECES = 4  # for each thread, so that a slow core does not hold up the others

_FIRST_PID = os.getpid()
_here = local()  # ``busy`` in a thread that has a part of some work already


def in_forked_child() -> bool:
    """Whether this process was forked from the one that imported tacit."""
    return os.getpid() != _FIRST_PID


def threads() -> int:
    """Return how many threads a kernel may use.

    As many as this process has cores, or the number in the environment variable
    ``TACIT_NUM_THREADS`` (or ``NUMBA_NUM_THREADS``). A forked child is one worker among several
    and uses one, and so does a thread that has a part of something already.
    """
    if in_forked_child() or getattr(_here, "busy", False):
        return 1
    stated = os.environ.get("TACIT_NUM_THREADS") or os.environ.get("NUMBA_NUM_THREADS")
    if stated and stated.isdigit():
        return max(1, int(stated))
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # pragma: no cover - no affinity on this platform


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(workers, thread_name_prefix="tacit")


def over_range(
    kernel: Callable[..., Any], count: int, *args: Any, workers: int | None = None
) -> None:
    """Call ``kernel(first, last, *args)`` for ranges that cover 0 … count, on all cores.

    Different ranges must write to different places. ``workers`` is how many threads; None:
    `threads`.

    Examples
    --------
    >>> squares = [0] * 10
    >>> def kernel(first, last, out):
    ...     for i in range(first, last):
    ...         out[i] = i * i
    >>> over_range(kernel, 10, squares)
    >>> squares
    [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]
    """
    workers = min(threads() if workers is None else workers, count)
    if workers <= 1 or getattr(_here, "busy", False):
        kernel(0, count, *args)
        return
    pieces = min(count, PIECES * workers)
    ranges = ((count * k // pieces, count * (k + 1) // pieces) for k in range(pieces))
    # whoever is free takes the next range: one step of a list's iterator is atomic
    queue = iter(list(ranges))
    others = [_pool(workers - 1).submit(_take, kernel, queue, args) for _ in range(workers - 1)]
    try:
        _take(kernel, queue, args)
    finally:
        wait(others)
    for other in others:
        other.result()


def _take(
    kernel: Callable[..., Any], queue: Iterator[tuple[int, int]], args: tuple[Any, ...]
) -> None:
    _here.busy = True
    try:
        for first, last in queue:
            kernel(first, last, *args)
    finally:
        _here.busy = False


def each(function: Callable[[Any], Any], things: Iterable[Any]) -> Iterator[Any]:
    """Yield what a function gives for each of some things, in their order, made on all cores.

    At most as many are under way as there are threads, and what they need is made by the caller,
    one after the other. Worth it where a function leaves the interpreter to others: in compiled
    kernels, in NumPy's arithmetic and in BLAS.

    Examples
    --------
    >>> list(each(lambda n: n * n, [3, 1, 2]))
    [9, 1, 4]
    """
    workers = threads()
    if workers <= 1:
        yield from map(function, things)
        return
    under_way: deque[Future[Any]] = deque()
    try:
        for thing in things:
            if len(under_way) == workers:
                yield under_way.popleft().result()
            context = copy_context()
            under_way.append(_pool(workers).submit(context.run, _alone, function, thing))
        while under_way:
            yield under_way.popleft().result()
    finally:
        wait(under_way)


def _alone(function: Callable[[Any], Any], thing: Any) -> Any:
    """Call a function in a thread of the pool, which must not wait for the pool."""
    _here.busy = True
    try:
        return function(thing)
    finally:
        _here.busy = False


def ahead(make: Callable[[], Any], count: int) -> Iterator[Any]:
    """Yield ``count`` results of a function, the next of which is made while the caller works.

    They are made one after the other, in the order of a plain loop. Worth it where the caller runs
    compiled kernels, which leave the interpreter to others.

    Examples
    --------
    >>> list(ahead(iter([3, 1, 2]).__next__, 3))
    [3, 1, 2]
    """
    if threads() <= 1:
        for _ in range(count):
            yield make()
        return
    context = copy_context()
    with ThreadPoolExecutor(1, thread_name_prefix="tacit") as worker:
        coming = worker.submit(context.run, make) if count else None
        for left in reversed(range(count)):
            assert coming is not None
            found = coming.result()
            coming = worker.submit(context.run, make) if left else None
            yield found
