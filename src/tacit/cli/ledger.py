"""`tacit ledger`: create a data holder's privacy ledger, and look at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli import output
from tacit.cli.output import Json

if TYPE_CHECKING:
    from tacit.privacy.ledger.record import Record

__all__ = ["app", "read_ledger"]

app = typer.Typer(no_args_is_help=True, help="A data holder's privacy ledger.")
File = Annotated[Path, typer.Argument(help="The ledger file.")]


Mark = Annotated[
    Path | None, typer.Option(help="The high-water mark, where it is not beside the ledger.")
]


def read_ledger(file: Path, mark: Path | None = None) -> Record:
    """Open a ledger, or one that was exported as JSON."""
    from tacit.errors import LedgerCorrupt
    from tacit.privacy.ledger.ledger import Ledger

    if file.suffix != ".json":
        return Ledger.open(file, mark=mark)
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        raise LedgerCorrupt(f"{file} is no exported ledger") from None
    return Ledger.from_export(data)


@app.command()
def create(
    file: Annotated[Path, typer.Argument(help="The ledger file, or the file of a site.")],
    epsilon: Annotated[float | None, typer.Option(help="The ceiling, for ever.")] = None,
    delta: Annotated[float, typer.Option(help="And its δ.")] = 0.0,
    unit: Annotated[
        str, typer.Option(help="What one neighbour changes: the coarsest that any use needs.")
    ] = "row",
    neighbours: Annotated[
        str | None, typer.Option(help="replace-one or add-remove-one; follows from the unit.")
    ] = None,
    most: Annotated[
        list[str] | None,
        typer.Option(help="A finer unit and how many one unit has at most, such as row=5."),
    ] = None,
    mark: Mark = None,
    as_json: Json = False,
) -> None:
    """Create a ledger, once; a site's file states its ceiling itself.

    Example: tacit ledger create north.db --epsilon 4 --delta 1e-5 --unit user --most row=5
    """
    from tacit.errors import LedgerError, ParameterError
    from tacit.federation.files import SiteConfig
    from tacit.privacy.ledger.keys import key_fingerprint
    from tacit.privacy.ledger.ledger import Ledger

    if file.suffix == ".toml":
        ledger = SiteConfig.read(file).create_ledger()
    elif epsilon is None:
        raise ParameterError("pass --epsilon, the ceiling of the ledger, and --delta")
    elif file.exists():
        raise LedgerError(f"{file} exists already: a ledger is created once")
    else:
        ledger = Ledger.open(
            file,
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            neighbours=neighbours,
            most=_bounds(most or []),
            mark=mark,
        )
    output.show(
        {
            "id": ledger.id,
            "epsilon": ledger.epsilon,
            "delta": ledger.delta,
            "unit": ledger.unit,
            "neighbours": ledger.neighbours,
            "most": ledger.most,
            "key": key_fingerprint(ledger.key),
        },
        f"Ledger {ledger.id[:8]}: ε = {ledger.epsilon:.15g} and δ = {ledger.delta:.15g} for one "
        f"{ledger.unit} ({ledger.neighbours}), for ever. Its key is "
        f"{key_fingerprint(ledger.key)}. Keep it where it is: a copy would start the budget anew.",
        as_json,
    )


def _bounds(texts: list[str]) -> dict[str, int]:
    from tacit.errors import ParameterError

    found = {}
    for text in texts:
        name, _, number = text.partition("=")
        if not number.isdecimal():
            raise ParameterError(f"--most takes a unit and a number, such as row=5, not {text!r}")
        found[name] = int(number)
    return found


@app.command()
def show(
    file: File,
    curve: Annotated[
        bool, typer.Option("--curve", help="Draw ε at every δ that the ceiling promises.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show what was charged, and what is left.

    Example: tacit ledger show north.db
    """
    ledger = read_ledger(file)
    if as_json:
        typer.echo(json.dumps(ledger.export(), ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    from tacit.report.terminal import draw_curves

    table = Table(title=f"Ledger {ledger.id[:8]} ({ledger.filter} composition)")
    headings = ("#", "time (UTC)", "what", "purpose", "for one", "own ε", "ε here", "total ε")
    for heading in headings:
        right = heading == "#" or "ε" in heading
        table.add_column(heading, justify="right" if right else "left")
    for row in ledger.table():
        table.add_row(*row)
    console = Console()
    console.print(table)
    console.print(_promise(ledger), soft_wrap=True)
    if curve:
        console.print(draw_curves({f"ledger {ledger.id[:8]}": ledger.curve()}), highlight=False)


def _promise(ledger: Record) -> str:
    """Return what a ledger promises, and what it has counted so far."""
    from tacit.privacy.guarantee import shown, shown_left

    spent, left = ledger.spent, ledger.remaining
    text = (
        f"The ceiling is what is promised: ε = {ledger.epsilon:.15g} at δ = {ledger.delta:.15g} "
        f"for one {ledger.unit} ({ledger.neighbours}), whatever is charged and when.\n"
        f"Bookkeeping, no guarantee of its own: spent ε = {shown(spent.epsilon)} of "
        f"{ledger.epsilon:.15g}, δ = {shown(spent.delta, 3)} of {ledger.delta:.15g}; left ε = "
        f"{shown_left(left.epsilon)}, δ = {shown_left(left.delta, 3)}"
    )
    said = sorted(ledger.conversions())
    return "\n".join([text, *(f"Converted: {one}." for one in said)])


@app.command()
def verify(
    file: File,
    pin: Annotated[
        str | None,
        typer.Option(help="A fingerprint that you were told: the site's identity or the key."),
    ] = None,
    mark: Mark = None,
    as_json: Json = False,
) -> None:
    """Check every hash, sum and cost of a ledger, its signature and its mark.

    Example: tacit ledger verify north.db
    """
    from tacit.privacy.ledger.keys import check_pin, identity_fingerprint, key_fingerprint

    ledger = read_ledger(file, mark)
    rows = ledger.verify()
    if pin is not None:
        check_pin(pin, ledger.key, ledger.identity)
    facts: dict[str, Any] = {
        "ok": True,
        "id": ledger.id,
        "rows": rows,
        "signature": "signed" if ledger.key and rows else "unsigned",
        "key": key_fingerprint(ledger.key) if ledger.key else None,
        "identity": identity_fingerprint(ledger.identity) if ledger.identity else None,
        "marked": ledger.marked,
    }
    text = f"Ledger {ledger.id[:8]} is whole: {rows} rows, every hash, sum and cost agrees; "
    text += facts["signature"]
    if ledger.key:
        text += f", by its key {facts['key']}"
    if ledger.identity:
        text += f", which the identity {facts['identity']} vouches for"
    text += ". " + (
        f"Its mark has seen nothing beyond row {rows}."
        if ledger.marked
        else "There is no mark here: rows that were removed at its end would not show."
    )
    output.show(facts, text, as_json)


@app.command()
def mark(file: File, mark: Mark = None, as_json: Json = False) -> None:
    """Make a lost high-water mark anew, once you are sure that no row is missing.

    Example: tacit ledger mark north.db
    """
    from tacit.privacy.ledger.ledger import Ledger

    ledger = Ledger.open(file, mark=mark)
    ledger.verify()
    ledger.mark_anew()
    output.show(
        {"id": ledger.id, "counter": ledger.counter},
        f"Row {ledger.counter} is the last one of ledger {ledger.id[:8]} from now on.",
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
