"""`tacit audit`: claimed, certified, attacked, for what a configuration describes."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli.output import ConfigFile, Json, show

__all__ = ["audit"]


def audit(
    config: ConfigFile,
    runs: Annotated[int, typer.Option(help="How often both data sets are released.")] = 20_000,
    confidence: Annotated[float, typer.Option(help="With which the bound holds.")] = 0.999,
    as_json: Json = False,
) -> None:
    """Attack a configured estimator: the claimed, the certified and the attacked ε.

    No site's data is read and no ledger is charged: the attacker tells apart two small data sets
    at the edge of the configured bounds. Exit status 4 where it succeeds beyond the certificate.

    Example: tacit audit hospitals.toml --runs 40000
    """
    from tacit.audit.attack import audit as attack
    from tacit.cli.build import estimator_of
    from tacit.cli.config import read_config
    from tacit.errors import TacitError

    settings = read_config(config)
    model, _ = estimator_of(settings)
    if model.get_params(deep=False)["privacy"] is None:
        settings.fail("there is nothing to audit: add a [privacy] table with epsilon = …", "")
    try:
        found = attack(model, runs=runs, confidence=confidence)
    except TacitError as error:
        settings.explain(error)
    show(found.to_dict(), str(found), as_json)
    if not found.holds:
        raise typer.Exit(4)
