"""`Asking`: the coordinator of any agreement, made of the generator that its family writes.

The seed of the generator's own randomness is kept before the first message. A run that died is
taken up by feeding the totals that were recorded into a fresh generator, which then goes on; runs
with many rounds yield ``Ask(…, keep=state)`` and start from the last state that was kept. What was
asked is sent again as the bytes that were kept (`tacit.rounds.checkpoint`), never recomputed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError, SiteFailure
from tacit.estimators.agreement import Agreement, Ask, Start
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.sides import Collected, Coordinator

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Asking"]


class Asking(Coordinator):
    """Drives an agreement's generator.

    Parameters
    ----------
    agreement
        What is public.
    seed
        Of the generator's randomness.

    Attributes
    ----------
    result
        What the generator returned; None before that.
    """

    def __init__(self, agreement: Agreement, seed: int) -> None:
        self.agreement, self.seed = agreement, seed
        self.open_rounds = agreement.open_rounds
        self.result: Any = None
        self._kept: Mapping[str, Any] | None = None
        self._heard: list[Collected] = []  # since what was kept
        self._begin()

    def _begin(self) -> None:
        self._running = self.agreement.coordinate(Start(self.seed, self._kept))
        self._ask: Ask | None = None
        self._next(None)

    def _next(self, heard: Collected | None) -> None:
        """Let the generator go on to its next question."""
        try:
            self._ask = next(self._running) if heard is None else self._running.send(heard)
        except StopIteration as stop:
            self._ask, self.result = None, stop.value
            return
        if self._ask.keep is not None:
            self._kept, self._heard = dict(self._ask.keep), []

    def request(self, round: int) -> Message | None:
        """Return what the generator asks, or None when it has returned."""
        if self._ask is None:
            return None
        ask, step = self._ask, self.agreement.step(self._ask.step)
        arrays = {name: np.asarray(array) for name, array in ask.arrays.items()}
        if step.kinds:
            arrays["kind"] = np.array([list(step.kinds).index(str(ask.kind))], np.int64)
        request = Message(round, arrays, step.name)
        self._specs = step.resolved(step.read(request).sizes)
        return request

    def stop(self) -> None:
        """Tell the generator, by hearing nothing, to come to an end with what it has."""
        if not self.agreement.stoppable:
            super().stop()
        if self._ask is not None:
            self._next(None)

    @property
    def heard(self) -> tuple[Mapping[str, Any], ...]:
        """What was told of every round since the last that was kept: all of it was released."""
        found = [dict(one.total) for one in self._heard]
        for arrays, one in zip(found, self._heard, strict=True):
            for site, reply in (one.by_site or {}).items():
                arrays |= {f"{site}/{name}": array for name, array in reply.arrays.items()}
        return tuple(found)

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """What every reply must hold, by the request's sizes."""
        return self._specs

    def absorb(self, round: int, collected: Collected) -> None:
        """Hand the replies to the generator."""
        self._heard.append(collected)
        self._next(collected)

    # -- resuming --------------------------------------------------------------------------

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return the seed, what was kept, and every total since: all of it was released."""
        note: dict[str, Any] = {
            "seed": self.seed,
            "digest": self.agreement.digest,
            "kept": self._kept is not None,
            "heard": [],
        }
        found: dict[str, NDArray[Any]] = {}
        for name, array in (self._kept or {}).items():
            found[f"kept/{name}"] = np.asarray(array)
        for k, collected in enumerate(self._heard):
            apart = collected.by_site is not None
            note["heard"].append([list(collected.sites), apart])
            for name, array in collected.total.items():
                found[f"total/{k}/{name}"] = array
            for number, site in enumerate(collected.sites if apart else ()):
                assert collected.by_site is not None
                for name, array in collected.by_site[site].arrays.items():
                    found[f"site/{k}/{number}/{name}"] = array
        return found | {"note": np.frombuffer(json.dumps(note).encode(), np.uint8)}

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go through what was heard again, from the last state that was kept."""
        note = json.loads(state["note"].tobytes())
        if note["digest"] != self.agreement.digest:
            raise ParameterError(
                "the checkpoint is of a fit with other settings, sizes or sites: use those, or "
                "another folder"
            )
        self.seed, self._heard = int(note["seed"]), []
        self._kept = _under("kept/", state) if note["kept"] else None
        self._begin()
        for k, (sites, apart) in enumerate(note["heard"]):
            if self._ask is None:
                raise SiteFailure("the checkpoint holds more rounds than there are")
            step = self._ask.step
            by_site = {
                site: Message(0, _under(f"site/{k}/{number}/", state), step)
                for number, site in enumerate(sites)
            }
            self.absorb(
                k,
                Collected(tuple(sites), _under(f"total/{k}/", state), by_site if apart else None),
            )


def _under(start: str, state: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name.removeprefix(start): a for name, a in state.items() if name.startswith(start)}
