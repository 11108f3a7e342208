"""A site's side of secure aggregation: see `tacit.federation.secure.coordinator`.

Requests are taken strictly in order of (round of the computation, attempt, exchange), and nothing
goes back. What must hold after a restart (one-time keys, shares that others gave, the vector that
was drawn once, that a list was confirmed) is part of `state`, which `tacit.rounds.checkpoint` has
on disk before a reply leaves, and which it overwrites once the next state is there: when a step
closes, its keys and shares are gone from memory and from disk.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import RequestRefused
from tacit.estimators.shards import Holder
from tacit.federation.secure.arrays import (
    SIGNED,
    as_text,
    asked_digest,
    by_kind,
    read_names,
    rows_of,
    whole_numbers,
)
from tacit.federation.secure.exchange import (
    ADVERT,
    BOX,
    EXCHANGES,
    SIGNATURE,
    Member,
    check_partners,
)
from tacit.federation.secure.shamir import SHARE_BYTES
from tacit.federation.secure.terms import Terms
from tacit.rounds.messages import ArraySpec, Message, check_arrays
from tacit.rounds.sides import Participant

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SecureParticipant"]


class SecureParticipant(Participant):
    """A site that answers under masks.

    Parameters
    ----------
    inner
        The computation's participant.
    terms
        Those of the run, made from what this site agreed to.
    identity, partners
        As in `tacit.federation.secure.exchange.Member`.
    """

    one_time = True

    def __init__(
        self, inner: Participant, terms: Terms, identity: bytes, partners: Mapping[str, bytes]
    ) -> None:
        check_partners(inner.name, identity, partners, terms.sites)
        self.inner, self.name, self.terms = inner, inner.name, terms
        self.open_rounds = inner.open_rounds
        self._identity, self._partners = identity, dict(partners)
        self._next = inner.open_rounds  # the computation's round that is due
        self._member: Member | None = None  # of that round
        self._asked: Message | None = None
        self._layout: tuple[tuple[str, ...], tuple[int, ...]] = ((), ())
        self._values: NDArray[np.int64] | None = None  # drawn once for that round
        self._over = False

    def respond(self, request: Message) -> Message:
        """Take one step of the exchange; what is public is answered as it is."""
        if self._over:
            raise RequestRefused("the run is over here", "order")
        if "place" not in request.arrays:
            self._check_open(request)
            return self.inner.respond(request)
        arrays = dict(request.arrays)
        place = arrays.pop("place")
        check_arrays({"place": place}, {"place": ArraySpec((3,), "int64", 0)}, RequestRefused)
        number, attempt, exchange = (int(n) for n in request["place"])
        if number != self._next or exchange >= len(EXCHANGES):
            raise RequestRefused(f"a sum was asked for where that of round {self._next} is next")
        if exchange == 0:
            return self._advertise(request, attempt)
        member = self._member
        if member is None or member.terms.attempt != attempt:
            raise RequestRefused(f"asked to {EXCHANGES[exchange]} before any keys were advertised")
        answer = getattr(self, f"_{EXCHANGES[exchange]}")(member, arrays)
        return Message(request.round, answer)

    def _check_open(self, request: Message) -> None:
        """Refuse to answer without masks, unless the step is public.

        A public step may be asked for less often than it could be, so that a private one is due
        in a round that an honest coordinator uses for the public one.
        """
        public = request.round < self.open_rounds
        if isinstance(self.inner, Holder):
            public = public and self.inner.agreement.step(request.step).open is not None
        if not public:
            raise RequestRefused("this step is answered under masks only")

    def _advertise(self, request: Message, attempt: int) -> Message:
        """Begin a try, with fresh keys; never again after a list was confirmed."""
        last = self._member
        if last is not None and last.confirmed:
            raise RequestRefused("this step was confirmed: only the same list can be finished")
        if last is not None and attempt <= last.terms.attempt:
            raise RequestRefused("this try of the step is over: every exchange is taken once")
        arrays = {n: a for n, a in request.arrays.items() if not n.startswith("ask/")}
        specs = {
            "place": ArraySpec((3,), "int64"),
            "terms": ArraySpec((32,), "uint8"),
            "names": ArraySpec((None,), "uint8"),
            "grids": ArraySpec((None,), "int64"),
        }
        check_arrays(arrays, specs, RequestRefused)
        asked = Message(
            self._next,
            {n[4:]: a for n, a in request.arrays.items() if n.startswith("ask/")},
            request.step,
        )
        names, grids = read_names(request["names"]), tuple(request["grids"].tolist())
        terms = self.terms.at(self._next, attempt, asked_digest(asked, names, request["grids"]))
        if request["terms"].tobytes() != terms.digest:
            raise RequestRefused("the terms of this sum are not those that were agreed on")
        if last is not None and terms.asked != last.terms.asked:
            raise RequestRefused("this step was asked for already, with another request")
        self._check_layout(asked, names, grids)
        member = Member(self.name, terms, self._identity, self._partners)
        advert = np.frombuffer(member.advertise(), np.uint8)
        if last is not None:
            last.wipe()
        self._member, self._asked, self._layout = member, asked, (names, grids)
        return Message(request.round, {"advert": advert})

    def _check_layout(
        self, asked: Message, names: tuple[str, ...], grids: tuple[int, ...]
    ) -> None:
        """Refuse sums of anything but what was agreed on, on its grids."""
        if len(names) != len(grids) or len(set(names)) != len(names):
            raise RequestRefused("what is summed is not what was agreed on")
        if isinstance(self.inner, Holder):
            specs = self.inner.leaving(asked)
            if names != tuple(specs) or grids != tuple(s.exponent or 0 for s in specs.values()):
                raise RequestRefused("what is summed is not what was agreed on")

    def _share(self, member: Member, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        group = self._group(member, arrays, "adverts", ADVERT)
        rows = arrays["adverts"]
        adverts = {site: rows[k].tobytes() for k, site in enumerate(group)}
        commitment, boxes = member.share(adverts)
        return {
            "commitment": np.frombuffer(commitment, np.uint8),
            "boxes": rows_of([boxes.get(other, bytes(BOX)) for other in group], BOX),
        }

    def _mask(self, member: Member, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        group = self._group(member, arrays, "boxes", BOX, others=True)
        rows = arrays["boxes"]
        boxes = {site: rows[k].tobytes() for k, site in enumerate(group)}
        member.check_mask(boxes)
        if self._values is None:
            self._values = self._answer()
        masked, accused = member.mask(boxes, self._values)
        self._asked = None  # its digest is in the terms
        return {
            "masked": masked.view(SIGNED[member.terms.bits]),
            "accused": member.terms.marks(accused),
        }

    def _answer(self) -> NDArray[np.int64]:
        """Ask the computation, once; return its arrays as one vector of whole numbers."""
        assert self._asked is not None
        self.inner.attempt = self.attempt
        reply = self.inner.respond(self._asked)
        names, grids = self._layout
        if set(names) != set(reply.arrays):
            raise RequestRefused("what is summed is not what this site sends")
        parts = [whole_numbers(reply[n], grid) for n, grid in zip(names, grids, strict=True)]
        return np.concatenate(parts)

    def _confirm(self, member: Member, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        check_arrays(arrays, {"group": self._marks}, RequestRefused)
        signature = member.confirm(member.terms.marked(arrays["group"]))
        return {"signature": np.frombuffer(signature, np.uint8)}

    def _unmask(self, member: Member, arrays: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
        group = self._group(member, arrays, "signatures", SIGNATURE)
        rows = arrays["signatures"]
        shown = member.unmask({site: rows[k].tobytes() for k, site in enumerate(group)})
        parts = [shown.get(sender, bytes(SHARE_BYTES)) for sender in member.sharers]
        member.wipe()
        self._member = self._values = None
        self._next += 1
        return {"shares": rows_of(parts, SHARE_BYTES)}

    @property
    def _marks(self) -> ArraySpec:
        return ArraySpec((len(self.terms.sites),), "bool")

    def _group(
        self,
        member: Member,
        arrays: Mapping[str, NDArray[Any]],
        name: str,
        width: int,
        *,
        others: bool = False,
    ) -> tuple[str, ...]:
        """Return the sites that the rows of an array belong to, one row for each."""
        specs = {"group": self._marks, name: ArraySpec((None, width), "uint8")}
        check_arrays(arrays, specs, RequestRefused)
        group = member.terms.marked(arrays["group"])
        if others:
            if self.name not in group:
                raise RequestRefused("this site is missing from the list of who shared")
            group = tuple(site for site in group if site != self.name)
        if arrays[name].shape[0] != len(group):
            raise RequestRefused(f"{name} and the list of sites do not fit together")
        return group

    def forget(self) -> None:
        """Overwrite the keys and shares of a sum that went on, or ended, without this site.

        What this site confirmed is forgotten with them, so it takes part in no further sum.
        """
        if self._member is not None:
            self._member.wipe()
        if self._values is not None:
            self._values[:] = 0
        self._member = self._values = self._asked = None
        self._over = True

    # -- restarts --------------------------------------------------------------------------

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the computation's state and all of this exchange; it never leaves."""
        kept = {f"inner/{n}": a for n, a in self.inner.state().items()}
        kept["next"] = np.array([self._next])
        if self._over:
            kept["over"] = np.array([True])
        if self._values is not None:
            kept["values"] = self._values
        if self._member is not None:
            kept |= {f"member/{n}": a for n, a in self._member.state().items()}
            names, grids = self._layout
            kept |= {"names": as_text(names), "grids": np.array(grids, np.int64)}
        if self._asked is not None:
            kept["asked"] = np.frombuffer(self._asked.to_bytes(), np.uint8)
        return kept

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state."""
        parts = by_kind(state)
        self.inner.restore(parts.get("inner", {}))
        self._next, self._over = int(state["next"][0]), "over" in state
        self._values = state["values"].copy() if "values" in state else None
        self._asked = Message.from_bytes(state["asked"].tobytes()) if "asked" in state else None
        self._member = None
        if "member" in parts:
            self._layout = read_names(state["names"]), tuple(state["grids"].tolist())
            self._member = Member.restored(
                self.name, self.terms, self._identity, self._partners, parts["member"]
            )
