"""The command line: parsing and printing only, no mathematics."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from tacit._version import __version__
from tacit.cli import (
    audit,
    check,
    federation,
    fit,
    ledger,
    new,
    noise,
    plan,
    predict,
    report,
    verify,
)
from tacit.cli.output import Json
from tacit.errors import BudgetExceeded, TacitError

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Differentially private factorization and inference, with guarantees to check.",
)
app.add_typer(ledger.app, name="ledger")
for command in (
    new.new,
    fit.fit,
    fit.price,
    predict.predict,
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
):
    app.command()(command)
federation.app.command()(check.rehearse)
app.add_typer(federation.app, name="federation")


@app.command()
def demo(
    folder: Annotated[Path, typer.Option(help="Where the result goes.")] = Path("demo-result"),
    federated: Annotated[
        bool, typer.Option("--federated", help="Over real processes on this machine.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Remove an earlier result.")] = False,
    as_json: Json = False,
) -> None:
    """Let three hospitals learn together what each knows too little about alone.

    Example: tacit demo --fresh
    """
    if federated:
        from tacit.demo.federated import run_federated_demo

        found = run_federated_demo(folder, fresh=fresh, quiet=as_json)
    else:
        from tacit.demo.run import run_demo

        found = run_demo(folder, fresh=fresh, quiet=as_json)
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))


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
