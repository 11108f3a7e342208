"""A stand-in for the samplers: ridge regression on the pooled moments, with its normal law."""

import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import numpy as np


def posterior(moments, method, *, prior=None, chains=4, draws=1000, warmup=1000, rng=None, **more):
    gram = sum(site.gram for site in moments)
    cross = sum(site.cross for site in moments)
    rows = sum(site.rows for site in moments)
    noise = sum(site.gram_sd**2 for site in moments) ** 0.5
    ridge = 0.0 if method == "OLS" else 1e-3 + noise
    precision = gram + ridge * np.eye(len(cross))
    mean = np.linalg.solve(precision, cross)
    squares = [site.square for site in moments]
    residual = 0.05 * rows if None in squares else max(sum(squares) - mean @ cross, 1e-9)
    variance = residual / rows
    spread = np.linalg.inv(precision)
    covariance = variance * spread + noise**2 * spread @ spread
    covariance = (covariance + covariance.T) / 2
    sample = rng.multivariate_normal(mean, covariance, (chains, draws), method="eigh")
    return SimpleNamespace(
        draws=sample, noise_variance=np.full((chains, draws), variance), mean=mean,
        sd=np.sqrt(np.diag(covariance)), covariance=covariance, diagnostics={},
    )  # fmt: skip


def install():
    """Put the stand-in where the samplers belong, unless they are there."""
    if importlib.util.find_spec("tacit.inference.regression") is None:
        module = ModuleType("tacit.inference.regression")
        module.posterior = posterior
        sys.modules["tacit.inference.regression"] = module
        from tacit.models import regression

        regression.Prior = SimpleNamespace
