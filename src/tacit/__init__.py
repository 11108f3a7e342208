"""Differentially private factorization and Bayesian inference, with checkable guarantees."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tacit._version import __version__

# Public names, loaded on first use so that `import tacit` stays fast.
_EXPORTS = {
    "Certificate": "tacit.privacy.guarantee",
    "CoupledFactorization": "tacit.estimators.coupled",
    "CoupledModel": "tacit.models.structure",
    "Device": "tacit.estimators.recommender_device",
    "Documents": "tacit.data.documents",
    "GaussianMixture": "tacit.estimators.mixture",
    "Ledger": "tacit.privacy.ledger",
    "Noise": "tacit.mechanisms.noise",
    "OrthogonalDecomposition": "tacit.estimators.orthogonal",
    "Privacy": "tacit.privacy.guarantee",
    "PrivacyWeights": "tacit.estimators.recommender_weights",
    "PrivateLinearRegression": "tacit.estimators.regression",
    "PrivatePosterior": "tacit.estimators.posterior",
    "PrivateRecommender": "tacit.estimators.recommender",
    "PrivateSummary": "tacit.estimators.summary",
    "Relation": "tacit.data.relations",
    "SingleTopicModel": "tacit.estimators.topics",
    "Site": "tacit.estimators.site",
    "SiteSummary": "tacit.estimators.regression_summary",
    "StatisticSelector": "tacit.estimators.statistic",
    "errors": "tacit.errors",
    "privatize": "tacit.mechanisms.base",
    "read_release": "tacit.estimators.release",
}

__all__ = [
    "Certificate",
    "CoupledFactorization",
    "CoupledModel",
    "Device",
    "Documents",
    "GaussianMixture",
    "Ledger",
    "Noise",
    "OrthogonalDecomposition",
    "Privacy",
    "PrivacyWeights",
    "PrivateLinearRegression",
    "PrivatePosterior",
    "PrivateRecommender",
    "PrivateSummary",
    "Relation",
    "SingleTopicModel",
    "Site",
    "SiteSummary",
    "StatisticSelector",
    "__version__",
    "errors",
    "privatize",
    "read_release",
]

if TYPE_CHECKING:
    from tacit import errors
    from tacit.data.documents import Documents
    from tacit.data.relations import Relation
    from tacit.estimators.coupled import CoupledFactorization
    from tacit.estimators.mixture import GaussianMixture
    from tacit.estimators.orthogonal import OrthogonalDecomposition
    from tacit.estimators.posterior import PrivatePosterior
    from tacit.estimators.recommender import PrivateRecommender
    from tacit.estimators.recommender_device import Device
    from tacit.estimators.recommender_weights import PrivacyWeights
    from tacit.estimators.regression import PrivateLinearRegression
    from tacit.estimators.regression_summary import SiteSummary
    from tacit.estimators.release import read_release
    from tacit.estimators.site import Site
    from tacit.estimators.statistic import StatisticSelector
    from tacit.estimators.summary import PrivateSummary
    from tacit.estimators.topics import SingleTopicModel
    from tacit.mechanisms.base import privatize
    from tacit.mechanisms.noise import Noise
    from tacit.models.structure import CoupledModel
    from tacit.privacy.guarantee import Certificate, Privacy
    from tacit.privacy.ledger import Ledger


def __getattr__(name: str) -> Any:
    home = _EXPORTS.get(name)
    if home is None:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    module = importlib.import_module(home)
    value = module if home == f"tacit.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
