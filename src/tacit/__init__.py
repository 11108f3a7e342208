"""Differentially private factorization and Bayesian inference, with checkable guarantees."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tacit._version import __version__

# Public names, loaded on first use so that `import tacit` stays fast.
_EXPORTS = {
    "Certificate": "tacit.privacy.certificate",
    "Columns": "tacit.data.schema",
    "CoupledFactorization": "tacit.factorization.alone.estimator",
    "CoupledModel": "tacit.factorization.language.structure",
    "Device": "tacit.recommender.device",
    "Documents": "tacit.data.documents",
    "FindBounds": "tacit.regression.search",
    "GaussianMixture": "tacit.moments.mixture",
    "Ledger": "tacit.privacy.ledger.ledger",
    "Noise": "tacit.mechanisms.noise",
    "OrthogonalDecomposition": "tacit.moments.tensor.estimator",
    "Pipeline": "tacit.estimators.pipeline",
    "Privacy": "tacit.privacy.guarantee",
    "PrivacyWeights": "tacit.factorization.offsets.weights",
    "PrivateFactorization": "tacit.factorization.together.estimator",
    "PrivateLinearRegression": "tacit.regression.estimator",
    "PrivateLogisticRegression": "tacit.regression.generalised.logistic",
    "PrivatePoissonRegression": "tacit.regression.generalised.poisson",
    "PrivatePosterior": "tacit.posterior.estimator",
    "PrivateRecommender": "tacit.recommender.estimator",
    "PrivateSummary": "tacit.summary.estimator",
    "PublicScaler": "tacit.data.scaling",
    "Relation": "tacit.data.relations",
    "Shards": "tacit.data.shards",
    "SingleTopicModel": "tacit.moments.topics",
    "Site": "tacit.estimators.site",
    "SiteSummary": "tacit.regression.summary",
    "StatisticSelector": "tacit.posterior.selector",
    "boolean": "tacit.data.stating",
    "category": "tacit.data.stating",
    "date": "tacit.data.stating",
    "errors": "tacit.errors",
    "keys": "tacit.data.stating",
    "make_pipeline": "tacit.estimators.pipeline",
    "number": "tacit.data.stating",
    "privatize": "tacit.mechanisms.base",
    "read_release": "tacit.estimators.release",
    "source": "tacit.data.files",
    "text": "tacit.data.stating",
    "time": "tacit.data.stating",
}

# Packages, likewise: `tc.networks.Training`. They are no part of `from tacit import *`, which must
# not need an extra.
_PACKAGES = (
    "audit",
    "data",
    "factorization",
    "federation",
    "mechanisms",
    "moments",
    "networks",
    "planning",
    "posterior",
    "privacy",
    "published",
    "recommender",
    "regression",
    "report",
    "summary",
)

__all__ = [
    "Certificate",
    "Columns",
    "CoupledFactorization",
    "CoupledModel",
    "Device",
    "Documents",
    "FindBounds",
    "GaussianMixture",
    "Ledger",
    "Noise",
    "OrthogonalDecomposition",
    "Pipeline",
    "Privacy",
    "PrivacyWeights",
    "PrivateFactorization",
    "PrivateLinearRegression",
    "PrivateLogisticRegression",
    "PrivatePoissonRegression",
    "PrivatePosterior",
    "PrivateRecommender",
    "PrivateSummary",
    "PublicScaler",
    "Relation",
    "Shards",
    "SingleTopicModel",
    "Site",
    "SiteSummary",
    "StatisticSelector",
    "__version__",
    "boolean",
    "category",
    "date",
    "errors",
    "keys",
    "make_pipeline",
    "number",
    "privatize",
    "read_release",
    "source",
    "text",
    "time",
]

if TYPE_CHECKING:
    from tacit import audit as audit
    from tacit import data as data
    from tacit import errors
    from tacit import factorization as factorization
    from tacit import federation as federation
    from tacit import mechanisms as mechanisms
    from tacit import moments as moments
    from tacit import networks as networks
    from tacit import planning as planning
    from tacit import posterior as posterior
    from tacit import privacy as privacy
    from tacit import published as published
    from tacit import recommender as recommender
    from tacit import regression as regression
    from tacit import report as report
    from tacit import summary as summary
    from tacit.data.documents import Documents
    from tacit.data.files import source
    from tacit.data.relations import Relation
    from tacit.data.scaling import PublicScaler
    from tacit.data.schema import Columns
    from tacit.data.shards import Shards
    from tacit.data.stating import boolean, category, date, keys, number, text, time
    from tacit.estimators.pipeline import Pipeline, make_pipeline
    from tacit.estimators.release import read_release
    from tacit.estimators.site import Site
    from tacit.factorization.alone.estimator import CoupledFactorization
    from tacit.factorization.language.structure import CoupledModel
    from tacit.factorization.offsets.weights import PrivacyWeights
    from tacit.factorization.together.estimator import PrivateFactorization
    from tacit.mechanisms.base import privatize
    from tacit.mechanisms.noise import Noise
    from tacit.moments.mixture import GaussianMixture
    from tacit.moments.tensor.estimator import OrthogonalDecomposition
    from tacit.moments.topics import SingleTopicModel
    from tacit.posterior.estimator import PrivatePosterior
    from tacit.posterior.selector import StatisticSelector
    from tacit.privacy.certificate import Certificate
    from tacit.privacy.guarantee import Privacy
    from tacit.privacy.ledger.ledger import Ledger
    from tacit.recommender.device import Device
    from tacit.recommender.estimator import PrivateRecommender
    from tacit.regression.estimator import PrivateLinearRegression
    from tacit.regression.generalised.logistic import PrivateLogisticRegression
    from tacit.regression.generalised.poisson import PrivatePoissonRegression
    from tacit.regression.search import FindBounds
    from tacit.regression.summary import SiteSummary
    from tacit.summary.estimator import PrivateSummary


def __getattr__(name: str) -> Any:
    home = f"tacit.{name}" if name in _PACKAGES else _EXPORTS.get(name)
    if home is None:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    module = importlib.import_module(home)
    value = module if home == f"tacit.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES])
