"""Fitted factorizations as files: arrays and JSON, never pickle."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from scipy import sparse

from tacit.data.written import read_names, written_names
from tacit.errors import ParameterError, VerificationFailed
from tacit.factorization.alone.mixing import Mixing
from tacit.factorization.alone.numerics.gibbs import GibbsState
from tacit.factorization.alone.numerics.langevin import LangevinState
from tacit.factorization.alone.numerics.multiplicative import UpdateState
from tacit.factorization.alone.numerics.normal_gibbs import NormalState
from tacit.factorization.alone.numerics.normal_prior import Components
from tacit.factorization.alone.numerics.normal_variational import Columns, NormalBayesState
from tacit.factorization.alone.numerics.variational import VariationalState
from tacit.factorization.alone.stated import Factor
from tacit.factorization.language.binding import empty_relation
from tacit.factorization.language.structure import CoupledModel, FromData

__all__ = ["read_factorization", "write_factorization"]


def write_factorization(fitted: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted `tacit.CoupledFactorization`."""
    if isinstance(fitted.model, CoupledModel):
        raise ParameterError("pass the forms as text to save a model")
    state, method = fitted._state, fitted.inference
    arrays: dict[str, Any] = {}
    if isinstance(state, NormalBayesState):
        arrays = {f"mean/{n}": v for n, v in state.means.items()}
        arrays |= {f"covariance/{n}": v for n, v in state.covariances.items()}
        for n, q in state.columns.items():
            arrays |= {f"column/{what}/{n}": v for what, v in q._asdict().items()}
    elif method == "vb":
        arrays = {f"shape/{n}": v for n, v in state.shapes.items()}
        arrays |= {f"scale/{n}": v for n, v in state.scales.items()}
        arrays |= {f"pull/{n}": v for n, v in (state.pulls or {}).items()}
    else:
        arrays = {f"factor/{n}": v for n, v in state.factors.items()}
        for n, prior in getattr(state, "components", {}).items():
            arrays |= {f"component/{what}/{n}": v for what, v in prior._asdict().items()}
        for k, sample in enumerate(fitted._samples):
            arrays |= {f"sample/{k:06d}/{n}": v for n, v in sample.items()}
    settings = {
        "format": 4,
        "parameters": _written(fitted.get_params(deep=False)),
        "penalties": vars(fitted).get("_penalties", {}),
        "labels": {entity: written_names(names) for entity, names in fitted.labels_.items()},
        "columns": fitted._columns,
        "dispersion": fitted.dispersion_,
        "entities": {r.name: list(r.entities) for r in fitted._bound.relations},
        "rows": {
            mode: fitted._bound.factors[name].rows
            for r in fitted._bound.relations
            for mode, name in zip(r.entities, r.factors, strict=False)
        },
        "reach": state.reach if method == "map" else None,
        "noise": [dict(getattr(state, "dispersions", {})), fitted._noises],
        "learned": sorted(fitted._learned),
        "steps": getattr(state, "steps", 0),
        "mixing": list(fitted.mixing_),
        "prior": [dict(getattr(state, f"prior_{what}", {})) for what in ("shape", "mean")],
        "q": dict(getattr(state, "noise", {})),
        "history": fitted.history_,
        "n_iter": fitted.n_iter_,
        "converged": fitted.converged_,
    }
    text = np.frombuffer(json.dumps(settings, default=_plain).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, settings=text, **arrays)
    Path(path).write_bytes(buffer.getvalue())


def read_factorization(kind: Any, path: str | os.PathLike[str]) -> Any:
    """Read what `write_factorization` wrote, as an estimator of the given class."""
    try:
        with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        settings = json.loads(bytes(arrays.pop("settings")))
        if settings["format"] != 4:
            raise ValueError(f"format {settings['format']} is unknown here")
    except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
        raise VerificationFailed(f"{path} is not a saved factorization: {error}") from None
    parameters = settings["parameters"]
    fitted = kind(**_read(parameters))
    fitted._forget()
    fitted._penalties = {n: tuple(pair) for n, pair in settings.get("penalties", {}).items()}
    fitted.dispersion_ = {name: FromData(phi) for name, phi in settings["dispersion"].items()}
    rows = settings["rows"]
    empty = {
        name: empty_relation(entities, [rows[e] for e in entities])
        for name, entities in settings["entities"].items()
    }
    fitted._bound = fitted.coupled_model().bind(empty)
    fitted.labels_ = {e: read_names(names) for e, names in settings["labels"].items()}
    fitted._columns = settings.get("columns", {})
    fitted._method = fitted.inference
    fitted.history_, fitted.n_iter_ = settings["history"], settings["n_iter"]
    fitted.converged_ = settings["converged"]
    keys = sorted({key.split("/")[1] for key in arrays if key.startswith("sample/")})
    names = list(fitted._bound.factors)
    fitted._samples = [{n: arrays[f"sample/{k}/{n}"] for n in names} for k in keys]
    fitted._learned, fitted._noises = frozenset(settings["learned"]), settings["noise"][1]
    fitted.mixing_ = Mixing(*settings["mixing"])
    fitted._state = _state(fitted.inference, arrays, names, settings)
    fitted._publish()
    return fitted


def _state(method: str, arrays: dict[str, Any], names: list[str], settings: Any) -> Any:
    """Return the state of a method from its arrays."""
    if settings["q"]:
        means, covariances = (
            {n: arrays[f"{part}/{n}"] for n in names} for part in ("mean", "covariance")
        )
        columns = {
            n: Columns(*(arrays[f"column/{what}/{n}"] for what in Columns._fields)) for n in names
        }
        noise = {n: (shape, rate) for n, (shape, rate) in settings["q"].items()}
        return NormalBayesState(means, covariances, columns, noise)
    if method == "vb":
        shapes, scales = ({n: arrays[f"{part}/{n}"] for n in names} for part in ("shape", "scale"))
        pulls = {n: arrays[f"pull/{n}"] for n in names if f"pull/{n}" in arrays}
        shape, mean = settings["prior"]
        return VariationalState(shapes, scales, shape, mean, pulls or None)
    factors = {n: arrays[f"factor/{n}"] for n in names}
    components = {
        n: Components(*(arrays[f"component/{what}/{n}"] for what in Components._fields))
        for n in names
        if f"component/mean/{n}" in arrays
    }
    noise = settings["noise"][0]
    if method == "sgld":
        return LangevinState(factors, components, noise, settings["steps"])
    if method == "gibbs":
        return NormalState(factors, components, noise) if components else GibbsState(factors)
    return UpdateState(factors, settings["reach"])


def _written(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as JSON can hold them: what is known of factors, as its fields."""
    found = dict(parameters)
    if isinstance(found["prior"], Mapping):
        found["prior"] = {name: _fields(one) for name, one in found["prior"].items()}
    real = found["real_factors"]
    if isinstance(real, set | frozenset):
        found["real_factors"] = sorted(real)
    return found


def _fields(entry: Any) -> Any:
    """Return an entry of ``prior`` for JSON; weights between members as their cells."""
    if not isinstance(entry, Factor):
        return entry
    smooth = entry.smooth
    if isinstance(smooth, tuple | list):
        cells = sparse.coo_array(smooth[0])
        weights = {"shape": cells.shape, "values": cells.data.tolist()}
        smooth = [weights | {"cells": [axis.tolist() for axis in cells.coords]}, smooth[1]]
    fixed = entry.fixed
    if isinstance(fixed, Mapping):  # by member, in the order of names
        fixed = {"members": written_names(list(fixed)), "rows": np.array(list(fixed.values()))}
    return {"prior": entry.prior, "fixed": fixed, "smooth": smooth}


def _read(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return parameters as they were before `_written`; JSON knows no tuples."""
    prior = parameters.get("prior")
    if isinstance(prior, dict):
        parameters["prior"] = {name: _entry(one) for name, one in prior.items()}
    elif isinstance(prior, list):
        parameters["prior"] = tuple(prior)
    return parameters


def _entry(fields: Any) -> Any:
    """Return an entry of ``prior`` from what `_fields` made of it."""
    if isinstance(fields, list):
        return tuple(fields)
    pair, fixed, smooth = (fields[name] for name in ("prior", "fixed", "smooth"))
    if isinstance(fixed, dict):
        fixed = dict(zip(read_names(fixed["members"]), fixed["rows"], strict=True))
    if isinstance(smooth, list):
        weights, strength = smooth
        cells = weights["values"], tuple(np.array(axis, int) for axis in weights["cells"])
        smooth = sparse.coo_array(cells, shape=tuple(weights["shape"])), strength
    return Factor(None if pair is None else tuple(pair), fixed, smooth)


def _plain(value: Any) -> Any:
    """Return what JSON can hold for a NumPy number."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise ParameterError(f"a parameter of type {type(value).__name__} cannot be saved")
