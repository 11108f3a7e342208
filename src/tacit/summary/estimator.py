"""`PrivateSummary`: private statistics of bounded columns, over one holder or several sites.

The smallest family, and the template for the others. What is released and why that is private
stands in `tacit.summary.agreement`, a site's sums in `tacit.summary.sides`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import Constraint, InstanceOf, Integer, OneOf, Real, as_bounds, check
from tacit._core.rng import generator
from tacit.data.columns import numeric_columns
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PAID, PrivateEstimator
from tacit.estimators.facts import Facts
from tacit.estimators.fit import Outcome
from tacit.estimators.release import Release
from tacit.estimators.site import Site
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.summary.agreement import STATISTICS, W0, W1, W2, W3, SummaryAgreement, Totals
from tacit.summary.cells import cell_quantiles, cell_widths

__all__ = ["PrivateSummary"]


class PrivateSummary(PrivateEstimator):
    """Private count, sum, mean, variance, histogram and quantiles of bounded columns.

    One noisy vector holds everything, so asking for more statistics shares one budget. Over
    several sites each adds its own noise and pays from its own ledger. Quantiles that are asked
    for alone are drawn by the exponential mechanism, split after split, or read from a noisy
    histogram, whichever is better; over sites from cells that follow the data in three rounds.

    Parameters
    ----------
    bounds
        Column → (low, high), the public range of its values. What lies outside is clipped,
        silently; a missing value counts as the middle.
    statistics
        Which of ``"count"``, ``"sum"``, ``"mean"``, ``"variance"``, ``"histogram"`` and
        ``"quantiles"``.
    bins
        Cells of each histogram; quantiles that are asked for with other statistics are read
        from it.
    quantiles
        Which quantiles, each in (0, 1).
    privacy
        The guarantee asked for, with unit ``"row"``; None adds no noise.
    ledger
        Who pays when a single table is fitted; sites bring their own.
    noise
        ``"exact"`` or ``"grid"``.
    random_state
        A seed for the noise, for tests only: the certificate then says "not for release".

    Attributes
    ----------
    count_, sum_, mean_, variance_, histogram_, quantiles_
        The released statistics that were asked for, the last five by column.
    noise_sd_
        Standard deviation of the noise on the count, and by column on the sum, the centred
        sum of squares and each cell; public.
    resolution_
        By column, how far apart values must be around each quantile to be told apart: the width
        of a cell.
    certificate_, certificates_
        The certificate, and one per site.

    Examples
    --------
    >>> import numpy as np
    >>> table = {"age": np.random.default_rng(0).normal(50, 10, 10_000)}
    >>> summary = PrivateSummary({"age": (0, 100)}, privacy=Privacy(epsilon=1, delta=1e-6))
    >>> summary = summary.fit(table)
    >>> abs(summary.mean_["age"] - 50) < 2
    True
    """

    _purpose = "private summary"
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "statistics": InstanceOf(tuple, list),
        "bins": Integer(2, 4096),
        "quantiles": InstanceOf(tuple, list),
        "noise": OneOf("exact", "grid"),
        **PAID,
    }

    def __init__(
        self,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        *,
        statistics: Sequence[str] = STATISTICS,
        bins: int = 32,
        quantiles: Sequence[float] = (0.25, 0.5, 0.75),
        privacy: Privacy | None = None,
        ledger: Ledger | None = None,
        noise: str = "exact",
        random_state: int | None = None,
    ) -> None:
        self.bounds = bounds
        self.statistics = statistics
        self.bins = bins
        self.quantiles = quantiles
        self.privacy = privacy
        self.ledger = ledger
        self.noise = noise
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self.bounds:
            raise UnboundedData(
                "bounds must be given: pass bounds={column: (low, high)}, the public range of "
                "each column"
            )
        check("bounds", self.bounds, InstanceOf(Mapping, text="mapping of column to (low, high)"))
        for name, pair in self.bounds.items():
            low, high = as_bounds(f"bounds[{name!r}]", pair, "the public range of the column")
            half = high / 2.0 - low / 2.0
            if not (math.isfinite(high - low) and half * half > 0.0):
                raise ParameterError(
                    f"bounds[{name!r}] must be a range that can be squared, got {pair}"
                )
        for statistic in self.statistics:
            check("statistics", statistic, OneOf(*STATISTICS))
        for level in self.quantiles:
            check("quantiles", level, Real(0, 1, open_low=True, open_high=True))
        self._check_row_privacy("a summary of rows")

    # -- what every family says ------------------------------------------------------------

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> SummaryAgreement:
        assert self.bounds is not None
        bounds = tuple(
            (name, float(low), float(high)) for name, (low, high) in self.bounds.items()
        )
        return SummaryAgreement(
            bounds,
            tuple(self.statistics),
            self.bins,
            self.privacy,
            len(facts),
            self.noise,
            tuple(float(level) for level in self.quantiles),
        )

    def _read(self, data: Any, agreement: Agreement) -> dict[str, Array]:
        assert isinstance(agreement, SummaryAgreement)
        return numeric_columns(data, list(agreement.columns))

    def _conclude(self, outcome: Outcome) -> None:
        assert isinstance(outcome.agreement, SummaryAgreement)
        self._totals: Totals = outcome.result
        self._publish(outcome.agreement, self._totals)

    @classmethod
    def _stated(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], None]:
        """Return the parameters of a file or a proposal, with ranges as pairs."""
        found = dict(settings)
        if isinstance(found.get("bounds"), Mapping):
            found["bounds"] = {name: tuple(pair) for name, pair in found["bounds"].items()}
        return found, None

    @classmethod
    def _simulate(cls, facts: Facts, seed: int) -> float:
        """Return the error of a mean, in half-ranges, of a column uniform in its bounds."""
        x = generator(seed, "plan").uniform(-1.0, 1.0, facts.rows)
        sites = [Site(f"site {k}", {"x": part}) for k, (part,) in enumerate(facts.split(x))]
        model = cls(
            {"x": (-1, 1)},
            statistics=("mean",),
            noise="grid",
            random_state=seed,
            privacy=facts.request("row"),
        )
        return abs(float(model.fit(sites).mean_["x"]) - float(x.mean()))

    def add_sites(self, data: Any) -> PrivateSummary:
        """Take in further sites, or later rows under a name of their own; nobody else pays again.

        Sums add up, and so does their noise. Rows that were counted before must not come again.

        Parameters
        ----------
        data
            As in `fit`.
        """
        if not getattr(self, "certificates_", None):
            raise ParameterError("there is nothing to add to yet: call fit first")
        if "quantiles" in self.statistics:
            raise ParameterError(
                "quantiles do not add up: leave them out of statistics=, or fit all rows together"
            )
        sites = self._as_sites(data)
        twice = sorted({site.name for site in sites} & set(self.certificates_))
        if twice:
            raise ParameterError(f"{twice} would count twice: give later rows a name of their own")
        agreement = self._agree([None] * (len(sites) + len(self.certificates_)))
        before, certificates = self._totals, self.certificates_
        outcome = self._run(sites, agreement)
        self._keep(replace(outcome, result=before + outcome.result))
        self.certificates_ = {**certificates, **self.certificates_}
        self.certificate_ = max(self.certificates_.values(), key=lambda found: found.epsilon)
        return self

    def _publish(self, layout: SummaryAgreement, totals: Totals) -> None:
        """Turn the noisy sum into statistics: post-processing only."""
        noise = 0.0 if layout.ranked else layout.mechanism.variance()
        total, sd = totals.sum, math.sqrt(noise * totals.sites)
        public = layout.counted
        count = float(totals.rows) if public else total[0] / W0
        wanted = set(self.statistics)
        rows = max(count, 1.0)
        table = total[1:].reshape(len(layout.columns), layout.width)
        self.noise_sd_: dict[str, Any] = {}
        self.resolution_: dict[str, Any] = {}
        if "count" in wanted:
            self.count_ = max(0.0, float(count))
        for statistic in wanted - {"count"}:
            setattr(self, f"{statistic}_", {})
        for c, name in enumerate(layout.columns):
            middle, half = layout.middle[c], layout.half[c]
            spread = self.noise_sd_[name] = {}
            if layout.moments:
                moment = table[c, 0] / W1
                mean = float(np.clip(moment / rows, -1.0, 1.0))
                spread["sum"] = float(half * sd / W1)
                if "sum" in wanted:
                    self.sum_[name] = float(half * moment + middle * count)
                if "mean" in wanted:
                    self.mean_[name] = float(middle + half * mean)
            if layout.moments == 2:
                square = float(np.clip(table[c, 1] / W2 / rows + 0.5, 0.0, 1.0))
                spread["squares"] = float(half**2 * sd / W2)
                self.variance_[name] = float(half**2 * max(0.0, square - mean**2))
            if layout.cells:
                cells = np.maximum(table[c, layout.moments :] / W3, 0.0)
                edges = middle + half * np.linspace(-1.0, 1.0, layout.cells + 1)
                spread["cell"] = sd / W3
                if "histogram" in wanted:
                    self.histogram_[name] = (cells, edges)
                if "quantiles" in wanted:
                    found = cell_quantiles(cells, edges, self.quantiles, sd / W3)
                    self.quantiles_[name] = found
                    self.resolution_[name] = cell_widths(edges, found)
            if layout.ranked:
                place = np.searchsorted(layout.ordered, layout.levels)
                self.quantiles_[name] = np.asarray(totals.quantiles[c])[place]
                self.resolution_[name] = np.asarray(totals.resolution[c])[place]
        if public or layout.counting:
            self.noise_sd_["count"] = 0.0 if public else sd / W0  # the name of no column's entry
        self.shared_ = self._arrays()

    def _arrays(self) -> dict[str, Any]:
        """Return the statistics as named arrays."""
        arrays: dict[str, Any] = {}
        for statistic in self.statistics:
            value = getattr(self, f"{statistic}_")
            if statistic == "count":
                arrays["count"] = np.array(value)
            elif statistic == "histogram":
                for name, (cells, edges) in value.items():
                    arrays[f"histogram/{name}/counts"] = cells
                    arrays[f"histogram/{name}/edges"] = edges
            else:
                for name, number in value.items():
                    arrays[f"{statistic}/{name}"] = np.asarray(number)
        return arrays

    def score(self, data: Any, y: None = None) -> float:
        """Return minus the mean squared distance of the data from the released means.

        In units of half-ranges, averaged over columns; for model selection on public data.
        """
        assert self.bounds is not None
        table = numeric_columns(data, list(self.bounds))
        errors = [
            np.mean(np.square((table[name] - self.mean_[name]) / ((high - low) / 2.0)))
            for name, (low, high) in self.bounds.items()
        ]
        return -float(np.mean(errors))

    def _settings(self) -> dict[str, Any]:
        return {
            "bounds": {name: list(pair) for name, pair in (self.bounds or {}).items()},
            "statistics": list(self.statistics),
            "bins": self.bins,
            "quantiles": list(self.quantiles),
        }

    def _adopt(self, release: Release) -> None:
        settings = dict(release.manifest["settings"])
        settings["bounds"] = {name: tuple(pair) for name, pair in settings["bounds"].items()}
        PrivateSummary.__init__(self, **settings)
        for statistic in self.statistics:
            if statistic != "count":
                setattr(self, f"{statistic}_", {})
        for name, array in release.arrays.items():
            statistic, _, column = name.partition("/")
            if statistic == "count":
                self.count_ = float(array)
            elif statistic == "histogram":
                column = column.rpartition("/")[0]
                edges = release.arrays[f"histogram/{column}/edges"]
                self.histogram_[column] = (release.arrays[f"histogram/{column}/counts"], edges)
            else:
                found = getattr(self, f"{statistic}_")
                found[column] = array if statistic == "quantiles" else float(array)
