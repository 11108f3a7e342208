"""Certificates as a release has them, for whoever writes one and for whoever reads one."""

from __future__ import annotations

from collections.abc import Mapping

from tacit.errors import NotCertified, VerificationFailed
from tacit.estimators.release.plain import check_text, dumped, parsed
from tacit.privacy.certificate import Certificate

__all__ = ["certificates_of", "check_certificates"]


def check_certificates(certificates: Mapping[str, Certificate]) -> None:
    """Raise where there is no guarantee, or the noise was seeded.

    Parameters
    ----------
    certificates
        Whose data → the certificate.
    """
    if not certificates:
        raise NotCertified("there is no certificate: nothing is written")
    for site, certificate in certificates.items():
        check_text(f"the name {site!r}", site)
        if not certificate.is_private:
            raise NotCertified(f"what {site!r} gave has no finite guarantee: nothing is written")
        if any(note.startswith("seeded noise") for note in certificate.assumptions):
            raise NotCertified(f"the noise of {site!r} was seeded: not for release")


def certificates_of(content: bytes) -> dict[str, Certificate]:
    """Return the certificates of a file, every one recomputed from its events.

    Parameters
    ----------
    content
        ``certificates.json``.
    """
    texts = parsed("certificates.json", content)
    if not isinstance(texts, dict):
        raise VerificationFailed("certificates.json holds no certificates by name")
    found = {
        site: Certificate.from_json(dumped(text).decode()).verify() for site, text in texts.items()
    }
    check_certificates(found)
    return found
