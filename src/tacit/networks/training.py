"""`Training`: how a network is to be trained; what is not given follows from public facts.

For inputs of norm one (`tacit.networks.architectures`) a step of noise σ·clip on the sum of B
expected rows moves an output by about η·σ·clip/B, momentum multiplies that by 1/(1 − m), and T
steps add up to

    ν = η·σ·clip·√T / (B·(1 − m)).

**Step size.** ν is the standard deviation of an output's noise. Outputs are log-odds, so it
should be of order one: ν = 2.5, the middle of a flat optimum, with η·clip of at most 64 where
there is hardly any noise. **Sampling rate and steps.** Without sampling σ grows as √T, so the
noise that T steps add up to grows as T, as does what they learn: steps cost time and no privacy.
So all rows are taken in every step where they are few, else a twentieth of them and 3,000 at
least, for 400 steps, or up to 800 where a larger ε lets more be learned. **Clip.** A gradient of
a log loss at norm-one inputs has norm √2 or less; a third of that costs little signal, because a
mean of directions serves as well. **Burn-in.** The last fifth of the steps, in which the step size
is small, is averaged. **Confidence.** How sure a classifier may be is released in the end
(`tacit.networks.confidence`), from 5,000 rows or so, with noise of one percent of their number,
or more where that would take more than the stated share of the budget, in the sense in which
Gaussians share one: a μ² of the whole.

The constants were chosen on a part of MNIST's training images that took no part in training
(five thousand, and for few rows 1,439 of them in 8 × 8 pixels); see `docs/nn.md`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from tacit._core.check import AnyOf, InstanceOf, Integer, OneOf, Real, check
from tacit.errors import ParameterError
from tacit.networks.agreement import NetworkAgreement, judged_event, run_event
from tacit.networks.confidence import NORM, SPREAD
from tacit.networks.dynamics import METHODS, SCHEDULES, Dynamics
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.calibration import calibrate, gaussian_event, gaussian_sigma
from tacit.privacy.events import ADD_REMOVE, DpEvent, compose
from tacit.privacy.guarantee import Privacy, shown

__all__ = ["ACCOUNTANTS", "Training", "affordable_steps"]

ACCOUNTANTS = ("pld", "rdp", "zcdp", "advanced")
_POSITIVE = Real(0, open_low=True)
_OUTPUT_NOISE = 2.5
_LARGEST_STEP = 64.0
_CLIP = 0.5
_STEPS = 400, 800  # at ε ≤ 1 and from ε = 10 on
_SAMPLE = 3000.0
_BURN_IN = 0.8
_TEMPERATURE = 0.1
_JUDGED, _PRECISE, _SHARE = 5000.0, 0.01, 0.03


@dataclass(frozen=True)
class Training:
    """The public settings of a run; None: by the rules above.

    Parameters
    ----------
    steps, sampling_rate
        How many steps, and the probability with which a row is sampled in each. With noise given
        by hand and no steps, a run takes as many steps as the guarantee affords.
    clip
        The largest L2 norm of one example's gradient; a tuple gives every layer its own.
    step_size, schedule, momentum
        η₀, how it falls to zero over the run (``"linear"``, ``"cosine"``, or ``"constant"``, which
        does not), and m.
    method
        ``"dpd"`` (private dropout), ``"sgld"`` or ``"dp-sgd"``; see `tacit.networks.dynamics`.
    precision, temperature
        Of the Gaussian prior of a weight around its start, and of the posterior (0.1 unless
        given), which ``"dp-sgd"`` does not have.
    burn_in, samples
        The share of steps before iterates are averaged and kept, and how many are kept as
        posterior samples.
    noise_multiplier
        σ where it is fixed by hand; None: the least that meets the guarantee.
    accountant
        Whose ε must meet it, ``"pld"`` unless given. The certificate always states that of
        ``pld``.
    layer_noise
        How large σ is in each layer compared with the others, with a clip for each; None: every
        number of the released sum has the same noise.
    confidence
        The largest share of the budget that a classifier spends on how sure it may be; 0: none,
        and its probabilities are as modest as noise made them.
    stop_at
        An ε at which the run stops, at most that of the guarantee: the noise and the schedule are
        those of the whole run, as many steps are taken as that ε pays for, and no more is
        charged. That is decided before the first step, from public numbers.
    examples_in_memory
        How many examples are computed at once; None: 512, or fewer where their own gradients,
        which stacks of linear layers do not need, would fill more than 128 MB.

    Examples
    --------
    >>> training = Training(steps=100, sampling_rate=0.1, clip=(3.0, 4.0))
    >>> round(training.decided(1000.0, Privacy(1.0, 1e-5)).noise_multiplier, 2)
    3.94
    >>> Training().decided(60_000.0, Privacy(1.0, 1e-5)).sampling_rate
    0.05
    >>> Training(noise_multiplier=2.0).decided(60_000.0, Privacy(1.0, 1e-5)).steps
    82
    """

    steps: int | None = None
    sampling_rate: float | None = None
    clip: float | tuple[float, ...] | None = None
    step_size: float | None = None
    schedule: str = "linear"
    momentum: float = 0.9
    method: str = "dpd"
    precision: float = 0.1
    temperature: float | None = None
    burn_in: float | None = None
    samples: int = 20
    noise_multiplier: float | None = None
    accountant: str | None = None
    layer_noise: tuple[float, ...] | None = None
    confidence: float = _SHARE
    stop_at: float | None = None
    examples_in_memory: int | None = None

    def __post_init__(self) -> None:
        check("steps", self.steps, AnyOf(Integer(1), None))
        check("sampling_rate", self.sampling_rate, AnyOf(Real(2.0**-40, 1), None))
        check("clip", self.clip, AnyOf(_POSITIVE, InstanceOf(tuple), None))
        for norm in self.clip if isinstance(self.clip, tuple) else ():
            check("clip", norm, _POSITIVE)
        check("step_size", self.step_size, AnyOf(_POSITIVE, None))
        check("schedule", self.schedule, OneOf(*SCHEDULES))
        check("momentum", self.momentum, Real(0, 1, open_high=True))
        check("method", self.method, OneOf(*METHODS))
        check("precision", self.precision, Real(0))
        check("temperature", self.temperature, AnyOf(Real(0), None))
        check("burn_in", self.burn_in, AnyOf(Real(0, 1, open_high=True), None))
        check("samples", self.samples, Integer(1))
        check("noise_multiplier", self.noise_multiplier, AnyOf(_POSITIVE, None))
        check("accountant", self.accountant, AnyOf(OneOf(*ACCOUNTANTS), None))
        check("confidence", self.confidence, Real(0, 1, open_high=True))
        check("stop_at", self.stop_at, AnyOf(_POSITIVE, None))
        check("layer_noise", self.layer_noise, AnyOf(InstanceOf(tuple), None))
        for noise in self.layer_noise or ():
            check("layer_noise", noise, _POSITIVE)
        if self.layer_noise is not None:
            clips = self.clip if isinstance(self.clip, tuple) else ()
            if len(clips) != len(self.layer_noise):
                raise ParameterError(
                    "layer_noise needs a clip for each layer: pass clip=(…) and layer_noise=(…) "
                    "of one length"
                )
        check("examples_in_memory", self.examples_in_memory, AnyOf(Integer(1), None))
        if self.method == "dp-sgd" and self.temperature is not None:
            raise ParameterError("temperature is not read by method='dp-sgd': leave it out")
        if self.accountant is not None and self.noise_multiplier is not None:
            raise ParameterError(
                "accountant is not read where noise_multiplier is given: leave one of them out"
            )

    def agree(
        self,
        blueprint: Any,
        loss: Any,
        rows: float,
        privacy: Privacy | None,
        *,
        scale: float = 1.0,
        sites: int = 1,
        rows_per_unit: int = 1,
        shares: int = 1,
        largest_weight: float = 1.0,
        judged: bool = False,
        **more: Any,
    ) -> NetworkAgreement:
        """Return what is public about a run.

        Parameters
        ----------
        blueprint, loss
            The network, see `tacit.networks.architectures`, and its loss.
        rows, privacy, scale, sites, rows_per_unit, shares, largest_weight, judged
            As in `decided`.
        more
            Further fields of `NetworkAgreement`.
        """
        return NetworkAgreement(
            blueprint,
            loss,
            self.decided(
                rows,
                privacy,
                scale=scale,
                sites=sites,
                rows_per_unit=rows_per_unit,
                shares=shares,
                largest_weight=largest_weight,
                judged=judged,
            ),
            privacy,
            sites,
            examples_in_memory=self.examples_in_memory,
            **more,
        )

    def decided(
        self,
        rows: float,
        privacy: Privacy | None,
        *,
        scale: float = 1.0,
        sites: int = 1,
        rows_per_unit: int = 1,
        shares: int = 1,
        largest_weight: float = 1.0,
        judged: bool = False,
    ) -> Dynamics:
        """Return the numbers of a run: what is given stays, the rest follows.

        Parameters
        ----------
        rows
            The public, approximate number of rows of all sites together.
        privacy
            The guarantee of every site.
        scale
            How far an output has to move to make the loss per example about one worse: one for
            log-odds, the standard deviation of the response for a regression. With outputs o = s·u
            gradients with respect to u are s times those with respect to o, so clip/s and η·s²
            give the same run in u.
        sites
            How many sites there are.
        rows_per_unit
            How many rows one person has at most, where people are sampled and protected.
        shares
            In how many shares the noise comes, where only the sum over sites is seen.
        largest_weight
            What a row counts at most, where rows count differently.
        judged
            Whether it is asked in the end how sure the network may be: classifiers only.
        """
        _check_privacy(privacy)
        if self.noise_multiplier is not None and not _is_noisy(privacy):
            raise ParameterError(
                "noise_multiplier is not read without a guarantee: pass privacy=Privacy(…)"
            )
        rate = self.sampling_rate
        if rate is None:
            rate = min(1.0, max(0.05, _SAMPLE / rows))
        seen, unsure = self._judging(rows, rows_per_unit, privacy) if judged else (0.0, 0.0)
        besides = judged_event(unsure, seen, rows_per_unit) if unsure else None
        steps = self.steps or self._steps(rate, privacy, besides)
        clip = _CLIP / scale if self.clip is None else self.clip
        draft = Dynamics(
            steps=steps,
            sampling_rate=rate,
            clips=clip if isinstance(clip, tuple) else (float(clip),),
            rows=rows,
            sites=sites,
            schedule=self.schedule,
            momentum=self.momentum,
            method=self.method,
            precision=self.precision,
            temperature=_TEMPERATURE if self.temperature is None else self.temperature,
            burn_in=_BURN_IN if self.burn_in is None else self.burn_in,
            samples=self.samples,
            rows_per_unit=rows_per_unit,
            shares=shares,
            largest_weight=largest_weight,
            layer_noise=self.layer_noise or (),
            judged=(seen, unsure),
        )
        noise = self._noise(rate, steps, draft.unit_norm, privacy, besides)
        draft = replace(draft, noise_multiplier=noise)
        size = self.step_size
        if size is None:
            size = scale * _LARGEST_STEP / math.hypot(*draft.clips)
            spread = draft.noise / min(draft.units)
            if spread > 0.0:
                expected = rate * rows * (1.0 - self.momentum)
                most = scale * _OUTPUT_NOISE * expected / (spread * math.sqrt(steps))
                size = min(size, most)
        return replace(draft, step_size=size, taken=self._taken(draft, privacy, besides))

    def _judging(self, rows: float, each: int, privacy: Privacy | None) -> tuple[float, float]:
        """Return the rate and the noise of the last question, how sure the network may be."""
        if self.confidence == 0.0:
            return 0.0, 0.0
        rate = min(1.0, _JUDGED / rows)
        if privacy is None or not _is_noisy(privacy):
            return rate, 0.0
        # a sampled Gaussian costs about rate/σ, a whole budget 1/σ of one release
        cheap = rate * gaussian_sigma(privacy.epsilon, privacy.delta) / math.sqrt(self.confidence)
        precise = _PRECISE * rate * rows / (SPREAD * NORM * each)
        return rate, max(cheap, precise)

    def _taken(
        self, numbers: Dynamics, privacy: Privacy | None, besides: DpEvent | None
    ) -> int | None:
        """Return how many steps are taken where a run stops at an ε of its own."""
        if self.stop_at is None:
            return None
        if privacy is None or not _is_noisy(privacy) or self.stop_at > privacy.epsilon:
            raise ParameterError(
                "stop_at must be at most the epsilon of privacy=Privacy(…), which is what the "
                "noise is made for"
            )
        most = affordable_steps(
            self.stop_at,
            privacy.delta,
            sampling_rate=numbers.sampling_rate,
            noise_multiplier=numbers.noise_multiplier,
            besides=besides,
            most=numbers.steps,
        )
        return most if most < numbers.steps else None

    def _steps(self, rate: float, privacy: Privacy | None, besides: DpEvent | None) -> int:
        """Return how many steps there are where nobody says."""
        if self.noise_multiplier is not None and privacy is not None:
            noise = self.noise_multiplier
            return affordable_steps(
                privacy.epsilon,
                privacy.delta,
                sampling_rate=rate,
                noise_multiplier=noise,
                besides=besides,
            )
        epsilon = 10.0 if privacy is None else min(10.0, max(1.0, privacy.epsilon))
        few, many = _STEPS
        return round(few * math.pow(many / few, math.log10(epsilon)))

    def _noise(
        self,
        rate: float,
        steps: int,
        norm: float,
        privacy: Privacy | None,
        besides: DpEvent | None = None,
    ) -> float:
        """Return σ, the noise over the clip: given and enough, or the least that is."""
        if privacy is None or not _is_noisy(privacy):
            return 0.0
        if self.noise_multiplier is None:
            accountant = self.accountant or "pld"
            target = privacy.epsilon, privacy.delta
            return _calibrated(*target, rate, steps, norm, accountant, besides)
        event = _with(run_event(self.noise_multiplier, rate, steps, norm), besides)
        epsilon = epsilon_of(event, privacy.delta)
        if epsilon > privacy.epsilon * (1.0 + 1e-9):
            raise ParameterError(
                f"noise_multiplier={self.noise_multiplier:g} gives epsilon={shown(epsilon, 4)} "
                f"over {steps} steps, above {privacy.epsilon:g}: take at most "
                "tacit.networks.affordable_steps(…) steps"
            )
        return self.noise_multiplier


def _with(event: DpEvent, besides: DpEvent | None) -> DpEvent:
    return event if besides is None else compose([event, besides])


def _is_noisy(privacy: Privacy | None) -> bool:
    return privacy is not None and math.isfinite(privacy.epsilon)


def _check_privacy(privacy: Privacy | None) -> None:
    """Raise where sampled gradients cannot give the guarantee."""
    if privacy is None or not _is_noisy(privacy):
        return
    if privacy.neighbours != ADD_REMOVE:
        raise ParameterError("privacy.neighbours must be 'add-remove-one' for sampled gradients")
    if privacy.delta == 0.0:
        raise ParameterError("privacy.delta must be above 0 for Gaussian noise")


def affordable_steps(
    epsilon: float,
    delta: float,
    *,
    sampling_rate: float,
    noise_multiplier: float,
    besides: DpEvent | None = None,
    most: int = 1 << 24,
) -> int:
    """Return how many steps with the given noise stay within (ε, δ): where a run stops.

    ``besides`` is what else the run releases, and ``most`` the largest number that is of interest.

    >>> affordable_steps(1.0, 1e-5, sampling_rate=0.01, noise_multiplier=1.5) > 1000
    True
    """

    def fits(steps: int) -> bool:
        event = gaussian_event(noise_multiplier, rate=sampling_rate, steps=steps)
        return epsilon_of(_with(event, besides), delta) <= epsilon

    if not fits(1):
        raise ParameterError(
            f"noise_multiplier={noise_multiplier:g} exceeds epsilon={epsilon:g} in its first step"
        )
    low, high = 1, 2
    while high <= most and fits(high):
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@lru_cache(maxsize=256)
def _calibrated(
    epsilon: float,
    delta: float,
    rate: float,
    steps: int,
    norm: float,
    accountant: str,
    besides: DpEvent | None,
) -> float:
    """Return the least noise whose very events meet the guarantee.

    An accountant's ε is not monotone in the last digits, so it is asked about the events that will
    be charged, not about noise that is the same up to rounding.
    """
    return calibrate(
        lambda noise: _with(run_event(noise, rate, steps, norm), besides),
        epsilon,
        delta,
        accountant=accountant,
    )
