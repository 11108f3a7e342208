"""What users pass as data, as the relations of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.arrays import Integers
from tacit.factorization.language.structure import CoupledModel

__all__ = [
    "as_cells",
    "as_relations",
    "check_labels",
    "named_cells",
    "restricted",
    "without_cells",
]


def as_relations(model: CoupledModel, data: Any) -> dict[str, Relation]:
    """Return the data as relations; arrays take their entities from the form, in order."""
    if not isinstance(data, Mapping):
        if len(model.forms) != 1:
            raise ParameterError(f"data must name the relations {sorted(model.forms)}")
        data = {next(iter(model.forms)): data}
    found = {}
    for name, value in data.items():
        if name not in model.forms:
            raise ParameterError(f"the model has no relation {name!r}")
        if hasattr(value, "tocoo"):
            raise ParameterError(
                f"relation {name!r} is a SciPy matrix: pass Relation.from_scipy(entities, …), "
                "which says what its unstored cells are"
            )
        if isinstance(value, Relation):
            found[name] = value
        else:
            array = np.asarray(value, np.float64)
            found[name] = Relation.from_dense(_modes(name, model.forms[name], array.ndim), array)
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


def restricted(model: CoupledModel, relations: Iterable[str]) -> CoupledModel:
    """Return the model of some of its relations."""
    names = list(relations)
    forms, powers = {n: model.form(n) for n in names}, {n: model.powers[n] for n in names}
    return CoupledModel(forms, model.ranks, powers, {n: model.dispersions[n] for n in names})


def as_cells(relation: str, cells: Any, sizes: Sequence[int]) -> NDArray[np.int32]:
    """Return cells of a relation, one row each, checked against its sizes."""
    index = np.asarray(cells)
    if index.ndim != 2 or index.shape[1] != len(sizes):
        raise ParameterError(
            f"cells must have shape (cells, {len(sizes)}) for {relation!r}, got {index.shape}"
        )
    if index.size and not (index == np.floor(index)).all():
        raise ParameterError("cells must hold whole numbers")
    if index.size and ((index < 0).any() or (index >= np.array(sizes)).any()):
        raise ParameterError(f"cells must lie within {list(sizes)}: fold new members in first")
    return index.astype(np.int32)


def check_labels(
    known: Mapping[str, Sequence[Any]], data: Mapping[str, Relation], but: str | None = None
) -> None:
    """Refuse data whose members have other labels than those of a fit.

    Labels are compared as text: a saved model keeps those that JSON cannot hold that way.
    """
    for found in data.values():
        for entity, names in found.labels.items():
            same = [str(name) for name in known.get(entity, names)] == [str(n) for n in names]
            if entity != but and not same:
                raise ParameterError(
                    f"the members of {entity!r} differ from those of the fit: pass its labels"
                )


def named_cells(relation: Relation, table: Mapping[str, Any]) -> Integers:
    """Return the cells that a table (entity → names of members) names, one row each."""
    cells = []
    for entity, size in zip(relation.entities, relation.shape, strict=True):
        if entity not in table:
            raise ParameterError(f"the table of cells needs a column {entity!r}")
        number = {_key(name): k for k, name in enumerate(relation.labels.get(entity, range(size)))}
        named = [_key(name) for name in np.asarray(table[entity]).tolist()]
        unknown = [name for name in named if name not in number]
        if unknown:
            raise ParameterError(f"{entity} {unknown[0]!r} is not known here")
        cells.append([number[name] for name in named])
    return np.array(cells, np.int64).T


def _key(name: Any) -> str:
    """Return one text for a label, whether it was read as a number or as text."""
    try:
        return f"{float(name):g}" if float(name) != int(float(name)) else str(int(float(name)))
    except (TypeError, ValueError, OverflowError):
        return str(name)


def without_cells(entities: Sequence[str], shape: Sequence[int], labels: Any = None) -> Relation:
    """Return a relation of which only entities, sizes and labels are known."""
    nothing = np.empty((0, len(entities)), np.int32)
    return Relation(tuple(entities), tuple(shape), nothing, np.empty(0), labels=labels or {})
