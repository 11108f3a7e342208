"""From a table of names to cells of a relation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit._core.arrays import Integers
from tacit.data.relations import Relation
from tacit.errors import ParameterError

__all__ = ["named_cells"]


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
