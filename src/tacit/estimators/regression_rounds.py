"""The rounds of linear regression: every site releases once, the coordinator keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.errors import ParameterError
from tacit.estimators.regression_release import Design, SiteSum, release_vector
from tacit.mechanisms.additive import Gaussian
from tacit.mechanisms.base import privatize
from tacit.mechanisms.noise import Noise
from tacit.privacy.events import REPLACE
from tacit.privacy.ledger import Reservation
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.protocol import Collected, Coordinator, Participant

__all__ = ["Collector", "Holder", "check_rank"]


class Holder(Participant):
    """A site's part: one release of its rows' sum."""

    def __init__(
        self,
        name: str,
        total: SiteSum,
        design: Design,
        mechanism: Gaussian,
        reservation: Reservation | None,
        noise: Noise,
    ) -> None:
        self.name = name
        self._total, self._design, self._mechanism = total, design, mechanism
        self._reservation, self._noise = reservation, noise

    def respond(self, request: Message) -> Message:
        """Release the sum through the gate."""
        vector = release_vector(self._total, self._design, self._mechanism)
        arrays = {
            "vector": privatize(self._mechanism, vector, ledger=self._reservation, rng=self._noise)
        }
        if self._design.neighbours == REPLACE or self._design.published is not None:
            rows = self._total.count // self._design.average  # public then
            arrays["rows"] = np.array([rows], np.int64)
        return Message(request.round, arrays)


class Collector(Coordinator):
    """The coordinator's part: ask once, keep every site's reply."""

    def __init__(self, design: Design) -> None:
        self._design = design
        self.replies_by_site: dict[str, Message] = {}

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """One vector, and the number of rows where it is public."""
        specs = {"vector": ArraySpec((self._design.size,))}
        if self._design.neighbours == REPLACE or self._design.published is not None:
            specs["rows"] = ArraySpec((1,), "int64", low=0)
        return specs

    def request(self, round: int) -> Message | None:
        """Ask in one round."""
        return Message(0) if round == 0 else None

    def absorb(self, round: int, collected: Collected) -> None:
        """Keep the replies."""
        assert collected.by_site is not None
        self.replies_by_site = dict(collected.by_site)


def check_rank(whole: Any, rows: int, design: Design, names: tuple[str, ...]) -> None:
    """Raise where features are constant or collinear, up to the rounding of rows.

    For one holder, or where nothing is private: of several sites each may well hold a feature that
    is constant there, and nobody sees them together.
    """
    first = design.rows.size - 1 - design.coefficients
    gram = whole[first:-1, first:-1]
    size = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    values, vectors = np.linalg.eigh(gram / np.outer(size, size))
    # rounding rows adds h²/12 a row to the diagonal, also along directions with nothing in them
    rounding = rows * 4.0**design.rows.exponent / 12.0 / float(size.min()) ** 2
    if values[0] > max(1e-7, 4.0 * rounding):
        return
    labels = (["the intercept"] if design.intercept else []) + list(names[:-1])
    involved = [labels[k] for k in np.flatnonzero(np.abs(vectors[:, 0]) > 0.1)]
    raise ParameterError(
        f"features are constant or collinear ({', '.join(involved)}): leave one of them out"
    )
