"""What a method over sites has to provide: an agreement, and holders that predict."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.gate import Gate
from tacit.estimators.shards import Holder
from tacit.factorization.arrays import Arrays, Factors, Floats
from tacit.factorization.together.problem import Problem
from tacit.mechanisms.clipping import bound_contributions
from tacit.mechanisms.noise import Noise

__all__ = [
    "FactorizationMethod",
    "SiteFactors",
    "bounded_cells",
    "check_cells",
    "new_side",
    "not_about",
    "stayed",
]


class FactorizationMethod(ABC):
    """A way to factorize over sites; a frozen dataclass of its public settings.

    Of the guarantee it fills in, where nobody says: the ``relation`` (None: the unit's own) and
    one of its ``trusts``, the usual one first (empty: any).
    """

    relation: ClassVar[str | None] = None
    trusts: ClassVar[tuple[str, ...]] = ()
    told: ClassVar[tuple[str, ...]] = ()  # the settings that a release carries, by name
    parts: ClassVar[bool] = False  # whether sums are made shard by shard; else of all at once

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

    @abstractmethod
    def rows(self) -> Floats:
        """Return the row of every member of the protected entity, in their order."""

    def draws_at(self, relation: str, cells: NDArray[np.int32]) -> Floats:
        """Return the expected values of a relation's cells by draw, (draws, cells)."""
        raise ParameterError(
            "this method has one estimate and no posterior: variances, intervals and draws come "
            "with method='sgld' and method='local'"
        )

    def own_draws(self) -> Arrays:
        """Return draws of every factor as the site has it, (draws, rows, columns) each."""
        raise ParameterError("this method has no draws: use method='sgld' or method='local'")

    def adopt(self, shared: Factors) -> None:
        """Take in factors of an earlier release; raise where they are not enough to predict."""
        self.finish(shared)

    def own(self) -> Arrays:
        """Return what the site keeps of a fit besides its cells and what was released."""
        return {}

    def resume(self, own: Factors, shared: Factors) -> None:
        """Predict again, from what another side of this site kept; members may be new."""
        self.finish(shared)


def new_side(
    agreement: Agreement, site: str, relations: Mapping[str, Relation], seed: int | None
) -> SiteFactors:
    """Return a side that has no gate to release through: it only predicts."""
    side = agreement.holder(site, relations, Gate(None, Noise("grid")), seed)
    assert isinstance(side, SiteFactors)
    return side


def stayed(factor: str) -> ParameterError:
    """Return the error that a factor which was not shared is needed elsewhere."""
    return ParameterError(
        f"the factor of {factor!r} stayed at the sites of the fit: what was released is not "
        "enough to predict. A site of the fit keeps its own (save_site), or share the factor"
    )


def not_about(factor: str, members: int) -> ParameterError:
    """Return the error that a released factor has other members."""
    return ParameterError(
        f"what was released is not about the {members} members of {factor!r}: pass the labels of "
        "the fit"
    )


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
