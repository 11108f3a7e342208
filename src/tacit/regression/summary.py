"""What one site released for a regression, as one file that can be mailed and verified."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from tacit._core.answers import Answer, Answering
from tacit.data.schema import PER_PERSON
from tacit.errors import NotCertified, ParameterError, TacitError, VerificationFailed
from tacit.mechanisms.noise import RESOLUTION
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import DpEvent, GaussianDpEvent
from tacit.regression.design import Design
from tacit.regression.numerics.moments import Moments
from tacit.regression.site_answer import site_answer

__all__ = ["SiteSummary", "check_moments"]

SCHEMA = 2
_MOMENTS = tuple(part.name for part in fields(Moments))
_PARTS = ("what", "schema", "site", "columns", "design", "moments", "certificate")


@dataclass(frozen=True)
class SiteSummary(Answering):
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
    """

    what: ClassVar[str] = "tacit regression summary"
    kind: ClassVar[type[Design]] = Design
    calibration: ClassVar[str] = "certified"

    site: str
    columns: tuple[str, ...]
    design: Design
    moments: Moments
    certificate: Certificate

    @classmethod
    def of(
        cls,
        site: str,
        columns: tuple[str, ...],
        design: Design,
        reply: Mapping[str, Any],
        sd: float,
        certificate: Certificate,
    ) -> Self:
        """Return what a site's reply says.

        Parameters
        ----------
        site, columns, design, certificate
            As above.
        reply
            The arrays that were released.
        sd
            Standard deviation of the noise on each number.
        """
        rows = float(reply["rows"][0]) if "rows" in reply else None
        moments = design.unpack(reply["vector"], sd, rows)
        return cls(site, columns, design, moments, certificate, **cls._beside(design, reply))

    def _answer(self, level: float) -> Answer:
        known = (self.site, self.columns, self.design, self.moments, self.certificate)
        return site_answer(*known, level)

    @classmethod
    def _beside(cls, design: Design, reply: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a reply holds besides moments, by name."""
        return {}

    def __post_init__(self) -> None:
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
            "what": self.what,
            "schema": SCHEMA,
            "site": self.site,
            "columns": list(self.columns),
            "design": asdict(self.design),
            "moments": {
                name: value.tolist() if isinstance(value, np.ndarray) else value
                for name, value in asdict(self.moments).items()
            },
            "certificate": json.loads(self.certificate.to_json()),
            **self._more(),
        }
        body = json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)
        seal = hashlib.sha256(body.encode()).hexdigest()
        target = Path(path)
        target.write_bytes(f"{body}\n{seal}\n".encode())
        return target

    def _more(self) -> dict[str, Any]:
        """Return what a release holds besides moments, by name."""
        return {}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
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
        except (
            OSError,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            ArithmeticError,
            RecursionError,
        ) as error:
            raise VerificationFailed(f"{path} is not a regression summary: {error}") from None

    @classmethod
    def _parse(cls, content: bytes) -> Self:
        body, _, seal = content.removesuffix(b"\n").rpartition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != seal:
            raise VerificationFailed("the file was changed after it was written")
        data = json.loads(body)
        if data["what"] != cls.what or data["schema"] != SCHEMA:
            raise VerificationFailed("this is no regression summary that this tacit can read")
        certificate = Certificate.from_json(json.dumps(data["certificate"], ensure_ascii=False))
        more = {n: v for n, v in data.items() if n not in _PARTS}
        return cls(
            str(data["site"]),
            tuple(data["columns"]),
            cls.read_design(data["design"]),
            _moments(data["moments"]),
            certificate.verify(),
            **more,
        ).verify()

    @property
    def arrays(self) -> dict[str, Any]:
        """What was released, by name, as a release keeps it."""
        start = f"summary/{self.site}/"
        found = {n: v for n, v in vars(self.moments).items() if v is not None} | self._more()
        return {start + name: np.asarray(value) for name, value in found.items()}

    @property
    def facts(self) -> dict[str, Any]:
        """What is public about it, as a release keeps it."""
        return {"columns": list(self.columns), "design": asdict(self.design)}

    @classmethod
    def from_release(
        cls,
        site: str,
        facts: Mapping[str, Any],
        arrays: Mapping[str, Any],
        certificate: Certificate,
    ) -> Self:
        """Return a site's summary from what a release keeps of it, verified."""
        start = f"summary/{site}/"
        found: dict[str, Any] = {
            name.removeprefix(start): array if array.ndim else float(array)
            for name, array in arrays.items()
            if name.startswith(start)
        }
        numbers = {name: found.pop(name) for name in _MOMENTS if name in found}
        design = cls.read_design(facts["design"])
        columns = tuple(facts["columns"])
        return cls(site, columns, design, _moments(numbers), certificate, **found).verify()

    @classmethod
    def read_design(cls, public: Mapping[str, Any]) -> Design:
        """Return a design from what a file says."""
        pairs = {name: tuple(public.get(name, ())) for name in ("middle", "half", "weighted")}
        return cls.kind(**{**public, **pairs})

    def verify(self) -> Self:
        """Return the summary if noise and certificate are those of its release, or raise."""
        self._check_noise()
        self._check_certificate()
        return self

    def _check_certificate(self) -> None:
        """Raise unless the certificate speaks of this release."""
        certificate, design = self.certificate, self.design
        if not self._is_of(certificate):
            raise VerificationFailed(
                f"the certificate is that of {certificate.holder!r}, not of {self.site!r}"
            )
        people = [note for note in certificate.assumptions if PER_PERSON.search(note)]
        unit = "user" if people else "row"
        if not certificate.is_private or certificate.unit != unit:
            raise VerificationFailed(f"the certificate holds no finite guarantee for a {unit}")
        if any(note.startswith("seeded noise") for note in certificate.assumptions):
            raise VerificationFailed("the noise was seeded: not for release")
        if certificate.neighbours != design.neighbours:
            raise VerificationFailed("design and certificate state different neighbours")
        if certificate.calibration != self.calibration:
            raise VerificationFailed(
                f"the certificate is that of {certificate.calibration} noise, not "
                f"{self.calibration}"
            )
        if not set(design.assumptions(self.columns)) <= set(certificate.assumptions):
            raise VerificationFailed("the certificate assumes other bounds than the design")

    def _is_of(self, certificate: Certificate) -> bool:
        """Whether a certificate speaks of whoever released this."""
        return certificate.holder in (None, self.site)

    @property
    def _event(self) -> DpEvent:
        """What its sums cost."""
        return self.certificate.event

    def _noise_of(self, stated: float) -> float:
        """Return the noise that a certificate rests on, of the noise that the numbers have."""
        return stated

    def _check_noise(self) -> None:
        """Raise unless the noise stated is that of the certificate's event."""
        event, design, moments = self._event, self.design, self.moments
        if not isinstance(event, GaussianDpEvent):
            raise VerificationFailed("the certificate is not that of one Gaussian release")
        whole = moments.gram_sd / design.stretch**2
        sd = self._noise_of(whole)
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
        public = design.knows_rows
        expected = design.unpack(np.zeros(design.size), whole, 1.0 if public else None)
        for name in ("cross_sd", "square_sd", "rows_sd"):
            if not math.isclose(getattr(moments, name), getattr(expected, name), rel_tol=1e-9):
                raise VerificationFailed("the noise stated for S, z and u does not fit together")
        if (moments.square is None) != (expected.square is None):
            raise VerificationFailed("yᵀy is not what the design releases")
        if moments.rows < (0.0 if public else 1.0) or (public and moments.rows % 1.0):
            raise VerificationFailed(f"{moments.rows} is not a number of rows")


def _moments(numbers: Mapping[str, Any]) -> Moments:
    """Return moments from what a file says."""
    arrays = {name: np.array(numbers[name], float) for name in ("gram", "cross")}
    return Moments(**{**numbers, **arrays})


def check_moments(site: str, design: Design, moments: Moments) -> None:
    """Raise unless a site's moments have the design's shape, are finite and symmetric."""
    d = design.coefficients
    gram, cross = np.asarray(moments.gram), np.asarray(moments.cross)
    if gram.shape != (d, d) or cross.shape != (d,):
        raise ParameterError(
            f"the summary of {site!r} has shapes {gram.shape} and {cross.shape}, not {(d, d)} and "
            f"{(d,)}: it belongs to another model"
        )
    numbers: Mapping[str, Any] = {
        name: value for name, value in vars(moments).items() if value is not None
    }
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
