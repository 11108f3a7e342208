"""`tacit report`: from a release to one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.output import Json, show

if TYPE_CHECKING:
    from tacit.estimators.release import Release
    from tacit.report.accuracy import Accuracy

__all__ = ["report"]


def report(
    release: Annotated[Path, typer.Argument(help="A release, or the result of a federation.")],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
    ledger: Annotated[
        list[Path] | None, typer.Option(help="A holder's ledger file; may be given repeatedly.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The title of the page.")] = None,
    purpose: Annotated[str, typer.Option(help="What the release is for.")] = "",
    contact: Annotated[str, typer.Option(help="Whom to ask.")] = "",
    rows: Annotated[
        int | None,
        typer.Option(help="Show accuracy against ε on simulated data of so many rows."),
    ] = None,
    features: Annotated[
        int, typer.Option(help="With --rows: features, items or words of the simulation.")
    ] = 5,
    replace: Annotated[bool, typer.Option(help="Write over a file that exists.")] = False,
    as_json: Json = False,
) -> None:
    """Write the report of a release, which is verified first.

    With --rows, simulated data show how good the method is at several ε; the number of rows of the
    real data is private unless it was released.

    Example: tacit report release/ --out report.html --ledger north.db
    """
    from tacit.errors import ParameterError
    from tacit.estimators.release import read_release
    from tacit.privacy.ledger.ledger import Ledger
    from tacit.report.page import check_free, write_report

    record = None
    if (release / "record.json").exists():  # the result of a federation holds the release
        from tacit.report.run_record import read_record

        record = read_record(release / "record.json")
        if not (release / "release").is_dir():
            raise ParameterError(f"{release} holds no release: {record.get('not_released')}")
        release = release / "release"
    found = read_release(release)
    ledgers = {path.stem: Ledger.open(path) for path in ledger or []}
    try:
        check_free(out, replace)
    except ParameterError as error:
        raise ParameterError(str(error).replace("replace=True", "--replace")) from None
    target = write_report(
        release,
        out,
        title=title,
        purpose=purpose,
        contact=contact,
        ledgers=ledgers,
        record=record,
        accuracy=None if rows is None else _simulated(found, rows, features),
        replace=replace,
    )
    told: dict[str, Any] = {"report": str(target), "estimator": found.estimator}
    show(told, f"The report of {found.estimator} is in {target}.", as_json)


def _simulated(release: Release, rows: int, features: int) -> Accuracy:
    """Return the accuracy of the release's method on simulated data of a public size."""
    from tacit.estimators.facts import Facts
    from tacit.estimators.families import estimator_names
    from tacit.report.accuracy import simulated_accuracy

    called = {place.partition(":")[2]: short for short, place in estimator_names().items()}
    sites = len(release.certificates)
    delta = max(certificate.delta for certificate in release.certificates.values()) or 1e-6
    facts = Facts(max(rows, sites), sites, delta=delta, features=features)
    return simulated_accuracy(called.get(release.estimator, release.estimator), facts)
