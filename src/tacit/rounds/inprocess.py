"""All participants in this process: the default, and what tests use."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tacit._core.check import Integer, OneOf, check
from tacit.errors import ParameterError, SiteFailure
from tacit.rounds.aggregate import Aggregator, PlainAggregator
from tacit.rounds.checkpoint import Checkpoint
from tacit.rounds.messages import Message, check_reply
from tacit.rounds.protocol import Coordinator, Failure, Participant, RunRecord

__all__ = ["run"]


def run(
    coordinator: Coordinator,
    participants: Sequence[Participant],
    *,
    aggregator: Aggregator | None = None,
    on_failure: str = "stop",
    minimum: int = 1,
    checkpoint: Checkpoint | None = None,
    progress: Callable[[int], None] | None = None,
) -> RunRecord:
    """Run a joint computation until the coordinator has no further request.

    Parameters
    ----------
    coordinator, participants
        The two sides.
    aggregator
        What the coordinator sees; everything unless given.
    on_failure
        ``"stop"`` raises `SiteFailure` at the first failing site; ``"exclude"`` goes on without
        it, from that round on, and records why.
    minimum
        How many sites must be left.
    checkpoint
        Where to record every complete round; an earlier record there is resumed.
    progress
        Called with the number of complete rounds.

    Returns
    -------
    RunRecord
        Rounds, seconds, bytes and failures.
    """
    check("on_failure", on_failure, OneOf("stop", "exclude"))
    check("minimum", minimum, Integer(1))
    names = [participant.name for participant in participants]
    if len(set(names)) != len(names) or not names:
        raise ParameterError("participants must have distinct names, and there must be some")
    aggregator = aggregator or PlainAggregator()
    active = {participant.name: participant for participant in participants}
    record = RunRecord()
    if checkpoint is not None and (saved := checkpoint.load()) is not None:
        state, excluded = saved
        coordinator.restore(state.arrays)
        record.rounds = record.resumed_at = state.round
        for name in excluded:
            active.pop(name, None)
    while (request := coordinator.request(record.rounds)) is not None:
        started = time.perf_counter()
        replies: dict[str, Message] = {}
        for name in list(active):
            try:
                reply = active[name].respond(request)
                check_reply(reply, request.round, coordinator.replies)
                replies[name] = reply
                record.bytes_received += reply.size
            except Exception as error:
                failure = Failure.of(record.rounds, name, error)
                record.failures.append(failure)
                if on_failure == "stop":
                    raise SiteFailure(
                        f"site {name!r} failed in round {failure.round}: {failure.reason}"
                    ) from error
                del active[name]
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
            progress(record.rounds)
    record.sites = tuple(active)
    return record
