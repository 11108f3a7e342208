"""What users pass as data, as the relations of a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.data.cells import relation_of, with_members
from tacit.data.indices import numbered
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
    known = model.of_modes(known)
    for name, value in data.items():
        if name not in model.forms:
            raise ParameterError(f"the model has no relation {name!r}")
        relation = _as_relation(name, _places(model.forms[name]), value, known, duplicates)
        found[name] = with_members(relation, known) if known else relation
    joined = joined_members(found, model.modes)
    return {name: _without_diagonal(one, model) for name, one in joined.items()}


def _places(tokens: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the tokens of a form with the names of modes in place of entities."""
    return tuple(
        zip(numbered([name for name, _ in tokens]), (ks for _, ks in tokens), strict=True)
    )


def _without_diagonal(relation: Relation, model: CoupledModel) -> Relation:
    """Return a relation without the zeros of members with themselves: nobody befriends themself.

    Of observed zeros, those are held out whose modes of one entity name one member.
    """
    entities = [model.entity(mode) for mode in relation.entities]
    pairs = [(a, b) for b, e in enumerate(entities) for a in range(b) if entities[a] == e]
    if relation.zeros == "missing" or not pairs:
        return relation
    diagonals = []
    for a, b in pairs:
        rest = [n for m, n in enumerate(relation.shape) if m != b]
        others = np.indices(rest).reshape(len(rest), -1)
        diagonals.append(_codes(np.insert(others, b, others[a], axis=0).T, relation.shape))
    known = [
        _codes(cells.reshape(-1, relation.modes), relation.shape)
        for cells in (relation.indices, relation.held_out)
    ]
    apart = np.setdiff1d(np.concatenate(diagonals), np.concatenate(known))
    cells = np.column_stack(np.unravel_index(apart, relation.shape)).astype(np.int32)
    held_out = np.concatenate([relation.held_out.reshape(-1, relation.modes), cells])
    return replace(relation, held_out=held_out)


def _codes(cells: Any, shape: Sequence[int]) -> Any:
    return np.ravel_multi_index(tuple(cells.T), tuple(shape))


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


def joined_members(
    relations: dict[str, Relation], modes: Mapping[str, str] | None = None
) -> dict[str, Relation]:
    """Return relations that agree about members which their tables named: those of any of them.

    Members that were stated for one relation are those of all; ``modes`` says which modes belong
    to an entity of another name.
    """
    same = modes or {}
    everybody: dict[str, Any] = {}
    for entity in {
        same.get(e, e)
        for found in relations.values()
        for e in found.unstated & found.labels.keys()
    }:
        lists = [
            (found.labels[mode], mode in found.unstated)
            for found in relations.values()
            for mode in found.entities
            if same.get(mode, mode) == entity and mode in found.labels
        ]
        fixed = [names for names, unstated in lists if not unstated]
        if fixed:
            everybody[entity] = fixed[0]
        elif len({names for names, _ in lists}) > 1:
            names = [name for own, _ in lists for name in own]
            everybody[entity] = tuple(distinct_ids(names, f"the members of {entity!r}")[0])
    joined = {}
    for name, found in relations.items():
        own = {
            e: everybody[same.get(e, e)]
            for e in found.unstated & found.labels.keys()
            if same.get(e, e) in everybody
        }
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
