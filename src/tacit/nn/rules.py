"""Settings that follow from public facts: the number of rows, the guarantee, and nothing else.

For inputs of norm one (`tacit.nn.networks`) a step of noise σ·clip on the sum of B expected rows
moves an output by about η·σ·clip/B, momentum multiplies that by 1/(1 − m), and T steps add up to

    ν = η·σ·clip·√T / (B·(1 − m)).

**Learning rate.** ν is the standard deviation of an output's noise. Outputs are log-odds, so it
should be of order one: ν = 4, the middle of a flat optimum, with η·clip of at most 15,
beyond which momentum overshoots.
**Steps.** More steps fit better and cost noise as √T; T = 1.3·√(rows·ε) balances them, because
what noise lets one learn grows with rows·ε. **Rate.** Large samples: a twentieth of the rows, and
all of them where rows are few. **Clip.** A gradient of a log loss at norm-one inputs has norm √2
or less; half of that or less costs little signal, because a mean of directions serves as well.

The constants were chosen on a part of MNIST's training images that took no part in training
(ten thousand, and for few rows 1,439 of them in 8 × 8 pixels), after results on scikit-learn's
digits had been seen once; see `docs/nn.md`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tacit.nn.training import Training
from tacit.privacy.guarantee import Privacy

__all__ = ["default_training"]

_OUTPUT_NOISE = 4.0
_LARGEST_STEP = 15.0
_CLIP = 0.5


def default_training(
    rows: float,
    privacy: Privacy | None,
    *,
    steps: int | None = None,
    rate: float | None = None,
    clip: float | tuple[float, ...] | None = None,
    learning_rate: float | None = None,
    **settings: object,
) -> Training:
    """Return the settings of a run; what is given stays, the rest follows.

    Parameters
    ----------
    rows
        The public, approximate number of rows.
    privacy
        The guarantee.
    steps, rate, clip, learning_rate
        As in `Training`; None: by the rules above.
    settings
        Other settings of `Training`.

    Examples
    --------
    >>> default_training(60_000, Privacy(1.0, 1e-5)).steps
    318
    """
    epsilon = 10.0 if privacy is None else min(privacy.epsilon, 10.0)
    if steps is None:
        steps = max(20, min(640, round(1.3 * math.sqrt(rows * epsilon))))
    if rate is None:
        rate = min(1.0, max(0.05, 2000.0 / rows))
    norm = _CLIP if clip is None else clip
    training = Training(steps=steps, rate=rate, clip=norm, **settings)  # type: ignore[arg-type]
    if learning_rate is None:
        learning_rate = _LARGEST_STEP / training.norm
        noise = training.multiplier(privacy) * training.norm
        if noise > 0.0:
            expected = rate * rows * (1.0 - training.momentum)
            learning_rate = min(
                learning_rate, _OUTPUT_NOISE * expected / (noise * math.sqrt(steps))
            )
    return replace(training, learning_rate=learning_rate)
