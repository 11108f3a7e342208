"""What sites send in `tacit.estimators.joint_local`: cells with perturbed counts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.joint import Problem
from tacit.mechanisms.clipping import clip_values
from tacit.rounds.messages import ArraySpec, Message

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.float64]]


__all__ = ["ViewSpec", "as_text", "from_text", "modes_of", "own_counts", "unpack", "view_relation"]


@dataclass(frozen=True)
class ViewSpec(ArraySpec):
    """Cells with their perturbed counts: one column per mode, the last one for the count."""

    sizes: tuple[int, ...] = ()

    def problem(self, array: NDArray[Any]) -> str | None:
        """Return what is wrong with an array, or None."""
        found = super().problem(array)
        if found is not None or not len(array):
            return found
        cells = array[:, :-1]
        if (cells.min(axis=0) < 0).any() or (cells.max(axis=0) >= self.sizes).any():
            return f"names cells outside of {self.sizes}"
        ordered = cells[np.lexsort(cells.T)]
        if (ordered[1:] == ordered[:-1]).all(axis=1).any():
            return "names a cell twice"
        return None


def modes_of(problem: Problem, relation: str) -> list[str]:
    """Return the entities of a relation in the order of its form; the others are cores."""
    return [
        factor for factor, _ in problem.model.forms[relation]
        if factor == problem.protected or factor in problem.sizes
    ]  # fmt: skip


def own_counts(problem: Problem, relations: Mapping[str, Relation]) -> dict[str, Relation]:
    """Return a site's relations as counts above the lower bound, every observed cell listed."""
    found = {}
    for name, relation in relations.items():
        listed, modes = relation.listed(), modes_of(problem, name)
        if sorted(modes) != sorted(listed.entities):
            raise ParameterError(f"relation {name!r} must be over {modes}: {listed.entities}")
        columns = [listed.entities.index(entity) for entity in modes]
        low, high = problem.bounds[name]
        found[name] = Relation(
            tuple(modes), tuple(listed.shape[c] for c in columns),
            np.ascontiguousarray(listed.indices[:, columns]),
            np.floor(clip_values(listed.values, low, high) - low + 0.5),
        )  # fmt: skip
    return found


def view_relation(problem: Problem, name: str, view: NDArray[np.int64], members: int) -> Relation:
    """Return a perturbed view as a relation."""
    modes = modes_of(problem, name)
    cells = view[:, :-1].astype(np.int32)
    shape = [max(members, 1) if e == problem.protected else problem.sizes[e] for e in modes]
    if problem.protected in modes and len(cells):
        at = modes.index(problem.protected)
        shape[at] = max(shape[at], int(cells[:, at].max()) + 1)
    return Relation(tuple(modes), tuple(shape), cells, view[:, -1].astype(np.float64))


def as_text(names: Sequence[str]) -> NDArray[np.uint8]:
    """Return names as bytes that a message can carry."""
    return np.frombuffer(json.dumps(list(names)).encode(), np.uint8)


def from_text(text: NDArray[np.uint8]) -> list[str]:
    """Return the names that `as_text` packed."""
    return [str(name) for name in json.loads(text.tobytes())]


def unpack(
    problem: Problem, request: Message
) -> tuple[list[Mapping[str, Relation]], dict[str, Relation]]:
    """Return all sites' perturbed views and the public relations."""
    sites: list[Mapping[str, Relation]] = []
    for k in range(len(from_text(request["sites"]))):
        views = {name: request[f"view/{k}/{name}"] for name in problem.bounds}
        members = int(request[f"members/{k}"][0])
        sites.append({
            name: view_relation(problem, name, view, members) for name, view in views.items()
        })  # fmt: skip
    public = {}
    for name in from_text(request["public"]):
        entities, zeros = (
            from_text(request[f"public/{name}/entities"]),
            request[f"public/{name}/zeros"],
        )
        public[name] = Relation(
            tuple(entities), tuple(int(n) for n in request[f"public/{name}/shape"]),
            request[f"public/{name}/cells"], request[f"public/{name}/values"],
            "observed" if zeros[0] else "missing", request[f"public/{name}/held_out"],
        )  # fmt: skip
    return sites, public
