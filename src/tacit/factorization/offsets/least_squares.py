"""A site's side of `offsets.agreement`: its members, who predict from what was released."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.threads import each
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.gate import Gate
from tacit.factorization.arrays import Floats
from tacit.factorization.offsets.agreement import LeastSquaresAgreement
from tacit.factorization.offsets.numerics.ridge import (
    ByMember,
    by_member,
    choose_penalties,
    looked_at,
    offset_share,
    ridge_rows,
)
from tacit.factorization.offsets.sides import Members, Own, Shard
from tacit.factorization.offsets.sums import HALF
from tacit.factorization.offsets.weights import bands
from tacit.factorization.together.people import Counted, marks_of, openness_of
from tacit.factorization.together.shape import SiteFactors
from tacit.privacy.events import DpEvent

__all__ = ["SiteMembers"]

_CELLS = 1 << 17  # cells whose members are regressed together: what is formed of them stays near


class SiteMembers(Members, SiteFactors):
    """A site's members, who predict from the released features and their own cells."""

    agreement: LeastSquaresAgreement

    def __init__(self, agreement: LeastSquaresAgreement, name: str, data: Any, gate: Gate) -> None:
        super().__init__(agreement, name, data, gate)
        if self.is_elsewhere:
            return
        (relation,) = data.values()
        self._member_mode = relation.entities.index(agreement.problem.protected)
        self._rows: Floats = np.zeros((self.everybody.cells.members, 1))
        self._features: Floats = np.ones((agreement.items, 1))
        self._base: Floats = np.zeros(agreement.items)

    def members_of(self, data: Mapping[str, Relation]) -> Own:
        """Return the cells of a site's one relation."""
        (relation,) = data.values()
        problem = self.agreement.problem
        cells, listed = self._read(relation)
        openness = openness_of(problem, data)
        sent = np.ones(cells.members) if openness is None else openness
        counts = data.counts if isinstance(data, Counted) else None
        return Own(cells, sent * self.agreement.own_weight, counts=counts, listed=listed)

    def marked(self, data: Mapping[str, Relation]) -> NDArray[np.uint64] | None:
        """Return a number of each member, by name."""
        return marks_of(self.agreement.problem, data)

    def _read(self, relation: Relation) -> tuple[ByMember, NDArray[np.bool_] | None]:
        """Return a relation's cells by member; and which have a value, where not all do."""
        return by_member(relation, self.agreement.problem.protected), None

    def finish(self, shared: Mapping[str, NDArray[Any]]) -> None:
        """Regress every member's own cells on the released features, where they are here."""
        if self.is_elsewhere:
            return
        item, items = self.agreement.item, self.agreement.items
        if (
            shared[f"{item} offset"].shape != (items,)
            or shared[item].shape != (items, len(shared["kinds"]))
            or not all(np.isfinite(array).all() for array in shared.values())
        ):
            raise ParameterError(f"what was learned is not about the {items} members of {item!r}")
        mean, offsets = float(shared["mean"][0]), shared[f"{item} offset"]
        features, kinds = shared[item], shared["kinds"].astype(np.int64)
        self._features = np.column_stack([np.ones(len(features)), features])
        _, groups = np.unique(np.concatenate([[0], kinds]), return_inverse=True)
        self._regress(mean, offsets, self._features, groups)

    def _regress(
        self, mean: float, offsets: Floats, features: Floats, groups: NDArray[np.int64]
    ) -> None:
        """Regress every member's own cells on released features."""
        cells = self.everybody.cells
        some = self.scaled(cells.of(looked_at(cells)))
        self._base = mean + offset_share(some, mean, offsets) * offsets
        penalties = choose_penalties(self._rest(some), features, groups)

        def rows(part: tuple[int, int]) -> Floats:
            return ridge_rows(self._rest(self.scaled(cells.between(*part))), features, penalties)

        self._rows = np.concatenate(list(each(rows, cells.parts(_CELLS))))

    def _rest(self, cells: ByMember) -> ByMember:
        """Return cells with what released numbers leave of their values."""
        return cells._replace(values=cells.values - self._base[cells.items])

    def _prior(self, shard: Shard) -> Floats | float:
        """Return κ·β: all cells of a member have one weight, and its own mean needs none.

        With W_ij = β_i it moves by 4/(n + κ), which moves n messages of weight β_i by less than
        β_i·4/(2√κ): the bound of `offsets.sums`.
        """
        return self.agreement.prior_weight * shard.openness

    def groups(self) -> Mapping[str, DpEvent]:
        """Return bands of members' weights, each with what its heaviest member sees."""
        public = self.agreement
        table = np.array(list(public.problem.weights.values()))
        return bands([table], public.scaled) if public.noisy and len(table) else {}

    def rows(self) -> Floats:
        """Return every member's own offset, then its part of each released feature."""
        return self._rows

    def predict(self, relation: str, cells: NDArray[np.int32]) -> Floats:
        """Return the expected values of cells, within the bounds."""
        member, item = cells[:, self._member_mode], cells[:, 1 - self._member_mode]
        items = self.agreement.items
        if len(cells) and not (
            0 <= member.min() <= member.max() < len(self._rows)
            and 0 <= item.min() <= item.max() < items
        ):
            raise ParameterError(
                f"cells must lie within {len(self._rows)} members and {items} items"
            )
        raw = self._base[item] + (self._rows[member] * self._features[item]).sum(axis=1)
        middle, step = self.agreement.scale
        return np.asarray(middle + step * np.clip(raw, -HALF, HALF))
