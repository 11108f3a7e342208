"""The mechanism protocol, and `privatize`, the one gate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any, ClassVar

from tacit._core.check import InstanceOf, check
from tacit._core.reasons import told_to_holder
from tacit.errors import NothingReleased, ParameterError
from tacit.mechanisms.noise import Noise
from tacit.privacy.accounting.accountants import pure_total
from tacit.privacy.events import DpEvent, NonPrivateDpEvent, leaves
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger, Reservation
from tacit.privacy.ledger.reservation import StepClaim
from tacit.privacy.ledger.terms import Terms

__all__ = ["Mechanism", "privatize", "watched"]


class Mechanism(ABC):
    """A randomised release whose cost is known before it sees data.

    A subclass is a frozen dataclass of public parameters. It joins the contract tests by
    existing: they find every subclass and ask for an example of it.

    What it is, it says itself, and whoever relies on that asks (PRIVACY A4):

    Attributes
    ----------
    local
        Whether it draws for every person apart, from that person's answer alone: what a shuffler
        may amplify.
    additive
        Whether it adds noise to a value whose change by one unit is bounded by ``sensitivity``:
        what may be sampled.
    """

    local: ClassVar[bool] = False
    additive: ClassVar[bool] = False

    @property
    def pure_epsilon(self) -> Fraction | None:
        """The ε of one release if it is private without any δ; else None."""
        return pure_total(leaves(self.event))

    @property
    @abstractmethod
    def event(self) -> DpEvent:
        """What one release costs."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Public inputs and caveats that a certificate has to list."""
        return ()

    @abstractmethod
    def check(self, value: Any) -> None:
        """Check what is public about a value (type, shape); never its private content."""

    @abstractmethod
    def draw(self, value: Any, noise: Noise) -> Any:
        """Return the released value. Call `privatize` instead."""

    def again(self, value: Any, key: bytes) -> Any:
        """Return a standing release once more, from the key that fixed its noise."""
        raise TypeError(f"{type(self).__name__} has no standing release")

    def distance(self, value: Any, other: Any) -> float:
        """Return how far apart two values are, as a share of the sensitivity.

        Audits and contracts search for neighbours that are more than 1 apart.
        """
        raise TypeError(f"{type(self).__name__} has no distance between values")

    @abstractmethod
    def bias(self, value: Any) -> Any:
        """Return the expected error of a release, before any correction by the caller."""

    @abstractmethod
    def variance(self, value: Any) -> Any:
        """Return the variance of a release."""


Watcher = Callable[[Mechanism, Any, Noise], Any]
_watcher: ContextVar[Watcher | None] = ContextVar("watcher", default=None)


@contextmanager
def watched(watcher: Watcher) -> Iterator[None]:
    """Let a function stand at the gate: it sees mechanism, value and noise, and draws.

    For audits, which ask what an attacker could learn from a run. Everything is charged as ever,
    and certificates of what was drawn under watch say "not for release".
    """
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def _terms(mechanism: Mechanism, ledger: Ledger, delta: float | None) -> Terms | None:
    """Return what is stated where a mechanism holds for another relation than its ledger."""
    relation = getattr(mechanism, "neighbours", None)
    if relation in (None, ledger.neighbours):
        return None
    return Terms.of(Privacy(1.0, delta or 0.0, unit=ledger.unit, neighbours=relation))


def privatize(
    mechanism: Mechanism,
    value: Any,
    *,
    ledger: Ledger | Reservation | StepClaim | None,
    rng: Noise,
    purpose: str = "release",
    delta: float | None = None,
) -> Any:
    """Release a value: check what is public, charge the ledger, then draw.

    Parameters
    ----------
    mechanism
        What is added, and what it costs.
    value
        The private value.
    ledger
        Who pays: a ledger, a reservation in one, or a named step of that. ``None`` only where
        there is nothing to charge, because the mechanism adds no noise at all (ε = ∞).
    rng
        The source of noise.
    purpose, delta
        For a ledger: a few words, and the δ at which approximate noise is counted.

    Raises
    ------
    BudgetExceeded
        If the ledger refuses. No randomness has been consumed then.
    NothingReleased
        If the draw failed after the charge; the budget is spent, the reason stays inside.
    """
    check("mechanism", mechanism, InstanceOf(Mechanism))
    check("rng", rng, InstanceOf(Noise))
    kind = getattr(mechanism, "source", rng.kind)
    event = mechanism.event
    if kind != rng.kind and not isinstance(event, NonPrivateDpEvent):
        raise ParameterError(f"the mechanism draws from a {kind!r} source, got a {rng.kind!r} one")
    mechanism.check(value)
    if isinstance(event, NonPrivateDpEvent):
        if ledger is not None:
            raise ParameterError("a mechanism without noise has no price: pass ledger=None")
    elif isinstance(ledger, StepClaim):
        ledger.claim()
    elif isinstance(ledger, Reservation):
        ledger.claim(event)
    elif isinstance(ledger, Ledger):
        ledger.charge(event, purpose=purpose, delta=delta, terms=_terms(mechanism, ledger, delta))
    else:
        raise ParameterError("ledger must be given: pass a Ledger or a Reservation")
    watcher = _watcher.get()
    if watcher is not None:
        rng.seeded = True  # its certificates are not for release
        return watcher(mechanism, value, rng)
    try:
        return mechanism.draw(value, rng)
    except Exception as error:
        reason = told_to_holder(error)  # raised below: it must not travel as context
    raise NothingReleased(
        "the release failed after its charge: the budget is spent and nothing was released",
        reason,
    )
