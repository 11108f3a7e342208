"""Rounds of some dozens of coefficients, with one estimate of how rows spread.

Of many coefficients noisy sums of products leave so much open that a few dozen draws of them say
little (`…numerics.hypotheses`), and their average forgets what rounds told: predictions come out
near the base rate. Here the frame's estimate is taken, as in `…numerics.rounds`, and corrected by
what every round releases besides the gradient: how long rows are, Σ weight²·‖z‖², and the part of
that along the coefficients that it was asked at. Intervals of single coefficients are shorter than
what is not known of the spread would have them; predictions, which rest on directions in which
rows do spread, are the better for it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tacit._core.arrays import Array
from tacit.regression.generalised.numerics.frame import LEAST_ROWS, Frame, weighed
from tacit.regression.generalised.numerics.rounds import Round, Rounds

__all__ = ["Filtered"]

_LEAST_REST = 0.05  # of what the frame says of directions beside one that is known


@dataclass
class Filtered(Rounds):
    """`Rounds` that take in all that a round says.

    Parameters
    ----------
    stated
        About how many rows there are, where that is public.

    Others are those of `Rounds`.
    """

    stated: float | None = None
    _direction: Array | None = field(default=None, init=False, repr=False)
    _rest: float = field(default=1.0, init=False, repr=False)
    _more: float = field(default=0.0, init=False, repr=False)
    _begun: bool = field(default=False, init=False, repr=False)

    # -- the model -------------------------------------------------------------------------

    def _spread(self) -> Array:
        """Return the variances of directions, but for what is known along one of them."""
        spread = self._rest * self.frame.spread
        spread[0] = 1.0
        return np.asarray(spread)

    def _along(self, theta: Array) -> Array:
        along = self._spread() * theta
        along[0] = 0.0
        if self._direction is not None:
            along += self._more * float(self._direction @ theta) * self._direction
        return np.asarray(along)

    def _curvature(self) -> Array:
        found = np.diag(self._spread())
        if self._direction is not None:
            found += self._more * np.outer(self._direction, self._direction)
        return np.asarray(found)

    @property
    def length(self) -> float:
        """The expected weight²·‖z‖² of a row."""
        return self.frame.kept_twice * float(self.frame.spread.sum())

    @property
    def rows(self) -> float:
        """About how many rows there are."""
        return self.frame.rows

    def total_mean(self, theta: Array) -> float:
        """Return the expected Σ of mean responses."""
        _, spread, offset = self._curve(theta)
        return float(self.frame.rows * self.link.curve(offset, spread).mean)

    # -- learning --------------------------------------------------------------------------

    def take(self, told: Round) -> None:
        """Take in everything that a round said."""
        stated = None if self.stated is None else self.stated * self.length
        whole = weighed(told.length, told.length_sd, stated)
        self.frame = self._counted(whole)
        if not self._begun:  # what is known before a round rests on how many rows there are
            self.__post_init__()
            self._begun = True
        if np.any(told.theta[1:]) and whole > 0.0:
            self._shaped(told.direction, told.along / whole, told.along_sd / whole)
        self.observe(told.theta, told.gradient, told.noise)

    def settle(self, dispersion: float) -> None:
        """Take in by how much the variance of responses exceeds that of the link."""
        self.dispersion = dispersion

    def _counted(self, squares: float) -> Frame:
        """Return the frame for as many rows as Σ weight²·‖z‖² says."""
        return replace(self.frame, rows=max(squares / self.length, LEAST_ROWS))

    def _shaped(self, direction: Array, share: float, sd: float) -> None:
        """Take in what part of the length of rows is along a direction of slopes.

        Parameters
        ----------
        direction
            Of length one, 0 for the constant.
        share
            The noisy part of Σ weight²·‖z‖².
        sd
            Of its noise.
        """
        spread = self.frame.spread
        whole = float(spread.sum())
        own = float(spread @ np.square(direction))
        # a share that noise hides is what the frame says
        trust = (0.5 * whole) ** 2 / ((0.5 * whole) ** 2 + (sd * whole) ** 2)
        found = own + trust * (min(max(share, 0.0), 1.0) * whole - own)
        found = min(max(found, 0.2 * own), whole - 1.0)
        rest = max((whole - 1.0 - found) / max(whole - 1.0 - own, 1e-300), _LEAST_REST)
        self._direction, self._rest = direction, rest
        self._more = max(found - rest * own, 0.0)
