"""`tacit ledger`: create a data holder's privacy ledger, and look at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tacit.cli import output
from tacit.cli.output import Json

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="A data holder's privacy ledger.")
File = Annotated[Path, typer.Argument(help="The ledger file.")]


@app.command()
def create(
    file: Annotated[Path, typer.Argument(help="The ledger file, or the file of a site.")],
    epsilon: Annotated[float | None, typer.Option(help="The ceiling, for ever.")] = None,
    delta: Annotated[float, typer.Option(help="And its δ.")] = 0.0,
    as_json: Json = False,
) -> None:
    """Create a ledger, once; a site's file states its ceiling itself.

    Example: tacit ledger create north.db --epsilon 4 --delta 1e-5
    """
    from tacit.errors import LedgerError, ParameterError
    from tacit.federation.files import SiteConfig
    from tacit.privacy.ledger.ledger import Ledger

    if file.suffix == ".toml":
        ledger = SiteConfig.read(file).create_ledger()
    elif epsilon is None:
        raise ParameterError("pass --epsilon, the ceiling of the ledger, and --delta")
    elif file.exists():
        raise LedgerError(f"{file} exists already: a ledger is created once")
    else:
        ledger = Ledger.open(file, epsilon=epsilon, delta=delta)
    output.show(
        {"id": ledger.id, "epsilon": ledger.epsilon, "delta": ledger.delta},
        f"Ledger {ledger.id[:8]}: ε = {ledger.epsilon:.15g} and δ = {ledger.delta:.15g}, for "
        "ever. Keep it where it is: a copy would start the budget anew.",
        as_json,
    )


@app.command()
def show(file: File, as_json: Json = False) -> None:
    """Show what was charged, and what is left.

    Example: tacit ledger show north.db
    """
    from tacit.privacy.guarantee import shown, shown_left
    from tacit.privacy.ledger.ledger import Ledger

    ledger = Ledger.open(file)
    if as_json:
        typer.echo(json.dumps(ledger.export(), ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Ledger {ledger.id[:8]} ({ledger.filter} composition)")
    for heading in ("#", "time (UTC)", "what", "purpose", "total ε"):
        table.add_column(heading, justify="right" if heading in ("#", "total ε") else "left")
    for row in ledger.rows():
        table.add_row(
            str(row.counter),
            row.time[:19].replace("T", " "),
            row.kind,
            row.purpose,
            shown(row.epsilon),
        )
    console = Console()
    console.print(table)
    spent, left = ledger.spent, ledger.remaining
    console.print(
        f"spent ε = {shown(spent.epsilon)} of {ledger.epsilon:.15g}, δ = {shown(spent.delta, 3)} "
        f"of {ledger.delta:.15g}; left ε = {shown_left(left.epsilon)}, "
        f"δ = {shown_left(left.delta, 3)}",
        soft_wrap=True,
    )


@app.command()
def verify(file: File, as_json: Json = False) -> None:
    """Check every hash, sum and cost of a ledger.

    Example: tacit ledger verify north.db
    """
    from tacit.privacy.ledger.ledger import Ledger

    ledger = Ledger.open(file)
    rows = ledger.verify()
    output.show(
        {"ok": True, "id": ledger.id, "rows": rows},
        f"Ledger {ledger.id[:8]} is whole: {rows} rows, every hash, sum and cost agrees.",
        as_json,
    )


@app.command()
def export(file: File, as_json: Json = False) -> None:
    """Print the whole ledger as JSON, for an archive; with --json on one line.

    Example: tacit ledger export north.db > north.json
    """
    from tacit.privacy.ledger.ledger import Ledger

    typer.echo(
        json.dumps(Ledger.open(file).export(), ensure_ascii=False, indent=None if as_json else 1)
    )
