"""What a family that is no part of tacit can do: one function for each capability.

Run as ``python -m benchmarks._house.capabilities FOLDER PACKAGE``, with the package's folder on
PYTHONPATH, in a process of its own; prints name → "" or why it fails, as JSON.
"""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tacit.estimators.families import estimator_of
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger

NAME, CATEGORIES, ROWS = "toy-counts", ["a", "b", "c"], 300
SITES = ("North", "South")


class World:
    """A folder, the plug-in, and what earlier capabilities left behind."""

    def __init__(self, folder: Path, package: str, method: str = "geometric") -> None:
        self.folder, self.package, self.method = folder, package, method
        self.kind = estimator_of(NAME, [package])
        self.ledger = Ledger.open(folder / "own.db", epsilon=4.0, delta=1e-5)
        rng = np.random.default_rng(0)
        self.rows = [CATEGORIES[k] for k in rng.integers(3, size=ROWS)]

    def model(self, ledger: Any = None) -> Any:
        """Return an estimator of the plug-in."""
        delta = 0.0 if self.method == "geometric" else 1e-6
        request = Privacy(1.0, delta, unit="row")
        return self.kind(CATEGORIES, method=self.method, privacy=request, ledger=ledger)


def prices(world: World) -> None:
    """`price` says what a fit costs, and changes nothing."""
    found = world.model(world.ledger).price()
    assert found.affordable and 0.99 < found.sites[0].epsilon <= 1.0, str(found)
    assert world.ledger.spent.epsilon == 0.0


def fits(world: World) -> None:
    """`fit` gives counts near the real ones, and a certificate."""
    world.fitted = world.model(world.ledger).fit({"kind": world.rows})
    real = {name: world.rows.count(name) for name in CATEGORIES}
    assert all(abs(world.fitted.counts_[name] - n) < 60 for name, n in real.items())
    assert 0.99 < world.fitted.certificate_.epsilon <= 1.0


def charged(world: World) -> None:
    """The fit is in the ledger, and the ledger ends."""
    from tacit.errors import BudgetExceeded

    assert 0.99 < world.ledger.spent.epsilon <= 1.0 + 1e-9
    poor = Ledger.memory(epsilon=0.5, delta=1e-5)
    try:
        world.model(poor).fit({"kind": world.rows})
    except BudgetExceeded:
        return
    raise AssertionError("a ledger of ε = 0.5 paid for ε = 1")


def released(world: World) -> None:
    """`release` writes arrays and certificates."""
    world.fitted.release(world.folder / "release")
    assert (world.folder / "release" / "manifest.json").exists()


def read_back(world: World) -> None:
    """`from_release` gives the same counts, verified."""
    again = world.kind.from_release(world.folder / "release")
    assert again.counts_ == world.fitted.counts_


def audited(world: World) -> None:
    """`audit` needs no data: the worst case follows from the agreement."""
    from tacit.audit.attack import audit

    found = audit(world.model(), runs=4000, confidence=0.999)
    assert found.holds, str(found)
    assert found.attacked > 0.1, str(found)


def planned(world: World) -> None:
    """`plan` finds the ε that a wanted error needs."""
    from tacit.planning import Facts, plan

    found = plan(NAME, "epsilon", 0.01, Facts(rows=1000, delta=0.0), **_plugins(plan, world))
    assert found.value is not None and 0.01 <= found.value <= 100.0


def reported(world: World) -> None:
    """`tacit report` makes one page of the release."""
    out = world.folder / "report.html"
    _tacit(world, "report", str(world.folder / "release"), "--out", str(out))
    text = out.read_text(encoding="utf-8")
    assert "ToyCounts" in text and "differentially private" in text


def commanded(world: World) -> None:
    """`tacit fit` runs it from a file that enables the plug-in."""
    (world.folder / "rows.csv").write_text("\n".join(["kind", *world.rows]) + "\n")
    names = json.dumps(CATEGORIES)
    (world.folder / "toy.toml").write_text(
        f'estimator = "{NAME}"\nplugins = ["{world.package}"]\n[parameters]\n'
        f'categories = {names}\n[privacy]\nepsilon = 1.0\nunit = "row"\n'
        '[[site]]\nname = "North"\ndata = "rows.csv"\nledger = "north.db"\n'
        'ledger_epsilon = 2.0\nledger_delta = 1e-5\n[output]\nrelease = "by-command"\n'
    )
    _tacit(world, "fit", str(world.folder / "toy.toml"), "--json")
    assert (world.folder / "by-command" / "manifest.json").exists()


def federated(world: World) -> None:
    """Two sites with files, policies and ledgers of their own run it over bytes."""
    from tacit.federation.coordinate import run_proposal
    from tacit.federation.files import SiteConfig
    from tacit.federation.proposal import Proposal
    from tacit.federation.service import SiteService

    settings = {"categories": CATEGORIES}
    services = {}
    for site in SITES:
        home = world.folder / site
        home.mkdir()
        (home / "rows.csv").write_text("\n".join(["kind", *world.rows]) + "\n")
        (home / "site.toml").write_text(
            f'name = "{site}"\nplugins = ["{world.package}"]\n'
            'ledger = {file = "ledger.db", epsilon = 2.0, delta = 1e-5}\n'
            'data = {rows = {file = "rows.csv"}}\n'
            f'[[allow]]\ncomputation = "{NAME}"\nepsilon = 1.0\ndelta = 0.0\nunit = "row"\n'
            f"[allow.settings]\ncategories = {json.dumps(CATEGORIES)}\n"
        )
        config = SiteConfig.read(home / "site.toml")
        config.create_ledger()
        services[site] = SiteService(config)

    class Direct:
        def call(self, method: str, data: bytes, names: Any, timeout: float) -> Any:
            return ((name, services[name].call(method, data)) for name in names)

    request = {"epsilon": 1.0, "delta": 0.0, "unit": "row", "trust": "site"}
    proposal = Proposal(NAME, settings, request, SITES, "toy run")
    found = run_proposal(proposal, Direct(), **_plugins(run_proposal, world))
    assert set(found.certificates) == set(SITES)
    assert abs(sum(found.outcome["counts"]) - 2 * ROWS) < 100


CAPABILITIES: dict[str, Callable[[World], None]] = {
    "price": prices, "fit": fits, "charged": charged, "released": released,
    "read back": read_back, "audited": audited, "planned": planned, "reported": reported,
    "tacit fit": commanded, "federated": federated,
}  # fmt: skip


def _plugins(function: Callable[..., Any], world: World) -> dict[str, Any]:
    """Enable the plug-in where a function can be told to."""
    known = "plugins" in inspect.signature(function).parameters
    return {"plugins": (world.package,)} if known else {}


def _tacit(world: World, *arguments: str) -> None:
    """Run a command of tacit; its last line of complaint is the reason."""
    run = subprocess.run(
        [sys.executable, "-m", "tacit", *arguments], capture_output=True, text=True,
        check=False, timeout=120,
    )  # fmt: skip
    if run.returncode:
        said = (run.stderr.strip() or run.stdout.strip()).splitlines()
        raise AssertionError(f"exit status {run.returncode}: {said[-1] if said else 'silent'}")


def check(world: World, names: list[str]) -> dict[str, str]:
    """Return capability → why it fails; empty where it does not."""
    found = {}
    for name in names:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                CAPABILITIES[name](world)
            found[name] = ""
        except Exception as error:
            reason = str(error).strip() or "it does not hold"
            found[name] = f"{type(error).__name__}: {reason}".splitlines()[0]
    return found


def main() -> None:
    """Check what the arguments name."""
    folder, package, method, *names = sys.argv[1:]
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    found = check(World(place, package, method), names or list(CAPABILITIES))
    print(json.dumps({name: why.replace(str(place), "…") for name, why in found.items()}))


if __name__ == "__main__":
    main()
