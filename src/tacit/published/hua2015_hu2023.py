"""Matrix factorization by noisy gradients, as published: DPMF, PDPMF, HDPMF; and plain MF.

Sources: Hua et al. (2015), Zhang et al. (2019), Hu & Fang (2023), whose schedule, sampling and
stretching these follow. In each of T epochs every rater of item j sends 2(u_i·v_j − y_ij)·u_i plus
a share of a noise vector with independent Laplace entries of scale 2Δ√K/ε; shares of one item add
up to one vector, x = (2Δ/ε)·√(2K·h) ⊙ c with h exponential and c normal.

=====  =============================================  ==========================
name   what y_ij is                                   ε of the noise
=====  =============================================  ==========================
DPMF   r_ij                                           the smallest ε_ij = W_ij·ε
PDPMF  r_ij, kept with probability                    t, the mean of ε_ij over all
       (e^{ε_ij} − 1)/(e^t − 1), or 1 from t on       users and items
HDPMF  W_ij·r_ij; predictions are divided by W_ij     ε
MF     r_ij                                           no noise
=====  =============================================  ==========================

**What the claim leaves out** (PRIVACY B2): fresh noise is drawn in each of the T epochs and ε is
counted once; a recommender that sees single messages sees shares of noise, not the noise; users'
vectors, which depend on all of a user's ratings, enter every message and are taken to be fixed.
The certificate shows all T epochs composed, which holds for a recommender that sees sums only, and
given those vectors: a change of one rating then moves an item's sum by at most 2Δ·W_ij·‖u_i‖, in
L1 by √K times that.

The noise of an epoch does not depend on ratings. It is charged and drawn before the epoch, item
by item, and every message carries an equal share: the sums, which are all that is claimed to be
seen, have the published law. What leaves after an epoch is V.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real, check
from tacit._core.rng import generator
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement, Ask, Asked, Coordinating, Neighbours, Start, Step
from tacit.estimators.fit import Outcome
from tacit.estimators.gate import Gate
from tacit.estimators.parameters import stores_parameters
from tacit.estimators.shards import Holder
from tacit.factorization.arrays import Floats, Integers
from tacit.factorization.offsets.numerics.ridge import ByMember
from tacit.factorization.offsets.weights import bands
from tacit.mechanisms.grid import GridSum
from tacit.mechanisms.laplace import Laplace
from tacit.privacy.accounting.accountants import accountant as make_accountant
from tacit.privacy.events import REPLACE, DpEvent, LaplaceDpEvent, repeat
from tacit.privacy.guarantee import Privacy, round_up
from tacit.privacy.ledger.filters import run_cost
from tacit.published.hua2015_hu2023_epochs import gradient_epoch, learning_rate, visits
from tacit.recommender.devices import Devices, Rows
from tacit.recommender.estimator import PrivateRecommender
from tacit.recommender.method import Rated, RecommenderMethod, Task
from tacit.rounds.messages import ArraySpec

__all__ = ["GradientAgreement", "GradientFactorization", "GradientRecommender"]

KINDS = ("mf", "dpmf", "pdpmf", "hdpmf")
_START = 0.1  # standard deviation of the vectors' first values
_FOLD = 5.0  # the penalty with which a device folds ratings in
_CITES = {"mf": (), "dpmf": ("hua2015",), "pdpmf": ("zhang2019",), "hdpmf": ("hu2023",)}


@dataclass(frozen=True)
class GradientFactorization(RecommenderMethod):
    """Factorization by stochastic gradients; see the module for its kinds.

    Parameters
    ----------
    kind
        ``"mf"``, ``"dpmf"``, ``"pdpmf"`` or ``"hdpmf"``.
    step_size
        The initial step size η.
    ridge
        λ.
    epochs
        T.
    rescale
        Whether HDPMF divides predictions by W_ij.
    offsets
        Whether MF starts from users' and items' means, which it then leaves alone.
    """

    kind: str = "hdpmf"
    step_size: float = 0.005
    ridge: float = 0.01
    epochs: int = 100
    rescale: bool = True
    offsets: bool = False

    told = ("kind", "step_size", "ridge", "epochs", "rescale", "offsets")

    def __post_init__(self) -> None:
        check("kind", self.kind, OneOf(*KINDS))
        check("step_size", self.step_size, Real(0, 1, open_low=True))
        check("ridge", self.ridge, Real(0))
        check("epochs", self.epochs, Integer(1))
        check("rescale", self.rescale, OneOf(True, False))
        check("offsets", self.offsets, OneOf(True, False))
        if self.offsets and self.kind != "mf":
            raise ParameterError("offsets are for kind='mf': the papers have none")

    def check(self, task: Task) -> None:
        """Refuse sites, and a guarantee for plain MF."""
        super().check(task)
        if not task.devices:
            raise ParameterError("the papers have no sites: pass the ratings of all users")
        if self.kind == "mf" and task.noisy:
            raise ParameterError("kind='mf' adds no noise: pass privacy=None")
        if self.kind in ("dpmf", "pdpmf") and task.by_rating and task.noisy:
            raise ParameterError(
                f"kind={self.kind!r} calibrates noise by everybody's weights, which are public "
                "then: pass tc.PrivacyWeights, or kind='hdpmf'"
            )

    def agree(self, task: Task) -> GradientAgreement:
        """Return what is public about a fit."""
        self.check(task)
        return GradientAgreement(self, task, task.privacy, cites=_CITES[self.kind])


@dataclass(frozen=True)
class GradientAgreement(Agreement):
    """T epochs of stochastic gradients with the papers' noise."""

    family = "recommender"
    trusts = ("aggregator",)

    settings: GradientFactorization
    task: Task
    privacy: Privacy | None
    sites: int = 1
    cites: tuple[str, ...] = ()

    # -- what it costs ---------------------------------------------------------------------

    @cached_property
    def noise_epsilon(self) -> float:
        """The ε that the noise of one epoch is calibrated for."""
        assert self.privacy is not None
        users = np.ones(1) if self.task.openness is None else self.task.openness
        items = np.ones(1) if self.task.item_weights is None else np.array(self.task.item_weights)
        epsilon = float(self.privacy.epsilon)
        if self.settings.kind == "dpmf":
            return epsilon * float(users.min() * items.min())
        if self.settings.kind == "pdpmf":
            return epsilon * float(users.mean() * items.mean())
        return epsilon

    @cached_property
    def mechanism(self) -> Laplace:
        """The noise of one epoch: scale 2Δ√K/ε on every entry."""
        task = self.task
        reach = 2.0 * task.range * math.sqrt(task.rank)
        scale = reach / self.noise_epsilon if task.noisy else 0.0
        return Laplace(scale, reach, (task.items, task.rank), REPLACE)

    def _steps(self) -> tuple[Step, ...]:
        replies = {"v": ArraySpec(self.mechanism.shape)}
        reach = "the noise of an epoch is drawn before the epoch, and has nothing to do with it"
        return (
            Step(
                "epoch", self.mechanism, replies=replies, times=self.settings.epochs, reach=reach
            ),
        )

    def scaled(self, weight: float) -> DpEvent:
        """Return all epochs as a rating of some weight sees them; only HDPMF scales ratings."""
        if self.settings.kind != "hdpmf" or not self.task.noisy:
            return self.event
        mechanism = self.mechanism
        growth = mechanism.grid.growth(mechanism.size, 1, REPLACE)
        one = LaplaceDpEvent(mechanism.scale / (weight * mechanism.sensitivity + growth))
        return repeat(one, self.settings.epochs)

    def spread_epsilon(self, accountant: str = "pld") -> float:
        """Return ε of a rating of weight 1 whose user's vector is spread evenly over K entries.

        Every entry of the sum then moves by 1/K of the L1 bound, K·T small steps instead of T
        large ones: what the Laplace noise on K entries gives at best.
        """
        if not self.task.noisy or self.privacy is None:
            return math.inf
        one = LaplaceDpEvent(self.task.rank / self.noise_epsilon)
        whole = repeat(one, self.task.rank * self.settings.epochs)
        return make_accountant(accountant).add(whole).epsilon(self.privacy.delta)

    @property
    def claim(self) -> tuple[float, str] | None:
        """The claimed ε and what it leaves out."""
        if not self.task.noisy:
            return None
        return self.noise_epsilon, (
            f"it counts one of {self.settings.epochs} epochs, each with fresh noise; it takes the "
            "users' vectors as fixed, though they depend on the ratings; and a recommender that "
            "sees single messages sees shares of the noise. The ε computed here is for sums only "
            "and given those vectors"
        )

    @cached_property
    def _real(self) -> Privacy | None:
        if self.privacy is None or not self.task.noisy:
            return self.privacy
        real, _ = run_cost(self.event, self.privacy.delta, "basic")
        return self.privacy.with_epsilon(round_up(float(real) * (1.0 + 1e-12)))

    @property
    def charged(self) -> Privacy | None:
        """What a ledger is charged: what it really costs."""
        return self._real

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Say what is public and what is not covered."""
        known = "who rated what is public, and so is every privacy weight"
        if self.task.by_rating:
            known = "who rated what is public; a rating's weight is its user's own, and is fixed"
        notes = [*self.task.notes, known]
        if self.task.noisy:
            notes.append(
                "only sums over raters are seen, and users' vectors do not depend on ratings "
                "(they do)"
            )
        return tuple(notes)

    # -- the two sides ---------------------------------------------------------------------

    def holder(self, name: str, data: Rated, gate: Gate, seed: int | None) -> Descending:
        """Return all devices, with the recommender's table of items."""
        return Descending(self, name, data, gate, seed)

    def coordinate(self, start: Start) -> Coordinating:
        """Run all epochs; return V."""
        for _ in range(self.settings.epochs):
            found = yield Ask("epoch")
        return np.asarray(found.total["v"])

    def shared(self, result: Any) -> dict[str, Any]:
        """Return the table of items; MF's base values are put in where the ratings are."""
        features = np.nan_to_num(result, nan=0.0, posinf=0.0, neginf=0.0)
        own = np.ones((self.task.items, int(self.settings.offsets)))
        return {
            "base": np.zeros(self.task.items),
            "features": np.column_stack([own, features]),
            "penalties": np.full((1, int(self.settings.offsets) + self.task.rank), _FOLD),
            "spread": np.ones(1),
        }

    def worst_case(self) -> Neighbours:
        """One rating goes from one end of the range to the other."""
        low, high = self.task.bounds
        users, items = self.task.people, self.task.items
        starts = np.arange(0, users * items + 1, items, dtype=np.int64)
        values = generator(0, "audit").choice([low, high], users * items)
        rows = []
        for end in (high, low):
            values = values.copy()
            values[0] = end
            places = np.tile(np.arange(items, dtype=np.int32), users)
            rows.append(Rated(ByMember(starts, places, values), np.ones(users)))
        return Neighbours(*rows)

    @classmethod
    def examples(cls) -> Iterator[GradientAgreement]:
        """The three papers."""
        privacy = Privacy(1.0, 1e-5, unit="entry", trust="aggregator")
        task = Task(3, 4, (1.0, 5.0), 2, privacy)
        for kind in KINDS[1:]:
            yield GradientFactorization(kind, epochs=2).agree(task)


class Descending(Holder):
    """All devices and the recommender's table of items, in one process, as the papers simulate."""

    agreement: GradientAgreement
    devices: Devices

    def __init__(
        self, agreement: GradientAgreement, name: str, data: Rated, gate: Gate, seed: int | None
    ) -> None:
        super().__init__(agreement, name, [data], gate)
        self._rated, self._rng = data, generator(seed, "recommender")
        task, cells, kind = agreement.task, data.cells, agreement.settings.kind
        users, items = cells.owners.astype(np.uint32), cells.items.astype(np.uint32)
        values = np.clip(cells.values, *task.bounds)
        self._base, self._own = np.zeros(task.items), np.zeros((cells.members, 0))
        if agreement.settings.offsets:
            self._base, own = _means(task, cells)
            values = values - self._base[items] - own[users]
            self._own = own[:, None]
        self._weights = task.weights(data.openness) if data.chosen is None else data.chosen
        self._by_rating = self._weights.of(cells.owners, cells.items)
        if kind == "hdpmf":
            values = self._by_rating * values
        if kind == "pdpmf" and task.noisy and task.privacy is not None:
            own = self._by_rating * task.privacy.epsilon
            kept = self._rng.random(len(own)) < np.expm1(own) / math.expm1(agreement.noise_epsilon)
            users, items, values = users[kept], items[kept], values[kept]
        order = self._rng.permutation(len(values))
        self._cells = users[order], items[order], values[order]
        self._u = _START * self._rng.standard_normal((cells.members, task.rank))
        self._v = _START * self._rng.standard_normal((task.items, task.rank))
        self._shares = 1.0 / np.maximum(np.bincount(items, minlength=task.items), 1)[:, None]
        self._epoch = 0

    def contribute(
        self, step: Step, asked: Asked, kept: Mapping[str, Any], shard: Rated, picks: Integers
    ) -> GridSum:
        """Return nothing: an epoch's noise is drawn before it."""
        mechanism = self.agreement.mechanism
        return GridSum(np.zeros(mechanism.shape, np.int64), mechanism.grid)

    def contributions(self, shard: Rated) -> int:
        """Return the number of ratings."""
        return len(shard.cells.values)

    def settle(self, step: Step, asked: Asked, released: Any, kept: dict[str, Any]) -> None:
        """Run an epoch; every message carries its share of the noise."""
        settings, (users, items, values) = self.agreement.settings, self._cells
        starts = visits(len(values), self._rng)
        rate = learning_rate(settings.step_size, self._epoch, settings.epochs)
        push, unit = np.asarray(self._shares * released), settings.kind != "mf"
        u, v, ridge = self._u, self._v, settings.ridge
        gradient_epoch(starts, users, items, values, push, rate, ridge, unit, u, v)
        self._epoch += 1

    def sends(self, step: Step, asked: Asked, released: Any) -> Mapping[str, Any]:
        """Return V after the epoch, whatever became of it."""
        return {"v": np.nan_to_num(self._v, nan=0.0, posinf=0.0, neginf=0.0)}

    def groups(self) -> Mapping[str, DpEvent]:
        """Return bands of weights, where they count."""
        public = self.agreement
        if public.settings.kind != "hdpmf" or not public.task.noisy or public.task.by_rating:
            return {}  # which weights there are is nobody's business where users chose them
        return bands([self._by_rating], public.scaled)

    def finish(self, shared: Mapping[str, NDArray[Any]]) -> None:
        """Keep every user's own vector."""
        public = self.agreement
        rows = Rows.of(np.column_stack([self._own, np.nan_to_num(self._u)]))
        stretched = public.settings.kind == "hdpmf" and public.settings.rescale
        table = {**shared, "base": self._base}
        self.devices = Devices(
            table, public.task.bounds, self._rated.cells, rows, self._weights, stretched
        )


@stores_parameters
class GradientRecommender(PrivateRecommender):
    """DPMF, PDPMF, HDPMF and plain MF, as published; see the module.

    Parameters
    ----------
    bounds, privacy, rank, ledger, random_state
        As in `PrivateRecommender`.
    method
        ``"mf"``, ``"dpmf"``, ``"pdpmf"``, ``"hdpmf"``, or a `GradientFactorization` with settings
        of its own.
    """

    _methods: ClassVar[Mapping[str, Callable[[], RecommenderMethod]]] = {
        kind: partial(GradientFactorization, kind) for kind in KINDS
    }
    _kinds: ClassVar[Mapping[str, type[RecommenderMethod]]] = {
        "GradientFactorization": GradientFactorization
    }
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        **PrivateRecommender._constraints,
        "method": AnyOf(OneOf(*KINDS), InstanceOf(GradientFactorization)),
    }

    _: KW_ONLY
    method: str | RecommenderMethod = "hdpmf"

    def _conclude(self, outcome: Outcome) -> None:
        super()._conclude(outcome)
        if self._devices is not None:  # MF's base values, without privacy
            self.shared_ = dict(self._devices.shared)


def _means(task: Task, cells: ByMember) -> tuple[Floats, Floats]:
    """Return items' base values and users' offsets: shrunken means, without privacy."""
    mean = float(cells.values.mean())
    counts = np.bincount(cells.items, minlength=task.items)
    sums = np.bincount(cells.items, cells.values - mean, task.items)
    base = mean + sums / (counts + _FOLD)
    own = cells.sums(cells.values - base[cells.items]) / (np.diff(cells.starts) + _FOLD)
    return base, own
