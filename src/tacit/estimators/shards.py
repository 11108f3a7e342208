"""`Holder`: a site's side of any agreement, and how its shards become one value.

A family writes `contribute`, and `settle` where it keeps something between rounds. Everything
that every family needs is here, once: requests are checked against the step and taken in order,
the secret sample is drawn, contributions of shards are merged, the gate releases, and the last
reply is remembered. What a request may not hold is refused before any numerics, and a refusal is
made from the request alone.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

import numpy as np

from tacit.errors import NothingReleased, ParameterError, RequestRefused
from tacit.estimators.agreement import Agreement, Asked, Step
from tacit.estimators.executors import Loaded
from tacit.estimators.gate import Gate
from tacit.mechanisms.base import Mechanism
from tacit.privacy.events import DpEvent
from tacit.rounds.messages import ArraySpec, Message, check_arrays
from tacit.rounds.sides import Participant

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Contribution", "Holder", "Kept", "Order", "Picks", "merged"]

Kept: TypeAlias = Mapping[str, Any]  # what a site keeps between rounds, by name
Picks: TypeAlias = "NDArray[np.int64]"  # which units of a shard are in a sample
_ALL = None  # of a shard's units


class Order:
    """Which step may be asked next; requests are taken strictly one after the other.

    Parameters
    ----------
    steps
        The agreement's, in order.
    """

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)
        self.round = 0  # the next one
        self.at = 0  # the step that was asked last, or is due first
        self.used = 0  # how often it was

    def admit(self, round: int, name: str) -> tuple[Step, int]:
        """Return the step that a request may ask for, and the how-manieth time it is.

        Nothing changes until `advance`.
        """
        if round != self.round:
            raise RequestRefused(
                f"round {round} was asked for where round {self.round} is next", "order"
            )
        for k in range(self.at, len(self._steps)):
            step, used = self._steps[k], self.used if k == self.at else 0
            if step.name == name and used < step.times:
                return step, used
            if not (used or step.optional):
                break
        raise RequestRefused("this step is not the one that is next", "order")

    def advance(self, step: Step) -> None:
        """Note that a step is being answered."""
        k = self._steps.index(step)
        self.used = self.used + 1 if k == self.at else 1
        self.at, self.round = k, self.round + 1


def merged(how: str, parts: Iterable[Any]) -> Any:
    """Return the contributions of shards as one value, the same whatever the shards are."""
    if how == "sum":
        return reduce(add, parts)  # as they come: one is in memory at a time
    every = list(parts)
    if isinstance(every[0], list):  # one entry per unit
        return [entry for part in every for entry in part]
    whole = every[0] if len(every) == 1 else np.concatenate(every)
    return np.sort(whole) if how == "values" else whole


@dataclass(frozen=True, eq=False)
class Contribution:
    """What a step asks of a shard, wherever that is: a function that can be sent there.

    It has what is public, what the request holds and what the site keeps; no data, noise or
    ledger.
    """

    hand: Holder
    step: str
    asked: Asked
    kept: Mapping[str, Any]

    def __call__(self, shard: Any, given: tuple[int, Any]) -> Any:
        """Return what the sampled units of a shard contribute; all of them without a sample.

        ``given`` is how many units the shard held when it was looked at, and the sample.
        """
        units, picks = given
        if self.hand.units(shard) != units:
            raise NothingReleased("the data of a shard changed during the run")
        chosen = np.arange(units) if picks is _ALL else picks
        step = self.hand.agreement.step(self.step)
        return self.hand.contribute(step, self.asked, self.kept, shard, chosen)


class Holder(Participant):
    """A site's side.

    Parameters
    ----------
    agreement
        What is public.
    name
        The site.
    shards
        The parts of its data, each unit in one of them; or where these are (`Loaded`).
    gate
        The only way out.
    """

    _travels: ClassVar[tuple[str, ...]] = ()  # public attributes that contributing needs

    def __init__(
        self, agreement: Agreement, name: str, shards: Sequence[Any] | Loaded, gate: Gate
    ) -> None:
        self.agreement, self.name, self.gate = agreement, name, gate
        self._loaded = shards if isinstance(shards, Loaded) else None  # they are elsewhere
        self.shards = () if isinstance(shards, Loaded) else tuple(shards)
        self.kept: dict[str, Any] = {}
        self._order = Order(agreement.steps)
        self._last: tuple[Message, Message] | None = None
        self.open_rounds = agreement.open_rounds

    # -- what a family writes --------------------------------------------------------------

    @abstractmethod
    def contribute(
        self,
        step: Step,
        asked: Asked,
        kept: Mapping[str, Any],
        shard: Any,
        picks: NDArray[np.int64],
    ) -> Any:
        """Return what the sampled units of one shard contribute to a step.

        Each unit's contribution is a function of that unit, of the request and of what was
        released; for ``"sum"`` it is whole numbers on the mechanism's grid.
        """

    def settle(self, step: Step, asked: Asked, released: Any, kept: dict[str, Any]) -> None:
        """Keep something for later rounds: a function of the shards and of what was released."""

    def sends(self, step: Step, asked: Asked, released: Any) -> Mapping[str, Any]:
        """Return the reply's arrays: the release under its one name, unless a family says."""
        (name,) = step.leaving
        return {name: released}

    def mechanism(self, step: Step, value: Any) -> Mechanism | None:
        """Return the step's mechanism for this site's own sizes; None: as agreed."""
        return None

    def units(self, shard: Any) -> int:
        """Return how many units a shard holds; needed where they are sampled."""
        return 0

    def contributions(self, shard: Any) -> int:
        """Return how many bounded parts a shard adds to a sum: its units, unless a family says."""
        return self.units(shard)

    @property
    def notes(self) -> tuple[str, ...]:
        """What this holder's certificate lists besides the agreement's assumptions."""
        return ()

    def groups(self) -> Mapping[str, DpEvent]:
        """Return groups of units → everything released, as each of them sees it; public."""
        return {}

    def prepared(self, data: Any) -> Any:
        """Return what is worked on of a part of the data, made once where it stays."""
        return data

    def marks(self, shard: Any) -> NDArray[np.uint64] | None:
        """Return a number of each unit, made of its name, where a sample must not depend on cuts.

        Units are sampled in the order of these numbers; without them, in the order of the shards.
        """
        return None

    def ready(self, shard: Any) -> None:
        """Try what contributing from a shard needs, before anybody pays; nothing, unless said."""

    def completed(self, step: Step, asked: Asked, value: Any) -> Any:
        """Return what is drawn upon, of what all shards contributed: the same, unless said."""
        return value

    # -- what is true of every family ------------------------------------------------------

    @property
    def is_elsewhere(self) -> bool:
        """Whether the data are in shards that are let go again, and nothing is kept of them."""
        return self._loaded is not None

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """Of every shard, how many units it holds and how many parts it adds to a sum."""
        if self._loaded is not None:
            return self._loaded.sizes
        return tuple((self.units(shard), self.contributions(shard)) for shard in self.shards)

    def hand(self) -> Self:
        """Return what contributes elsewhere: what is public, without data, noise and ledger."""
        made = type(self).__new__(type(self))
        made.agreement, made.name, made.shards, made.kept = self.agreement, self.name, (), {}
        made._loaded = None
        for name in self._travels:
            setattr(made, name, getattr(self, name))
        return made

    def check_room(self) -> None:
        """Raise where 64-bit sums could overflow, before anybody is charged or asked.

        Each part is bounded by the sensitivity, so that their number alone decides.
        """
        parts = sum(parts for _, parts in self.sizes)
        for step in self.agreement.steps:
            for kind in ("", *step.kinds):
                drawn = step.mechanism_of(kind)
                room = getattr(getattr(drawn, "mechanism", drawn), "room", None)
                if room is not None and step.merge_of(kind) == "sum" and parts > room:
                    raise ParameterError(
                        f"{parts:,} contributions are more than the {room:,} that a sum with this "
                        "little noise has room for: ask for a smaller epsilon, or make several "
                        "sites of the data"
                    )

    def respond(self, request: Message) -> Message:
        """Answer one request, or refuse it before any numerics."""
        if self._last is not None and request.round == self._last[1].round:
            if request.digest != self._last[0].digest:
                raise RequestRefused(
                    f"round {request.round} was answered already, to another request", "order"
                )
            return self._last[1]
        step, position = self._order.admit(request.round, request.step)
        asked = step.read(request)
        self._order.advance(step)
        self.gate.attempt = self.attempt
        reply = Message(request.round, self._answer(step, asked, position), step.name)
        self._last = request, reply  # a digest is made only where a request is repeated
        return reply

    def leaving(self, request: Message) -> dict[str, ArraySpec]:
        """Return what would leave in answer to a request; nothing is computed."""
        step = self.agreement.step(request.step)
        return step.resolved(step.read(request).sizes)

    def _answer(self, step: Step, asked: Asked, position: int) -> dict[str, NDArray[Any]]:
        if step.view_of is not None:
            released = self._look(self.agreement.step(step.view_of), asked)
        elif step.open is not None:
            value = self._merged(step, asked)
            arrays = self.gate.open(step, self.sends(step, asked, value))
            self.settle(step, asked, value, self.kept)
            return self._checked(step, asked, arrays)
        else:
            value = self._merged(step, asked, self._picks(step))
            own = self.mechanism(step, value) or step.mechanism_of(asked.kind)
            released = self.gate.release(step, value, position, own)
            self.settle(step, asked, released, self.kept)
        return self._checked(step, asked, self.sends(step, asked, released))

    def _picks(self, step: Step) -> Sequence[NDArray[np.int64]] | None:
        """Return the sample of every shard's units: one sample of all, cut at the shards."""
        if not self.gate.samples(step):
            return None
        ends = np.cumsum([0, *(units for units, _ in self.sizes)])
        picks = self.gate.sample(step, int(ends[-1]))
        if self._loaded is not None and self._loaded.order is not None:
            picks = np.sort(self._loaded.order[picks])
        cuts = np.searchsorted(picks, ends[1:-1])
        parts = np.split(picks, cuts)
        return [part - start for part, start in zip(parts, ends, strict=False)]

    def _merged(self, step: Step, asked: Asked, picks: Sequence[Any] | None = None) -> Any:
        """Return what all shards contribute; without a sample, of all of their units."""
        if self._loaded is not None:
            work = Contribution(self.hand(), step.name, asked, dict(self.kept))
            chosen = [_ALL] * len(self.sizes) if picks is None else picks
            given = [(units, one) for (units, _), one in zip(self.sizes, chosen, strict=True)]
            parts = self._loaded.executor.each(work, given)
        else:
            own = picks or [np.arange(self.units(shard)) for shard in self.shards]
            parts = (
                self.contribute(step, asked, self.kept, shard, part)
                for shard, part in zip(self.shards, own, strict=True)
            )
        return self.completed(step, asked, merged(step.merge_of(asked.kind), parts))

    def _look(self, first: Step, asked: Asked) -> Any:
        """Return an earlier release again; after a restart it is put together as it was."""
        assert first.mechanism is not None
        nothing = Asked(first.name, "", {}, {})
        return self.gate.standing(
            first.name,
            first.mechanism,
            lambda: self._merged(first, nothing),
        )

    def _checked(
        self, step: Step, asked: Asked, arrays: Mapping[str, Any]
    ) -> dict[str, NDArray[Any]]:
        """Return a reply that is what the step says, or let nothing out."""
        found = {name: np.asarray(array) for name, array in arrays.items()}
        try:
            check_arrays(found, step.resolved(asked.sizes), NothingReleased)
        except NothingReleased as error:
            reason = str(error)  # raised below: it must not travel as context
        else:
            return found
        raise NothingReleased("the answer is not what was agreed on: nothing was released", reason)

    # -- restarts --------------------------------------------------------------------------

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return where in the agreement this site is, and what it keeps; it never leaves."""
        place = np.array([self._order.round, self._order.at, self._order.used])
        return {"place": place} | {f"kept/{name}": array for name, array in self.kept.items()}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Take up a state that `state` returned."""
        order = self._order
        order.round, order.at, order.used = (int(n) for n in state["place"])
        self.kept = {
            name.removeprefix("kept/"): array.copy()
            for name, array in state.items()
            if name.startswith("kept/")
        }
