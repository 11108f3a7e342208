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
import json
import math
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, check
from tacit.errors import ParameterError, SiteFailure
from tacit.federation.secure import ADVERT, COMMITMENT, SEALED, Gatherer, Member, Terms
from tacit.rounds.aggregate import Aggregator
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.protocol import Collected, Coordinator, Participant

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["EXCHANGES", "SecureAggregator", "SecureCoordinator", "SecureParticipant"]

EXCHANGES = ("advertise", "share", "mask", "unmask")
_SIGNED: dict[int, Any] = {32: np.dtype(np.int32), 64: np.dtype(np.int64)}


def whole_numbers(array: NDArray[Any], exponent: int) -> NDArray[np.int64]:
    """Return an array in steps of 2^exponent, flat; integers are their own steps.

    >>> whole_numbers(np.array([0.5, -1.0]), -1).tolist()
    [1, -2]
    """
    if np.issubdtype(array.dtype, np.integer):
        return array.astype(np.int64).ravel()
    steps = np.ldexp(array, -exponent).ravel()
    found: NDArray[np.int64] = np.rint(steps).astype(np.int64)
    if not (found == steps).all():
        raise SiteFailure(f"values are no multiples of 2^{exponent}")
    return found


def _text(names: Collection[str]) -> NDArray[np.uint8]:
    return np.frombuffer(json.dumps(list(names)).encode(), np.uint8)


def _names(array: NDArray[Any]) -> tuple[str, ...]:
    found = json.loads(array.tobytes())
    if not isinstance(found, list) or not all(isinstance(name, str) for name in found):
        raise SiteFailure("a list of sites cannot be read")
    return tuple(found)


def _bytes(parts: Collection[bytes], width: int) -> NDArray[np.uint8]:
    return np.frombuffer(b"".join(parts), np.uint8).reshape(len(parts), width)


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

    def request(self, round: int) -> Message | None:
        """Return the request of an exchange."""
        number, exchange = divmod(round, 4)
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
            return Message(round, {"sites": _text(self.sites), "terms": terms, "session": session})
        if exchange == 1:
            group = sorted(gatherer.adverts)
            adverts = _bytes([gatherer.adverts[site] for site in group], ADVERT)
            return Message(round, {"group": _text(group), "adverts": adverts})
        if exchange == 2:
            if self._asked is None:
                self._asked = self.inner.request(number)
            assert self._asked is not None
            group = sorted(gatherer.boxes)
            boxes = _bytes([self._row(site, group) for site in group], SEALED * len(group))
            arrays: dict[str, NDArray[Any]] = {
                f"ask/{name}": array for name, array in self._asked.arrays.items()
            }
            names = list(self.inner.replies)
            grids = np.array([spec.exponent or 0 for spec in self.inner.replies.values()])
            arrays |= {"group": _text(group), "boxes": boxes}
            return Message(round, {**arrays, "names": _text(names), "grids": grids})
        return Message(round, {"arrived": _text(sorted(gatherer.masked))})

    def _row(self, sender: str, group: list[str]) -> bytes:
        boxes = self._gatherer.boxes[sender]
        return b"".join(boxes.get(receiver, bytes(SEALED)) for receiver in group)

    # -- what may come back -----------------------------------------------------------------

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """The spec of the exchange that was asked for last."""
        others = len(self._gatherer.adverts)
        if self._exchange == 0:
            return {"advert": ArraySpec((ADVERT,), "uint8")}
        if self._exchange == 1:
            return {
                "commitment": ArraySpec((COMMITMENT,), "uint8"),
                "boxes": ArraySpec((others, SEALED), "uint8"),
            }
        if self._exchange == 2:
            return {"masked": ArraySpec((self._length(),), _SIGNED[self.bits].name)}
        return {"shares": ArraySpec((len(self._gatherer.boxes), 66), "uint8")}

    def _length(self) -> int:
        total = 0
        for name, spec in self.inner.replies.items():
            if None in spec.shape:
                raise ParameterError(f"array {name!r} has no fixed shape: it has no secure sum")
            if spec.exponent is None and not spec.dtype.startswith("int"):
                raise ParameterError(
                    f"array {name!r} holds floats on no grid that its spec names: it has no "
                    "secure sum"
                )
            total += math.prod(n for n in spec.shape if n is not None)
        return total

    def absorb(self, round: int, collected: Collected) -> None:
        """Take in an exchange; after the last one hand the sum on."""
        number, exchange = divmod(round, 4)
        replies = collected.by_site
        assert replies is not None
        gatherer = self._gatherer
        if exchange == 0:
            gatherer.take_adverts({s: r["advert"].tobytes() for s, r in replies.items()})
        elif exchange == 1:
            group = sorted(gatherer.adverts)
            gatherer.take_shares({
                site: (
                    reply["commitment"].tobytes(),
                    {other: reply["boxes"][k].tobytes() for k, other in enumerate(group)},
                )
                for site, reply in replies.items()
            })  # fmt: skip
        elif exchange == 2:
            ring = np.dtype(f"uint{self.bits}")
            gatherer.take_masked({s: r["masked"].view(ring) for s, r in replies.items()})
        else:
            group = sorted(gatherer.boxes)
            total = gatherer.total({
                helper: {site: reply["shares"][k].tobytes() for k, site in enumerate(group)}
                for helper, reply in replies.items()
            })  # fmt: skip
            arrived = tuple(sorted(gatherer.masked))
            self._gatherer, self._asked = Gatherer(self._terms(number + 1)), None
            self.inner.absorb(number, Collected(arrived, self._named(total), None))

    def _named(self, total: NDArray[Any]) -> dict[str, Any]:
        """Cut the sum into its arrays."""
        found, start = {}, 0
        for name, spec in self.inner.replies.items():
            shape = tuple(n for n in spec.shape if n is not None)
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
        kept["adverts"] = _text(sorted(gatherer.adverts))
        for site, advert in gatherer.adverts.items():
            kept[f"advert/{site}"] = np.frombuffer(advert, np.uint8)
        for site, boxes in gatherer.boxes.items():
            row = b"".join(boxes[other] for other in sorted(gatherer.adverts))
            kept[f"boxes/{site}"] = np.frombuffer(gatherer.commitments[site] + row, np.uint8)
        for site, masked in gatherer.masked.items():
            kept[f"masked/{site}"] = masked.view(_SIGNED[self.bits])
        return kept

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state."""
        gatherer, parts = self._gatherer, _by_kind(state)
        self.inner.restore(parts.get("inner", {}))
        gatherer.adverts = {s: a.tobytes() for s, a in parts.get("advert", {}).items()}
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

    _exchange = 0


def _by_kind(state: Mapping[str, NDArray[Any]]) -> dict[str, dict[str, NDArray[Any]]]:
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in state.items():
        kind, _, rest = name.partition("/")
        found.setdefault(kind, {})[rest] = array
    return found


class SecureParticipant(Participant):
    """A site that answers under masks.

    Parameters
    ----------
    inner
        The computation's participant.
    minimum
        The fewest sites among which this one hides; fewer are refused.
    identity, partners
        As in `tacit.federation.secure.Member`.
    """

    def __init__(
        self,
        inner: Participant,
        *,
        minimum: int = 3,
        identity: bytes | None = None,
        partners: Mapping[str, bytes] | None = None,
    ) -> None:
        check("minimum", minimum, Integer(2))
        self.inner, self.name, self.minimum = inner, inner.name, minimum
        self._identity, self._partners = identity, partners
        self._member: Member | None = None

    def respond(self, request: Message) -> Message:
        """Take one step of the exchange."""
        number, exchange = divmod(request.round, 4)
        if exchange == 0:
            threshold, bits = (int(n) for n in request["terms"])
            sites = _names(request["sites"])
            if threshold < self.minimum:
                raise SiteFailure(
                    f"a sum over {threshold} sites would be revealed, and {self.name!r} asks for "
                    f"at least {self.minimum}"
                )
            terms = Terms(request["session"].tobytes(), sites, threshold, bits)
            self._member = Member(self.name, terms, self._identity, self._partners)
            advert = np.frombuffer(self._member.advertise(), np.uint8)
            return Message(request.round, {"advert": advert})
        member = self._member
        if member is None:
            raise SiteFailure(f"asked to {EXCHANGES[exchange]} before any keys were advertised")
        if exchange == 1:
            group = _names(request["group"])
            adverts = dict(zip(group, (a.tobytes() for a in request["adverts"]), strict=True))
            commitment, boxes = member.share(adverts)
            rows = [boxes.get(other, bytes(SEALED)) for other in group]
            return Message(request.round, {
                "commitment": np.frombuffer(commitment, np.uint8), "boxes": _bytes(rows, SEALED),
            })  # fmt: skip
        if exchange == 2:
            masked = member.mask(self._boxes(request), self._values(number, request))
            return Message(request.round, {"masked": masked.view(_SIGNED[member.terms.bits])})
        revealed = member.unmask(_names(request["arrived"]))
        parts = [revealed[site] for site in sorted(revealed)]
        return Message(request.round, {"shares": _bytes(parts, 66)})

    def _boxes(self, request: Message) -> dict[str, bytes]:
        group = _names(request["group"])
        at = group.index(self.name) if self.name in group else -1
        if at < 0 or request["boxes"].shape != (len(group), SEALED * len(group)):
            raise SiteFailure("the sealed shares do not fit this session")
        column = request["boxes"][:, at * SEALED : (at + 1) * SEALED]
        return {s: column[k].tobytes() for k, s in enumerate(group) if s != self.name}

    def _values(self, number: int, request: Message) -> NDArray[np.int64]:
        """Ask the computation, and return its arrays as one vector of whole numbers."""
        asked = {n[4:]: a for n, a in request.arrays.items() if n.startswith("ask/")}
        reply = self.inner.respond(Message(number, asked))
        names, grids = _names(request["names"]), request["grids"]
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
                "sites": _text(terms.sites),
                "keys": np.frombuffer(member.sealing + member.masking + member.seed, np.uint8),
            }
            kept |= {f"advert/{s}": np.frombuffer(a, np.uint8) for s, a in member.adverts.items()}
            kept |= {f"held/{s}": np.frombuffer(a, np.uint8) for s, a in member.held.items()}
        return kept

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state."""
        parts = _by_kind(state)
        self.inner.restore(parts.get("inner", {}))
        self._member = None
        if "keys" in state:
            threshold, bits, done = (int(n) for n in state["terms"])
            terms = Terms(state["session"].tobytes(), _names(state["sites"]), threshold, bits)
            member = Member(self.name, terms, self._identity, self._partners)
            keys = state["keys"].tobytes()
            member.sealing, member.masking, member.seed = keys[:32], keys[32:64], keys[64:]
            member.adverts = {s: a.tobytes() for s, a in parts.get("advert", {}).items()}
            member.held = {s: a.tobytes() for s, a in parts.get("held", {}).items()}
            member.done = done
            self._member = member


class SecureAggregator(Aggregator):
    """The whole protocol within one process, in place of `tacit.rounds.aggregate.SumAggregator`.

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
        from tacit.rounds.inprocess import run

        specs = {
            name: ArraySpec(array.shape, array.dtype.name, exponent=self.grids.get(name))
            for name, array in next(iter(replies.values())).arrays.items()
        }
        once = _Once(specs)
        secure = SecureCoordinator(
            once, list(replies), threshold=self.threshold, run=f"in process {self.rounds}",
            bits=self.bits,
        )  # fmt: skip
        self.rounds += 1
        run(secure, [SecureParticipant(_Holds(n, m), minimum=2) for n, m in replies.items()])
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
