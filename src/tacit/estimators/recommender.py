"""`PrivateRecommender`: a recommender that never sees a rating."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, as_bounds
from tacit._core.rng import generator
from tacit.errors import NotCertified, ParameterError, UnboundedData
from tacit.estimators.base import Price
from tacit.estimators.recommender_certified import HeterogeneousOffsets
from tacit.estimators.recommender_device import Device, score
from tacit.estimators.recommender_gradient import GradientFactorization
from tacit.estimators.recommender_local import LocalGradient
from tacit.estimators.recommender_method import Learned, RecommenderMethod, Task
from tacit.estimators.recommender_responses import ItemResponseGradient, ResponseGradient
from tacit.estimators.recommender_sites import RecommenderOverSites, as_ratings
from tacit.estimators.recommender_weights import PrivacyWeights
from tacit.estimators.release import write_release
from tacit.estimators.site import Site
from tacit.inference.members import ByMember, by_member
from tacit.privacy.events import DpEvent
from tacit.privacy.filters import run_cost
from tacit.privacy.guarantee import Certificate, Privacy, round_up
from tacit.privacy.ledger import Ledger, Reservation

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["METHODS", "PrivateRecommender"]

METHODS: dict[str, Callable[[], RecommenderMethod]] = {
    "heterogeneous": HeterogeneousOffsets,
    "offsets": partial(HeterogeneousOffsets, pattern=False),
    "mf": partial(GradientFactorization, "mf"),
    "dpmf": partial(GradientFactorization, "dpmf"),
    "pdpmf": partial(GradientFactorization, "pdpmf"),
    "hdpmf": partial(GradientFactorization, "hdpmf"),
    "gd": LocalGradient,
    "gd-dr": partial(LocalGradient, dimensions=100),
    "responses": ResponseGradient,
    "item-responses": ItemResponseGradient,
}


class PrivateRecommender(RecommenderOverSites):
    """Recommend from explicit ratings that stay with their users.

    Parameters
    ----------
    bounds
        (low, high), the public range of a rating.
    method
        One of the names in `METHODS`, or one of their classes with settings of its own.
    privacy
        The guarantee asked for; None learns without noise. Which unit and trust a method gives
        is listed in the guide.
    rank
        Features per item.
    ledger
        Who pays. For local methods, what each person pays.
    random_state
        A seed, for tests and tables: the certificate then says "not for release".

    Attributes
    ----------
    shared_
        What everybody may see: the items' base values and features.
    certificate_
        What was given; with weights, one ε per group of ratings.
    task_, method_
        The public facts of the fit, and the method with its settings.

    Examples
    --------
    >>> from tacit.data.synthetic import simulated_ratings
    >>> ratings = simulated_ratings(300, 40, per_user=15)
    >>> request = Privacy(1.0, 1e-5, unit="entry", trust="aggregator")
    >>> fitted = PrivateRecommender((1, 5), privacy=request, rank=3).fit(ratings)
    >>> fitted.predict([[0, 3], [7, 1]]).shape
    (2,)
    >>> len(fitted.device(0).top(5))
    5
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "method": AnyOf(OneOf(*METHODS), InstanceOf(RecommenderMethod)),
        "privacy": AnyOf(InstanceOf(Privacy), None),
        "rank": Integer(1, 1000),
        "ledger": AnyOf(InstanceOf(Ledger), None),
        "random_state": AnyOf(Integer(0), None),
    }

    def __init__(
        self,
        bounds: tuple[float, float] | None = None,
        *,
        method: str | RecommenderMethod = "heterogeneous",
        privacy: Privacy | None = None,
        rank: int = 10,
        ledger: Ledger | None = None,
        random_state: int | None = None,
    ) -> None:
        self.bounds = bounds
        self.method = method
        self.privacy = privacy
        self.rank = rank
        self.ledger = ledger
        self.random_state = random_state

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.bounds is None:
            raise UnboundedData(
                "bounds must be given: pass bounds=(low, high), the range a rating may take"
            )
        as_bounds("bounds", self.bounds, "the range a rating may take")

    # -- what is public -------------------------------------------------------------------

    def _method(self) -> RecommenderMethod:
        return METHODS[self.method]() if isinstance(self.method, str) else self.method

    def _stated(self, shape: tuple[int, int], weights: PrivacyWeights | None) -> Task:
        assert self.bounds is not None
        users, items = shape
        if weights is None:
            weights = PrivacyWeights.equal(users, items)
        if (len(weights.users), len(weights.items)) != (users, items):
            raise ParameterError(
                f"weights are for {len(weights.users)} users and {len(weights.items)} items, the "
                f"ratings for {users} and {items}"
            )
        low, high = (float(end) for end in self.bounds)
        task = Task(users, items, (low, high), self.rank, self.privacy, weights)
        self._method().check(task)
        return task

    def schedule(self) -> DpEvent:
        """Return everything that one fit releases, as the worst protected rating sees it."""
        task: Task | None = getattr(self, "task_", None)
        if task is None:
            raise NotCertified("the price depends on public sizes: call price(ratings)")
        return self._method().schedule(task)

    def _charged(self) -> Privacy | None:
        """Return what is charged: of a published method, what it really costs."""
        task: Task | None = getattr(self, "task_", None)
        if self.privacy is None or task is None or self._method().claim(task) is None:
            return self.privacy
        real, _ = run_cost(self.schedule(), self.privacy.delta, "basic")
        return self.privacy.with_epsilon(round_up(float(real) * (1.0 + 1e-12)))

    def price(self, sites: Any = None) -> Price:
        """Return what `fit` would cost; of the ratings only the shape is looked at.

        Parameters
        ----------
        sites
            The ratings, or their shape (users, items).
        """
        self._check_parameters()
        if sites is None:
            raise ParameterError("pass the ratings, or (users, items): the price depends on them")
        shape = sites if isinstance(sites, tuple) else as_ratings(sites).shape
        self.task_ = self._stated((int(shape[0]), int(shape[1])), None)
        return super().price([Site("the raters", None, self.ledger)])

    # -- fitting --------------------------------------------------------------------------

    def fit(
        self, data: Any, y: None = None, *, weights: PrivacyWeights | None = None
    ) -> PrivateRecommender:
        """Learn from ratings.

        Parameters
        ----------
        data
            A `Relation` of users and items, in this order, or a table with NaN for what is not
            rated; or a list of `Site`, each with the ratings of users of its own. Users are then
            numbered one site after the other.
        y
            Ignored.
        weights
            Each rating's part of ε, public; 1 for all unless given.
        """
        self._check_parameters()
        if isinstance(data, Site) or (
            isinstance(data, Sequence) and data and isinstance(data[0], Site)
        ):
            self._fit_sites(self._as_sites(data), weights)
            return self
        ratings = as_ratings(data)
        self._check_ratings(ratings)
        shape = (ratings.shape[0], ratings.shape[1])
        self.task_ = task = self._stated(shape, weights)
        method = self.method_ = self._method()
        cells = by_member(ratings, ratings.entities[0])
        holder = Site("the raters", None, self.ledger)
        reservation = self._reserve([holder], "private recommender")[holder.name]
        source = self._noise(method.source, holder.name)
        learned = method.learn(
            task, cells, reservation, source, generator(self.random_state, "recommender")
        )
        self._publish(learned, cells)
        self.certificate_ = self._issue(holder, reservation, source, method.groups(task, cells))
        self.certificates_ = {holder.name: self.certificate_}
        return self

    def _publish(self, learned: Learned, cells: ByMember) -> None:
        self.shared_ = dict(learned.shared)
        self._rows, self._stretched, self._cells = learned.rows, learned.stretched, cells

    def _issue(
        self,
        holder: Site,
        reservation: Reservation | None,
        noise: Any,
        groups: Mapping[str, DpEvent],
        event: DpEvent | None = None,
    ) -> Certificate:
        """Return the certificate, with an ε per group and a paper's claim where there is one."""
        task, method = self.task_, self._method()
        low, high = task.bounds
        notes = (
            f"public bounds: ratings in [{low:g}, {high:g}]",
            f"public sizes: {task.users} users, {task.items} items",
            *method.assumptions(task),
        )
        privacy = task.privacy
        if reservation is None or privacy is None:
            return self._certify(holder, None, noise, notes)
        if not reservation.ledger.durable:
            notes += ("the ledger lives in memory: earlier releases are not counted",)
        claimed, words = method.claim(task) or (None, None)
        return Certificate.issue(
            privacy, event or self.schedule(), assumptions=notes + noise.assumptions,
            groups=groups, claimed_epsilon=claimed, claim=words, holder=holder.name,
            ledger=reservation.entry,
        )  # fmt: skip

    def certificate_of(self, user: int) -> Certificate:
        """Return the certificate of one user: the ε of the user's heaviest rating.

        Parameters
        ----------
        user
            The number of the user.
        """
        check_is_fitted(self, "certificate_")
        self._check_user(user)
        own = self._cells.items[self._cells.starts[user] : self._cells.starts[user + 1]]
        heaviest = float(self.task_.weights.of_user(user)[own].max())
        privacy = self.task_.privacy
        if privacy is None or not self.certificate_.is_private:
            return self.certificate_
        whole = self.certificate_
        return Certificate.issue(
            privacy, self._method().scaled(self.task_, heaviest),
            assumptions=(*whole.assumptions, f"the heaviest rating has weight {heaviest:.4g}"),
            claimed_epsilon=whole.claimed_epsilon, claim=whole.claim, holder=f"user {user}",
        )  # fmt: skip

    # -- using it -------------------------------------------------------------------------

    def predict(self, cells: Any) -> NDArray[np.float64]:
        """Return the expected ratings of (user, item) pairs, each made on its user's device.

        Parameters
        ----------
        cells
            (pairs, 2).
        """
        check_is_fitted(self, "shared_")
        self._check_here()
        index = np.asarray(cells)
        if index.ndim != 2 or index.shape[1] != 2 or not np.issubdtype(index.dtype, np.integer):
            raise ParameterError("cells must be pairs (user, item) of whole numbers")
        shape = (self.task_.users, self.task_.items)
        if index.size and ((index < 0).any() or (index >= np.array(shape)).any()):
            raise ParameterError(
                f"cells must lie within {shape[0]} users and {shape[1]} items: an unknown item "
                "has no base value, and a new user starts a Device"
            )
        users, items = index.T
        weights = self.task_.weights.of(users, items) if self._stretched else None
        return score(self.shared_, self._rows[users], items, self.task_.bounds, weights)

    def device(self, user: int) -> Device:
        """Return a user's device: its own ratings and the public table of items."""
        check_is_fitted(self, "shared_")
        self._check_here()
        self._check_user(user)
        own = slice(self._cells.starts[user], self._cells.starts[user + 1])
        weights = self.task_.weights.of_user(user) if self._stretched else None
        return Device(
            self.shared_, self.task_.bounds, self._cells.items[own], self._cells.values[own],
            weights=weights,
        )  # fmt: skip

    def _check_user(self, user: int) -> None:
        if not 0 <= user < self.task_.users:
            raise ParameterError(f"user must be a number from 0 to {self.task_.users - 1}")

    def release(self, folder: str | os.PathLike[str]) -> Path:
        """Write what everybody may see with its certificate: arrays and JSON, never pickle."""
        check_is_fitted(self, "shared_")
        settings = {"bounds": list(self.task_.bounds), "method": repr(self._method())}
        return write_release(
            folder, type(self).__name__, self.shared_, self.certificates_, settings
        )
