"""Coupled factorizations of matrices and tensors, alone and over sites."""

from tacit._core.lazy import lazy_names

ESTIMATORS = {"factorization": "together.estimator:PrivateFactorization"}

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "AlternatingLeastSquares": "offsets.agreement",
        "CoupledFactorization": "alone.estimator",
        "CoupledModel": "language.structure",
        "Factor": "alone.stated",
        "Langevin": "langevin.method",
        "LocalCounts": "counts.method",
        "Parafac2": "alone.ragged",
        "PrivateFactorization": "together.estimator",
    },
)
