"""`tacit verify`: check a release, and its certificates against the ledgers that paid for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.ledger import read_ledger
from tacit.cli.output import Json, show

if TYPE_CHECKING:
    from tacit.privacy.certificate import Certificate
    from tacit.privacy.ledger.record import Record

__all__ = ["verify"]


def verify(
    folder: Annotated[Path, typer.Argument(help="The release folder.")],
    ledger: Annotated[
        list[Path] | None,
        typer.Option(help="A holder's ledger, or its export; may be given repeatedly."),
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            help="A fingerprint that you were told, of a site's identity or of its ledger's key; "
            "every certificate must be signed under one of them."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check every byte and every certificate of a release, and say who signed it.

    Example: tacit verify release/ --ledger north.db
    """
    from tacit.errors import VerificationFailed
    from tacit.estimators.release import read_release

    release = read_release(folder)
    witnesses = [read_ledger(path) for path in ledger or []]
    for one in witnesses:
        one.verify()
    lines, confirmed = [], {}
    for site, certificate in release.certificates.items():
        _check_pins(site, certificate, pin or [])
        witness = _witness(certificate, witnesses)
        if witness is not None:
            certificate.verify(witness)
        confirmed[site] = witness is not None
        if witnesses and witness is None:
            raise VerificationFailed(
                f"the certificate of {site} was charged to none of these ledgers"
            )
        row = (
            ""
            if witness is None or certificate.ledger is None
            else (f"; row {certificate.ledger.counter} of its ledger says the same")
        )
        lines += [str(certificate), f"  {site}: {certificate.signed_by}{row}."]
    show(
        {
            "ok": True,
            "estimator": release.estimator,
            "epsilon": {site: c.epsilon for site, c in release.certificates.items()},
            "signature": {site: c.signature for site, c in release.certificates.items()},
            "signed by": {site: c.signed_by for site, c in release.certificates.items()},
            "in ledger": confirmed,
        },
        f"The release of {release.estimator} in {folder} is whole.\n" + "\n".join(lines),
        as_json,
    )


def _witness(certificate: Certificate, ledgers: Sequence[Record]) -> Record | None:
    """Return the ledger that a certificate names."""
    named = None if certificate.ledger is None else certificate.ledger.ledger
    return next((one for one in ledgers if one.id == named), None)


def _check_pins(site: str, certificate: Certificate, pins: Sequence[str]) -> None:
    from tacit.errors import VerificationFailed

    found = []
    for pin in pins:
        try:
            certificate.verify(pin=pin)
            return
        except VerificationFailed as error:
            found.append(str(error))
    if found:
        raise VerificationFailed(f"{site}: {found[0]}")
