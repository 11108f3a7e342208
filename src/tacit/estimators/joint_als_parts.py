"""The two sides of `tacit.estimators.joint_als`: a site's members, and the coordinator's items."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.data.relations import Relation
from tacit.errors import ParameterError, SiteFailure
from tacit.estimators.joint import JointCoordinator, Problem, SitePart
from tacit.estimators.joint_als import HALF, AlternatingLeastSquares, rank_of
from tacit.inference.members import by_member, choose_penalties, ridge_rows
from tacit.inference.messages import lattice_gram, message_scales, sum_messages
from tacit.inference.pattern import (
    OVERSAMPLING,
    pattern_basis,
    pattern_counts,
    pattern_features,
    pattern_product,
)
from tacit.inference.shrinkage import eigen_features, scaled_columns, shrink
from tacit.mechanisms.additive import Gaussian, SymmetricGaussian
from tacit.mechanisms.base import privatize
from tacit.mechanisms.clipping import clip_values
from tacit.mechanisms.grid import GridSum
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.protocol import Collected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

    Floats = NDArray[np.float64]

__all__ = ["ItemCoordinator", "MemberPart"]

_COUNT = 0.5  # weight of a count beside a residual
_SOFT = 0.5  # members whose message is shorter than this are hardly scaled up
_MIX = 0.5  # of pattern and residuals in the covariance
_RIDGE = 20.0  # of a member's factor in a round: typical features have size one
_RESIDUAL = 0.8  # the variance of a value about its offsets, of a half-range of 2, as a rule
_KINDS = ("offsets", "covariance", "factors")  # what a later round may turn out to be


class MemberPart(SitePart):
    """A site's part; see the module."""

    def __init__(
        self,
        method: AlternatingLeastSquares,
        problem: Problem,
        name: str,
        relations: Mapping[str, Relation],
        reservation: Reservation | None,
        noise: Noise,
    ) -> None:
        self.name, self._method, self._problem = name, method, problem
        self._reservation, self._noise = reservation, noise
        ((relation, found),) = relations.items()
        low, high = problem.bounds[relation]
        self._middle, self._scale = (low + high) / 2.0, (high - low) / (2.0 * HALF)
        cells = by_member(found.listed(), problem.protected)
        inside = clip_values(cells.values, low, high)
        self._cells = cells._replace(values=(inside - self._middle) / self._scale)
        self._items = problem.sizes[problem.shared[0]]
        self._mechanisms = method.mechanisms(problem)
        self._stages = method.stages(problem)
        self._member_mode = found.entities.index(problem.protected)
        self._rows: Floats = np.zeros((cells.members, 1))
        self._features: Floats = np.ones((self._items, 1))
        self._base: Floats = np.zeros(self._items)

    def respond(self, request: Message) -> Message:
        """Answer one round."""
        stage = self._stages[request.round]
        kind = stage.split()[0]
        if kind == "counts":  # public for entries
            return Message(request.round, {"sum": pattern_counts(self._cells, self._items)})
        if kind == "pattern":
            part = pattern_product(self._cells, request["counts"], request["block"])
            return Message(request.round, {"sum": part})
        if kind == "later":
            kind = _KINDS[int(request["kind"][0]) % len(_KINDS)]
        mechanism = self._mechanisms[stage]
        value = getattr(self, f"_{kind}")(_Asked(request, self._items), mechanism)
        noisy = privatize(mechanism, value, ledger=self._reservation, rng=self._noise)
        return Message(request.round, {"sum": noisy})

    def _mean(self, asked: _Asked, mechanism: Gaussian) -> GridSum:
        cells = self._cells
        if self._problem.unit == "entry":
            return mechanism.grid.sum(cells.values[:, None])
        counts = np.diff(cells.starts)
        filled = counts > 0
        means = cells.sums(cells.values)[filled] / counts[filled]
        return mechanism.grid.sum(np.column_stack([means / HALF, np.ones(len(means))]))

    def _deviations(self, asked: _Asked) -> Floats:
        """Return every value minus its member's own shrunken mean, clipped."""
        cells, weight = self._cells, self._method.prior_weight
        total = cells.sums(cells.values) + weight * asked.mean
        own = total / (np.diff(cells.starts) + weight)
        return np.clip(cells.values - own[cells.owners], -self._method.clip, self._method.clip)

    def _offsets(self, asked: _Asked, mechanism: Gaussian) -> GridSum:
        cells, deviations = self._cells, self._deviations(asked)
        left, scales = deviations[:, None], np.ones(len(deviations))
        right, which = np.ones((1, 1)), np.zeros(len(deviations), np.int64)
        if self._problem.unit == "user":
            left = np.column_stack([deviations, np.full(len(deviations), _COUNT)])
            scales = message_scales(cells, left, right, which, _SOFT)
        return self._summed(mechanism, left, right, which, scales)

    def _summed(
        self, mechanism: Gaussian, left: Floats, right: Floats, which: Any, scales: Floats
    ) -> GridSum:
        """Return the sum of messages on the mechanism's grid."""
        inverse = math.ldexp(1.0, -mechanism.grid.exponent)
        total = sum_messages(self._cells.items, self._items, left, right, which, scales, inverse)
        padded = np.zeros(mechanism.size, np.int64)
        padded[: total.size] = total.ravel()
        return GridSum(padded, mechanism.grid)

    def _residuals(self, asked: _Asked) -> Floats:
        """Return what offsets leave of every value, the member's own from its own cells."""
        cells = self._cells
        rest = cells.values - asked.mean - asked.offsets[cells.items]
        own = cells.sums(rest) / (np.diff(cells.starts) + self._method.prior_weight)
        clip = self._method.clip
        return np.asarray(np.clip(rest - own[cells.owners], -clip, clip))

    def _covariance(self, asked: _Asked, mechanism: Gaussian) -> Floats:
        cells, popular = self._cells, asked.popular
        width = len(popular)
        place = np.full(self._items, -1)
        place[popular] = np.arange(width)
        column = place[cells.items]
        kept = column >= 0
        rest, owners = self._residuals(asked)[kept], cells.owners[kept]
        total = np.zeros((width, width))
        step = max(1, (1 << 24) // width)
        for first in range(0, cells.members, step):
            last = min(first + step, cells.members)
            here = (owners >= first) & (owners < last)
            rows = np.zeros((last - first, width))
            spot = owners[here] - first, column[kept][here]
            rows[spot] = 1.0
            # which items, beyond what their popularity says, and how they were liked
            rows -= np.minimum(rows.sum(axis=1, keepdims=True) * asked.rates, 1.0)
            rows *= _MIX
            rows[spot] += (1.0 - _MIX) * rest[here]
            norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
            total += lattice_gram(rows / np.maximum(norms * (1.0 + 1e-9), 1e-9))
        padded = np.zeros(mechanism.size)
        packed = _packing(width).pack(total)
        padded[: len(packed)] = packed
        return padded

    def _factors(self, asked: _Asked, mechanism: Gaussian) -> GridSum:
        cells = self._cells._replace(values=self._residuals(asked))
        features = asked.features
        rows = ridge_rows(cells, features, np.full(features.shape[1], _RIDGE))
        lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
        right = rows / np.maximum(lengths * (1.0 + 1e-9), 1e-9)
        left, which = cells.values[:, None], cells.owners
        scales = message_scales(cells, left, right, which, _SOFT)
        return self._summed(mechanism, left, right, which, scales)

    # -- at the site ----------------------------------------------------------------------

    def finish(self, shared: Mapping[str, Floats]) -> None:
        """Regress every member's own cells on the released features."""
        item = self._problem.shared[0]
        self._base = float(shared["mean"][0]) + shared[f"{item} offset"]
        features, kinds = shared[item], shared["kinds"].astype(np.int64)
        self._features = np.column_stack([np.ones(self._items), features])
        groups = np.concatenate([[0], kinds])
        cells = self._cells._replace(values=self._cells.values - self._base[self._cells.items])
        _, groups = np.unique(groups, return_inverse=True)
        penalties = choose_penalties(cells, self._features, groups)
        self._rows = ridge_rows(cells, self._features, penalties)

    def predict(self, relation: str, cells: NDArray[np.int32]) -> Floats:
        """Return the expected values of cells, within the bounds."""
        member, item = cells[:, self._member_mode], cells[:, 1 - self._member_mode]
        if len(cells) and not (
            0 <= member.min() <= member.max() < len(self._rows)
            and 0 <= item.min() <= item.max() < self._items
        ):
            raise ParameterError(
                f"cells must lie within {len(self._rows)} members and {self._items} items"
            )
        raw = self._base[item] + (self._rows[member] * self._features[item]).sum(axis=1)
        return np.asarray(self._middle + self._scale * np.clip(raw, -HALF, HALF))


class _Asked:
    """What a coordinator sent, brought into the ranges that the sensitivities are stated for.

    A number far outside would turn the rounding of floating point into a leak.
    """

    def __init__(self, request: Message, items: int) -> None:
        self._request, self._items = request, items

    def _clean(self, name: str, low: float, high: float) -> Floats:
        return np.clip(np.nan_to_num(np.asarray(self._request[name], np.float64)), low, high)

    @property
    def mean(self) -> float:
        """The overall mean."""
        return float(self._clean("mean", -HALF, HALF)[0])

    @property
    def offsets(self) -> Floats:
        """The items' offsets."""
        return self._clean("offsets", -2.0 * HALF, 2.0 * HALF)

    @property
    def features(self) -> Floats:
        """The items' features."""
        return self._clean("features", -1e3, 1e3)

    @property
    def popular(self) -> NDArray[np.int64]:
        """The most popular items, each once."""
        found = self._request["popular"].astype(np.int64)
        if len(np.unique(found)) != len(found) or found.min() < 0 or found.max() >= self._items:
            raise SiteFailure("popular items must be distinct items")
        return found

    @property
    def rates(self) -> Floats:
        """How often the popular items occur, relative to each other."""
        return self._clean("rates", 0.0, 1.0)


def _packing(width: int) -> SymmetricGaussian:
    """Return the coordinates of symmetric matrices in which noise is the same for each."""
    return SymmetricGaussian(0.0, 1.0, order=2, dimension=width)


class ItemCoordinator(JointCoordinator):
    """The coordinator; all it holds was released."""

    def __init__(
        self, method: AlternatingLeastSquares, problem: Problem, rng: np.random.Generator
    ) -> None:
        self._method, self._problem = method, problem
        self._stages = method.stages(problem)
        self._mechanisms = method.mechanisms(problem)
        self._items, self._rank = problem.sizes[problem.shared[0]], rank_of(problem)
        extra = min(self._rank + OVERSAMPLING, self._items)
        self._arrays: dict[str, Any] = {
            "counts": np.zeros(self._items),
            "block": rng.standard_normal((self._items, extra)),
            "public": np.zeros((self._items, 0)),
            "mean": np.zeros(1),
            "offsets": np.zeros(self._items),
            "weights": np.zeros(self._items),
            "features": np.zeros((self._items, 0)),
            "members": np.array([float(problem.members or 1)]),
            "sums": np.zeros(self._items * (2 if problem.unit == "user" else 1)),
            "precision": np.zeros(1),
        }
        self._round = 0

    @property
    def replies(self) -> Mapping[str, ArraySpec]:
        """One array per round, whose shape follows from the round."""
        stage = self._stages[min(self._round, len(self._stages) - 1)]
        kind = stage.split()[0]
        if kind == "counts":
            return {"sum": ArraySpec((self._items,), low=0.0)}
        if kind == "pattern":
            return {"sum": ArraySpec(self._arrays["block"].shape)}
        mechanism = self._mechanisms[stage]
        return {"sum": ArraySpec(mechanism.shape, exponent=mechanism.grid.exponent)}

    def request(self, round: int) -> Message | None:
        """Ask for the next sums, with what they need."""
        self._round = round
        if round >= len(self._stages):
            return None
        a, kind = self._arrays, self._kind(round)
        asked: dict[str, Any] = {"kind": np.array([_KINDS.index(kind) if kind in _KINDS else 0])}
        if kind == "pattern":
            asked |= {"counts": a["counts"], "block": a["block"]}
        elif kind == "offsets":
            asked |= {"mean": a["mean"]}
        elif kind == "covariance":
            popular = self._popular()
            rates = a["weights"][popular] / max(float(a["weights"][popular].sum()), 1e-300)
            asked |= {"mean": a["mean"], "offsets": a["offsets"], "rates": rates,
                      "popular": popular.astype(np.int64)}  # fmt: skip
        elif kind == "factors":
            asked |= {"mean": a["mean"], "offsets": a["offsets"], "features": a["features"]}
        return Message(round, asked)

    def _kind(self, round: int) -> str:
        """Return what a round is about; of a later one, by what was released so far."""
        kind, _, later = self._stages[round].partition(" ")
        if kind != "later":
            return kind
        learn = self._method.factors is True or self._method.visible(
            self._problem, float(self._arrays["members"][0])
        )
        if not learn:
            return "offsets"
        return "covariance" if later == "0" else "factors"

    def _popular(self) -> NDArray[np.int64]:
        """Return the most popular items, by what was released (or is public) of their weights."""
        width = self._method.width(self._problem)
        return np.argsort(-self._arrays["weights"], kind="stable")[:width].astype(np.int64)

    def absorb(self, round: int, collected: Collected) -> None:
        """Take in the sum over sites."""
        kind = self._kind(round)
        total = np.asarray(collected.total["sum"], np.float64)
        if not np.isfinite(total).all():
            raise SiteFailure(f"the sum of round {round} is not finite")
        a = self._arrays
        if kind == "counts":
            a["counts"] = a["weights"] = total
            a["block"] = pattern_basis(total, a["block"])
            return
        if kind == "pattern":
            if round == self._last_pattern:
                rank = min(self._rank, total.shape[1])
                a["public"] = pattern_features(a["block"], total, rank)
            else:
                a["block"] = pattern_basis(a["counts"], total)
            return
        noise = self._mechanisms[self._stages[round]].variance() * len(collected.sites)
        getattr(self, f"_take_{kind}")(total, noise)

    @property
    def _last_pattern(self) -> int:
        return max(k for k, s in enumerate(self._stages) if s.startswith("pattern"))

    def _take_mean(self, total: Floats, noise: float) -> None:
        a = self._arrays
        if self._problem.unit == "entry":
            count = max(float(a["counts"].sum()), 1.0)
            mean = float(total[0]) / count
        else:
            a["members"] = np.maximum(total[1:], 1.0)
            mean = HALF * float(total[0] / a["members"][0])
        a["mean"] = np.array([np.clip(mean, -HALF, HALF)])

    def _take_offsets(self, total: Floats, noise: float) -> None:
        a = self._arrays
        # the same sums may come several times: averaged by their noise
        own = total[: len(a["sums"])]
        precision = 1.0 / max(noise, 1e-12)
        before = float(a["precision"][0])
        a["sums"] = (before * a["sums"] + precision * own) / (before + precision)
        a["precision"] = np.array([before + precision])
        sums, noise = a["sums"], noise and 1.0 / (before + precision)
        weight_noise, within = 0.0, _RESIDUAL
        if self._problem.unit == "user":
            sums, weights = sums.reshape(-1, 2).T
            a["weights"] = np.maximum(weights / _COUNT, 0.0)
            weight_noise = noise / _COUNT**2
            within = self._within() * _RESIDUAL / (_RESIDUAL + _COUNT**2)
        a["offsets"] = shrink(sums, a["weights"], noise, within, weight_noise)

    def _within(self) -> float:
        """Return the sampling variance per unit of weight of sums of messages of length one.

        The squared lengths add up to the number of members, which was released.
        """
        a = self._arrays
        return float(a["members"][0]) / max(float(a["weights"].sum()), 1.0)

    def _take_covariance(self, total: Floats, noise: float) -> None:
        a, popular = self._arrays, self._popular()
        rank, packing = min(self._rank, len(popular)), _packing(len(popular))
        matrix = packing.unpack(total[: packing.size])
        a["features"] = np.zeros((self._items, self._rank))
        a["features"][popular, :rank] = eigen_features(matrix, rank, math.sqrt(noise))

    def _take_factors(self, total: Floats, noise: float) -> None:
        a = self._arrays
        sums = total[: self._items * self._rank].reshape(-1, self._rank)
        rows = shrink(sums, a["weights"], noise, self._within() / self._rank)
        a["features"] = scaled_columns(rows, self._method.width(self._problem))

    def shared(self) -> dict[str, Floats]:
        """Return mean, item offsets and item features, public ones first."""
        a, item = self._arrays, self._problem.shared[0]
        kinds = np.concatenate(
            [np.ones(a["public"].shape[1]), np.full(a["features"].shape[1], 2.0)]
        )
        return {
            "mean": a["mean"],
            f"{item} offset": a["offsets"],
            item: np.column_stack([a["public"], a["features"]]),
            "kinds": kinds,
        }

    def state(self) -> Mapping[str, NDArray[Any]]:
        """Return everything: all of it was released."""
        return dict(self._arrays)

    def restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from a recorded round."""
        self._arrays = dict(state)
