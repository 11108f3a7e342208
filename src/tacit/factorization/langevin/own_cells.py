"""`OwnCells`: what members' own cells say at a site, beside what the final factors say.

All of it is computed at the site, where it is asked for, and never leaves it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.factorization.alone.numerics.sums import estimates_at
from tacit.factorization.arrays import Floats
from tacit.factorization.language.structure import BoundRelation
from tacit.factorization.offsets.numerics.own_model import (
    OwnModel,
    OwnRatesModel,
    Seen,
    leverage_of,
)

__all__ = ["OwnCells"]


class OwnCells:
    """A model of a site's own cells, values or counts, made when it is first asked for.

    Parameters
    ----------
    site
        The side with cells and final factors (`tacit.factorization.langevin.sides`).
    """

    def __init__(self, site: Any) -> None:
        self._site = site
        self._model: OwnModel | OwnRatesModel | None = None

    @property
    def multiplies(self) -> bool:
        """Whether effects multiply, as under a KL divergence, or are added."""
        return 0.0 not in self._site.problem.model.powers.values()

    def tells(self, relation: str) -> bool:
        """Whether a relation names the members."""
        return self._made().tells(relation)

    def expected(self, relation: str, cells: NDArray[np.int32]) -> Floats:
        """Return expected values of cells, on the scale of the model."""
        model, (base, features) = self._made(), self._told(relation, cells)
        if isinstance(model, OwnRatesModel):
            return model.predict(relation, cells, features)
        return model.predict(relation, cells, base, features)

    def _made(self) -> OwnModel | OwnRatesModel:
        if self._model is None:
            seen = {relation.name: self._seen(relation) for relation in self._site.owned}
            self._model = OwnRatesModel(seen) if self.multiplies else OwnModel(seen)
        return self._model

    def _seen(self, relation: BoundRelation) -> Seen:
        """Return a relation's cells beside what the final factors say of them."""
        site = self._site
        indices, values, weight = site.cells[relation.name]
        modes = relation.factors[: relation.modes]
        sizes = [site.bound.factors[factor].rows for factor in modes]
        owner, told = relation.factors.index(site.problem.protected), self._told
        rows = {m: self._per_site(f) for m, f in enumerate(modes) if m != owner}
        cores = sum(self._per_site(f) for f in relation.factors[relation.modes :])
        leverage = leverage_of(indices, rows, cores)
        return Seen(indices, sizes, owner, values, *told(relation.name, indices), weight, leverage)

    def _per_site(self, factor: str) -> float:
        """Return how many free numbers a row of a factor has for each site that learned it."""
        site = self._site
        sites = max(1, site.problem.sites) if factor in site.shared else 1
        return float(site.layout.shapes[factor][1]) / sites

    def _told(self, relation: str, cells: NDArray[np.int32]) -> tuple[Floats, Floats]:
        """Return what final factors say of cells: of whoever's they are, and by column of a row.

        Estimates are linear in the protected entity's row: those for unit rows are its features.
        """
        site = self._site
        assert site.final is not None
        owner, features = site.problem.protected, []
        rows = np.zeros_like(site.final[owner])
        for k in range(rows.shape[1]):
            rows[:] = 0.0
            rows[:, k] = 1.0
            features.append(estimates_at(site.bound, relation, site.final | {owner: rows}, cells))
        found = np.column_stack(features)
        fixed = site.agreement.fixed_columns(owner)
        base = sum((value * found[:, k] for k, value in fixed.items()), np.zeros(len(cells)))
        return base, found[:, [k for k in range(found.shape[1]) if k not in fixed]]
