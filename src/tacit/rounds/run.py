"""The loop of a joint computation: ask, check, collect, record, until the coordinator is done.

How a request gets to the sites and back is somebody else's: `drive` is given a function that asks.
`run` asks participants in this process: the default, and what tests use. `turns` is `run` for a
caller who takes the rounds one by one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from tacit._core.check import Integer, OneOf, check
from tacit._core.reasons import told_to_holder
from tacit.errors import ParameterError, SiteFailure
from tacit.rounds.aggregate import Aggregator, PlainAggregator
from tacit.rounds.checkpoint import Checkpoint
from tacit.rounds.messages import Message, check_reply
from tacit.rounds.sides import Coordinator, Failure, Participant, RunRecord

__all__ = ["Ask", "Request", "Turns", "drive", "exhausted", "run", "turns"]

# One request for all, or one for each site.
Request = Message | Mapping[str, Message]
# A request and the sites that are left → (site, its reply or why there is none), as they come.
Ask = Callable[[Request, tuple[str, ...]], Iterable[tuple[str, Message | Exception]]]
Given = TypeVar("Given")
# The record after every complete round, and in the end; told True, the coordinator ends it.
Turns = Generator[RunRecord, bool | None, RunRecord]


@dataclass(frozen=True)
class _Notes:
    """What is kept of failures: in the record what others may see, in ``said`` what errors say."""

    record: RunRecord
    said: list[str]
    on_failure: str
    own: bool

    def add(self, name: str, error: Exception) -> None:
        """Record that a site failed, and stop where that was asked for."""
        failure = Failure.of(self.record.rounds, name, error)
        self.record.failures.append(failure)
        reason = told_to_holder(error) if self.own else failure.reason
        self.said.append(f"{name}: {reason}")
        if self.on_failure == "stop":
            raise SiteFailure(
                f"site {name!r} failed in round {failure.round + 1}: {reason}"
            ) from error


def drive(
    coordinator: Coordinator,
    names: Sequence[str],
    ask: Ask,
    *,
    progress: Callable[[RunRecord], None] | None = None,
    **more: Any,
) -> RunRecord:
    """Run a joint computation until the coordinator has no further request.

    ``ask`` sends a request to sites and yields their answers; what it yields late is asked late.
    ``progress`` is called with the record after every complete round. ``absent`` are further sites
    that were lost before the first round: a run that is resumed goes on without them. The rest is
    as in `run`.
    """
    return exhausted(_driven(coordinator, names, ask, **more), progress)


def exhausted(
    taken: Generator[Any, Any, Given], progress: Callable[[Any], None] | None = None
) -> Given:
    """Take all turns of a generator and return what it returns."""
    while True:
        try:
            turn = next(taken)
        except StopIteration as end:
            found: Given = end.value
            return found
        if progress is not None:
            progress(turn)


def _driven(
    coordinator: Coordinator,
    names: Sequence[str],
    ask: Ask,
    *,
    aggregator: Aggregator | None = None,
    on_failure: str = "stop",
    minimum: int = 1,
    checkpoint: Checkpoint | None = None,
    absent: Sequence[str] = (),
    own: bool = False,
) -> Turns:
    """Yield the record after every complete round."""
    check("on_failure", on_failure, OneOf("stop", "exclude"))
    check("minimum", minimum, Integer(1))
    if len(set(names)) != len(names) or not names:
        raise ParameterError("participants must have distinct names, and there must be some")
    aggregator = aggregator or PlainAggregator()
    active = list(names)
    record, said = RunRecord(), list[str]()
    if checkpoint is not None and (saved := checkpoint.load()) is not None:
        state, excluded = saved
        coordinator.restore(state.arrays)
        record.rounds = record.resumed_at = state.round
        active = [name for name in active if name not in excluded]
    elif checkpoint is not None:  # its seed is on disk before the first message
        checkpoint.save(Message(0, coordinator.state()), tuple(absent))
    while (request := coordinator.request(record.rounds)) is not None:
        started = time.perf_counter()
        if checkpoint is not None and isinstance(request, Message):
            request = checkpoint.asked(record.rounds) or request
            checkpoint.keep_request(request)
        notes = _Notes(record, said, on_failure, own)
        replies = _replies(coordinator, request, active, ask, notes)
        active = [name for name in active if name in replies]
        if len(replies) < minimum:
            raise SiteFailure(
                f"{len(replies)} sites are left in round {record.rounds + 1}, {minimum} are "
                "needed: " + "; ".join(said) + coordinator.remark
            )
        coordinator.absorb(record.rounds, aggregator.collect(replies))
        for name, reason in coordinator.faults().items():
            notes.add(name, SiteFailure(reason))
            active = [other for other in active if other != name]
        record.rounds += 1
        record.seconds.append(time.perf_counter() - started)
        if checkpoint is not None:
            gone = tuple(name for name in (*names, *absent) if name not in active)
            checkpoint.save(Message(record.rounds, coordinator.state()), gone)
        record.sites = tuple(active)
        if (yield record):
            coordinator.stop()
    record.sites = tuple(active)
    return record


def _replies(
    coordinator: Coordinator,
    request: Request,
    active: Sequence[str],
    ask: Ask,
    notes: _Notes,
) -> dict[str, Message]:
    """Ask all that are left; return the replies that hold what was asked for."""
    replies: dict[str, Message] = {}
    specs = coordinator.replies
    asked = [name for name in active if isinstance(request, Message) or name in request]
    for name in set(active) - set(asked):
        notes.add(name, SiteFailure("was away when this exchange began"))
    for name, answer in ask(request, tuple(asked)):
        if name not in active:
            continue
        try:
            if isinstance(answer, Exception):
                raise answer
            check_reply(answer, notes.record.rounds, specs)
            coordinator.check(name, answer)
            replies[name] = answer
            notes.record.bytes_received += answer.size
        except Exception as error:
            notes.add(name, error)
    # in the order of the sites, not of their answers: sums of floats depend on it
    return {name: replies[name] for name in active if name in replies}


def run(
    coordinator: Coordinator,
    participants: Sequence[Participant],
    *,
    aggregator: Aggregator | None = None,
    on_failure: str = "stop",
    minimum: int = 1,
    checkpoint: Checkpoint | None = None,
    progress: Callable[[int], None] | None = None,
    own: bool = False,
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
    own
        Whether whoever gets the error of this run holds the data of its sites: it then says what
        went wrong and where. The record never does.

    Returns
    -------
    RunRecord
        Rounds, seconds, bytes and failures.
    """
    taken = turns(
        coordinator,
        participants,
        aggregator=aggregator,
        on_failure=on_failure,
        minimum=minimum,
        checkpoint=checkpoint,
        own=own,
    )
    return exhausted(taken, None if progress is None else lambda record: progress(record.rounds))


def turns(coordinator: Coordinator, participants: Sequence[Participant], **more: Any) -> Turns:
    """Yield the record after every round of a run, which goes on when the next one is taken.

    Everything as in `run`. Told True, the coordinator comes to an end before its time.
    """
    held = {participant.name: participant for participant in participants}

    def ask(request: Request, names: tuple[str, ...]) -> Iterator[tuple[str, Message | Exception]]:
        for name in names:
            answer: Message | Exception
            try:
                own = request if isinstance(request, Message) else request[name]
                answer = held[name].respond(own)
            except Exception as error:
                answer = error
            yield name, answer

    names = [participant.name for participant in participants]
    return _driven(coordinator, names, ask, **more)
