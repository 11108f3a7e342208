"""From the public bounds that a caller states to the design of a release."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tacit._core.check import Bounds, Real, check
from tacit.errors import NotCertified, ParameterError, UnboundedData
from tacit.privacy.events import ADD_REMOVE
from tacit.regression.design import CONSTANT, Design

__all__ = ["PublicBounds", "as_pairs", "plain_bounds"]


@dataclass(frozen=True)
class PublicBounds:
    """What is public about the range of features and response.

    >>> PublicBounds.of([(0, 10)], 5.0).design(True, ADD_REMOVE).half
    (5.0, 5.0)
    """

    features: Any  # column → (low, high), a sequence of pairs, or one number, the norm of a row
    response: Any  # (low, high), or the largest |y|

    @classmethod
    def of(cls, bounds: Any, y_bounds: Any) -> PublicBounds:
        """Return what a caller stated; arrays and NumPy's numbers as lists and Python's."""
        features, response = (
            part.tolist() if isinstance(part, np.ndarray | np.generic) else part
            for part in (bounds, y_bounds)
        )
        return cls(features, response)

    def check(self) -> None:
        """Raise where a bound is missing or is none."""
        features, response = self.features, self.response
        if features is None or (isinstance(features, Mapping | Sequence) and not features):
            raise UnboundedData(
                "bounds must be given: pass bounds={feature: (low, high)} or a list of pairs, the "
                "public range of each feature, or a number, the public norm of a row"
            )
        if not isinstance(features, Mapping | Sequence | int | float):
            raise ParameterError(
                "bounds must be a mapping of feature to (low, high), a list of pairs or a number, "
                f"got {type(features).__name__}"
            )
        if response is None:
            raise UnboundedData(
                "y_bounds must be given: pass y_bounds=(low, high), the public range of the "
                "response"
            )
        if not isinstance(response, int | float):
            check("y_bounds", response, Bounds())

    @property
    def by_name(self) -> bool:
        """Whether features go by their names, not by their order."""
        return isinstance(self.features, Mapping)

    @property
    def is_norm(self) -> bool:
        """Whether only the norm of a row is public."""
        return isinstance(self.features, int | float)

    def width(self, data: Any) -> int | None:
        """Return how many features a holder's data have, where only a norm is public."""
        if not self.is_norm:
            return None
        if not isinstance(data, tuple) or len(np.shape(data[0])) != 2:
            raise ParameterError(
                "a public norm alone goes with arrays: pass pairs (X, y), with two axes of X"
            )
        return int(np.shape(data[0])[1])

    def pairs(self) -> dict[str, tuple[float, float]]:
        """Return the public range of every feature by name, checked."""
        if isinstance(self.features, Mapping):
            named = {str(name): pair for name, pair in self.features.items()}
        else:
            named = {f"x{k}": pair for k, pair in enumerate(self.features)}
        for name, pair in named.items():
            check(f"bounds[{name!r}]", pair, Bounds())
        return {name: (float(low), float(high)) for name, (low, high) in named.items()}

    def names(self, design: Design, target: str | None) -> tuple[str, ...]:
        """Return the names of the features and, last, of the response."""
        named = list(self.pairs()) if isinstance(self.features, Mapping | Sequence) else []
        named = named or [f"x{k}" for k in range(design.features)]
        return (*named, target or "y")

    def design(
        self,
        intercept: bool,
        neighbours: str,
        statistics: str = "moments",
        clip: float | None = None,
        features: int | None = None,
        *,
        scaled: bool = True,
    ) -> Design:
        """Return everything public about a release; see `Design`.

        The number of features is needed where only a norm is public. Rows are ``scaled`` to the
        rule's norm where no ``clip`` is given.
        """
        constant = CONSTANT if intercept or neighbours == ADD_REMOVE else 0.0
        if self.is_norm:
            check("bounds", self.features, Real(0, open_low=True))
            if features is None:
                raise NotCertified(
                    "bounds do not name the features: the price is known at fit only"
                )
            scales = [(0.0, float(self.features))] * features
            if clip is None:  # ‖x‖ ≤ 1 after the map
                clip = math.sqrt(constant**2 + 1.0 + (statistics == "moments") / 3.0)
        else:
            scales = [_scale(pair, intercept) for pair in self.pairs().values()]
        if isinstance(self.response, int | float):
            check("y_bounds", self.response, Real(0, open_low=True))
            scales.append((0.0, float(self.response)))
        else:
            scales.append(_scale(self.response, intercept))
        if clip is None and not scaled:
            clip = math.sqrt(constant**2 + len(scales)) * 1.01
        return Design(
            tuple(middle for middle, _ in scales),
            tuple(half for _, half in scales),
            intercept,
            neighbours,
            statistics,
            clip,
        )


def _scale(pair: tuple[float, float], intercept: bool) -> tuple[float, float]:
    """Return middle and half-range; without an intercept zero stays zero."""
    low, high = float(pair[0]), float(pair[1])
    if intercept:
        return (low + high) / 2.0, (high - low) / 2.0
    return 0.0, max(abs(low), abs(high))


def plain_bounds(value: Any) -> Any:
    """Return bounds as JSON has them."""
    if isinstance(value, Mapping):
        return {str(name): plain_bounds(pair) for name, pair in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [plain_bounds(part) for part in value] if isinstance(value, list | tuple) else value


def as_pairs(value: Any) -> Any:
    """Return bounds from JSON as a caller gives them, ranges as pairs."""
    if isinstance(value, Mapping):
        return {name: as_pairs(pair) for name, pair in value.items()}
    return tuple(as_pairs(part) for part in value) if isinstance(value, list) else value
