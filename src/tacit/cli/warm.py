"""`tacit warm-up`: compile what estimators need, once, so that nobody waits for it later."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tacit.cli.output import Json, show

__all__ = ["warm_up"]


def _names() -> list[str]:
    from tacit.demo.warming import FITS

    return list(FITS)


def warm_up(
    only: Annotated[
        str, typer.Option(help="A part of a name, such as regression.", autocompletion=_names)
    ] = "",
    as_json: Json = False,
) -> None:
    """Fit everything once on made-up data: what is compiled on the way is kept on this machine.

    Example: tacit warm-up --only factorization
    """
    from tacit.demo.warming import FITS, warm_up
    from tacit.errors import ParameterError

    if not any(only in name for name in FITS):
        raise ParameterError(f"only must be a part of one of {', '.join(FITS)}, got {only!r}")
    seconds, began = {}, time.perf_counter()
    for name in warm_up(only):
        seconds[name], began = round(time.perf_counter() - began, 1), time.perf_counter()
        if not as_json:
            typer.echo(f"{name:34}{seconds[name]:8.1f} s")
    if as_json:
        show({"seconds": seconds}, "", as_json)
