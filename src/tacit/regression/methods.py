"""What the methods need of a release, and which parameters they read."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tacit.errors import ParameterError

__all__ = [
    "CITES",
    "EXACT_METHODS",
    "HELD",
    "RIDGED",
    "SAMPLING",
    "SQUARE_METHODS",
    "UNREAD",
    "check_method",
]

EXACT_METHODS = ("OLS", "conjugate")  # that take sums for exact
SQUARE_METHODS = ("conjugate", "MCMC-B&S")  # that need yᵀy
HELD = ("MCMC-fixedS", "Bayes-fixedS-fast")  # that take S as it was released
RIDGED = ("OLS", "adaSSP")  # that take a stated ridge
SAMPLING = ("prior", "chains", "draws", "warmup")
CITES: Mapping[str, tuple[str, ...]] = {"adaSSP": ("wang2018",)}  # besides the agreement's
# parameters that a method does not read
UNREAD: Mapping[str, tuple[str, ...]] = {
    "OLS": SAMPLING,
    "adaSSP": SAMPLING,
    "conjugate": ("warmup",),
    "Bayes-fixedS-fast": ("warmup",),
}


def check_method(method: str, noisy: bool, statistics: str, changed: Collection[str]) -> None:
    """Raise where a method cannot use what is released, or does not read what was changed."""
    if method in EXACT_METHODS and noisy:
        raise ParameterError(
            f"method {method!r} takes sums for exact: pass privacy=None, or method='auto'"
        )
    if method in SQUARE_METHODS and statistics == "Sz":
        raise ParameterError(
            f"method {method!r} needs the sum of squares of the response: pass "
            "statistics='moments' or 'Szu'"
        )
    if "ridge" in changed and method not in RIDGED:
        raise ParameterError(
            f"method {method!r} shrinks by its prior: pass prior=Prior(sd=…), whose ridge is "
            "σ²/sd²; ridge is read by 'OLS' and 'adaSSP'"
        )
    for name in UNREAD.get(method, ()):
        if name in changed:
            raise ParameterError(f"method {method!r} does not read {name}: leave it out")
