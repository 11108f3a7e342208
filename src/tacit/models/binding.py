"""What users pass as data, as the relations of a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.models.structure import CoupledModel

__all__ = ["as_relations"]


def as_relations(model: CoupledModel, data: Any) -> dict[str, Relation]:
    """Return the data as relations; arrays take their entities from the form, in order."""
    if not isinstance(data, Mapping):
        if len(model.forms) != 1:
            raise ParameterError(f"data must name the relations {sorted(model.forms)}")
        data = {next(iter(model.forms)): data}
    found = {}
    for name, value in data.items():
        if isinstance(value, Relation):
            found[name] = value
        elif name in model.forms:
            if hasattr(value, "tocoo"):
                raise ParameterError(
                    f"relation {name!r} is a SciPy matrix: pass Relation.from_scipy(entities, …), "
                    "which says what its unstored cells are"
                )
            array = np.asarray(value, np.float64)
            found[name] = Relation.from_dense(_modes(name, model.forms[name], array.ndim), array)
        else:
            raise ParameterError(f"the model has no relation {name!r}")
    return found


def _modes(name: str, tokens: tuple[tuple[str, str], ...], modes: int) -> list[str]:
    """Return which factors of a form are the modes of an array, the others being cores.

    A core is a factor over several latent indices that all occur in other factors.
    """
    names = [factor for factor, _ in tokens]
    if len(names) == modes:
        return names
    cores = [
        factor
        for factor, latents in tokens
        if len(latents) > 1
        and set(latents) <= {k for other, ks in tokens if other != factor for k in ks}
    ]
    if len(names) - len(cores) != modes:
        raise ParameterError(
            f"relation {name!r} names {names}, but the array has {modes} modes: pass a Relation, "
            "which says what its modes are"
        )
    return [factor for factor in names if factor not in cores]
