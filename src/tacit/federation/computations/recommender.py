"""`PrivateRecommender` over a federation: sites with users of their own and one catalogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.base import SiteSide
from tacit.estimators.recommender import PrivateRecommender
from tacit.estimators.recommender_sites_parts import SitesServer
from tacit.estimators.recommender_weights import PrivacyWeights
from tacit.estimators.site import Site
from tacit.federation.computations.base import Computation, check_trust, estimator, the_table
from tacit.federation.proposal import Proposal
from tacit.privacy.events import DpEvent
from tacit.privacy.guarantee import Certificate
from tacit.privacy.ledger import Ledger
from tacit.rounds.protocol import Coordinator, RunRecord

__all__ = ["Recommender"]


class Recommender(Computation):
    """Ratings, one row each: columns ``user``, ``item``, the value, and perhaps ``weight``.

    ``items`` of the settings is their list or their number; ``item_weights`` are γ. A ``weight``
    is its user's β, the same in all rows of a user.
    """

    sums_only = True
    in_clear = "who rated which item, without names, and every user's privacy weight"

    def __init__(self, proposal: Proposal) -> None:
        super().__init__(proposal)
        check_trust(proposal)
        settings = dict(proposal.settings)
        items = settings.pop("items", None)
        if not isinstance(items, int | list):
            raise ParameterError("a recommender needs items, the list or the number of them")
        self._items: Any = range(items) if isinstance(items, int) else items
        self._item_weights = settings.pop("item_weights", None)
        if isinstance(settings.get("bounds"), list):
            settings["bounds"] = tuple(settings["bounds"])
        self.model: PrivateRecommender = estimator(
            PrivateRecommender, settings,
            {"privacy": proposal.guarantee(), "random_state": proposal.seed},
        )  # fmt: skip
        self.coordinator()  # refuses what makes no sense, on either side

    @property
    def _shares(self) -> int:
        return self.proposal.threshold or 1

    @property
    def rounds(self) -> int:
        """Who rated what, a mean, offsets and what comes later."""
        return 1 + 3 * (1 if self.proposal.threshold is None else 4)

    @property
    def bounds(self) -> Any:
        """The range of a rating."""
        return self.proposal.settings.get("bounds")

    def event(self) -> DpEvent:
        """All sums."""
        return self.model.schedule()

    def coordinator(self) -> SitesServer:
        """Put what is known about items together."""
        return self.model.coordinator_side(len(self._items), self._shares, self._item_weights)

    def site(self, name: str, tables: Mapping[str, Any], ledger: Ledger | None) -> SiteSide:
        """Read the ratings of the one table."""
        found = the_table(tables)
        names = {e: found["columns"].get(e, e) for e in ("user", "item")}
        ratings = Relation.from_frame(
            found["table"], names, found.get("value"), labels={"item": self._items}
        )
        weights = PrivacyWeights(
            self._openness(found, names["user"], ratings),
            np.ones(len(self._items)) if self._item_weights is None else self._item_weights,
        )
        return self.model.site_side(
            Site(name, ratings, ledger), self._shares, self.proposal.run, weights
        )

    def _openness(self, found: Mapping[str, Any], user: str, ratings: Relation) -> Any:
        """Return every user's own weight, in the order of users; 1 where there is no column."""
        column = found["columns"].get("weight")
        if column is None:
            return np.ones(ratings.shape[0])
        users, first, back = np.unique(
            np.asarray(found["table"][user]), return_index=True, return_inverse=True
        )
        stated = np.asarray(found["table"][column], np.float64)
        if (stated != stated[first][back]).any():
            raise ParameterError("a user's weight differs between rows: it is one per user")
        known = dict(zip(users.tolist(), stated[first].tolist(), strict=True))
        return np.array([known[one] for one in ratings.labels["user"]])

    def shared(self, coordinator: Coordinator) -> dict[str, Any]:
        """Return the table of items, with which users predict at their site."""
        assert isinstance(coordinator, SitesServer)
        return coordinator.shared()

    def conclude(
        self, coordinator: Coordinator, record: RunRecord, certificates: Mapping[str, Certificate]
    ) -> PrivateRecommender:
        """Keep the table of items with its certificates."""
        assert isinstance(coordinator, SitesServer)
        self.model.conclude(coordinator, record, certificates)
        return self.model

    def outcome(self) -> dict[str, Any]:
        """The table of items."""
        return dict(self.model.shared_)
