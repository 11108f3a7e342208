"""The attacks on secure sums, against sites that are processes."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from experiments._hostile import builds, sums
from experiments._hostile.coordinator import PRIVACY, opening
from experiments._hostile.got import Got
from experiments._hostile.homes import SETTINGS
from experiments._hostile.parties import Sites
from tacit.errors import ParameterError, RequestRefused, SiteFailure
from tacit.federation import wire
from tacit.federation.computation import Computation
from tacit.federation.proposal import Proposal
from tacit.rounds.messages import Message

_counter = itertools.count()


def readable(vector: Any) -> bool:
    """Whether masks are off: under any of them numbers lie anywhere in 64 bits."""
    return bool(np.abs(vector.astype(float)).max() < 2.0**53)


def worlds(sites: Sites) -> sums.Make:
    """Return what opens a run of secure sums at those who run, and asks them from then on."""

    def make(
        names: Sequence[str] = sums.ALL, threshold: int = 3, colluding: int = 0, run: str = "sum"
    ) -> sums.World:
        with builds.taken("agreeing"):  # nobody checks what a rogue writes down
            proposal = Proposal(
                "factorization", SETTINGS, PRIVACY, tuple(sorted(names)),
                f"{run} {next(_counter)}", threshold, colluding=colluding,
            )  # fmt: skip
            computation = Computation(proposal)
            terms = computation.terms
        assert terms is not None

        def respond(name: str, message: Message, method: str = "respond") -> Message:
            sent = wire.ask(message, proposal.run)
            return wire.read_answer(sites.send(name, method, sent), sent, proposal.run, name)

        for name in set(proposal.sites) & set(sites.names):
            sent = opening(proposal, computation.digest)
            wire.read_answer(sites.send(name, "open", sent), sent, "open", name)
            respond(name, Message(0), "begin")
        inner = computation.coordinator()
        first = inner.request(0)
        assert first is not None
        specs = inner.replies
        layout = list(specs), [spec.exponent or 0 for spec in specs.values()]
        size = sum(math.prod(spec.fixed) for spec in specs.values())

        def asked(times: int) -> dict[str, Any]:
            return {name: np.full_like(array, times / 2) for name, array in first.arrays.items()}

        return sums.World(terms, respond, asked, layout, size, first.step)

    return make


def play(sites: Sites, attack: Callable[[sums.Make], Any], build: str) -> Got:
    """Play one attack; what is refused is no gain."""
    got = Got(1)
    # a rogue writes down what it likes, and makes terms as the sites it attacks do
    mine = build if build == "low threshold" or build == sites.build == "unbound requests" else ""
    with (
        builds.taken(mine),
        contextlib.suppress(SiteFailure, RequestRefused, ParameterError),
    ):
        got.sums += readable(attack(worlds(sites)))
    return got


def honest(sites: Sites) -> bool:
    """Whether an honest sum can be read, and a masked vector cannot: else no attack says much."""
    make = worlds(sites)
    _, _, masked = make().until_masked()
    hidden = not any(readable(vector.view(np.int64)) for vector in masked.values())
    return hidden and readable(make().honest_sum())
