"""Populations, priors, statistics and releases as plain data, for files that open without code.

What is built in is written by its name and numbers. A function of the caller's own has no such
form: of a statistic its label and ranges are written, of a population nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tacit.errors import ParameterError
from tacit.posterior.numerics.counts import NoisyCount
from tacit.posterior.numerics.noisy_statistic import NoiseLaw, NoisyStatistic
from tacit.posterior.numerics.populations import laws
from tacit.posterior.numerics.populations.laws import Population
from tacit.posterior.numerics.priors import Beta, Gamma, InverseGamma, Normal, ScalarPrior, Uniform
from tacit.posterior.numerics.statistics import (
    Custom,
    OrderStatistic,
    Power,
    Statistic,
    as_statistic,
)

__all__ = [
    "noisy_from_plain",
    "plain_law",
    "plain_noisy",
    "plain_prior",
    "population_from_plain",
    "prior_from_plain",
    "statistic_from_plain",
]

_POPULATIONS = {
    kind.__name__: kind
    for kind in (
        laws.NormalMean,
        laws.NormalVariance,
        laws.UniformWidth,
        laws.Bernoulli,
        laws.Exponential,
        laws.Poisson,
    )
}
_PRIORS = {kind.__name__: kind for kind in (Beta, Gamma, InverseGamma, Normal, Uniform)}


def plain_law(law: Any) -> dict[str, Any] | None:
    """Return a built-in population or prior by its name and numbers; None for others.

    >>> plain_law(laws.NormalMean(2.0))
    {'name': 'NormalMean', 'sd': 2.0}
    """
    name = type(law).__name__
    known = _POPULATIONS.get(name) or _PRIORS.get(name)
    return {"name": name, **asdict(law)} if known is type(law) else None


def _from_plain(what: str, given: Any, known: Mapping[str, Any]) -> Any:
    found = {"name": given} if isinstance(given, str) else dict(given)
    name = found.pop("name", None)
    if name not in known:
        raise ParameterError(f"{what} must be one of {sorted(known)}, got {name!r}")
    try:
        return known[name](**found)
    except TypeError:
        raise ParameterError(f"{name} has no such numbers: {sorted(found)}") from None


def population_from_plain(given: Any) -> Population | None:
    """Return a population from its name, or from its name and numbers; or as it is."""
    if given is None or isinstance(given, Population):
        return given
    found: Population = _from_plain("population", given, _POPULATIONS)
    return found


def plain_prior(prior: ScalarPrior | Sequence[ScalarPrior] | None) -> Any:
    """Return a prior, or one for each parameter, by names and numbers."""
    if prior is None or isinstance(prior, ScalarPrior):
        return None if prior is None else plain_law(prior)
    return [plain_law(one) for one in prior]


def prior_from_plain(given: Any) -> Any:
    """Return a prior, or one for each parameter; or as they are."""
    if given is None or isinstance(given, ScalarPrior):
        return given
    if isinstance(given, list | tuple):
        return [prior_from_plain(one) for one in given]
    return _from_plain("prior", given, _PRIORS)


def statistic_from_plain(given: Any) -> Statistic:
    """Return a statistic from its name or from what `plain_noisy` wrote of it."""
    if not isinstance(given, Mapping):
        return as_statistic(given)
    if "ranges" in given:
        return Custom(_absent, tuple(tuple(pair) for pair in given["ranges"]), given["name"])
    cap = given.get("cap")
    power = Power(
        float(given["exponent"]), bool(given["absolute"]), None if cap is None else float(cap)
    )
    return power if "quantile" not in given else OrderStatistic(float(given["quantile"]), power)


def _absent(x: Any) -> Any:
    raise ParameterError(
        "a function of the caller's own is not part of a release: infer from "
        "dataclasses.replace(released, statistic=Custom(function, bounds=…))"
    )


def plain_noisy(release: NoisyStatistic) -> dict[str, Any]:
    """Return everything about a release but its numbers."""
    statistic = release.statistic
    about: dict[str, Any] = {"name": statistic.name}
    if isinstance(statistic, OrderStatistic):
        about |= {"quantile": statistic.quantile, **asdict(statistic.of)}
    elif isinstance(statistic, Power):
        about |= asdict(statistic)
    else:
        ranges = zip(*statistic.range(release.bounds), strict=True)
        about["ranges"] = [[float(low), float(high)] for low, high in ranges]
    return {
        "statistic": about,
        "bounds": [float(end) for end in release.bounds],
        "size": release.size,
        "noise": release.noise.kind,
        "scale": release.noise.scale,
        "beta": release.noise.beta,
        "step": release.noise.step,
        "local": release.local,
        **({} if release.count is None else {"count": asdict(release.count)}),
    }


def noisy_from_plain(given: Mapping[str, Any], values: Any) -> NoisyStatistic:
    """Return a release from what `plain_noisy` wrote and its numbers."""
    low, high = given["bounds"]
    scale, beta, step = (float(given.get(name, 0.0)) for name in ("scale", "beta", "step"))
    law = NoiseLaw(str(given["noise"]), scale, beta, step)
    statistic = statistic_from_plain(given["statistic"])
    numbers, counted = np.asarray(values, np.float64), given.get("count")
    return NoisyStatistic(
        statistic,
        (float(low), float(high)),
        int(given["size"]),
        law,
        numbers,
        bool(given["local"]),
        None if counted is None else NoisyCount(**counted),
    )
