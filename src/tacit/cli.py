"""The command line: parsing and printing only, no mathematics."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit._version import __version__
from tacit.commands import register
from tacit.commands.output import Json, show
from tacit.errors import BudgetExceeded, TacitError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Differentially private factorization and inference, with guarantees to check.",
)
ledger_app = typer.Typer(no_args_is_help=True, help="Look at a data holder's privacy ledger.")
app.add_typer(ledger_app, name="ledger")
register(app)

MECHANISMS = (
    "gaussian, symmetric-gaussian, laplace, geometric, k-norm, smooth-laplace, "
    "randomized-response, one-bit, piecewise, exponential"
)
Mechanism = Annotated[
    str,
    typer.Argument(help=f"One of: {MECHANISMS}.", autocompletion=lambda: MECHANISMS.split(", ")),
]
Delta = Annotated[float, typer.Option(help="The δ at which ε is stated.")]
Sensitivity = Annotated[
    float, typer.Option(help="How far one unit moves the value when added or removed.")
]
Rate = Annotated[float, typer.Option(help="Poisson sampling probability.")]
Steps = Annotated[int, typer.Option(help="How many releases.")]
Neighbours = Annotated[str, typer.Option(help="add-remove-one or replace-one.")]
Categories = Annotated[int, typer.Option(help="Answers of randomized response.")]
Accountant = Annotated[
    str,
    typer.Option(
        help="pld, rdp, zcdp, advanced or basic.",
        autocompletion=lambda: ["pld", "rdp", "zcdp", "advanced", "basic"],
    ),
]
File = Annotated[Path, typer.Argument(help="The ledger file.")]


def _entry(name: str) -> Any:
    from tacit._core.check import OneOf, check
    from tacit.privacy.catalogue import CATALOGUE

    check("mechanism", name, OneOf(*CATALOGUE))
    return CATALOGUE[name]


@app.command()
def certify(
    mechanism: Mechanism,
    sigma: Annotated[float | None, typer.Option(help="Gaussian noise.")] = None,
    scale: Annotated[float | None, typer.Option(help="Laplace-like noise.")] = None,
    lie: Annotated[float | None, typer.Option(help="Probability of a uniform answer.")] = None,
    magnitude: Annotated[float | None, typer.Option(help="One-bit answers are ± this.")] = None,
    reach: Annotated[float | None, typer.Option(help="Piecewise answers lie in ± this.")] = None,
    delta: Delta = 0.0,
    sensitivity: Sensitivity = 1.0,
    rate: Rate = 1.0,
    steps: Steps = 1,
    neighbours: Neighbours = "add-remove-one",
    categories: Categories = 2,
    accountant: Accountant = "pld",
    as_json: Json = False,
) -> None:
    """Say what an amount of noise really gives.

    Example: tacit certify gaussian --sigma 3.23 --rate 0.01 --steps 20000 --delta 1e-4
    """
    from tacit.errors import ParameterError
    from tacit.privacy.accounting import epsilon_of
    from tacit.privacy.catalogue import Query
    from tacit.privacy.guarantee import round_up

    entry = _entry(mechanism)
    given = {
        "sigma": sigma, "scale": scale, "lie": lie, "magnitude": magnitude, "reach": reach,
    }  # fmt: skip
    value = given.pop(entry.parameter)
    extra = [name for name, other in given.items() if other is not None]
    if value is None or extra:
        raise ParameterError(
            f"{mechanism} is described by --{entry.parameter} ({entry.meaning})"
            + (f", not by --{extra[0]}" if extra else ": pass it")
        )
    query = Query(sensitivity, neighbours, rate, steps, delta, categories)
    event = entry.event(value, query)
    epsilon = round_up(epsilon_of(event, delta, accountant), 7)
    show(
        {"epsilon": epsilon, "delta": delta, "mechanism": mechanism, entry.parameter: value,
         "sensitivity": sensitivity, "rate": rate, "steps": steps, "neighbours": neighbours,
         "accountant": accountant},
        f"{_schedule(mechanism, entry.parameter, value, rate, steps)} gives ε = {epsilon:.6g} at "
        f"δ = {delta:g} ({neighbours}, {accountant} accountant)."
        + ("" if math.isfinite(epsilon) or delta else " Pass --delta: it is not purely private."),
        as_json,
    )  # fmt: skip


@app.command()
def calibrate(
    mechanism: Mechanism,
    epsilon: Annotated[float, typer.Option(help="The ε to reach.")],
    delta: Delta = 0.0,
    sensitivity: Sensitivity = 1.0,
    rate: Rate = 1.0,
    steps: Steps = 1,
    neighbours: Neighbours = "add-remove-one",
    categories: Categories = 2,
    accountant: Accountant = "pld",
    as_json: Json = False,
) -> None:
    """Say what noise a target needs; the reverse of certify.

    Example: tacit calibrate gaussian --epsilon 1 --delta 1e-5 --rate 0.01 --steps 1000
    """
    from tacit.privacy.catalogue import Query

    entry = _entry(mechanism)
    query = Query(sensitivity, neighbours, rate, steps, delta, categories)
    value = entry.calibrate(epsilon, query, accountant)
    show(
        {entry.parameter: value, "epsilon": epsilon, "delta": delta, "mechanism": mechanism,
         "sensitivity": sensitivity, "rate": rate, "steps": steps, "neighbours": neighbours,
         "accountant": accountant},
        f"ε = {epsilon:g} at δ = {delta:g} needs "
        f"{_schedule(mechanism, entry.parameter, value, rate, steps)} "
        f"({neighbours}, {accountant} accountant).",
        as_json,
    )  # fmt: skip


def _schedule(mechanism: str, parameter: str, value: float, rate: float, steps: int) -> str:
    times = f", {steps:,} times" if steps > 1 else ""
    sample = f" on Poisson samples at rate {rate:g}" if rate < 1 else ""
    return f"{mechanism} with {parameter} = {value:.6g}{sample}{times}"


@ledger_app.command("show")
def ledger_show(file: File, as_json: Json = False) -> None:
    """Show what was charged, and what is left.

    Example: tacit ledger show north.db
    """
    from tacit.privacy.ledger import Ledger

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
            str(row.counter), row.time[:19].replace("T", " "), row.kind, row.purpose,
            f"{row.epsilon:.6g}",
        )  # fmt: skip
    console = Console()
    console.print(table)
    spent, left = ledger.spent, ledger.remaining
    console.print(
        f"spent ε = {spent.epsilon:.6g} of {ledger.epsilon:g}, δ = {spent.delta:.3g} of "
        f"{ledger.delta:g}; left ε = {left.epsilon:.6g}, δ = {left.delta:.3g}",
        soft_wrap=True,
    )


@ledger_app.command("verify")
def ledger_verify(file: File, as_json: Json = False) -> None:
    """Check every hash, sum and cost of a ledger.

    Example: tacit ledger verify north.db
    """
    from tacit.privacy.ledger import Ledger

    ledger = Ledger.open(file)
    rows = ledger.verify()
    show(
        {"ok": True, "id": ledger.id, "rows": rows},
        f"Ledger {ledger.id[:8]} is whole: {rows} rows, every hash, sum and cost agrees.",
        as_json,
    )


@ledger_app.command("export")
def ledger_export(file: File, as_json: Json = False) -> None:
    """Print the whole ledger as JSON, for an archive; with --json on one line.

    Example: tacit ledger export north.db > north.json
    """
    from tacit.privacy.ledger import Ledger

    typer.echo(
        json.dumps(Ledger.open(file).export(), ensure_ascii=False, indent=None if as_json else 1)
    )


@app.command()
def verify(
    folder: Annotated[Path, typer.Argument(help="The release folder.")], as_json: Json = False
) -> None:
    """Check every byte and every certificate of a release.

    Example: tacit verify release/
    """
    from tacit.estimators.release import read_release

    release = read_release(folder)
    lines = [str(certificate) for certificate in release.certificates.values()]
    show(
        {"ok": True, "estimator": release.estimator,
         "epsilon": {site: c.epsilon for site, c in release.certificates.items()}},
        f"The release of {release.estimator} in {folder} is whole.\n" + "\n".join(lines),
        as_json,
    )  # fmt: skip


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
        from tacit.report.federated_demo import run_federated_demo

        found = run_federated_demo(folder, fresh=fresh, quiet=as_json)
    else:
        from tacit.report.demo import run_demo

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


if __name__ == "__main__":
    main()
