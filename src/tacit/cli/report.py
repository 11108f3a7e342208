"""`tacit report`: from a release to one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.output import Json, show

__all__ = ["report"]


def report(
    release: Annotated[Path, typer.Argument(help="A release, or the result of a federation.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    ledger: Annotated[
        list[Path] | None, typer.Option(help="A holder's ledger file; may be given repeatedly.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    as_json: Json = False,
) -> None:
    """Write the report of a release, which is verified first.

    Example: tacit report release/ --out report.html --ledger north.db
    """
    from tacit.errors import ParameterError
    from tacit.estimators.release import read_release
    from tacit.privacy.ledger.ledger import Ledger
    from tacit.report.page import write_report

    record = None
    if (release / "record.json").exists():  # the result of a federation holds the release
        from tacit.report.run_record import read_record

        record = read_record(release / "record.json")
        if not (release / "release").is_dir():
            raise ParameterError(f"{release} holds no release: {record.get('not_released')}")
        release = release / "release"
    found = read_release(release)
    ledgers = {path.stem: Ledger.open(path) for path in ledger or []}
    if out.is_dir():
        raise ParameterError(f"{out} is a folder: name an HTML file, such as {out}/report.html")
    target = write_report(found, out, title=title, ledgers=ledgers, record=record)
    show(
        {"report": str(target), "estimator": found.estimator},
        f"The report of {found.estimator} is in {target}.",
        as_json,
    )
