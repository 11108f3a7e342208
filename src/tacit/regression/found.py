"""A regression whose ranges are found first: steps, both sides, and what a site releases.

**What is charged.** Each column of unknown range has a step of its own, two quantiles by the
exponential mechanism, purely ε₁-private with ε₁ = share·ε/(columns). The sums of rows follow, with
the Gaussian noise that makes all steps together (ε, δ)-private. All of it is one reservation.

**The ranges are asked for.** The coordinator sends the middle and the half-range of every column
with the second request, and may send any: a row is mapped to [−1, 1] and clipped there before
anything else, so that what it adds has the bounds of `tacit.regression.design` whatever the ranges
are. So the sensitivity is that of every request that is admitted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit._core.lazy import late
from tacit.errors import NotCertified, ParameterError, VerificationFailed
from tacit.estimators.agreement import Ask, Coordinating, Neighbours, Start, Step
from tacit.estimators.executors import shards_of
from tacit.estimators.gate import Gate
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.quantiles import Quantiles
from tacit.privacy.calibration import calibrate
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    ApproximateDpEvent,
    DpEvent,
    GaussianDpEvent,
    compose,
    leaves,
)
from tacit.privacy.guarantee import Privacy
from tacit.regression.agreement import RegressionAgreement
from tacit.regression.design import Design
from tacit.regression.search import LEVELS, STEP, FindBounds, flat, middles_and_halves
from tacit.regression.summary import SiteSummary
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Participant

__all__ = [
    "FindingAgreement",
    "Found",
    "FoundDesign",
    "FoundSummary",
    "RawRows",
    "check_findable",
    "hidden_ranges",
]

_ONE = FindBounds(1)
_FAR = 1e12  # of any number that a request holds
_RANGE = "range of "
_ENOUGH = 14.0  # e^14 is more than the steps of the scale: a draw then hardly leaves the data


def check_findable(plain: bool, privacy: Privacy | None) -> None:
    """Raise where ranges cannot be found.

    Parameters
    ----------
    plain
        Whether single rows are released, as this agreement has them.
    privacy
        What is asked for.
    """
    if not plain:
        raise ParameterError("bounds cannot be found here: pass bounds={feature: (low, high)}")
    if privacy is not None and privacy.trust == "aggregator":
        raise ParameterError(
            "under trust='aggregator' no site's own quantiles are seen, so that bounds cannot be "
            "found: pass bounds={feature: (low, high)}"
        )


def hidden_ranges(model: Any) -> tuple[str, ...]:
    """Return what is to be said where a fitted model's ranges were to be found and are hidden."""
    if model._public.search is None:
        return ()
    agreement = model._agreement(model.design_, len(model.summaries_))
    assert isinstance(agreement, FindingAgreement)
    middle, half = model.design_.middle[-1], model.design_.half[-1]
    if agreement.response and flat(model._public.search, middle, half):
        return (
            f"{model.columns_[-1]} is mostly one number, and no range of it was found. Nothing is "
            "predicted but zero: state y_bounds.",
        )
    return agreement.hidden({name: s.moments.rows for name, s in model.summaries_.items()})


class RawRows(NamedTuple):
    """A site's rows, read but not yet mapped: private, and never leave it."""

    x: Array
    y: Array


class Found(NamedTuple):
    """The ranges that were found, and what every site released with them."""

    middle: tuple[float, ...]
    half: tuple[float, ...]
    by_site: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class FoundDesign(Design):
    """Sums of rows whose ranges are no public input, but were released.

    Parameters
    ----------
    middle, half, intercept, neighbours, statistics, clip, rows_per_unit, constant, response
        As in `Design`.
    """

    def assumptions(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return every public input: how rows are scaled, but no range."""
        return super().assumptions(names)[len(names) :]


@dataclass(frozen=True)
class FoundSummary(SiteSummary):
    """What one site released where ranges were found."""

    what: ClassVar[str] = "tacit regression summary with found ranges"
    kind: ClassVar[type[Design]] = FoundDesign

    def save(self, path: str | PathLike[str]) -> Path:
        """Refuse: who came later would have other ranges."""
        raise NotCertified(
            "the ranges were found with all sites of the fit, so that no summary can be joined "
            "elsewhere: release the model, or state bounds"
        )

    @property
    def facts(self) -> dict[str, Any]:
        """What is public about it, as a release keeps it."""
        return {**super().facts, "found": True}

    @property
    def _event(self) -> DpEvent:
        gaussian = [e for e in leaves(self.certificate.event) if isinstance(e, GaussianDpEvent)]
        if len(gaussian) != 1:
            raise VerificationFailed("the certificate is not that of ranges and one Gaussian")
        return gaussian[0]


@dataclass(frozen=True)
class FindingAgreement(RegressionAgreement):
    """Quantiles of every column of unknown range, then one release of sums of rows per site.

    Parameters
    ----------
    design, columns, privacy, sites, noise, notes, shares
        As in `RegressionAgreement`; the design's middle and half-range are those of a column that
        is known, and 0 and 1 of one that is not.
    search
        How ranges are found.
    response
        Whether that of the response is, too.

    Examples
    --------
    >>> search = FindBounds(["age"])
    >>> design = FoundDesign((0.0, 0.0), (1.0, 1.0))
    >>> asked = Privacy(1.0, 1e-6, unit="row")
    >>> agreement = FindingAgreement(design, ("age", "y"), asked, search=search)
    >>> [step.name for step in agreement.steps]
    ['range of age', 'range of y', 'rows']
    """

    trusts: ClassVar[tuple[str, ...]] = ("central", "site")

    search: FindBounds = _ONE
    response: bool = True

    @property
    def unknown(self) -> tuple[str, ...]:
        """The columns whose ranges are found."""
        return self.columns if self.response else self.columns[:-1]

    @property
    def epsilon_of_each(self) -> float:
        """What finding one column's range costs."""
        if self.privacy is None or math.isinf(self.privacy.epsilon):
            return math.inf
        return self.search.share * self.privacy.epsilon / len(self.unknown)

    @cached_property
    def quantiles(self) -> Quantiles:
        """The mechanism of one column's range, on the log scale."""
        epsilon, most = self.epsilon_of_each, self.design.rows_per_unit
        return Quantiles(epsilon, (-1.0, 1.0), LEVELS, self.design.neighbours, most, STEP)

    @cached_property
    def mechanism(self) -> Gaussian:
        """The least noise on sums for what finding the ranges leaves."""
        privacy = self.privacy
        whole = self.design.mechanism(privacy, self.source)  # refuses δ = 0
        if privacy is None or math.isinf(privacy.epsilon):
            return whole
        ranges = [ApproximateDpEvent(self.epsilon_of_each)] * len(self.unknown)
        multiplier = calibrate(
            lambda noise: compose([*ranges, GaussianDpEvent(noise)]),
            privacy.epsilon,
            privacy.delta,
            start=whole.noise_multiplier,
        )
        return self.design.fixed_noise(multiplier, self.source)

    def _steps(self) -> tuple[Step, ...]:
        (rows,) = super()._steps()
        low, high = self.quantiles.reach
        ends = {"ends": ArraySpec((len(LEVELS),), low=low, high=high)}
        ranges = tuple(
            Step(
                _RANGE + name,
                self.quantiles,
                replies=ends,
                merge="values",
                reach="a value at the end of the scale is not the worst for every quantile",
            )
            for name in self.unknown
        )
        width = (len(self.columns),)
        asks = {
            "middle": ArraySpec(width, low=-_FAR, high=_FAR),
            "half": ArraySpec(width, low=1.0 / _FAR, high=2.0 * _FAR),
        }
        moved = "the ranges of the worst case are asked for, and noise is in them"
        return (*ranges, replace(rows, asks=asks, reach=moved))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """How ranges are found and rows scaled, and what is public with that."""
        names, own = ", ".join(self.unknown), self.search
        levels = ", ".join(f"{level:g}" for level in LEVELS)
        ranges = Design.assumptions(self.design, self.columns)[: len(self.columns)]
        known = ranges[len(self.unknown) :]
        ways = (
            f"the ranges of {names} are private quantiles at {levels} of "
            f"sizes between {own.smallest:g} and {own.largest:g} on a log scale, widened",
        )
        return (*ways, *known, *super().assumptions)

    @property
    def parts_of_price(self) -> tuple[str, ...]:
        """What finding the ranges takes."""
        each = self.epsilon_of_each
        if math.isinf(each):
            return ()
        total = each * len(self.unknown)
        return (f"of it ε = {total:.3g} finds the ranges of {len(self.unknown)} columns",)

    def hidden(self, rows: Mapping[str, float]) -> tuple[str, ...]:
        """Return what is to be said where noise may have hidden the ranges; else nothing.

        Parameters
        ----------
        rows
            Site → how many rows it released, with noise.
        """
        if math.isinf(self.epsilon_of_each):
            return ()
        # of several sites the median decides, so that half of them must have enough
        # a draw leaves the data with a weight of exp(−rate·(ranks beyond the quantile))
        rate = 1.0 / float(self.quantiles.rank_scales.max())
        few = [site for site, n in rows.items() if rate * LEVELS[0] * max(n, 0.0) < _ENOUGH]
        if 2 * len(few) < len(rows):
            return ()
        need = math.ceil(_ENOUGH / (rate * LEVELS[0]))
        return (
            f"Ranges were not found at {', '.join(few)}: with this budget that takes some "
            f"{need:,} rows of a site. Nothing is predicted but zero: state bounds, or give "
            "finding them a larger share.",
        )

    # -- the two sides ---------------------------------------------------------------------

    def of_ranges(self, middle: Any, half: Any) -> Design:
        """Return what a row becomes with these ranges."""
        pairs = tuple(np.asarray(middle).tolist()), tuple(np.asarray(half).tolist())
        return replace(self.design, middle=pairs[0], half=pairs[1])

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return a site with its rows."""
        side = late(f"{__package__}.sides").RowsToMap
        made: Participant = side(self, name, shards_of(data), gate)
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Ask for each range, then for the sums with these."""
        ends: dict[str, list[Any]] = {}
        for name in self.unknown:
            found = yield Ask(_RANGE + name)
            assert found.by_site is not None
            for site, reply in found.by_site.items():
                ends.setdefault(site, []).append(reply.arrays["ends"])
        every = np.array([part for part in ends.values() if len(part) == len(self.unknown)])
        middle, half = middles_and_halves(self.search, every, self.design.intercept)
        if not self.response:
            middle, half = (*middle, self.design.middle[-1]), (*half, self.design.half[-1])
        found = yield Ask("rows", middle=np.array(middle), half=np.array(half))
        assert found.by_site is not None
        return Found(middle, half, {site: reply.arrays for site, reply in found.by_site.items()})

    # -- the worst that a neighbour can do -------------------------------------------------

    def worst_case(self) -> Neighbours:
        """Rows as `worst_rows` has them, with a few more so that quantiles are theirs."""
        ours, theirs = (RawRows(rows[:, :-1], rows[:, -1]) for rows in self.worst_rows())
        return Neighbours(ours, theirs)

    @classmethod
    def examples(cls) -> Iterator[FindingAgreement]:
        """Both relations, the response's range found or known, with and without an intercept."""
        for neighbours in (ADD_REMOVE, REPLACE):
            asked = Privacy(1.0, 1e-6, unit="row", neighbours=neighbours, trust="site")
            for response in (True, False):
                design = FoundDesign((0.0, 0.0), (1.0, 1.0), response, neighbours)
                own = design, ("age", "y"), asked, 1, "grid"
                yield cls(*own, search=FindBounds(["age"]), response=response)
