"""`GaussianMixture`: spherical Gaussians from noisy moments."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, Real, check
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.spectral import COMMON, MOST_COMPONENTS, SpectralEstimator
from tacit.estimators.spectral_rounds import Spectrum
from tacit.estimators.spectral_signal import check_delta
from tacit.models.moments import SampleMoments
from tacit.models.whitening import Whitening
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["GaussianMixture"]

LARGEST = 4096  # features: the coordinator holds the second moment as a whole


class GaussianMixture(SpectralEstimator):
    """Means, weights and the common variance of spherical Gaussians.

    The means must be linearly independent as seen from the centre, which needs at least as many
    features as components. Samples farther than ``radius`` from ``centre`` are scaled down to it.

    Parameters
    ----------
    components
        How many Gaussians.
    radius
        The public radius: a number that hardly any sample's distance from the centre exceeds.
        The noise is a multiple of it.
    centre
        The public centre, a number or one for each feature.
    features
        How many features there are, if the price is to be known before fitting.
    share, restarts, iterations, privacy, on_failure, ledger, random_state
        As in `SingleTopicModel`; the unit of privacy is ``"row"``.
    strategy, calibration
        ``"certified"`` only: the published strategies are for documents.

    Attributes
    ----------
    means_, weights_, variance_
        The Gaussians, the heaviest first; the variance is that of one coordinate.
    rows_
        The noisy number of samples.
    eigenvalues_
        The leading eigenvalues of the noisy second moment without the variance, on the scale of
        the radius.
    failures_
        Which sites were excluded, in which round, and why.
    certificate_, certificates_
        The certificate with the largest ε, and one per site that paid.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> means = np.array([[3.0, 0, 1], [0, 3.0, -1]])
    >>> samples = means[rng.integers(0, 2, 5000)] + 0.5 * rng.standard_normal((5000, 3))
    >>> model = GaussianMixture(2, radius=6, random_state=0).fit(samples)
    >>> np.abs(model.means_[np.argsort(-model.means_[:, 0])] - means).max() < 0.2
    np.True_
    """

    _unit = "row"
    _purpose = "a mixture of Gaussians"
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "components": Integer(1, MOST_COMPONENTS),
        "radius": AnyOf(Real(0, open_low=True), None),
        "centre": AnyOf(Real(), InstanceOf(Sequence, np.ndarray)),
        "features": AnyOf(Integer(1), None),
        **COMMON,
    }

    def __init__(
        self,
        components: int = 2,
        *,
        radius: float | None = None,
        centre: float | Sequence[float] = 0.0,
        features: int | None = None,
        share: float = 0.5,
        restarts: int | None = None,
        iterations: int = 100,
        privacy: Privacy | None = None,
        strategy: str = "certified",
        calibration: str = "certified",
        on_failure: str = "stop",
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.components = components
        self.radius = radius
        self.centre = centre
        self.features = features
        self.share = share
        self.restarts = restarts
        self.iterations = iterations
        self.privacy = privacy
        self.strategy = strategy
        self.calibration = calibration
        self.on_failure = on_failure
        self.ledger = ledger
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.radius is None:
            raise UnboundedData(
                "radius must be given: pass radius=…, a public distance from the centre that "
                "hardly any sample exceeds"
            )
        for value in np.ravel(np.asarray(self.centre, object)):
            check("centre", value, Real())
        if self.strategy != "certified":
            raise ParameterError(
                f"strategy {self.strategy!r} is published for documents only: pass "
                "strategy='certified' with calibration='certified'"
            )

    def _rank(self) -> int:
        return self.components

    def _public_size(self) -> int | None:
        return self.features

    def _moments(self, data: Any) -> SampleMoments:
        assert self.radius is not None
        samples = _table(data)
        if samples.shape[1] > LARGEST:
            raise ParameterError(f"at most {LARGEST} features are supported")
        width = np.size(self.centre)
        if width not in (1, samples.shape[1]):
            raise ParameterError(f"centre has {width} numbers, samples have {samples.shape[1]}")
        return SampleMoments(samples, self.radius, np.asarray(self.centre, np.float64))

    def fit(self, samples: Any, y: None = None) -> GaussianMixture:
        """Release moments and learn the Gaussians.

        Parameters
        ----------
        samples
            Samples × features, an array or a list of arrays; or a list of `Site` with such.
        y
            Ignored.
        """
        self._fit(samples)
        return self

    def _learn(self, found: Spectrum, white: Whitening) -> None:
        assert self.radius is not None
        spherical = found.spherical
        self.rows_ = spherical.count
        check_delta(self.privacy, self.rows_, self._unit)
        means, mass = self._decompose(spherical.corrected(found.third), white)
        mass = np.minimum(mass, max(self.rows_, 1.0))
        total = float(mass.sum())
        self.means_ = np.asarray(self.centre, np.float64) + self.radius * means
        self.weights_ = mass / total if total > 0.0 else np.full(len(mass), 1.0 / len(mass))
        self.variance_ = self.radius**2 * spherical.variance

    def _notes(self) -> tuple[str, ...]:
        return (f"samples are scaled to within {self.radius:g} of a public centre",)

    # -- using the result ------------------------------------------------------------------

    def _log_joint(self, samples: Any) -> NDArray[np.float64]:
        """Return log p(sample, component), up to what all components share."""
        if not hasattr(self, "means_"):
            raise ParameterError("there is no model yet: call fit first")
        x = _table(samples)
        if x.shape[1] != self.means_.shape[1]:
            raise ParameterError(f"samples must have {self.means_.shape[1]} features")
        squares = np.square(x[:, None, :] - self.means_).sum(axis=2)
        spread = max(self.variance_, 1e-12 * float(self.radius or 1.0) ** 2)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights_) - squares / (2.0 * spread))

    def predict_proba(self, samples: Any) -> NDArray[np.float64]:
        """Return every sample's component probabilities."""
        joint = self._log_joint(samples)
        joint = np.exp(joint - joint.max(axis=1, keepdims=True))
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def predict(self, samples: Any) -> NDArray[np.intp]:
        """Return every sample's most probable component."""
        return np.asarray(self._log_joint(samples).argmax(axis=1))

    def score(self, samples: Any, y: None = None) -> float:
        """Return the mean log density of a sample; not private."""
        from scipy.special import logsumexp

        width = self.means_.shape[1]
        spread = max(self.variance_, 1e-12 * float(self.radius or 1.0) ** 2)
        constant = 0.5 * width * np.log(2.0 * np.pi * spread)
        return float(np.mean(logsumexp(self._log_joint(samples), axis=1)) - constant)

    def release(self, folder: str | os.PathLike[str]) -> None:
        """Write means, weights, variance and certificates to a folder, without pickle."""
        if not hasattr(self, "means_"):
            raise ParameterError("there is nothing to release: call fit first")
        arrays = {"means": self.means_, "weights": self.weights_,
                  "variance": np.array(self.variance_), "rows": np.array(self.rows_)}  # fmt: skip
        settings = {"components": self.components, "radius": self.radius,
                    "centre": np.ravel(np.asarray(self.centre)).tolist()}  # fmt: skip
        self._write(folder, arrays, settings)


def _table(data: Any) -> NDArray[Any]:
    """Return samples as one array; what is missing is refused, to the holder."""
    if isinstance(data, list | tuple) and data and all(np.ndim(part) == 2 for part in data):
        data = np.concatenate([np.asarray(part, np.float64) for part in data])
    try:
        table = data if isinstance(data, np.ndarray) else np.asarray(data, np.float64)
    except (TypeError, ValueError):
        raise ParameterError("samples must be an array of numbers") from None
    if table.ndim != 2 or not table.size or table.dtype.kind not in "iuf":
        raise ParameterError(
            f"samples must be an array of numbers, samples × features, got shape {table.shape}"
        )
    for start in range(0, len(table), 1 << 16):
        if not np.isfinite(table[start : start + (1 << 16)]).all():
            raise ParameterError("samples must be finite: leave rows with missing values out")
    return table
