"""The loop of a joint computation: ask, check, collect, record, until the coordinator is done.

How a request gets to the sites and back is somebody else's: `drive` is given a function that asks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence

from tacit._core.check import Integer, OneOf, check
from tacit.errors import ParameterError, SiteFailure
from tacit.rounds.aggregate import Aggregator, PlainAggregator
from tacit.rounds.checkpoint import Checkpoint
from tacit.rounds.messages import Message, check_reply
from tacit.rounds.protocol import Coordinator, Failure, RunRecord

__all__ = ["Ask", "drive"]

# A request and the sites that are left → (site, its reply or why there is none), as they come.
Ask = Callable[[Message, tuple[str, ...]], Iterable[tuple[str, Message | Exception]]]


def drive(
    coordinator: Coordinator,
    names: Sequence[str],
    ask: Ask,
    *,
    aggregator: Aggregator | None = None,
    on_failure: str = "stop",
    minimum: int = 1,
    checkpoint: Checkpoint | None = None,
    progress: Callable[[RunRecord], None] | None = None,
) -> RunRecord:
    """Run a joint computation until the coordinator has no further request.

    Parameters
    ----------
    coordinator
        Who asks.
    names
        The sites.
    ask
        Sends a request to sites and yields their answers; what it yields late is asked late.
    aggregator, on_failure, minimum, checkpoint
        As in `tacit.rounds.inprocess.run`.
    progress
        Called with the record after every complete round.
    """
    check("on_failure", on_failure, OneOf("stop", "exclude"))
    check("minimum", minimum, Integer(1))
    if len(set(names)) != len(names) or not names:
        raise ParameterError("participants must have distinct names, and there must be some")
    aggregator = aggregator or PlainAggregator()
    active = list(names)
    record = RunRecord()
    if checkpoint is not None and (saved := checkpoint.load()) is not None:
        state, excluded = saved
        coordinator.restore(state.arrays)
        record.rounds = record.resumed_at = state.round
        active = [name for name in active if name not in excluded]
    while (request := coordinator.request(record.rounds)) is not None:
        started = time.perf_counter()
        replies = _replies(coordinator, request, active, ask, record, on_failure)
        active = [name for name in active if name in replies]
        if len(replies) < minimum:
            raise SiteFailure(
                f"{len(replies)} sites are left in round {record.rounds}, {minimum} are needed: "
                + "; ".join(f"{f.site}: {f.reason}" for f in record.failures)
            )
        coordinator.absorb(record.rounds, aggregator.collect(replies))
        record.rounds += 1
        record.seconds.append(time.perf_counter() - started)
        if checkpoint is not None:
            gone = tuple(name for name in names if name not in active)
            checkpoint.save(Message(record.rounds, coordinator.state()), gone)
        if progress is not None:
            record.sites = tuple(active)
            progress(record)
    record.sites = tuple(active)
    return record


def _replies(
    coordinator: Coordinator,
    request: Message,
    active: Sequence[str],
    ask: Ask,
    record: RunRecord,
    on_failure: str,
) -> dict[str, Message]:
    """Ask all that are left; return the replies that hold what was asked for."""
    replies: dict[str, Message] = {}
    for name, answer in ask(request, tuple(active)):
        if name not in active:
            continue
        try:
            if isinstance(answer, Exception):
                raise answer
            check_reply(answer, request.round, coordinator.replies)
            replies[name] = answer
            record.bytes_received += answer.size
        except Exception as error:
            failure = Failure.of(record.rounds, name, error)
            record.failures.append(failure)
            if on_failure == "stop":
                raise SiteFailure(
                    f"site {name!r} failed in round {failure.round}: {failure.reason}"
                ) from error
    # in the order of the sites, not of their answers: sums of floats depend on it
    return {name: replies[name] for name in active if name in replies}
