"""The command line: parsing and printing only, no mathematics."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from tacit._version import __version__
from tacit.cli import (
    audit,
    check,
    demo,
    federation,
    fit,
    ledger,
    new,
    noise,
    plan,
    predict,
    report,
    serve,
    verify,
    warm,
)
from tacit.errors import BudgetExceeded, TacitError

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Differentially private factorization and inference, with guarantees to check.",
)
app.add_typer(ledger.app, name="ledger")
for command in (
    demo.demo,
    new.new,
    fit.fit,
    fit.price,
    predict.predict,
    serve.serve,
    report.report,
    audit.audit,
    plan.plan,
    federation.site,
    federation.engine,
    federation.coordinate,
    check.check,
    check.schema,
    noise.certify,
    noise.calibrate,
    verify.verify,
    warm.warm_up,
):
    app.command()(command)
federation.app.command()(check.rehearse)
app.add_typer(federation.app, name="federation")


@app.callback(invoke_without_command=True)
def root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Differentially private factorization and inference, with guarantees to check."""
    if version:
        typer.echo(f"tacit {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line; an error is one sentence and exit status 1, a refusal 3."""
    try:
        app()
    except TacitError as error:
        typer.echo(f"tacit: {error}", err=True)
        sys.exit(3 if isinstance(error, BudgetExceeded) else 1)
