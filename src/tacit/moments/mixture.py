"""`GaussianMixture`: spherical Gaussians from noisy moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, Real, check
from tacit.data.columns import numeric_columns
from tacit.data.matrices import as_matrix, check_finite, row_shape
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.agreement import Agreement
from tacit.estimators.features import by_name, check_fitted, features_seen, remember
from tacit.estimators.release import Release
from tacit.moments.agreement import MOST_COMPONENTS, MixtureAgreement
from tacit.moments.estimator import COMMON, MomentEstimator
from tacit.moments.numerics.whitening import Whitening, as_weights
from tacit.moments.sides import Spectrum, check_room
from tacit.moments.signal import check_delta
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["GaussianMixture"]

LARGEST = 4096  # features: the coordinator holds the second moment as a whole


class GaussianMixture(MomentEstimator):
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

    Attributes
    ----------
    means_, weights_, variance_
        The Gaussians, the heaviest first; the variance is that of one coordinate.
    rows_
        The noisy number of samples.
    n_features_in_, feature_names_in_
        How many features there are, and how a frame calls them.
    eigenvalues_, noise_edge_
        The leading eigenvalues of the noisy second moment without the variance, on the scale of
        the radius, and where the spectrum of the noise ends: what lies below is hidden.
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
    _stated_facts = ("columns",)
    _inference_only = ("restarts", "iterations")
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
        self.on_failure = on_failure
        self.ledger = ledger
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "density_estimator"
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.radius is None:
            raise UnboundedData(
                "radius must be given: pass radius=…, a public distance from the centre that "
                "hardly any sample exceeds"
            )
        for value in np.ravel(np.asarray(self.centre, object)):
            check("centre", value, Real())

    # -- what every family says ------------------------------------------------------------

    def _stated_size(self) -> int | None:
        return self.features

    def _facts(self, data: Any) -> int:
        """Return how many features there are: the columns of a table are public."""
        if self.features is not None:
            return self.features
        return row_shape(data[0] if _in_pieces(data) else data, "samples")[1]

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> Agreement:
        """Return what is public; a fact is how many features there are, or their names."""
        size = self._size([len(fact) if isinstance(fact, tuple) else fact for fact in facts])
        if size > LARGEST:
            raise ParameterError(f"at most {LARGEST} features are supported")
        assert self.radius is not None
        centre = tuple(float(value) for value in np.ravel(np.asarray(self.centre, np.float64)))
        moments = size, self.components, self._request(len(facts)), len(facts), self.share, shares
        return MixtureAgreement(*moments, float(self.radius), centre)

    def _read(self, data: Any, agreement: Agreement) -> NDArray[Any]:
        assert isinstance(agreement, MixtureAgreement)
        samples = _table(data)
        if samples.shape[1] != agreement.size:
            raise ParameterError(
                f"the data have {samples.shape[1]} dimensions, {agreement.size} were stated"
            )
        check_room(agreement, agreement.moments(samples).units)
        return samples

    @classmethod
    def _stated(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """Return the parameters, and the names of the features in their order."""
        found = dict(settings)
        columns = found.pop("columns", None)
        return found, None if columns is None else tuple(str(name) for name in columns)

    def _tables(self, tables: Mapping[str, Any], facts: Any) -> Any:
        """Return a site's samples from the columns of its table that are named."""
        table = super()._tables(tables, facts)
        if not facts:
            raise ParameterError("columns must be named: state them in their order")
        return np.column_stack(list(numeric_columns(table, facts).values()))

    def fit(self, data: Any, y: None = None) -> Self:
        """Learn the Gaussians from the samples of one holder or of several sites.

        Parameters
        ----------
        data
            Samples, as an array, a frame or a list of pieces; or a list of `Site` with such.
        y
            Ignored.
        """
        sites, names = by_name(self._as_sites(data), lambda own: own, lambda _, rows: rows)
        super().fit(sites)
        remember(self, self.n_features_in_, names)
        return self

    def _learn(self, found: Spectrum, white: Whitening) -> None:
        assert self.radius is not None
        spherical = found.spherical
        self.rows_ = spherical.count
        check_delta(self.privacy, self.rows_, self._unit)
        means, mass = self._decompose(spherical.corrected(found.third), white, found.rng)
        self.means_ = np.asarray(self.centre, np.float64) + self.radius * means
        self.weights_ = as_weights(mass, self.rows_)
        remember(self, self.means_.shape[1])
        self.variance_ = self.radius**2 * spherical.variance
        self.shared_ = {
            "means": self.means_,
            "weights": self.weights_,
            "variance": np.array(self.variance_),
            "rows": np.array(self.rows_),
        }

    def _settings(self) -> dict[str, Any]:
        centre = np.ravel(np.asarray(self.centre)).tolist()
        return {"components": self.components, "radius": self.radius, "centre": centre}

    def _adopt(self, release: Release) -> None:
        settings = dict(release.manifest["settings"])
        centre = settings.pop("centre")
        GaussianMixture.__init__(self, **settings, centre=centre if len(centre) > 1 else centre[0])
        self.means_, self.weights_ = release.arrays["means"], release.arrays["weights"]
        self.variance_ = float(release.arrays["variance"])
        self.rows_ = float(release.arrays["rows"])
        remember(self, self.means_.shape[1])

    # -- using the result ------------------------------------------------------------------

    def _log_joint(self, data: Any) -> Array:
        check_fitted(self, "means_")
        x = features_seen(self, np.concatenate(data) if _in_pieces(data) else data)
        squares = np.square(x[:, None, :] - self.means_).sum(axis=2)
        spread = max(self.variance_, 1e-12 * float(self.radius or 1.0) ** 2)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights_) - squares / (2.0 * spread))

    def score(self, samples: Any, y: None = None) -> float:
        """Return the mean log density of a sample; not private."""
        from scipy.special import logsumexp

        check_fitted(self, "means_")
        width = self.means_.shape[1]
        spread = max(self.variance_, 1e-12 * float(self.radius or 1.0) ** 2)
        constant = 0.5 * width * np.log(2.0 * np.pi * spread)
        return float(np.mean(logsumexp(self._log_joint(samples), axis=1)) - constant)


def _in_pieces(data: Any) -> bool:
    """Whether samples come as a list of arrays."""
    return isinstance(data, list | tuple) and bool(data) and all(np.ndim(p) == 2 for p in data)


def _table(data: Any) -> NDArray[Any]:
    """Return samples as one array; what is missing is refused, to the holder."""
    whole = np.concatenate([as_matrix(p) for p in data]) if _in_pieces(data) else data
    table = as_matrix(whole, "samples")
    check_finite(table, "samples")
    return table
