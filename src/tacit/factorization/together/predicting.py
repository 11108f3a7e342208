"""Predictions of a released factorization, at whoever holds cells of its own.

Rows with a value are the holder's own cells; rows without one ask for it. The holder's members
are fitted from its own cells and what was released; nothing of that is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tacit.data.reading import Table
from tacit.errors import ParameterError
from tacit.estimators.predicting import beside, own_and_asked, part_of
from tacit.estimators.site import Site

__all__ = ["answer", "cell_schema"]

_HERE = "here"


def answer(model: Any, table: Table, data: Any = None) -> dict[str, list[Any]]:
    """Return the expected value of cells, at a site.

    Parameters
    ----------
    model
        A factorization, fitted or read back.
    table
        A column for each entity; without ``data`` also one of values.
    data
        The site's own cells, where they are not among the rows.
    """
    here = _without_sites(model)  # many may be asked at once
    if data is not None:
        here.adopt(Site(_HERE, data))
        (name,) = here._held[_HERE]
        return beside(table, {"prediction": here.predict(_HERE, dict(table), name)})
    form = _only_form(model._about)
    modes = [entity for entity in form if table.has(entity)]
    others = [name for name in table if name not in modes]
    if len(modes) < len(form) or len(others) != 1:
        raise ParameterError(
            f"a factorization predicts at a site: rows need the columns {', '.join(form)} and one "
            "of values, empty where one is asked for; or pass --config and --site"
        )
    own, asked = own_and_asked(table, others[0])
    if not own or not asked:
        raise ParameterError(
            f"rows need cells of one's own, with {others[0]}, and cells to predict, without"
        )
    here.adopt(Site(_HERE, part_of(table, own, [*modes, others[0]])))
    found = here.predict(_HERE, part_of(table, asked, modes))
    return beside(table, {"prediction": found}, asked)


def _without_sites(model: Any) -> Any:
    """Return a model that knows what was released, and none of the sites; it releases nothing."""
    kind: Any = type(model)
    here = kind.__new__(kind)
    vars(here).update({n: v for n, v in vars(model).items() if n not in ("parts_", "_held")})
    here.privacy = None
    return here


def _only_form(about: Mapping[str, Any]) -> list[str]:
    """Return the entities of the one relation that a model has."""
    if len(about["model"]) > 1:
        raise ParameterError(
            "a model of several relations predicts in Python: from_release(folder).adopt(site)"
        )
    (form,) = about["model"].values()
    return [token.partition(":")[0] for token in form.split()]


def cell_schema(about: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what a row holds, as JSON Schema says it."""
    if len(about["model"]) > 1:
        return {}
    (low, high), *_ = about["bounds"].values()
    value = f"an own value from {low:g} to {high:g}, or nothing to ask for one"
    return {
        **{entity: {"type": "string"} for entity in _only_form(about)},
        "value": {"type": ["number", "null"], "description": value},
    }
