"""What a summary releases, and why that is private.

One noisy vector holds every statistic (`tacit.summary.layout`); its sensitivity is derived there.

Quantiles have releases of their own (`tacit.summary.ranking`), beside that vector or alone, and so
have keys whose list is not public (`tacit.summary.naming`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tacit._core.lazy import late
from tacit.estimators.agreement import Agreement, Ask, Coordinating, Neighbours, Start, Step
from tacit.estimators.executors import shards_of
from tacit.estimators.gate import Gate
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Participant
from tacit.summary.layout import GROUP, PERSON, STATISTICS, W1, W2
from tacit.summary.naming import Naming
from tacit.summary.totals import Totals

__all__ = ["SummaryAgreement"]

_CROWD = 10_000  # rows of a worst case at most


@dataclass(frozen=True)
class SummaryAgreement(Naming, Agreement):
    """Which numbers a release holds, their weights, their sensitivity and their noise.

    Parameters
    ----------
    bounds
        (column, low, high) of every column, in order.
    statistics, bins
        What is asked for, and the cells of each histogram.
    privacy, sites
        As in `Agreement`.
    noise
        The kind of noise source.
    levels
        Which quantiles.
    categories
        (column, number of values) of every category.
    groups
        How many groups there are statistics of, 1 where rows are not grouped.
    rows_per_unit
        How many rows one person has at most.
    notes
        What else is public about the rows, for certificates.
    refined
        Whether quantiles have a release of their own, or are read from the cells of a histogram.
    keys
        (column, how many are named at most, bytes of the longest) of every column whose values
        are not public.

    Examples
    --------
    >>> agreement = SummaryAgreement((("age", 0.0, 110.0),), ("count",), 32, Privacy(1.0, 1e-6))
    >>> [step.name for step in agreement.steps], agreement.rounds
    (['rows'], 1)
    """

    family = "summary"
    cites = ("dwork2006",)

    @property
    def source(self) -> str:  # type: ignore[override]
        """The kind of noise source."""
        return self.noise

    @property
    def apart(self) -> bool:
        """Whether the coordinator looks at every site's own release: at keys that it names."""
        return bool(self.keys)

    # -- what is charged -------------------------------------------------------------------

    def _steps(self) -> tuple[Step, ...]:
        ranking: tuple[Step, ...] = ()
        if self.ranked:
            ranking = self._quantile_steps() if self.sites == 1 else self._cell_steps()
        return self._vector_steps() + ranking + self._key_steps()

    def _vector_steps(self) -> tuple[Step, ...]:
        rows = {"rows": ArraySpec((1,), "int64", low=0)} if self.counted else {}
        if self.bare:
            return (Step("rows", open="the number of rows", replies=rows),) if rows else ()
        replies = {"sum": ArraySpec((self.size,), exponent=self.mechanism.grid.exponent), **rows}
        reach: float | str = 1.0
        if self.counted and self.mechanism.norm == 1 and self.squared:
            reach = "both rows' norms are added up, and (t, t²) of two rows are never opposite"
        return (Step("rows", self.mechanism, replies=replies, reach=reach),)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Ranges, and what is public with them."""
        notes = [f"{name} lies in [{low:g}, {high:g}]" for name, low, high in self.bounds]
        notes += [note for note in self.notes if note not in notes]
        for (name, _, _), mechanism in zip(self.keys, self.key_mechanisms, strict=True):
            notes.append(f"{name} counts for at most {mechanism.most} values of a unit, once each")
            least = f"a noisy count of at least {mechanism.threshold}"
            notes.append(f"values of {name} with {least} are named, at each site by itself")
        if self.counted:
            notes.append("the number of rows is public")
        if self.sites > 1:
            what = "rows" if self.privacy is None or self.privacy.unit == "row" else "people"
            notes.append(f"the sites hold different {what}")
        return tuple(notes)

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return a site with its columns."""
        site: Participant = late(f"{__package__}.sides").Rows(self, name, shards_of(data), gate)
        return site

    def coordinate(self, start: Start) -> Coordinating:
        """Ask once, add up; quantiles take a few rounds more, and keys one for each column."""
        total, rows, sites = np.zeros(self.size), None, 1
        if not self.bare or self.counted:
            found = yield Ask("rows")
            sites = len(found.sites)
            rows = int(found.total["rows"][0]) if self.counted else None
            total = total if self.bare else found.total["sum"]
        noise = None if self.bare else self.mechanism
        learned = Totals.of(total, rows, sites, noise)
        if self.ranked:
            alone = self.sites == 1
            learn = self._learn_alone(rows, total) if alone else self._learn_together(total, sites)
            learned = replace(learned, ranks=(yield from learn))
        return replace(learned, keys=(yield from self._learn_keys()))

    def worst_case(self) -> Neighbours:
        """A row at the top of every range, more or instead of one that is as far as can be."""
        away = -1.0  # t of the other row
        if self.squared and self.mechanism.norm == 2:  # see the module's docstring
            away = 1.0 - (3.0 - math.sqrt(1.0 - 2.0 * W1**2 / W2**2)) / 2.0
        # of keys, others have one as often as it takes to be named now and then
        others = max([2, *(min(one.threshold, _CROWD) for one in self.key_mechanisms)])
        size, own = others + self.rows_per_unit, range(self.rows_per_unit)
        rows: dict[str, Any] = {}
        other: dict[str, Any] = {}
        for name, low, high in self.bounds:
            middle, half = (low + high) / 2.0, (high - low) / 2.0
            rows[name] = np.full(size, high)
            other[name] = np.array([high] * others + [middle + away * half] * self.counted)
        for name, _ in self.categories:
            rows[name] = np.zeros(size)
            other[name] = np.array([0.0] * others + [1.0] * self.counted)
        for name, _, length in self.keys:  # each row of the unit has a key of its own
            rows[name] = np.array(["0"] * others + [f"{k:x}"[:length] for k in own], object)
            other[name] = np.array(["0"] * others + ["1"] * self.counted, object)
        if self.keys and self.rows_per_unit > 1:
            whose = np.arange(others)
            rows[PERSON] = np.append(whose, np.full(len(own), others))
            other[PERSON] = whose
        if self.groups > 1:
            rows[GROUP], other[GROUP] = np.zeros(size), np.zeros(others)
        return Neighbours(rows, other)

    @classmethod
    def examples(cls) -> Iterator[SummaryAgreement]:
        """One or two columns, both relations, either noise, each statistic."""
        age, dose = ("age", 0.0, 100.0), ("dose", -1.0, 1.0)
        for neighbours in (ADD_REMOVE, REPLACE):
            for delta in (0.0, 1e-6):
                privacy = Privacy(1.0, delta, unit="row", neighbours=neighbours)
                yield cls((age, dose), STATISTICS, 4, privacy)
                yield cls((age,), ("mean",), 4, privacy)
                yield cls((age, dose), ("quantiles",), 4, privacy)
                yield cls((age,), ("quantiles",), 4, privacy, levels=(0.5,))
                yield cls((age, dose), ("quantiles",), 4, privacy, sites=2)
                yield cls((age,), ("mean", "quantiles"), 4, privacy)
                yield cls((age,), STATISTICS, 4, privacy, sites=2)
                yield cls((age,), ("mean",), 4, privacy, categories=(("sex", 3), ("ward", 2)))
        people = Privacy(1.0, 1e-6, unit="user")
        yield cls((age,), STATISTICS, 4, people, categories=(("sex", 3),), rows_per_unit=3)
        yield cls((age,), ("mean",), 4, people, groups=3, rows_per_unit=2)
        named, named_too = ("town", 3, 8), ("job", 2, 4)
        yield cls((), (), 4, people, rows_per_unit=3, keys=(named, named_too))
        yield cls((age,), ("mean",), 4, people, groups=3, rows_per_unit=2, keys=(named,))
        for sites in (1, 2):
            for neighbours in (ADD_REMOVE, REPLACE):
                privacy = Privacy(1.0, 1e-6, unit="row", neighbours=neighbours)
                yield cls((age,), STATISTICS, 4, privacy, sites, keys=(named,))
