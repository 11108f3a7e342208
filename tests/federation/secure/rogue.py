"""The worlds of `experiments._hostile.sums` within one process, with vectors that are known."""

from __future__ import annotations

import numpy as np

from experiments._hostile import sums
from tacit.federation.secure.site import SecureParticipant
from tacit.federation.secure.terms import Terms
from tacit.rounds.messages import Message
from tacit.rounds.sides import Participant
from tests.federation.identities import identity, pinned

__all__ = ["SIZE", "World", "vector"]

SIZE = 6


def vector(name: str) -> np.ndarray:
    """Return what a site holds."""
    return np.arange(SIZE) + 1000 * sum(name.encode())


class Holds(Participant):
    """Sends its vector times what it is asked for."""

    def __init__(self, name: str) -> None:
        self.name, self.asked = name, 0

    def respond(self, request: Message) -> Message:
        self.asked += 1
        return Message(request.round, {"x": vector(self.name) * request["times"][0]})


class World(sums.World):
    """Sites in this process.

    Parameters
    ----------
    names, threshold, colluding, run
        Who takes part, and the terms.
    known
        Whose identities the sites have pinned; all unless given.
    kind, wrap
        What a site's side is made of, and what is put around it.
    """

    def __init__(self, names="ABCDV", threshold=3, colluding=0, *, run="run", known=None,
                 kind=SecureParticipant, wrap=lambda site: site):  # fmt: skip
        terms = Terms(run.encode(), tuple(sorted(names)), threshold, colluding)
        partners = pinned(names) if known is None else known
        self.sites = {
            name: wrap(kind(Holds(name), terms, identity(name), partners)) for name in terms.sites
        }
        super().__init__(
            terms, lambda name, request: self.sites[name].respond(request),
            lambda times: {"times": np.array([times])}, (["x"], [0]), SIZE,
        )  # fmt: skip
