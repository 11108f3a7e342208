"""What passes the gate in a run, and the same run again with the same releases.

An attacker who coordinates a run may send whatever it likes, so it may as well send what a run on
D would have led to. `record` fits once and keeps every release; `replay` fits again, on D or on a
neighbour D′, and puts the recorded releases in the place of new ones. Both replays are asked the
same questions in every round then, and what they *would* have released differs only through the
data: given the questions, the releases of a run are independent, and each step is one mechanism on
two known values. That is an adaptive composition with its adversary fixed, which every
certificate covers, so a lower bound on it is one on the certified ε.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sklearn.base import clone

from tacit.errors import NotCertified
from tacit.mechanisms.base import Mechanism, watched
from tacit.mechanisms.noise import Noise

__all__ = ["Step", "drawn", "fresh", "record", "replay", "source_of"]


@dataclass(frozen=True)
class Step:
    """One release: the mechanism, the private value that it was given, and what was released."""

    mechanism: Mechanism
    value: Any
    released: Any


def fresh(estimator: Any, seed: int, number: int = 0) -> Any:
    """Return a copy with an empty ledger; its secrets are its own, what is public is not.

    ``seed`` is that of what is public, and with the number of the copy that of its noise.
    """
    copy = clone(estimator)
    known = copy.get_params(deep=False)
    changes = {"ledger": None, "random_state": seed}
    copy.set_params(**{name: value for name, value in changes.items() if name in known})
    copy._secret = (seed << 40) + number
    return copy


def source_of(step: Step, seed: int, number: int) -> Noise:
    """Return seeded noise of the mechanism's kind: an audit can be repeated."""
    return Noise(getattr(step.mechanism, "source", "grid"), seed=(seed << 32) + number)


def drawn(mechanism: Mechanism, value: Any, noise: Noise) -> Any:
    """Draw outside of the gate: for attacks on data that are no secret, never for a release."""
    return mechanism.draw(value, noise)


def record(fit: Callable[[], Any]) -> tuple[Any, list[Step]]:
    """Run a fit, and return its result and every release.

    Examples
    --------
    >>> from tacit.summary.estimator import PrivateSummary
    >>> from tacit.privacy.guarantee import Privacy
    >>> model = PrivateSummary({"x": (0, 1)}, statistics=("mean",), privacy=Privacy(1.0))
    >>> fitted, steps = record(lambda: model.fit({"x": [0.5]}))
    >>> len(steps), type(steps[0].mechanism).__name__
    (1, 'Laplace')
    """
    steps: list[Step] = []

    def keep(mechanism: Mechanism, value: Any, noise: Noise) -> Any:
        released = drawn(mechanism, value, noise)
        steps.append(Step(mechanism, value, released))
        return released

    with watched(keep):
        result = fit()
    return result, steps


class _Enough(BaseException):
    """Ends a fit after its last release: what follows is post-processing."""


def replay(fit: Callable[[], Any], script: list[Step], whole: bool = True) -> list[Step]:
    """Run a fit with the releases of an earlier one; return what it would have released.

    Parameters
    ----------
    fit, script
        What to run, and the releases to put in.
    whole
        Whether to run to the end, to see that nothing more is released.

    Raises
    ------
    NotCertified
        If the fit releases more or other things than before: what is released depends on the
        data then.
    """
    steps: list[Step] = []

    def put_in(mechanism: Mechanism, value: Any, noise: Noise) -> Any:
        number = len(steps)
        if number >= len(script) or mechanism.event != script[number].mechanism.event:
            raise NotCertified(
                f"release {number + 1} of the run depends on the data: {mechanism.event} is not "
                "in the schedule of the neighbour's run"
            )
        released = script[number].released
        steps.append(Step(mechanism, value, released))
        if len(steps) == len(script) and not whole:
            raise _Enough
        return released

    with watched(put_in), suppress(_Enough):
        fit()
    if len(steps) != len(script):
        raise NotCertified("how many releases a run makes depends on the data")
    return steps
