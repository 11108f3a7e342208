"""Bayesian linear, logistic and Poisson regression over many sites."""

from tacit._core.lazy import lazy_names

ESTIMATORS = {
    "regression": "estimator:PrivateLinearRegression",
    "logistic-regression": "generalised.logistic:PrivateLogisticRegression",
    "poisson-regression": "generalised.poisson:PrivatePoissonRegression",
}

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Design": "design",
        "FindBounds": "search",
        "PrivateLinearRegression": "estimator",
        "mmd": "numerics.discrepancy",
        "PrivateLogisticRegression": "generalised.logistic",
        "PrivatePoissonRegression": "generalised.poisson",
        "RegressionAgreement": "agreement",
        "SiteSummary": "summary",
    },
)
