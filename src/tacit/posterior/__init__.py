"""Statistics to release, and posteriors given noisy ones."""

from tacit._core.lazy import lazy_names

ESTIMATORS = {"posterior": "estimator:PrivatePosterior", "selector": "selector:StatisticSelector"}

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Bernoulli": "numerics.populations.laws",
        "Beta": "numerics.priors",
        "Custom": "numerics.statistics",
        "CustomPopulation": "numerics.populations.base",
        "Exponential": "numerics.populations.laws",
        "Gamma": "numerics.priors",
        "InverseGamma": "numerics.priors",
        "NoisyStatistic": "numerics.noisy_statistic",
        "Normal": "numerics.priors",
        "NormalMean": "numerics.populations.laws",
        "NormalVariance": "numerics.populations.laws",
        "Poisson": "numerics.populations.laws",
        "PrivatePosterior": "estimator",
        "StatisticSelector": "selector",
        "Uniform": "numerics.priors",
        "UniformWidth": "numerics.populations.laws",
    },
)
