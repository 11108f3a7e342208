"""Small problems and neighbouring data at the edge of their bounds, for audits and contracts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.estimators.agreement import Neighbours
from tacit.factorization.language.structure import CoupledModel
from tacit.factorization.together.problem import Problem
from tacit.privacy.events import ADD_REMOVE, REPLACE
from tacit.privacy.guarantee import Privacy

__all__ = ["farthest_cells", "small_problems"]

_MEMBERS = 4


def farthest_cells(problem: Problem, *, counts: bool = False) -> Neighbours:
    """Return one site's relations and their neighbour: one member with all cells, or one cell.

    Where cells are sent one by one (``counts``), all members have all cells, at the lower bound.
    """
    ours: dict[str, Relation] = {}
    theirs: dict[str, Relation] = {}
    for number, (name, (low, high)) in enumerate(problem.bounds.items()):
        modes = problem.modes(name)
        table = _cells(problem, name, counts)
        other = table.copy()
        axis = modes.index(problem.protected) if problem.protected in modes else 0
        first = (slice(None),) * axis + (0,)
        if problem.unit == "entry" and not number:
            corner = (0,) * table.ndim
            table[corner], other[corner] = high, low
        elif problem.unit == "user" and counts:
            table[first], other[first] = high, low
        elif problem.unit == "user" and problem.neighbours == REPLACE:
            other[first] = low + high - table[first]
        elif problem.unit == "user":
            other[first] = np.nan
        ours[name] = Relation.from_dense(modes, table)
        theirs[name] = Relation.from_dense(modes, other)
    return Neighbours(ours, theirs)


def _cells(problem: Problem, name: str, counts: bool) -> NDArray[Any]:
    """Return the cells of a relation; the first member of the protected entity has all."""
    modes, (low, high) = problem.modes(name), problem.bounds[name]
    shape = [problem.sizes.get(entity, _MEMBERS) for entity in modes]
    if counts:
        return np.full(shape, low)
    size = int(np.prod(shape))
    if problem.protected not in modes:
        return np.where(np.arange(size) % 3 == 2, low, high).reshape(shape)
    axis = modes.index(problem.protected)
    table = np.full((shape[axis], size // shape[axis]), np.nan)
    table[0] = np.where(np.arange(table.shape[1]) % 3 == 2, low, high)
    if problem.unit == "entry":
        table[1:] = generator(0, "audit").choice([low, high], table[1:].shape)
    others = [n for k, n in enumerate(shape) if k != axis]
    return np.moveaxis(table.reshape([shape[axis], *others]), 0, axis)


def small_problems(
    *, trusts: Sequence[str], delta: float, divergences: Sequence[str] = ("euclidean", "kl")
) -> Iterator[Problem]:
    """Yield problems of every unit, relation and kind of form, with the trusts and so on given."""
    matrix = {"data": "user:k item:k"}
    units = (("user", ADD_REMOVE), ("user", REPLACE), ("entry", REPLACE))
    for divergence in divergences:
        for unit, neighbours in units:
            trust = trusts[units.index((unit, neighbours)) % len(trusts)]
            asked = Privacy(1.0, delta, unit=unit, neighbours=neighbours, trust=trust)
            yield _problem(matrix, ("item",), divergence, asked)
    for unit in ("user", "entry"):
        asked = Privacy(2.0, delta, unit=unit, neighbours=REPLACE, trust=trusts[0])
        tensor = {"data": "user:k item:l act:m core:klm"}
        yield _problem(tensor, ("item", "core"), divergences[-1], asked)
        several = {"data": "user:k item:k", "more": "user:k item:k act:k"}
        yield _problem(several, ("item",), divergences[0], asked)


def _problem(
    forms: dict[str, str], shared: tuple[str, ...], divergence: str, asked: Privacy
) -> Problem:
    model = CoupledModel(forms, {"k": 2, "l": 2, "m": 2}, divergence)
    sizes = {entity: n for entity, n in (("item", 3), ("act", 2)) if entity in model.latents}
    members = _MEMBERS if asked.unit == "entry" else None
    bounds = dict.fromkeys(model.forms, (0.0, 4.0))
    return Problem(model, "user", shared, sizes, bounds, asked, 1, members)
