"""Secure aggregation around any joint computation: each round becomes four of `tacit.rounds`.

`SecureCoordinator` and `SecureParticipant` wrap the two sides of a computation whose coordinator
uses sums only. They exchange named arrays like any other pair, so every transport, checkpoint and
outbox works as it is; a resumed exchange repeats the bytes of the first time.

Floats are taken for whole numbers of a grid step, and must be such: a sum of shares that were
rounded one by one is no function of the sum. Values wrap around modulo 2^bits, so the caller
chooses bits with room for the sum; no value is looked at to tell.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError
from tacit.federation.secure.arrays import SIGNED, as_text, by_kind, rows_of
from tacit.federation.secure.exchange import ADVERT, COMMITMENT, SEALED, Gatherer, Terms
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
    sites
        The names of all sites.
    threshold
        How many sites must see each aggregation through.
    run
        A name that no other run of these sites has.
    bits
        The ring.
    """

    def __init__(
        self,
        inner: Coordinator,
        sites: Collection[str],
        *,
        threshold: int,
        run: str,
        bits: int = 64,
    ) -> None:
        self.inner, self.sites, self.run = inner, tuple(sorted(sites)), run
        self.threshold, self.bits = threshold, bits
        self._gatherer = Gatherer(self._terms(0))
        self._asked: Message | None = None

    def _terms(self, inner_round: int) -> Terms:
        session = hashlib.sha256(f"{self.run}/{inner_round}".encode()).digest()
        return Terms(session, self.sites, self.threshold, self.bits)

    # -- what is asked ----------------------------------------------------------------------

    def _place(self, round: int) -> tuple[int, int]:
        """Return the computation's round and the exchange that a round is."""
        number, exchange = divmod(round - self.inner.open_rounds, 4)
        return number + self.inner.open_rounds, exchange

    def request(self, round: int) -> Message | None:
        """Return the request of an exchange."""
        if round < self.inner.open_rounds:
            self._exchange = None
            return self.inner.request(round)
        number, exchange = self._place(round)
        gatherer = self._gatherer
        gatherer.terms = self._terms(number)  # a restored one does not know its round
        self._exchange = exchange
        if exchange == 0:
            asked = self.inner.request(number)
            if asked is None:
                return None
            self._asked = asked
            self._length()  # refuses what has no secure sum
            gatherer = self._gatherer = Gatherer(self._terms(number))
            terms = np.array([gatherer.terms.threshold, gatherer.terms.bits])
            session = np.frombuffer(gatherer.terms.session, np.uint8)
            return Message(
                round, {"sites": as_text(self.sites), "terms": terms, "session": session}
            )
        if exchange == 1:
            group = sorted(gatherer.adverts)
            adverts = rows_of([gatherer.adverts[site] for site in group], ADVERT)
            return Message(round, {"group": as_text(group), "adverts": adverts})
        if exchange == 2:
            if self._asked is None:
                self._asked = self.inner.request(number)
            assert self._asked is not None
            group = sorted(gatherer.boxes)
            boxes = rows_of([self._row(site, group) for site in group], SEALED * len(group))
            arrays: dict[str, NDArray[Any]] = {
                f"ask/{name}": array for name, array in self._asked.arrays.items()
            }
            names = list(self.inner.replies)
            grids = np.array([spec.exponent or 0 for spec in self.inner.replies.values()])
            arrays |= {"group": as_text(group), "boxes": boxes}
            whole = {**arrays, "names": as_text(names), "grids": grids}
            found = Message(round, whole, self._asked.step)
            gatherer.asked = found.digest
            return found
        return Message(round, {"arrived": as_text(sorted(gatherer.masked))})

    def _row(self, sender: str, group: list[str]) -> bytes:
        boxes = self._gatherer.boxes[sender]
        return b"".join(boxes.get(receiver, bytes(SEALED)) for receiver in group)

    # -- what may come back -----------------------------------------------------------------

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """The spec of the exchange that was asked for last."""
        if self._exchange is None:
            return self.inner.replies
        others = len(self._gatherer.adverts)
        if self._exchange == 0:
            return {"advert": ArraySpec((ADVERT,), "uint8")}
        if self._exchange == 1:
            return {
                "commitment": ArraySpec((COMMITMENT,), "uint8"),
                "boxes": ArraySpec((others, SEALED), "uint8"),
            }
        if self._exchange == 2:
            return {"masked": ArraySpec((self._length(),), SIGNED[self.bits].name)}
        return {"shares": ArraySpec((len(self._gatherer.boxes), 66), "uint8")}

    def _length(self) -> int:
        total = 0
        for name, spec in self.inner.replies.items():
            if not all(isinstance(n, int) for n in spec.shape):
                raise ParameterError(f"array {name!r} has no fixed shape: it has no secure sum")
            if spec.exponent is None and not spec.dtype.startswith("int"):
                raise ParameterError(
                    f"array {name!r} holds floats on no grid that its spec names: it has no "
                    "secure sum"
                )
            total += math.prod(spec.fixed)
        return total

    def absorb(self, round: int, collected: Collected) -> None:
        """Take in an exchange; after the last one hand the sum on."""
        if round < self.inner.open_rounds:
            self.inner.absorb(round, collected)
            return
        number, exchange = self._place(round)
        replies = collected.by_site
        assert replies is not None
        gatherer = self._gatherer
        if exchange == 0:
            gatherer.take_adverts({s: r["advert"].tobytes() for s, r in replies.items()})
        elif exchange == 1:
            group = sorted(gatherer.adverts)
            gatherer.take_shares(
                {
                    site: (
                        reply["commitment"].tobytes(),
                        {other: reply["boxes"][k].tobytes() for k, other in enumerate(group)},
                    )
                    for site, reply in replies.items()
                }
            )
        elif exchange == 2:
            ring = np.dtype(f"uint{self.bits}")
            gatherer.take_masked({s: r["masked"].view(ring) for s, r in replies.items()})
        else:
            group = sorted(gatherer.boxes)
            total = gatherer.total(
                {
                    helper: {site: reply["shares"][k].tobytes() for k, site in enumerate(group)}
                    for helper, reply in replies.items()
                }
            )
            arrived = tuple(sorted(gatherer.masked))
            self._gatherer, self._asked = Gatherer(self._terms(number + 1)), None
            self.inner.absorb(number, Collected(arrived, self._named(total), None))

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
        """Return the computation's state and what the exchanges gave so far."""
        gatherer = self._gatherer
        kept: dict[str, NDArray[Any]] = {f"inner/{n}": a for n, a in self.inner.state().items()}
        kept["adverts"] = as_text(sorted(gatherer.adverts))
        kept["asked"] = np.frombuffer(gatherer.asked, np.uint8)
        for site, advert in gatherer.adverts.items():
            kept[f"advert/{site}"] = np.frombuffer(advert, np.uint8)
        for site, boxes in gatherer.boxes.items():
            row = b"".join(boxes[other] for other in sorted(gatherer.adverts))
            kept[f"boxes/{site}"] = np.frombuffer(gatherer.commitments[site] + row, np.uint8)
        for site, masked in gatherer.masked.items():
            kept[f"masked/{site}"] = masked.view(SIGNED[self.bits])
        return kept

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state."""
        gatherer, parts = self._gatherer, by_kind(state)
        self.inner.restore(parts.get("inner", {}))
        gatherer.adverts = {s: a.tobytes() for s, a in parts.get("advert", {}).items()}
        gatherer.asked = state["asked"].tobytes()
        group = sorted(gatherer.adverts)
        for site, array in parts.get("boxes", {}).items():
            data = array.tobytes()
            gatherer.commitments[site] = data[:COMMITMENT]
            rows = data[COMMITMENT:]
            gatherer.boxes[site] = {
                other: rows[k * SEALED : (k + 1) * SEALED] for k, other in enumerate(group)
            }
        ring = np.dtype(f"uint{self.bits}")
        gatherer.masked = {s: a.view(ring) for s, a in parts.get("masked", {}).items()}

    _exchange: int | None = 0
