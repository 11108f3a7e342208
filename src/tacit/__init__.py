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
    "Ledger": "tacit.privacy.ledger",
    "Noise": "tacit.mechanisms.noise",
    "Privacy": "tacit.privacy.guarantee",
    "PrivateLinearRegression": "tacit.estimators.regression",
    "PrivatePosterior": "tacit.estimators.posterior",
    "PrivateSummary": "tacit.estimators.summary",
    "Relation": "tacit.data.relations",
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
    "Ledger",
    "Noise",
    "Privacy",
    "PrivateLinearRegression",
    "PrivatePosterior",
    "PrivateSummary",
    "Relation",
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
    from tacit.data.relations import Relation
    from tacit.estimators.coupled import CoupledFactorization
    from tacit.estimators.posterior import PrivatePosterior
    from tacit.estimators.regression import PrivateLinearRegression
    from tacit.estimators.regression_summary import SiteSummary
    from tacit.estimators.release import read_release
    from tacit.estimators.site import Site
    from tacit.estimators.statistic import StatisticSelector
    from tacit.estimators.summary import PrivateSummary
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
