"""Counts, means, quantiles and histograms of a table."""

ESTIMATORS = {"summary": "estimator:PrivateSummary"}
