"""What a release of a posterior holds: noisy statistics, draws, and whose certificates they need.

A posterior rests on everything that it was inferred from. Each `NoisyStatistic` knows its own
certificates; a release carries those of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tacit._core.chains import thinned
from tacit.errors import ParameterError
from tacit.estimators.release import Release
from tacit.estimators.release.draws import diagnostics_arrays, diagnostics_from
from tacit.estimators.release.promise import gathered
from tacit.posterior.numerics.infer import ParameterPosterior
from tacit.posterior.numerics.noisy_statistic import NoisyStatistic
from tacit.posterior.numerics.statistics import Custom
from tacit.posterior.plain import noisy_from_plain
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import NonPrivateDpEvent
from tacit.privacy.guarantee import Privacy

__all__ = [
    "DIMS",
    "certificates_behind",
    "posterior_arrays",
    "posterior_of",
    "sources_of",
    "with_certificates",
    "with_own_code",
]

_DRAWS = "posterior/draws"
DIMS: dict[str, tuple[str, ...]] = {
    "mean": ("parameter",),
    "sd": ("parameter",),
    _DRAWS: ("chain", "draw", "parameter"),
}


def certificates_behind(sources: Sequence[NoisyStatistic]) -> dict[str, Certificate]:
    """Return every certificate that what is inferred from statistics rests on.

    Parameters
    ----------
    sources
        What was inferred from. One without a certificate stands for data without a guarantee.
    """
    parts: list[tuple[str, Certificate]] = []
    for source in sources:
        parts += source.certificates or [("a statistic without a certificate", _nothing())]
    return gathered(parts)


def _nothing() -> Certificate:
    note = "what a statistic without a certificate was released under is not known"
    return Certificate.issue(
        Privacy(epsilon=float("inf")), NonPrivateDpEvent(), assumptions=(note,)
    )


def with_certificates(
    source: NoisyStatistic, certificates: Mapping[str, Certificate]
) -> NoisyStatistic:
    """Return a statistic that knows what it was released under."""
    return replace(source, certificates=tuple(certificates.items()))


def posterior_arrays(posterior: ParameterPosterior) -> dict[str, Any]:
    """Return draws and diagnostics, as a release keeps them."""
    (draws,) = thinned(posterior.draws)
    return {_DRAWS: draws, **diagnostics_arrays(posterior.diagnostics)}


def posterior_of(release: Release) -> ParameterPosterior | None:
    """Return the posterior of a release; None where it holds no draws."""
    if _DRAWS not in release.arrays:
        return None
    names = tuple(str(name) for name in release.coords["parameter"])
    sampler = str(release.settings["sampled_by"])
    draws, facts = release.arrays[_DRAWS], diagnostics_from(release.arrays)
    return ParameterPosterior(sampler, names, draws, facts)


def sources_of(
    release: Release, arrays: Sequence[str], said: Sequence[Mapping[str, Any]]
) -> list[NoisyStatistic]:
    """Return the noisy statistics of a release, each with its certificates.

    Parameters
    ----------
    release
        What was read.
    arrays, said
        The names of the statistics' numbers, and what the settings say of each.
    """
    found = []
    for name, about in zip(arrays, said, strict=True):
        paid = about.get("certificates", list(release.certificates))
        own = {holder: release.certificates[holder] for holder in paid}
        source = noisy_from_plain(about, release.arrays[name])
        found.append(with_certificates(source, own))
    return found


def with_own_code(
    sources: Sequence[NoisyStatistic], statistic: Custom | None
) -> list[NoisyStatistic]:
    """Return statistics with the caller's function, where they were released with one.

    Parameters
    ----------
    sources
        Of a release: a function of the caller's own is not part of it.
    statistic
        The function, with the ranges and the name of the fit.
    """
    if statistic is None:
        return list(sources)
    found = []
    for source in sources:
        told = source.statistic
        if isinstance(told, Custom):
            if _said(told, source) != _said(statistic, source):
                raise ParameterError(
                    f"statistic must be {told.name!r} with the ranges of the release, got "
                    f"{statistic.name!r}"
                )
            source = replace(source, statistic=statistic)
        found.append(source)
    if not any(source.statistic is statistic for source in found):
        raise ParameterError("statistic must be left out: the release was made without a function")
    return found


def _said(statistic: Custom, source: NoisyStatistic) -> tuple[str, list[list[float]]]:
    """Return what a release says of a function: its label and its ranges."""
    return statistic.name, [list(map(float, ends)) for ends in statistic.range(source.bounds)]
