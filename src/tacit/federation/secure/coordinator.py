"""Secure aggregation around any joint computation: each round becomes five of `tacit.rounds`.

`SecureCoordinator` and `SecureParticipant` wrap the two sides of a computation whose coordinator
uses sums only. They exchange named arrays like any other pair, so every transport, checkpoint and
outbox works as it is; a resumed exchange repeats the bytes of the first time.

The masking exchange differs by site: each gets the shares that are sealed for it, so that what a
site sends and receives in a round grows with the number of sites and no faster. The other four
are the same for all.

Floats are taken for whole numbers of a grid step, and must be such: a sum of shares that were
rounded one by one is no function of the sum. Values wrap around modulo 2^bits, so the caller
chooses bits with room for the sum; no value is looked at to tell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError
from tacit.federation.secure.arrays import SIGNED, as_text, asked_digest, by_kind, rows_of
from tacit.federation.secure.exchange import ADVERT, BOX, COMMITMENT, EXCHANGES, SIGNATURE
from tacit.federation.secure.gatherer import Gatherer
from tacit.federation.secure.shamir import SHARE_BYTES
from tacit.federation.secure.terms import Terms
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.sides import Collected, Coordinator

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SecureCoordinator"]


class SecureCoordinator(Coordinator):
    """A coordinator whose rounds reveal sums only.

    Parameters
    ----------
    inner
        The computation; it gets ``by_site=None``.
    terms
        Those of the run.
    partners
        The public keys of all sites' identities.
    """

    def __init__(self, inner: Coordinator, terms: Terms, partners: Mapping[str, bytes]) -> None:
        self.inner, self.terms, self.partners = inner, terms, dict(partners)
        self._number, self._attempt, self._exchange = inner.open_rounds, 0, 0
        self._gatherer = Gatherer(terms, self.partners)
        self._asked: Message | None = None
        self._fresh = True  # the computation was not asked yet for this round
        self._ready = inner.open_rounds == 0  # whether it can be: open rounds come first
        self._opened = False  # whether the last request was one of the open rounds
        self._faulty: dict[str, str] = {}

    # -- what is asked ----------------------------------------------------------------------

    def request(self, round: int) -> Message | Mapping[str, Message] | None:
        """Return the request of an exchange; in the masking one each site has its own."""
        self._opened = round < self.inner.open_rounds
        if self._opened:
            return self.inner.request(round)
        asked = self._ask()
        if asked is None:
            return None
        place = np.array([self._number, self._attempt, self._exchange])
        make = (
            self._request_advertise,
            self._request_share,
            self._request_mask,
            self._request_confirm,
            self._request_unmask,
        )[self._exchange]
        return make(round, {"place": place})

    def _ask(self) -> Message | None:
        """Return what the computation asks; the terms of this exchange follow from it."""
        if self._fresh:
            found = self.inner.request(self._number)  # also says what the replies look like
            if found is None:
                return None
            if isinstance(found, Mapping):
                raise ParameterError("requests that differ by site have no secure sum")
            self._asked, self._fresh = self._asked or found, False
        assert self._asked is not None
        names, grids = self._layout()
        digest = asked_digest(self._asked, names, grids)
        self._gatherer.terms = self.terms.at(self._number, self._attempt, digest)
        return self._asked

    def _layout(self) -> tuple[list[str], NDArray[np.int64]]:
        """Return the names of what is summed and the grids; refuse what has no secure sum."""
        specs = self.inner.replies
        for name, spec in specs.items():
            if not all(isinstance(n, int) for n in spec.shape):
                raise ParameterError(f"array {name!r} has no fixed shape: it has no secure sum")
            if spec.exponent is None and not spec.dtype.startswith("int"):
                raise ParameterError(
                    f"array {name!r} holds floats on no grid that its spec names: it has no "
                    "secure sum"
                )
        return list(specs), np.array([spec.exponent or 0 for spec in specs.values()])

    def _request_advertise(self, round: int, arrays: dict[str, Any]) -> Message:
        assert self._asked is not None
        names, grids = self._layout()
        digest = np.frombuffer(self._gatherer.terms.digest, np.uint8)
        arrays |= {"terms": digest, "names": as_text(names), "grids": grids}
        arrays |= {f"ask/{name}": array for name, array in self._asked.arrays.items()}
        return Message(round, arrays, self._asked.step)

    def _request_share(self, round: int, arrays: dict[str, Any]) -> Message:
        adverts, terms = self._gatherer.adverts, self._gatherer.terms
        rows = rows_of([adverts[site] for site in sorted(adverts)], ADVERT)
        return Message(round, arrays | {"group": terms.marks(adverts), "adverts": rows})

    def _request_mask(self, round: int, arrays: dict[str, Any]) -> Mapping[str, Message]:
        gatherer = self._gatherer
        marks = gatherer.terms.marks(gatherer.boxes)
        found = {}
        for site in gatherer.boxes:
            boxes = gatherer.boxes_for(site)
            rows = rows_of([boxes[sender] for sender in sorted(boxes)], BOX)
            found[site] = Message(round, arrays | {"group": marks, "boxes": rows})
        return found

    def _request_confirm(self, round: int, arrays: dict[str, Any]) -> Message:
        return Message(round, arrays | {"group": self.terms.marks(self._gatherer.masked)})

    def _request_unmask(self, round: int, arrays: dict[str, Any]) -> Message:
        found = self._gatherer.signatures
        rows = rows_of([found[site] for site in sorted(found)], SIGNATURE)
        return Message(round, arrays | {"group": self.terms.marks(found), "signatures": rows})

    # -- what may come back -----------------------------------------------------------------

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """The spec of the exchange that was asked for last."""
        if self._opened:
            return self.inner.replies
        exchange, sites = EXCHANGES[self._exchange], len(self.terms.sites)
        if exchange == "advertise":
            return {"advert": ArraySpec((ADVERT,), "uint8")}
        if exchange == "share":
            return {
                "commitment": ArraySpec((COMMITMENT,), "uint8"),
                "boxes": ArraySpec((len(self._gatherer.adverts), BOX), "uint8"),
            }
        if exchange == "mask":
            length = sum(math.prod(spec.fixed) for spec in self.inner.replies.values())
            return {
                "masked": ArraySpec((length,), SIGNED[self.terms.bits].name),
                "accused": ArraySpec((sites,), "bool"),
            }
        if exchange == "confirm":
            return {"signature": ArraySpec((SIGNATURE,), "uint8")}
        return {"shares": ArraySpec((len(self._gatherer.boxes), SHARE_BYTES), "uint8")}

    def check(self, site: str, reply: Message) -> None:
        """Raise `SiteFailure` where a reply breaks the protocol: that is its sender's fault."""
        if self._opened:
            self.inner.check(site, reply)
        elif "advert" in reply.arrays:
            self._gatherer.check_advert(site, reply["advert"].tobytes())
        elif "signature" in reply.arrays:
            self._gatherer.check_signature(site, reply["signature"].tobytes())
        elif "shares" in reply.arrays:
            self._gatherer.check_shares(site, self._shown(reply))

    def _shown(self, reply: Message) -> dict[str, bytes]:
        order = sorted(self._gatherer.boxes)
        return {sender: reply["shares"][k].tobytes() for k, sender in enumerate(order)}

    @property
    def remark(self) -> str:
        """Say that a list which sites may have confirmed can only be finished."""
        if self._opened or EXCHANGES[self._exchange] not in ("confirm", "unmask"):
            return ""
        names = ", ".join(sorted(self._gatherer.masked))
        return (
            f". The list of this sum was given out to be confirmed ({names}): it goes on when "
            f"{self.terms.threshold} of them are back, and is lost without them"
        )

    def faults(self) -> Mapping[str, str]:
        """Return whom the last exchange showed at fault."""
        return self._faulty

    # -- what is made of it -------------------------------------------------------------------

    def absorb(self, round: int, collected: Collected) -> None:
        """Take in an exchange; after the last one hand the sum on."""
        self._faulty = {}
        if round < self.inner.open_rounds:
            self.inner.absorb(round, collected)
            self._ready = round + 1 == self.inner.open_rounds
            return
        assert collected.by_site is not None
        getattr(self, f"_take_{EXCHANGES[self._exchange]}")(collected.by_site)

    def _take_advertise(self, replies: Mapping[str, Message]) -> None:
        self._gatherer.take_adverts({s: r["advert"].tobytes() for s, r in replies.items()})
        self._exchange = 1

    def _take_share(self, replies: Mapping[str, Message]) -> None:
        group = sorted(self._gatherer.adverts)
        shares = {
            site: (
                reply["commitment"].tobytes(),
                {other: reply["boxes"][k].tobytes() for k, other in enumerate(group)},
            )
            for site, reply in replies.items()
        }
        self._gatherer.take_shares(shares)
        self._exchange = 2

    def _take_mask(self, replies: Mapping[str, Message]) -> None:
        ring, gatherer = np.dtype(f"uint{self.terms.bits}"), self._gatherer
        accused = {site: self.terms.marked(reply["accused"]) for site, reply in replies.items()}
        gatherer.take_masked({s: r["masked"].view(ring) for s, r in replies.items()}, accused)
        self._exchange = 3
        if gatherer.faulty:  # nobody has confirmed: without them all is tried again
            reason = "sent shares that too many sites could not open"
            self._faulty = dict.fromkeys(gatherer.faulty, reason)
            self._attempt, self._exchange = self._attempt + 1, 0
            self._gatherer = Gatherer(self.terms, self.partners)

    def _take_confirm(self, replies: Mapping[str, Message]) -> None:
        self._gatherer.take_signatures({s: r["signature"].tobytes() for s, r in replies.items()})
        self._exchange = 4

    def _take_unmask(self, replies: Mapping[str, Message]) -> None:
        gatherer = self._gatherer
        total = self._named(gatherer.total({s: self._shown(r) for s, r in replies.items()}))
        arrived, number = gatherer.terms.enough(gatherer.masked, "unmask"), self._number
        self._number, self._attempt, self._exchange = number + 1, 0, 0
        self._gatherer, self._asked = Gatherer(self.terms, self.partners), None
        self._fresh = True
        self.inner.absorb(number, Collected(arrived, total, None))

    def _named(self, total: NDArray[Any]) -> dict[str, Any]:
        """Cut the sum into its arrays."""
        found, start = {}, 0
        for name, spec in self.inner.replies.items():
            shape = spec.fixed
            part = total[start : start + math.prod(shape)].astype(np.int64).reshape(shape)
            start += math.prod(shape)
            whole = np.issubdtype(np.dtype(spec.dtype), np.integer)
            found[name] = part if whole else np.ldexp(part.astype(float), spec.exponent or 0)
        return found

    # -- resuming ---------------------------------------------------------------------------

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the computation's state and what the exchanges gave so far.

        What is asked next is part of it: a resumed run is bound to the same, and computes nothing
        again.
        """
        if self._ready:
            self._ask()
        kept = {f"inner/{n}": a for n, a in self.inner.state().items()}
        kept |= {f"gatherer/{n}": a for n, a in self._gatherer.state().items()}
        kept["place"] = np.array([self._number, self._attempt, self._exchange])
        if self._ready:
            kept["ready"] = np.array([True])
        if self._asked is not None:
            kept["asked"] = np.frombuffer(self._asked.to_bytes(), np.uint8)
        return kept

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state."""
        parts = by_kind(state)
        self.inner.restore(parts.get("inner", {}))
        self._number, self._attempt, self._exchange = (int(n) for n in state["place"])
        self._asked = Message.from_bytes(state["asked"].tobytes()) if "asked" in state else None
        self._fresh, self._ready = True, "ready" in state
        self._gatherer = Gatherer(self.terms, self.partners)
        self._gatherer.restore(parts.get("gatherer", {}))
