"""How many rows each category has: the smallest family there can be, to see what one needs."""

ESTIMATORS = {"toy-counts": "estimator:ToyCounts"}
