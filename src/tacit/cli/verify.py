"""`tacit verify`: check a release, and its certificates against the ledgers that paid for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.ledger import read_ledger
from tacit.cli.output import Json, show

if TYPE_CHECKING:
    from tacit.estimators.release import Release
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
    for signer in release.signers:
        _check_pins("the release", pin or [], partial(_is_signer, signer))
    witnesses = [read_ledger(path) for path in ledger or []]
    for one in witnesses:
        one.verify()
    lines, confirmed = [], {}
    for site, certificate in release.certificates.items():
        _check_pins(site, pin or [], partial(_is_certifier, certificate))
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
            "promises": list(release.manifest["promises"]),
            "release signed by": [signer["by"] for signer in release.signers],
            "checked": _checked(release),
        },
        "\n".join(
            [
                f"The release of {release.estimator} in {folder} is whole.",
                *(f"- {line}" for line in _checked(release)),
                *lines,
            ]
        ),
        as_json,
    )


def _checked(release: Release) -> list[str]:
    """Return what was looked at, in words."""
    from tacit.estimators.release.promise import promises

    arrays, manifest = release.arrays, release.manifest
    numbers = sum(array.size for array in arrays.values())
    signed = [f"the release is signed by {signer['by']}" for signer in release.signers]
    return [
        "every file has the digest that it was released with"
        + (f", on {manifest['date']}" if manifest["date"] else ""),
        f"{len(arrays)} arrays ({numbers} numbers) are what the manifest says, and so are the "
        "tables; the words of the README are not looked at",
        f"{len(release.certificates)} certificate(s) follow from their recorded events",
        *(str(promise) for promise in promises(release.certificates)),
        *(signed or ["the release itself is unsigned: who wrote its numbers is not proved"]),
    ]


def _witness(certificate: Certificate, ledgers: Sequence[Record]) -> Record | None:
    """Return the ledger that a certificate names."""
    named = None if certificate.ledger is None else certificate.ledger.ledger
    return next((one for one in ledgers if one.id == named), None)


def _is_certifier(certificate: Certificate, pin: str) -> None:
    certificate.verify(pin=pin)


def _is_signer(signer: Mapping[str, Any], pin: str) -> None:
    from tacit.privacy.ledger.keys import check_pin

    check_pin(pin, signer["key"], signer["identity"])


def _check_pins(what: str, pins: Sequence[str], verified: Callable[[str], object]) -> None:
    """Raise where fingerprints are known, and none of them is that of who signed.

    Parameters
    ----------
    what
        What was signed.
    pins
        The fingerprints.
    verified
        Raises unless a fingerprint is that of who signed.
    """
    from tacit.errors import VerificationFailed

    found = []
    for pin in pins:
        try:
            verified(pin)
            return
        except VerificationFailed as error:
            found.append(str(error))
    if found:
        raise VerificationFailed(f"{what}: {found[0]}")
