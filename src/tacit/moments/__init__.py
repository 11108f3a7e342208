"""Latent-variable models from moments: topics, mixtures, orthogonal tensors."""

from tacit._core.lazy import lazy_names

ESTIMATORS = {"mixture": "mixture:GaussianMixture", "topics": "topics:SingleTopicModel"}

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "GaussianMixture": "mixture",
        "MixtureAgreement": "samples.agreement",
        "MomentAgreement": "agreement",
        "MomentEstimator": "estimator",
        "OrthogonalDecomposition": "tensor.estimator",
        "SingleTopicModel": "topics",
        "TensorAgreement": "tensor.agreement",
        "TopicAgreement": "agreement",
    },
)
