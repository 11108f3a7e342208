"""A site's side of secure aggregation: see `tacit.federation.secure.coordinator`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, check
from tacit.errors import RequestRefused, SiteFailure
from tacit.estimators.shards import Holder
from tacit.federation.secure.arrays import (
    SIGNED,
    as_text,
    by_kind,
    read_names,
    rows_of,
    whole_numbers,
)
from tacit.federation.secure.exchange import SEALED, Member, Terms
from tacit.rounds.messages import Message
from tacit.rounds.sides import Participant

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EXCHANGES", "SecureParticipant"]

EXCHANGES = ("advertise", "share", "mask", "unmask")


class SecureParticipant(Participant):
    """A site that answers under masks.

    Parameters
    ----------
    inner
        The computation's participant.
    minimum
        The fewest sites among which this one hides; fewer are refused.
    identity, partners
        As in `tacit.federation.secure.exchange.Member`.
    agreed
        The sites and the threshold of the proposal; other terms are refused.
    """

    def __init__(
        self,
        inner: Participant,
        *,
        minimum: int = 3,
        identity: bytes | None = None,
        partners: Mapping[str, bytes] | None = None,
        agreed: tuple[Collection[str], int] | None = None,
    ) -> None:
        check("minimum", minimum, Integer(2))
        self._agreed = agreed
        self.inner, self.name, self.minimum = inner, inner.name, minimum
        self._identity, self._partners = identity, partners
        self._member: Member | None = None

    def respond(self, request: Message) -> Message:
        """Take one step of the exchange; what is public is answered as it is."""
        opened = self.inner.open_rounds
        if request.round < opened:
            return self.inner.respond(request)
        number, exchange = divmod(request.round - opened, 4)
        number += opened
        if exchange == 0:
            threshold, bits = (int(n) for n in request["terms"])
            sites = read_names(request["sites"])
            if threshold < self.minimum:
                raise SiteFailure(
                    f"a sum over {threshold} sites would be revealed, and {self.name!r} asks for "
                    f"at least {self.minimum}"
                )
            if self._agreed is not None and (
                threshold != self._agreed[1] or not set(sites) <= set(self._agreed[0])
            ):
                raise RequestRefused("the terms of the exchange are not those of the proposal")
            terms = Terms(request["session"].tobytes(), sites, threshold, bits)
            self._member = Member(self.name, terms, self._identity, self._partners)
            advert = np.frombuffer(self._member.advertise(), np.uint8)
            return Message(request.round, {"advert": advert})
        member = self._member
        if member is None:
            raise SiteFailure(f"asked to {EXCHANGES[exchange]} before any keys were advertised")
        if exchange == 1:
            group = read_names(request["group"])
            adverts = dict(zip(group, (a.tobytes() for a in request["adverts"]), strict=True))
            commitment, boxes = member.share(adverts)
            rows = [boxes.get(other, bytes(SEALED)) for other in group]
            return Message(
                request.round,
                {
                    "commitment": np.frombuffer(commitment, np.uint8),
                    "boxes": rows_of(rows, SEALED),
                },
            )
        if exchange == 2:
            values = self._values(number, request)
            masked = member.mask(self._boxes(request), values, request.digest)
            return Message(request.round, {"masked": masked.view(SIGNED[member.terms.bits])})
        revealed = member.unmask(read_names(request["arrived"]))
        parts = [revealed[site] for site in sorted(revealed)]
        return Message(request.round, {"shares": rows_of(parts, 66)})

    def _boxes(self, request: Message) -> dict[str, bytes]:
        group = read_names(request["group"])
        at = group.index(self.name) if self.name in group else -1
        if at < 0 or request["boxes"].shape != (len(group), SEALED * len(group)):
            raise SiteFailure("the sealed shares do not fit this session")
        column = request["boxes"][:, at * SEALED : (at + 1) * SEALED]
        return {s: column[k].tobytes() for k, s in enumerate(group) if s != self.name}

    def _values(self, number: int, request: Message) -> NDArray[np.int64]:
        """Ask the computation, and return its arrays as one vector of whole numbers."""
        asked = {n[4:]: a for n, a in request.arrays.items() if n.startswith("ask/")}
        inner = Message(number, asked, request.step)
        names, grids = read_names(request["names"]), request["grids"]
        if isinstance(self.inner, Holder):  # what leaves, and on which grid, was agreed on
            specs = self.inner.leaving(inner)
            if names != tuple(specs) or grids.tolist() != [
                s.exponent or 0 for s in specs.values()
            ]:
                raise RequestRefused("what is summed is not what was agreed on")
        reply = self.inner.respond(inner)
        if set(names) != set(reply.arrays):
            raise SiteFailure(f"{sorted(names)} was asked for, which this site does not send")
        parts = [
            whole_numbers(reply[name], int(grid)) for name, grid in zip(names, grids, strict=True)
        ]
        return np.concatenate(parts)

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the computation's state and the keys of this exchange; they never leave."""
        kept = {f"inner/{n}": a for n, a in self.inner.state().items()}
        member = self._member
        if member is not None:
            terms = member.terms
            kept |= {
                "terms": np.array([terms.threshold, terms.bits, member.done]),
                "session": np.frombuffer(terms.session, np.uint8),
                "sites": as_text(terms.sites),
                "keys": np.frombuffer(member.sealing + member.masking + member.seed, np.uint8),
            }
            kept |= {f"advert/{s}": np.frombuffer(a, np.uint8) for s, a in member.adverts.items()}
            kept |= {f"held/{s}": np.frombuffer(a, np.uint8) for s, a in member.held.items()}
        return kept

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state."""
        parts = by_kind(state)
        self.inner.restore(parts.get("inner", {}))
        self._member = None
        if "keys" in state:
            threshold, bits, done = (int(n) for n in state["terms"])
            terms = Terms(state["session"].tobytes(), read_names(state["sites"]), threshold, bits)
            member = Member(self.name, terms, self._identity, self._partners)
            keys = state["keys"].tobytes()
            member.sealing, member.masking, member.seed = keys[:32], keys[32:64], keys[64:]
            member.adverts = {s: a.tobytes() for s, a in parts.get("advert", {}).items()}
            member.held = {s: a.tobytes() for s, a in parts.get("held", {}).items()}
            member.done = done
            self._member = member
