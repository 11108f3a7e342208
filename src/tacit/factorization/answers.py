"""What factors and offsets say to a person: the members that stand out, by the caller's names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tacit._core.answers import Answer, Table, shown_number
from tacit._core.chains import inference_data
from tacit._core.estimates import MOST, estimates, few, intervals, strongest, texts
from tacit._core.pictures import HeatMap, Lines, Picture
from tacit.errors import ParameterError
from tacit.factorization.arrays import Arrays, Floats
from tacit.factorization.draws import DEVIATION, PRIOR, estimates_of
from tacit.privacy.promises import promise

__all__ = [
    "DEVIATION",
    "alone_answer",
    "arviz_of",
    "drawn_alone",
    "ends_only",
    "factors_answer",
    "factors_of",
    "mostly_noise",
    "offsets_table",
    "sites_answer",
]

_OTHERS = ("mean", "kinds")  # arrays of a release that are no factors
_OFFSET = " offset"
_EACH = 6  # members of a component in a table
_NO_ERRORS = "no standard errors: this method keeps one average, and neither draws nor sums"
_POSTERIOR = "standard errors are posterior ones, given what was released under its noise"
_SPREAD = (
    "standard errors are the spread of the iterates that were kept: a posterior's where settings "
    "make the dynamics a sampler, as the guide says"
)
_SHRUNK = (
    "offsets are shrunk by the known noise; standard errors count it, and sampling by a rule for "
    "how far values spread"
)


def factors_of(shared: Mapping[str, Any]) -> Arrays:
    """Return the factors among released arrays, each (rows, columns)."""
    return {
        name: np.asarray(array, np.float64).reshape(len(array), -1)
        for name, array in estimates_of(shared).items()
        if name not in _OTHERS and not name.endswith(_OFFSET) and np.ndim(array) > 1
    }


def factors_answer(
    title: str,
    factors: Mapping[str, Floats],
    deviations: Mapping[str, Floats],
    labels: Mapping[str, Sequence[Any]],
    level: float,
    note: str = _NO_ERRORS,
) -> Answer:
    """Return the members that stand out along every component, and pictures of the factors.

    Parameters
    ----------
    title
        What this is.
    factors, deviations
        Entity → (members, components), and their standard errors where they are known.
    labels
        Entity → the names of its members, where they have any.
    level
        Of the intervals.
    note
        What errors count, or why there are none.
    """
    rows: list[tuple[str, str, str, float, float | None]] = []
    pictures: dict[str, Picture] = {}
    heads = []
    for entity, table in factors.items():
        names = texts(labels.get(entity) or range(len(table)))
        spread = deviations.get(entity)
        moving = [k for k in range(table.shape[1]) if len(table) < 2 or np.ptp(table[:, k]) > 0.0]
        for k in moving:
            for j in _standing_out(table[:, k]):
                error = None if spread is None else float(spread[j, k])
                rows.append((entity, f"component {k + 1}", names[j], float(table[j, k]), error))
        if moving:
            lengths = np.linalg.norm(table[:, moving], axis=1)
            shown = np.argsort(-lengths, kind="stable")[: 3 * MOST].tolist()
            pictures[f"factor {entity}"] = HeatMap(
                f"Factor of {entity}",
                "loading",
                [names[j] for j in shown],
                [str(k + 1) for k in moving],
                table[np.ix_(shown, moving)].tolist(),
            )
            first = [names[j] for j in _standing_out(table[:, moving[0]])[:2]]
            heads.append(f"{entity} ({len(table)} members; {few(first)} lead its first component)")
    errors = [row[4] for row in rows]
    headings = "entity", "component", "member"
    columns = estimates(
        {what: [row[k] for row in rows] for k, what in enumerate(headings)},
        "loading",
        [row[3] for row in rows],
        errors if any(error is not None for error in errors) else None,
        level,
    )
    strong = Table("factors", "Members that stand out", columns, (note,))
    said = "; ".join(heads) or "nothing that varies"
    return Answer(title, f"Shared factors: {said}.", (strong,), pictures=pictures)


def _standing_out(column: Floats) -> list[int]:
    """Return the members with the largest loadings, and the smallest where some are negative."""
    if (column >= 0.0).all():
        return [int(k) for k in np.argsort(-column, kind="stable")[:_EACH]]
    return strongest(column, _EACH)


def offsets_table(
    what: str, names: Sequence[Any], values: Floats, errors: Any, level: float, **more: Any
) -> Table:
    """Return the table of all offsets, the largest first."""
    order = np.argsort(-np.asarray(values), kind="stable").tolist()
    told = None if errors is None else [float(errors[k]) for k in order]
    named = {what: [texts(names)[k] for k in order]}
    columns = estimates(named, "offset", [values[k] for k in order], told, level, **more)
    notes = (_SHRUNK,) if told is not None else ("no standard errors are part of the release",)
    return Table("offsets", f"Offsets of {what}, {100 * level:g} % intervals", columns, notes)


def mostly_noise(values: Floats, errors: Any) -> list[int]:
    """Return which shrunk numbers say little: more than half of the spread is still unknown.

    Shrunk values and their posterior variances add up to the variance of what they estimate.
    """
    if errors is None:
        return []
    own = np.square(np.asarray(errors, np.float64))
    whole = float(np.mean(np.square(values - np.mean(values)) + own))
    return [int(k) for k in np.flatnonzero(own > whole / 2.0)] if whole > 0.0 else []


def ends_only(table: Table, most: int = MOST) -> Table:
    """Return the first and last rows of a sorted table, for a picture."""
    keep = strongest(-np.arange(len(table)), most)
    columns = {name: [values[k] for k in keep] for name, values in table.columns.items()}
    return Table(table.name, table.caption, columns, table.notes)


def sites_answer(model: Any, level: float) -> Answer:
    """Return what sites learned together, of a fitted `tacit.PrivateFactorization`."""
    shared, labels = model.shared_, model.labels_
    factors = factors_of(shared)
    spread = {
        name: np.asarray(shared[name + DEVIATION]).reshape(array.shape)
        for name, array in factors.items()
        if name + DEVIATION in shared
    }
    sites = len(model.certificates_)
    title = f"A factorization of {sites} site{'s' * (sites > 1)}: {', '.join(factors)}"
    note = _NO_ERRORS
    if spread:  # an exact sampler releases the prior that it had
        note = _POSTERIOR if PRIOR in shared else _SPREAD
    found = factors_answer(title, factors, spread, labels, level, note)
    item = next((n.removesuffix(_OFFSET) for n in shared if n.endswith(_OFFSET)), None)
    return found if item is None else _with_offsets(model, found, item, level)


def _with_offsets(model: Any, found: Answer, item: str, level: float) -> Answer:
    """Return the answer with offsets in front, on the scale of the caller's values."""
    shared, bounds = model.shared_, model.bounds
    low, high = next(iter(bounds.values())) if isinstance(bounds, Mapping) else bounds
    step = (high - low) / 4.0  # values were mapped to [−2, 2]
    offsets = step * np.asarray(shared[item + _OFFSET], np.float64)
    errors = shared.get(item + _OFFSET + DEVIATION)
    errors = None if errors is None else step * np.asarray(errors, np.float64)
    names = model.labels_.get(item) or range(len(offsets))
    table = offsets_table(item, names, offsets, errors, level)
    mean = (low + high) / 2.0 + step * float(np.ravel(shared["mean"])[0])
    best, error = int(np.argmax(offsets)), None
    if errors is not None:
        error = float(errors[best])
    sure = "" if error is None else f" ± {shown_number(error, error)}"
    hidden = mostly_noise(offsets, errors)
    warned = [f"{len(hidden)} of {len(offsets)} offsets are mostly noise."] if hidden else []
    learned = int((np.ravel(shared.get("kinds", ())) == 2.0).sum())
    kept = found.tables if factors_of(shared).get(item, np.zeros((0, 0))).shape[1] else ()
    head = (
        f"The mean is {mean:.4g}; {texts(names)[best]} has the largest offset, "
        f"{shown_number(offsets[best], error)}{sure}. "
        f"{learned or 'No'} component{'s' * (learned != 1)} stood out from the noise."
    )
    picture = intervals(table.caption, "offset", ends_only(table), "offset", reference=0.0)
    return Answer(
        found.title,
        head,
        (table, *kept),
        tuple(warned),
        pictures={"offsets": picture, **found.pictures},
    )


def arviz_of(draws: Mapping[str, Any]) -> Any:
    """Return draws, factor → (draws, …), as ArviZ ``InferenceData``: one chain.

    They follow from what sites released; what a site makes of its own raw counts stays there.
    """
    if not draws:
        raise ParameterError(
            "there are no draws of the factors here: a factorization over sites makes them with "
            "method='sgld' or 'local', one of a single holder with inference='gibbs' or 'sgld'"
        )
    return inference_data({name: np.asarray(array)[None] for name, array in draws.items()})


def drawn_alone(model: Any) -> dict[str, list[Any]]:
    """Return the draws that a fitted `tacit.CoupledFactorization` kept, in the factors' shapes."""
    shapes = {name: spec.shape for name, spec in model._bound.factors.items()}
    kept = model._samples
    return {n: [one[n].reshape(shape) for one in kept] for n, shape in shapes.items() if kept}


def _deviations(model: Any) -> dict[str, Any]:
    """Return the posterior standard deviations of its factors; none of a point estimate."""
    if model.inference == "vb":
        return dict(model._state.deviations)
    drawn = drawn_alone(model)
    return {name: np.std(one, axis=0) for name, one in drawn.items() if len(one) > 1}


def alone_answer(model: Any, level: float) -> Answer:
    """Return the factors of a fitted `tacit.CoupledFactorization`: its holder's own."""
    factors = {n: np.asarray(a).reshape(len(a), -1) for n, a in model.factors_.items()}
    spread = _deviations(model)
    note = "standard errors are posterior ones" if spread else "a point estimate has no errors"
    found = factors_answer(
        f"A factorization by {model.inference}: {', '.join(factors)}",
        factors,
        {name: array.reshape(factors[name].shape) for name, array in spread.items()},
        model.labels_,
        level,
        note,
    )
    relations = {
        "relation": list(model.dispersion_),
        "dispersion": [float(value) for value in model.dispersion_.values()],
    }
    tables = (*found.tables, Table("relations", "Relations", relations))
    done = f"{model.n_iter_} iterations" + ("" if model.converged_ else ", not converged")
    if model.inference in ("gibbs", "sgld"):
        mixed = model.mixing_
        done = f"{mixed.draws} draws kept of {model.n_iter_} iterations"
        if math.isfinite(mixed.r_hat):
            done += f": R-hat {mixed.r_hat:.2f}, {mixed.effective_draws:.0f} effective draws"
            done += "" if mixed.settled else ", not mixed yet: pass more iterations"
    head = f"{found.headline} {done[0].upper()}{done[1:]}."
    history = [v for v in model.history_ if math.isfinite(v)]
    return Answer(
        found.title,
        head,
        tables,
        promise=promise({}),
        pictures={**found.pictures, **_history(history, model)},
    )


def _history(history: Sequence[float], model: Any) -> dict[str, Picture]:
    if len(history) < 2:
        return {}
    what = "objective" if model.inference == "map" else "evidence bound"
    points = [(float(k), float(v)) for k, v in enumerate(history, 1)]
    return {"history": Lines("Along the fit", "time looked at", what, {what: points})}
