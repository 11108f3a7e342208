"""Differentially private factorization and Bayesian inference, with checkable guarantees."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tacit._version import __version__

# Public names, loaded on first use so that `import tacit` stays fast.
_EXPORTS = {
    "Certificate": "tacit.privacy.guarantee",
    "Ledger": "tacit.privacy.ledger",
    "Noise": "tacit.mechanisms.noise",
    "Privacy": "tacit.privacy.guarantee",
    "PrivateSummary": "tacit.estimators.summary",
    "Site": "tacit.estimators.site",
    "errors": "tacit.errors",
    "privatize": "tacit.mechanisms.base",
    "read_release": "tacit.report.release",
}

__all__ = [
    "Certificate",
    "Ledger",
    "Noise",
    "Privacy",
    "PrivateSummary",
    "Site",
    "__version__",
    "errors",
    "privatize",
    "read_release",
]

if TYPE_CHECKING:
    from tacit import errors
    from tacit.estimators.site import Site
    from tacit.estimators.summary import PrivateSummary
    from tacit.mechanisms.base import privatize
    from tacit.mechanisms.noise import Noise
    from tacit.privacy.guarantee import Certificate, Privacy
    from tacit.privacy.ledger import Ledger
    from tacit.report.release import read_release


def __getattr__(name: str) -> Any:
    home = _EXPORTS.get(name)
    if home is None:
        raise AttributeError(f"module 'tacit' has no attribute {name!r}")
    module = importlib.import_module(home)
    value = module if home == f"tacit.{name}" else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
