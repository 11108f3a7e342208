"""What users pass as data, as the relations of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.data.cells import relation_of, with_members
from tacit.data.members import distinct_ids
from tacit.data.reading import is_table
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.language.structure import CoupledModel

__all__ = ["as_relations", "empty_relation", "joined_members", "restricted", "without_cells"]


def as_relations(
    model: CoupledModel,
    data: Any,
    stated: Mapping[str, Any] | None = None,
    duplicates: str = "error",
) -> dict[str, Relation]:
    """Return the data as relations; arrays take their entities from the form, in order.

    Parameters
    ----------
    model
        Which relations there are.
    data
        Relation name → `Relation`, array or table; of a model with one relation, just that.
    stated
        Entity → its public members in order, or how many there are.
    duplicates
        What a cell is that a table lists several times.
    """
    one = next(iter(model.forms)) if len(model.forms) == 1 else None
    if not isinstance(data, Mapping) or (one is not None and not set(data) & set(model.forms)):
        if one is None:
            raise ParameterError(f"data must name the relations {sorted(model.forms)}")
        if isinstance(data, Mapping) and not set(data) & set(model.names(one)):
            raise ParameterError(f"the model has no relation {next(iter(data), None)!r}")
        data = {one: data}
    known, found = dict(stated or {}), {}
    strange = [entity for entity in known if entity not in model.latents]
    if strange:
        raise ParameterError(
            f"there is no entity {strange[0]!r}: the model has {list(model.latents)}"
        )
    for name, value in data.items():
        if name not in model.forms:
            raise ParameterError(f"the model has no relation {name!r}")
        relation = _as_relation(name, model.forms[name], value, known, duplicates)
        found[name] = with_members(relation, known) if known else relation
    return joined_members(found)


def _as_relation(
    name: str,
    tokens: tuple[tuple[str, str], ...],
    value: Any,
    stated: Mapping[str, Any],
    duplicates: str,
) -> Relation:
    """Return one relation of whatever its data are kept in."""
    if isinstance(value, Relation):
        return value
    if hasattr(value, "tocoo"):
        raise ParameterError(
            f"relation {name!r} is a SciPy matrix: pass Relation.from_scipy(entities, …), "
            "which says what its unstored cells are"
        )
    if is_table(value):
        cores = set(_cores(tokens))
        entities = [factor for factor, _ in tokens if factor not in cores]
        return relation_of(value, entities, stated, duplicates=duplicates)
    array = np.asarray(value, np.float64)
    return Relation.from_dense(_modes(name, tokens, array.ndim), array)


def joined_members(relations: dict[str, Relation]) -> dict[str, Relation]:
    """Return relations that agree about members which their tables named: those of any of them.

    Members that were stated for one relation are those of all.
    """
    everybody: dict[str, Any] = {}
    for entity in {
        e for found in relations.values() for e in found.unstated & found.labels.keys()
    }:
        lists = [found for found in relations.values() if entity in found.labels]
        fixed = [found.labels[entity] for found in lists if entity not in found.unstated]
        if fixed:
            everybody[entity] = fixed[0]
        elif len({found.labels[entity] for found in lists}) > 1:
            names = [name for found in lists for name in found.labels[entity]]
            everybody[entity] = tuple(distinct_ids(names, f"the members of {entity!r}")[0])
    joined = {}
    for name, found in relations.items():
        own = {e: everybody[e] for e in found.unstated & found.labels.keys() if e in everybody}
        joined[name] = replace(with_members(found, own), unstated=found.unstated) if own else found
    return joined


def _cores(tokens: tuple[tuple[str, str], ...]) -> list[str]:
    """Return the factors over several latent indices that all occur in other factors."""
    return [
        factor
        for factor, latents in tokens
        if len(latents) > 1
        and set(latents) <= {k for other, ks in tokens if other != factor for k in ks}
    ]


def _modes(name: str, tokens: tuple[tuple[str, str], ...], modes: int) -> list[str]:
    """Return which factors of a form are the modes of an array, the others being cores."""
    names = [factor for factor, _ in tokens]
    if len(names) == modes:
        return names
    cores = _cores(tokens)
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


def without_cells(relations: Mapping[str, Relation]) -> dict[str, Relation]:
    """Return relations of which only entities, sizes, labels and how they were made are known."""
    heads = {}
    for name, found in relations.items():
        nothing = np.empty((0, found.modes), np.int32)
        heads[name] = replace(found, indices=nothing, values=np.empty(0), held_out=nothing)
    return heads


def empty_relation(entities: Sequence[str], shape: Sequence[int], labels: Any = None) -> Relation:
    """Return a relation without cells."""
    nothing = np.empty((0, len(entities)), np.int32)
    return Relation(tuple(entities), tuple(shape), nothing, np.empty(0), labels=labels or {})
