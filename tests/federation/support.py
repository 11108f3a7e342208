"""A small federation for tests: three sites with files of their own, and a transport of bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import tacit as tc
from tacit.data.relations import Relation
from tacit.factorization import Langevin
from tacit.federation.files import SiteConfig
from tacit.federation.service import SiteService

from .identities import identity, pinned, pinned_toml

SITES = ("North", "South", "West")
PINNED = pinned(SITES)
ROW = {"epsilon": 1.0, "delta": 1e-6, "unit": "row", "trust": "site"}
USER = {"epsilon": 1.0, "delta": 1e-6, "unit": "user", "trust": "site"}
REGRESSION = {
    "bounds": {"dose": [0.0, 10.0], "age": [18.0, 100.0]}, "y_bounds": [0.0, 200.0],
    "target": "pressure",
}  # fmt: skip
INFERENCE = {"method": "Bayes-fixedS-fast"}
ITEMS = 8
FACTORIZATION = {
    "model": {"ratings": "user:k item:k"}, "rank": 2, "bounds": [1.0, 5.0], "method": "sgld",
    "options": {"rounds": 4}, "entities": {"item": [f"i{k}" for k in range(ITEMS)]},
}  # fmt: skip


def patients(site: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(SITES.index(site))
    age, dose = rng.uniform(20, 90, 300), rng.uniform(0, 10, 300)
    return {"age": age, "dose": dose, "pressure": 90 + age / 2 - dose + rng.normal(0, 5, 300)}


def ratings(site: str) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(10 + SITES.index(site))
    user, item = np.nonzero(rng.random((30, ITEMS)) < 0.5)
    return {
        "user": np.array([f"{site} {u:02d}" for u in user]),
        "item": np.array([f"i{k}" for k in item]),
        "rating": rng.integers(1, 6, len(user)).astype(float),
    }


def write_csv(path: Path, table: dict[str, np.ndarray]) -> None:
    rows = [",".join(map(str, row)) for row in zip(*table.values(), strict=True)]
    path.write_text("\n".join([",".join(table), *rows]) + "\n")


def toml(value) -> str:
    """Return a value in TOML's inline form."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{k}" = {toml(v)}' for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else f'"{value}"'


def permission(kind: str) -> dict:
    if kind == "regression":
        return {
            "computation": kind, "epsilon": 1.0, "delta": 1e-6, "unit": "row", "rounds": 1,
            "partners": 2, "seeded": True, "tables": ["patients"], "settings": REGRESSION,
            "colluding": 0,
        }  # fmt: skip
    return {
        "computation": kind, "epsilon": 1.0, "delta": 1e-6, "unit": "user", "rounds": 16,
        "partners": 2, "seeded": True, "tables": ["ratings"], "settings": FACTORIZATION,
        "colluding": 0,
    }  # fmt: skip


def site_file(
    folder: Path, site: str, *, epsilon=2.0, extra: str = "", known: bool = True, **changes
) -> Path:
    """Write a site's data and its file; ``changes`` are made to both permissions.

    ``known`` says whether the site gets an identity here and has pinned those of the others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "patients.csv", patients(site))
    write_csv(folder / "ratings.csv", ratings(site))
    data = {
        "patients": {"file": "patients.csv"},
        "ratings": {"file": "ratings.csv", "value": "rating"},
    }
    allow = [permission(kind) | changes for kind in ("regression", "factorization")]
    path = folder / "site.toml"
    ledger = {"file": "ledger.db", "epsilon": epsilon, "delta": 1e-5}
    ledger |= {"unit": "user", "most": {"row": 1}}  # a patient has one row
    path.write_text(
        f'name = "{site}"\n{identified(folder, site) if known else ""}{extra}\n'
        f"ledger = {toml(ledger)}\n"
        f"data = {toml(data)}\nallow = {toml(allow)}\n"
    )
    return path


def ready(path: Path) -> SiteService:
    """Return the service of a site's file, with its ledger created."""
    config = SiteConfig.read(path)
    config.create_ledger()
    return SiteService(config)


def identified(folder: Path, site: str) -> str:
    """Write a site's identity; return the lines of its file about that."""
    (folder / "identity.key").write_text(identity(site).hex() + "\n")
    return f'identity = "identity.key"\npartners = {pinned_toml(SITES)}\n'


def services(folder: Path, **options) -> dict[str, SiteService]:
    return {site: ready(site_file(folder / site, site, **options)) for site in SITES}


class Direct:
    """Carries bytes to services in this process; ``fault`` may change what comes back."""

    def __init__(self, found, fault=None):
        self.services, self.fault, self.calls = found, fault, []

    def call(self, method, body, names, timeout):
        for name in names:
            self.calls.append((method, name))
            try:
                own = body if isinstance(body, bytes) else body[name]
                answer = self.services[name].call(method, own)
                if self.fault is not None:
                    answer = self.fault(method, name, own, answer)
                yield name, answer
            except Exception as error:
                yield name, error


def regression_in_one_process(seed: int):
    model = tc.PrivateLinearRegression(
        bounds={n: tuple(p) for n, p in REGRESSION["bounds"].items()},
        y_bounds=tuple(REGRESSION["y_bounds"]), target="pressure", random_state=seed,
        privacy=tc.Privacy(**ROW), **INFERENCE,
    )  # fmt: skip
    return model.fit([tc.Site(name, patients(name)) for name in SITES])


def factorization_in_one_process(seed: int):
    labels = {"item": FACTORIZATION["entities"]["item"]}
    sites = [
        tc.Site(
            name, Relation.from_frame(ratings(name), ["user", "item"], "rating", labels=labels)
        )
        for name in SITES
    ]
    model = tc.PrivateFactorization(
        FACTORIZATION["model"], rank=2, bounds=(1.0, 5.0), privacy=tc.Privacy(**USER),
        method=Langevin(rounds=4), random_state=seed,
    )  # fmt: skip
    return model.fit(sites)
