"""Every federated computation over bytes in one process: the bytes of all answers of sites."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import numpy as np

from tacit.federation.coordinate import run_proposal
from tacit.federation.files import SiteConfig
from tacit.federation.proposal import Proposal
from tacit.federation.service import SiteService
from tests.federation.identities import identity, pinned, pinned_toml

from .cases import Results, cases, fitted

SITES = ("North", "South", "West")
WORDS = [f"w{k}" for k in range(6)]
ITEMS = [f"i{k}" for k in range(8)]


# --- data, as columns ---------------------------------------------------------------------------


def patients(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    age, dose = rng.uniform(20, 90, 200), rng.uniform(0, 10, 200)
    return {"age": age, "dose": dose, "pressure": 90 + age / 2 - dose + rng.normal(0, 5, 200)}


def ratings(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(10 + seed)
    user, item = np.nonzero(rng.random((30, len(ITEMS))) < 0.5)
    return {"user": np.array([f"{SITES[seed]}{u:02d}" for u in user]),
            "item": np.array(ITEMS)[item],
            "value": rng.integers(1, 6, len(user)).astype(float),
            "openness": np.array([1.0, 0.25])[user % 2]}  # fmt: skip


def documents(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    topics = np.array([[0.5, 0.3, 0.2, 0, 0, 0], [0, 0, 0.1, 0.2, 0.3, 0.4]])
    table = np.array([rng.multinomial(8, topics[k]) for k in rng.integers(0, 2, 300)])
    document, word = np.nonzero(table)
    return {"document": document, "word": np.array(WORDS)[word], "value": table[document, word]}


def samples(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    means = np.array([[3.0, 0, 1], [0, 3.0, -1]])
    found = means[rng.integers(0, 2, 400)] + 0.5 * rng.standard_normal((400, 3))
    return dict(zip("xyz", found.T, strict=True))


# --- sites with files of their own -----------------------------------------------------------


def toml(value) -> str:
    """Return a value in TOML's inline form."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{k}" = {toml(v)}' for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else f'"{value}"'


def service(home: Path, site: str, data, kind: str, settings, privacy) -> SiteService:
    """Write a site's table and its file; return its service."""
    home.mkdir()
    table = data(SITES.index(site))
    rows = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    (home / "t.csv").write_text("\n".join([",".join(table), *rows]) + "\n")
    source: dict = {"file": "t.csv"} | ({"value": "value"} if "value" in table else {})
    if kind == "recommender":
        source["columns"] = {"weight": "openness"}
    allow = {"computation": kind, "epsilon": 50.0, "delta": 1e-4, "unit": privacy["unit"],
             "rounds": 100, "partners": 2, "seeded": True, "settings": settings,
             "colluding": 0}  # fmt: skip
    (home / "identity.key").write_text(identity(site).hex())
    ledger = {"file": "l.db", "epsilon": 60.0, "delta": 1e-3}
    (home / "site.toml").write_text(
        f'name = "{site}"\nidentity = "identity.key"\npartners = {pinned_toml(SITES)}\n'
        f"ledger = {toml(ledger)}\ndata = {toml({'t': source})}\n"
        f"allow = [{toml(allow)}]\n"
    )
    return SiteService(SiteConfig.read(home / "site.toml"))


class Wire:
    """Carries bytes to services in this process, and keeps digests of what comes back."""

    def __init__(self, services: dict[str, SiteService], lost=None) -> None:
        self.services, self.answers = services, {}
        self.lost, self.asked = lost, 0  # who is gone from its how many-th reply on

    def call(self, method, body, names, timeout):
        for name in names:
            if method == "respond" and self.lost is not None and name == self.lost[0]:
                self.asked += 1
                if self.asked > self.lost[1]:
                    yield name, TimeoutError()
                    continue
            own = body if isinstance(body, bytes) else body[name]
            answer = self.services[name].call(method, own)
            if method != "close":  # a certificate names its ledger, which has a random name
                digest = self.answers.setdefault(f"{method} {name}", hashlib.sha256())
                digest.update(bytes(answer))
            yield name, answer


# --- the computations ------------------------------------------------------------------------

REGRESSION = {
    "bounds": {"dose": [0.0, 10.0], "age": [18.0, 100.0]}, "y_bounds": [0.0, 200.0],
    "target": "pressure",
}  # fmt: skip
FACTORIZATION = {
    "model": {"t": "user:k item:k"}, "rank": 2, "bounds": [1.0, 5.0],
    "entities": {"item": ITEMS},
}  # fmt: skip
RECOMMENDER = {"bounds": [1.0, 5.0], "rank": 2, "items": ITEMS, "item_weights": [1.0, 0.5] * 4}
TOPICS = {"topics": 2, "vocabulary": WORDS}
MIXTURE = {"components": 2, "radius": 6.0, "features": 3, "columns": ["x", "y", "z"]}
LANGEVIN = FACTORIZATION | {"method": "sgld", "options": {"rounds": 3}}
LOCAL = FACTORIZATION | {
    "method": "local", "divergence": "kl", "options": {"burn_in": 3, "draws": 3, "thin": 1},
}  # fmt: skip


def row(epsilon=1.0, **more):
    return {"epsilon": epsilon, "delta": 1e-5, "unit": "row", "trust": "site", **more}


@cases(
    "federated",
    {
        "regression": {"kind": "regression", "data": patients, "privacy": row(),
                       "settings": REGRESSION | {"method": "Bayes-fixedS-fast"}},
        "regression replace": {
            "kind": "regression", "data": patients, "privacy": row(neighbours="replace-one"),
            "settings": REGRESSION | {"chains": 2, "draws": 30, "warmup": 30},
        },
        "factorization als": {"kind": "factorization", "data": ratings,
                              "settings": FACTORIZATION | {"method": "als"},
                              "privacy": row(unit="user")},
        "factorization als entry": {"kind": "factorization", "data": ratings,
                                    "settings": FACTORIZATION | {"method": "als"},
                                    "privacy": row(unit="entry")},
        "factorization langevin": {"kind": "factorization", "data": ratings,
                                   "settings": LANGEVIN, "privacy": row(unit="user")},
        "factorization langevin entry": {"kind": "factorization", "data": ratings,
                                         "settings": LANGEVIN, "privacy": row(unit="entry")},
        "factorization langevin secure": {"kind": "factorization", "data": ratings,
                                          "settings": LANGEVIN, "privacy": row(unit="user"),
                                          "threshold": 2},
        "factorization als secure": {"kind": "factorization", "data": ratings,
                                     "settings": FACTORIZATION | {"method": "als"},
                                     "privacy": row(unit="user"), "threshold": 2},
        "factorization local": {"kind": "factorization", "data": ratings, "settings": LOCAL,
                                "privacy": row(2.0, unit="entry", delta=0.0)},
        "recommender": {"kind": "recommender", "data": ratings, "settings": RECOMMENDER,
                        "privacy": row(unit="entry")},
        "recommender secure": {"kind": "recommender", "data": ratings, "settings": RECOMMENDER,
                               "privacy": row(unit="entry", trust="aggregator"), "threshold": 3},
        "topics": {"kind": "topics", "data": documents, "settings": TOPICS,
                   "privacy": row(10.0, unit="document")},
        "topics secure": {"kind": "topics", "data": documents, "settings": TOPICS,
                          "privacy": row(10.0, unit="document", trust="aggregator"),
                          "threshold": 3},
        "mixture": {"kind": "mixture", "data": samples, "settings": MIXTURE,
                    "privacy": row(20.0)},
        "mixture secure": {"kind": "mixture", "data": samples, "settings": MIXTURE,
                           "privacy": row(20.0, trust="aggregator"), "threshold": 3},
    },
)  # fmt: skip
def federated(kind, data, settings, privacy, threshold=None) -> Results:
    proposal = Proposal(kind, settings, privacy, SITES, "run", threshold, 7, 0)
    with tempfile.TemporaryDirectory() as folder:
        wire = wired(Path(folder), data, kind, settings, privacy)
        result = run_proposal(proposal, wire, partners=pinned(SITES))
    return outcome(result, wire, threshold)


def wired(folder: Path, data, kind, settings, privacy, lost=None) -> Wire:
    return Wire(
        {site: service(folder / site, site, data, kind, settings, privacy) for site in SITES},
        lost,
    )


def outcome(result, wire, threshold=None) -> Results:
    answers = {name: digest.hexdigest() for name, digest in wire.answers.items()}
    if threshold is not None:  # masks are drawn anew in every run
        answers = {name: text for name, text in answers.items() if not name.startswith("respond")}
    return fitted(result.model, outcome=result.outcome, answers=answers)


# --- sites that are lost, and coordinators that die --------------------------------------------

RUNS = {
    "regression": {"kind": "regression", "data": patients, "privacy": row(),
                   "settings": REGRESSION | {"method": "Bayes-fixedS-fast"}},
    "als": {"kind": "factorization", "data": ratings, "privacy": row(unit="user"),
            "settings": FACTORIZATION | {"method": "als"}},
    "als entry": {"kind": "factorization", "data": ratings, "privacy": row(unit="entry"),
                  "settings": FACTORIZATION | {"method": "als"}},
    "langevin": {"kind": "factorization", "data": ratings, "privacy": row(unit="user"),
                 "settings": LANGEVIN},
    "langevin entry": {"kind": "factorization", "data": ratings, "privacy": row(unit="entry"),
                       "settings": LANGEVIN},
    "local": {"kind": "factorization", "data": ratings, "settings": LOCAL,
              "privacy": row(2.0, unit="entry", delta=0.0)},
    "recommender": {"kind": "recommender", "data": ratings, "settings": RECOMMENDER,
                    "privacy": row(unit="entry")},
    "topics": {"kind": "topics", "data": documents, "settings": TOPICS,
               "privacy": row(10.0, unit="document")},
    "mixture": {"kind": "mixture", "data": samples, "settings": MIXTURE, "privacy": row(20.0)},
}  # fmt: skip


@cases(
    "federated",
    {
        f"{name} without {lost[0]} from {lost[1]}": {**RUNS[name], "lost": lost}
        for name in ("regression", "als", "als entry", "langevin", "langevin entry", "topics",
                     "mixture")
        for lost in (("West", 0), ("South", 1))
        if not (name == "regression" and lost[1])
    }
    | {
        "langevin secure without West from 6": {
            **RUNS["langevin"], "lost": ("West", 6), "threshold": 2,
        },
    },
)  # fmt: skip
def without(kind, data, settings, privacy, lost, threshold=None) -> Results:
    proposal = Proposal(kind, settings, privacy, SITES, "run", threshold, 7, 0)
    with tempfile.TemporaryDirectory() as folder:
        wire = wired(Path(folder), data, kind, settings, privacy, lost)
        result = run_proposal(proposal, wire, on_failure="exclude", partners=pinned(SITES))
    return outcome(result, wire, threshold)


class Gone(Exception):
    """The coordinator is gone."""


@cases(
    "federated",
    {f"{name} resumed": options for name, options in RUNS.items() if name != "regression"}
    | {"langevin secure resumed": {**RUNS["langevin"], "threshold": 2}},
)
def resumed(kind, data, settings, privacy, threshold=None) -> Results:
    proposal = Proposal(kind, settings, privacy, SITES, "run", threshold, 7, 0)

    def stop(record):
        if record.rounds == 1:
            raise Gone

    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "checkpoint"
        wire = wired(Path(folder), data, kind, settings, privacy)
        try:
            run_proposal(proposal, wire, checkpoint=kept, progress=stop, partners=pinned(SITES))
        except Gone:
            result = run_proposal(proposal, wire, checkpoint=kept, partners=pinned(SITES))
    return outcome(result, wire, threshold)
