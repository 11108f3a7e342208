"""Tiles on all cores: several threads with a tile each, in which torch uses one thread.

Torch's own threads share every operation, and wait for each other with full power after it. On
tiles that are far from filling the cores that costs more than it brings, and on busy ones many
times as much. Tiles need nothing of each other, so that each thread may take the next one, and
what a tile gives does not depend on how many threads there are: torch computes it with one.

That is for code of torch's and of ours that keeps nothing. A caller's own module is called from
one thread, as its author has tried it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from tacit._core.threads import over_range, threads
from tacit.networks.backend import torch

__all__ = ["cores", "on_one_thread", "over_parts", "threads_for"]

_FEW_PRODUCTS = 1 << 24  # some milliseconds on one core

Hand = TypeVar("Hand")


def cores() -> int:
    """Return how many threads may work on tiles: as many as torch may use here."""
    found: int = torch.get_num_threads()
    return min(found, threads())


@contextmanager
def on_one_thread() -> Iterator[None]:
    """Let torch use one thread for a while."""
    before: int = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def threads_for(products: int) -> Iterator[None]:
    """Let torch use one thread where a batch needs few products."""
    if products >= _FEW_PRODUCTS:
        yield
        return
    with on_one_thread():
        yield


def over_parts(
    work: Callable[[Hand, Any], None], parts: Sequence[Any], hands: Sequence[Hand]
) -> None:
    """Do some work with every part, in as many threads as there are hands.

    A hand is what one thread writes to.

    Examples
    --------
    >>> piles = [[], []]
    >>> over_parts(list.append, range(20), piles)
    >>> sorted(piles[0] + piles[1]) == list(range(20))
    True
    """
    idle = list(hands)

    def take(first: int, last: int) -> None:
        torch.set_num_threads(1)  # of this thread: what others set is not its own
        hand = idle.pop()
        try:
            for part in parts[first:last]:
                work(hand, part)
        finally:
            idle.append(hand)

    with on_one_thread():
        over_range(take, len(parts), workers=len(hands))
