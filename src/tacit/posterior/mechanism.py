"""Which mechanism releases a statistic with the least noise.

Sensitivities, and why each release is private, stand in `tacit.posterior.agreement`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tacit.errors import ParameterError
from tacit.mechanisms.base import Mechanism
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.mechanisms.quantiles import LEAST, Quantiles
from tacit.mechanisms.randomized_response import RandomizedResponse
from tacit.mechanisms.smooth_quantile import SmoothQuantile
from tacit.posterior.numerics.orders.domain import Domain
from tacit.posterior.numerics.statistics import Additive, OrderStatistic, Statistic
from tacit.privacy.calibration import SOURCE_SHARE
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy

__all__ = ["MECHANISMS", "least_noise", "of_sums", "ordered"]

MECHANISMS = (
    "auto", "gaussian", "laplace", "exponential", "smooth", "randomized-response", "averaged",
)  # fmt: skip


def least_noise(
    statistic: Statistic,
    bounds: tuple[float, float],
    size: int,
    privacy: Privacy | None,
    how: str = "auto",
    source: str = "exact",
    step: float = 0.0,
) -> Mechanism:
    """Return the least noise for which releasing a statistic of n people meets a request.

    The request is under replace-one, ``trust="local"`` lets each person answer alone, and None
    adds no noise. ``"averaged"`` is Gaussian noise on each person's answer, of which the mean
    leaves (thesis Example 6). Of the other `MECHANISMS` ``"auto"`` takes the one with the least
    variance that applies, and for order statistics the exponential mechanism, whose error does not
    wait for the law of the data; ``step`` is how far apart their values are (0: any).

    >>> from tacit.posterior.numerics.statistics import Power
    >>> found = least_noise(Power(), (0.0, 1.0), 100, Privacy(2.0, neighbours="replace-one"))
    >>> round(found.scale, 6)
    0.005
    """
    local = privacy is not None and privacy.trust == "local"
    if isinstance(statistic, OrderStatistic):
        if how == "smooth":
            return _smooth(statistic, bounds, size, privacy, source)
        if privacy is None or math.isinf(privacy.epsilon):
            raise ParameterError(f"{statistic.name} needs a finite epsilon: pass Privacy(epsilon)")
        _needs_all_data(statistic.name, privacy)
        return ordered(statistic, bounds, privacy.epsilon, how, step, REPLACE)
    if how in ("smooth", "exponential"):
        raise ParameterError(f"{statistic.name} is no order statistic: pass mechanism='auto'")
    if local and statistic.dimension(bounds) != 1:
        raise ParameterError("each person answers with one number: choose a scalar statistic")
    if how == "randomized-response":
        return _response(statistic, bounds, privacy)
    if how == "averaged":
        if not local:
            raise ParameterError("answers are averaged of people who answer alone: pass "
                                 "Privacy(…, trust='local')")  # fmt: skip
        how = "gaussian"
    people = 1 if local else size
    shape = (size,) if local else (statistic.dimension(bounds),)
    delta1, delta2 = (statistic.sensitivity(bounds, people, norm) for norm in (1, 2))
    epsilon, delta = (math.inf, 0.0) if privacy is None else (privacy.epsilon, privacy.delta)
    more: dict[str, Any] = {"neighbours": REPLACE, "source": source}
    options: list[Gaussian | Laplace] = []
    if how in ("auto", "laplace"):
        options.append(Laplace.for_privacy(epsilon, delta1, shape, **more))
    if how == "gaussian" and not delta > 0.0 and math.isfinite(epsilon):
        raise ParameterError("Gaussian noise needs delta > 0: pass Privacy(epsilon, delta)")
    if how in ("auto", "gaussian") and (delta > 0.0 or math.isinf(epsilon)):
        options.append(Gaussian.for_privacy(epsilon, delta, delta2, shape, **more))
    return min(options, key=lambda option: option.variance())


def _smooth(
    statistic: OrderStatistic,
    bounds: tuple[float, float],
    size: int,
    privacy: Privacy | None,
    source: str,
) -> SmoothQuantile:
    name = statistic.name
    if privacy is None or not (privacy.delta > 0.0 and privacy.epsilon <= 10.0):
        raise ParameterError(
            f"{name} needs epsilon of at most 10 and delta > 0 (smooth sensitivity): pass "
            "mechanism='exponential'"
        )
    _needs_all_data(name, privacy)
    delta = privacy.delta * (1.0 - SOURCE_SHARE)
    span = statistic.range(bounds)
    return SmoothQuantile(privacy.epsilon, delta, span, size, statistic.quantile, source)


def ordered(
    statistic: OrderStatistic,
    bounds: tuple[float, float],
    epsilon: float,
    how: str,
    step: float,
    neighbours: str,
) -> Quantiles:
    """Return the exponential mechanism of one order statistic.

    Parameters
    ----------
    statistic, bounds
        What, and within which public bounds of the data.
    epsilon, neighbours
        Of the draw.
    how
        ``"auto"`` or ``"exponential"``: smooth sensitivity is that of a public number of people.
    step
        How far apart people's numbers are; 0: any.
    """
    name = statistic.name
    if how == "smooth":
        raise ParameterError(
            f"{name} with smooth sensitivity needs a number of people that is agreed on: pass "
            "mechanism='exponential', or one holder and neighbours='replace-one'"
        )
    if how not in ("auto", "exponential"):
        raise ParameterError(
            f"{name} is released by the exponential mechanism or with smooth sensitivity: pass "
            "mechanism='auto' or 'smooth'"
        )
    domain = Domain.of(statistic, bounds, step)
    if epsilon < LEAST:
        raise ParameterError(f"{name} needs epsilon of at least {LEAST:.3g}")
    ends, level = (domain.low, domain.high), (statistic.quantile,)
    return Quantiles(epsilon, ends, level, neighbours, step=step)


def of_sums(
    statistic: Additive,
    bounds: tuple[float, float],
    privacy: Privacy | None,
    how: str,
    source: str,
    weight: Callable[[int], float],
) -> Gaussian | Laplace:
    """Return the least noise on the sum of s − m over people, and on their number.

    Parameters
    ----------
    statistic, bounds
        What, and within which public bounds of the data.
    privacy
        The request; None adds no noise.
    how, source
        As in `least_noise`.
    weight
        How much a person adds to the count under noise for an L1 or an L2 sensitivity; 0 where
        their number is public (`tacit.posterior.uncounted`).
    """
    if how not in ("auto", "gaussian", "laplace"):
        raise ParameterError(
            f"{statistic.name} of several holders, or of a private number of people, is released "
            "with Gaussian or Laplace noise: pass mechanism='auto'"
        )
    replaced = privacy is None or privacy.neighbours == REPLACE
    epsilon, delta = (math.inf, 0.0) if privacy is None else (privacy.epsilon, privacy.delta)
    low, high = statistic.range(bounds)
    k, far = len(low), (high - low) * (1.0 if replaced else 0.5)
    statistic.sensitivity(bounds, 1, 1)  # raises for what is constant
    more: dict[str, Any] = {"source": source, "neighbours": REPLACE if replaced else ADD_REMOVE}
    shape = (k if replaced else k + 1,)
    options: list[Gaussian | Laplace] = []
    # how likely several numbers with Laplace noise are has a formula for no more than one release
    alone = k == 1 or how == "laplace" or not delta
    if how in ("auto", "laplace") and alone and (k == 1 or replaced):
        options.append(Laplace.for_privacy(epsilon, float(far.sum()) + weight(1), shape, **more))
    if how in ("auto", "gaussian") and (delta > 0.0 or math.isinf(epsilon)):
        reach = math.hypot(float(np.linalg.norm(far)), weight(2))
        options.append(Gaussian.for_privacy(epsilon, delta, reach, shape, **more))
    if not options:
        noise = "Gaussian noise" if how == "gaussian" else "several numbers of a private number"
        raise ParameterError(f"{noise} of people needs delta > 0: pass Privacy(epsilon, delta)")
    return min(options, key=lambda option: option.variance())


def _needs_all_data(name: str, privacy: Privacy) -> None:
    if privacy.trust == "local":
        raise ParameterError(f"{name} needs all data: no person can answer alone")


def _response(
    statistic: Additive, bounds: tuple[float, float], privacy: Privacy | None
) -> RandomizedResponse:
    if privacy is None or privacy.trust != "local":
        raise ParameterError("randomized response is local: pass Privacy(…, trust='local')")
    low, high = statistic.range(bounds)
    if (float(low[0]), float(high[0])) != (0.0, 1.0):
        raise ParameterError("randomized response takes 0/1 answers: pass bounds=(0, 1)")
    return RandomizedResponse(privacy.epsilon)
