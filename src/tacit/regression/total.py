"""The total over sites of which nobody sees a part: what there is under trust ``aggregator``."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from tacit.errors import NotCertified, ParameterError
from tacit.estimators.fit import Outcome
from tacit.estimators.release import Release
from tacit.privacy.certificate import Certificate
from tacit.privacy.guarantee import Privacy
from tacit.regression.agreement import RegressionAgreement, Total
from tacit.regression.found import FoundSummary
from tacit.regression.summary import SiteSummary

__all__ = ["TOTAL", "TotalSummary", "check_alone", "is_summed", "summaries_from", "total_of"]

TOTAL = "all sites together"


@dataclass(frozen=True)
class TotalSummary(SiteSummary):
    """What several sites released as one sum, with the certificate of the dearest of them.

    Parameters
    ----------
    site, columns, design, moments, certificate
        As in `SiteSummary`.
    added
        How many sites are in the sum, each with its share of the noise.
    shares
        How many shares make up the noise that certificates rest on.
    """

    added: int = 1
    shares: int = 1

    def __post_init__(self) -> None:
        for name in ("added", "shares"):  # a release keeps numbers as floats
            object.__setattr__(self, name, int(getattr(self, name)))
        if not 1 <= self.shares <= self.added:
            raise ParameterError(
                f"a total over {self.added} sites has no noise of {self.shares} shares"
            )
        super().__post_init__()

    def _is_of(self, certificate: Certificate) -> bool:
        return certificate.trust == "aggregator"

    def _noise_of(self, stated: float) -> float:
        return stated / math.sqrt(self.added / self.shares)

    def _more(self) -> dict[str, Any]:
        return {"added": self.added, "shares": self.shares}

    def save(self, path: str | PathLike[str]) -> Path:
        """Refuse: nobody could tell whose rows are in it."""
        raise NotCertified(
            "under trust='aggregator' no site has a summary of its own that could be mailed: the "
            "sites' sums are seen as one total; release the model, or fit with trust='site'"
        )


def is_summed(privacy: Privacy | None) -> bool:
    """Whether only a total over sites is asked for."""
    return privacy is not None and privacy.trust == "aggregator"


def total_of(outcome: Outcome) -> TotalSummary:
    """Return the total that a fit under trust ``aggregator`` gave."""
    agreement, found = outcome.agreement, outcome.result
    assert isinstance(agreement, RegressionAgreement) and isinstance(found, Total)
    own = (TOTAL, agreement.columns, agreement.design, found.arrays)
    sd = agreement.noise_sd(len(found.sites))
    made = TotalSummary.of(*own, sd, _dearest(outcome.certificates))
    return replace(made, added=len(found.sites), shares=agreement.shares)


def summaries_from(release: Release, kind: type[SiteSummary]) -> dict[str, SiteSummary]:
    """Return what a release keeps of every site, or of all of them together.

    Parameters
    ----------
    release, kind
        What was read, and what a site's own part of it is.
    """
    found: dict[str, SiteSummary] = {}
    for name, facts in release.manifest["settings"]["sites"].items():
        summed = name == TOTAL
        rests_on = _dearest(release.certificates) if summed else release.certificates[name]
        own = TotalSummary if summed else FoundSummary if facts.get("found") else kind
        found[name] = own.from_release(name, facts, release.arrays, rests_on)
    return found


def _dearest(certificates: Mapping[str, Certificate]) -> Certificate:
    summed = [one for one in certificates.values() if one.trust == "aggregator"]
    return max(summed or certificates.values(), key=lambda one: one.epsilon)


def check_alone(
    privacy: Privacy | None, known: Sequence[SiteSummary] | Mapping[str, SiteSummary]
) -> None:
    """Raise where a total that nobody sees through is to be joined with anything.

    Parameters
    ----------
    privacy
        What sites are asked for.
    known
        What was released before.
    """
    parts = list(known.values()) if isinstance(known, Mapping) else list(known)
    if parts and (is_summed(privacy) or any(isinstance(part, TotalSummary) for part in parts)):
        raise ParameterError(
            "under trust='aggregator' only the total over all sites is seen, each with its share "
            "of the noise: no summary can be joined with it and no site can come later; fit all "
            "sites at once, or ask for trust='site'"
        )
