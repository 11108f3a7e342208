"""Linear regression from second moments: what a site's rows say about the coefficients.

With rows x and responses y, y = xᵀβ + e and e ~ N(0, σ²), the sums S = Σ x·xᵀ, z = Σ x·y and
u = Σ y² are all that the coefficients need. A `Moments` holds them for one site as they were
released, with the standard deviations of the noise on them, which are public.

Source: Alparslan (2023), section 5.2, with the errata of PRIVACY B5.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tacit._core.arrays import Array
from tacit._core.check import Integer, Real, check
from tacit.errors import ParameterError

__all__ = [
    "Moments",
    "NormalInverseGamma",
    "Prior",
    "check_moments",
    "check_prior",
    "cross_log_density",
    "nearest_psd",
    "noise_covariance",
    "pooled",
]


@dataclass(frozen=True)
class Moments:
    """One site's second moments, as released, on the model's own scale.

    Parameters
    ----------
    gram
        S + noise, d × d and symmetric.
    cross
        z + noise.
    rows
        The number of rows n_j, or a released count. Where rows were scaled down to a bound,
        together with their responses, they still count as one each: σ² is then the mean square
        of the *scaled* residuals, and u, S and n_j agree with one another.
    square
        u + noise, None where it was not released.
    gram_sd
        Standard deviation of the noise on S's diagonal. The noise is isotropic among symmetric
        matrices: its variance off the diagonal is half of that. 0 is no noise.
    cross_sd, square_sd, rows_sd
        Standard deviations of the independent noise on each entry of z, on u, on the count.
    """

    gram: Array
    cross: Array
    rows: float
    square: float | None = None
    gram_sd: float = 0.0
    cross_sd: float = 0.0
    square_sd: float = 0.0
    rows_sd: float = 0.0

    @classmethod
    def of(cls, rows: Array, responses: Array) -> Moments:
        """Return the exact moments of some rows.

        >>> Moments.of(np.array([[1.0, 2.0], [0.0, 1.0]]), np.array([3.0, 1.0])).cross
        array([3., 7.])
        """
        return cls(rows.T @ rows, rows.T @ responses, len(rows), float(responses @ responses))

    @property
    def dimension(self) -> int:
        """The number of coefficients d."""
        return len(self.cross)

    @property
    def exact(self) -> bool:
        """Whether no noise was added to S, z and u."""
        return self.gram_sd == self.cross_sd == self.square_sd == 0.0


LARGEST = 1e100  # squares and products of moments stay within floats


def check_moments(moments: Sequence[Moments]) -> None:
    """Raise `ParameterError` unless every site's moments can be used, naming the site."""
    if not moments:
        raise ParameterError("moments must hold at least one site's summary, got none")
    dimension = np.size(moments[0].cross)
    for position, site in enumerate(moments):
        where = f"moments[{position}]"
        gram, cross = np.asarray(site.gram), np.asarray(site.cross)
        if cross.shape != (dimension,) or dimension < 1:
            raise ParameterError(
                f"{where}.cross must be a vector of length {dimension}, got shape {cross.shape}"
            )
        if gram.shape != (dimension, dimension):
            raise ParameterError(
                f"{where}.gram must be {dimension} × {dimension}, got shape {gram.shape}"
            )
        numbers = np.append(gram.ravel(), cross)
        if numbers.dtype.kind not in "iuf":
            raise ParameterError(f"{where} must hold numbers, got {numbers.dtype}")
        if not np.isfinite(numbers).all():
            raise ParameterError(
                f"{where} holds values that are not finite: leave this site out or ask it for "
                "a new summary"
            )
        if np.abs(gram - gram.T).max() > 1e-9 * max(1.0, np.abs(gram).max()):
            raise ParameterError(
                f"{where}.gram must be symmetric: leave this site out or ask it for a new summary"
            )
        if np.abs(numbers).max() > LARGEST:
            raise ParameterError(
                f"{where} holds values above {LARGEST:g}: bring features and responses to about "
                "[-1, 1]"
            )
        check(f"{where}.rows", site.rows, Real(-LARGEST, LARGEST))
        if site.square is not None:
            check(f"{where}.square", site.square, Real(-LARGEST, LARGEST))
        for name in ("gram_sd", "cross_sd", "square_sd", "rows_sd"):
            check(f"{where}.{name}", getattr(site, name), Real(0, LARGEST))
        if site.exact and site.rows_sd == 0.0 and site.rows < 1:
            raise ParameterError(f"{where}.rows must be at least 1, got {site.rows!r}")


def pooled(moments: Sequence[Moments]) -> Moments:
    """Return the sums over sites, with the noise that adds up in them."""

    def root_sum(name: str) -> float:
        return math.sqrt(sum(getattr(site, name) ** 2 for site in moments))

    squares = [site.square for site in moments]
    return Moments(
        np.sum([site.gram for site in moments], axis=0),
        np.sum([site.cross for site in moments], axis=0),
        float(sum(site.rows for site in moments)),
        None if None in squares else float(sum(s for s in squares if s is not None)),
        root_sum("gram_sd"),
        root_sum("cross_sd"),
        root_sum("square_sd"),
        root_sum("rows_sd"),
    )


@dataclass(frozen=True)
class Prior:
    """What is believed before any summary is read.

    The defaults are meant for features and responses that public bounds brought to about [−1, 1].

    Parameters
    ----------
    sd
        Standard deviation of each coefficient around ``mean``. None learns it from the
        summaries (``auto``), so that coefficients vanish where the noise hides them all; other
        methods then use √((a − 1)/b), the thesis's choice.
    mean
        Prior mean of every coefficient.
    intercept_sd
        Standard deviation of the first coefficient, where it is an intercept. Its precision is
        known then, and only the others' is learned: they vanish where noise hides them, and what
        is left is a mean. None treats it as one of the coefficients.
    noise_shape, noise_scale
        a and b of σ² ~ IG(a, b).
    freedom
        Degrees of freedom κ of Σ_x ~ IW(Λ, κ); None is d + 1.
    features
        Λ, d × d. None takes a small multiple of the identity on the scale of the summaries.

    >>> Prior(sd=1.0).precision(2)
    array([[1., 0.],
           [0., 1.]])
    """

    sd: float | None = None
    mean: float = 0.0
    intercept_sd: float | None = None
    noise_shape: float = 1.5
    noise_scale: float = 0.01
    freedom: float | None = None
    features: Array | None = None

    def __post_init__(self) -> None:
        positive = Real(0, open_low=True)
        if self.sd is not None:
            check("sd", self.sd, positive)
        check("mean", self.mean, Real())
        if self.intercept_sd is not None:
            check("intercept_sd", self.intercept_sd, positive)
        check("noise_shape", self.noise_shape, positive)
        check("noise_scale", self.noise_scale, positive)

    def known_sd(self) -> float:
        """Return ``sd``, or the thesis's choice where there is none."""
        if self.sd is not None:
            return self.sd
        return math.sqrt(max(self.noise_shape - 1.0, 0.25) / self.noise_scale)

    def precision(self, dimension: int) -> Array:
        """Return C⁻¹."""
        check("dimension", dimension, Integer(1))
        found = np.eye(dimension) / self.known_sd() ** 2
        if self.intercept_sd is not None:
            found[0, 0] = self.intercept_sd**-2
        return np.asarray(found)


def check_prior(prior: Prior, dimension: int) -> None:
    """Raise `ParameterError` unless a prior suits so many coefficients."""
    if prior.freedom is not None:
        check("prior.freedom", prior.freedom, Real(dimension - 1, open_low=True))
    if prior.features is None:
        return
    features = np.asarray(prior.features)
    if features.shape != (dimension, dimension):
        raise ParameterError(
            f"prior.features must be {dimension} × {dimension}, got {features.shape}"
        )
    symmetric = np.isfinite(features).all() and np.allclose(features, features.T)
    if not symmetric or np.linalg.eigvalsh(features)[0] <= 0.0:
        raise ParameterError("prior.features must be symmetric and positive definite")


@dataclass(frozen=True)
class NormalInverseGamma:
    """The conjugate law β | σ² ~ N(mean, σ²·precision⁻¹), σ² ~ IG(shape, scale).

    >>> law = NormalInverseGamma(np.zeros(1), np.eye(1), 2.0, 1.0)
    >>> law = law.given(Moments(np.array([[4.0]]), np.array([4.0]), 4, 5.0))
    >>> float(law.mean[0]), float(law.shape), round(float(law.scale), 6)
    (0.8, 4.0, 1.9)
    """

    mean: Array
    precision: Array
    shape: float
    scale: float

    def given(self, moments: Moments) -> NormalInverseGamma:
        """Return the posterior from exact moments (b_n as in PRIVACY B5)."""
        if moments.square is None:
            raise ParameterError("the conjugate posterior needs yᵀy: pass moments with `square`")
        precision = self.precision + moments.gram
        linear = self.precision @ self.mean + moments.cross
        mean = np.asarray(np.linalg.solve(precision, linear), float)
        gain = float(moments.square + self.mean @ self.precision @ self.mean - mean @ linear)
        return NormalInverseGamma(
            mean, precision, self.shape + 0.5 * moments.rows, self.scale + 0.5 * max(gain, 0.0)
        )

    def sample(self, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
        """Return ``count`` draws of β and of σ²."""
        variance = self.scale / rng.standard_gamma(self.shape, count)
        factor = np.linalg.cholesky(self.precision)
        white = rng.standard_normal((len(self.mean), count)) * np.sqrt(variance)
        return (self.mean[:, None] + np.linalg.solve(factor.T, white)).T, variance

    def covariance(self) -> Array:
        """Return the covariance of β, that of its Student law."""
        inverse = np.linalg.inv(self.precision)
        return np.asarray(inverse * (self.scale / (self.shape - 1.0)))


def nearest_psd(matrix: Array, floor: float = 0.0) -> Array:
    """Return the nearest symmetric matrix with eigenvalues of at least ``floor``.

    Nearest in Frobenius norm (Higham 1988): the maximum-likelihood S under isotropic symmetric
    noise, and only under that.

    >>> nearest_psd(np.diag([2.0, -1.0]))
    array([[2., 0.],
           [0., 0.]])
    """
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    return np.asarray((vectors * np.maximum(values, floor)) @ vectors.T + 0.0)


def noise_covariance(coefficients: Array, sd: float) -> Array:
    """Return Cov(E·β) of isotropic symmetric noise E with diagonal variance sd².

    Var E_aa = sd², Var E_ab = sd²/2, so Cov(Eβ)_aa = sd²·β_a² + sd²/2·Σ_{b≠a} β_b² and
    Cov(Eβ)_ab = Var(E_ab)·β_a·β_b: together sd²/2·(‖β‖²·I + β·βᵀ).

    >>> noise_covariance(np.array([1.0, 0.0]), 2.0)
    array([[4., 0.],
           [0., 2.]])
    """
    beta = np.asarray(coefficients, float)
    return np.asarray(0.5 * sd**2 * (beta @ beta * np.eye(len(beta)) + np.outer(beta, beta)))


def cross_log_density(
    cross: Array, gram: Array, coefficients: Array, noise_variance: float, cross_sd: float = 0.0
) -> float:
    """Return log p(ẑ | S, β, σ²), with ẑ ~ N(Sβ, σ²S + cross_sd²·I) (Proposition 1)."""
    covariance = noise_variance * gram + cross_sd**2 * np.eye(len(cross))
    factor = np.linalg.cholesky(covariance)
    white = np.linalg.solve(factor, cross - gram @ coefficients)
    constant = 0.5 * len(cross) * math.log(2.0 * math.pi)
    return float(-constant - np.log(np.diag(factor)).sum() - 0.5 * white @ white)
