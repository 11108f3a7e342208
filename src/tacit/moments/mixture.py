"""`GaussianMixture`: Gaussians from noisy moments, spherical, diagonal or of a public shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit._core.answers import Answer
from tacit._core.arrays import Array
from tacit._core.check import SIZE, AnyOf, Constraint, InstanceOf, Integer, OneOf, Real, check
from tacit.data.features import Features, common_names, labels_of, numbers, settled
from tacit.data.matrices import row_shape
from tacit.data.schema import Columns
from tacit.errors import ParameterError, UnboundedData
from tacit.estimators.agreement import Agreement
from tacit.estimators.features import check_fitted, remember, rows_seen
from tacit.estimators.fit import Outcome
from tacit.estimators.release import Release
from tacit.estimators.site import Site
from tacit.moments.agreement import MOST_COMPONENTS
from tacit.moments.answers import mixture_answer
from tacit.moments.estimator import COMMON, MomentEstimator
from tacit.moments.numerics.whitening import Whitening, as_weights
from tacit.moments.samples.agreement import MixtureAgreement
from tacit.moments.samples.ball import (
    DIAGONAL,
    SPHERICAL,
    Ball,
    check_centre,
    covariance_root,
    stated_ball,
)
from tacit.moments.sides import Spectrum, check_room
from tacit.moments.signal import check_delta
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

__all__ = ["GaussianMixture"]

LARGEST = 4096  # features: the coordinator holds the second moment as a whole


class GaussianMixture(MomentEstimator):
    """Means, weights and variances of Gaussians.

    They are spherical, or have a variance for every feature, or multiples of a public covariance.
    The means must be linearly independent as seen from the centre, which needs at least as many
    features as components. Samples farther than ``radius`` from ``centre`` are scaled down to it.

    Parameters
    ----------
    components
        How many Gaussians.
    columns
        What is public about the table: `tacit.Columns`, a mapping of such or a file's path. Ranges
        then map every feature to [−1, 1], where the Gaussians are spherical, and the middle of the
        ranges is the centre unless given. Instead of ``features``.
    radius
        The public radius: a number that hardly any sample's distance from the centre exceeds.
        The noise is a multiple of it. With ``columns`` on the mapped scale, and what no sample
        exceeds unless given: √features, where the centre is the middle.
    centre
        The public centre, a number or one for each feature; with ``columns`` feature → number, as
        the caller measures it, for those whose centre is not the middle of their range.
    features
        How many features there are, if the price is to be known before fitting.
    variances
        ``"common"`` to all Gaussians, or each its ``"own"``: that needs more features than
        components and costs no more ε, but shows in a variance only where it is far from the mean.
    covariance
        ``"spherical"``; ``"diagonal"``: a variance for every feature, which is no more ε either
        and needs means with several features each that are not at the centre; or a public matrix,
        features × features as the caller measures them, of which every covariance is a multiple.
        Others do not follow from moments up to the third.
    share, restarts, iterations, privacy, on_failure, ledger, random_state
        As in `SingleTopicModel`; the unit of privacy is ``"row"``, or ``"user"`` where ``columns``
        name the person.

    Attributes
    ----------
    means_, weights_, variance_
        The Gaussians, the heaviest first; the variance is that of one coordinate, of one that
        ranges map to [−1, 1] where there are ``columns``, averaged over Gaussians.
    variances_
        That of every Gaussian; of diagonal ones components × features. Of a public covariance the
        multiples of it.
    sd_
        The standard deviation along every feature, as the caller measures it; with variances of
        their own one row for each Gaussian.
    columns_
        What the features are called, in the order of `means_`; categories by their values.
    rows_
        The noisy number of samples.
    n_features_in_, feature_names_in_
        How many columns a table has, and how they are called.
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
    _takes_shards = True
    _purpose = "a mixture of Gaussians"
    _told: ClassVar[tuple[str, ...]] = (
        "components",
        "radius",
        "centre",
        "columns",
        "names",
        "variances",
        "covariance",
        "privacy",
    )
    _inference_only = ("restarts", "iterations")
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "components": Integer(1, MOST_COMPONENTS),
        "radius": AnyOf(SIZE, None),
        "centre": AnyOf(Real(), InstanceOf(Sequence, np.ndarray, Mapping)),
        "features": AnyOf(Integer(1), None),
        "variances": OneOf("common", "own"),
        "covariance": InstanceOf(str, Sequence, np.ndarray),
        **COMMON,
    }

    def __init__(
        self,
        components: int = 2,
        *,
        columns: Columns | Mapping[str, Any] | str | None = None,
        radius: float | None = None,
        centre: float | Sequence[float] | Mapping[str, float] = 0.0,
        features: int | None = None,
        variances: str = "common",
        covariance: str | Sequence[Sequence[float]] | NDArray[Any] = SPHERICAL,
        share: float = 0.5,
        restarts: int | None = None,
        iterations: int = 100,
        privacy: Privacy | None = None,
        on_failure: str = "stop",
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.components = components
        self.columns = columns
        self.radius = radius
        self.centre = centre
        self.features = features
        self.variances = variances
        self.covariance = covariance
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
        tags.input_tags.sparse = True
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        covariance_root(self._shape)
        if (features := self._features) is not None:
            if self.features is not None:
                raise ParameterError("columns hold the features: leave features out")
            check_centre(features, self.centre)
            return
        if isinstance(self.centre, Mapping):
            raise ParameterError("a centre by names goes with columns: pass columns=Columns(…)")
        if self.radius is None:
            raise UnboundedData(
                "radius must be given: pass radius=…, a public distance from the centre that "
                "hardly any sample exceeds, or columns=Columns(…)"
            )
        for value in np.ravel(np.asarray(self.centre, object)):
            check("centre", value, Real())

    # -- what every family says ------------------------------------------------------------

    @property
    def _features(self) -> Features | None:
        columns = self._stated_columns
        if columns is None:
            return None
        return Features.of(columns, None, "a mixture", explains=False)

    @property
    def _default_unit(self) -> str:
        columns = self._stated_columns
        return self._unit if columns is None else columns.unit

    def _stated_size(self) -> int | None:
        features = self._features
        return self.features if features is None else len(features.ranges)

    def _facts(self, data: Any) -> Any:
        """Return how many features there are, or their names: a table's columns are public."""
        if self.columns is not None:
            return None
        parts = _pieces(data)
        names = common_names([labels_of(part) for part in parts])
        if names:
            return names
        if self.features is not None:
            return self.features
        return row_shape(parts[0], "samples")[1]

    def _as_sites(self, data: Any) -> list[Site]:
        sites = super()._as_sites(data)
        if self.columns is not None:
            return sites
        return [replace(site, data=settled(site.data)) for site in sites]

    def _agree(self, facts: Sequence[Any], shares: int = 1) -> Agreement:
        """Return what is public; a fact is how many features there are, or their names."""
        size = self._size([len(fact) if isinstance(fact, tuple) else fact for fact in facts])
        if size > LARGEST:
            raise ParameterError(f"at most {LARGEST} features are supported")
        request = self._request(len(facts))
        return self._within(facts, size, self.components, request, len(facts), self.share, shares)

    @property
    def _shape(self) -> Any:
        return self._given("covariance", SPHERICAL)

    def _within(self, facts: Sequence[Any], *moments: Any) -> MixtureAgreement:
        """Return moments with the public ball that samples are scaled to."""
        root = covariance_root(self._shape)
        if root is not None and len(root) != moments[0]:
            raise ParameterError(f"covariance has {len(root)} features, samples have {moments[0]}")
        ball = stated_ball(self._features, self.centre, self.radius, root)
        if self._features is None:
            ball["names"] = common_names([fact for fact in facts if isinstance(fact, tuple)])
        ball |= {"own_variances": self._own, "diagonal": self._by_feature}
        return MixtureAgreement(*moments, **ball)

    @property
    def _own(self) -> bool:
        return bool(self._given("variances", "common") == "own")

    @property
    def _by_feature(self) -> bool:
        return isinstance(self._shape, str) and self._shape == DIAGONAL

    def _read(self, data: Any, agreement: Agreement) -> NDArray[Any]:
        assert isinstance(agreement, MixtureAgreement)
        features = self._features
        if features is None:
            samples = _joined([numbers(part, agreement.names) for part in _pieces(data)])
        else:
            samples = features.read(data).matrix(features.names)
        if not len(samples):
            raise ParameterError("there is no sample left: a mixture needs at least one row")
        if samples.shape[1] != agreement.size:
            raise ParameterError(
                f"the data have {samples.shape[1]} dimensions, {agreement.size} were stated"
            )
        check_room(agreement, agreement.moments(samples).units)
        return samples

    @classmethod
    def _stated(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], Any]:
        """Return the parameters, and the names of the features where only those are stated."""
        found = dict(settings)
        if not isinstance(found.get("columns"), list | tuple):
            return found, None
        return found, tuple(str(name) for name in found.pop("columns"))

    def _tables(self, tables: Mapping[str, Any], facts: Any) -> Any:
        """Return a site's samples from the columns of its table that are named."""
        table = super()._tables(tables, facts)
        if self.columns is not None:
            return table
        if not facts:
            raise ParameterError("columns must be named: state them in their order, or [columns]")
        return numbers(table, facts)

    def _conclude(self, outcome: Outcome) -> None:
        assert isinstance(outcome.agreement, MixtureAgreement)
        self._scaled_by(outcome.agreement)
        super()._conclude(outcome)

    def _scaled_by(self, public: MixtureAgreement) -> None:
        """Take up where the public ball lies, and what the features are called."""
        self._ball, self.columns_ = Ball.of(public), public.names
        features = self._features
        own = public.names if features is None else features.names
        remember(self, len(own) or public.size, own)

    def fit(self, data: Any, y: None = None) -> Self:
        """Learn the Gaussians from the samples of one holder or of several sites.

        Parameters
        ----------
        data
            Samples, as an array, a frame or a list of pieces; or a list of `Site` with such.
        y
            Ignored.
        """
        return super().fit(data)

    def _learn(self, found: Spectrum, white: Whitening) -> None:
        public, gaussians = found.public, found.gaussians
        assert isinstance(public, MixtureAgreement)
        check_delta(self.privacy, gaussians.count, self._default_unit)
        if self._own and self._by_feature:
            noise = public.noise_sd(len(found.sites)), public.third_sd(len(found.sites))
            means, mass, variances = gaussians.by_feature(
                found.third, found.across, white.inside, noise, found.rng
            )
        else:
            pulled = found.across if self._own else None
            third = gaussians.corrected(found.third, pulled)
            means, mass = self._decompose(third, white, found.rng)
            variances = np.full(len(means), gaussians.variance)
            if pulled is not None:
                weighed = as_weights(mass, gaussians.count) * gaussians.count
                sd = public.third_sd(len(found.sites)) / np.sqrt(3 * (public.size - public.rank))
                variances = gaussians.own_variances(means, weighed, pulled, sd)
            elif self._by_feature:
                variances = np.tile(gaussians.along, (len(means), 1))
        self._publish(means, as_weights(mass, gaussians.count), variances, gaussians.count)

    def _publish(self, means: Array, weights: Array, variances: Array, rows: float) -> None:
        """Keep Gaussians of the unit ball as the caller measures them."""
        self.means_ = self._ball.outward(means)
        self.weights_, self.rows_ = weights, rows
        self._spread(self._ball.radius**2 * variances)
        several = self._own or self._by_feature
        self.shared_ = {
            "means": self.means_,
            "weights": self.weights_,
            "variance": np.array(self.variance_),
            "rows": np.array(self.rows_),
            **({"variances": self.variances_} if several else {}),
            **self._spectrum(),
        }

    def _spread(self, variances: Array) -> None:
        """Keep the variances of all components."""
        self.variances_ = np.maximum(variances, 0.0)
        each = variances if variances.ndim == 1 else variances.mean(axis=1)
        self.variance_ = float(self.weights_ @ each) if self._own else float(each[0])
        along = self.variances_ if variances.ndim == 2 else self.variances_[:, None]
        spreads = np.sqrt(along) * self._ball.steps
        self.sd_ = spreads if self._own else spreads[0]

    def _settings(self) -> dict[str, Any]:
        public = self._stated_columns
        if public is None:
            centre: Any = np.ravel(np.asarray(self.centre)).tolist()
        else:
            centre = dict(self.centre) if isinstance(self.centre, Mapping) else 0.0
        return {
            "components": self.components,
            "radius": self.radius,
            "centre": centre,
            "columns": None if public is None else public.described(),
            "names": list(self.columns_),
            "variances": self._given("variances", "common"),
            "covariance": np.asarray(self._shape).tolist(),
            "privacy": self._asked(),
        }

    def _dimensions(self) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
        dims = {"means": ("component", "feature"), "weights": ("component",)}
        groups = [f"component {k}" for k in range(len(self.weights_))]
        names = self.columns_ or [f"feature {k}" for k in range(self.means_.shape[1])]
        return dims, {"component": groups, "feature": list(names)}

    def _adopt(self, release: Release) -> None:
        settings = release.settings
        settings.pop("privacy", None)
        names, centre = tuple(settings.pop("names", ())), settings["centre"]
        if isinstance(centre, list):
            settings["centre"] = centre if len(centre) > 1 else centre[0]
        if settings.get("columns"):
            settings["columns"] = Columns.of(settings["columns"]).in_order(names)
        own = self._get_param_names()
        type(self).__init__(self, **{name: settings[name] for name in settings if name in own})
        self.means_, self.weights_ = release.arrays["means"], release.arrays["weights"]
        size = self.means_.shape[1]
        facts = [names if names and self.columns is None else size]
        self._scaled_by(self._within(facts, size, self.components, None, 1, 0.5, 1))
        one = np.full(len(self.means_), float(release.arrays["variance"]))
        self._spread(np.asarray(release.arrays.get("variances", one)))
        self.rows_ = float(release.arrays["rows"])
        self._take_spectrum(release)

    def _found(self, level: float) -> Answer:
        check_fitted(self, "means_")
        return mixture_answer(self, level)

    # -- using the result ------------------------------------------------------------------

    def _log_joint(self, data: Any) -> Array:
        check_fitted(self, "means_")
        features, ball = self._features, self._ball
        if features is not None:
            x = features.encode(data)
        else:
            x = _joined([rows_seen(self, part) for part in _pieces(data)])
        apart = np.square(ball.apart(x[:, None, :], self.means_))
        along = self.variances_ if self.variances_.ndim == 2 else self.variances_[:, None]
        spread = np.maximum(along, 1e-12 * ball.radius**2)
        squares = (apart / (2.0 * spread)).sum(axis=2)
        wide = 0.5 * np.log(np.broadcast_to(spread, self.means_.shape)).sum(axis=1)
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.weights_) - squares - wide)

    def score(self, samples: Any, y: None = None) -> float:
        """Return the mean log density of a sample; not private."""
        from scipy.special import logsumexp

        joint = self._log_joint(samples)
        constant = 0.5 * np.log(2.0 * np.pi) * self.means_.shape[1] + self._ball.log_volume
        return float(np.mean(logsumexp(joint, axis=1)) - constant)


def _pieces(data: Any) -> list[Any]:
    """Return the tables that data are: one, or a list of them."""
    several = isinstance(data, list | tuple) and data and all(np.ndim(part) == 2 for part in data)
    return list(data) if several else [data]


def _joined(parts: list[NDArray[Any]]) -> NDArray[Any]:
    """Return one array; a single one is not copied."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
