"""The two sides of `offsets.agreement`: the coordinator's items, and members at their site."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.errors import ParameterError, SiteFailure
from tacit.estimators.agreement import Ask, Coordinating, Start
from tacit.estimators.gate import Gate
from tacit.factorization.arrays import Arrays, Floats, Integers
from tacit.factorization.draws import DEVIATION
from tacit.factorization.offsets.agreement import LeastSquaresAgreement
from tacit.factorization.offsets.numerics.ridge import (
    by_member,
    choose_penalties,
    offset_share,
    ridge_rows,
)
from tacit.factorization.offsets.numerics.shrinkage import (
    Averaged,
    denoised_counts,
    eigen_features,
    scaled_columns,
    shrink,
    shrunk_towards,
)
from tacit.factorization.offsets.sides import COUNT, Members, packing
from tacit.factorization.offsets.sums import HALF, LARGEST
from tacit.factorization.together.shape import SiteFactors

__all__ = ["SiteMembers", "coordinate"]

_RESIDUAL = 0.8  # the variance of a value about its offsets, of a half-range of 2, as a rule


def coordinate(public: LeastSquaresAgreement, start: Start) -> Coordinating:
    """Learn offsets of items, then their factors; return what every site gets."""
    known = _Items(public)
    rng = generator(start.seed, "coordinator")
    if public.unit == "entry":
        found = yield Ask("counts")
        known.counts = known.weights = np.asarray(found.total["sum"], np.float64)
    if public.products:
        known.public = yield from public.pattern_of(known.counts, rng)
    for step, _ in public.plan:
        kind = known.kind(step)
        ask = known.asks(kind)
        found = yield Ask(step, kind if step.startswith("later") else "", **ask)
        total = np.asarray(found.total["sum"], np.float64)
        if not np.isfinite(total).all():
            raise SiteFailure(f"the sum of step {step!r} is not finite")
        noise = public.mechanisms[step].variance() * len(found.sites)
        getattr(known, f"take_{kind}")(total, noise)
    return known.shared()


class _Items:
    """What the coordinator knows of items: all of it is public or was released."""

    def __init__(self, public: LeastSquaresAgreement) -> None:
        items = public.items
        self._agreed, self._user = public, public.unit == "user"
        self.counts = self.weights = np.zeros(items)
        self.public = self.features = np.zeros((items, 0))
        self._given = public.item_features()
        self._mean, self._offsets, self._offsets_sd = 0.0, np.zeros(items), np.zeros(items)
        self._members = float(public.problem.members or 1)
        self._averaged = Averaged(items * (2 if self._user else 1))
        self._covariance = Averaged(packing(public.popular).size)

    def kind(self, step: str) -> str:
        """Return what a step is about; of a later one, by what was released so far."""
        name, _, later = step.partition(" ")
        if name != "later":
            return name
        if not (self._agreed.factors is True or self._agreed.visible(self._members)):
            return "offsets"
        first = later == "0" or not self._agreed.refines(self._members)
        return "covariance" if first else "factors"

    def asks(self, kind: str) -> dict[str, Any]:
        """Return what a request holds, within the ranges that sensitivities are stated for."""
        if kind == "mean":
            return {}
        mean = np.array([self._mean])
        if kind == "offsets":
            return {"mean": mean}
        offsets = np.clip(self._offsets, -2.0 * HALF, 2.0 * HALF)
        if kind == "covariance":
            popular = self._popular
            rates = self.weights[popular] / max(float(self.weights[popular].sum()), 1e-300)
            return {
                "mean": mean,
                "offsets": offsets,
                "rates": np.clip(rates, 0.0, 1.0),
                "popular": popular,
            }
        most = LARGEST["features"]
        return {"mean": mean, "offsets": offsets, "features": np.clip(self.features, -most, most)}

    @property
    def _popular(self) -> Integers:
        """The most popular items, by what was released (or is public) of their weights."""
        order = np.argsort(-self.weights, kind="stable")
        return order[: self._agreed.popular].astype(np.int64)

    def take_mean(self, total: Floats, noise: float) -> None:
        """Take in the mean, and for users their number."""
        if self._user:
            self._members = max(float(total[1]), 1.0)
            mean = HALF * float(total[0] / self._members)
        else:
            mean = float(total[0]) / max(float(self.counts.sum()), 1.0)
        self._mean = float(np.clip(mean, -HALF, HALF))

    def take_offsets(self, total: Floats, noise: float) -> None:
        """Shrink sums, averaged with those before by their noise.

        Towards what is known of items already: how often they occur, features from the public
        pattern, and those that the caller gave.
        """
        noise = self._averaged.add(total[: len(self._averaged.sums)], noise)
        sums, within = self._averaged.sums, _RESIDUAL
        popularity = np.log1p(self.weights)
        if self._user:
            sums, weights = sums.reshape(-1, 2).T
            self.weights, popularity = denoised_counts(weights / COUNT, noise / COUNT**2)
            within = self._within * _RESIDUAL / (_RESIDUAL + COUNT**2)
        known = np.column_stack([popularity, self.public, self._given])
        self._offsets, self._offsets_sd = shrunk_towards(
            sums, self.weights, noise, self.weights * within, known
        )

    @property
    def _within(self) -> float:
        """The sampling variance per unit of weight of sums of messages of length one.

        The squared lengths add up to the number of members, which was released.
        """
        return self._members / max(float(self.weights.sum()), 1.0)

    def take_covariance(self, total: Floats, noise: float) -> None:
        """Start features with the leading eigenvectors, of all that was released of it so far."""
        popular, columns = self._popular, self._agreed.features
        rank, packed = min(columns, len(popular)), packing(len(popular))
        noise = self._covariance.add(total[: packed.size], noise)
        matrix = packed.unpack(self._covariance.sums)
        self.features = np.zeros((self._agreed.items, columns))
        self.features[popular, :rank] = eigen_features(matrix, rank, math.sqrt(noise))

    def take_factors(self, total: Floats, noise: float) -> None:
        """Shrink the items' side of a round of least squares."""
        items, columns = self._agreed.items, self._agreed.features
        sums = total[: items * columns].reshape(-1, columns)
        rows = shrink(sums, self.weights, noise, self._within / self._agreed.rank)
        self.features = scaled_columns(rows, self._agreed.popular)

    def shared(self) -> Arrays:
        """Return mean, item offsets and features: of the pattern, learned, and given ones."""
        features = self.public, self.features, self._given
        item = self._agreed.item
        return {
            "mean": np.array([self._mean]),
            f"{item} offset": self._offsets,
            f"{item} offset{DEVIATION}": self._offsets_sd,
            item: np.column_stack(features),
            "kinds": np.repeat([1.0, 2.0, 3.0], [part.shape[1] for part in features]),
        }


class SiteMembers(Members, SiteFactors):
    """A site's members, who predict from the released features and their own cells."""

    agreement: LeastSquaresAgreement

    def __init__(
        self, agreement: LeastSquaresAgreement, name: str, relation: Relation, gate: Gate
    ) -> None:
        protected = agreement.problem.protected
        super().__init__(agreement, name, by_member(relation.listed(), protected), gate)
        self._member_mode = relation.entities.index(protected)
        self._rows: Floats = np.zeros((self.cells.members, 1))
        self._features: Floats = np.ones((agreement.items, 1))
        self._base: Floats = np.zeros(agreement.items)

    def finish(self, shared: Mapping[str, NDArray[Any]]) -> None:
        """Regress every member's own cells on the released features."""
        item, cells, items = self.agreement.item, self.cells, self.agreement.items
        if (
            shared[f"{item} offset"].shape != (items,)
            or shared[item].shape != (items, len(shared["kinds"]))
            or not all(np.isfinite(array).all() for array in shared.values())
        ):
            raise ParameterError(f"what was learned is not about the {items} members of {item!r}")
        mean, offsets = float(shared["mean"][0]), shared[f"{item} offset"]
        self._base = mean + offset_share(cells, mean, offsets) * offsets
        features, kinds = shared[item], shared["kinds"].astype(np.int64)
        self._features = np.column_stack([np.ones(len(features)), features])
        rest = cells._replace(values=cells.values - self._base[cells.items])
        _, groups = np.unique(np.concatenate([[0], kinds]), return_inverse=True)
        penalties = choose_penalties(rest, self._features, groups)
        self._rows = ridge_rows(rest, self._features, penalties)

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
