"""`tacit certify` and `tacit calibrate`: what noise gives, and what noise a target needs."""

from __future__ import annotations

import math
from typing import Annotated, Any

import typer

from tacit.cli.output import Json, show

__all__ = ["calibrate", "certify"]

MECHANISMS = (
    "gaussian, symmetric-gaussian, laplace, geometric, k-norm, smooth-laplace, "
    "randomized-response, one-bit, piecewise, hybrid, exponential"
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


def _entry(name: str) -> Any:
    from tacit._core.check import OneOf, check
    from tacit.privacy.catalogue import CATALOGUE

    check("mechanism", name, OneOf(*CATALOGUE))
    return CATALOGUE[name]


def certify(
    mechanism: Mechanism,
    sigma: Annotated[float | None, typer.Option(help="Gaussian noise.")] = None,
    scale: Annotated[float | None, typer.Option(help="Laplace-like noise.")] = None,
    lie: Annotated[float | None, typer.Option(help="Probability of a uniform answer.")] = None,
    magnitude: Annotated[float | None, typer.Option(help="One-bit answers are ± this.")] = None,
    reach: Annotated[float | None, typer.Option(help="Piecewise answers lie in ± this.")] = None,
    deviation: Annotated[
        float | None, typer.Option(help="Worst standard deviation of hybrid answers.")
    ] = None,
    delta: Delta = 0.0,
    sensitivity: Sensitivity = 1.0,
    rate: Rate = 1.0,
    steps: Steps = 1,
    neighbours: Neighbours = "add-remove-one",
    categories: Categories = 2,
    accountant: Accountant = "pld",
    curve: Annotated[bool, typer.Option("--curve", help="Draw ε at every δ.")] = False,
    as_json: Json = False,
) -> None:
    """Say what an amount of noise really gives.

    Example: tacit certify gaussian --sigma 3.23 --rate 0.01 --steps 20000 --delta 1e-4
    """
    from tacit.errors import ParameterError
    from tacit.privacy.accounting.accountants import epsilon_of
    from tacit.privacy.catalogue import Query
    from tacit.privacy.guarantee import round_up, shown

    entry = _entry(mechanism)
    given = {
        "sigma": sigma,
        "scale": scale,
        "lie": lie,
        "magnitude": magnitude,
        "reach": reach,
        "deviation": deviation,
    }
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
        {
            "epsilon": epsilon,
            "delta": delta,
            "mechanism": mechanism,
            entry.parameter: value,
            **_facts(query, accountant),
        },
        f"{_schedule(mechanism, entry.parameter, value, rate, steps)} gives ε = {shown(epsilon)} "
        f"at δ = {shown(delta)} ({neighbours}, {accountant} accountant)."
        + ("" if math.isfinite(epsilon) or delta else " Pass --delta: it is not purely private."),
        as_json,
    )
    if curve and not as_json:
        from tacit.privacy.curve import curve_of
        from tacit.report.terminal import draw_curves

        typer.echo(draw_curves({mechanism: curve_of(event, accountant=accountant)}))


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
    from tacit.privacy.guarantee import shown

    entry = _entry(mechanism)
    query = Query(sensitivity, neighbours, rate, steps, delta, categories)
    value = entry.calibrate(epsilon, query, accountant)
    show(
        {
            entry.parameter: value,
            "epsilon": epsilon,
            "delta": delta,
            "mechanism": mechanism,
            **_facts(query, accountant),
        },
        f"ε = {shown(epsilon)} at δ = {shown(delta)} needs "
        f"{_schedule(mechanism, entry.parameter, value, rate, steps)} "
        f"({neighbours}, {accountant} accountant).",
        as_json,
    )


def _facts(query: Any, accountant: str) -> dict[str, Any]:
    """Return what both commands were told."""
    names = ("sensitivity", "rate", "steps", "neighbours")
    return {name: getattr(query, name) for name in names} | {"accountant": accountant}


def _schedule(mechanism: str, parameter: str, value: float, rate: float, steps: int) -> str:
    times = f", {steps:,} times" if steps > 1 else ""
    sample = f" on Poisson samples at rate {rate:.15g}" if rate < 1 else ""
    return f"{mechanism} with {parameter} = {value:.15g}{sample}{times}"
