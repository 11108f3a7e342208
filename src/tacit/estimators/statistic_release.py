"""How a statistic is released: the mechanism, its sensitivity, and what inference is told.

| statistic | who adds noise | mechanism | value | sensitivity, one row replaced |
|---|---|---|---|---|
| additive, k numbers | curator | Gaussian | the mean of s | ‖w‖₂/n, w the widths of s |
| additive, k numbers | curator | Laplace | the mean of s | Σw_k/n |
| order statistic | curator | smooth Laplace | the data | see `tacit.mechanisms.smooth` |
| additive, one number | each person | Gaussian, Laplace | s of each | w: one of n numbers moves |
| 0/1 | each person | randomized response | each answer | – |

**Proof.** The number n of people is public, and a neighbour replaces one person. In a mean one
term changes, and every coordinate k of s lies in an interval of width w_k that is public: the
mean moves by at most w_k/n in each, so by ‖w‖₂/n and Σw_k/n. In a vector of n answers one
coordinate changes, by at most w. Values are clipped to the interval first, whatever the data and
the caller's function give. Each person's share (s − low)/n is rounded to the mechanism's grid
before shares are added as whole numbers, so no sum of doubles is ever released; what rounding adds
to the sensitivity is the mechanism's own business (`tacit.mechanisms.grid`).

With n_1, …, n_m people in **disjoint chunks** a neighbour changes one chunk. Every chunk's
release is (ε, δ)-private for its own people whatever was released of the other chunks, also when
the statistic is chosen from those, so all together is (ε, δ)-private: a person's data enter one
of the releases, and what happens before and after is a mixture over, or post-processing of, it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import ParameterError
from tacit.mechanisms.additive import Gaussian, Laplace
from tacit.mechanisms.base import Mechanism, privatize
from tacit.mechanisms.local import RandomizedResponse
from tacit.mechanisms.noise import Noise
from tacit.mechanisms.smooth import SmoothQuantile
from tacit.models.releases import NoiseLaw, NoisyStatistic
from tacit.models.statistics import Additive, Custom, OrderStatistic, Statistic
from tacit.privacy.calibration import SOURCE_SHARE
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger import Ledger, Reservation

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MECHANISMS", "ReleasePlan", "plan_release"]

MECHANISMS = ("auto", "gaussian", "laplace", "smooth", "randomized-response")
_LEAST = 1e-9  # noise where there is none, as a share of the sensitivity: likelihoods need some


@dataclass(frozen=True)
class ReleasePlan:
    """What would be released, by which mechanism, and what inference is told; all public."""

    planned: NoisyStatistic
    mechanism: Mechanism

    @property
    def name(self) -> str:
        """The mechanism in words."""
        names = {"smooth": "smooth Laplace", "response": "randomized response"}
        return names.get(self.planned.noise.kind, self.planned.noise.kind)

    def value(self, x: NDArray[np.float64]) -> Any:
        """Return the private value that goes to the gate."""
        statistic, bounds = self.planned.statistic, self.planned.bounds
        if isinstance(statistic, OrderStatistic):
            return statistic.of.values(x, bounds)[:, 0]
        s = statistic.values(x, bounds)
        if self.planned.noise.kind == "response":
            return (s[:, 0] >= 0.5).astype(np.int64)
        if self.planned.local:
            return s[:, 0]
        assert isinstance(self.mechanism, Gaussian | Laplace)
        return self.mechanism.grid.sum((s - self._low) / self.planned.size)

    @property
    def _low(self) -> Any:
        """What shares are counted from, added back after the release."""
        statistic = self.planned.statistic
        shifted = isinstance(statistic, Additive) and not self.planned.local
        return statistic.range(self.planned.bounds)[0] if shifted else 0.0

    def release(
        self, x: NDArray[np.float64], ledger: Ledger | Reservation | None, rng: Noise,
        delta: float | None = None,
    ) -> NoisyStatistic:  # fmt: skip
        """Release the statistic of people through the gate."""
        noisy = privatize(
            self.mechanism, self.value(x), ledger=ledger, rng=rng, purpose="noisy statistic",
            delta=delta if isinstance(ledger, Ledger) else None,
        )  # fmt: skip
        return self.planned.replace(np.atleast_1d(np.asarray(noisy, np.float64)) + self._low)

    @property
    def ranges(self) -> tuple[str, ...]:
        """The public ranges of data and statistic."""
        low, high = self.planned.bounds
        notes: tuple[str, ...] = (f"values in [{low:g}, {high:g}]",)
        if self.planned.noise.kind == "response":
            notes += ("answers are 0 or 1; what is not counts as the nearer of both",)
        if isinstance(self.planned.statistic, Custom):
            pairs = zip(*self.planned.statistic.range(self.planned.bounds), strict=True)
            spans = ", ".join(f"[{a:g}, {b:g}]" for a, b in pairs)
            notes += (f"{self.planned.statistic.name} in {spans}",)
        return notes

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The public inputs."""
        return (*self.ranges, f"the number of people, {self.planned.size}, is public")


def plan_release(
    statistic: Statistic,
    bounds: tuple[float, float],
    size: int,
    privacy: Privacy | None,
    mechanism: str = "auto",
    source: str = "exact",
) -> ReleasePlan:
    """Return the least noise for which releasing a statistic of n people meets a request.

    Parameters
    ----------
    statistic, bounds, size
        What, with which public bounds of the data, of how many people.
    privacy
        The request, under replace-one; ``trust="local"`` lets each person answer alone. None
        adds no noise.
    mechanism
        ``"auto"`` takes the one with the least variance among those that apply.
    source
        The kind of noise source.
    """
    if isinstance(statistic, Custom):
        statistic.check_range(bounds)
    local = privacy is not None and privacy.trust == "local"
    if isinstance(statistic, OrderStatistic):
        return _smooth(statistic, bounds, size, privacy, mechanism, source)
    if mechanism == "smooth":
        raise ParameterError(f"{statistic.name} is no order statistic: pass mechanism='auto'")
    if local and statistic.dimension(bounds) != 1:
        raise ParameterError("each person answers with one number: choose a scalar statistic")
    if mechanism == "randomized-response":
        return _responses(statistic, bounds, size, privacy)
    people = 1 if local else size
    shape = (size,) if local else (statistic.dimension(bounds),)
    delta1, delta2 = (statistic.sensitivity(bounds, people, norm) for norm in (1, 2))
    epsilon, delta = (math.inf, 0.0) if privacy is None else (privacy.epsilon, privacy.delta)
    options: list[Gaussian | Laplace] = []
    if mechanism in ("auto", "laplace"):
        options.append(Laplace.for_privacy(epsilon, delta1, shape, neighbours=REPLACE,
                                           source=source))  # fmt: skip
    if mechanism == "gaussian" and not delta > 0.0 and math.isfinite(epsilon):
        raise ParameterError("Gaussian noise needs delta > 0: pass Privacy(epsilon, delta)")
    if mechanism in ("auto", "gaussian") and (delta > 0.0 or math.isinf(epsilon)):
        options.append(Gaussian.for_privacy(epsilon, delta, delta2, shape, neighbours=REPLACE,
                                            source=source))  # fmt: skip
    chosen = min(options, key=lambda option: option.variance())
    kind = "gaussian" if isinstance(chosen, Gaussian) else "laplace"
    scale = chosen.scale or _LEAST * chosen.sensitivity
    planned = NoisyStatistic.planned(statistic, bounds, size, NoiseLaw(kind, scale), local)
    return ReleasePlan(planned, chosen)


def _smooth(
    statistic: OrderStatistic, bounds: tuple[float, float], size: int, privacy: Privacy | None,
    mechanism: str, source: str,
) -> ReleasePlan:  # fmt: skip
    if mechanism not in ("auto", "smooth"):
        raise ParameterError(
            f"{statistic.name} is released with smooth sensitivity: pass mechanism='auto'"
        )
    if privacy is None or not (privacy.delta > 0.0 and privacy.epsilon <= 10.0):
        raise ParameterError(
            f"{statistic.name} needs epsilon of at most 10 and delta > 0 (smooth sensitivity)"
        )
    if privacy.trust == "local":
        raise ParameterError(f"{statistic.name} needs all data: no person can answer alone")
    smooth = SmoothQuantile(
        privacy.epsilon,
        privacy.delta * (1.0 - SOURCE_SHARE),
        statistic.range(bounds),
        size,
        statistic.quantile,
        source,
    )
    law = NoiseLaw("smooth", privacy.epsilon, smooth.beta)
    return ReleasePlan(NoisyStatistic.planned(statistic, bounds, size, law), smooth)


def _responses(
    statistic: Additive, bounds: tuple[float, float], size: int, privacy: Privacy | None
) -> ReleasePlan:
    if privacy is None or privacy.trust != "local":
        raise ParameterError("randomized response is local: pass Privacy(…, trust='local')")
    low, high = statistic.range(bounds)
    if (float(low[0]), float(high[0])) != (0.0, 1.0):
        raise ParameterError("randomized response takes 0/1 answers: pass bounds=(0, 1)")
    response = RandomizedResponse(privacy.epsilon)
    law = NoiseLaw("response", 1.0 - response.lie / 2.0)
    return ReleasePlan(NoisyStatistic.planned(statistic, bounds, size, law, True), response)
