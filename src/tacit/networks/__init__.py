"""Bayesian networks by private dropout: what is used of it needs the extra ``nn``."""

from tacit._core.lazy import lazy_names

ESTIMATORS = {
    "network-classifier": "classifier:PrivateDropoutClassifier",
    "network-regressor": "regressor:PrivateDropoutRegressor",
}

_PLACES = {
    "Attentive": "sequences",
    "Centred": "architectures",
    "PrivateDropoutClassifier": "classifier",
    "PrivateDropoutRegressor": "regressor",
    "Progress": "loop",
    "Stage": "trainer",
    "Recurrent": "sequences",
    "Scattering": "scattering",
    "Trained": "loop",
    "Trainer": "trainer",
    "Training": "training",
    "affordable_steps": "training",
    "attentive": "sequences",
    "calibration_error": "uncertainty",
    "convolutional": "architectures",
    "entropy": "uncertainty",
    "perceptron": "architectures",
    "recurrent": "sequences",
    "train": "trainer",
}
__getattr__, __dir__ = lazy_names(__name__, _PLACES)
