"""What one site released for a regression, as one file that can be mailed and verified."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tacit.errors import NotCertified, ParameterError, TacitError, VerificationFailed
from tacit.estimators.regression_release import Design
from tacit.mechanisms.noise import RESOLUTION
from tacit.models.regression import Moments
from tacit.privacy.events import REPLACE, GaussianDpEvent
from tacit.privacy.guarantee import Certificate

__all__ = ["SiteSummary", "check_belongs", "check_moments"]

SCHEMA = 1


@dataclass(frozen=True)
class SiteSummary:
    """What one site released: moments, the design behind them and the certificate.

    It can be saved as one file, mailed, loaded and verified; the site's rows are not needed
    again.

    Parameters
    ----------
    site
        The site's name.
    columns
        The names of the features and, last, of the response.
    design, moments, certificate
        What was released, how, and under which guarantee.
    eigenvalue
        The noisy smallest eigenvalue of S, where the design releases one.
    """

    site: str
    columns: tuple[str, ...]
    design: Design
    moments: Moments
    certificate: Certificate
    eigenvalue: float | None = None

    def __post_init__(self) -> None:
        if (self.eigenvalue is not None) != self.design.eigenvalue or not math.isfinite(
            self.eigenvalue or 0.0
        ):
            raise ParameterError(
                f"the summary of {self.site!r} has the eigenvalue {self.eigenvalue!r}, which its "
                "design does not give"
            )
        columns = set(self.columns)
        if len(columns) != len(self.design.half) or len(columns) != len(self.columns):
            raise ParameterError(
                f"the summary of {self.site!r} names the columns {self.columns}, not "
                f"{len(self.design.half)} different ones"
            )
        check_moments(self.site, self.design, self.moments)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the summary to one file; refused without a guarantee or with seeded noise."""
        if not self.certificate.is_private:
            raise NotCertified(f"what {self.site!r} gave has no finite guarantee: not written")
        if any(note.startswith("seeded noise") for note in self.certificate.assumptions):
            raise NotCertified(f"the noise of {self.site!r} was seeded: not for release")
        content = {
            "what": "tacit regression summary",
            "schema": SCHEMA,
            "site": self.site,
            "columns": list(self.columns),
            "design": asdict(self.design),
            "moments": {
                name: value.tolist() if isinstance(value, np.ndarray) else value
                for name, value in asdict(self.moments).items()
            },
            "certificate": json.loads(self.certificate.to_json()),
        }
        if self.eigenvalue is not None:
            content["eigenvalue"] = self.eigenvalue
        body = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)
        seal = hashlib.sha256(body.encode()).hexdigest()
        target = Path(path)
        target.write_bytes(f"{body}\n{seal}\n".encode())
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SiteSummary:
        """Read a summary and verify its bytes, its numbers and its certificate.

        Raises
        ------
        VerificationFailed
            If a byte was changed, the numbers are not finite or not symmetric, the noise stated
            is not what the certificate rests on, or the certificate is that of another site, of
            seeded noise or of another calibration.
        """
        try:
            return cls._parse(Path(path).read_bytes())
        except TacitError as error:
            raise VerificationFailed(f"{path}: {error}") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError,
                RecursionError) as error:  # fmt: skip
            raise VerificationFailed(f"{path} is not a regression summary: {error}") from None

    @classmethod
    def _parse(cls, content: bytes) -> SiteSummary:
        body, _, seal = content.removesuffix(b"\n").rpartition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != seal:
            raise VerificationFailed("the file was changed after it was written")
        data = json.loads(body)
        if data["what"] != "tacit regression summary" or data["schema"] != SCHEMA:
            raise VerificationFailed("this is no regression summary that this tacit can read")
        public = data["design"]
        public.update(middle=tuple(public["middle"]), half=tuple(public["half"]))
        numbers = data["moments"]
        numbers.update(gram=np.array(numbers["gram"], float), cross=np.array(numbers["cross"]))
        certificate = Certificate.from_json(json.dumps(data["certificate"], ensure_ascii=False))
        summary = cls(
            str(data["site"]), tuple(data["columns"]), Design(**public), Moments(**numbers),
            certificate.verify(), data.get("eigenvalue"),
        )  # fmt: skip
        summary._check_noise()
        summary._check_certificate()
        return summary

    def _check_certificate(self) -> None:
        """Raise unless the certificate speaks of this release."""
        certificate, design = self.certificate, self.design
        if certificate.holder not in (None, self.site):
            raise VerificationFailed(
                f"the certificate is that of {certificate.holder!r}, not of {self.site!r}"
            )
        if not certificate.is_private or certificate.unit != "row":
            raise VerificationFailed("the certificate holds no finite guarantee for rows")
        if any(note.startswith("seeded noise") for note in certificate.assumptions):
            raise VerificationFailed("the noise was seeded: not for release")
        if certificate.neighbours != design.neighbours:
            raise VerificationFailed("design and certificate state different neighbours")
        if (certificate.calibration == "published") != (design.published is not None):
            raise VerificationFailed(
                "design and certificate disagree on whether the noise is a published one"
            )
        if not set(design.assumptions(self.columns)) <= set(certificate.assumptions):
            raise VerificationFailed("the certificate assumes other bounds than the design")

    def _check_noise(self) -> None:
        """Raise unless the noise stated is that of the certificate's event."""
        event, design, moments = self.certificate.event, self.design, self.moments
        if not isinstance(event, GaussianDpEvent):
            raise VerificationFailed("the certificate is not that of one Gaussian release")
        sd = moments.gram_sd / (design.published or 1.0) ** 2
        possible = [
            math.sqrt(design.fixed_noise(event.noise_multiplier, source).variance())
            for source in RESOLUTION
        ]
        if sd < min(possible) * (1.0 - 1e-9):
            raise VerificationFailed(
                f"the summary states noise of {moments.gram_sd:g}, less than its certificate "
                "rests on"
            )
        if not np.isclose(sd, possible, rtol=1e-6).any():
            raise VerificationFailed(
                f"the summary states noise of {moments.gram_sd:g}, more than its certificate "
                "rests on: it is that of another release"
            )
        public = design.neighbours == REPLACE or design.published is not None
        expected = design.unpack(np.zeros(design.size), sd, 1.0 if public else None)
        for name in ("cross_sd", "square_sd", "rows_sd"):
            if not math.isclose(getattr(moments, name), getattr(expected, name), rel_tol=1e-9):
                raise VerificationFailed("the noise stated for S, z and u does not fit together")
        if (moments.square is None) != (expected.square is None):
            raise VerificationFailed("yᵀy is not what the design releases")
        if moments.rows < (0.0 if public else 1.0) or (public and moments.rows % 1.0):
            raise VerificationFailed(f"{moments.rows} is not a number of rows")


def check_moments(site: str, design: Design, moments: Moments) -> None:
    """Raise unless a site's moments have the design's shape, are finite and symmetric."""
    d = design.coefficients
    gram, cross = np.asarray(moments.gram), np.asarray(moments.cross)
    if gram.shape != (d, d) or cross.shape != (d,):
        raise ParameterError(
            f"the summary of {site!r} has shapes {gram.shape} and {cross.shape}, not {(d, d)} and "
            f"{(d,)}: it belongs to another model"
        )
    numbers: Mapping[str, Any] = {name: value for name, value in vars(moments).items()
                                  if value is not None}  # fmt: skip
    for name, value in numbers.items():
        if not np.isfinite(value).all():
            raise ParameterError(
                f"the summary of {site!r} has a {name} that is not finite: leave the site out or "
                "ask it for its file again"
            )
    if np.abs(gram - gram.T).max() > 1e-9 * max(1.0, float(np.abs(gram).max())):
        raise ParameterError(
            f"the summary of {site!r} has a gram matrix that is not symmetric: leave the site out "
            "or ask it for its file again"
        )


def check_belongs(summary: SiteSummary, design: Design, names: tuple[str, ...]) -> None:
    """Raise unless a summary was made for a design and for these columns, in this order."""
    for part in ("middle", "half", "intercept", "published", "eigenvalue"):
        if getattr(design, part) != getattr(summary.design, part):
            raise ParameterError(
                f"the summary of {summary.site!r} has another {part}: it was made with other "
                "bounds or another model, and cannot be joined"
            )
    unnamed = (*(f"x{k}" for k in range(design.features)), "y")  # bounds in a list
    found = summary.columns
    for ours, theirs, positional in (
        (names[:-1], found[:-1], unnamed[:-1]), (names[-1:], found[-1:], unnamed[-1:]),
    ):  # fmt: skip
        if ours != theirs and positional not in (ours, theirs):
            raise ParameterError(
                f"the summary of {summary.site!r} has the columns {found}, not {names}: it cannot "
                "be joined"
            )
