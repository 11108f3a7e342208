"""`Training`: how a network is trained, all of it public, and what that costs.

One step takes a Poisson sample of the rows, clips every example's gradient of the loss to
``clip``, adds up, releases the sum S through the gate with noise N(0, σ²·clip²) and divides by the
public expected size B = rate·rows of a sample: ĝ = S/B. Then, with N rows, prior precision λ,
learning rate η_t and momentum m,

    v ← m·v − η_t·(ĝ + λ·(θ − θ₀)/N) + ξ,   θ ← θ + v.

The prior is a Gaussian around the start θ₀, which is drawn without looking at data: around zero it
would pull the random weights of hidden layers away, and what they see with them.

=======  ========================================================================================
dp-sgd   ξ = 0 (Abadi et al. 2016)
sgld     ξ ~ N(0, 2(1 − m)·η_t·τ/N), Langevin dynamics (with friction) on the posterior at
         temperature τ, on top of the privacy noise
dpd      the privacy noise of the step, (η_t·σ·clip/B)·N(0, 1), *is* Langevin's noise, which is the
         multiplicative noise of Gaussian dropout (thesis 5.2): ξ only fills up what is missing
         to the variance 2(1 − m)·η_t·τ/N. Without privacy noise it is plain SGLD
=======  ========================================================================================

Privacy comes from the noise on the sum of clipped gradients and from nothing else (PRIVACY B6).
**Sensitivity.** One example more or less changes S by its own clipped gradient, of joint norm at
most √Σ clip² over the layers with clips of their own. Each step is one event, a Poisson-sampled
Gaussian, whatever the network; a run is their composition, reserved as a whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from tacit._core.check import AnyOf, InstanceOf, Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.additive import Gaussian, PoissonSampled
from tacit.privacy.accounting import accountant as make_accountant
from tacit.privacy.calibration import calibrate, gaussian_event
from tacit.privacy.events import ADD_REMOVE, DpEvent, NonPrivateDpEvent
from tacit.privacy.guarantee import Privacy
from tacit.privacy.published import PublishedNoise, advanced_composition_noise, zcdp_noise

__all__ = ["ACCOUNTANTS", "SCHEDULES", "STRATEGIES", "Training", "affordable_steps"]

STRATEGIES = ("dpd", "sgld", "dp-sgd")
ACCOUNTANTS = ("pld", "rdp", "zcdp", "advanced")
SCHEDULES = ("constant", "linear", "cosine")
_POSITIVE = Real(0, open_low=True)


@dataclass(frozen=True)
class Training:
    """The public settings of a run.

    Parameters
    ----------
    steps, rate
        How many steps, and the probability with which a row is sampled in each.
    clip
        The largest L2 norm of one example's gradient; a tuple gives every layer its own.
    learning_rate, schedule, momentum
        η₀, how it falls to zero over the run (``"constant"`` does not), and m.
    strategy
        ``"dpd"``, ``"sgld"`` or ``"dp-sgd"``.
    precision, temperature
        Of the Gaussian prior of a weight, and of the posterior.
    burn_in
        The share of steps before iterates are averaged and kept.
    samples
        How many iterates are kept as posterior samples.
    noise_multiplier
        σ where it is fixed by hand; None: the least that meets the guarantee.
    accountant
        Whose ε must meet it. The certificate always states that of ``pld``.
    calibration
        ``"certified"``, or ``"published"``: σ of the thesis's appendix E by ``accountant``
        ``"zcdp"`` or ``"advanced"``, which counts passes where steps are taken.
    physical
        How many examples are in memory at once; None: 512, or fewer where their own gradients,
        which stacks of linear layers do not need, would fill more than 128 MB.

    Examples
    --------
    >>> training = Training(steps=100, rate=0.1, clip=(3.0, 4.0))
    >>> training.norm
    5.0
    >>> round(training.multiplier(Privacy(1.0, 1e-5)), 2)
    3.94
    """

    steps: int
    rate: float
    clip: float | tuple[float, ...] = 1.0
    learning_rate: float = 1.0
    schedule: str = "linear"
    momentum: float = 0.9
    strategy: str = "dpd"
    precision: float = 1.0
    temperature: float = 1.0
    burn_in: float = 0.5
    samples: int = 20
    noise_multiplier: float | None = None
    accountant: str = "pld"
    calibration: str = "certified"
    physical: int | None = None

    def __post_init__(self) -> None:
        check("steps", self.steps, Integer(1))
        check("rate", self.rate, Real(2.0**-40, 1))
        check("clip", self.clip, AnyOf(_POSITIVE, InstanceOf(tuple)))
        for norm in self.clips:
            check("clip", norm, _POSITIVE)
        check("learning_rate", self.learning_rate, _POSITIVE)
        check("schedule", self.schedule, OneOf(*SCHEDULES))
        check("momentum", self.momentum, Real(0, 1, open_high=True))
        check("strategy", self.strategy, OneOf(*STRATEGIES))
        check("precision", self.precision, Real(0))
        check("temperature", self.temperature, Real(0))
        check("burn_in", self.burn_in, Real(0, 1, open_high=True))
        check("samples", self.samples, Integer(1))
        check("noise_multiplier", self.noise_multiplier, AnyOf(_POSITIVE, None))
        check("accountant", self.accountant, OneOf(*ACCOUNTANTS))
        check("calibration", self.calibration, OneOf("certified", "published"))
        check("physical", self.physical, AnyOf(Integer(1), None))

    @property
    def clips(self) -> tuple[float, ...]:
        """The clips as a tuple: one, or one for each layer."""
        return self.clip if isinstance(self.clip, tuple) else (float(self.clip),)

    @property
    def norm(self) -> float:
        """The largest norm of one example's whole gradient."""
        return math.sqrt(math.fsum(norm * norm for norm in self.clips))

    # -- what it costs ----------------------------------------------------------------------

    def check_privacy(self, privacy: Privacy | None) -> None:
        """Raise where the settings cannot give the guarantee."""
        if privacy is None or math.isinf(privacy.epsilon):
            return
        if privacy.neighbours != ADD_REMOVE:
            raise ParameterError(
                "privacy.neighbours must be 'add-remove-one' for sampled gradients"
            )
        if privacy.delta == 0.0:
            raise ParameterError("privacy.delta must be above 0 for Gaussian noise")
        if self.calibration == "published" and self.accountant not in ("zcdp", "advanced"):
            raise ParameterError("published noise needs accountant='zcdp' or 'advanced'")
        if self.calibration == "certified" and self.noise_multiplier is not None:
            epsilon = make_accountant("pld").add(self.schedule_of(privacy)).epsilon(privacy.delta)
            if epsilon > privacy.epsilon * (1.0 + 1e-9):
                raise ParameterError(
                    f"noise_multiplier={self.noise_multiplier:g} gives epsilon={epsilon:.4g} over "
                    f"{self.steps} steps, above {privacy.epsilon:g}: take at most "
                    "tacit.nn.affordable_steps(…) steps"
                )

    def published(self, privacy: Privacy) -> PublishedNoise:
        """Return the thesis's noise: appendix E, T = passes as its printed values have it."""
        passes = max(1, round(self.steps * self.rate))
        recipe = zcdp_noise if self.accountant == "zcdp" else advanced_composition_noise
        # the thesis leaves δ_iter open; with these shares its printed 3.23 and 10.88 come out
        share = 7e-5 if self.accountant == "zcdp" else 1.3e-5
        return recipe(
            privacy.epsilon, privacy.delta, rate=self.rate, compositions=passes,
            delta_iter=share * privacy.delta, steps=self.steps,
        )  # fmt: skip

    def multiplier(self, privacy: Privacy | None) -> float:
        """Return σ, the noise over the clip; 0 where there is none."""
        if privacy is None or math.isinf(privacy.epsilon):
            return 0.0
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        if self.calibration == "published":
            return self.published(privacy).noise_multiplier
        return _calibrated(
            privacy.epsilon, privacy.delta, self.rate, self.steps, self.norm, self.accountant
        )

    def mechanism(self, size: int, privacy: Privacy | None) -> PoissonSampled:
        """Return the release of one step of a network with ``size`` parameters."""
        inner = Gaussian.within(self.multiplier(privacy), self.norm, (size,))
        return PoissonSampled(inner, self.rate, ADD_REMOVE)

    def schedule_of(self, privacy: Privacy | None) -> DpEvent:
        """Return everything that a run releases."""
        multiplier = self.multiplier(privacy)
        if multiplier == 0.0:
            return NonPrivateDpEvent()
        return _run_event(multiplier, self.rate, self.steps, self.norm)

    # -- the dynamics -----------------------------------------------------------------------

    def rate_at(self, step: int) -> float:
        """Return η_t."""
        done = step / self.steps
        factor = {
            "constant": 1.0,
            "linear": 1.0 - done,
            "cosine": 0.5 * (1.0 + math.cos(math.pi * done)),
        }
        return self.learning_rate * factor[self.schedule]

    def privacy_sd(self, step: int, rows: float, privacy: Privacy | None) -> float:
        """Return the standard deviation of the privacy noise of one step in a weight."""
        noise = self.multiplier(privacy) * self.norm
        return self.rate_at(step) * noise / (self.rate * rows)

    def langevin_sd(self, step: int, rows: float, privacy: Privacy | None) -> float:
        """Return the standard deviation of the inference noise ξ of one step."""
        if self.strategy == "dp-sgd":
            return 0.0
        eta, drag = self.rate_at(step), 1.0 - self.momentum
        variance = 2.0 * drag * eta * self.temperature / rows
        if self.strategy == "dpd":
            variance -= self.privacy_sd(step, rows, privacy) ** 2
        return math.sqrt(max(0.0, variance))

    def kept(self) -> list[int]:
        """Return the steps after which an iterate is kept as a posterior sample.

        Spread over the steps after burn-in, and over more where these are fewer than the samples.
        """
        first = max(0, min(int(self.burn_in * self.steps), self.steps - self.samples))
        span = self.steps - first
        count = min(self.samples, span)
        return sorted({first + (k + 1) * span // count - 1 for k in range(count)})


def affordable_steps(epsilon: float, delta: float, *, rate: float, noise_multiplier: float) -> int:
    """Return how many steps with the given noise stay within (ε, δ): where a run stops.

    >>> affordable_steps(1.0, 1e-5, rate=0.01, noise_multiplier=1.5) > 1000
    True
    """
    spent = make_accountant("pld")

    def fits(steps: int) -> bool:
        event = gaussian_event(noise_multiplier, rate=rate, steps=steps)
        return spent.add(event).epsilon(delta) <= epsilon

    if not fits(1):
        raise ParameterError(
            f"noise_multiplier={noise_multiplier:g} exceeds epsilon={epsilon:g} in its first step"
        )
    low, high = 1, 2
    while fits(high) and high < 1 << 24:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _run_event(multiplier: float, rate: float, steps: int, norm: float) -> DpEvent:
    """Return the steps of a run; the size of the network plays no part (`Gaussian.within`)."""
    inner = Gaussian.within(multiplier, norm, (1,))
    return gaussian_event(inner.noise_multiplier, rate=rate, steps=steps)


@lru_cache(maxsize=256)
def _calibrated(
    epsilon: float, delta: float, rate: float, steps: int, norm: float, accountant: str
) -> float:
    """Return the least noise whose very events meet the guarantee.

    An accountant's ε is not monotone in the last digits, so it is asked about the events that will
    be charged, not about noise that is the same up to rounding.
    """
    return calibrate(
        lambda noise: _run_event(noise, rate, steps, norm), epsilon, delta, accountant=accountant
    )
