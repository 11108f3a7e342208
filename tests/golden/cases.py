"""The register of cases, and what is taken down of a fitted estimator."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

FAMILIES = (
    "mechanisms", "summary", "regression", "posterior", "moments", "factorization", "sites",
    "recommender", "networks", "planning", "federated", "releases", "audits",
)  # fmt: skip

Results = dict[str, Any]
CASES: dict[str, Callable[[], Results]] = {}


def cases(family: str, variants: Mapping[str, Mapping[str, Any]]) -> Callable[[Any], Any]:
    """Register a function as one case for each variant, which gives its keyword arguments."""

    def register(function: Callable[..., Results]) -> Callable[..., Results]:
        for name, options in variants.items():
            full = f"{family}/{name}"
            assert full not in CASES, full
            CASES[full] = lambda options=options: function(**options)
        return function

    return register


def case(name: str) -> Callable[[Any], Any]:
    """Register a function without arguments as one case."""
    family, own = name.split("/", 1)
    return cases(family, {own: {}})


def load() -> dict[str, Callable[[], Results]]:
    """Return all cases by name; a family that cannot be imported is one case that raises."""
    for family in FAMILIES:
        try:
            importlib.import_module(f"tests.golden.{family}")
        except Exception as error:

            def fail(error: Exception = error) -> Results:
                raise error

            CASES[f"{family}/import"] = fail
    return CASES


# --- what is taken down ---------------------------------------------------------------------

# fitted attributes that hold no released number, or are how the inside is built
_INSIDE = {
    "agreement_", "certificate_", "certificates_", "design_", "method_", "module_", "parts_",
    "plan_", "problem_", "record_", "selected_", "summaries_", "task_", "training_",
}  # fmt: skip
# fitted attributes that are objects: what of them is public
_OBJECTS = {
    "posterior_": ("draws", "noise_variance", "diagnostics", "sampler", "method"),
    "released_": ("values", "bounds", "size", "local"),
    "releases_": ("values", "bounds", "size", "local"),
    "result_": ("final", "average", "samples", "steps", "lost"),
    "history_": ("step", "epsilon", "signal"),
    "failures_": ("round", "site", "reason"),
    "ranking_": ("prior_variance", "request", "parameters", "advice"),
}
_MOMENTS = (
    "gram", "cross", "rows", "square", "gram_sd", "cross_sd", "square_sd", "rows_sd",
)  # fmt: skip
_CERTIFICATE = (
    "epsilon", "delta", "unit", "neighbours", "trust", "against", "assumptions", "event",
    "accountant", "groups", "calibration", "claimed_epsilon", "claim", "holder",
)  # fmt: skip


def parts_of(value: Any, names: tuple[str, ...]) -> Any:
    """Return named attributes of an object (or of each in a list) that it has."""
    if isinstance(value, list | tuple):
        return [parts_of(part, names) for part in value]
    if isinstance(value, Mapping | np.ndarray | int | float | str | bool):
        return value
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def certificate(found: Any) -> Results:
    """Return what a certificate says, without where it was charged."""
    data = json.loads(found.to_json())
    return {name: json.dumps(data[name], ensure_ascii=False, sort_keys=True)
            for name in _CERTIFICATE}  # fmt: skip


def fitted(model: Any, **more: Any) -> Results:
    """Return all public results of a fitted estimator, its certificates, and more by name."""
    results: Results = {}
    for name, value in vars(model).items():
        if name.endswith("_") and not name.startswith("_") and name not in _INSIDE:
            results[name] = parts_of(value, _OBJECTS[name]) if name in _OBJECTS else value
    for site, summary in getattr(model, "summaries_", {}).items():
        results[f"summary of {site}"] = parts_of(summary.moments, _MOMENTS)
    certificates = getattr(model, "certificates_", None) or (
        {"the data": model.certificate_} if hasattr(model, "certificate_") else {}
    )
    for site, found in certificates.items():
        results[f"certificate of {site}"] = certificate(found)
    if hasattr(model, "record_"):
        results["rounds"] = parts_of(model.record_, ("rounds", "sites", "bytes_received"))
    return results | more
