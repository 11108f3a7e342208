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

**Layers with noise of their own.** What is released of layer l is its sum times a public unit u_l,
with noise of one size in all numbers, and the coordinator divides by u_l: noise σ_l·clip_l with
σ_l in the given proportions, one Gaussian on √Σ (u_l·clip_l)², so that 1/σ² = Σ 1/σ_l².

**Rows that count differently.** A row of weight w ≤ W contributes w times its clipped gradient, so
that a row moves the sum by W·clip at most, which the noise is made for.

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
    "largest_weight",
    "layer_noise",
    "judged",
    "taken",
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
    ``largest_weight`` is W, and ``layer_noise`` holds the proportions of σ_l, empty where all
    numbers have the same noise. ``judged`` is with which rate rows are sampled in the end to see
    how sure the network may be (`tacit.networks.confidence`), and the noise then, in multiples of
    what one of them adds; with a rate of 0 they are not asked. ``taken`` is how many of the steps
    are taken, where a run stops before its schedule ends.

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
    largest_weight: float = 1.0
    layer_noise: tuple[float, ...] = ()
    judged: tuple[float, float] = (0.0, 0.0)
    taken: int | None = None

    @property
    def judged_rate(self) -> float:
        """With which rate rows are sampled in the end; 0 where they are not."""
        return self.judged[0]

    @property
    def judged_noise(self) -> float:
        """The noise of that, in multiples of what one row adds."""
        return self.judged[1]

    @property
    def unit_norm(self) -> float:
        """The largest norm of the sum of what one person's rows contribute."""
        return self.rows_per_unit * self.row_norm

    @property
    def row_norm(self) -> float:
        """The largest norm of what one row contributes."""
        return self.largest_weight * self.norm

    @property
    def norm(self) -> float:
        """The largest norm of one example's whole gradient, in the units of its layers."""
        return math.sqrt(
            math.fsum((u * c) ** 2 for u, c in zip(self.units, self.clips, strict=True))
        )

    @property
    def units(self) -> tuple[float, ...]:
        """What every clip's layers are multiplied by before noise: u."""
        if not self.layer_noise:
            return (1.0,) * len(self.clips)
        least = min(n * c for n, c in zip(self.layer_noise, self.clips, strict=True))
        return tuple(least / (n * c) for n, c in zip(self.layer_noise, self.clips, strict=True))

    @property
    def draws(self) -> int:
        """How many posterior samples predictions are made of."""
        return 1 if self.method == "dp-sgd" else len(self.kept)

    @property
    def expected(self) -> float:
        """The expected number of rows in the samples of all sites."""
        return self.sampling_rate * self.rows

    @property
    def noise(self) -> float:
        """The standard deviation of the privacy noise on the total of all sites."""
        return self.noise_multiplier * self.unit_norm * math.sqrt(self.sites / self.shares)

    @property
    def ends(self) -> int:
        """How many steps are taken."""
        return self.steps if self.taken is None else self.taken

    def step_size_at(self, step: int) -> float:
        """Return η_t."""
        done = step / self.steps
        factor = {
            "constant": 1.0,
            "linear": 1.0 - done,
            "cosine": 0.5 * (1.0 + math.cos(math.pi * done)),
        }
        return self.step_size * factor[self.schedule]

    def privacy_sd(self, step: int, unit: float = 1.0) -> float:
        """Return the standard deviation of the privacy noise of one step in a weight of a unit."""
        return self.step_size_at(step) * self.noise / (self.expected * unit)

    def langevin_sd(self, step: int, unit: float = 1.0) -> float:
        """Return the standard deviation of the inference noise ξ of one step."""
        if self.method == "dp-sgd":
            return 0.0
        eta, drag = self.step_size_at(step), 1.0 - self.momentum
        variance = 2.0 * drag * eta * self.temperature / self.rows
        if self.method == "dpd":
            variance -= self.privacy_sd(step, unit) ** 2
        return math.sqrt(max(0.0, variance))

    def run_sd(self, unit: float = 1.0) -> float:
        """Return the standard deviation of what the whole run's noise adds to an averaged weight.

        As far as the noise of a step is carried on by momentum alone, and not by the gradients
        that it changes: noise n_t adds −η_t·n_t·(1 − m^(j − t))/(1 − m) to the weights after step
        j − 1, and the average has the mean of these.
        """
        m, ends, first = self.momentum, self.ends, int(self.burn_in * self.ends)
        total = 0.0
        for t in range(ends):
            begin = max(first - t, 0) + 1  # Σ of 1 − m^k over k = begin … ends − t
            kept = ends - t - begin + 1
            faded = (m**begin - m ** (ends - t + 1)) / (1.0 - m)
            carried = (kept - faded) / ((1.0 - m) * (ends - first))
            own = self.privacy_sd(t, unit) ** 2 + self.langevin_sd(t, unit) ** 2
            total += own * carried**2
        return math.sqrt(total)

    def is_averaged(self, step: int) -> bool:
        """Whether the iterate after a step belongs to the average."""
        return step >= int(self.burn_in * self.ends)

    @cached_property
    def kept(self) -> frozenset[int]:
        """The steps after which an iterate is kept as a posterior sample.

        Spread over the steps after burn-in, and over more where these are fewer than the samples.
        """
        first = max(0, min(int(self.burn_in * self.ends), self.ends - self.samples))
        span = self.ends - first
        count = min(self.samples, span)
        return frozenset(first + (k + 1) * span // count - 1 for k in range(count))
