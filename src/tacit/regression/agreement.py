"""What a regression releases, and why that is private.

Every site releases one vector, once: entries of Σ a·aᵀ over its rows, as `tacit.regression.design`
says, where the sensitivity of each choice of entries is derived. A request holds nothing, so what
is released does not depend on who asks. Rows are clipped and rounded one by one before they are
added up, and the sum has no error (`tacit.regression.outer`): one row moves it by its own outer
product alone. Under replace-one the number of rows is public and leaves with the vector.

**In shares.** Under trust ``aggregator`` only the total over sites is seen. One row moves it as
far as it moves its own site's sum, which is rounded to a grid that all sites have. Each adds a
share of 1/S of the variance, and any total that is revealed has at least S = t − c honest ones.
With all n sites in the sum, t = n and c = 0, its noise is that of one holder of all rows, where
trust ``site`` has √n times that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, NamedTuple

import numpy as np

from tacit._core.arrays import Array
from tacit._core.lazy import late
from tacit._core.rng import generator
from tacit.estimators.agreement import Agreement, Ask, Coordinating, Neighbours, Start, Step
from tacit.estimators.executors import shards_of
from tacit.estimators.gate import Gate
from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.gaussian_share import GaussianShare
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.regression.design import STATISTICS, Design
from tacit.regression.outer import lattice_rows_reference
from tacit.regression.rows import summarise
from tacit.rounds.messages import ArraySpec
from tacit.rounds.sides import Participant

__all__ = ["RegressionAgreement", "Total"]


class Total(NamedTuple):
    """What a coordinator gets where nobody sees a site's own sums: the total over these sites."""

    sites: tuple[str, ...]
    arrays: Mapping[str, Any]


@dataclass(frozen=True)
class RegressionAgreement(Agreement):
    """One release of sums of rows per site.

    Parameters
    ----------
    design
        What a row becomes, and which sums are released.
    columns
        The names of the features and, last, of the response.
    privacy, sites
        As in `Agreement`.
    noise
        The kind of noise source.
    notes
        What else is public about the rows, for certificates.
    shares
        Into how many shares noise is split under a secure sum; 1 otherwise.

    Examples
    --------
    >>> design = Design((0.0, 0.0), (1.0, 1.0))
    >>> agreement = RegressionAgreement(design, ("age", "y"), Privacy(1.0, 1e-6))
    >>> [step.name for step in agreement.steps], agreement.rounds
    (['rows'], 1)
    """

    family = "regression"
    trusts: ClassVar[tuple[str, ...]] = ("central", "site", "aggregator")
    cites: ClassVar[tuple[str, ...]] = ("dwork2006", "bernstein2019", "alparslan2023")

    design: Design
    columns: tuple[str, ...]
    privacy: Privacy | None
    sites: int = 1
    noise: str = "exact"
    notes: tuple[str, ...] = ()
    shares: int = 1

    @property
    def summed(self) -> bool:
        """Whether nobody sees a site's own release."""
        return self.privacy is not None and self.privacy.trust == "aggregator"

    @property
    def apart(self) -> bool:
        """Whether the coordinator looks at every site's own release, to know how they differ."""
        return not self.summed

    @property
    def source(self) -> str:  # type: ignore[override]
        """The kind of noise source: shares of noise are drawn on a grid."""
        return "grid" if self.summed else self.noise

    # -- what is charged -------------------------------------------------------------------

    @cached_property
    def mechanism(self) -> Gaussian:
        """The least noise for the request, or one share of it."""
        whole = self.design.mechanism(self.privacy, self.source)
        if not self.summed:
            return whole
        facts = (whole.scale, whole.sensitivity, whole.shape, whole.neighbours, whole.source)
        return GaussianShare(*facts, self.shares)

    def noise_sd(self, sites: int) -> float:
        """Return the standard deviation of the noise on each number of a sum over sites."""
        return math.sqrt(sites * self.mechanism.variance())

    def _steps(self) -> tuple[Step, ...]:
        mechanism = self.mechanism
        replies = {"vector": ArraySpec((self.design.size,), exponent=mechanism.grid.exponent)}
        if self.design.knows_rows:
            replies["rows"] = ArraySpec((1,), "int64", low=0)
        return (Step("rows", mechanism, replies=replies, reach=self._reach),)

    @property
    def _reach(self) -> float | str:
        rows = self.design.rows
        if rows.norm**2 < rows.constant**2:
            return "every row is scaled down to its constant, and none reaches both bounds"
        if self.design.weighted:
            return "features of small weights leave few directions to a row"
        if rows.norm**2 > rows.constant**2 + self.design.features + rows.joint:
            return "no row within its bounds is as long as the norm that rows are scaled to"
        if self.design.statistics == "weighted" and rows.norm * rows.product < rows.constant**2:
            return "the constant alone fills the bound of norm times response"
        if self.design.statistics == "weighted" and self.design.neighbours == REPLACE:
            last, fourth = self.design.square_weight, (self.design.cross_weight / 2.0) ** 2
            if last > min(fourth, rows.norm**4) * (1.0 + 1e-9):
                return "z and the square of the response cannot both move as far as they may"
        if self.design.neighbours == REPLACE and self.design.features == 1:
            return "the constant and one feature leave few directions to a row"
        if rows.constant > 0.0 and not self.design.intercept:
            return "the constant counts in the norm, and only its square is released"
        return 1.0

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Ranges, and what is public with them."""
        notes = tuple(dict.fromkeys((*self.design.assumptions(self.columns), *self.notes)))
        if isinstance(self.mechanism, GaussianShare):
            notes += self.mechanism.assumptions
        if self.sites == 1:
            return notes
        if self.privacy is not None and self.privacy.unit == "user":
            several = "whoever is at several is protected by what these charge together"
            return (*notes, f"the sites hold different people: {several}")
        return (*notes, "the sites hold different rows")

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Any, gate: Gate, seed: int | None) -> Participant:
        """Return a site with the exact sum of its rows."""
        made: Participant = late(f"{__package__}.sides").Rows(self, name, shards_of(data), gate)
        return made

    def coordinate(self, start: Start) -> Coordinating:
        """Ask once, and keep what every site released apart, or take the total."""
        found = yield Ask("rows")
        if self.summed:
            return Total(found.sites, found.total)
        assert found.by_site is not None
        return {site: reply.arrays for site, reply in found.by_site.items()}

    # -- the worst that a neighbour can do -------------------------------------------------

    def worst_case(self) -> Neighbours:
        """The exact sums of `worst_rows`."""
        ours, theirs = (
            summarise((rows[:, :-1], rows[:, -1]), self.design) for rows in self.worst_rows()
        )
        return Neighbours(ours, theirs)

    def worst_rows(self) -> tuple[Array, Array]:
        """Return tables of features and response that differ by one unit, as far as can be."""
        middle, half = np.array(self.design.middle), np.array(self.design.half)
        size = 4 * len(middle)
        rows = middle + half * generator(0, "audit").uniform(-0.5, 0.5, (size, len(middle)))
        first, second = (middle + half * row for row in _farthest(self.design))
        if self.design.neighbours == ADD_REMOVE:
            return np.vstack([rows, *[first] * self.design.rows_per_unit]), rows
        return np.vstack([rows, first]), np.vstack([rows, second])

    @classmethod
    def examples(cls) -> Iterator[RegressionAgreement]:
        """Two features, every choice of sums, both relations, one row each and several."""
        names = ("age", "dose", "pressure")
        weighed = Design((50.0, 0.0, 1.0), (50.0, 1.0, 2.0), weighted=(1.0, 0.25))
        yield cls(weighed, names, Privacy(1.0, 1e-6, unit="row"))
        for neighbours, statistics, intercept in product(
            (ADD_REMOVE, REPLACE), STATISTICS, (True, False)
        ):
            design = Design((50.0, 0.0, 1.0), (50.0, 1.0, 2.0), intercept, neighbours, statistics)
            trust, noise = ("central", "exact") if intercept else ("site", "grid")
            privacy = Privacy(1.0, 1e-6, unit="row", neighbours=neighbours, trust=trust)
            yield cls(design, names, privacy, 1 if intercept else 3, noise)
            summed = Privacy(1.0, 1e-6, unit="row", neighbours=neighbours, trust="aggregator")
            yield cls(design, names, summed, 3, "grid", shares=3)
        several = Design((50.0, 0.0, 1.0), (50.0, 1.0, 2.0), rows_per_unit=3)
        yield cls(several, names, Privacy(1.0, 1e-6, unit="user"))


def _farthest(design: Design) -> tuple[Array, Array]:
    """Return two rows on the mapped scale whose products are as far apart as was found.

    The first has features of some length and the largest response. The second makes some angle
    with it (a right one is best for moments), by signs for some features and one number between.
    Under add-remove only the first counts.
    """
    rows, d = design.rows, design.features
    inner, room = min(rows.inner, rows.limit) ** 2, rows.norm**2 - rows.inner**2
    # features that are just not scaled; such that the largest response still fills the norm; all
    squares = (inner, inner / room if rows.joint else inner, d + rows.constant**2)
    lengths = [math.sqrt(min(max(one - rows.constant**2, 0.0), d)) for one in squares]
    # the largest response, or one that the bound of the product just keeps
    far = [1.0]
    if math.isfinite(rows.product):
        far += [
            min(1.0, rows.product / rows.norm),
            min(1.0, rows.product / rows.norm**2 * math.sqrt(max(squares))),
        ]
    steps = np.linspace(-1.0, 1.0, 21)

    def row(signs: int, between: float, length: float, response: float) -> list[float]:
        x = np.array([1.0] * signs + [between] + [-1.0] * (d - signs - 1))
        x *= length / max(float(np.linalg.norm(x)), 1e-300)
        return [*np.clip(x, -1.0, 1.0).tolist(), response]

    ours = np.array([row(d - 1, 1.0, *facts) for facts in product(lengths, far)])
    added = _released(design, ours)
    if design.neighbours == ADD_REMOVE:
        best = ours[np.linalg.norm(added, axis=1).argmax()]
        return best, best
    theirs = np.array([row(*facts) for facts in product(range(d), steps, lengths, steps)])
    apart = np.linalg.norm(added[:, None] - _released(design, theirs)[None], axis=2)
    i, j = np.unravel_index(apart.argmax(), apart.shape)
    return ours[i], theirs[j]


def _released(design: Design, mapped: Array) -> Array:
    """Return what each row adds to the released vector."""
    rows = design.rows
    table = np.array(design.middle) + np.array(design.half) * mapped
    found = lattice_rows_reference(table[:, :-1], table[:, -1], rows)
    found = np.roll(found, rows.size - design.features - 1, axis=1)  # the constant in front
    first, second = np.array(design.pairs).T
    return np.asarray(found[:, first] * found[:, second] * np.sqrt(design.weights))
