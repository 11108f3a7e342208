"""Bayesian linear regression over many sites."""

from tacit._core.lazy import lazy_names

ESTIMATORS = {"regression": "estimator:PrivateLinearRegression"}

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Design": "design",
        "FindBounds": "search",
        "PrivateLinearRegression": "estimator",
        "mmd": "numerics.discrepancy",
        "RegressionAgreement": "agreement",
        "SiteSummary": "summary",
    },
)
