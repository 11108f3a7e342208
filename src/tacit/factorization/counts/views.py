"""What sites send in `tacit.factorization.counts.agreement`: cells with perturbed counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.factorization.arrays import Integers
from tacit.factorization.together.problem import Problem
from tacit.mechanisms.clipping import clip_values
from tacit.rounds.messages import ArraySpec

__all__ = ["ViewSpec", "as_text", "from_text", "names_problem", "own_counts", "view_relation"]


@dataclass(frozen=True)
class ViewSpec(ArraySpec):
    """Cells with their perturbed counts: one column per mode, the last one for the count."""

    sizes: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Everything about it in words, the same on every machine."""
        return f"{super().text}, distinct cells within {self.sizes}"

    def problem(self, array: NDArray[Any], sizes: dict[str, int] | None = None) -> str | None:
        """Return what is wrong with an array, or None."""
        found = super().problem(array, sizes)
        if found is not None or not len(array):
            return found
        cells = array[:, :-1]
        if (cells.min(axis=0) < 0).any() or (cells.max(axis=0) >= self.sizes).any():
            return f"names cells outside of {self.sizes}"
        ordered = cells[np.lexsort(cells.T)]
        if (ordered[1:] == ordered[:-1]).all(axis=1).any():
            return "names a cell twice"
        return None


def own_counts(problem: Problem, relations: Mapping[str, Relation]) -> dict[str, Relation]:
    """Return a site's relations as counts above the lower bound, every observed cell listed."""
    found = {}
    for name, relation in relations.items():
        listed, modes = relation.listed(), problem.modes(name)
        if sorted(modes) != sorted(listed.entities):
            raise ParameterError(f"relation {name!r} must be over {modes}: {listed.entities}")
        columns = [listed.entities.index(entity) for entity in modes]
        low, high = problem.bounds[name]
        found[name] = Relation(
            tuple(modes),
            tuple(listed.shape[c] for c in columns),
            np.ascontiguousarray(listed.indices[:, columns]),
            np.floor(clip_values(listed.values, low, high) - low + 0.5),
        )
    return found


def view_relation(problem: Problem, name: str, view: Integers, members: int) -> Relation:
    """Return a perturbed view as a relation."""
    modes = problem.modes(name)
    cells = view[:, :-1].astype(np.int32)
    shape = [max(members, 1) if e == problem.protected else problem.sizes[e] for e in modes]
    if problem.protected in modes and len(cells):
        at = modes.index(problem.protected)
        shape[at] = max(shape[at], int(cells[:, at].max()) + 1)
    return Relation(tuple(modes), tuple(shape), cells, view[:, -1].astype(np.float64))


def as_text(names: Sequence[str]) -> NDArray[np.uint8]:
    """Return names as bytes that a message can carry."""
    return np.frombuffer(json.dumps(list(names)).encode(), np.uint8)


def names_problem(text: NDArray[np.uint8]) -> str | None:
    """Return what is wrong with bytes that should hold distinct names, or None."""
    try:
        names = json.loads(text.tobytes())
    except (ValueError, RecursionError):
        return "does not hold names"
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return "does not hold names"
    return None if len(set(names)) == len(names) else "holds a name twice"


def from_text(text: NDArray[np.uint8]) -> list[str]:
    """Return the names that `as_text` packed."""
    return [str(name) for name in json.loads(text.tobytes())]
