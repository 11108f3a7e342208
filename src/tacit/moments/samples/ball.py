"""The public ball that samples are scaled to: where it lies, and how the caller measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import Real, check
from tacit.data.features import Features
from tacit.data.matrices import real_array
from tacit.errors import ParameterError
from tacit.moments.samples.agreement import MixtureAgreement

__all__ = ["DIAGONAL", "SPHERICAL", "Ball", "check_centre", "covariance_root", "stated_ball"]

DIAGONAL, SPHERICAL = "diagonal", "spherical"
_LARGEST = 512  # features of a public covariance, which stands in every proposal
_FULL = (
    "a covariance in every direction does not follow from moments up to the third: two Gaussians "
    "along one line may have a common variance v or means farther apart, and the second and third "
    "moments are the same. Pass covariance='diagonal', or what is public of it: the matrix of "
    "which every covariance is a multiple"
)


@dataclass(frozen=True)
class Ball:
    """What lies between a sample as the caller measures it, and one of norm one.

    Examples
    --------
    >>> public = MixtureAgreement(2, 1, None, radius=2.0, centre=(1.0, 1.0), half=(1.0, 10.0))
    >>> Ball.of(public).outward(np.array([[0.5, 0.5]]))
    array([[ 2., 11.]])
    """

    radius: float
    centre: Array
    half: Array
    root: Array | None  # L of a public covariance LLᵀ

    @classmethod
    def of(cls, public: MixtureAgreement) -> Ball:
        """Return the ball of an agreement."""
        size = (public.size,)
        root = np.linalg.inv(np.array(public.turn)) if public.turn else None
        centre, half = (np.broadcast_to(np.asarray(x), size) for x in (public.centre, public.half))
        return cls(public.radius, centre, half, root)

    def outward(self, rows: Array) -> Array:
        """Return rows of the unit ball as the caller measures them."""
        turned = rows * self.half if self.root is None else rows @ self.root.T
        return np.asarray(self.centre + self.radius * turned)

    def inward(self, rows: Any) -> Array:
        """Return the rows of the unit ball that the caller measures so."""
        return self.apart(np.asarray(rows), self.centre) / self.radius

    def apart(self, rows: Array, others: Any) -> Array:
        """Return differences on the ball's scale, times its radius."""
        gap = rows - others
        if self.root is None:
            return np.asarray(gap / self.half)
        return np.asarray(np.linalg.solve(self.root, gap[..., None])[..., 0])

    @property
    def steps(self) -> Array:
        """The standard deviation along every feature of a Gaussian of variance one."""
        if self.root is None:
            return np.asarray(self.half)
        return np.asarray(np.sqrt(np.square(self.root).sum(axis=1)))

    @property
    def log_volume(self) -> float:
        """By what logarithm a density is smaller as the caller measures it."""
        if self.root is None:
            return float(np.log(self.half).sum())
        return float(np.log(np.diag(self.root)).sum())

    def errors(self, errors: Array) -> Array:
        """Return standard errors of what the caller measures, from those of the unit ball."""
        if self.root is None:
            return np.asarray(self.radius * self.half * errors)
        return np.asarray(self.radius * np.sqrt(np.square(errors) @ np.square(self.root).T))


def covariance_root(covariance: Any) -> Array | None:
    """Return L of a public covariance LLᵀ; None where none is stated."""
    if isinstance(covariance, str):
        if covariance in (DIAGONAL, SPHERICAL):
            return None
        if covariance in ("full", "tied"):
            raise ParameterError(_FULL)
        raise ParameterError(
            f"covariance must be 'spherical', 'diagonal' or a public matrix, got {covariance!r}"
        )
    matrix = real_array(covariance, "covariance")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not len(matrix):
        raise ParameterError("covariance must be a square matrix of numbers, features × features")
    if len(matrix) > _LARGEST:
        raise ParameterError(f"a public covariance has at most {_LARGEST} features")
    if not np.isfinite(matrix).all():
        raise ParameterError("covariance must be finite")
    scale = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    with np.errstate(over="ignore"):
        even = matrix / scale / scale[:, None]
    if not np.isfinite(even).all() or not np.allclose(even, even.T, rtol=0.0, atol=1e-9):
        raise ParameterError("covariance must be symmetric, with a positive diagonal")
    if np.linalg.eigvalsh((even + even.T) / 2.0)[0] < 1e-9:
        raise ParameterError("covariance must be positive definite: no direction without variance")
    return np.asarray(scale[:, None] * np.linalg.cholesky((even + even.T) / 2.0))


def stated_ball(
    features: Features | None, centre: Any, radius: float | None, root: Array | None
) -> dict[str, Any]:
    """Return the ball as an agreement has it.

    With features the centre is the middle of their ranges unless stated, and the radius is what no
    sample exceeds unless stated; a public covariance takes the place of their ranges.
    """
    turn: tuple[tuple[float, ...], ...] = ()
    if root is not None:
        turn = tuple(tuple(row) for row in np.linalg.inv(root).tolist())
    if features is None:
        assert radius is not None
        own = tuple(float(value) for value in np.ravel(np.asarray(centre, np.float64)))
        return {"radius": float(radius), "centre": own, "turn": turn}
    low, high = np.array(list(features.ranges.values()), np.float64).T
    half, middle = high / 2.0 - low / 2.0, low / 2.0 + high / 2.0
    stated = centre if isinstance(centre, Mapping) else {}
    pairs = zip(features.ranges, middle.tolist(), strict=True)
    own = tuple(float(stated.get(name, value)) for name, value in pairs)
    far = half + np.abs(np.asarray(own) - middle)
    if root is None:
        farthest = float(np.linalg.norm(far / half))
    else:  # no corner is farther than all edges one after the other
        farthest = float(far @ np.linalg.norm(np.array(turn), axis=0))
    return {
        "radius": float(farthest if radius is None else radius),
        "centre": own,
        "half": (1.0,) if turn else tuple(half.tolist()),
        "names": tuple(features.ranges),
        "rows_per_unit": features.columns.rows_per_unit,
        "notes": features.columns.assumptions(),
        "turn": turn,
    }


def check_centre(
    features: Features, centre: float | Sequence[float] | Mapping[str, float]
) -> None:
    """Raise where a centre does not go with columns."""
    if not isinstance(centre, Mapping):
        if np.ndim(centre) or centre != 0:
            raise ParameterError("with columns a centre goes by names: pass {feature: number}")
        return
    for name, value in centre.items():
        if name not in features.ranges:
            raise ParameterError(f"centre names {name!r}: there is {list(features.ranges)}")
        low, high = features.ranges[name]
        check(f"centre[{name!r}]", value, Real(low, high))
