"""Eigenvectors of one holder's symmetric tensor."""

from tacit._core.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__, {"OrthogonalDecomposition": "estimator", "TensorAgreement": "agreement"}
)
