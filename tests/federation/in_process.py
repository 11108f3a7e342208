"""The whole protocol of secure aggregation within one process."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.federation.secure.coordinator import SecureCoordinator
from tacit.federation.secure.site import SecureParticipant
from tacit.federation.secure.terms import Terms
from tacit.rounds.aggregate import Aggregator
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.run import run
from tacit.rounds.sides import Collected, Coordinator, Participant
from tests.federation.identities import identity, pinned

__all__ = ["SecureAggregator"]


class SecureAggregator(Aggregator):
    """In place of `tacit.rounds.aggregate.SumAggregator`.

    Every reply is masked by a member of its own and only masked vectors are added up: for tests,
    and to see what the protocol costs.

    Parameters
    ----------
    threshold
        How many replies must be there.
    bits
        The ring.
    grids
        Array name → exponent of the grid its floats lie on.

    Examples
    --------
    >>> import numpy as np
    >>> replies = {name: Message(0, {"x": np.array([k])}) for k, name in enumerate("ABC")}
    >>> SecureAggregator(2).collect(replies).total["x"].tolist()
    [3]
    """

    def __init__(
        self, threshold: int, *, bits: int = 64, grids: Mapping[str, int] | None = None
    ) -> None:
        self.threshold, self.bits, self.grids = threshold, bits, dict(grids or {})
        self.rounds = 0

    def collect(self, replies: Mapping[str, Message]) -> Collected:
        """Reveal the sum and nothing else."""
        specs = {
            name: ArraySpec(array.shape, array.dtype.name, exponent=self.grids.get(name))
            for name, array in next(iter(replies.values())).arrays.items()
        }
        once, known = _Once(specs), pinned(replies)
        run_digest = f"in process {self.rounds}".encode()
        terms = Terms(run_digest, tuple(sorted(replies)), self.threshold, 0, self.bits)
        self.rounds += 1
        sites = [
            SecureParticipant(_Holds(name, reply), terms, identity(name), known)
            for name, reply in replies.items()
        ]
        run(SecureCoordinator(once, terms, known), sites)
        assert once.collected is not None
        return once.collected


class _Holds(Participant):
    """Has its reply already."""

    def __init__(self, name: str, reply: Message) -> None:
        self.name, self.reply = name, reply

    def respond(self, request: Message) -> Message:
        return Message(request.round, self.reply.arrays)


class _Once(Coordinator):
    """Asks once and keeps what it gets."""

    def __init__(self, specs: Mapping[str, ArraySpec]) -> None:
        self.specs = specs
        self.collected: Collected | None = None

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        return self.specs

    def request(self, round: int) -> Message | None:
        return Message(0) if round == 0 else None

    def absorb(self, round: int, collected: Collected) -> None:
        self.collected = collected
