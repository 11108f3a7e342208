"""`audit`: what an attacker learns from a private estimator, next to what is claimed.

The attacker knows D and its neighbour D′, sees every release of a run, and says which of both it
was. Both values of every release come from the estimator's own code (`tacit.audit.transcript`),
releases from its own mechanisms, and the statistic is the likelihood ratio
(`tacit.audit.evidence`). Half of the runs choose the threshold, the other half gives the bound.

Where all noise is Gaussian and nothing is sampled, the certified guarantee *is* a Gaussian
trade-off, and the bound on ε follows from one on μ (`tacit.audit.bounds`). Where a secret sample
decides what is released, it is part of the attack (`tacit.audit.sampled_runs`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.answers import Answer, Answering
from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit.audit.answers import audit_answer
from tacit.audit.bounds import LowerBound, epsilon_at_least
from tacit.audit.evidence import differ, draw_many, plain_value, score
from tacit.audit.sampled_runs import sampled_scores
from tacit.audit.transcript import Step, fresh, record, replay, source_of
from tacit.errors import NotCertified, ParameterError
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.sampled import PoissonSampled
from tacit.privacy.guarantee import shown, shown_left

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.privacy.certificate import Certificate

__all__ = ["Audit", "audit", "distinguish", "transcript_scores"]

_BLOCK = 1 << 21  # numbers that are drawn at once


@dataclass(frozen=True)
class Audit(Answering):
    """What was claimed, what is certified, and what an attack achieved.

    Parameters
    ----------
    subject
        The estimator.
    claimed, certified, attacked
        ε as asked for or as a paper states it; ε recomputed from the recorded events; and a lower
        bound on ε from the attack.
    delta, unit, neighbours, trust
        Of the guarantee.
    bound
        The bound with its error rates.
    """

    subject: str
    claimed: float
    certified: float
    attacked: float
    delta: float
    unit: str
    neighbours: str
    trust: str
    bound: LowerBound

    @property
    def holds(self) -> bool:
        """Whether the attack stays below what is certified."""
        return self.attacked <= self.certified

    def _answer(self, level: float) -> Answer:
        rates = self.bound.rates
        more = {
            "attacks": rates.miss_runs + rates.alarm_runs,
            "false alarms": rates.alarms,
            "misses": rates.misses,
            "confidence": self.bound.confidence,
        }
        return audit_answer(
            f"An audit of {self.subject}",
            {"claimed": self.claimed, "certified": self.certified},
            self.attacked,
            self.holds,
            more,
        )

    def __str__(self) -> str:
        rates = self.bound.rates
        verdict = "holds" if self.holds else "IS BROKEN"
        return (
            f"{self.subject}, {self.unit}, {self.neighbours}, δ = {self.delta:g}: claimed "
            f"ε = {shown(self.claimed, 4)}, certified ε = {shown(self.certified, 4)}, attacked "
            f"ε ≥ {shown_left(self.attacked, 4)} ({rates.miss_runs + rates.alarm_runs:,} runs, "
            f"{self.bound.confidence:.4g} confidence): the certificate {verdict}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {**asdict(self), "holds": self.holds}


def audit(
    estimator: Any,
    data: Any = None,
    neighbour: Any = None,
    *,
    runs: int = 20_000,
    confidence: float = 0.999,
    kind: str | None = None,
    fit: Callable[[Any, Any], Any] | None = None,
    seed: int = 0,
) -> Audit:
    """Attack a private estimator and bound its ε from below.

    Nothing is released, and no ledger of the estimator is charged: it is cloned, and runs on data
    that are no secret.

    Parameters
    ----------
    estimator
        A private estimator, fitted or not.
    data, neighbour
        What `fit` takes: D, and D with one unit changed. Without them a small worst case that
        follows from public facts alone (`tacit.audit.neighbours`).
    runs
        How often each of both data sets is released.
    confidence
        Probability with which the bound holds.
    kind
        ``"gaussian"`` or ``"any"``, see `epsilon_at_least`; None chooses by the mechanisms.
    fit
        How to fit: a function of the estimator and the data; ``estimator.fit(data)`` by default.
    seed
        Of the attack's noise.

    Examples
    --------
    >>> from tacit.summary.estimator import PrivateSummary
    >>> from tacit.privacy.guarantee import Privacy
    >>> model = PrivateSummary({"age": (0, 110)}, privacy=Privacy(1.0, 1e-6))
    >>> found = audit(model)
    >>> found.attacked > 0.5, found.holds
    (True, True)
    """
    check("runs", runs, Integer(8))
    check("confidence", confidence, Real(0, 1, open_low=True, open_high=True))
    check("kind", kind, AnyOf(OneOf("any", "gaussian"), None))
    if data is None:
        from tacit.audit.neighbours import worst_case

        data, neighbour, fit = worst_case(estimator)
    run = fit or (lambda model, given: model.fit(given))

    def fit_once(number: int, given: Any) -> Any:
        with warnings.catch_warnings(action="ignore"):  # canaries are no data to learn from
            return run(fresh(estimator, seed, number), given)

    fitted, script = record(lambda: fit_once(0, data))
    certificate: Certificate | None = getattr(fitted, "certificate_", None)
    if certificate is None or not certificate.is_private or not script:
        raise NotCertified(
            "there is no guarantee to audit: pass an estimator with privacy=Privacy(…)"
        )

    def steps_of(given: Any, number: int) -> list[Step]:
        return replay(lambda: fit_once(number, given), script, whole=number == 0)

    if any(_is_sampled(step.mechanism) for step in script):
        ours, theirs = sampled_scores(steps_of, data, neighbour, runs, seed)
        kind = kind or "any"
    else:
        pairs = list(zip(steps_of(data, 0), steps_of(neighbour, 0), strict=True))
        ours, theirs = transcript_scores(pairs, runs, seed)
        changed = [a.mechanism for a, b in pairs if differ(a.mechanism, a.value, b.value)]
        _check_moved(changed)
        moved = [getattr(mechanism, "mechanism", mechanism) for mechanism in changed]
        kind = kind or ("gaussian" if all(isinstance(m, Gaussian) for m in moved) else "any")
    bound = epsilon_at_least(
        ours, theirs, delta=certificate.delta, confidence=confidence, kind=kind
    )
    return _found(estimator, certificate, bound)


def _check_moved(changed: Sequence[Any]) -> None:
    """Raise where no release moves: a bound of zero would read as a proof of safety."""
    if not changed:
        raise NotCertified(
            "nothing that was released differs between the data and the neighbour, so this attack "
            "says nothing: pass a neighbour that moves a release; the messages of a method that "
            "perturbs inside its own updates are for audit_sums and distinguish"
        )


def _found(estimator: Any, certificate: Certificate, bound: LowerBound) -> Audit:
    claimed = certificate.claimed_epsilon
    privacy = estimator.get_params(deep=False)["privacy"]
    return Audit(
        subject=type(estimator).__name__,
        claimed=float(privacy.epsilon if claimed is None else claimed),
        certified=certificate.epsilon,
        attacked=bound.epsilon,
        delta=certificate.delta,
        unit=str(privacy.unit),
        neighbours=str(privacy.neighbours),
        trust=str(privacy.trust),
        bound=bound,
    )


def distinguish(
    release: Callable[[Any, int], Any],
    data: Any,
    neighbour: Any,
    *,
    delta: float,
    runs: int = 1000,
    confidence: float = 0.999,
    kind: str = "any",
) -> LowerBound:
    """Bound the ε of anything that releases numbers, from its outputs alone.

    The attack is learned: on half of the runs the mean difference of the releases, weighted by
    their variances (a linear discriminant), and the threshold; the other half gives the bound.

    Parameters
    ----------
    release
        A function of the data and the number of the run, which returns numbers.
    data, neighbour
        The two data sets.
    delta, confidence, kind
        As in `epsilon_at_least`.
    runs
        How often each is released.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> found = distinguish(lambda x, k: rng.laplace(x, 0.5, 2), 1.0, 0.0, delta=0.0, runs=4000)
    >>> 1.5 < found.epsilon < 4.0  # two numbers with ε = 2 each
    True
    """
    check("runs", runs, Integer(8))
    drawn = [
        np.array([np.ravel(np.asarray(release(given, k), np.float64)) for k in range(runs)])
        for given in (data, neighbour)
    ]
    known = [part[::2] for part in drawn]  # the half that chooses the threshold as well
    spread = known[0].var(axis=0) + known[1].var(axis=0)
    difference = known[0].mean(axis=0) - known[1].mean(axis=0)
    direction = np.where(spread > 0.0, difference / np.maximum(spread, 1e-300), 0.0)
    if not direction.any():  # exact numbers that differ, or do not
        direction = difference
    ours, theirs = (part @ direction for part in drawn)
    return epsilon_at_least(ours, theirs, delta=delta, confidence=confidence, kind=kind)


def _is_sampled(mechanism: Any) -> bool:
    return isinstance(mechanism, PoissonSampled) and mechanism.rate < 1.0


def transcript_scores(
    pairs: Sequence[tuple[Step, Step]], runs: int, seed: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the log likelihood ratio of many runs on either data set.

    ``pairs`` are the steps of a run, each with the value on D and on D′.
    """
    found = np.zeros((2, runs))
    for number, (a, b) in enumerate(pairs):
        if not differ(a.mechanism, a.value, b.value):
            continue
        if getattr(a.mechanism, "shares", 1) > 1:
            raise ParameterError(
                "several sites share the noise and only their sum is seen: audit the data of one "
                "site, which then draws the whole of it"
            )
        noise = source_of(a, seed, number)
        for side, step in enumerate((a, b)):
            for part in _parts(step, runs):
                drawn = draw_many(step.mechanism, step.value, part.stop - part.start, noise)
                found[side, part] += score(a.mechanism, drawn, a.value, b.value)
    return found[0], found[1]


def _parts(step: Step, runs: int) -> Iterable[slice]:
    """Yield runs in parts that fit into memory."""
    size = max(1, _BLOCK // max(1, plain_value(step.mechanism, step.value).size))
    return [slice(k, min(k + size, runs)) for k in range(0, runs, size)]
