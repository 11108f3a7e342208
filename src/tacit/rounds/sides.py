"""Coordinator and participant: who says what in which round.

A method over several sites is written once as these two pieces. The transport (function calls
in one process, or messages between institutions) is somebody else's. Noise that protects a
participant is drawn by the participant before its reply leaves.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tacit.errors import ParameterError, TacitError
from tacit.rounds.messages import ArraySpec, Message

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Attempt", "Collected", "Coordinator", "Failure", "Participant", "RunRecord"]


@dataclass(frozen=True)
class Collected:
    """What a coordinator gets to see of one round.

    Who answered, the sum of every named array over the sites, and each site's own arrays; None
    where the aggregator reveals only the sum.
    """

    sites: tuple[str, ...]
    total: Mapping[str, NDArray[Any]]
    by_site: Mapping[str, Message] | None


class Attempt:
    """One try at answering a request, known by a name that is on disk before anything is claimed.

    A process that dies after a ledger noted the claim of a step, and before the reply was kept,
    has let nothing out: replies leave from the disk. Whoever comes after it finds the name of that
    try, and may draw the step again under the same payment.

    Parameters
    ----------
    lost
        The names of tries at the same request by processes that died: nothing of them left.
    keep
        Puts the name of this one on disk.

    Attributes
    ----------
    spent
        Whether a claim was noted for this very try.
    """

    def __init__(
        self, lost: tuple[str, ...] = (), keep: Callable[[str], None] = lambda name: None
    ) -> None:
        self.lost, self._keep = lost, keep
        self._name: str | None = None
        self.spent = False

    def name(self) -> str:
        """Return its name, which is on disk by then."""
        if self._name is None:
            name = uuid.uuid4().hex
            self._keep(name)
            self._name = name
        return self._name


class Participant(ABC):
    """One party: answers requests from what it holds.

    ``open_rounds`` is how many rounds, at the beginning, carry what is public: they are answered
    as they are, also under secure aggregation. ``one_time`` says that a state holds secrets that
    must be gone once the next one is on disk. ``attempt`` is the try that is under way, where
    replies are kept.
    """

    name: str
    open_rounds: int = 0
    one_time: bool = False
    attempt: Attempt | None = None

    @abstractmethod
    def respond(self, request: Message) -> Message:
        """Answer one request; the reply carries the request's round."""

    def finish(self, shared: Mapping[str, NDArray[Any]]) -> None:
        """Take in what all learned together; what is derived from it here never leaves."""

    def forget(self) -> None:
        """Overwrite what was for one use, and answer nothing any more: the run is over here."""

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return what has to survive a restart, as named arrays; it never leaves."""
        return {}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state that `state` returned."""


class Coordinator(ABC):
    """The party that asks, collects and combines; ``open_rounds`` as of a participant."""

    open_rounds: int = 0

    @property
    @abstractmethod
    def replies(self) -> Mapping[str, ArraySpec]:
        """What every reply must hold; checked before a reply counts."""

    @abstractmethod
    def request(self, round: int) -> Message | Mapping[str, Message] | None:
        """Return the request of a round (numbered from 0), or None when all is done.

        Where sites are asked for different things: site → its own. Such requests follow from
        `state`, and are made again from it where a run is resumed.
        """

    def stop(self) -> None:
        """Come to an end before its time, with what it has."""
        raise ParameterError("this computation cannot be ended before its time")

    def check(self, site: str, reply: Message) -> None:
        """Raise `SiteFailure` where a reply breaks a rule that its specs do not hold."""

    @abstractmethod
    def absorb(self, round: int, collected: Collected) -> None:
        """Take in the replies of a complete round."""

    @property
    def remark(self) -> str:
        """What there is to say where too few sites are left for the round that was asked last."""
        return ""

    def faults(self) -> Mapping[str, str]:
        """Return sites that the last round showed at fault, and what may be said about it."""
        return {}

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return what has to survive a restart, as named arrays."""
        return {}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state that `state` returned."""


@dataclass(frozen=True)
class Failure:
    """A participant that failed: in which round, and what can be said about it."""

    round: int
    site: str
    reason: str

    @classmethod
    def of(cls, round: int, site: str, error: Exception) -> Failure:
        """Say what may be said: our own errors speak, others only by their kind."""
        reason = str(error) if isinstance(error, TacitError) else type(error).__name__
        return cls(round, site, reason)


@dataclass
class RunRecord:
    """What happened in a run."""

    rounds: int = 0
    sites: tuple[str, ...] = ()
    failures: list[Failure] = field(default_factory=list)
    bytes_received: int = 0
    seconds: list[float] = field(default_factory=list)
    resumed_at: int = 0
