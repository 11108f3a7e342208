"""`Dynamics`: how the weights move, all of it decided and public.

One step takes a Poisson sample of the rows of every site, clips every example's gradient of the
loss to ``clip``, adds up, releases each site's sum through its gate with noise N(0, σ²·clip²) and
divides the total S by the public expected size B = sampling_rate·rows of all samples: ĝ = S/B.
Then, with N rows, prior precision λ, step size η_t and momentum m,

    v ← m·v − η_t·(ĝ + λ·(θ − θ₀)/N) + ξ,   θ ← θ + v.

The prior is a Gaussian around the start θ₀, which is drawn without looking at data: around zero it
would pull the random weights of hidden layers away, and what they see with them.

=======  ========================================================================================
dp-sgd   ξ = 0 (Abadi et al. 2016)
sgld     ξ ~ N(0, 2(1 − m)·η_t·τ/N), Langevin dynamics (with friction) on the posterior at
         temperature τ, on top of the privacy noise
dpd      the privacy noise of the step, (η_t·σ·clip·√sites/B)·N(0, 1), *is* Langevin's noise,
         which is the multiplicative noise of Gaussian dropout (thesis 5.2): ξ only fills up what
         is missing to the variance 2(1 − m)·η_t·τ/N. Without privacy noise it is plain SGLD
=======  ========================================================================================

Where only the sum over sites is seen, √sites is √(sites/shares): each adds its share of the noise.
All of this follows a release and decides nothing about privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

__all__ = ["DYNAMICS", "METHODS", "SCHEDULES", "Dynamics"]

# the numbers of a training, as a release carries them
DYNAMICS = (
    "steps",
    "sampling_rate",
    "clips",
    "rows",
    "noise_multiplier",
    "sites",
    "step_size",
    "schedule",
    "momentum",
    "method",
    "precision",
    "temperature",
    "burn_in",
    "samples",
    "rows_per_unit",
    "shares",
)

METHODS = ("dpd", "sgld", "dp-sgd")
SCHEDULES = ("constant", "linear", "cosine")


@dataclass(frozen=True)
class Dynamics:
    """The numbers of a run; `tacit.networks.training.Training` decides those that were not given.

    Most are those of `Training`. ``clips`` holds the largest L2 norm of one example's gradient:
    one, or one for each layer. ``noise_multiplier`` is σ, the noise on a site's sum over `norm`; 0
    where there is none. ``rows`` is the public, approximate number of rows of all sites together,
    and ``rows_per_unit`` how many of them one person has at most, where people are sampled.
    Where only the sum over sites is seen, each adds noise of variance σ²/``shares``.

    Examples
    --------
    >>> found = Dynamics(steps=4, sampling_rate=0.5, clips=(3.0, 4.0), rows=100.0, samples=2)
    >>> found.norm, found.expected, sorted(found.kept)
    (5.0, 50.0, [2, 3])
    """

    steps: int
    sampling_rate: float
    clips: tuple[float, ...]
    rows: float
    noise_multiplier: float = 0.0
    sites: int = 1
    step_size: float = 1.0
    schedule: str = "linear"
    momentum: float = 0.9
    method: str = "dpd"
    precision: float = 0.1
    temperature: float = 0.1
    burn_in: float = 0.5
    samples: int = 20
    rows_per_unit: int = 1
    shares: int = 1

    @property
    def unit_norm(self) -> float:
        """The largest norm of the sum of one person's gradients."""
        return self.rows_per_unit * self.norm

    @property
    def norm(self) -> float:
        """The largest norm of one example's whole gradient."""
        return math.sqrt(math.fsum(clip * clip for clip in self.clips))

    @property
    def expected(self) -> float:
        """The expected number of rows in the samples of all sites."""
        return self.sampling_rate * self.rows

    @property
    def noise(self) -> float:
        """The standard deviation of the privacy noise on the total of all sites."""
        return self.noise_multiplier * self.unit_norm * math.sqrt(self.sites / self.shares)

    def step_size_at(self, step: int) -> float:
        """Return η_t."""
        done = step / self.steps
        factor = {
            "constant": 1.0,
            "linear": 1.0 - done,
            "cosine": 0.5 * (1.0 + math.cos(math.pi * done)),
        }
        return self.step_size * factor[self.schedule]

    def privacy_sd(self, step: int) -> float:
        """Return the standard deviation of the privacy noise of one step in a weight."""
        return self.step_size_at(step) * self.noise / self.expected

    def langevin_sd(self, step: int) -> float:
        """Return the standard deviation of the inference noise ξ of one step."""
        if self.method == "dp-sgd":
            return 0.0
        eta, drag = self.step_size_at(step), 1.0 - self.momentum
        variance = 2.0 * drag * eta * self.temperature / self.rows
        if self.method == "dpd":
            variance -= self.privacy_sd(step) ** 2
        return math.sqrt(max(0.0, variance))

    def is_averaged(self, step: int) -> bool:
        """Whether the iterate after a step belongs to the average."""
        return step >= int(self.burn_in * self.steps)

    @cached_property
    def kept(self) -> frozenset[int]:
        """The steps after which an iterate is kept as a posterior sample.

        Spread over the steps after burn-in, and over more where these are fewer than the samples.
        """
        first = max(0, min(int(self.burn_in * self.steps), self.steps - self.samples))
        span = self.steps - first
        count = min(self.samples, span)
        return frozenset(first + (k + 1) * span // count - 1 for k in range(count))
