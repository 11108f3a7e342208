"""What a release of a factorization over sites says about itself, and how that is read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tacit.data.written import written_names
from tacit.factorization.draws import DRAWS
from tacit.factorization.together.methods import method_of, settings_of
from tacit.factorization.together.problem import Problem
from tacit.factorization.together.shape import FactorizationMethod

__all__ = ["TOLD", "dimensions_of", "fitted_parameters", "fitted_settings"]

# the settings that a release carries
TOLD = (
    "model", "rank", "divergence", "dispersion", "method", "options", "bounds", "protected",
    "shared", "accountant", "labels", "sizes",
)  # fmt: skip

_ALIKE = ("rank", "divergence", "dispersion", "protected", "shared", "accountant")


def fitted_settings(problem: Problem, method: FactorizationMethod) -> dict[str, Any]:
    """Return everything about a fit that its release tells, as plain data."""
    model, options = problem.model, settings_of(method)
    return {
        "model": {name: model.form(name) for name in model.forms},
        "rank": dict(model.ranks),
        "divergence": dict(model.powers),
        "dispersion": dict(model.dispersions),
        "method": type(method).__name__,
        "options": None if options is None else list(options),
        "bounds": {name: list(pair) for name, pair in problem.bounds.items()},
        "protected": problem.protected,
        "shared": list(problem.shared),
        "accountant": problem.accountant,
        "sizes": dict(problem.sizes),
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


def dimensions_of(
    arrays: Mapping[str, Any], labels: Mapping[str, Sequence[Any]]
) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
    """Return the names of dimensions: an entity's members, and the columns of its factor.

    Parameters
    ----------
    arrays
        Factors by entity, and what else is learned of one (``"item offset"``).
    labels
        Entity → the public names of its members.
    """
    dims: dict[str, tuple[str, ...]] = {}
    coords: dict[str, Sequence[Any]] = {}
    for name, array in arrays.items():
        entity, drawn = name.split(" ")[0], name.endswith(DRAWS)
        known, shape = labels.get(entity), array.shape[drawn:]
        if known is not None and len(shape) in (1, 2) and len(known) == shape[0]:
            own = (entity, f"column of {name.removesuffix(DRAWS)}")[: len(shape)]
            dims[name] = ("draw", *own) if drawn else own
            coords[entity] = list(known)
    return dims, coords
