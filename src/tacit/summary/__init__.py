"""Counts, means, quantiles and histograms of a table."""

from tacit._core.lazy import lazy_names

ESTIMATORS = {"summary": "estimator:PrivateSummary"}

__getattr__, __dir__ = lazy_names(__name__, {"PrivateSummary": "estimator"})
