"""The declared sensitivity of a summary, attacked through the real code path (PRIVACY A8).

Neighbouring tables are searched for a pair whose sums differ by more than the mechanism accounts
for: its declared sensitivity plus what rounding to the grid adds. Corners come first, then random
rows, then an optimiser that starts from the best of them.
"""

import itertools

import numpy as np
import pytest
from scipy import optimize

from tacit.mechanisms.gaussian import Gaussian
from tacit.mechanisms.laplace import Laplace
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.summary.agreement import STATISTICS, SummaryAgreement
from tacit.summary.estimator import PrivateSummary
from tacit.summary.sides import row_sums

# scaled values: the ends, the middle, s = t² = ½, where an L1 norm may peak, where two moments
# move farthest together (t = 1 against t' = −0.146), and both sides of a cell's edge
SPECIAL = [-1.0, 0.0, 1.0, 0.5**0.5, -(0.5**0.5), 0.25, -0.25, -0.14645, 0.5, 0.4999999, 1e-9]
HOSTILE = [np.nan, np.inf, -np.inf, 7.0, -7.0, 1e308, -1e308, 1.0 + 1e-15]
BOUNDS = [(0.0, 1.0), (-3.0, 8.0), (1e6, 1e6 + 1), (-1e-5, 1e-5)]
CHOICES = {
    "count": ("count",),
    "mean": ("mean",),
    "variance": ("variance",),
    "histogram": ("histogram",),
    "mean+histogram": ("mean", "histogram"),
    "everything": STATISTICS,
}


class Attack:
    """Searches neighbouring tables for the largest change of one layout's sum."""

    def __init__(self, layout, norm, base=3, seed=0, sums=row_sums):
        self.sums = sums
        kind = Gaussian if norm == 2 else Laplace
        sensitivity = layout.sensitivity(norm)
        # little noise means a fine grid: what is found is the change itself
        self.mechanism = kind(1e-3, sensitivity, (layout.size,), layout.neighbours, "exact")
        self.layout, self.norm, self.columns = layout, norm, len(layout.columns)
        self.rng = np.random.default_rng(seed)
        self.base = self.rng.uniform(-1, 1, (base, self.columns))

    @property
    def declared(self):
        """What the mechanism accounts for."""
        growth = self.mechanism.grid.growth(self.layout.size, self.norm, self.layout.neighbours)
        return self.mechanism.sensitivity + growth

    def total(self, scaled):
        """Return the sum of rows of scaled values, in steps of the grid."""
        with np.errstate(over="ignore"):
            values = self.layout.middle + self.layout.half * scaled
        table = {name: values[:, c] for c, name in enumerate(self.layout.columns)}
        return self.sums(self.layout, table, self.mechanism.grid).integers

    def change(self, *rows):
        """Return how far one row moves the sum, or one row in place of another."""
        rows = [np.reshape(row, (1, self.columns)) for row in rows]
        first = np.concatenate([self.base, rows[0]])
        second = np.concatenate([self.base, rows[1]]) if len(rows) == 2 else self.base
        moved = (self.total(first) - self.total(second)) * self.mechanism.grid.step
        return float(np.linalg.norm(moved, self.norm))

    def search(self, tries=25, steps=40):
        """Return the largest change found."""
        free = 1 if self.layout.neighbours == ADD_REMOVE else 2
        points = SPECIAL + HOSTILE
        ends = points if free == 1 else SPECIAL  # hostile values clip to the ends
        corners = [[np.full(self.columns, value) for value in pair]
                   for pair in itertools.product(ends, repeat=free)]  # fmt: skip
        mixed = [list(self.rng.choice(points, (free, self.columns))) for _ in range(tries)]
        inside = [list(self.rng.uniform(-1.2, 1.2, (free, self.columns))) for _ in range(tries)]
        found = [(self.change(*rows), rows) for rows in (*corners, *mixed, *inside)]
        best, start = max(found, key=lambda pair: pair[0])
        if not steps:
            return best
        start = np.nan_to_num(np.array(start), posinf=1.0, neginf=-1.0)

        def loss(flat):
            return -self.change(*flat.reshape(free, self.columns))

        result = optimize.minimize(
            loss, start.clip(-1, 1).ravel(), method="Powell", options={"maxfev": steps}
        )
        return max(best, -result.fun)


def layout_of(columns, statistics, neighbours, bins=4, kind=SummaryAgreement):
    bounds = tuple((f"x{c}", *BOUNDS[c]) for c in range(columns))
    return kind(bounds, tuple(statistics), bins, Privacy(1.0, 1e-6, neighbours=neighbours))


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("norm", [1, 2])
def test_no_neighbour_moves_the_sum_farther_than_declared(columns, choice, neighbours, norm):
    layout = layout_of(columns, CHOICES[choice], neighbours)
    if layout.sensitivity(norm) == 0.0:  # a count alone, and the number of rows is public
        table = {f"x{c}": np.ones(3) for c in range(columns)}
        ones = row_sums(layout, table, Gaussian(0.0, 1.0).grid)
        assert not ones.integers.any()
        return
    attack = Attack(layout, norm)
    found = attack.search()
    assert found <= attack.declared * (1 + 1e-12)
    if not (norm == 1 and neighbours == REPLACE):  # there the bound is twice a row's norm
        assert found >= 0.95 * layout.sensitivity(norm)  # nothing is given away


@pytest.mark.parametrize("statistics", [s for k in range(1, 7)
                                        for s in itertools.combinations(STATISTICS, k)],
                         ids="+".join)  # fmt: skip
def test_every_choice_of_statistics_is_bounded(statistics):
    layout = layout_of(2, statistics, ADD_REMOVE)
    if layout.alone:  # there is no sum: see the tests of quantiles
        assert layout.sensitivity(2) == 0.0
        return
    attack = Attack(layout, 2)
    found = attack.search(tries=10, steps=20)
    assert 0.95 * layout.sensitivity(2) <= found <= attack.declared * (1 + 1e-12)


@pytest.mark.parametrize("bins", [2, 3, 32, 4096])
@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_the_number_of_cells_does_not_matter(bins, neighbours):
    attack = Attack(layout_of(2, STATISTICS, neighbours, bins), 2)
    assert attack.search(tries=10, steps=0) <= attack.declared * (1 + 1e-12)


@pytest.mark.parametrize("base", [0, 1, (1 << 14) - 1, 1 << 14])
@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_the_other_rows_do_not_matter(base, neighbours):
    """Also where the new row opens a new piece of a long table."""
    attack = Attack(layout_of(2, STATISTICS, neighbours), 2, base=base)
    rows = [[np.full(2, 1.0)], [np.array([np.nan, -np.inf])], [np.array([-0.14645, 1.0])]]
    for row in rows if neighbours == ADD_REMOVE else [a + b for a in rows for b in rows]:
        assert attack.change(*row) <= attack.declared * (1 + 1e-12)


def test_where_the_row_stands_does_not_matter():
    attack = Attack(layout_of(2, STATISTICS, ADD_REMOVE), 2, base=100)
    row = np.array([[1.0, -1.0]])
    sums = {
        tuple(attack.total(np.insert(attack.base, place, row, axis=0))) for place in (0, 50, 100)
    }
    assert len(sums) == 1


@pytest.mark.parametrize("privacy", [
    Privacy(1.0), Privacy(1.0, 1e-6), Privacy(0.01, 1e-6), Privacy(20.0, 1e-6),
    Privacy(1.0, neighbours=REPLACE), Privacy(1.0, 1e-6, neighbours=REPLACE),
], ids=lambda p: f"{p.epsilon} {p.delta} {p.neighbours}")  # fmt: skip
@pytest.mark.parametrize("noise", ["exact", "grid"])
def test_the_event_of_a_fit_accounts_for_what_a_neighbour_can_do(privacy, noise):
    """From bounds to event: the multiplier that is charged is noise over the largest change."""
    bounds = {"x0": BOUNDS[0], "x1": BOUNDS[1]}
    summary = PrivateSummary(bounds, privacy=privacy, noise=noise, bins=4)
    layout = summary._agree([None])
    mechanism = layout.mechanism
    attack = Attack(layout, mechanism.norm)
    attack.mechanism = mechanism
    found = attack.search(tries=20, steps=0)
    assert mechanism.scale / found >= layout.step("rows").price.noise_multiplier * (1 - 1e-12)


# -- the search catches broken twins ----------------------------------------------------------


class Halved(SummaryAgreement):
    """Declares half of the sensitivity."""

    def sensitivity(self, norm, more=0):
        return super().sensitivity(norm, more) / 2


def clipped_too_wide(layout, table, grid):
    """Clips to twice the bounds, and counts every row twice."""
    wide = SummaryAgreement(
        tuple((n, 1.5 * a - 0.5 * b, 1.5 * b - 0.5 * a) for n, a, b in layout.bounds),
        layout.statistics, layout.bins, layout.privacy,
    )  # fmt: skip
    far = {
        name: layout.middle[c] + 2 * (values - layout.middle[c])
        for c, (name, values) in enumerate(table.items())
    }
    return row_sums(wide, far, grid) + row_sums(wide, far, grid)


class ForgetsTheCount(SummaryAgreement):
    """Leaves the count's share out of the sensitivity."""

    def sensitivity(self, norm, more=0):
        whole = super().sensitivity(norm, more)
        return whole - 1.0 if norm == 1 else (whole**2 - 1.0) ** 0.5


@pytest.mark.parametrize("kind", [Halved, ForgetsTheCount])
@pytest.mark.parametrize("norm", [1, 2])
def test_the_search_catches_a_broken_layout(kind, norm):
    attack = Attack(layout_of(2, STATISTICS, ADD_REMOVE, kind=kind), norm)
    assert attack.search(tries=10, steps=0) > attack.declared * 1.01


@pytest.mark.parametrize("norm", [1, 2])
def test_the_search_catches_a_clip_that_is_too_wide(norm):
    attack = Attack(layout_of(2, STATISTICS, ADD_REMOVE), norm, sums=clipped_too_wide)
    assert attack.search(tries=10, steps=0) > attack.declared * 1.01


def test_the_search_catches_halved_noise_under_replacement():
    attack = Attack(layout_of(2, STATISTICS, REPLACE, kind=Halved), 2)
    assert attack.search(tries=10, steps=0) > attack.declared * 1.01


@pytest.mark.parametrize("statistics", [("mean",), ("variance",), ("mean", "histogram")])
@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_the_worst_case_of_many_columns_reaches_the_bound_of_gaussian_noise(
    statistics, neighbours
):
    columns = tuple((f"c{k}", 0.0, 2.0) for k in range(40))
    privacy = Privacy(1.0, 1e-6, unit="row", neighbours=neighbours)
    layout = SummaryAgreement(columns, statistics, 4, privacy)
    mechanism = layout.mechanism
    assert mechanism.norm == 2
    ours, theirs = (row_sums(layout, table, mechanism.grid) for table in layout.worst_case())
    assert 0.9999 < mechanism.distance(ours, theirs) <= 1.0
