"""`MomentEstimator`: how topic models and mixtures are learned from noisy moments.

What is released and why it is private stands in `tacit.moments.agreement`, who computes what in
`tacit.moments.sides`, and how components follow from moments in
`tacit.moments.numerics.whitening` and `tacit.moments.numerics.power`. This class joins them; its
two children say what a document or a sample is.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin

from tacit._core.arrays import Array
from tacit._core.check import AnyOf, Constraint, Integer, OneOf, Real
from tacit.data.reading import Table
from tacit.errors import NotCertified, ParameterError
from tacit.estimators.base import PAID, PrivateEstimator
from tacit.estimators.fit import Outcome
from tacit.estimators.predicting import beside, shown_level
from tacit.estimators.release import Release
from tacit.moments.answers import EIGENVALUES, NOISE
from tacit.moments.numerics.power import power_method
from tacit.moments.numerics.whitening import Whitening, whiten
from tacit.moments.sides import Spectrum
from tacit.moments.signal import check_signal
from tacit.privacy.guarantee import Privacy

__all__ = ["COMMON", "MomentEstimator"]

COMMON: Mapping[str, Constraint] = {
    "share": Real(0, 1, open_low=True, open_high=True),
    "restarts": AnyOf(Integer(1), None),
    "iterations": Integer(1),
    "on_failure": OneOf("stop", "exclude"),
    **PAID,
}


class MomentEstimator(
    ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    TransformerMixin,  # type: ignore[misc]
    PrivateEstimator,
    ABC,
):
    """The common part of `SingleTopicModel` and `GaussianMixture`; see there."""

    share: float
    restarts: int | None
    iterations: int
    privacy: Privacy | None
    weights_: Array
    eigenvalues_: Array
    noise_edge_: float
    _unit: ClassVar[str]

    # -- what a child says -----------------------------------------------------------------

    @abstractmethod
    def _stated_size(self) -> int | None:
        """Return D where the parameters state it."""

    @abstractmethod
    def _learn(self, found: Spectrum, white: Whitening) -> None:
        """Turn released moments into attributes: post-processing only."""

    @abstractmethod
    def _log_joint(self, data: Any) -> Array:
        """Return log p(unit, component), up to what all components share."""

    # -- what every family says ------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        privacy = self._request()
        if privacy is None or math.isinf(privacy.epsilon):
            return
        unit = self._default_unit
        if privacy.unit != unit:
            hint = ": name the person in columns" if privacy.unit == "user" else ""
            raise ParameterError(
                f"privacy.unit must be {unit!r} for {self._purpose}, got {privacy.unit!r}{hint}"
            )
        self._check_dropping()
        if privacy.trust not in ("central", "site", "aggregator"):
            raise ParameterError(
                f"privacy.trust must be 'central', 'site' or 'aggregator', got {privacy.trust!r}"
            )
        if privacy.trust == "aggregator" and self._given("on_failure") == "exclude":
            raise ParameterError(
                "on_failure must be 'stop' with trust='aggregator': the share of the noise of a "
                "site that is lost would be missing from the sum"
            )

    @property
    def _default_unit(self) -> str:
        return self._unit

    def _size(self, facts: Sequence[int | None]) -> int:
        """Return D: the stated one, or that of the sites, which must agree."""
        sizes = sorted({size for size in (self._stated_size(), *facts) if size is not None})
        if not sizes:
            raise NotCertified("the size is not stated: the price is known at fit only")
        if len(sizes) > 1:
            raise ParameterError(f"the sites have different sizes: {sizes}")
        return sizes[0]

    def _conclude(self, outcome: Outcome) -> None:
        found: Spectrum = outcome.result
        sites = len(found.sites)
        self.noise_edge_ = found.public.edge(sites)
        white = whiten(found.values, found.basis, self.noise_edge_)
        check_signal(white, found.public.noise_sd(sites), self.privacy)
        self.eigenvalues_ = white.values
        self._learn(found, white)
        self.shared_[EIGENVALUES] = white.values
        self.shared_[NOISE] = np.array(
            [found.public.noise_sd(sites), found.public.third_sd(sites)]
        )

    def _decompose(
        self, third: Array, white: Whitening, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return components (rows) and N·w of a third moment in the basis, heaviest first."""
        found = power_method(
            white.tensor(third),
            third.shape[0],
            rng,
            restarts=self.restarts,
            iterations=self.iterations,
        )
        return white.heaviest_first(found.values, found.vectors)

    def _spectrum(self) -> dict[str, Any]:
        """Return what is known of the noisy second moment, as a release keeps it."""
        known = {"eigenvalues": "eigenvalues_", "noise_edge": "noise_edge_"}
        return {
            name: np.asarray(getattr(self, own))
            for name, own in known.items()
            if hasattr(self, own)
        }

    def _take_spectrum(self, release: Release) -> None:
        """Take up the same, and what was asked for."""
        if "eigenvalues" in release.arrays:
            self.eigenvalues_ = release.arrays["eigenvalues"]
        if "noise_edge" in release.arrays:
            self.noise_edge_ = float(release.arrays["noise_edge"])
        asked = release.settings.get("privacy")
        self.privacy = None if asked is None else Privacy(**asked)

    def _asked(self) -> dict[str, Any] | None:
        return None if self.privacy is None else self.privacy.stated()

    # -- using the result ------------------------------------------------------------------

    def predict_proba(self, data: Any) -> Array:
        """Return the probability of every component for every document or sample."""
        joint = self._log_joint(data)
        joint = np.exp(joint - joint.max(axis=1, keepdims=True))
        return np.asarray(joint / joint.sum(axis=1, keepdims=True))

    def transform(self, data: Any) -> Array:
        """Return the same: every document or sample as its share in every component.

        A function of each row and of what was released, so that a private estimator may follow.
        """
        return self.predict_proba(data)

    def _predict_table(
        self, table: Table, data: Any = None, interval: float | None = None
    ) -> dict[str, list[Any]]:
        return beside(table, self._shares(dict(table)))

    def _shares(self, data: Any) -> dict[str, Any]:
        """Return the most probable component of every row, and the probability of each."""
        shares = self.predict_proba(data)
        found = {shown_level(k): share for k, share in enumerate(shares.T)}
        return {"prediction": shares.argmax(axis=1), **found}

    @property
    def _n_features_out(self) -> int:
        return len(self.weights_)

    def predict(self, data: Any) -> NDArray[np.intp]:
        """Return the most probable component of every document or sample."""
        return np.asarray(self._log_joint(data).argmax(axis=1))
