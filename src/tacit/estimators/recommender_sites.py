"""A certified recommender over several holders of ratings, such as shops with the same catalogue.

Every site holds all ratings of its own users; items are the same for all. The first round tells
the recommender who rated what, which `HeterogeneousOffsets` takes as public. The rounds of
`tacit.estimators.recommender_certified` follow: each site sends its sums with noise of its own
(trust ``"site"``), or with a share of it, and only the sum is seen (trust ``"aggregator"``).

A site that is lost after the first sum ends the run: its part is in what was learned. The run
goes on when the site is back; it repeats what it had sent and is not charged again.
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit._core.rng import generator
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.base import PrivateEstimator, SiteSide
from tacit.estimators.recommender_certified import HeterogeneousOffsets
from tacit.estimators.recommender_certified_parts import Raters
from tacit.estimators.recommender_device import fold_in
from tacit.estimators.recommender_method import Learned, RecommenderMethod, Task
from tacit.estimators.recommender_sites_parts import SiteRaters, SitesServer
from tacit.estimators.recommender_weights import PrivacyWeights
from tacit.estimators.site import Site
from tacit.inference.members import ByMember, by_member
from tacit.rounds.aggregate import Aggregator, OpenRounds, PlainAggregator, SumAggregator
from tacit.rounds.inprocess import run
from tacit.rounds.protocol import RunRecord

if TYPE_CHECKING:
    from tacit.privacy.guarantee import Certificate, Privacy
    from tacit.privacy.ledger import Reservation

__all__ = ["RecommenderOverSites", "as_ratings"]


class RecommenderOverSites(PrivateEstimator):
    """The part of `PrivateRecommender` that fits over sites; see there."""

    bounds: Any
    rank: int
    privacy: Privacy | None
    random_state: int | None
    task_: Task

    @abstractmethod
    def _method(self) -> RecommenderMethod:
        """Return the method with its settings."""

    @abstractmethod
    def _stated(self, shape: tuple[int, int], weights: PrivacyWeights | None) -> Task:
        """Return what is public about ratings of some shape."""

    @abstractmethod
    def _issue(
        self, holder: Site, reservation: Reservation | None, noise: Any, groups: Mapping[str, Any]
    ) -> Certificate:
        """Return a holder's certificate."""

    @abstractmethod
    def _publish(self, learned: Learned, cells: ByMember) -> None:
        """Keep what was learned."""

    # -- sides in different places ----------------------------------------------------------

    def _over_sites(
        self, users: int, items: int, shares: int, weights: PrivacyWeights | None
    ) -> tuple[HeterogeneousOffsets, Task]:
        """Return the method and what is public, or say why it does not run over sites."""
        self._check_parameters()
        method = self._method()
        if not isinstance(method, HeterogeneousOffsets):
            raise ParameterError(
                "over sites the certified methods run: pass method='heterogeneous' or 'offsets'"
            )
        if self.privacy is not None and self.privacy.trust == "central":
            raise ParameterError(
                "several sites do not share a curator: pass Privacy(…, trust='site')"
            )
        if shares > 1 and (self.privacy is None or self.privacy.trust != "aggregator"):
            raise ParameterError("noise comes in shares under trust='aggregator' only")
        task = dataclasses.replace(self._stated((users, items), weights), sites=1, shares=shares)
        self.task_ = task
        return method, task

    def coordinator_side(self, items: int, shares: int, item_weights: Any = None) -> SitesServer:
        """Return the coordinator of a fit whose sites are elsewhere; see `conclude`.

        Parameters
        ----------
        items
            How many there are.
        shares
            Into how many shares noise is split under a secure sum: as many sites as must at
            least be in every sum.
        item_weights
            γ, the items' public weights; 1 for all unless given.
        """
        weights = None if item_weights is None else PrivacyWeights(np.ones(1), item_weights)
        method, task = self._over_sites(1, items, shares, weights)
        seed = int(generator(self.random_state, "recommender").integers(2**62))
        return SitesServer(method, task, seed)

    def site_side(
        self, site: Site, shares: int, run: str, weights: PrivacyWeights | None = None
    ) -> SiteSide:
        """Reserve all rounds and return this site's side of a fit.

        Parameters
        ----------
        site
            The ratings of its users, and its ledger.
        shares
            As in `coordinator_side`.
        run
            The name of the run: taken up again under its name, it is not charged again.
        weights
            β of its users and γ of all items.
        """
        ratings = as_ratings(site.data)
        self._check_ratings(ratings)
        users, items = ratings.shape
        method, task = self._over_sites(users, items, shares, weights)
        reservation = self._reserve([site], "private recommender", run)[site.name]
        return self._side(site, ratings, method, task, reservation)

    def _side(
        self,
        site: Site,
        ratings: Relation,
        method: HeterogeneousOffsets,
        task: Task,
        reservation: Reservation | None,
    ) -> SiteSide:
        cells = by_member(ratings, ratings.entities[0])
        noise = self._noise("grid", site.name)
        raters = Raters(method, task, cells, reservation, noise, site.name)

        def certificate() -> Certificate:
            self.task_ = task
            return self._issue(site, reservation, noise, method.groups(task, cells))

        def finish(shared: Mapping[str, Any]) -> None:
            self._publish(Learned(shared, fold_in(shared, cells)), cells)

        return SiteSide(SiteRaters(raters, cells, task.weights.users), certificate, finish)

    def conclude(
        self, server: SitesServer, record: RunRecord, certificates: Mapping[str, Certificate]
    ) -> None:
        """Take in what the rounds gave, with every site's certificate.

        Parameters
        ----------
        server, record, certificates
            After the last round.
        """
        self.shared_: dict[str, Any] = server.shared()
        self.record_ = record
        self.certificates_: dict[str, Certificate] = dict(certificates)
        self.certificate_: Certificate = max(
            self.certificates_.values(), key=lambda certificate: certificate.epsilon
        )

    # -- all sites in one process -----------------------------------------------------------

    def _fit_sites(self, sites: Sequence[Site], weights: PrivacyWeights | None) -> None:
        secure = self.privacy is not None and self.privacy.trust == "aggregator"
        shares = len(sites) if secure else 1
        found = [as_ratings(site.data) for site in sites]
        sizes = {ratings.shape[1] for ratings in found}
        if len(sizes) > 1:
            raise ParameterError(f"the sites have different numbers of items: {sorted(sizes)}")
        (items,) = sizes
        for ratings in found:
            self._check_ratings(ratings)
        ends = np.cumsum([0, *(ratings.shape[0] for ratings in found)])
        whole = weights or PrivacyWeights.equal(int(ends[-1]), items)
        method, task = self._over_sites(int(ends[-1]), items, shares, whole)
        reservations = self._reserve(sites, "private recommender")
        sides = []
        for site, ratings, a, b in zip(sites, found, ends, ends[1:], strict=False):
            own = PrivacyWeights(whole.users[a:b], whole.items)
            part = dataclasses.replace(task, users=int(b - a), weights=own)
            sides.append(self._side(site, ratings, method, part, reservations[site.name]))
        server = self.coordinator_side(items, shares, whole.items)
        kind: Aggregator = SumAggregator(shares) if secure else PlainAggregator()
        record = run(server, [side.participant for side in sides], aggregator=OpenRounds(kind, 1))
        certificates = {
            site.name: side.certificate() for site, side in zip(sites, sides, strict=True)
        }
        self.conclude(server, record, certificates)
        self.task_ = task
        cells = by_member(_stacked(found), found[0].entities[0])
        self._publish(Learned(self.shared_, fold_in(self.shared_, cells)), cells)

    def _check_here(self) -> None:
        """Raise where the ratings are at sites elsewhere."""
        if not hasattr(self, "_rows"):
            raise ParameterError("the ratings stayed at their sites: users predict there")

    def _check_ratings(self, ratings: Relation) -> None:
        """Refuse bad ratings: the holders' own check, before anything is paid for."""
        assert self.bounds is not None
        low, high = self.bounds
        bad = np.flatnonzero((ratings.values < low) | (ratings.values > high))
        if len(bad):
            user, item = ratings.indices[bad[0]].tolist()
            raise ParameterError(
                f"user {user} rates item {item} with {ratings.values[bad[0]]:g}, outside the "
                f"bounds [{low:g}, {high:g}]: correct it or state wider bounds"
            )
        counts = np.bincount(ratings.indices[:, 0], minlength=ratings.shape[0])
        if not counts.all():
            raise ParameterError(
                f"user {int(np.argmin(counts > 0))} has no ratings: leave users without ratings "
                "out; they can start a Device later"
            )


def _stacked(parts: Sequence[Relation]) -> Relation:
    """Return ratings of several sites as one relation, users one site after the other."""
    ends = np.cumsum([0, *(part.shape[0] for part in parts)])
    moved = [part.indices + np.array([end, 0]) for part, end in zip(parts, ends, strict=False)]
    return Relation(
        parts[0].entities, (int(ends[-1]), parts[0].shape[1]),
        np.concatenate(moved).astype(np.int32), np.concatenate([part.values for part in parts]),
    )  # fmt: skip


def as_ratings(data: Any) -> Relation:
    """Return ratings as a relation of users and items."""
    found = data if isinstance(data, Relation) else Relation.from_dense(("user", "item"), data)
    if found.modes != 2 or found.zeros != "missing":
        raise ParameterError("ratings must be a matrix of users and items with missing cells")
    return found
