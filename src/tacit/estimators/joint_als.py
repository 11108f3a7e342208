"""Offsets first, then factors by alternating least squares, for matrices of bounded values.

Values are mapped to [−2, 2] by their public bounds. A site's members (users) keep their own offset
and factor at the site; what leaves are sums over members about items, in rounds:

=============  ====================================================  ==========================
round          what a site sends                                     Δ (L2)
=============  ====================================================  ==========================
pattern        item counts, then NᵀN·Q (`tacit.inference.pattern`)   0: public for entries
mean           entry: Σ x                                            4
               user: Σ (own mean/2, 1)                               √2
offsets        entry: per item Σ clip(x − b_i, ±c)                   √(min(2c, 4)² + 4/κ)
               user: per item Σ scaled (clip(x − b_i, ±c), ½)        1
covariance     Σ x_i·x_iᵀ over popular items, ‖x_i‖ ≤ 1              user 1, entry √2
factors        per item Σ scaled e_ij·û_i, and Σ ½·û_i·û_iᵀ          user √1.25, entry √5
=============  ====================================================  ==========================

**Entry: offsets.** With b_i = (Σ_j x_ij + κ·r₀)/(n_i + κ), r₀ released before, replacing one value
moves its own term by at most min(2c, 4) and the user's n_i − 1 others by at most 4/(n_i + κ) each
through b_i; (n − 1)/(n + κ)² ≤ 1/(4κ), hence Δ² = min(2c, 4)² + 4/κ (PRIVACY B2). Counts are
public.

**User.** Every member's whole message is scaled below norm one (`tacit.inference.messages`), so
adding or removing a member moves the sum by at most one; replacing one entry replaces at most one
member's message, which moves a sum of messages by at most two and a sum of outer products of unit
vectors by at most √2. A member's own mean and factor are functions of its own cells and of what
was released before, so the bound covers them.

**What the coordinator makes of it** is post-processing: item offsets and factors shrunk by the
known noise (`tacit.inference.shrinkage`). **At the site**, each member's offset and factor are a
ridge regression of its own cells on the released features, with penalties chosen by leaving cells
out; that is prediction at the site, and never leaves it.

The rounds on factors are alternating least squares after Chien et al. (2021): users solve for
their factor from the released item factors, items from the users' noisy sums. Here the Gram
matrix of item j is the pooled one times the weight C_j that the offsets' round released, instead
of a noisy matrix per item: rank/2 times fewer numbers share the budget.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit.data.relations import Relation
from tacit.errors import ParameterError, SiteFailure
from tacit.estimators.joint import JointCoordinator, JointMethod, Problem, SitePart
from tacit.inference.members import ByMember, by_member, choose_penalties, ridge_rows
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
from tacit.privacy.calibration import calibrate, gaussian_sigma
from tacit.privacy.events import (
    ADD_REMOVE,
    REPLACE,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    compose,
)
from tacit.rounds.messages import ArraySpec, Message
from tacit.rounds.protocol import Collected

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

    Floats = NDArray[np.float64]

__all__ = ["AlternatingLeastSquares"]

_HALF = 2.0  # values are mapped to [−2, 2]
_COUNT = 0.5  # weight of a count beside a residual
_SOFT = 2.0  # members whose message is shorter than this are hardly scaled up
_MIX = 0.5  # of pattern and residuals in the covariance
_PATTERN_ROUNDS = 6
_RIDGE = 10.0  # of a member's factor in a round, from half of its cells
_RESIDUAL = 0.8  # the variance of a value about its offsets, of a half-range of 2, as a rule
_SLACK = 1.0 + 2.0**-30  # on sensitivities: the rounding of norms
# shares of the squared noise multiplier
_SHARES_ENTRY = {"mean": 0.02, "offsets": 0.98}
_SHARES = {"mean": 0.05, "offsets": 0.45, "covariance": 0.25, "factors": 0.25}
# the share of users' energy that the second-weakest of common tastes explains, as a rule
_VISIBLE = 0.03


@dataclass(frozen=True)
class AlternatingLeastSquares(JointMethod):
    """Offsets, and factors by alternating least squares, for one matrix of bounded values.

    Parameters
    ----------
    rounds
        Rounds of alternating least squares after the covariance.
    factors
        Whether factors are learned from private values at all; ``"auto"``: always for users, for
        entries where the public sizes and ε say that they would stand out from the noise.
    pattern
        Whether, for entries, item features are taken from which cells are observed, which is
        public then and costs nothing.
    popular
        Over how many items, the most popular ones, the covariance is taken.
    clip
        c, where a value's distance from its member's mean is clipped, of a half-range of 2.
    prior_weight
        κ, the number of cells that the overall mean counts for in a member's own mean.
    """

    rounds: int = 2
    factors: bool | str = "auto"
    pattern: bool = True
    popular: int = 300
    clip: float = 1.5
    prior_weight: float = 5.0

    def __post_init__(self) -> None:
        check("rounds", self.rounds, Integer(0))
        check("factors", self.factors, OneOf("auto", True, False))
        check("pattern", self.pattern, OneOf(True, False))
        check("popular", self.popular, Integer(2))
        check("clip", self.clip, Real(0, 2 * _HALF, open_low=True))
        check("prior_weight", self.prior_weight, Real(0, open_low=True))

    # -- what is public -------------------------------------------------------------------

    def check(self, problem: Problem) -> None:
        """Raise unless there is one matrix with one shared factor."""
        forms = problem.model.forms
        tokens = next(iter(forms.values()))
        if len(forms) != 1 or len(tokens) != 2 or tokens[0][1] != tokens[1][1]:
            raise ParameterError(
                "this method factorizes one matrix, such as 'user:k item:k': use method='sgld'"
            )
        if problem.unit not in ("entry", "user"):
            raise ParameterError(
                f"privacy.unit must be 'entry' or 'user' for a factorization, got {problem.unit!r}"
            )
        if problem.unit == "entry" and problem.noisy and _neighbours(problem) != REPLACE:
            raise ParameterError("entries are replaced: pass neighbours='replace-one'")
        if len(problem.shared) != 1:
            raise ParameterError("this method shares the items' factor: pass shared=None")
        if problem.calibration != "certified":
            raise ParameterError("there is no published calibration of this method")

    def plan(self, problem: Problem) -> dict[str, float]:
        """Return the noisy rounds in order, each with its share of the budget."""
        if problem.unit == "user":
            shares = dict(_SHARES)
            if self.factors is False:
                shares["offsets"] += shares.pop("covariance") + shares.pop("factors")
            elif self.rounds == 0:
                shares["covariance"] += shares.pop("factors")
        elif self._visible(problem):
            shares = {**_SHARES, "mean": 0.02, "offsets": 0.48}
            if self.rounds == 0:
                shares["covariance"] += shares.pop("factors")
        else:
            shares = dict(_SHARES_ENTRY)
        plan = {}
        for name, share in shares.items():
            times = self.rounds if name == "factors" else 1
            for k in range(times):
                plan[f"{name} {k}" if times > 1 else name] = share / times
        return plan

    def _visible(self, problem: Problem) -> bool:
        """Whether factors of entries would stand out from noise, by public sizes and ε alone.

        The covariance of M members has an eigenvalue of about 0.03·M along a common taste, and
        noise of standard deviation σ on p items has eigenvalues up to σ·√(2p).
        """
        if self.factors != "auto" or not problem.noisy:
            return self.factors is not False
        assert problem.privacy is not None
        multiplier = gaussian_sigma(problem.privacy.epsilon, max(problem.privacy.delta, 1e-12))
        noise = multiplier * math.sqrt(2.0) / math.sqrt(_SHARES["covariance"])
        edge = noise * math.sqrt(2.0 * self._width(problem) * problem.sites)
        return problem.members is not None and _VISIBLE * problem.members > edge

    def _width(self, problem: Problem) -> int:
        return min(self.popular, problem.sizes[problem.shared[0]])

    def mechanisms(self, problem: Problem) -> dict[str, Gaussian]:
        """Return the mechanism of every noisy round."""
        plan = self.plan(problem)
        items, rank = problem.sizes[problem.shared[0]], _rank(problem)
        neighbours = _neighbours(problem)
        user = problem.unit == "user"
        twice, root = (1.0, 1.0) if user else (2.0, math.sqrt(2.0))
        first, second = (2, 2) if user else (1, 1)
        reach = math.sqrt(min(2.0 * self.clip, 2.0 * _HALF) ** 2 + 4.0 / self.prior_weight)
        width = self._width(problem)
        shapes: dict[str, tuple[tuple[int, ...], float]] = {
            "mean": ((first,), math.sqrt(2.0) if user else 2.0 * _HALF),
            "offsets": ((items * second,), 1.0 if user else reach),
            "covariance": ((width,), root),
            "factors": ((items * rank + rank * rank,), twice * math.sqrt(1.0 + _COUNT**2)),
        }
        scale = self._calibrated(problem, plan) if problem.noisy else math.inf
        found = {}
        for name, share in plan.items():
            shape, sensitivity = shapes[name.split()[0]]
            kind: Any = Gaussian
            more: dict[str, Any] = {}
            if name == "covariance":
                kind, more = SymmetricGaussian, {"order": 2, "dimension": width}
                shape = (width * (width + 1) // 2,)
            bound = sensitivity * _SLACK
            if math.isinf(scale):
                found[name] = kind(0.0, bound, shape, neighbours, "grid", **more)
            else:
                found[name] = kind.calibrated(
                    scale / math.sqrt(share), bound, shape, neighbours=neighbours, **more
                )
        return found

    @staticmethod
    def _calibrated(problem: Problem, plan: Mapping[str, float]) -> float:
        """Return the noise multiplier that all rounds together have."""
        privacy = problem.privacy
        assert privacy is not None
        if problem.accountant == "pld":  # Gaussians compose into one: the analytic calibration
            return gaussian_sigma(privacy.epsilon, privacy.delta)
        return calibrate(
            lambda scale: compose(GaussianDpEvent(scale / math.sqrt(s)) for s in plan.values()),
            privacy.epsilon, privacy.delta, accountant=problem.accountant,
        )  # fmt: skip

    def schedule(self, problem: Problem) -> DpEvent:
        """Return every noisy round, composed."""
        if not problem.noisy:
            return NonPrivateDpEvent()
        return compose(m.event for m in self.mechanisms(problem).values())

    def budget(self, problem: Problem) -> dict[str, float]:
        """Return the shares of the rounds."""
        return self.plan(problem)

    def assumptions(self, problem: Problem) -> tuple[str, ...]:
        """Say what members keep to themselves."""
        notes = [
            f"members of {problem.protected!r} keep their own offset and factor at the site: "
            "predictions are the site's own, and are no release"
        ]
        if problem.unit == "entry" and self.pattern:
            notes.append("item features from which cells are observed are shared as they are")
        return tuple(notes)

    # -- the two sides --------------------------------------------------------------------

    def coordinator(
        self, problem: Problem, public: Mapping[str, Relation], rng: np.random.Generator
    ) -> JointCoordinator:
        """Return the coordinator."""
        return _Coordinator(self, problem, rng)

    def part(
        self,
        problem: Problem,
        name: str,
        relations: Mapping[str, Relation],
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> SitePart:
        """Return a site's part."""
        return _Part(self, problem, name, relations, reservation, noise)

    def stages(self, problem: Problem) -> list[str]:
        """Return all rounds in order, public ones included."""
        stages = list(self.plan(problem))
        if problem.unit == "entry" and self.pattern:
            stages = ["counts", *(f"pattern {k}" for k in range(_PATTERN_ROUNDS)), *stages]
        elif problem.unit == "entry":
            stages = ["counts", *stages]
        return stages


def _rank(problem: Problem) -> int:
    return math.prod(
        problem.model.ranks[k] for k in dict(next(iter(problem.model.forms.values()))).popitem()[1]
    )


def _neighbours(problem: Problem) -> str:
    return ADD_REMOVE if problem.privacy is None else str(problem.privacy.neighbours)


class _Part(SitePart):
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
        self._middle, self._scale = (low + high) / 2.0, (high - low) / (2.0 * _HALF)
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
        mechanism = self._mechanisms[stage]
        value = getattr(self, f"_{kind}")(request, mechanism)
        noisy = privatize(mechanism, value, ledger=self._reservation, rng=self._noise)
        return Message(request.round, {"sum": noisy})

    def _mean(self, request: Message, mechanism: Gaussian) -> Any:
        cells = self._cells
        if self._problem.unit == "entry":
            return mechanism.grid.sum(cells.values[:, None])
        counts = np.diff(cells.starts)
        filled = counts > 0
        means = cells.sums(cells.values)[filled] / counts[filled]
        return mechanism.grid.sum(np.column_stack([means / _HALF, np.ones(len(means))]))

    def _deviations(self, request: Message) -> Floats:
        """Return every value minus its member's own shrunken mean, clipped."""
        cells, weight = self._cells, self._method.prior_weight
        total = cells.sums(cells.values) + weight * float(request["mean"][0])
        own = total / (np.diff(cells.starts) + weight)
        return np.clip(cells.values - own[cells.owners], -self._method.clip, self._method.clip)

    def _offsets(self, request: Message, mechanism: Gaussian) -> Any:
        cells, deviations = self._cells, self._deviations(request)
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
        return GridSum(total.ravel(), mechanism.grid)

    def _residuals(self, request: Message) -> Floats:
        """Return what offsets leave of every value, the member's own from its own cells."""
        cells = self._cells
        rest = cells.values - float(request["mean"][0]) - request["offsets"][cells.items]
        own = cells.sums(rest) / (np.diff(cells.starts) + self._method.prior_weight)
        clip = self._method.clip
        return np.asarray(np.clip(rest - own[cells.owners], -clip, clip))

    def _covariance(self, request: Message, mechanism: SymmetricGaussian) -> Any:
        cells, popular = self._cells, request["popular"].astype(np.int64)
        width = len(popular)
        place = np.full(self._items, -1)
        place[popular] = np.arange(width)
        column = place[cells.items]
        kept = column >= 0
        rest, owners = self._residuals(request)[kept], cells.owners[kept]
        rates = request["rates"]
        total = np.zeros((width, width))
        step = max(1, (1 << 24) // width)
        for first in range(0, cells.members, step):
            last = min(first + step, cells.members)
            here = (owners >= first) & (owners < last)
            rows = np.zeros((last - first, width))
            spot = owners[here] - first, column[kept][here]
            rows[spot] = 1.0
            # which items, beyond what their popularity says, and how they were liked
            rows -= np.minimum(rows.sum(axis=1, keepdims=True) * rates, 1.0)
            rows *= _MIX
            rows[spot] += (1.0 - _MIX) * rest[here]
            norms = np.sqrt((rows**2).sum(axis=1, keepdims=True))
            total += lattice_gram(rows / np.maximum(norms * (1.0 + 1e-9), 1e-9))
        return mechanism.pack(total)

    def _factors(self, request: Message, mechanism: Gaussian) -> Any:
        cells = self._cells._replace(values=self._residuals(request))
        half, even, odd = cells.halves()
        # the factor that stands beside a cell comes from the member's other half of cells: a
        # value would meet its own echo otherwise
        right = np.concatenate([self._directions(part, request) for part in (odd, even)])
        which = cells.owners + half * cells.members
        left = cells.values[:, None]
        scales = message_scales(cells, left, right, which, _SOFT)
        total = self._summed(mechanism, left, right, which, scales)
        squares = (right[:, :, None] * right[:, None, :]).reshape(len(right), -1)
        gram = mechanism.grid.sum(
            (_COUNT / 2.0) * (squares[: cells.members] + squares[cells.members :])
        )
        return GridSum(np.concatenate([total.integers, gram.integers]), mechanism.grid)

    @staticmethod
    def _directions(cells: ByMember, request: Message) -> Floats:
        """Return every member's factor, scaled to length one."""
        features = request["features"]
        rows = ridge_rows(cells, features, np.full(features.shape[1], _RIDGE))
        lengths = np.sqrt((rows**2).sum(axis=1, keepdims=True))
        return np.asarray(rows / np.maximum(lengths * (1.0 + 1e-9), 1e-9))

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
        return np.asarray(self._middle + self._scale * np.clip(raw, -_HALF, _HALF))


class _Coordinator(JointCoordinator):
    """The coordinator; all it holds was released."""

    def __init__(
        self, method: AlternatingLeastSquares, problem: Problem, rng: np.random.Generator
    ) -> None:
        self._method, self._problem = method, problem
        self._stages = method.stages(problem)
        self._mechanisms = method.mechanisms(problem)
        self._items, self._rank = problem.sizes[problem.shared[0]], _rank(problem)
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
        return {"sum": ArraySpec(self._mechanisms[stage].shape)}

    def request(self, round: int) -> Message | None:
        """Ask for the next sums, with what they need."""
        self._round = round
        if round >= len(self._stages):
            return None
        a, kind = self._arrays, self._stages[round].split()[0]
        asked: dict[str, Any] = {}
        if kind == "pattern":
            asked = {"counts": a["counts"], "block": a["block"]}
        elif kind == "offsets":
            asked = {"mean": a["mean"]}
        elif kind == "covariance":
            popular = self._popular()
            rates = a["weights"][popular] / max(float(a["weights"][popular].sum()), 1e-300)
            asked = {"mean": a["mean"], "offsets": a["offsets"], "rates": rates,
                     "popular": popular.astype(np.int64)}  # fmt: skip
        elif kind == "factors":
            asked = {"mean": a["mean"], "offsets": a["offsets"], "features": a["features"]}
        return Message(round, asked)

    def _popular(self) -> NDArray[np.int64]:
        """Return the most popular items, by what was released (or is public) of their weights."""
        width = self._method._width(self._problem)
        return np.argsort(-self._arrays["weights"], kind="stable")[:width].astype(np.int64)

    def absorb(self, round: int, collected: Collected) -> None:
        """Take in the sum over sites."""
        stage = self._stages[round]
        kind = stage.split()[0]
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
        noise = self._mechanisms[stage].variance() * len(collected.sites)
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
            mean = _HALF * float(total[0] / a["members"][0])
        a["mean"] = np.array([np.clip(mean, -_HALF, _HALF)])

    def _take_offsets(self, total: Floats, noise: float) -> None:
        a, weight_noise, within = self._arrays, 0.0, _RESIDUAL
        sums = total
        if self._problem.unit == "user":
            sums, weights = total.reshape(-1, 2).T
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
        a = self._arrays
        mechanism = self._mechanisms["covariance"]
        assert isinstance(mechanism, SymmetricGaussian)
        popular = self._popular()
        rank = min(self._rank, len(popular))
        a["features"] = np.zeros((self._items, rank))
        a["features"][popular] = eigen_features(mechanism.unpack(total), rank, math.sqrt(noise))

    def _take_factors(self, total: Floats, noise: float) -> None:
        a = self._arrays
        rank = a["features"].shape[1]
        size = self._items * rank
        sums, gram = total[:size].reshape(-1, rank), total[size:].reshape(rank, rank)
        rows = shrink(sums, a["weights"], noise, self._within() / rank)
        # E[e·û] = E[û·ûᵀ]·v: undo the users' common directions, as far as they are known
        gram = (gram + gram.T) / 2.0
        values, vectors = np.linalg.eigh(gram)
        floor = max(float(values[-1]) * 0.1, math.sqrt(noise * rank), 1e-12)
        rows = rows @ (vectors / np.maximum(values, floor)) @ vectors.T
        a["features"] = scaled_columns(rows, self._method._width(self._problem))

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
