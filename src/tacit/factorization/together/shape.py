"""What a method over sites has to provide: an agreement, and holders that predict."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from tacit._core.arrays import Factors, Floats
from tacit.estimators.agreement import Agreement
from tacit.estimators.shards import Holder
from tacit.factorization.together.problem import Problem

__all__ = ["FactorizationMethod", "SiteFactors"]


class FactorizationMethod(ABC):
    """A way to factorize over sites; a frozen dataclass of its public settings."""

    @abstractmethod
    def agree(self, problem: Problem) -> Agreement:
        """Return what is public about a fit; raise where the method cannot solve the problem."""


class SiteFactors(Holder):
    """A site's side, which predicts from the shared factors and its own cells."""

    @abstractmethod
    def predict(self, relation: str, cells: NDArray[np.int32]) -> Floats:
        """Return the expected values of a relation's cells, from all that the site knows."""

    def adopt(self, shared: Factors) -> None:
        """Take in factors of an earlier release; raise where they are not enough to predict."""
        self.finish(shared)
