"""The commands that run a federation: `tacit site`, `tacit coordinate`."""

from __future__ import annotations

from typing import Annotated

import typer

from tacit.cli.membership import app
from tacit.cli.output import ConfigFile, Json, show

__all__ = ["app", "coordinate", "site"]


def site(
    config: ConfigFile,
    policy: Annotated[
        bool, typer.Option("--policy", help="Print what the site consents to, and stop.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Take part in a federation, as a site.

    Example: tacit site site.toml
    """
    from tacit.errors import LedgerError
    from tacit.federation.files import SiteConfig
    from tacit.federation.members.standing import identities_page

    settings = SiteConfig.read(config)
    page = settings.policy.page(settings.name, settings.plugins)
    page += "\n\n" + identities_page(settings)
    try:
        left = settings.open_ledger().remaining
        budget: dict[str, float] | None = {"epsilon": left.epsilon, "delta": left.delta}
        told = f"ε = {left.epsilon:.4g} and δ = {left.delta:.3g} are left."
    except LedgerError as error:
        if not policy:
            raise
        budget, told = None, str(error)
    show(
        {"site": settings.name, "policy": page, "remaining": budget}, f"{page}\n\n{told}", as_json
    )
    if policy:
        return
    from tacit.federation.processes import running_site

    typer.echo("Ctrl-C ends it.", err=True)
    with running_site(config) as process:
        try:
            process.wait()
        except KeyboardInterrupt:
            typer.echo("ending", err=True)


def coordinate(
    config: ConfigFile,
    wait: Annotated[float, typer.Option(help="Seconds to wait for sites.")] = 300.0,
    as_json: Json = False,
) -> None:
    """Run the computations of a federation, as its coordinator.

    Example: tacit coordinate coordinator.toml
    """
    from tacit.report.live import run_with_view

    records = run_with_view(config, wait=wait, quiet=as_json)
    if as_json:
        show({"records": records}, "", as_json)
