"""Logistic and Poisson regression over many sites."""

from tacit._core.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "GeneralisedAgreement": "agreement",
        "PrivateLogisticRegression": "logistic",
        "PrivatePoissonRegression": "poisson",
    },
)
