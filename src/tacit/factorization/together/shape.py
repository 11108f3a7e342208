"""What a method over sites has to provide: an agreement, and holders that predict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.shards import Holder
from tacit.factorization.arrays import Factors, Floats
from tacit.factorization.together.problem import Problem
from tacit.mechanisms.clipping import bound_contributions

__all__ = ["FactorizationMethod", "SiteFactors", "bounded_cells", "check_cells"]


class FactorizationMethod(ABC):
    """A way to factorize over sites; a frozen dataclass of its public settings.

    Of the guarantee it fills in, where nobody says: the ``relation`` (None: the unit's own) and
    one of its ``trusts``, the usual one first (empty: any).
    """

    relation: ClassVar[str | None] = None
    trusts: ClassVar[tuple[str, ...]] = ()
    told: ClassVar[tuple[str, ...]] = ()  # the settings that a release carries, by name

    @property
    def unit(self) -> str:
        """What is protected where nobody says."""
        return "user"

    @abstractmethod
    def agree(self, problem: Problem) -> Agreement:
        """Return what is public about a fit; raise where the method cannot solve the problem."""


class SiteFactors(Holder):
    """A site's side, which predicts from the shared factors and its own cells."""

    @abstractmethod
    def predict(self, relation: str, cells: NDArray[np.int32]) -> Floats:
        """Return the expected values of a relation's cells, from all that the site knows."""

    def modes(self, relation: str) -> tuple[str, ...] | None:
        """Return the entities of a relation in the order that `predict` takes; None: its own."""
        return None

    def adopt(self, shared: Factors) -> None:
        """Take in factors of an earlier release; raise where they are not enough to predict."""
        self.finish(shared)


def check_cells(relation: str, cells: NDArray[np.int32], sizes: Sequence[int]) -> None:
    """Raise unless cells of a relation have one column per mode, and lie within its sizes."""
    if cells.shape[1] != len(sizes) or ((cells < 0) | (cells >= np.array(sizes))).any():
        raise ParameterError(f"cells must lie within {list(sizes)}, the sizes of {relation!r}")


def bounded_cells(
    whose: Sequence[NDArray[np.int32]], limit: int, rng: np.random.Generator
) -> list[NDArray[np.bool_]]:
    """Return which cells of each relation are kept: at most ``limit`` of a member, over all."""
    kept = bound_contributions(np.concatenate(whose), limit, rng)
    return np.split(kept, np.cumsum([len(part) for part in whose])[:-1])
