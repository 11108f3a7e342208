"""`PrivateSummary`: private statistics of bounded columns, over one holder or several sites.

The smallest estimator, and the template for the others.

**What is released.** Map each column to t = (x − middle)/half-range ∈ [−1, 1]. A row contributes
the vector (w₀; per column w₁·t, w₂·(t² − ½), w₃·one-hot cell), and one release of the sum of
these vectors gives everything: counts, sums, means, variances, histograms, and quantiles by
post-processing of the histogram.

**Sensitivity** (tested by search over neighbouring tables). Adding or removing one row moves
the sum by the row's own vector. Its squared L2 norm is w₀² + Σ_columns [w₁²s + w₂²(s − ½)² + w₃²]
with s = t² ∈ [0, 1]; it is convex in s, so the largest is at s = 1 (s = 0 gives w₂²/4 only):
Δ² = w₀² + C·(w₁² + w₂²/4 + w₃²). Its L1 norm per column is w₁u + w₂|u² − ½| + w₃ with u = |t|:
at most w₁ + w₂/2 at u = 1, or w₂/2 + w₁²/(4w₂) inside.
Replacing a row moves (t, t²) by (a, ab), with a = t − t' and b = t + t', so |a| + |b| ≤ 2: the
largest w₁²a² + w₂²a²b² is 4w₁² at a = 2, or lies at a = (3 − √(1 − 2w₁²/w₂²))/2, b = 2 − a; the
cell moves by √2·w₃, and the count not at all: under replace-one it is public.

The weights give every statistic the same share of Δ².
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real, as_bounds, check
from tacit.data.sources import numeric_columns
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.release import write_release
from tacit.estimators.site import Site
from tacit.mechanisms.additive import Gaussian, Laplace
from tacit.mechanisms.base import privatize
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.grid import GridSum
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import ADD_REMOVE, REPLACE, DpEvent, NoOpDpEvent
from tacit.privacy.guarantee import Certificate, Privacy
from tacit.privacy.ledger import Ledger, Reservation
from tacit.rounds.inprocess import run
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.protocol import Collected, Coordinator, Participant

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["PrivateSummary"]

STATISTICS = ("count", "sum", "mean", "variance", "histogram", "quantiles")
_CHUNK = 1 << 14
# squared share of Δ² of each part of a row's vector, before normalisation
_W0, _W1, _W2, _W3 = 1.0, 1.0, 2.0, 1.0


class _Layout:
    """Which numbers a release holds, their weights and their sensitivity; all public."""

    def __init__(
        self,
        bounds: Mapping[str, tuple[float, float]],
        statistics: Sequence[str],
        bins: int,
        neighbours: str,
    ) -> None:
        self.columns = list(bounds)
        self.middle = np.array([(low + high) / 2.0 for low, high in bounds.values()])
        self.half = np.array([(high - low) / 2.0 for low, high in bounds.values()])
        self.neighbours = neighbours
        self.moments = 2 if "variance" in statistics else int(
            bool({"sum", "mean"} & set(statistics))
        )  # fmt: skip
        self.bins = bins if {"histogram", "quantiles"} & set(statistics) else 0
        self.width = self.moments + self.bins  # numbers per column
        self.size = 1 + len(self.columns) * self.width

    @property
    def is_public(self) -> bool:
        """Whether nothing private is asked for: the count alone, under replace-one."""
        return self.neighbours == REPLACE and not self.width

    def sensitivity(self, norm: int) -> float:
        """Return Δ for the stated relation; see the module's docstring."""
        w1 = _W1 if self.moments else 0.0
        w2 = _W2 if self.moments == 2 else 0.0
        w3 = _W3 if self.bins else 0.0
        replace = self.neighbours == REPLACE
        columns = len(self.columns)
        if norm == 1:
            inside = w2 / 2.0 + (w1 * w1 / (4.0 * w2) if w2 else 0.0)
            row = max(w1 + w2 / 2.0, inside) + w3
            return columns * row * 2.0 if replace else _W0 + columns * row
        if not replace:
            return math.sqrt(_W0**2 + columns * (w1**2 + w2**2 / 4.0 + w3**2))
        largest = 4.0 * w1**2
        if w2 and 2.0 * w1**2 <= w2**2:
            a = (3.0 - math.sqrt(1.0 - 2.0 * w1**2 / w2**2)) / 2.0
            largest = max(largest, a * a * (w1**2 + w2**2 * (2.0 - a) ** 2))
        return math.sqrt(columns * (largest + 2.0 * w3**2))

    def contributions(self, table: Mapping[str, NDArray[np.float64]], grid: Any) -> GridSum:
        """Return the sum of all rows' vectors, each rounded to the grid first."""
        total = np.zeros(self.size, np.int64)
        rows = len(next(iter(table.values())))
        if self.neighbours == ADD_REMOVE:
            total[0] = rows * int(grid.round(_W0))
        cell_weight = int(grid.round(_W3))
        for start in range(0, rows, _CHUNK):
            for c, name in enumerate(self.columns):
                low, high = self.middle[c] - self.half[c], self.middle[c] + self.half[c]
                values = clip_values(table[name][start : start + _CHUNK], low, high)
                t = np.clip((values - self.middle[c]) / self.half[c], -1.0, 1.0)
                first = 1 + c * self.width
                if self.moments:
                    parts = [_W1 * t, _W2 * (t * t - 0.5)][: self.moments]
                    part = grid.sum(np.column_stack(parts)).integers
                    total[first : first + self.moments] += part
                if self.bins:
                    cell = np.minimum(((t + 1.0) / 2.0 * self.bins).astype(int), self.bins - 1)
                    counts = np.bincount(cell, minlength=self.bins)
                    total[first + self.moments : first + self.width] += counts * cell_weight
        return GridSum(total, grid)


class _Holder(Participant):
    """A site's part: one release of its rows' sum."""

    def __init__(
        self,
        site: Site,
        layout: _Layout,
        mechanism: Gaussian | Laplace,
        reservation: Reservation | None,
        noise: Noise,
    ) -> None:
        self.name = site.name
        self._site, self._layout, self._mechanism = site, layout, mechanism
        self._reservation, self._noise = reservation, noise

    def respond(self, request: Message) -> Message:
        """Release the sum through the gate."""
        table = numeric_columns(self._site.data, self._layout.columns)
        total = self._layout.contributions(table, self._mechanism.grid)
        arrays = {
            "sum": privatize(self._mechanism, total, ledger=self._reservation, rng=self._noise)
        }
        if self._layout.neighbours == REPLACE:  # the number of rows is public then
            arrays["rows"] = np.array([len(next(iter(table.values())))], np.int64)
        return Message(request.round, arrays)


class _Adder(Coordinator):
    """The coordinator's part: ask once, add up."""

    def __init__(self, layout: _Layout) -> None:
        self._layout = layout
        self.total: NDArray[np.float64] = np.zeros(layout.size)
        self.rows = 0

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """One vector, and the public number of rows under replace-one."""
        specs = {"sum": ArraySpec((self._layout.size,))}
        if self._layout.neighbours == REPLACE:
            specs["rows"] = ArraySpec((1,), "int64", low=0)
        return specs

    def request(self, round: int) -> Message | None:
        """Ask in one round."""
        return Message(0) if round == 0 else None

    def absorb(self, round: int, collected: Collected) -> None:
        """Keep the sum."""
        self.total = collected.total["sum"]
        if "rows" in collected.total:
            self.rows = int(collected.total["rows"][0])


class PrivateSummary(PrivateEstimator):
    """Private count, sum, mean, variance, histogram and quantiles of bounded columns.

    One noisy vector holds everything, so asking for more statistics shares one budget. Over
    several sites each adds its own noise and pays from its own ledger.

    Parameters
    ----------
    bounds
        Column → (low, high), the public range of its values. What lies outside is clipped,
        silently; a missing value counts as the middle.
    statistics
        Which of ``"count"``, ``"sum"``, ``"mean"``, ``"variance"``, ``"histogram"`` and
        ``"quantiles"``.
    bins
        Cells of each histogram, which quantiles are read from.
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

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "statistics": InstanceOf(tuple, list),
        "bins": Integer(2, 4096),
        "quantiles": InstanceOf(tuple, list),
        "privacy": AnyOf(InstanceOf(Privacy), None),
        "ledger": AnyOf(InstanceOf(Ledger), None),
        "noise": OneOf("exact", "grid"),
        "random_state": AnyOf(Integer(0), None),
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

    def _layout(self) -> _Layout:
        assert self.bounds is not None
        bounds = {name: (float(low), float(high)) for name, (low, high) in self.bounds.items()}
        neighbours = ADD_REMOVE if self.privacy is None else str(self.privacy.neighbours)
        return _Layout(bounds, self.statistics, self.bins, neighbours)

    def _mechanism(self) -> Gaussian | Laplace:
        """Return the least noise: Gaussian where δ allows it, else Laplace."""
        layout = self._layout()
        shape, source = (layout.size,), self.noise
        if layout.is_public:
            return Gaussian(0.0, 1.0, shape, layout.neighbours, source)
        if self.privacy is None:
            return Gaussian(0.0, layout.sensitivity(2), shape, layout.neighbours, source)
        epsilon, delta = self.privacy.epsilon, self.privacy.delta
        options: list[Gaussian | Laplace] = [
            Laplace.for_privacy(
                epsilon, layout.sensitivity(1), shape, neighbours=layout.neighbours, source=source
            )
        ]
        if delta > 0.0:
            options.append(
                Gaussian.for_privacy(
                    epsilon, delta, layout.sensitivity(2), shape, neighbours=layout.neighbours,
                    source=source,
                )
            )  # fmt: skip
        return min(options, key=lambda mechanism: mechanism.variance())

    def schedule(self) -> DpEvent:
        """Return the event of the one release that a fit makes at each site."""
        if self.privacy is not None and self._layout().is_public:
            return NoOpDpEvent()
        return self._mechanism().event

    def fit(self, data: Any, y: None = None) -> PrivateSummary:
        """Release the statistics.

        Parameters
        ----------
        data
            A table (mapping of columns, array, pandas, Polars or Arrow) of one holder, or a
            list of `Site`.
        y
            Ignored.
        """
        self._check_parameters()
        self.certificates_: dict[str, Certificate] = {}
        self._added: _Adder | None = None
        return self._take(self._as_sites(data))

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
        sites = self._as_sites(data)
        twice = sorted({site.name for site in sites} & set(self.certificates_))
        if twice:
            raise ParameterError(f"{twice} would count twice: give later rows a name of their own")
        return self._take(sites)

    def _take(self, sites: list[Site]) -> PrivateSummary:
        """Release the sites' sums and add them to those that are here."""
        layout, mechanism = self._layout(), self._mechanism()
        for site in sites:  # the holder's own check, before anything is paid for
            numeric_columns(site.data, layout.columns)
        reservations = self._reserve(sites, "private summary")
        sources = {site.name: self._noise(self.noise, site.name) for site in sites}
        holders = [
            _Holder(site, layout, mechanism, reservations[site.name], sources[site.name])
            for site in sites
        ]
        adder = _Adder(layout)
        self.record_ = run(adder, holders)
        if self._added is not None:
            adder.total, adder.rows = (
                adder.total + self._added.total,
                adder.rows + self._added.rows,
            )
        self._added = adder
        count = len(sites) + len(self.certificates_)
        self._publish(layout, mechanism, adder, count)
        assumptions = tuple(
            f"{name} lies in [{low:g}, {high:g}]"
            for name, (low, high) in (self.bounds or {}).items()
        )
        if layout.neighbours == REPLACE:
            assumptions += ("the number of rows is public",)
        if count > 1:
            assumptions += ("the sites hold different rows",)
        self.certificates_ |= {
            site.name: self._certify(
                site, reservations[site.name], sources[site.name], assumptions
            )
            for site in sites
        }
        self.certificate_: Certificate = max(
            self.certificates_.values(), key=lambda certificate: certificate.epsilon
        )
        return self

    def _publish(
        self, layout: _Layout, mechanism: Gaussian | Laplace, adder: _Adder, sites: int
    ) -> None:
        """Turn the noisy sum into statistics: post-processing only."""
        total, sd = adder.total, math.sqrt(mechanism.variance() * sites)
        public = layout.neighbours == REPLACE
        count = float(adder.rows) if public else total[0] / _W0
        wanted = set(self.statistics)
        rows = max(count, 1.0)
        table = total[1:].reshape(len(layout.columns), layout.width)
        self.noise_sd_: dict[str, Any] = {}
        if "count" in wanted:
            self.count_ = max(0.0, float(count))
        for statistic in wanted - {"count"}:
            setattr(self, f"{statistic}_", {})
        for c, name in enumerate(layout.columns):
            middle, half = layout.middle[c], layout.half[c]
            spread = self.noise_sd_[name] = {}
            if layout.moments:
                moment = table[c, 0] / _W1
                mean = float(np.clip(moment / rows, -1.0, 1.0))
                spread["sum"] = float(half * sd / _W1)
                if "sum" in wanted:
                    self.sum_[name] = float(half * moment + middle * count)
                if "mean" in wanted:
                    self.mean_[name] = float(middle + half * mean)
            if layout.moments == 2:
                square = float(np.clip(table[c, 1] / _W2 / rows + 0.5, 0.0, 1.0))
                spread["squares"] = float(half**2 * sd / _W2)
                self.variance_[name] = float(half**2 * max(0.0, square - mean**2))
            if layout.bins:
                cells = np.maximum(table[c, layout.moments :] / _W3, 0.0)
                edges = middle + half * np.linspace(-1.0, 1.0, layout.bins + 1)
                spread["cell"] = sd / _W3
                if "histogram" in wanted:
                    self.histogram_[name] = (cells, edges)
                if "quantiles" in wanted:
                    self.quantiles_[name] = _quantiles(cells, edges, self.quantiles, sd / _W3)

        self.noise_sd_["count"] = 0.0 if public else sd / _W0  # the name of no column's entry

    def score(self, data: Any, y: None = None) -> float:
        """Return minus the mean squared distance of the data from the released means.

        In units of half-ranges, averaged over columns; for model selection on public data.
        """
        layout = self._layout()
        table = numeric_columns(data, layout.columns)
        errors = [
            np.mean(np.square((table[name] - self.mean_[name]) / layout.half[c]))
            for c, name in enumerate(layout.columns)
        ]
        return -float(np.mean(errors))

    def release(self, folder: Any) -> None:
        """Write the released statistics and their certificates to a folder, without pickle."""
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
        settings = {
            "bounds": {name: list(pair) for name, pair in (self.bounds or {}).items()},
            "statistics": list(self.statistics),
            "bins": self.bins,
            "quantiles": list(self.quantiles),
        }
        write_release(folder, "PrivateSummary", arrays, self.certificates_, settings)


def _quantiles(
    cells: NDArray[np.float64], edges: NDArray[np.float64], levels: Sequence[float], sd: float
) -> NDArray[np.float64]:
    """Return quantiles of a noisy histogram: small cells are noise, the rest is interpolated."""
    kept = np.where(cells > 2.0 * sd, cells, 0.0)
    if kept.sum() <= 0.0:
        kept = np.ones_like(cells)
    cumulative = np.concatenate([[0.0], np.cumsum(kept)]) / kept.sum()
    return np.array([np.interp(level, cumulative, edges) for level in levels])
