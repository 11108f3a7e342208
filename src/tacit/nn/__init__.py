"""Bayesian networks by private dropout: needs the extra ``nn`` (torch and opacus)."""

from tacit.errors import MissingExtra

try:
    import torch as _torch  # noqa: F401
except ImportError:
    raise MissingExtra("tacit.nn", "nn") from None

from tacit.nn.classifier import PrivateDropoutClassifier
from tacit.nn.networks import Centred, convolutional, perceptron
from tacit.nn.regressor import PrivateDropoutRegressor
from tacit.nn.scattering import Scattering
from tacit.nn.trainer import Progress, Trained, train
from tacit.nn.training import Training, affordable_steps
from tacit.nn.uncertainty import calibration_error, entropy

__all__ = [
    "Centred",
    "PrivateDropoutClassifier",
    "PrivateDropoutRegressor",
    "Progress",
    "Scattering",
    "Trained",
    "Training",
    "affordable_steps",
    "calibration_error",
    "convolutional",
    "entropy",
    "perceptron",
    "train",
]
