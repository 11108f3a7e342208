"""`tacit fit` and `tacit price`: from a configuration to a release."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import typer

from tacit.cli.output import ConfigFile, Json, show

__all__ = ["fit", "price"]


def price(config: ConfigFile, as_json: Json = False) -> None:
    """Say what a fit would cost each site; exit status 3 where a ledger would refuse it.

    Example: tacit price hospitals.toml
    """
    _, _, _, found = _prepared(config)
    sites = [asdict(site) for site in found.sites]
    told = {"promise": dict(found.promise), "filled_in": list(found.filled_in)}
    show({"affordable": found.affordable, "sites": sites, **told}, str(found), as_json)
    if not found.affordable:
        raise typer.Exit(3)


def fit(config: ConfigFile, as_json: Json = False) -> None:
    """Fit what a configuration describes: print the result, write its release and report.

    Example: tacit fit hospitals.toml
    """
    from tacit.cli.build import name_ledgers
    from tacit.cli.outputs import ABOUT, keep, outputs_of, written_beside
    from tacit.errors import TacitError
    from tacit.report.page import write_report

    settings, model, sites, cost = _prepared(config)
    output = outputs_of(settings, model)
    if model.privacy is not None:
        name_ledgers(settings, sites)
    try:
        model.fit(sites)
    except Exception as error:
        if (kept := keep(model, output)) is not None:
            typer.echo(f"tacit: what was paid for is in {kept}", err=True)
        if isinstance(error, TacitError):
            settings.explain(error)
        raise
    written: dict[str, str] = {}
    if "release" in output:
        paid = {c.ledger.ledger for c in model.certificates_.values() if c.ledger is not None}
        signing = [s.ledger for s in sites if s.ledger is not None and s.ledger.id in paid]
        about = {name: str(settings.section("output").get(name, "")) for name in ABOUT}
        place = written_beside(
            output["release"], lambda free: model.release(free, ledgers=signing, **about)
        )
        written["release"] = str(place)
    if "report" in output:
        ledgers = {site.name: site.ledger for site in sites if site.ledger is not None}
        place = written_beside(
            output["report"], lambda free: write_report(model, free, ledgers=ledgers)
        )
        written["report"] = str(place)
    answer = model.summary()
    certificates = {name: str(found) for name, found in model.certificates_.items()}
    epsilon = {name: found.epsilon for name, found in model.certificates_.items()}
    told = {
        "result": answer.headline,
        "tables": {table.name: _plain(table) for table in answer.tables},
        "warnings": list(answer.warnings),
        "promise": answer.promise,
        "epsilon": epsilon,
        "certificates": certificates,
    }
    lines = [str(answer), f"Cost: {cost}", *(f"{k}: {v}" for k, v in written.items())]
    show({**told, **written}, "\n\n".join(lines), as_json)


def _plain(table: Any) -> dict[str, list[Any]]:
    """Return a table as JSON takes it: column → numbers and texts."""
    return {
        heading: [value.item() if hasattr(value, "item") else value for value in values]
        for heading, values in table.columns.items()
    }


def _prepared(path: Path) -> tuple[Any, Any, Any, Any]:
    """Return configuration, estimator, sites and price."""
    from tacit.cli.build import estimator_of, sites_of
    from tacit.cli.config import read_config
    from tacit.errors import TacitError

    settings = read_config(path)
    model, facts = estimator_of(settings)
    sites = sites_of(settings, model, facts)
    try:
        return settings, model, sites, model.price(sites)
    except TacitError as error:
        settings.explain(error)
