"""The commands of `tacit` that work on files: one module each; parsing and printing only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tacit.commands import auditing, fitting, planning, predicting, reporting

if TYPE_CHECKING:
    import typer

__all__ = ["register"]


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command()(fitting.fit)
    app.command()(fitting.price)
    app.command()(predicting.predict)
    app.command()(reporting.report)
    app.command()(auditing.audit)
    app.command()(planning.plan)
