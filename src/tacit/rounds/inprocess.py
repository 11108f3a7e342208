"""All participants in this process: the default, and what tests use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tacit.rounds.aggregate import Aggregator
from tacit.rounds.checkpoint import Checkpoint
from tacit.rounds.loop import drive
from tacit.rounds.messages import Message
from tacit.rounds.protocol import Coordinator, Participant, RunRecord

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
    held = {participant.name: participant for participant in participants}

    def ask(request: Message, names: tuple[str, ...]) -> Iterator[tuple[str, Message | Exception]]:
        for name in names:
            answer: Message | Exception
            try:
                answer = held[name].respond(request)
            except Exception as error:
                answer = error
            yield name, answer

    return drive(
        coordinator,
        [participant.name for participant in participants],
        ask,
        aggregator=aggregator,
        on_failure=on_failure,
        minimum=minimum,
        checkpoint=checkpoint,
        progress=None if progress is None else lambda record: progress(record.rounds),
    )
