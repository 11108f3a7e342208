"""Privacy losses of single events: sketches at places of their own, and grids.

Both bound the true losses from above (`tacit.privacy.accounting.pairs`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from tacit.errors import NotCertified
from tacit.privacy.accounting.pairs import (
    UNIT,
    Losses,
    gaussian_above,
    laplace_above,
    plain_gaussian,
    plain_laplace,
    replaced_gaussian,
    replaced_loss,
    sampled_gaussian,
    sampled_laplace,
)
from tacit.privacy.accounting.shuffled import shuffled_deltas, shuffled_reach
from tacit.privacy.claims import LossesDpEvent
from tacit.privacy.events import (
    REPLACE,
    ApproximateDpEvent,
    DiscreteGaussianDpEvent,
    DiscreteLaplaceDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SampledWithoutReplacementDpEvent,
    ShuffledDpEvent,
    response_epsilon,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["extent", "grid_losses", "is_symmetric", "sketch", "split_losses"]

_REACH = 14.0  # standard deviations: 8e-45 of a Gaussian lies beyond
_SKETCH = 1200  # cells of a sketch
_MANY_ATOMS = 40_000  # of any event: the sketch has fewer
_CELL, _WIDEST = 0.003, 0.01  # width of cells of large losses, relative to them and at most,
_MOST_CELLS = 20_000  # where there are no more of them
_MOST_ATOMS = 20_000  # of discrete Laplace noise; with more it is only known to be pure


def _atoms(leaf: DpEvent, swapped: bool) -> Losses | None:
    """Return the losses of an event that has finitely many, else None."""
    match leaf:
        case ApproximateDpEvent(epsilon, delta):
            return _two_atoms(epsilon, delta)
        case RandomizedResponseDpEvent(noise, buckets):
            top = response_epsilon(noise, buckets) * (1.0 + 8.0 * UNIT)
            lie = noise / buckets
            mass = np.array([lie, (buckets - 2) * lie, 1.0 - noise + lie])
            return Losses(np.array([-top, 0.0, top]), mass, 0.0)
        case DiscreteLaplaceDpEvent(parameter, sensitivity):
            top = parameter * sensitivity
            if sensitivity > _MOST_ATOMS:
                return _two_atoms(top * (1.0 + 4.0 * UNIT), 0.0)
            inner = np.arange(sensitivity - 1, 0, -1.0)
            mass = math.tanh(parameter / 2.0) * np.exp(-parameter * inner)
            whole = 1.0 / (1.0 + math.exp(-parameter))
            at = np.concatenate([[-top], parameter * (sensitivity - 2.0 * inner), [top]])
            mass = np.concatenate([[whole * math.exp(-min(top, 745.0))], mass, [whole]])
            return Losses(at * (1.0 + 4.0 * UNIT), mass * (1.0 + 16.0 * UNIT), 0.0)
        case DiscreteGaussianDpEvent(sigma, moved):
            return _discrete_gaussian(sigma, moved)
        case LossesDpEvent():
            return _claimed(*leaf.side(swapped))
    return None


def _discrete_gaussian(sigma: float, moved: int) -> Losses:
    """Return the losses Δ·(2k + Δ)/(2σ²) of noise k, P(k) ∝ exp(−k²/(2σ²)).

    Beyond `_REACH` standard deviations, a tail of at most twice its first mass at σ ≤ 1 and of
    σ times that elsewhere: above it counts as infinite, below as the least loss.
    """
    reach = math.ceil(_REACH * sigma)
    numbers = np.arange(-reach, reach + 1.0)
    # an exponent of up to 98 is off by some 200 roundings
    mass = np.exp(-0.5 * np.square(numbers / sigma))
    mass *= (1.0 + 1024.0 * UNIT) / float(np.sum(mass))
    tail = float(mass[-1]) * max(2.0, sigma)
    mass[0] += tail
    loss = (2.0 * numbers + moved) / sigma * (0.5 * moved / sigma)
    return Losses(loss + np.abs(loss) * 8.0 * UNIT, mass, tail)


def _claimed(at: Sequence[float], mass: Sequence[float], infinite: float) -> Losses:
    """Return stated losses; what they miss one by, and some roundings, is the largest of them."""
    # e^(−x) is off by some roundings of x, up to 700
    masses = np.array(mass) * (1.0 + 2048.0 * UNIT)
    masses[-1] += max(0.0, 1.0 - infinite - math.fsum(mass))
    return Losses(np.array(at), masses, infinite)


def _two_atoms(epsilon: float, delta: float) -> Losses:
    """Return the worst losses of an (ε, δ)-private event (Kairouz, Oh & Viswanath 2015)."""
    high = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    low = high * math.exp(-min(epsilon, 745.0))
    return Losses(np.array([-epsilon, epsilon]), np.array([low, high]), delta)


def _split_atoms(atoms: Losses, step: float) -> Losses:
    """Return atoms on a grid that ends at the largest, each split between its neighbours."""
    top = float(atoms.at[-1])
    size = math.ceil((top - float(atoms.at[0])) / step) + 1
    place = (atoms.at - top) / step + (size - 1.0)
    upper = np.clip(np.ceil(place), 1, size - 1).astype(np.int64)
    part = np.expm1(-step * (place - (upper - 1.0))) / math.expm1(-step)
    part = np.clip(part + 32.0 * UNIT * size, 0.0, 1.0)
    mass = np.zeros(size)
    whole = atoms.mass * (1.0 + 16.0 * UNIT)
    np.add.at(mass, upper, whole * part)
    np.add.at(mass, upper - 1, whole * (1.0 - part))
    return Losses(top + step * np.arange(1 - size, 1.0), mass, atoms.infinite)


def _shuffled(local: float, people: int, edges: Floats) -> Losses:
    """Return losses of shuffled messages from their δ(ε) at the edges.

    Q of losses above x is minus the slope of δ in e^ε. Made to fall with x, it gives a measure
    whose δ is nowhere below.
    """
    delta = shuffled_deltas(local, people, edges)
    slope = -np.diff(delta) / (np.exp(edges[:-1]) * np.expm1(np.diff(edges)))
    tail = np.append(np.maximum.accumulate(np.maximum(slope, 0.0)[::-1])[::-1], 0.0)
    mass = np.exp(edges[1:]) * -np.diff(tail) * (1.0 + 1e-13)
    infinite = float(delta[-1])
    lowest = max(0.0, 1.0 - infinite - math.fsum(mass)) + 1e-13
    return Losses(edges, np.concatenate([[lowest], mass]), infinite)


def _mirrored(upper: Losses) -> Losses:
    """Return the symmetric pair whose δ(ε) at ε ≥ 0 is that of ``upper``.

    Only losses above 0 have a part in that. In a symmetric pair the mass at −x is e^(−x) times
    that at x, and what is left lies at 0.
    """
    over = upper.at > 0.0
    at, mass = upper.at[over], upper.mass[over]
    below = mass * np.exp(np.maximum(-at, -745.0)) * (1.0 + 4.0 * UNIT)
    left = max(0.0, 1.0 - upper.infinite - math.fsum(mass) - math.fsum(below)) + 1e-15
    return Losses(
        np.concatenate([-at[::-1], [0.0], at]),
        np.concatenate([below[::-1], [left], mass]),
        upper.infinite,
    )


def is_symmetric(leaf: DpEvent) -> bool:
    """Whether the pair (Q, P) of an event has the same losses as (P, Q)."""
    if isinstance(leaf, LossesDpEvent):
        return False
    return not (isinstance(leaf, PoissonSampledDpEvent) and leaf.neighbours != REPLACE)


@lru_cache(maxsize=512)
def sketch(leaf: DpEvent, swapped: bool) -> Losses:
    """Return some thousand losses of an event, at places of its own, down to tails of 1e-43."""
    atoms = _atoms(leaf, swapped)
    if atoms is not None and len(atoms.at) > _MANY_ATOMS:
        return _split_atoms(atoms, float(atoms.at[-1] - atoms.at[0]) / _SKETCH)
    if atoms is not None:
        return atoms._replace(mass=atoms.mass * (1.0 + 16.0 * UNIT))
    match leaf:
        case SampledWithoutReplacementDpEvent():
            return _mirrored(sketch(leaf.upper, False))
        case GaussianDpEvent(multiplier):
            mu = 1.0 / multiplier
            z = np.linspace(mu - _REACH, mu + _REACH, _SKETCH)
            return plain_gaussian(mu, mu * z - mu * mu / 2.0).losses()
        case LaplaceDpEvent(multiplier):
            return plain_laplace(
                1.0 / multiplier, np.linspace(-1.0, 1.0, _SKETCH) / multiplier
            ).losses()
        case ShuffledDpEvent(local, people):
            reach = shuffled_reach(local, people)
            return _shuffled(local, people, np.linspace(-reach, reach, 2 * _SKETCH))
        case PoissonSampledDpEvent(rate, LaplaceDpEvent(multiplier), _):
            y = np.linspace(-1.0, 1.0, _SKETCH) / multiplier
            above = laplace_above(rate, 1.0 / multiplier, y)
            return sampled_laplace(rate, 1.0 / multiplier, above).losses(swapped=swapped)
        case PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier), neighbours):
            mu = 1.0 / multiplier
            z = np.linspace(-_REACH, mu + _REACH, _SKETCH)
            if neighbours == REPLACE:
                right = replaced_loss(rate, mu, z[z > 0.0])
                right = np.append(0.0, right)
                right = right[np.append(True, np.diff(right) > 0.0)]
                return replaced_gaussian(rate, mu, np.concatenate([-right[:0:-1], right])).losses()
            above = np.append(0.0, gaussian_above(rate, mu, z))
            above = above[np.append(True, np.diff(above) > 0.0)]
            return sampled_gaussian(rate, mu, above).losses(swapped=swapped)
    raise NotCertified(f"the pld accountant cannot account for {leaf}")


def _upper(probability: float) -> float:
    """Return the z beyond which a standard Gaussian has no more than that probability."""
    return float(-special.ndtri(min(max(probability, 1e-44), 0.5)))


def extent(leaf: DpEvent, swapped: bool, tail: float) -> tuple[float, float]:
    """Return the losses from which a grid begins and where it ends; ``tail`` lies beyond."""
    atoms = _atoms(leaf, swapped)
    if atoms is not None:
        return float(atoms.at[0]), float(atoms.at[-1])
    match leaf:
        case SampledWithoutReplacementDpEvent():
            high = extent(leaf.upper, False, tail)[1]
            return -high, high
        case GaussianDpEvent(multiplier):
            mu = 1.0 / multiplier
            return mu * (mu / 2.0 - _REACH), mu * (mu / 2.0 + _upper(tail))
        case LaplaceDpEvent(multiplier):
            return -1.0 / multiplier, 1.0 / multiplier
        case ShuffledDpEvent(local, people):
            reach = shuffled_reach(local, people)
            return -reach, reach
        case PoissonSampledDpEvent(rate, LaplaceDpEvent(multiplier), _):
            top = 1.0 / multiplier
            least = math.log1p(rate * math.expm1(-top))
            most = least + float(laplace_above(rate, top, np.array([top]))[0])
            return (-most, -least) if swapped else (least, most)
        case PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier), neighbours):
            mu = 1.0 / multiplier
            far = max(_upper(tail / 2.0), mu + _upper(min(tail / (2.0 * rate), 0.5)))
            if neighbours == REPLACE:
                most = float(replaced_loss(rate, mu, np.array([far]))[0])
                return -most, most
            least = math.log1p(-rate)
            if swapped:  # what lies beyond moves up to the end of the grid
                far = _upper(1e-20)
            most = least + float(gaussian_above(rate, mu, np.array([far]))[0])
            return (-most, -least) if swapped else (least, most)
    raise NotCertified(f"the pld accountant cannot account for {leaf}")


def grid_losses(leaf: DpEvent, swapped: bool, step: float, tail: float) -> Losses:
    """Return an event's losses at distances of ``step``, beginning where it suits the event."""
    atoms = _atoms(leaf, swapped)
    if atoms is not None:
        return _split_atoms(atoms, step)
    if isinstance(leaf, SampledWithoutReplacementDpEvent):
        return _split_atoms(_mirrored(grid_losses(leaf.upper, False, step, tail)), step)
    low, high = extent(leaf, swapped, tail)
    above = step * np.arange(max(math.ceil((high - low) / step), 1) + 1.0)
    match leaf:
        case GaussianDpEvent(multiplier):
            return plain_gaussian(1.0 / multiplier, low + above).losses()
        case LaplaceDpEvent():
            return plain_laplace(high, high - above[::-1]).losses()
        case ShuffledDpEvent(local, people):
            return _shuffled(local, people, low + above)
        case PoissonSampledDpEvent(rate, LaplaceDpEvent(multiplier), _):
            return sampled_laplace(rate, 1.0 / multiplier, above).losses(swapped=swapped)
        case PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier), neighbours):
            mu = 1.0 / multiplier
            if neighbours == REPLACE:
                right = step * np.arange(max(math.ceil(high / step), 1) + 1.0)
                edges = np.concatenate([-right[:0:-1], right])
                return replaced_gaussian(rate, mu, edges).losses()
            return sampled_gaussian(rate, mu, above).losses(swapped=swapped)
    raise NotCertified(f"the pld accountant cannot account for {leaf}")


def split_losses(
    leaf: DpEvent, swapped: bool, step: float, low: float, high: float, tail: float
) -> tuple[Losses, Losses]:
    """Return a sampled event's losses up to about ``high`` on a grid, and those above it.

    The others are in uneven cells, whose first end is where the grid ends. Losses below ``low``
    are moved up to it; those of probability ``tail`` are infinite.
    """
    if isinstance(leaf, SampledWithoutReplacementDpEvent):
        small, large = split_losses(leaf.upper, False, step, low, high, tail)
        jumping = math.fsum(large.mass) + large.infinite
        mirrored = _mirrored(small._replace(infinite=jumping))
        return _split_atoms(mirrored._replace(infinite=0.0), step), large
    if not isinstance(leaf, PoissonSampledDpEvent):
        raise NotCertified(f"the losses of {leaf} are not split")
    least, most = extent(leaf, False, tail)
    two_sided = leaf.neighbours == REPLACE and isinstance(leaf.event, GaussianDpEvent)
    least = 0.0 if two_sided else least
    end = -low if swapped else high
    near = step * np.arange(max(math.ceil((end - least) / step), 1) + 1.0)
    above = np.concatenate([near, _uneven(least + float(near[-1]), most) - least])
    rate, kept = leaf.sampling_probability, len(near) - 1
    match leaf.event:
        case LaplaceDpEvent(multiplier):
            cells = sampled_laplace(rate, 1.0 / multiplier, above)
        case GaussianDpEvent(multiplier) if two_sided:
            left = -step * np.arange(max(math.ceil(-low / step), 1), 0, -1.0)
            kept += len(left)
            cells = replaced_gaussian(rate, 1.0 / multiplier, np.concatenate([left, above]))
        case GaussianDpEvent(multiplier):
            cells = sampled_gaussian(rate, 1.0 / multiplier, above)
        case _:
            raise NotCertified(f"the losses of {leaf} are not split")
    if swapped:
        at, mass, infinite = cells.losses(swapped=True)
        first = len(at) - kept - 1
        mass[first] += float(np.sum(mass[:first])) * (1.0 + 64.0 * UNIT)
        nothing = np.zeros(0)
        return Losses(at[first:], mass[first:], 0.0), Losses(nothing, nothing, infinite)
    below, beyond = cells.split(kept)
    return below.losses(), beyond.losses()


def _uneven(start: float, end: float) -> Floats:
    """Return the upper ends of cells from ``start`` on, of bounded width relative to the loss."""
    if start >= end:
        return np.array([start * (1.0 + _CELL)])
    turn = min(max(start, _WIDEST / _CELL), end)
    count = math.ceil(math.log(turn / start) / math.log1p(_CELL))
    first = start * np.exp(np.linspace(0.0, math.log(turn / start), count + 1))
    count = min(math.ceil((end - turn) / _WIDEST), _MOST_CELLS)
    rest = np.linspace(turn, end, count + 1)
    return np.append(np.concatenate([first, rest[1:]])[1:], end * (1.0 + 1e-12))
