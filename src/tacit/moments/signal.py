"""What has to be said about a spectral fit: topics that noise hides, a δ that protects nobody."""

from __future__ import annotations

import math
import warnings

from tacit.errors import ParameterError
from tacit.moments.numerics.whitening import Whitening
from tacit.privacy.accounting.accountants import epsilon_of
from tacit.privacy.calibration import gaussian_sigma
from tacit.privacy.events import GaussianDpEvent
from tacit.privacy.guarantee import Privacy

__all__ = ["check_delta", "check_many", "check_signal"]


def check_signal(
    white: Whitening, sd: float, privacy: Privacy | None, known: bool | None = None
) -> None:
    """Raise where there are fewer components than asked for; warn where noise hides some.

    The moments were released where there is privacy, with noise of standard deviation ``sd``.
    Where more than the eigenvalues was looked at, ``known`` says whether there are components.
    """
    if sd == 0.0:
        rank = int((white.values > 1e-9 * max(float(white.values[0]), 1e-300)).sum())
        if rank < len(white.values):
            raise ParameterError(
                f"{len(white.values)} components were asked for, but the data have no more than "
                f"{rank}: pass at most {rank}"
            )
        return
    hidden = white.hidden if known is None else (0 if known else len(white.values))
    if not hidden:
        return
    assert privacy is not None
    last = float(white.values[-1])
    factor = min(white.edge / last, 100.0) if last > 0.0 else 100.0
    factor = max(factor, 1.25)
    epsilon = privacy.epsilon * factor
    if privacy.delta > 0.0:
        sigma = gaussian_sigma(privacy.epsilon, privacy.delta) / factor
        epsilon = epsilon_of(GaussianDpEvent(sigma), privacy.delta)
    state = "below zero" if last <= 0.0 else f"{last:.3g}"
    warnings.warn(
        f"{hidden} of {len(white.values)} components cannot be told from the noise, and are "
        f"guesses: the noise reaches {white.edge:.3g}, the weakest component {state}. It would "
        f"take at least {factor:.2g} times the data, or ε of at least {epsilon:.2g}, or fewer "
        "components",
        UserWarning,
        stacklevel=5,
    )


def check_delta(privacy: Privacy | None, count: float, unit: str) -> None:
    """Warn where δ is above one in the (noisy) number of units."""
    if privacy is None or math.isinf(privacy.epsilon) or privacy.delta * max(count, 1.0) <= 1.0:
        return
    warnings.warn(
        f"delta = {privacy.delta:g} is above 1 / (number of {unit}s): to publish one {unit} whole "
        "would be within the promise; pass a smaller delta",
        UserWarning,
        stacklevel=6,
    )


def check_many(size: int, privacy: Privacy | None, mixing: float) -> None:
    """Raise where a method for few words is asked for of many."""
    remedy = (
        f"of {size} words: pass common=…, how many of the most common words topics are about, or "
        "embeddings=… or public=…, from which groups of words follow (64 at most of either)"
    )
    if privacy is not None and privacy.delta == 0.0 and math.isfinite(privacy.epsilon):
        raise ParameterError(
            "privacy.delta must be positive, because this method adds Gaussian noise to all pairs "
            + remedy
        )
    if mixing:
        raise ParameterError("documents that mix topics take all triples, too many " + remedy)
