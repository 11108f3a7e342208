"""`tacit new`: a configuration with comments for a chosen family, to be filled in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.output import Json, show

__all__ = ["new"]


def _families() -> list[str]:
    from tacit.estimators.families import estimator_names

    return sorted(estimator_names())


def new(
    family: Annotated[
        str | None,
        typer.Argument(
            help="A family, such as regression; without it, all are listed.",
            autocompletion=lambda: _families(),
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file to write; printed without.")] = None,
    table: Annotated[
        Path | None,
        typer.Option(help="A table whose columns are listed by name and type; no value is read."),
    ] = None,
    plugins: Annotated[
        list[str] | None, typer.Option("--plugin", help="A package with a family of its own.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a configuration for a family: every key with a comment, a blank for what is needed.

    `tacit check` then lists what is still to be filled in.

    Example: tacit new regression --out hospital.toml
    """
    from tacit.cli.config import blank_lines
    from tacit.cli.described import first_sentence
    from tacit.cli.template import reads_tables, template
    from tacit.data.dictionary import draft
    from tacit.data.files import source
    from tacit.errors import ParameterError
    from tacit.estimators.families import estimator_called, estimator_names, estimator_of

    packages = tuple(plugins or ())
    if family is None:
        told = {n: first_sentence(estimator_of(n, packages)) for n in estimator_names(packages)}
        lines = [f"{name:20} {words}" for name, words in told.items()]
        show({"families": told}, "\n".join([*lines, "Choose one: tacit new FAMILY"]), as_json)
        return
    kind = estimator_called(family, packages)
    if table is not None and not reads_tables(kind):
        raise ParameterError(
            f"{family} reads cells, not columns of a table: leave --table out, and name the "
            "columns in the file"
        )
    if out is not None and out.exists():
        raise ParameterError(f"{out} exists: choose another file, or remove it first")
    text = template(
        kind,
        file=str(out or "FILE"),
        plugins=packages,
        columns=None if table is None else draft(source(table)),
    )
    open_lines = blank_lines(text)
    if out is None:
        show({"text": text, "blanks": len(open_lines)}, text.rstrip("\n"), as_json)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ParameterError(f"{out} cannot be written: {error.strerror}") from None
    words = (
        f"{out} has {len(open_lines)} lines to fill in: open it in an editor, and ask "
        f"tacit check {out} what is left."
    )
    show({"file": str(out), "blanks": len(open_lines)}, words, as_json)
