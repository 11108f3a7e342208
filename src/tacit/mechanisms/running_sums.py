"""Running sums by a binary tree, for a number of steps that is known in advance.

Source: Dwork, Naor, Pitassi & Rothblum (2010); Chan, Shi & Song (2011). Step e = 1, …, T of a
sequence closes one node of a binary tree: the sum of its last lowbit(e) steps, where lowbit(e) is
the largest power of two that divides e. Each node gets Gaussian noise once. The running sum up to
t is the sum of the nodes that end at t, t − lowbit(t), …: one for each 1 in the binary digits of
t. Other nodes of the tree are never needed, so there is no noise on them.

**Sensitivity.** A change of one step s moves the nodes that end at s, s + lowbit(s), … ≤ T, whose
lengths are different powers of two up to T: at most L = ⌊log₂ T⌋ + 1 nodes (as many as T has
binary digits), each by as much as the step. So a step that moves by Δ in L2 norm moves all nodes
together by √L·Δ, and a neighbour that changes k steps by at most √L·k·Δ, by the triangle
inequality. All running sums follow from the nodes: the event is that of one Gaussian with
multiplier σ/(√L·k·Δ).

**Variance.** That of step t is σ² times the number of ones in t: at most L·σ², where independent
noise on the steps would give t times the variance of one.

Steps are rounded to the grid before they are added, as whole numbers; rounding adds to Δ what it
adds to one contribution (`tacit.mechanisms.grid`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from tacit._core.check import Integer, Real, check
from tacit.errors import ParameterError
from tacit.mechanisms.additive import GridMechanism
from tacit.mechanisms.grid import Grid, GridSum
from tacit.mechanisms.noise import Noise
from tacit.privacy import calibration
from tacit.privacy.events import REPLACE, DpEvent, GaussianDpEvent

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["RunningSums"]


@dataclass(frozen=True)
class RunningSums(GridMechanism):
    """The sums up to every step of a sequence, with noise that hardly grows with its length.

    The value holds what each step adds; the release has the same shape and holds the sums up to
    each step.

    Parameters
    ----------
    scale
        Standard deviation σ of the noise of one node.
    sensitivity
        How far one neighbour moves the numbers of one step, in L2 norm, for the stated relation.
    shape
        Number of steps first, then the shape of what a step adds.
    neighbours, source
        As in `tacit.mechanisms.gaussian.Gaussian`.
    changed
        How many steps one neighbour changes at most: of a unit that contributes to one step 1, or
        2 where it is replaced by one that contributes to another.

    Examples
    --------
    >>> visits = np.ones(1000)                     # one each day
    >>> sums = RunningSums.calibrated(2.0, 1.0, (1000,))
    >>> sums.levels
    10
    >>> released = sums.draw(visits, Noise(seed=1))
    >>> bool(abs(released[-1] - 1000) < 6 * sums.variance()[-1] ** 0.5)
    True
    """

    changed: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check("changed", self.changed, Integer(1))
        if not self.shape or self.shape[0] < 1:
            raise ParameterError("shape must begin with the number of steps, at least 1")

    @property
    def steps(self) -> int:
        """The number of steps T."""
        return self.shape[0]

    @property
    def levels(self) -> int:
        """The most nodes that one step is part of."""
        return self.steps.bit_length()

    @property
    def step_size(self) -> int:
        """How many numbers a step adds to."""
        return math.prod(self.shape[1:])

    @property
    def _moves(self) -> float:
        """√L·k: how many times as far as one step all nodes move together; from above."""
        return math.sqrt(self.levels) * self.changed * (1.0 + 2.0**-50)

    @property
    def reach(self) -> float:
        """How far one neighbour moves all nodes together, after rounding."""
        growth = self.grid.growth(self.step_size, self.norm, REPLACE)
        return self._moves * (self.sensitivity + growth)

    @property
    def noise_multiplier(self) -> float:
        """The scale over the sensitivity of all nodes together."""
        return self.scale / self.reach

    @classmethod
    def calibrated(
        cls, multiplier: float, sensitivity: float, shape: tuple[int, ...] = (), **more: Any
    ) -> Self:
        """Return the mechanism whose event has (at least) the given noise multiplier."""
        check("multiplier", multiplier, Real(0, open_low=True))
        draft = cls(1.0, sensitivity, shape, **more)
        # the step of the grid is at most scale·2^-bits
        growth = Grid(-draft.bits).growth(draft.step_size, cls.norm, REPLACE)
        room = 1.0 - multiplier * draft._moves * growth
        if room < 0.5:
            raise ParameterError(
                f"steps of {draft.step_size} numbers with noise {multiplier:g} times the "
                "sensitivity are too fine for the grid: release fewer numbers at once"
            )
        scale = multiplier * draft._moves * sensitivity / room * (1.0 + 1e-12)
        return cls(scale, sensitivity, shape, **more)

    @classmethod
    def for_privacy(
        cls,
        epsilon: float,
        delta: float,
        sensitivity: float,
        shape: tuple[int, ...] = (),
        **more: Any,
    ) -> Self:
        """Return the least noise for which all sums together are (ε, δ)-private."""
        return cls.calibrated(
            calibration.gaussian_sigma(epsilon, delta), sensitivity, shape, **more
        )

    def _event(self) -> DpEvent:
        return GaussianDpEvent(self.noise_multiplier)

    def _noise(self, noise: Noise, count: int, scale: float) -> NDArray[np.int64]:
        return noise.gaussian(count, scale)

    def _nodes(self, value: Any) -> NDArray[np.int64]:
        """Return the node that each step closes, as whole numbers of the grid."""
        steps = value.integers if isinstance(value, GridSum) else self.grid.round(value)
        ends = np.arange(1, self.steps + 1)
        sums = np.concatenate([np.zeros((1, *self.shape[1:]), np.int64), np.cumsum(steps, axis=0)])
        return np.asarray(sums[ends] - sums[ends - (ends & -ends)])

    def distance(self, value: Any, other: Any) -> float:
        """Return the L2 distance of all nodes over their sensitivity, after rounding."""
        moved = (self._nodes(value) - self._nodes(other)).astype(np.float64) * self.grid.step
        return float(np.sqrt(np.square(moved).sum())) / self.reach

    def draw(self, value: Any, noise: Noise) -> NDArray[np.float64]:
        """Return the noisy sum up to every step."""
        nodes = self._nodes(value)
        if self.scale > 0.0:
            steps = math.ldexp(self.scale, -self.grid.exponent)
            nodes = nodes + self._noise(noise, self.size, steps).reshape(self.shape)
        sums = np.zeros((self.steps + 1, *self.shape[1:]), np.int64)
        for end in range(1, self.steps + 1):
            sums[end] = sums[end - (end & -end)] + nodes[end - 1]
        return self.grid.values(sums[1:])

    def variance(self, value: Any = None) -> NDArray[np.float64]:
        """Return the variance of each step: that of a node for every 1 in its binary digits."""
        ones = np.array([end.bit_count() for end in range(1, self.steps + 1)], np.float64)
        return np.asarray(ones * self.scale**2)
