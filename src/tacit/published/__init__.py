"""Methods as their papers state them, for reproduction only."""

from tacit._core.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AveragedRegression": "alparslan2023_averaged",
        "GradientFactorization": "hua2015_hu2023",
        "GradientRecommender": "hua2015_hu2023",
        "NoisyMixture": "imtiaz2017_mixture",
        "NoisyTopics": "imtiaz2017",
        "PRINTED": "noise",
        "PublishedLangevin": "ermis2020",
        "PublishedNoise": "noise",
        "PrintedGradient": "shin2018",
        "PrintedItemResponses": "shin2018",
        "PrintedResponses": "shin2018",
        "ShinRecommender": "shin2018",
        "ThesisRegression": "alparslan2023",
        "ThesisTraining": "ermis2020_dropout",
        "advanced_composition_noise": "noise",
        "attacks": "",
        "mistyped_gaussian_noise": "noise",
        "zcdp_noise": "noise",
    },
)
