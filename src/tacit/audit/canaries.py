"""One run with many canaries (Steinke, Nasr and Jagielski 2023).

Each of m canaries is in the data or not, by a fair coin. One fit is enough: the attacker knows how
far each canary moves every release (from replays, as in `tacit.audit.attack`), projects
what was released on it, and guesses those coins of which it is most certain. Canaries that move
different numbers, such as rows in different cells of a histogram, do not get in each other's way.
The bound is weaker than that of many runs, and costs one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.answers import Answer, Answering
from tacit._core.check import AnyOf, Integer, check
from tacit._core.rng import generator
from tacit.audit.answers import audit_answer
from tacit.audit.bounds import one_run_epsilon
from tacit.audit.evidence import plain_value
from tacit.audit.transcript import Step, fresh, record, replay
from tacit.errors import NotCertified

__all__ = ["OneRun", "audit_one_run"]


@dataclass(frozen=True)
class OneRun(Answering):
    """What one run with canaries proves: certified ε, the lower bound, and the guesses."""

    certified: float
    attacked: float
    delta: float
    canaries: int
    guesses: int
    right: int

    @property
    def holds(self) -> bool:
        """Whether the attack stays below what is certified."""
        return self.attacked <= self.certified

    def _answer(self, level: float) -> Answer:
        more = {"canaries": self.canaries, "guesses": self.guesses, "right": self.right}
        return audit_answer(
            "An audit by one run with canaries",
            {"certified": self.certified},
            self.attacked,
            self.holds,
            more,
        )


def audit_one_run(
    estimator: Any,
    include: Callable[[Sequence[int]], Any],
    canaries: int,
    *,
    guesses: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> OneRun:
    """Bound ε from below by one fit with canaries in or out by coins.

    Parameters
    ----------
    estimator
        A private estimator with additive noise.
    include
        Returns the data with the canaries of the given numbers in it.
    canaries
        m.
    guesses
        How many coins to guess, the most certain ones; by default two fifths.
    confidence, seed
        Of the bound; of coins and noise.

    Examples
    --------
    >>> from tacit.summary.estimator import PrivateSummary
    >>> from tacit.privacy.guarantee import Privacy
    >>> model = PrivateSummary(
    ...     {"x": (0, 32)}, bins=32, statistics=("histogram",), privacy=Privacy(1.0, 1e-6))
    >>> audit_one_run(model, lambda k: {"x": np.array([*k, 0.0]) + 0.5}, 32).holds
    True
    """
    check("canaries", canaries, Integer(4))
    check("guesses", guesses, AnyOf(Integer(1, canaries), None))
    rng = generator(seed, "coins")
    coins = rng.random(canaries) < 0.5
    everyone = list(range(canaries))

    def fit(which: Sequence[int]) -> Any:
        return fresh(estimator, seed).fit(include(which))

    fitted, script = record(lambda: fit(np.flatnonzero(coins).tolist()))
    if not fitted.certificate_.is_private:
        raise NotCertified("there is no guarantee to audit: pass privacy=Privacy(…)")

    def values(which: Sequence[int]) -> Any:
        steps = replay(lambda: fit(which), script, whole=False)
        return np.concatenate([_scaled(step, step.value) for step in steps])

    whole = values(everyone)
    moves = np.array([whole - values(everyone[:k] + everyone[k + 1 :]) for k in everyone])
    released = np.concatenate([_scaled(step, step.released) for step in script])
    centre = whole - moves.sum(axis=0) / 2.0  # what is expected under fair coins
    sizes = np.maximum(np.linalg.norm(moves, axis=1), 1e-300)
    certainty = (moves @ (released - centre)) / sizes
    count = guesses or max(1, 2 * canaries // 5)
    picked = np.argsort(-np.abs(certainty))[:count]
    right = int(((certainty[picked] > 0.0) == coins[picked]).sum())
    certificate = fitted.certificate_
    attacked = one_run_epsilon(
        right, count, canaries, delta=certificate.delta, confidence=confidence
    )
    return OneRun(certificate.epsilon, attacked, certificate.delta, canaries, count, right)


def _scaled(step: Step, value: Any) -> Any:
    """Return numbers in units of the noise."""
    mechanism = getattr(step.mechanism, "mechanism", step.mechanism)
    scale = getattr(mechanism, "scale", 1.0) or 1.0
    return np.ravel(plain_value(step.mechanism, value)) / scale
