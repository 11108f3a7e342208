"""The commands of a federation: `tacit federation init`, `tacit site`, `tacit coordinate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.output import ConfigFile, Json, show

__all__ = ["app", "coordinate", "site"]

app = typer.Typer(no_args_is_help=True, help="Set up a federation of institutions.")


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where to; must not exist.")],
    site: Annotated[list[str], typer.Option(help="A site's name; once for each.")],
    host: Annotated[str, typer.Option(help="Where sites reach the coordinator.")] = "localhost",
    port: Annotated[int, typer.Option(help="And at which port.")] = 8002,
    as_json: Json = False,
) -> None:
    """Write certificates, keys, start-up kits and files for a federation.

    Example: tacit federation init ours --site North --site South --host fed.example.org
    """
    from tacit.federation.provision import init_federation

    init_federation(folder, site, host=host, port=port)
    show(
        {
            "coordinator": str(folder / "coordinator"),
            "sites": {name: str(folder / "sites" / name) for name in site},
        },
        f"{folder}/coordinator stays here; give each of {folder}/sites/NAME to its site over a "
        f"channel you trust.\nThen fill in site.toml and coordinator.toml, run `tacit site "
        f"site.toml` at every site, and `tacit coordinate coordinator.toml` here.",
        as_json,
    )


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

    settings = SiteConfig.read(config)
    page = settings.policy.page(settings.name, settings.plugins)
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
