"""Recommenders that never see a rating."""

from tacit._core.lazy import lazy_names

ESTIMATORS = {"recommender": "estimator:PrivateRecommender"}

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Device": "device",
        "HeterogeneousOffsets": "agreement",
        "ImplicitFeedback": "implicit",
        "ItemResponseGradient": "local.every_item",
        "LocalGradient": "local.one_answer",
        "LocalGroups": "local.groups",
        "PrivateRecommender": "estimator",
        "ResponseGradient": "local.every_item",
    },
)
