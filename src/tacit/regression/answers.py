"""What a regression shows: coefficients with intervals, residuals, how the chains mixed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tacit._core.answers import ERROR, Answer, Table, shown_number
from tacit._core.arrays import Array
from tacit._core.noise_sums import reach
from tacit._core.pictures import Intervals, Lines, Picture
from tacit.regression.design import Design
from tacit.regression.methods import HELD
from tacit.regression.numerics.moments import Prior, pooled
from tacit.regression.numerics.posterior import Posterior
from tacit.regression.scale import Line, noise_unit, to_callers_scale
from tacit.regression.site_answer import table_of_rows
from tacit.regression.summary import SiteSummary

__all__ = ["answer_of"]

_WIDE = 0.75  # of the prior's interval: what is as wide was hardly learned
_POINTS = 80  # of a density's curve


def answer_of(
    line: Line,
    design: Design,
    columns: Sequence[str],
    summaries: Mapping[str, SiteSummary],
    posterior: Posterior | None,
    prior: Prior | None,
    level: float,
) -> Answer:
    """Return everything that a regression has to show.

    Parameters
    ----------
    line, design, columns, summaries
        As the estimator has them: the names of the features and, last, of the response.
    posterior
        With draws; None where only a release is left, and intervals are normal ones.
    prior
        What was believed before; None is the default.
    level
        The probability of intervals.
    """
    names, target = ["intercept", *columns[:-1]], columns[-1]
    value = np.concatenate([[line.intercept], line.coef])
    draws = None
    if posterior is not None and not posterior.point:
        draws = posterior.flat @ to_callers_scale(design).T
        draws[:, 0] += design.middle[-1]
    low, high = _interval(line, value, draws, level)
    coefficients = _table(names, value, line.sd, low, high, level)
    pictures = _pictures(columns, design, value, (low, high), draws, level)
    residual = _residual(line, posterior, noise_unit(design, list(summaries.values())), level)
    return Answer(
        "Private linear regression" if _is_noisy(summaries) else "Linear regression",
        _headline(names, target, value, line.sd, low, high, level),
        (coefficients, *residual),
        (*_hidden(names, posterior, summaries), *_warnings(names, posterior, prior, level)),
        details=_details(names, posterior, summaries),
        pictures=pictures,
    )


def _is_noisy(summaries: Mapping[str, SiteSummary]) -> bool:
    """Whether any site's sums have noise."""
    return any(not summary.moments.exact for summary in summaries.values())


def _interval(line: Line, value: Array, draws: Array | None, level: float) -> tuple[Array, Array]:
    """Return the ends of central intervals, NaN for a point estimate."""
    if draws is not None:
        low, high = np.quantile(draws, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0)
        return np.asarray(low), np.asarray(high)
    far = reach(level, 1.0) * line.sd
    return value - far, value + far


def _table(
    names: Sequence[str], value: Array, sd: Array, low: Array, high: Array, level: float
) -> Table:
    return Table(
        "coefficients",
        f"Coefficients, with {100 * level:g} % intervals",
        {
            "coefficient": list(names),
            "estimate": value.tolist(),
            ERROR: _known(sd),
            "low": _known(low),
            "high": _known(high),
        },
    )


def _known(numbers: Array) -> list[float | None]:
    return [float(x) if math.isfinite(x) else None for x in numbers]


def _residual(
    line: Line, posterior: Posterior | None, unit: float, level: float
) -> tuple[Table, ...]:
    """Return what is known of residuals, if anything is."""
    if not math.isfinite(line.noise_sd):
        return ()
    found: list[float | None] = [None, None, None]
    if posterior is not None and not posterior.point:
        sds = unit * np.sqrt(np.maximum(posterior.noise_variance.ravel(), 0.0))
        # a method that takes the variance as known has one value, and no error of it
        if np.isfinite(sds).all() and np.ptp(sds) > 1e-9 * sds.max():
            ends = np.quantile(sds, [0.5 - level / 2.0, 0.5 + level / 2.0])
            found = [float(sds.std()), *map(float, ends)]
    told: dict[str, list[str | float | None]] = {
        "what": ["standard deviation of residuals"],
        "estimate": [line.noise_sd],
        **dict(zip((ERROR, "low", "high"), ([x] for x in found), strict=True)),
    }
    return (Table("residuals", "Residuals", told),)


def _headline(
    names: Sequence[str],
    target: str,
    value: Array,
    sd: Array,
    low: Array,
    high: Array,
    level: float,
) -> str:
    """Return the coefficient that is known best, relative to its size."""
    if len(names) < 2:
        return ""
    known = np.abs(value[1:]) / np.where(sd[1:] > 0.0, sd[1:], math.inf)
    best = 1 + int(np.argmax(np.nan_to_num(known)))
    if not math.isfinite(low[best]):
        return f"{target} changes by {shown_number(value[best])} per unit of {names[best]}."
    told = [shown_number(float(x[best]), float(sd[best])) for x in (value, low, high)]
    return (
        f"{target} changes by {told[0]} [{told[1]}, {told[2]}] per unit of {names[best]}, all "
        f"else equal ({100 * level:g} % interval)."
    )


def _warnings(
    names: Sequence[str], posterior: Posterior | None, prior: Prior | None, level: float
) -> tuple[str, ...]:
    """Name the coefficients of which hardly more is known than before, and chains that differ."""
    if posterior is None or posterior.point:
        return ()
    found = []
    believed = np.full(posterior.draws.shape[-1], _believed(prior, level))
    if prior is not None and prior.intercept_sd is not None:
        believed[0] = reach(level, prior.intercept_sd**2)
    wide = np.ptp(posterior.interval(level), axis=1) > _WIDE * 2.0 * believed
    told = names[len(names) - len(wide) :]
    hardly = [name for name, is_wide in zip(told, wide, strict=True) if is_wide]
    if hardly:
        found.append(
            f"Hardly anything was learned about {', '.join(hardly)}: "
            "the intervals are about as wide as before. Use a larger ε, or more rows."
        )
    if not posterior.diagnostics.get("converged", True):
        found.append("The chains do not agree (R-hat above 1.1): raise draws and warmup.")
    return tuple(found)


def _hidden(
    names: Sequence[str], posterior: Posterior | None, summaries: Mapping[str, SiteSummary]
) -> tuple[str, ...]:
    """Say where a method that holds S as it was released rests on directions that noise hides.

    The spectrum of symmetric noise of standard deviation τ on the diagonal, τ/√2 beside it, ends
    at √(2d)·τ: an eigenvalue of Ŝ below that may be noise alone, and what is divided by it, too.
    """
    if posterior is None or posterior.method not in HELD or not summaries:
        return ()
    total = pooled([summary.moments for summary in summaries.values()])
    edge = math.sqrt(2.0 * total.dimension) * total.gram_sd
    lost = int((np.linalg.eigvalsh(total.gram) < edge).sum())
    if not lost:
        return ()
    few = f"{lost} of {total.dimension} directions of the features"
    return (
        f"{posterior.method} takes the released sums as they are, and noise hides {few}: "
        "coefficients there are noise. Use method='auto', which shrinks them.",
    )


def _believed(prior: Prior | None, level: float) -> float:
    """Return half of the interval of a coefficient before any summary was read."""
    from scipy.special import stdtrit

    if prior is not None and prior.sd is not None:
        return reach(level, prior.sd**2)
    # a learned variance ~ IG(2, 0.2): Student's law with four degrees of freedom
    return float(stdtrit(4.0, 0.5 + level / 2.0)) * math.sqrt(0.1)


def _details(
    names: Sequence[str], posterior: Posterior | None, summaries: Mapping[str, SiteSummary]
) -> dict[str, str | Sequence[Table]]:
    """Return how the chains mixed, and who released what."""
    found: dict[str, str | Sequence[Table]] = {}
    if posterior is not None and "r_hat" in posterior.diagnostics:
        told = posterior.diagnostics
        sampled = list(names)[len(names) - len(told["r_hat"]) :]
        table = Table(
            "diagnostics",
            f"{posterior.method}: {told['iterations']} iterations of each chain after "
            f"{told['warmup']}",
            {
                "coefficient": sampled,
                "R-hat": [round(float(x), 4) for x in told["r_hat"]],
                "effective draws": [round(float(x)) for x in told["effective_samples"]],
            },
        )
        found["How the chains mixed"] = [table]
    released = {name: (one.moments, one.certificate) for name, one in summaries.items()}
    found["What each site released"] = [table_of_rows(released)]
    return found


def _pictures(
    columns: Sequence[str],
    design: Design,
    value: Array,
    ends: tuple[Array, Array],
    draws: Array | None,
    level: float,
) -> dict[str, Picture]:
    """Return what each feature does over its whole range, with intervals, and its density."""
    features, target = list(columns[:-1]), columns[-1]
    whole = 2.0 * np.array(design.half[:-1])
    low, high = (end[1:] * whole for end in ends)
    if not np.isfinite(low).all():
        low = high = value[1:] * whole
    axis = f"change of {target} over the range of a feature"
    found: dict[str, Picture] = {
        "coefficients": Intervals(
            f"What each feature does, with {100 * level:g} % intervals",
            axis,
            features,
            (value[1:] * whole).tolist(),
            low.tolist(),
            high.tolist(),
            reference=0.0,
        )
    }
    if draws is not None:
        found["posterior"] = Lines(
            "Posterior of what each feature does",
            axis,
            "density",
            {n: _density(draws[:, 1 + k] * whole[k]) for k, n in enumerate(features)},
        )
    return found


def _density(draws: Array) -> list[tuple[float, float]]:
    """Return the curve of a smoothed density (Silverman's width)."""
    sd = float(draws.std())
    if sd == 0.0:
        return [(float(draws[0]), 0.0)]
    width = 1.06 * sd * len(draws) ** -0.2
    places = np.linspace(draws.min() - width, draws.max() + width, _POINTS)
    heights = np.exp(-0.5 * ((places[:, None] - draws[None]) / width) ** 2).mean(axis=1)
    heights /= width * math.sqrt(2.0 * math.pi)
    return list(zip(places.tolist(), heights.tolist(), strict=True))
