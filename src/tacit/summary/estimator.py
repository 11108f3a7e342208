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

from tacit._core.answers import Answer
from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real, check
from tacit._core.rng import generator
from tacit.data.free_text import Keys
from tacit.data.kinds import Category, Date
from tacit.data.schema import Columns
from tacit.data.values import plain_text
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PAID, PrivateEstimator
from tacit.estimators.facts import Facts
from tacit.estimators.features import NotFitted, check_fitted
from tacit.estimators.fit import Outcome
from tacit.estimators.release import Release
from tacit.estimators.site import Site
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.summary import released
from tacit.summary.agreement import SummaryAgreement
from tacit.summary.answers import answer_of
from tacit.summary.block import Block
from tacit.summary.layout import GROUP, PERSON, STATISTICS
from tacit.summary.naming import by_key
from tacit.summary.totals import Totals
from tacit.summary.uncertainty import noise_sd, standard_errors

__all__ = ["PrivateSummary"]


class PrivateSummary(PrivateEstimator):
    """Private count, sum, mean, variance, histogram and quantiles of columns, also by groups.

    One noisy vector holds everything but quantiles, so asking for more statistics shares one
    budget. Over several sites each adds its own noise and pays from its own ledger. Quantiles, for
    the share that one more histogram would cost, are drawn by the exponential mechanism, split
    after split, or read from noisy cells, whichever is better; over sites from cells that follow
    the data in three rounds; of groups from equal cells.

    Parameters
    ----------
    columns
        What is public about the table: `tacit.Columns`, a mapping of such or a file's path. Of a
        mapping of nothing but ranges (low, high) and lists, what lies outside is clipped.
        Categories are counted, value by value; of `keys` those values that many people have.
    by
        A category: every statistic is given for each of its values.
    statistics
        Which of ``"count"``, ``"sum"``, ``"mean"``, ``"variance"``, ``"histogram"`` and
        ``"quantiles"``.
    bins
        Cells of each histogram, and of those that quantiles are read from.
    quantiles
        Which quantiles, each in (0, 1).
    privacy
        The guarantee asked for; None adds no noise. The unit is a row, or a user where
        ``columns`` name the person.
    ledger
        Who pays when a single table is fitted; sites bring their own.
    noise
        How noise is drawn: ``"exact"``, or faster on a ``"grid"``.
    random_state
        A seed for the noise, for tests only: the certificate then says "not for release".

    Attributes
    ----------
    count_, sum_, mean_, variance_, histogram_, quantiles_
        The released statistics that were asked for, the last five by column. With ``by`` each
        holds one for every group: ``mean_["age"]["f"]``, ``count_["f"]``.
    counts_
        By category, how many rows have each value; by column of `keys`, how many rows, or people
        where these are named, have each of the values that were named.
    threshold_
        By column of `keys`, the noisy count from which on a site names a value; public.
    noise_sd_
        Standard deviation of the noise on the count, and by column on the sum, the centred
        sum of squares and each cell; public.
    resolution_
        By column, how far apart values must be around each quantile to be told apart: the width
        of a cell.
    errors_
        Standard errors, under the names of the statistics: ``errors_["mean"]["age"]``. Counts,
        sums and cells are those of the table, and have noise alone; means, variances and quantiles
        are those of the population, and sampling counts too.
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
    _takes_shards = True
    _told = released.TOLD
    _stated_facts = ("bounds",)  # ranges alone, where a file states columns
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "by": AnyOf(InstanceOf(str), None),
        "statistics": InstanceOf(tuple, list),
        "bins": Integer(2, 4096),
        "quantiles": InstanceOf(tuple, list),
        "noise": OneOf("exact", "grid"),
        **PAID,
    }

    def __init__(
        self,
        columns: Columns | Mapping[str, Any] | str | None = None,
        *,
        by: str | None = None,
        statistics: Sequence[str] = STATISTICS,
        bins: int = 32,
        quantiles: Sequence[float] = (0.25, 0.5, 0.75),
        privacy: Privacy | None = None,
        ledger: Ledger | None = None,
        noise: str = "exact",
        random_state: int | None = None,
    ) -> None:
        self.columns = columns
        self.by = by
        self.statistics = statistics
        self.bins = bins
        self.quantiles = quantiles
        self.privacy = privacy
        self.ledger = ledger
        self.noise = noise
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not self.columns:
            raise UnboundedData(
                "columns must be given: pass {column: (low, high)}, the public range of each, or "
                "Columns(…)"
            )
        public = self._public
        for name, kind in public.items():
            if name in (GROUP, PERSON):
                raise ParameterError(f"a column cannot be called {name!r} here: rename it")
            if isinstance(kind, Keys):
                continue
            if not kind.modelled:
                raise ParameterError(
                    f"column {name!r} is {kind.word}, which a summary does not read"
                )
        if public.averaged:
            raise ParameterError("a summary counts rows: pass rows_per_person, not averages")
        if self.by is not None and not isinstance(public.get(self.by), Category):
            raise ParameterError(
                f"by must be one of the categories of columns, whose values are listed, got "
                f"{self.by!r}"
            )
        for statistic in self.statistics:
            check("statistics", statistic, OneOf(*STATISTICS))
        for level in self.quantiles:
            check("quantiles", level, Real(0, 1, open_low=True, open_high=True))
        self._check_row_privacy("a summary of rows")

    # -- what every family says ------------------------------------------------------------

    @property
    def _public(self) -> Columns:
        """What is public about the table; ranges alone are those to clip to."""
        columns = self.columns
        assert columns is not None
        bare = isinstance(columns, Mapping) and all(
            isinstance(stated, tuple | list) for stated in columns.values()
        )
        return Columns.of(columns, outside="clip") if bare else Columns.of(columns)

    @property
    def _stated_columns(self) -> Columns:
        return self._public

    @property
    def _groups(self) -> tuple[str, ...]:
        """The values of the category that rows are grouped by."""
        if self.by is None:
            return ()
        kind = self._public[self.by]
        assert isinstance(kind, Category)
        return tuple(plain_text(level) for level in kind.levels)

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> SummaryAgreement:
        public = self._public
        kinds = {name: kind for name, kind in public.items() if name != self.by}
        lists = tuple((n, len(k.levels)) for n, k in kinds.items() if isinstance(k, Category))
        keys = tuple((n, k.at_most, k.length) for n, k in kinds.items() if isinstance(k, Keys))
        unlisted = {n: k for n, k in kinds.items() if not k.listed}
        bounds = tuple((n, *k.range) for n, k in unlisted.items())
        return SummaryAgreement(
            bounds,
            tuple(self.statistics),
            self.bins,
            self._request(len(facts)),
            len(facts),
            self.noise,
            tuple(float(level) for level in self.quantiles),
            lists,
            max(1, len(self._groups)),
            public.rows_per_unit,
            public.assumptions(),
            keys=keys,
            grids=tuple(public.grid(name) for name in unlisted),
        )

    def _read(self, data: Any, agreement: Agreement) -> dict[str, Array]:
        assert isinstance(agreement, SummaryAgreement)
        rows = self._public.read(data)
        found: dict[str, Array] = dict(rows.values)
        if agreement.keys and rows.people is not None:
            found[PERSON] = np.asarray(rows.people)
        if self.by is not None:
            found[GROUP] = found.pop(self.by)
        return found

    def _conclude(self, outcome: Outcome) -> None:
        assert isinstance(outcome.agreement, SummaryAgreement)
        self._publish(outcome.agreement, outcome.result)

    def _found(self, level: float) -> Answer:
        if "_layout" not in vars(self):
            return released.answer_of_first_schema(self)
        layout = self._layout
        values = {name: self._values(name) for name, _ in layout.categories}
        named = {
            name: (self.counts_[name], self.noise_sd_[name]["cell"]) for name, _, _ in layout.keys
        }
        dates = {n: kind.show for n, kind in self._public.items() if isinstance(kind, Date)}
        told = (self._groups, values, self.by, named, dates)
        return answer_of(layout, self._totals, level, *told)

    @classmethod
    def _stated(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], None]:
        """Return the parameters of a file or a proposal, with ranges as pairs."""
        found = dict(settings)
        if "bounds" in found:  # ranges alone, as a regression states them too
            found["columns"] = found.pop("bounds")
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
            raise NotFitted("there is nothing to add to yet: call fit first")
        sites = self._as_sites(data)
        twice = sorted({site.name for site in sites} & set(self.certificates_))
        if twice:
            raise ParameterError(f"{twice} would count twice: give later rows a name of their own")
        agreement = self._agree([None] * (len(sites) + len(self.certificates_)))
        if agreement.ranked:
            if not agreement.cells:
                raise ParameterError(
                    "quantiles do not add up: ask for a histogram with them, or fit all rows "
                    "together"
                )
            agreement = replace(agreement, refined=False)
        before, certificates = self._totals, self.certificates_
        outcome = self._run(sites, agreement)
        self._keep(replace(outcome, result=before + outcome.result))
        self.certificates_ = {**certificates, **self.certificates_}
        self.certificate_ = max(self.certificates_.values(), key=lambda found: found.epsilon)
        return self

    def _publish(self, layout: SummaryAgreement, totals: Totals) -> None:
        """Turn the noisy sum into statistics: post-processing only."""
        self._layout, self._totals = layout, totals
        self.noise_sd_: dict[str, Any] = noise_sd(layout, totals.law)
        self.resolution_: dict[str, Any] = {}
        groups, each = self._groups, [self._statistics(b) for b in totals.blocks(layout)]
        found = {key: _turned(groups, [one[key] for one in each]) for key in each[0]}
        if layout.keys:
            self.threshold_: dict[str, int] = {}
            found["counts"] = {**found.get("counts", {}), **self._named(layout, totals)}
        for statistic, value in found.items():
            setattr(self, f"{statistic}_", value)
        self.shared_ = released.arrays_of(self)

    def _statistics(self, block: Block) -> dict[str, Any]:
        """Return the statistics of the rows of one group."""
        layout, wanted = block.layout, set(self.statistics)
        found: dict[str, Any] = {statistic: {} for statistic in self.statistics}
        if "count" in wanted:
            found["count"] = max(0.0, float(block.count or 0.0))
        for c, name in enumerate(layout.columns):
            middle, half = layout.middle[c], layout.half[c]
            if "sum" in wanted:
                found["sum"][name] = float(half * block.moment(c) + middle * (block.count or 0.0))
            if "mean" in wanted:
                found["mean"][name] = float(middle + half * block.mean(c))
            if "variance" in wanted:
                found["variance"][name] = float(half**2 * block.variance(c))
            if "histogram" in wanted:
                found["histogram"][name] = (block.shown(block.cells(c)), block.edges(c))
            if "quantiles" in wanted:
                ranks, place = block.ranks_of(c), np.searchsorted(layout.ordered, layout.levels)
                values = ranks.rounded(layout.bounds[c][1:], layout.grid_of(c))
                found["quantiles"][name] = np.asarray(values)[place]
                self.resolution_[name] = np.asarray(ranks.resolution)[place]
        if layout.categories:
            found["counts"] = {
                name: dict(
                    zip(self._values(name), block.shown(block.category(k)).tolist(), strict=True)
                )
                for k, (name, _) in enumerate(layout.categories)
            }
        return found

    @property
    def errors_(self) -> dict[str, Any]:
        """Standard errors under the names of the statistics; NaN where none can be told."""
        check_fitted(self, "certificates_")
        each = [standard_errors(block) for block in self._totals.blocks(self._layout)]
        return {key: _turned(self._groups, [one[key] for one in each]) for key in each[0]}

    def _values(self, name: str) -> list[str]:
        """Return the values of a category, as text."""
        kind = self._public[name]
        assert isinstance(kind, Category)
        return [plain_text(level) for level in kind.levels]

    def _named(self, layout: SummaryAgreement, totals: Totals) -> dict[str, Any]:
        """Return how many units have each key that was named."""
        found = {}
        for c, mechanism in enumerate(layout.key_mechanisms):
            name = layout.keys[c][0]
            found[name] = by_key(totals.keys[c], self._groups)
            self.noise_sd_[name] = {"cell": math.sqrt(mechanism.noise_variance * totals.law.sites)}
            self.threshold_[name] = mechanism.threshold
        return found

    def score(self, data: Any, y: None = None) -> float:
        """Return minus the mean squared distance of the data from the released means.

        In units of half-ranges, averaged over columns; for model selection on public data.
        """
        rows = self._public.read(data)
        errors = []
        for name, mean in self.mean_.items():
            low, high = self._public[name].range
            errors.append(np.mean(np.square((rows.values[name] - mean) / ((high - low) / 2.0))))
        return -float(np.mean(errors))

    def _settings(self) -> dict[str, Any]:
        return released.settings_of(self)

    def _dimensions(self) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
        return released.dimensions_of(self)

    def _adopt(self, release: Release) -> None:
        released.adopt(self, release)


def _turned(groups: Sequence[str], values: Sequence[Any]) -> Any:
    """Return statistics of every group with the groups innermost; without groups, the only one."""
    if not groups:
        return values[0]
    if not isinstance(values[0], dict):
        return dict(zip(groups, values, strict=True))
    return {key: _turned(groups, [value[key] for value in values]) for key in values[0]}
