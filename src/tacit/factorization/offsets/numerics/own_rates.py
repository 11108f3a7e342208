"""What a holder's own cells say of counts: effects that multiply, and need no privacy at all.

Counts (and other values under a KL divergence) of one member are alike by a factor, and so are
those about one item. Cell k of member i has the rate

    λ_k = c·(q_kᵀu_i)·Π_s e_s[g_s(k)],

where q_k ≥ 0 comes from what was released (or is left out: q_kᵀu_i = 1), and s runs over the
proper subsets of a relation's modes: the members' own effects, and those that members of this
holder have in common at an item. Effects are Gamma(a_s, a_s) about one, rows Gamma(b, b/m_r) about
a row m that all members of the holder share. Given everything else the posterior means are

    e_s[g] = (a_s + Σ x_k)/(a_s + Σ λ_k/e_s[g]),
    u_ir = (b + Σ x_k·u_ir·q_kr·E_k/λ_k)/(b/m_r + Σ q_kr·E_k),     E_k = c·Π_s e_s,

in turn, which is the conjugate update of each. Shapes a_s and b come from ladders that end with
leaving the effect out, by the likelihood of a third of the cells at a time that are left out.

**How far released numbers are believed.** The prediction is (1 − w)·(effects alone) + w·(effects
about the factors), with the w of the best likelihood of cells that were left out, or 0 where that
is no better by two standard errors. Released factors were learned from the same cells, too, which
flatters them. They are judged as if every row of theirs were so many free numbers solved from all
sites' cells: x̂ at a cell of leverage h would without it be x̂ − h/(1 − h)·(x − x̂), which noise and
priors only make less. All of that is one holder's own: nothing of it is released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from tacit._core.rng import generator
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import NEVER

__all__ = ["OwnRates", "RateCells", "RateEffect", "fit_own_rates"]

_SHAPES = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, NEVER)
_START = 4  # the place of a shape to begin with
_SHARES = (0.25, 0.5, 0.75, 1.0)
_PARTS, _STEPS, _LAST = 3, 12, 30  # held out in turn; updates while choosing, and afterwards
_CELLS = 4_000  # that shapes are chosen on
# standard errors by which an effect, or released factors, must help, against leaving them out
_GAIN, _TRUST = 1.0, 2.0
_LEAST, _SEEN = 1e-12, 0.5  # of a number that is divided by; of a count that was never seen


class RateEffect(NamedTuple):
    """One kind of effect: which cells have it, and the group of each of them."""

    cells: Integers
    groups: Integers
    number: int  # of groups
    usual: bool  # whether it counts unless it does harm: a single mode


class RateCells(NamedTuple):
    """Cells of all relations that name a holder's members."""

    owners: Integers
    members: int
    values: Floats
    relations: Integers  # which one each cell belongs to
    weights: Floats  # precision of a value, 1 for counts
    features: Floats  # q, (cells, columns) ≥ 0
    leverage: Floats  # how much of a cell is in the released numbers about it, at most
    effects: Sequence[RateEffect]

    def of(self, mask: Floats) -> RateCells:
        """Return some of the cells; groups stay as they are."""
        place = np.cumsum(mask) - 1
        effects = []
        for effect in self.effects:
            kept = mask[effect.cells]
            cells = place[effect.cells[kept]]
            effects.append(effect._replace(cells=cells, groups=effect.groups[kept]))
        return RateCells(
            self.owners[mask],
            self.members,
            self.values[mask],
            self.relations[mask],
            self.weights[mask],
            self.features[mask],
            self.leverage[mask],
            effects,
        )


class _Rates(NamedTuple):
    """The parts of a rate: c by relation, rows, and effects; without rows q counts as one."""

    centres: Floats
    rows: Floats | None
    effects: list[Floats]

    def at(self, cells: RateCells) -> Floats:
        """Return the rate of cells."""
        rate = self.centres[cells.relations]
        if self.rows is not None:
            rate = rate * (self.rows[cells.owners] * cells.features).sum(axis=1)
        for effect, found in zip(cells.effects, self.effects, strict=True):
            rate[effect.cells] *= found[effect.groups]
        return rate


class OwnRates(NamedTuple):
    """Effects alone, effects about released factors, and the share of the latter."""

    alone: _Rates
    about: _Rates | None
    share: float

    def at(self, cells: RateCells) -> Floats:
        """Return the expected value of cells."""
        rate = self.alone.at(cells)
        if self.about is None or self.share == 0.0:
            return rate
        return np.asarray((1.0 - self.share) * rate + self.share * self.about.at(cells))


def fit_own_rates(cells: RateCells, relations: int) -> OwnRates:
    """Return the effects of one holder's cells, over so many relations."""
    looked = _looked_at(cells)
    free = looked._replace(features=looked.features[:, :0])
    shapes = np.array([*(_SHAPES[_START] if e.usual else NEVER for e in cells.effects), NEVER])
    chosen, left = _choose(free, relations, shapes)
    alone = _fit(cells._replace(features=cells.features[:, :0]), relations, chosen, _LAST)
    if not cells.features.any() or len(looked.values) < 2 * _PARTS:
        return OwnRates(alone, None, 0.0)
    shapes = np.append(chosen[:-1], _SHAPES[_START])
    known, about = _choose(looked, relations, shapes)
    errors = [_misfit(looked, (1.0 - share) * left + share * about) for share in _SHARES]
    best = int(np.argmin([error.sum() for error in errors]))
    if not _helps(_misfit(looked, left) - errors[best], _TRUST):
        return OwnRates(alone, None, 0.0)
    return OwnRates(alone, _fit(cells, relations, known, _LAST), _SHARES[best])


def _looked_at(cells: RateCells) -> RateCells:
    """Return all cells of some members, evenly spaced, that choices are made on."""
    if len(cells.values) <= _CELLS:
        return cells
    every = len(cells.values) / _CELLS
    kept = np.zeros(cells.members, bool)
    kept[np.arange(0.0, cells.members, every).astype(np.int64)] = True
    return cells.of(kept[cells.owners])


# -- fitting -----------------------------------------------------------------------------------


def _fit(cells: RateCells, relations: int, shapes: Floats, steps: int) -> _Rates:
    """Return posterior means for given shapes, those of effects first and that of rows last."""
    weighted, centres = cells.weights * cells.values, np.ones(relations)
    effects, product = [np.ones(e.number) for e in cells.effects], np.ones(len(weighted))
    rows, common = None, np.zeros(0)
    about = np.ones(len(weighted))
    if cells.features.shape[1]:
        common = _common_row(cells, weighted, steps)
        rows = np.tile(common, (cells.members, 1))
        about = (rows[cells.owners] * cells.features).sum(axis=1)

    def centred() -> None:
        nonlocal product
        product = product / centres[cells.relations]
        held = np.bincount(cells.relations, cells.weights * about * product, relations)
        total = np.bincount(cells.relations, weighted, relations)
        centres[:] = np.maximum(total, _SEEN) / np.maximum(held, _SEEN)
        product = product * centres[cells.relations]

    centred()
    for _ in range(steps):
        if rows is not None and shapes[-1] < NEVER:
            rows = _rows(cells, weighted, product, about, rows, common, shapes[-1])
            about = np.maximum((rows[cells.owners] * cells.features).sum(axis=1), _LEAST)
        for s, effect in enumerate(cells.effects):
            if shapes[s] >= NEVER:
                continue
            here = effect.cells
            rest = product[here] / effects[s][effect.groups]
            held = np.bincount(
                effect.groups, cells.weights[here] * about[here] * rest, effect.number
            )
            total = np.bincount(effect.groups, weighted[here], effect.number)
            effects[s] = (shapes[s] + total) / (shapes[s] + held)
            product[here] = rest * effects[s][effect.groups]
        centred()
    return _Rates(centres, rows, effects)


def _common_row(cells: RateCells, weighted: Floats, steps: int) -> Floats:
    """Return m, the row of all members together: multiplicative steps, from one number."""
    held = cells.weights @ cells.features
    row = np.full(len(held), weighted.sum() / max(float(held.sum()), _LEAST))
    for _ in range(steps):
        ratio = weighted / np.maximum(cells.features @ row, _LEAST)
        row = row * (ratio @ cells.features) / np.maximum(held, _LEAST)
    return np.asarray(np.maximum(row, _LEAST))


def _rows(
    cells: RateCells,
    weighted: Floats,
    product: Floats,
    about: Floats,
    rows: Floats,
    common: Floats,
    shape: float,
) -> Floats:
    """Return every member's row after one update."""
    ratio, found = weighted / np.maximum(about, _LEAST), np.empty_like(rows)
    for r in range(rows.shape[1]):
        q = cells.features[:, r]
        got = np.bincount(cells.owners, q * ratio, cells.members) * rows[:, r]
        held = np.bincount(cells.owners, cells.weights * q * product, cells.members)
        found[:, r] = (shape + got) / (shape / common[r] + held)
    return found


# -- choosing shapes ---------------------------------------------------------------------------


def _misfit(cells: RateCells, rate: Floats) -> Floats:
    """Return minus the log likelihood of every cell, up to a constant."""
    rate = np.maximum(rate, _LEAST)
    return np.asarray(cells.weights * (rate - cells.values * np.log(rate)))


def _helps(gains: Floats, errors: float = _GAIN) -> bool:
    """Whether gains by cell are more than a chance finding, by so many standard errors."""
    margin = errors * float(np.sqrt(np.square(gains - gains.mean()).sum()))
    return bool(gains.sum() > margin)


def _left_out(cells: RateCells, relations: int, shapes: Floats) -> Floats:
    """Return the rate of every cell by the others, freed of what released numbers know of it."""
    part = generator(0, "left out").permutation(len(cells.values)) % _PARTS  # every time the same
    found = np.empty(len(part))
    for k in range(_PARTS):
        held = part == k
        found[held] = _fit(cells.of(~held), relations, shapes, _STEPS).at(cells.of(held))
    if cells.features.shape[1]:
        odds = cells.leverage / (1.0 - cells.leverage)
        found = np.maximum(found - odds * (cells.values - found), 1e-3 * found)
    return found


def _choose(cells: RateCells, relations: int, shapes: Floats) -> tuple[Floats, Floats]:
    """Return shapes with a good likelihood of cells that are left out, and their rates then."""
    shapes = shapes.copy()
    if len(cells.values) < 2 * _PARTS:
        return shapes, np.zeros(len(cells.values))
    rate = _left_out(cells, relations, shapes)
    misfit = _misfit(cells, rate)

    def tried(shape: float) -> tuple[Floats, Floats]:
        changed = shapes.copy()
        changed[k] = shape
        found = _left_out(cells, relations, changed)
        return found, _misfit(cells, found)

    searched = [*range(len(cells.effects))]
    if cells.features.shape[1]:
        searched = [len(cells.effects), *searched]
    for k in searched:
        if shapes[k] >= NEVER:  # one that must show that it helps
            found, new = tried(_SHAPES[_START])
            if not _helps(misfit - new):
                continue
            shapes[k], rate, misfit = _SHAPES[_START], found, new
        shapes[k], rate, misfit = _climbed(tried, float(shapes[k]), (rate, misfit))
    return shapes, rate


def _climbed(
    tried: Callable[[float], tuple[Floats, Floats]], shape: float, known: tuple[Floats, Floats]
) -> tuple[float, Floats, Floats]:
    """Return the shape that no neighbour on the ladder is better than, its rates and misfits."""
    at = _SHAPES.index(shape)
    for step in (1, -1):
        moved = False
        while 0 <= at + step < len(_SHAPES):
            found = tried(_SHAPES[at + step])
            if found[1].sum() >= known[1].sum():
                break
            at, known, moved = at + step, found, True
        if moved:
            break
    return _SHAPES[at], *known
