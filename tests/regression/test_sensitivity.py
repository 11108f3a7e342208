"""The declared sensitivity of a regression summary, attacked through the real code path (A8).

Neighbouring tables are searched for a pair whose released vectors differ by more than the design
declares: from corners and hostile values, then with an optimiser that starts from the best.
"""

import math

import numpy as np
import pytest
from scipy import optimize

from tacit.mechanisms.gaussian import Gaussian
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.published.alparslan2023 import ReadDesign
from tacit.published.alparslan2023_averaged import AveragedDesign
from tacit.regression.agreement import RegressionAgreement
from tacit.regression.design import STATISTICS, Design
from tacit.regression.rows import summarise

HOSTILE = [np.nan, np.inf, -np.inf, 1e308, -7.0, 0.0, 1.0, -1.0]


def design_of(d, statistics, neighbours, kind=Design, **more):
    return kind((0.0,) * (d + 1), (1.0,) * (d + 1), neighbours=neighbours,
                statistics=statistics, **more)  # fmt: skip


def groups_of(count):
    return {} if count == 1 else {"kind": AveragedDesign, "rows_per_group": count}


class Attack:
    """Searches neighbouring tables for the largest change of what a site would release."""

    def __init__(self, design, base=None, seed=0):
        self.design, self.width = design, design.features + 1
        # little noise means a fine grid: what is found is the change itself
        self.mechanism = Gaussian(1e-4, design.sensitivity, (design.size,), design.neighbours)
        self.rng = np.random.default_rng(seed)
        self.base = self.rng.uniform(-1, 1, (3, self.width)) if base is None else base
        growth = self.mechanism.grid.growth(design.size, 2, REPLACE)
        self.declared = design.sensitivity + growth

    def vector(self, rows):
        with np.errstate(over="ignore", invalid="ignore"):
            total = summarise((rows[:, :-1], rows[:, -1]), self.design, checked=False)
        return self.design.vector(total.total, self.mechanism).integers.astype(object)

    def change(self, *rows):
        """Return how far one row moves the release, or one row in place of another."""
        rows = [np.reshape(row, (1, self.width)) for row in rows]
        first = np.concatenate([rows[0], self.base])
        second = np.concatenate([rows[1], self.base]) if len(rows) == 2 else self.base
        moved = (self.vector(first) - self.vector(second)).astype(float)
        return float(np.linalg.norm(moved) * self.mechanism.grid.step)

    def search(self, tries=30, steps=400):
        free = 1 if self.design.neighbours == ADD_REMOVE else 2
        hostile = [list(self.rng.choice(HOSTILE, (free, self.width))) for _ in range(tries)]
        corners = [list(self.rng.choice([-1.0, 1.0], (free, self.width))) for _ in range(tries)]
        inside = [list(self.rng.uniform(-1.3, 1.3, (free, self.width))) for _ in range(tries)]
        found = [(self.change(*rows), rows) for rows in (*hostile, *corners, *inside)]
        found.sort(key=lambda pair: -pair[0])
        best = found[0][0]
        for _, start in found[:2] if steps else []:
            start = np.nan_to_num(np.array(start), posinf=1, neginf=-1).clip(-1, 1)
            result = optimize.minimize(
                lambda flat: -self.change(*flat.reshape(free, self.width)), start.ravel(),
                method="Powell", options={"maxfev": steps},
            )  # fmt: skip
            best = max(best, -result.fun)
        return best


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("intercept", [True, False])
def test_no_neighbour_moves_the_release_farther_than_declared(
    d, statistics, neighbours, intercept
):
    design = design_of(d, statistics, neighbours, intercept=intercept)
    attack = Attack(design)
    found = attack.search()
    assert found <= attack.declared * (1 + 1e-12)
    reachable = d > 1 or neighbours == ADD_REMOVE  # directions of one feature are few
    if intercept and reachable:
        assert found >= 0.8 * design.sensitivity  # not much is given away


@pytest.mark.parametrize("norm", [0.2, 0.6, 1.0, 1.5, 3.0])
@pytest.mark.parametrize("statistics", STATISTICS)
@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
def test_every_clip_is_bounded(norm, statistics, neighbours):
    """Also where the response is larger than the features, and the other branch holds."""
    design = design_of(3, statistics, neighbours, clip=norm, intercept=False)
    attack = Attack(design)
    assert attack.search(steps=200) <= attack.declared * (1 + 1e-12)


@pytest.mark.parametrize("norm", [1e-6, 3e-5, 1e-3, 1e4, 1e6])
@pytest.mark.parametrize("statistics", ["weighted", "moments", "Sz"])
@pytest.mark.parametrize("average", [1, 512])
def test_a_clip_is_kept_however_small_or_refused(norm, statistics, average):
    """Rounding to the lattice never exceeds a norm that is smaller than its step."""
    if average > 1 and statistics != "moments":
        return
    if (
        norm < 1e-3 and statistics != "moments"
    ):  # the response needs the lattice of numbers up to 1
        with pytest.raises(ValueError, match="larger clip"):
            design_of(3, statistics, REPLACE, clip=norm)
        return
    design = design_of(3, statistics, REPLACE, clip=norm, **groups_of(average))
    rng = np.random.default_rng(1)
    counted = slice(None) if statistics == "moments" else slice(-1)
    for _ in range(50):
        row = rng.choice([-1.0, 1.0, 0.3, 0.0], (1, 4))
        rows = np.repeat(row, average, axis=0)
        whole = summarise((rows[:, :-1], rows[:, -1]), design).total.value()[counted, counted]
        assert np.trace(whole) / average <= norm**2
    if norm > 2.0:  # nothing is scaled, and nothing vanishes on the lattice
        expected = average * np.square(row).sum() + 0.25 * average
        if statistics == "moments":
            assert np.trace(whole) == pytest.approx(expected, rel=0.02)


def test_a_norm_that_many_averaged_features_cannot_keep_is_refused():
    with pytest.raises(ValueError, match="larger clip"):
        design_of(1000, "moments", REPLACE, clip=1.0, **groups_of(4096))
    assert design_of(1000, "moments", REPLACE, **groups_of(4096)).rows.limit > 16.0


@pytest.mark.parametrize("ratio", [0.2, 0.5, 1.0, 1.4, 1.45, 2.0, 3.0])
@pytest.mark.parametrize("square", [False, True])
def test_the_formulas_are_the_largest_change(ratio, square):
    """Numerical maximisation over two rows, without the code path, finds the formulas exactly."""
    radius = 1.0 / ratio
    design = design_of(2, "Szu" if square else "Sz", REPLACE, clip=radius, intercept=False)
    weight = design.cross_weight

    def change(flat):
        rows = []
        for row in flat.reshape(2, 3):
            x = row[:2] * min(1.0, radius / max(np.linalg.norm(row[:2]), 1e-300))
            rows.append((x, np.clip(row[2], -1, 1)))
        (x, y), (a, b) = rows
        gram = np.linalg.norm(np.outer(x, x) - np.outer(a, a)) ** 2
        cross = weight * np.linalg.norm(x * y - a * b) ** 2
        return -(gram + cross + square * (y * y - b * b) ** 2)

    rng = np.random.default_rng(0)
    best = max(
        -optimize.minimize(change, 3 * rng.normal(size=6), method="Nelder-Mead",
                           options={"maxiter": 3000}).fun
        for _ in range(15)
    )  # fmt: skip
    assert math.isclose(math.sqrt(best), design.sensitivity, rel_tol=1e-4)


@pytest.mark.parametrize("k", [2, 3, 8])
def test_averaged_rows_are_bounded_and_the_bound_is_reached(k):
    design = design_of(2, "moments", REPLACE, **groups_of(k))
    far = np.array([1.0, 1.0, 1.0])
    attack = Attack(design, base=np.tile(far, (k - 1, 1)))
    found = max(attack.change(far, -far), attack.search(tries=20, steps=100))
    assert found <= attack.declared * (1 + 1e-12)
    # the constant in front has one sign, so that −a itself is no row
    assert found >= 0.75 * design.sensitivity
    assert found > 1.05 * math.sqrt(2.0) * design.rows.norm**2 * (k > 2)  # the thesis's claim


@pytest.mark.parametrize("privacy", [
    Privacy(1.0, 1e-6), Privacy(0.01, 1e-6), Privacy(20.0, 1e-6),
    Privacy(1.0, 1e-6, neighbours=REPLACE),
], ids=lambda p: f"{p.epsilon} {p.neighbours}")  # fmt: skip
@pytest.mark.parametrize("source", ["exact", "grid"])
@pytest.mark.parametrize("statistics", STATISTICS)
def test_the_event_accounts_for_what_a_neighbour_can_do(privacy, source, statistics):
    design = design_of(3, statistics, privacy.neighbours)
    attack = Attack(design)
    attack.mechanism = design.mechanism(privacy, source)
    found = attack.search(tries=20, steps=0)
    assert attack.mechanism.scale / found >= attack.mechanism.event.noise_multiplier * (1 - 1e-12)


@pytest.mark.parametrize(("statistics", "eigenvalue"), [("Szu", False), ("Sz", True)])
def test_the_published_noise_covers_adding_and_removing(statistics, eigenvalue):
    design = ReadDesign(
        (0.0,) * 4,
        (1.0,) * 4,
        False,
        ADD_REMOVE,
        statistics,
        1.0,
        norm=3.0,
        eigenvalue=eigenvalue,
    )
    attack = Attack(design)
    assert attack.search(steps=100) <= attack.declared * (1 + 1e-12)


# -- the search catches broken twins ----------------------------------------------------------


class Halved(Design):
    """Declares half of the sensitivity."""

    @property
    def sensitivity(self):
        return Design.sensitivity.func(self) / 2


class ForgetsReplacement(Design):
    """Takes the formula for adding or removing a row."""

    @property
    def sensitivity(self):
        return self.rows.norm**2


class ClipsFeaturesOnly(Design):
    """Leaves the response out of the norm."""

    @property
    def rows(self):
        from dataclasses import replace

        return replace(Design.rows.func(self), joint=False)


@pytest.mark.parametrize(("kind", "neighbours"), [
    (Halved, ADD_REMOVE), (Halved, REPLACE), (ForgetsReplacement, REPLACE),
    (ClipsFeaturesOnly, ADD_REMOVE),
])  # fmt: skip
def test_the_search_catches_a_broken_design(kind, neighbours):
    attack = Attack(design_of(3, "moments", neighbours, kind=kind))
    assert attack.search(tries=20, steps=100) > attack.declared * 1.01


@pytest.mark.parametrize(
    ("neighbours", "intercept", "features", "clip", "why"),
    [
        (ADD_REMOVE, True, 2, None, None),
        (ADD_REMOVE, True, 1, None, None),
        (REPLACE, True, 2, None, None),
        (REPLACE, False, 3, 2.0, None),  # ‖(x, y)‖² = 4 is just reached
        (REPLACE, False, 3, 2.1, "as long as the norm"),
        (ADD_REMOVE, True, 2, 1.85, "as long as the norm"),  # ‖(½, x, y)‖² = 3.25
        (REPLACE, True, 1, None, "few directions"),
        (ADD_REMOVE, False, 2, None, "only its square is released"),
        (REPLACE, False, 2, None, None),  # no constant: the number of rows is public
    ],
)
def test_the_worst_case_reaches_the_bound_or_it_says_why_not(
    neighbours, intercept, features, clip, why
):
    zeros, ones = (0.0,) * (features + 1), (1.0,) * (features + 1)
    design = Design(zeros, ones, intercept, neighbours, "moments", clip)
    names = tuple(f"x{k}" for k in range(features + 1))
    privacy = Privacy(1.0, 1e-6, neighbours=neighbours)
    reach = RegressionAgreement(design, names, privacy).steps[0].reach
    assert reach == 1.0 if why is None else why in reach


@pytest.mark.parametrize("neighbours", [ADD_REMOVE, REPLACE])
@pytest.mark.parametrize("features", [1, 2, 3])
def test_the_worst_rows_lie_within_the_stated_bounds(neighbours, features):
    middle, half = np.arange(features + 1.0), np.arange(features + 1.0) + 0.5
    names = tuple(f"x{k}" for k in range(features + 1))
    for statistics in STATISTICS:
        for clip in (None, 0.5, 3.0):
            design = Design(tuple(middle), tuple(half), True, neighbours, statistics, clip)
            agreement = RegressionAgreement(
                design, names, Privacy(1.0, 1e-6, neighbours=neighbours)
            )
            for table in agreement.worst_rows():
                assert (np.abs(table - middle) <= half * (1.0 + 1e-12)).all()
