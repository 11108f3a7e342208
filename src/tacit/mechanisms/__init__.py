"""Mechanisms: a value that depends on private data goes in, one that may be released comes out.

`privatize` is the only crossing. Every mechanism knows its event before it sees data.
"""

from tacit._core.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AboveThreshold": "above_threshold",
        "DiscreteGaussian": "discrete_gaussian",
        "Exponential": "exponential",
        "Gaussian": "gaussian",
        "GaussianShare": "gaussian_share",
        "Hybrid": "hybrid",
        "ItemResponses": "item_responses",
        "KNorm": "knorm",
        "Laplace": "laplace",
        "LocalNumber": "local",
        "Mechanism": "base",
        "Noise": "noise",
        "NoisyTop": "top",
        "OneBitMean": "one_bit",
        "OperatorGaussian": "symmetric_operator",
        "Piecewise": "piecewise",
        "PoissonSampled": "sampled",
        "Quantiles": "quantiles",
        "RandomizedResponse": "randomized_response",
        "RunningSums": "running_sums",
        "SampledWithoutReplacement": "sampled_fixed",
        "Shuffled": "shuffled",
        "SmoothQuantile": "smooth_quantile",
        "StableHistogram": "stable_histogram",
        "SymmetricGaussian": "gaussian",
        "TwoSidedGeometric": "geometric",
        "privatize": "base",
    },
)
