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
seen, have the published law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from tacit._core.check import Integer, OneOf, Real, check
from tacit._core.threads import ahead
from tacit.errors import ParameterError
from tacit.estimators.recommender_method import Learned, RecommenderMethod, Task, nothing_private
from tacit.inference.gradient import gradient_epoch, learning_rate, visits
from tacit.inference.members import ByMember
from tacit.mechanisms.additive import Laplace
from tacit.mechanisms.base import privatize
from tacit.mechanisms.grid import GridSum
from tacit.privacy.events import REPLACE, DpEvent, LaplaceDpEvent, repeat

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tacit.mechanisms.noise import Noise
    from tacit.privacy.ledger import Reservation

    Floats = NDArray[np.float64]

__all__ = ["GradientFactorization"]

_START = 0.1  # standard deviation of the vectors' first values
_FOLD = 5.0  # the penalty with which a device folds ratings in


@dataclass(frozen=True)
class GradientFactorization(RecommenderMethod):
    """Factorization by stochastic gradients; see the module for its kinds.

    Parameters
    ----------
    kind
        ``"mf"``, ``"dpmf"``, ``"pdpmf"`` or ``"hdpmf"``.
    rate
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
    rate: float = 0.005
    ridge: float = 0.01
    epochs: int = 100
    rescale: bool = True
    offsets: bool = False

    unit = "entry"
    trusts: ClassVar[tuple[str, ...]] = ("aggregator",)

    def __post_init__(self) -> None:
        check("kind", self.kind, OneOf("mf", "dpmf", "pdpmf", "hdpmf"))
        check("rate", self.rate, Real(0, 1, open_low=True))
        check("ridge", self.ridge, Real(0))
        check("epochs", self.epochs, Integer(1))
        if self.offsets and self.kind != "mf":
            raise ParameterError("offsets are for kind='mf': the papers have none")

    def check(self, task: Task) -> None:
        """Refuse a guarantee for plain MF."""
        super().check(task)
        if self.kind == "mf" and task.noisy:
            raise ParameterError("kind='mf' adds no noise: pass privacy=None")

    # -- what it costs --------------------------------------------------------------------

    def noise_epsilon(self, task: Task) -> float:
        """Return the ε that the noise of one epoch is calibrated for."""
        assert task.privacy is not None
        users, items = task.weights.users, task.weights.items
        epsilon = float(task.privacy.epsilon)
        if self.kind == "dpmf":
            return epsilon * float(users.min() * items.min())
        if self.kind == "pdpmf":
            return epsilon * float(users.mean() * items.mean())
        return epsilon

    def mechanism(self, task: Task) -> Laplace:
        """Return the noise of one epoch: scale 2Δ√K/ε on every entry."""
        reach = 2.0 * task.range * math.sqrt(task.rank)
        if not task.noisy:
            return Laplace(0.0, reach, (task.items, task.rank), REPLACE)
        scale = reach / self.noise_epsilon(task)
        return Laplace(scale, reach, (task.items, task.rank), REPLACE)

    def schedule(self, task: Task) -> DpEvent:
        """Return all epochs, as a rating of weight 1 sees them, sums only and U held fixed."""
        return nothing_private(task) or repeat(self.mechanism(task).event, self.epochs)

    def scaled(self, task: Task, weight: float) -> DpEvent:
        """Return all epochs as a rating of some weight sees them; only HDPMF scales ratings."""
        if self.kind != "hdpmf" or not task.noisy:
            return self.schedule(task)
        mechanism = self.mechanism(task)
        growth = mechanism.grid.growth(mechanism.size, 1, REPLACE)
        one = LaplaceDpEvent(mechanism.scale / (weight * mechanism.sensitivity + growth))
        return repeat(one, self.epochs)

    def spread_epsilon(self, task: Task, accountant: str = "pld") -> float:
        """Return ε of a rating of weight 1 whose user's vector is spread evenly over K entries.

        Every entry of the sum then moves by 1/K of the L1 bound, K·T small steps instead of T
        large ones: what the Laplace noise on K entries gives at best.
        """
        from tacit.privacy.accounting import accountant as make_accountant

        if not task.noisy or task.privacy is None:
            return math.inf
        one = LaplaceDpEvent(task.rank / self.noise_epsilon(task))
        whole = repeat(one, task.rank * self.epochs)
        return make_accountant(accountant).add(whole).epsilon(task.privacy.delta)

    def claim(self, task: Task) -> tuple[float, str] | None:
        """Return the claimed ε and what it leaves out."""
        if not task.noisy:
            return None
        return self.noise_epsilon(task), (
            f"it counts one of {self.epochs} epochs, each with fresh noise; it takes the users' "
            "vectors as fixed, though they depend on the ratings; and a recommender that sees "
            "single messages sees shares of the noise. The ε computed here is for sums only and "
            "given those vectors"
        )

    def assumptions(self, task: Task) -> tuple[str, ...]:
        """Say what is public and what is not covered."""
        notes = ["who rated what is public, and so is every privacy weight"]
        if task.noisy:
            notes.append(
                "only sums over raters are seen, and users' vectors do not depend on ratings "
                "(they do)"
            )
        return tuple(notes)

    def groups(self, task: Task, cells: ByMember) -> dict[str, DpEvent]:
        """Return bands of weights, where they count."""
        if self.kind != "hdpmf" or not task.noisy:
            return {}
        return self.bands(task, cells)

    # -- learning -------------------------------------------------------------------------

    def learn(
        self,
        task: Task,
        cells: ByMember,
        reservation: Reservation | None,
        noise: Noise,
        rng: np.random.Generator,
    ) -> Learned:
        """Run all epochs."""
        users, items = cells.owners.astype(np.uint32), cells.items.astype(np.uint32)
        values = np.clip(cells.values, *task.bounds)
        base, rows = np.zeros(task.items), np.zeros((task.users, 0))
        if self.offsets:
            base, own = _means(task, cells)
            values = values - base[items] - own[users]
            rows = own[:, None]
        weights = task.weights.of(users, items)
        if self.kind == "hdpmf":
            values = weights * values
        if self.kind == "pdpmf" and task.noisy and task.privacy is not None:
            own = weights * task.privacy.epsilon
            kept = rng.random(len(own)) < np.expm1(own) / math.expm1(self.noise_epsilon(task))
            users, items, values = users[kept], items[kept], values[kept]
        order = rng.permutation(len(values))
        users, items, values = users[order], items[order], values[order]
        u = _START * rng.standard_normal((task.users, task.rank))
        v = _START * rng.standard_normal((task.items, task.rank))
        shares = 1.0 / np.maximum(np.bincount(items, minlength=task.items), 1)[:, None]
        mechanism, push = self.mechanism(task), np.zeros((task.items, task.rank))
        silence = GridSum(np.zeros(push.shape, np.int64), mechanism.grid)
        private = self.kind != "mf"

        def drawn() -> Floats:
            if not task.noisy:
                return push
            return np.asarray(
                shares * privatize(mechanism, silence, ledger=reservation, rng=noise)
            )

        for epoch, extra in enumerate(ahead(drawn, self.epochs)):
            gradient_epoch(
                visits(len(values), rng), users, items, values, extra,
                learning_rate(self.rate, epoch, self.epochs), self.ridge, private, u, v,
            )  # fmt: skip
        features = np.nan_to_num(v, nan=0.0, posinf=0.0, neginf=0.0)
        own_part = np.ones((task.items, rows.shape[1]))
        shared = {
            "base": base,
            "features": np.column_stack([own_part, features]),
            "penalties": np.full((1, rows.shape[1] + task.rank), _FOLD),
            "spread": np.ones(1),
        }
        stretched = self.kind == "hdpmf" and self.rescale
        return Learned(shared, np.column_stack([rows, np.nan_to_num(u)]), stretched)


def _means(task: Task, cells: ByMember) -> tuple[Floats, Floats]:
    """Return items' base values and users' offsets: shrunken means, without privacy."""
    mean = float(cells.values.mean())
    counts = np.bincount(cells.items, minlength=task.items)
    sums = np.bincount(cells.items, cells.values - mean, task.items)
    base = mean + sums / (counts + _FOLD)
    own = cells.sums(cells.values - base[cells.items]) / (np.diff(cells.starts) + _FOLD)
    return base, own
