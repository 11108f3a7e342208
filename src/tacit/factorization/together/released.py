"""What a release of a factorization over sites says about itself, and how that is read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.data.written import written_names
from tacit.factorization.together.methods import method_of, settings_of
from tacit.factorization.together.problem import Problem
from tacit.factorization.together.shape import FactorizationMethod

__all__ = ["fitted_parameters", "fitted_settings"]

_ALIKE = ("rank", "divergence", "dispersion", "protected", "shared", "accountant")


def fitted_settings(problem: Problem, method: FactorizationMethod) -> dict[str, Any]:
    """Return everything about a fit that its release tells, as plain data."""
    model, options = problem.model, settings_of(method)
    return {
        "model": {name: model.form(name) for name in model.forms},
        "rank": dict(model.ranks),
        "divergence": dict(model.powers),
        "dispersion": dict(model.dispersions),
        "method": repr(method),
        "options": None if options is None else list(options),
        "bounds": {name: list(pair) for name, pair in problem.bounds.items()},
        "protected": problem.protected,
        "shared": list(problem.shared),
        "accountant": problem.accountant,
        # the public lists of members, which every site was given
        "labels": {e: written_names(names) for e, names in problem.labels.items()},
    }


def fitted_parameters(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an estimator from what a release tells."""
    name, options = found["options"] or ("auto", {})
    return {
        "model": found["model"],
        "bounds": {name: tuple(pair) for name, pair in found["bounds"].items()},
        "method": method_of(name, options) if found["options"] else name,
        "privacy": None,
        **{name: found[name] for name in _ALIKE},
    }
