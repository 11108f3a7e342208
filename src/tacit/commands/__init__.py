"""The commands of `tacit` that work on files: one module each; parsing and printing only."""

from __future__ import annotations

import typer

from tacit.commands import auditing, federating, fitting, planning, predicting, reporting

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(fitting.fit)
    app.command()(fitting.price)
    app.command()(predicting.predict)
    app.command()(reporting.report)
    app.command()(auditing.audit)
    app.command()(planning.plan)
    app.command()(federating.site)
    app.command()(federating.coordinate)
    federation = typer.Typer(no_args_is_help=True, help="Set up a federation of institutions.")
    federation.command()(federating.init)
    app.add_typer(federation, name="federation")
