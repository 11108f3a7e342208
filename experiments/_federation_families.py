"""What runs in a federation: one small case or more of every estimator that the registry knows.

An estimator that has no case here is named by `missing`, and one that a federation refuses by
`thresholds`, with the reason: a family that is added has to say how it is tried.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import TacitError
from tacit.estimators.families import estimator_names
from tacit.federation.computation import Computation
from tacit.federation.proposal import Proposal

SITES = ("A", "B", "C")
ITEMS = [f"i{k}" for k in range(6)]
WORDS = [f"w{k}" for k in range(516)]  # more than 512: the second moment is never an array

Table = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """A computation that can be proposed, and a site's data for it.

    Attributes
    ----------
    computation, settings, privacy
        As in a proposal.
    data
        A site's number → its table.
    source
        What the site's file says about the table besides where it is.
    sites
        How many sites take part.
    shares
        The trust under which noise comes in shares of a secure sum; None where every site adds
        all of its own.
    """

    computation: str
    settings: Mapping[str, Any]
    privacy: Mapping[str, Any]
    data: Callable[[int], Table]
    source: Mapping[str, Any] = field(default_factory=dict)
    sites: int = len(SITES)
    shares: str | None = None

    def proposal(self, run: str, threshold: int | None = None) -> Proposal:
        """Return it as it is proposed, without a seed."""
        return Proposal(self.computation, dict(self.settings), self._asked(threshold),
                        SITES[: self.sites], run, threshold, None, 0)  # fmt: skip

    def _asked(self, threshold: int | None) -> dict[str, Any]:
        trust = {} if threshold is None or self.shares is None else {"trust": self.shares}
        return {**self.privacy, **trust}

    def step(self, threshold: int | None) -> dict[str, Any]:
        """Return it as an entry of a coordinator's file."""
        found = {"name": "run", "computation": self.computation, "settings": dict(self.settings),
                 "privacy": self._asked(threshold), "colluding": 0}  # fmt: skip
        return found if threshold is None else found | {"threshold": threshold}

    def permission(self, table: str, threshold: int | None) -> dict[str, Any]:
        """Return what a site's file says to allow it."""
        free = ("epsilon", "delta", "unit", "neighbours", "trust")
        asked = {name: value for name, value in self._asked(threshold).items() if name in free}
        found = {"computation": self.computation, "tables": [table], "rounds": 1000,
                 "partners": self.sites, "settings": dict(self.settings),
                 "colluding": 0}  # fmt: skip
        return found | asked | ({} if threshold is None else {"threshold": threshold})


def _people(site: int) -> Table:
    rng = np.random.default_rng(site)
    age, dose = rng.uniform(20, 90, 60), rng.uniform(0, 10, 60)
    return {"age": age, "dose": dose, "pressure": 90 + age / 2 - dose + rng.normal(0, 5, 60),
            "kind": np.where(age > 55, "yes", "no"), "visits": rng.poisson(age / 30)}  # fmt: skip


def _ratings(site: int) -> Table:
    rng = np.random.default_rng(site)
    user, item = np.nonzero(rng.random((10, len(ITEMS))) < 0.6)
    return {"user": [f"{SITES[site]}{u}" for u in user], "item": [ITEMS[k] for k in item],
            "rating": rng.integers(1, 6, len(user)).astype(float)}  # fmt: skip


def _documents(site: int) -> Table:
    rng = np.random.default_rng(site)
    likely = np.zeros((2, len(WORDS)))
    likely[0, :3], likely[1, 2:6] = (0.5, 0.3, 0.2), (0.1, 0.2, 0.3, 0.4)
    counts = np.array([rng.multinomial(8, likely[k]) for k in rng.integers(0, 2, 120)])
    document, word = np.nonzero(counts)
    return {"document": document, "word": [WORDS[k] for k in word],
            "count": counts[document, word]}  # fmt: skip


def _samples(site: int) -> Table:
    rng = np.random.default_rng(site)
    means = np.array([[3.0, 0, 1], [0, 3.0, -1]])
    found = means[rng.integers(0, 2, 200)] + 0.5 * rng.standard_normal((200, 3))
    return dict(zip("xyz", found.T, strict=True))


def _numbers(site: int) -> Table:
    return {"score": np.random.default_rng(site).uniform(-6.0, 6.0, 300)}


_ROW = {"epsilon": 1.0, "delta": 1e-6, "unit": "row", "trust": "site"}
_USER = {"epsilon": 1.0, "delta": 1e-6, "unit": "user", "trust": "site"}
_ENTRY = {"epsilon": 1.0, "delta": 1e-6, "unit": "entry", "trust": "site",
          "neighbours": "replace-one"}  # fmt: skip
_CENTRAL = {"epsilon": 2.0, "delta": 1e-4, "unit": "row", "neighbours": "replace-one",
            "trust": "central"}  # fmt: skip
_NETWORK = {"inputs": ["age", "dose"], "hidden": [3], "bounds": [[20.0, 90.0], [0.0, 10.0]],
            "rows": 180, "training": {"steps": 4, "samples": 2}}  # fmt: skip
_TRAINED = {"epsilon": 4.0, "delta": 1e-5, "unit": "row", "trust": "site"}
_ONE_NUMBER = {"bounds": [-10.0, 10.0], "size": 300, "chains": 2, "draws": 50, "warmup": 50,
               "population": "UniformWidth",
               "prior": {"name": "Gamma", "a": 9.0, "b": 0.7}}  # fmt: skip
_FACTORS = {"model": {"ratings": "user:k item:k"}, "rank": 2, "bounds": [1.0, 5.0],
            "entities": {"item": ITEMS}}  # fmt: skip
_SPECTRAL = {"epsilon": 10.0, "delta": 1e-5, "unit": "document", "trust": "site"}

_TWO = {"bounds": {"dose": [0.0, 10.0], "age": [18.0, 100.0]}}

CASES: dict[str, Case] = {
    "summary": Case("summary", {"bounds": {"age": [18.0, 100.0], "dose": [0.0, 10.0]},
                                "statistics": ["count", "mean"]}, _ROW, _people),
    "regression": Case("regression", {"bounds": {"dose": [0.0, 10.0], "age": [18.0, 100.0]},
                                      "y_bounds": [0.0, 200.0], "target": "pressure",
                                      "method": "Bayes-fixedS-fast"}, _ROW, _people,
                       shares="aggregator"),
    "logistic regression": Case("logistic-regression", {**_TWO, "target": "kind",
                                                        "classes": ["no", "yes"]}, _ROW, _people,
                                shares="aggregator"),
    "poisson regression": Case("poisson-regression", {**_TWO, "target": "visits",
                                                      "y_bounds": [0, 12]}, _ROW, _people,
                               shares="aggregator"),
    "topics of 516 words": Case("topics", {"topics": 2, "vocabulary": WORDS}, _SPECTRAL,
                                _documents, {"value": "count"}, shares="aggregator"),
    "mixture": Case("mixture", {"components": 2, "radius": 6.0, "features": 3,
                                "columns": ["x", "y", "z"]},
                    {**_SPECTRAL, "epsilon": 20.0, "unit": "row"}, _samples, shares="aggregator"),
    "factorization by sgld": Case("factorization", {**_FACTORS, "method": "sgld",
                                                    "options": {"rounds": 4}}, _USER, _ratings,
                                  {"value": "rating"}),
    "factorization by als": Case("factorization", {**_FACTORS, "method": "als",
                                                   "options": {"rounds": 1}}, _ENTRY, _ratings,
                                 {"value": "rating"}),
    "factorization by offsets": Case("factorization", {**_FACTORS, "method": "offsets"}, _ENTRY,
                                     _ratings, {"value": "rating"}),
    "factorization by local counts": Case("factorization", {**_FACTORS, "method": "local",
                                                            "divergence": "kl", "members": 10},
                                          {**_ENTRY, "epsilon": 20.0, "delta": 0.0}, _ratings,
                                          {"value": "rating"}),
    "recommender": Case("recommender", {"bounds": [1.0, 5.0], "rank": 2, "items": ITEMS}, _ENTRY,
                        _ratings, {"value": "rating"}, shares="aggregator"),
    "posterior": Case("posterior", {**_ONE_NUMBER, "statistic": "median |x|", "particles": 5},
                      _CENTRAL, _numbers, {"value": "score"}, sites=1),
    "selector": Case("selector", {**_ONE_NUMBER, "candidates": ["|x|^0.1", "|x|", "|x|^2"],
                                  "first_statistic": "|x|"}, _CENTRAL, _numbers,
                     {"value": "score"}, sites=1),
    "network classifier": Case("network-classifier", {**_NETWORK, "target": "kind",
                                                      "classes": ["no", "yes"]}, _TRAINED,
                               _people),
    "network regressor": Case("network-regressor", {**_NETWORK, "target": "pressure",
                                                    "y_bounds": [0.0, 200.0]}, _TRAINED, _people),
}  # fmt: skip


def missing() -> list[str]:
    """Return the estimators of the registry that have no case."""
    return sorted(set(estimator_names()) - {case.computation for case in CASES.values()})


@cache
def thresholds(name: str) -> dict[int | None, str | None]:
    """Return None (in clear) and every threshold of a secure sum → why it is refused, or None."""
    found: dict[int | None, str | None] = {}
    case = CASES[name]
    for threshold in (None, *range(2, case.sites + 1)):
        try:
            Computation(case.proposal("try", threshold)).event()
            found[threshold] = None
        except TacitError as error:
            found[threshold] = str(error)
    return found


def toml(value: Any) -> str:
    """Return a value in TOML's inline form."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{k}" = {toml(v)}' for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def write_data(folder: Path, site: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Write a site's tables; return what its file says of them, and what it allows."""
    sources, allowed = {}, []
    for number, (label, case) in enumerate(CASES.items()):
        name, place = f"t{number}", SITES.index(site)
        table = case.data(place)
        rows = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
        (folder / f"{name}.csv").write_text("\n".join([",".join(table), *rows]) + "\n")
        sources[name] = {"file": f"{name}.csv", **case.source}
        ways = [t for t, why in thresholds(label).items() if why is None]
        allowed += [case.permission(name, threshold) for threshold in ways]
    return sources, allowed
