"""The commands that run a federation: `tacit site`, `tacit engine`, `tacit coordinate`."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.membership import app
from tacit.cli.output import ConfigFile, Json, show
from tacit.errors import TacitError

__all__ = ["app", "coordinate", "engine", "site"]


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
    from tacit.privacy.guarantee import shown_left

    settings = SiteConfig.read(config)
    page = settings.page()
    page += "\n\n" + identities_page(settings)
    try:
        left = settings.open_ledger().remaining
        budget: dict[str, float] | None = {"epsilon": left.epsilon, "delta": left.delta}
        told = f"ε = {shown_left(left.epsilon, 4)} and δ = {shown_left(left.delta, 3)} are left."
    except LedgerError as error:
        if not policy:
            raise
        budget, told = None, str(error)
    show(
        {"site": settings.name, "policy": page, "remaining": budget}, f"{page}\n\n{told}", as_json
    )
    if policy:
        return
    from tacit.federation.engine.sites import ending_on_termination, running_site

    try:
        with ending_on_termination(), running_site(config) as running:
            typer.echo(f"Isolation of the engine: {running.isolation}.", err=True)
            if running.start is not None:
                typer.echo(f"The engine's user now runs: {running.start}", err=True)
            typer.echo("Ctrl-C ends it.", err=True)
            log = settings.state / "site.log"
            threading.Thread(target=_follow, args=(log,), daemon=True).start()
            ended = running.wait()
    except KeyboardInterrupt:
        typer.echo("ended", err=True)
    else:
        raise TacitError(f"{ended}: see site.log and engine.log in {settings.state}")


def _follow(log: Path) -> None:
    """Show what the data process writes about runs, from now on."""
    with open(log, encoding="utf-8", errors="replace") as file:
        file.seek(0, 2)
        while True:
            line = file.readline()
            if line:
                typer.echo(line.rstrip(), err=True)
            else:
                time.sleep(0.3)


def engine(
    kit: Annotated[Path, typer.Argument(help="The engine's start-up kit.")],
    socket: Annotated[Path, typer.Option(help="Where the site's data process listens.")],
    as_json: Json = False,
) -> None:
    """Run a site's engine alone, as a Unix user who cannot read the site's data.

    Example: tacit engine /var/lib/tacit-engine/kit --socket /run/tacit/North/site.sock
    """
    from tacit.federation.engine.sites import ending_on_termination, running_engine

    try:
        with ending_on_termination(), running_engine(kit, socket) as process:
            known = {"kit": str(kit), "socket": str(socket)}
            show(known, f"The engine of {kit} runs. Ctrl-C ends it.", as_json)
            status = process.wait()
    except KeyboardInterrupt:
        typer.echo("ended", err=True)
    else:
        raise TacitError(f"the engine ended with status {status}: see {kit / 'process.log'}")


def coordinate(
    config: ConfigFile,
    wait: Annotated[float, typer.Option(help="Seconds to wait for sites.")] = 300.0,
    as_json: Json = False,
) -> None:
    """Run the computations of a federation, as its coordinator.

    Example: tacit coordinate coordinator.toml
    """
    from tacit.federation.engine.sites import ending_on_termination
    from tacit.report.live import run_with_view

    with ending_on_termination():
        records = run_with_view(config, wait=wait, quiet=as_json)
    if as_json:
        show({"records": records}, "", as_json)
