"""Settings that follow from public facts: the number of rows, the guarantee, and nothing else.

For inputs of norm one (`tacit.nn.networks`) a step of noise σ·clip on the sum of B expected rows
moves an output by about η·σ·clip/B, momentum multiplies that by 1/(1 − m), and T steps add up to

    ν = η·σ·clip·√T / (B·(1 − m)).

**Learning rate.** ν is the standard deviation of an output's noise. Outputs are log-odds, so it
should be of order one: ν = 2.5, the middle of a flat optimum, with η·clip of at most 64 where
there is hardly any noise. **Rate and steps.** Without sampling σ grows as √T, so the noise that T
steps add up to grows as T, as does what they learn: steps cost time and no privacy. So all rows
are taken in every step where they are few, else a twentieth of them and 3,000 at least, for 400
steps, or up to 800 where a larger ε lets more be learned. **Clip.** A gradient of a log loss at
norm-one inputs has norm √2 or less; a third of that costs little signal, because a mean of
directions serves as well. **Burn-in.** The last fifth of the steps, in which the step size is
small, is averaged.

The constants were chosen on a part of MNIST's training images that took no part in training
(five thousand, and for few rows 1,439 of them in 8 × 8 pixels); see `docs/nn.md`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tacit.nn.training import Training, affordable_steps
from tacit.privacy.guarantee import Privacy

__all__ = ["default_training"]

_OUTPUT_NOISE = 2.5
_LARGEST_STEP = 64.0
_CLIP = 0.5
_STEPS = 400, 800  # at ε ≤ 1 and from ε = 10 on
_SAMPLE = 3000.0
_BURN_IN = 0.8


def default_training(
    rows: float,
    privacy: Privacy | None,
    *,
    steps: int | None = None,
    rate: float | None = None,
    clip: float | tuple[float, ...] | None = None,
    learning_rate: float | None = None,
    burn_in: float | None = None,
    noise_multiplier: float | None = None,
    scale: float = 1.0,
    **settings: object,
) -> Training:
    """Return the settings of a run; what is given stays, the rest follows.

    Parameters
    ----------
    rows
        The public, approximate number of rows.
    privacy
        The guarantee.
    steps, rate, clip, learning_rate, burn_in
        As in `Training`; None: by the rules above.
    noise_multiplier
        As in `Training`. With noise given by hand and no steps, a run takes as many steps as the
        guarantee affords.
    scale
        How far an output has to move to make the loss per example about one worse: one for
        log-odds, the standard deviation of the response for a regression. With outputs o = s·u
        gradients with respect to u are s times those with respect to o, so clip/s and η·s² give
        the same run in u.
    settings
        Other settings of `Training`.

    Examples
    --------
    >>> default_training(60_000, Privacy(1.0, 1e-5)).rate
    0.05
    >>> default_training(60_000, Privacy(1.0, 1e-5), noise_multiplier=2.0).steps
    82
    """
    if rate is None:
        rate = min(1.0, max(0.05, _SAMPLE / rows))
    if steps is None:
        epsilon = 10.0 if privacy is None else min(10.0, max(1.0, privacy.epsilon))
        steps = round(_STEPS[0] * (_STEPS[1] / _STEPS[0]) ** math.log10(epsilon))
        if noise_multiplier is not None and privacy is not None and math.isfinite(privacy.epsilon):
            steps = affordable_steps(
                privacy.epsilon, privacy.delta, rate=rate, noise_multiplier=noise_multiplier
            )
    training = Training(
        steps=steps, rate=rate, clip=_CLIP / scale if clip is None else clip,
        burn_in=_BURN_IN if burn_in is None else burn_in, noise_multiplier=noise_multiplier,
        **settings,  # type: ignore[arg-type]
    )  # fmt: skip
    if learning_rate is None:
        learning_rate = scale * _LARGEST_STEP / training.norm
        noise = training.multiplier(privacy) * training.norm
        if noise > 0.0:
            expected = rate * rows * (1.0 - training.momentum)
            learning_rate = min(
                learning_rate, scale * _OUTPUT_NOISE * expected / (noise * math.sqrt(steps))
            )
    return replace(training, learning_rate=learning_rate)
