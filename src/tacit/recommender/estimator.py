"""`PrivateRecommender`: a recommender that never sees a rating."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

import numpy as np

from tacit._core.answers import Answer
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, as_bounds
from tacit.data.duplicates import RULES
from tacit.data.members import Members, cells_of, key, members_stated
from tacit.data.reading import Table
from tacit.data.shards import Shards
from tacit.data.written import written_names
from tacit.errors import ParameterError
from tacit.estimators.agreement import Agreement
from tacit.estimators.base import PrivateEstimator
from tacit.estimators.features import check_fitted
from tacit.estimators.fit import Outcome
from tacit.estimators.parameters import stores_parameters
from tacit.estimators.release import Release
from tacit.estimators.site import Site
from tacit.factorization.arrays import Floats
from tacit.privacy.certificate import Certificate
from tacit.privacy.events import REPLACE
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger.ledger import Ledger
from tacit.recommender.agreement import KINDS, METHODS
from tacit.recommender.answers import items_answer
from tacit.recommender.blanks import TO_STATE
from tacit.recommender.device import Device, released_items
from tacit.recommender.devices import Devices
from tacit.recommender.holding import held_at, sites_with_weights, task_of
from tacit.recommender.method import Rated, RecommenderMethod
from tacit.recommender.predicting import answer, nearest, rating_schema
from tacit.recommender.ratings import Facts, Ratings
from tacit.recommender.simulation import simulated_error
from tacit.recommender.stated import stated
from tacit.recommender.users_in_shards import (
    facts_of_shards,
    people_here,
    tables_of_ratings,
    users_together,
)

__all__ = ["PrivateRecommender"]

_HERE = "the raters"  # the name of all devices in one process


@stores_parameters
class PrivateRecommender(PrivateEstimator):
    """Recommend from explicit ratings that stay with their users.

    Parameters
    ----------
    bounds
        (low, high), the public range of a rating; of clicks there is none.
    items
        The public list of items, by the caller's own names, or how many there are. With a
        guarantee it is needed wherever ratings come by name: it is never read from them.
    duplicates
        What a rating is that a table lists several times: an ``"error"``, or one rating with the
        ``"first"`` value, their ``"mean"`` or their ``"sum"``.
    method
        ``"heterogeneous"``, ``"offsets"``, ``"private-weights"``, ``"implicit"`` (clicks without
        ratings), ``"groups"``, ``"gd"``, ``"gd-dr"``, ``"responses"`` or ``"item-responses"``; or
        a class with settings of its own, such as `tacit.recommender.HeterogeneousOffsets`.
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
        What everybody may see: the items' base values and features, in the order of ``items_``.
    items_
        The names of the items; their numbers where they have none.
    certificate_, certificates_
        What was given; with weights, one ε per group of ratings.

    Examples
    --------
    >>> from tacit.data.synthetic import simulated_ratings
    >>> ratings = simulated_ratings(300, 40, per_user=15)
    >>> request = Privacy(1.0, 1e-5, unit="entry", trust="aggregator")
    >>> fitted = PrivateRecommender((1, 5), privacy=request, rank=3).fit(ratings)
    >>> fitted.predict([[0, 3], [7, 1]]).shape
    (2,)
    >>> len(fitted.recommend(0, 5))
    5

    By name, from a table with a row for each rating:

    >>> table = {"user": ["anna", "anna", "bo"], "item": ["Alien", "Cube", "Cube"],
    ...          "rating": [5, 3, 4]}
    >>> films = PrivateRecommender((1, 5), items=["Alien", "Brazil", "Cube"], rank=1).fit(table)
    >>> sorted(name for name, _ in films.recommend("bo", 2))
    ['Alien', 'Brazil']
    """

    _purpose = "private recommender"
    _takes_shards = True
    _told = ("labels", "bounds", "rank", "options")
    _to_state = TO_STATE
    _default_neighbours = REPLACE
    _raw_parts: ClassVar[Mapping[str, tuple[str, str]]] = {
        "_devices": ("the ratings of its users", "from_release(folder)")
    }
    _stated_facts = ("item_weights", "options")
    _methods: ClassVar[Mapping[str, Callable[[], RecommenderMethod]]] = METHODS
    _kinds: ClassVar[Mapping[str, type[RecommenderMethod]]] = KINDS
    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "method": AnyOf(OneOf(*METHODS), InstanceOf(RecommenderMethod)),
        "privacy": AnyOf(InstanceOf(Privacy), None),
        "rank": Integer(1, 1000),
        "duplicates": OneOf(*RULES),
        "ledger": AnyOf(InstanceOf(Ledger), None),
        "random_state": AnyOf(Integer(0), None),
    }

    bounds: tuple[float, float] | None = None
    _: KW_ONLY
    items: Any = None
    duplicates: str = "error"
    method: str | RecommenderMethod = "heterogeneous"
    privacy: Privacy | None = None
    rank: int = 10
    ledger: Ledger | None = None
    random_state: int | None = None

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._range()
        if self.items is not None:
            members_stated("item", self.items)

    # -- what every family says ------------------------------------------------------------

    def _method(self) -> RecommenderMethod:
        return self._methods[self.method]() if isinstance(self.method, str) else self.method

    def _range(self) -> tuple[float, float]:
        if self.bounds is None and self._method().clicks:
            return 0.0, 1.0
        return as_bounds("bounds", self.bounds, "the range a rating may take")

    def _agree(self, facts: Sequence[Facts | None], shares: int = 1) -> Agreement:
        request, rules = self._request(len(facts)), self.duplicates
        task = task_of(facts, request, self._range(), self.rank, shares, rules)
        return self._method().agree(task)

    @property
    def _default_unit(self) -> str:
        return self._method().unit

    @property
    def _default_trusts(self) -> tuple[str, ...]:
        return self._method().trusts

    def _facts(self, data: Ratings | Shards) -> Facts:
        return facts_of_shards(data, self._ratings) if isinstance(data, Shards) else data.facts

    _facts_held = _facts

    def _laid_out(self, shards: Shards) -> Any:
        return users_together(shards, self._ratings, whole=not self._method().parts)

    def _ratings(self, data: Any) -> Ratings:
        """Return one shard of ratings."""
        return Ratings.of(data, devices=True, items=self.items, duplicates=self.duplicates)

    def _imagined(self) -> Facts:
        shuffled = self.privacy is not None and self.privacy.trust == "shuffler"
        return Ratings.of((64 if shuffled else 4, 6), devices=True).facts

    _simulate = classmethod(simulated_error)

    def _read(self, data: Any, agreement: Agreement) -> Rated:
        return self._ratings(data).read(self._range(), clicks=self._method().clicks)

    @classmethod
    def _stated(cls, settings: Mapping[str, Any]) -> tuple[dict[str, Any], Facts]:
        """Return the parameters and the facts that a file or a proposal states."""
        return stated(settings, cls._methods)

    def _tables(self, tables: Mapping[str, Any], facts: Facts) -> Ratings | Shards:
        """Return a site's ratings: columns ``user``, ``item``, the value, perhaps ``weight``."""
        if len(tables) != 1:
            raise ParameterError(f"one table is read, and {len(tables)} are named: name one")
        (found,) = tables.values()
        return tables_of_ratings(found, facts, self.duplicates)

    # -- fitting ---------------------------------------------------------------------------

    def _as_sites(self, data: Any) -> list[Site]:
        """Return the holders: sites, or all devices of one process."""
        sites = super()._as_sites(data)
        over_sites = isinstance(data, Site) or sites[0].data is not data
        own = {"items": self.items, "duplicates": self.duplicates, "devices": not over_sites}
        if not over_sites:
            sites = [replace(sites[0], name=_HERE)]
        return [held_at(site, self._laid_out, own, over_sites) for site in sites]

    def fit(self, data: Any, y: None = None, *, weights: Any = None) -> Self:
        """Learn from ratings.

        Parameters
        ----------
        data
            A `Relation` of users and items, in this order; a table with a column ``user``, one
            ``item`` and one of ratings; a frame of pandas with a row for each user and a column
            for each item; an array, with NaN for what is not rated; `Shards` of such; or a list of
            `Site`, each with such ratings of users of its own.
        y
            Ignored.
        weights
            Each rating's part of ε, 1 for all unless given: `tacit.PrivacyWeights`, a number per
            user and per item; or one for every rating, an array like that of the ratings, a
            `Relation`, or a table with a row for each. Over sites: such arrays by site. They are
            public unless the method is ``"private-weights"``.
        """
        self._check_parameters()
        sites = self._as_sites(data)
        if weights is not None:
            sites = sites_with_weights(sites, weights)
        outcome = self._run(sites, self._agreed(sites))
        known = people_here(sites, outcome.record.sites, self.items)
        self._people, self._columns, self._item_names = known
        self._keep(outcome)
        return self

    def _conclude(self, outcome: Outcome) -> None:
        self._agreement: Any = outcome.agreement
        self.shared_ = outcome.agreement.shared(outcome.result)
        self.items_ = self._names_of_items()
        self._devices: Devices | None = None
        parts = []
        for name, holder in outcome.holders.items():
            # they finish on their own, with what was learned; whose ratings are in shards do not
            if name in outcome.record.sites and not holder.is_elsewhere:
                holder.finish(self.shared_)
                parts.append(holder.devices)
        if parts:
            self._devices = Devices.stacked(parts)

    def _names_of_items(self) -> tuple[Any, ...]:
        """Return the names of the items: those of the ratings, or as stated; else numbers."""
        names = vars(self).get("_item_names")
        if names is None and self.items is not None:
            names = members_stated("item", self.items).names
        return tuple(range(len(self.shared_["base"]))) if names is None else tuple(names)

    def _found(self, level: float) -> Answer:
        return items_answer(self, level)

    @property
    def labels_(self) -> dict[str, tuple[Any, ...]]:
        """The names of the items, for reports."""
        return {"item": self.items_}

    def _settings(self) -> dict[str, Any]:
        method = self._method()
        return {
            "labels": {"item": written_names(self.items_)},
            "bounds": list(self._range()),
            "rank": self.rank,
            "options": [type(method).__name__, method.settings()],
        }

    def _dimensions(self) -> tuple[dict[str, tuple[str, ...]], dict[str, Sequence[Any]]]:
        dims = {"base": ("item",), "features": ("item", "feature")}
        return dims, {"item": list(self.items_)}

    def _adopt(self, release: Release) -> None:
        found = release.settings
        (low, high), (kind, options) = found["bounds"], found["options"]
        method = self._kinds[kind](**options)
        names = released_items(found)
        type(self).__init__(self, (low, high), items=names, rank=found["rank"], method=method)
        self._item_names, self._devices, self._columns = names, None, {}
        self.items_ = self._names_of_items()

    # -- using it --------------------------------------------------------------------------

    def certificate_of(self, user: Any, *, positions: bool = False) -> Certificate:
        """Return the certificate of one user: the ε of the user's heaviest rating.

        Parameters
        ----------
        user
            The user, by name.
        positions
            Whether it is a position all the same.
        """
        number = self._user(user, positions)
        heaviest = self._here().heaviest(number)
        privacy, whole = self._request(len(self.certificates_)), self.certificate_
        if privacy is None or not whole.is_private:
            return whole
        note, event = (
            f"the heaviest rating has weight {heaviest:.4g}",
            self._agreement.scaled(heaviest),
        )
        stated: Any = {"claimed_epsilon": whole.claimed_epsilon, "claim": whole.claim}
        assumptions, holder = (*whole.assumptions, note), f"user {key(user)}"
        return Certificate.issue(privacy, event, assumptions=assumptions, holder=holder, **stated)

    def predict(self, cells: Any, *, positions: bool = False) -> Floats:
        """Return the expected ratings of (user, item) pairs, each made on its user's device.

        Parameters
        ----------
        cells
            A table with the columns that named users and items in the fit, or ``user`` and
            ``item``; or pairs, (pairs, 2). Users and items go by their names.
        positions
            Whether they are positions all the same.
        """
        devices = self._here()
        members = [self._people, self._items]
        return devices.predict(cells_of(cells, members, self._columns, positions=positions))

    def device(self, user: Any, *, positions: bool = False) -> Device:
        """Return a user's device: its own ratings and the public table of items.

        Parameters
        ----------
        user
            A user of the fit, by name; or of anybody else, item → own rating.
        positions
            Whether user or items are positions all the same.
        """
        check_fitted(self, "shared_")
        if isinstance(user, Mapping):
            own, bounds, names = list(user.values()), self._range(), self._items.names
            return Device(self.shared_, bounds, list(user), own, names=names, positions=positions)
        return self._here().device(self._user(user, positions), self._items.names)

    def recommend(self, user: Any = None, n: int = 10, *, positions: bool = False) -> Any:
        """Return the items with the highest expected rating that a user has not rated yet.

        Parameters
        ----------
        user
            As in `device`; or a list of users of the fit, and then user → items; or everybody of
            the fit, unless one is named.
        n
            How many.
        positions
            Whether users and items are positions, going in and coming out.
        """
        if user is None:
            everybody = range(self._here().cells.members)
            user = [k if positions else self._people.name(k) for k in everybody]
        if isinstance(user, list | tuple | np.ndarray) or hasattr(user, "to_numpy"):
            return {one: self.recommend(one, n, positions=positions) for one in list(user)}
        return self.device(user, positions=positions).top(n, positions=positions)

    def score(self, user: Any, items: Any = None, *, positions: bool = False) -> Floats:
        """Return what a user is expected to make of items: ratings, or scores that only rank.

        Parameters
        ----------
        user
            As in `device`.
        items
            Which, by name; all of them, in the order of ``items_``, unless given.
        positions
            Whether user and items are positions all the same.
        """
        device = self.device(user, positions=positions)
        if items is None:
            return device.predict(range(len(self.items_)), positions=True)
        return device.predict(items, positions=positions)

    def similar_items(
        self, item: Any, n: int = 10, *, positions: bool = False
    ) -> list[tuple[Any, float]]:
        """Return the items that are liked by the same people, by the cosine of their features.

        Parameters
        ----------
        item
            Which one.
        n
            How many; fewer where no more have features that are known.
        positions
            Whether items are positions, going in and coming out.
        """
        check_fitted(self, "shared_")
        features = np.asarray(self.shared_["features"], np.float64)
        features = features[:, np.ptp(features, axis=0) > 0.0]
        (place,) = self._items.find([item], positions=positions)
        named = int if positions else self._items.name
        return [(named(k), near) for k, near in nearest(features, int(place), n)]

    def _predict_table(
        self, table: Table, data: Any = None, interval: float | None = None
    ) -> dict[str, list[Any]]:
        return answer(self, table)

    def _row_schema(self) -> dict[str, dict[str, Any]]:
        return rating_schema(self._range(), self.items_)

    @property
    def _items(self) -> Members:
        return Members("item", len(self.items_), vars(self).get("_item_names"))

    def _user(self, user: Any, positions: bool) -> int:
        """Return the position of one user."""
        self._here()
        (number,) = self._people.find([user], positions=positions)
        return int(number)

    def _here(self) -> Devices:
        """Return the devices of the fit; raise where the ratings are elsewhere."""
        check_fitted(self, "shared_")
        if self._devices is None:
            raise ParameterError(
                "the ratings stayed at their sites, or were let go with their shards: users start "
                "a device with their own, device({item: rating, …})"
            )
        return self._devices
