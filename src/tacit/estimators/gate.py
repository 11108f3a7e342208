"""`Gate`: the only way out of a site.

A gate holds a reservation and a noise source. `Gate.release` draws through `privatize`, which has
the ledger note the claim of the step, by its name and position, before any noise is drawn; equal
events of two steps are not interchangeable. What a standing release needs to be repeated (the key
of an operator's noise) is on disk before its first reply leaves, and is wiped when the run closes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import NothingReleased, ParameterError
from tacit.estimators.steps import Step
from tacit.mechanisms.base import Mechanism, privatize
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.sampled import PoissonSampled
from tacit.privacy.ledger.reservation import Reservation
from tacit.rounds.checkpoint import write_durably
from tacit.rounds.sides import Attempt

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Gate"]

_KEY = 32  # bytes of a key of noise


class Gate:
    """Where values that depend on private data become ones that may leave.

    Parameters
    ----------
    reservation
        Who pays; None where there is nothing to charge.
    noise
        The source of noise and of secret samples.
    folder
        Where keys of standing releases are kept, so that a restarted site repeats them; without
        it they live in this process only.
    """

    def __init__(
        self, reservation: Reservation | None, noise: Noise, folder: Path | None = None
    ) -> None:
        self.reservation, self.noise, self._folder = reservation, noise, folder
        self._standing: dict[str, Any] = {}
        self.drew = False  # whether anything was released here
        self.attempt: Attempt | None = None  # the try that a release is for
        self._before: dict[str, int] = {}

    def before(self, step: str) -> int:
        """Return how often a step was claimed before this site's side was made.

        A process that died claimed it then. The first call looks, before anything is released.
        """
        if step not in self._before:
            held = self.reservation
            self._before[step] = 0 if held is None else held.claimed(step)
        return self._before[step]

    def is_lost(self, step: str, position: int) -> bool:
        """Whether a process that died claimed this draw, and it must not be drawn again."""
        if position >= self.before(step):
            return False
        assert self.reservation is not None
        lost = () if self.attempt is None else self.attempt.lost
        return self.reservation.last_try(step, position) not in lost

    def samples(self, step: Step) -> bool:
        """Whether a step is about a secret sample of the units."""
        return isinstance(step.mechanism, PoissonSampled)

    def sample(self, step: Step, units: int) -> NDArray[np.int64]:
        """Return a fresh secret sample of the units, at the step's rate; all without one."""
        if isinstance(step.mechanism, PoissonSampled):
            return self.noise.sample(units, step.mechanism.rate)
        return np.arange(units, dtype=np.int64)

    def release(
        self, step: Step, value: Any, position: int = 0, mechanism: Mechanism | None = None
    ) -> Any:
        """Claim a step and draw.

        Parameters
        ----------
        step, position
            What is claimed, and the how-manieth time.
        value
            The private value.
        mechanism
            The step's own for a site's sizes, or that of a kind; it must not cost more.
        """
        if step.mechanism is None:
            raise ParameterError(f"step {step.name!r} draws nothing")
        chosen = step.mechanism if mechanism is None else mechanism
        if not step.affords(chosen):
            raise NothingReleased("a mechanism that was not agreed on: nothing was released")
        held, attempt, payer = self.reservation, self.attempt, None
        name, lost = "", tuple[str, ...]()
        if held is not None:
            if attempt is not None:
                name, lost = attempt.name(), attempt.lost
            payer = held.at(
                step.name, position, step.times, step.price, step.part is not None, name, lost
            )
        try:
            released = privatize(chosen, value, ledger=payer, rng=self.noise)
        finally:
            if held is not None and attempt is not None:
                attempt.spent = held.last_try(step.name, position) == name
        self.drew = True
        if hasattr(released, "key"):
            self._keep(step.name, released)
            self._standing[step.name] = released
        return released

    def standing(self, step: str, mechanism: Mechanism, value: Any) -> Any:
        """Return an earlier release of a step for another look; after a restart from its key.

        Parameters
        ----------
        step, mechanism, value
            Of the earlier release.
        """
        if step not in self._standing:
            path = self._path(step)
            if path is None or not path.exists():
                raise NothingReleased("there is no such release to look at")
            kept = path.read_bytes()
            found = mechanism.again(value(), kept[:_KEY])
            if found.fingerprint() != kept[_KEY:]:
                # the same noise on other data would show their difference as it is
                raise NothingReleased("the data are no longer those of the earlier release")
            self._standing[step] = found
        return self._standing[step]

    def holds(self, step: str) -> bool:
        """Whether a step has a standing release in this process or on disk."""
        path = self._path(step)
        return step in self._standing or (path is not None and path.exists())

    def open(self, step: Step, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """Let public arrays out as they are; the step says in words what they are."""
        if step.open is None:
            raise ParameterError(f"step {step.name!r} is not open")
        return arrays

    def close(self) -> None:
        """Forget standing releases and wipe their keys: the run is over."""
        self._standing.clear()
        for path in () if self._folder is None else self._folder.glob("standing-*"):
            path.write_bytes(bytes(path.stat().st_size))
            path.unlink()

    def _path(self, step: str) -> Path | None:
        return None if self._folder is None else self._folder / f"standing-{step.encode().hex()}"

    def _keep(self, step: str, released: Any) -> None:
        """Keep a standing release's key, and what tells whether its data are still the same."""
        if (path := self._path(step)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_durably(path, released.key + released.fingerprint())
