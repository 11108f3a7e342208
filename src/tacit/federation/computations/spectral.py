"""`SingleTopicModel` and `GaussianMixture` over a federation: moments of documents or rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import coo_array

from tacit.data.relations import Relation
from tacit.data.sources import numeric_columns
from tacit.estimators.base import SiteSide
from tacit.estimators.mixture import GaussianMixture
from tacit.estimators.site import Site
from tacit.estimators.spectral import SpectralEstimator
from tacit.estimators.spectral_rounds import MOST_ROUNDS, Spectrum
from tacit.estimators.topics import SingleTopicModel
from tacit.federation.computations.base import Computation, check_trust, estimator, the_table
from tacit.federation.proposal import Proposal
from tacit.privacy.events import DpEvent
from tacit.privacy.guarantee import Certificate
from tacit.privacy.ledger import Ledger
from tacit.rounds.protocol import Coordinator, RunRecord

__all__ = ["Mixture", "Spectral", "Topics"]


class Spectral(Computation):
    """`SingleTopicModel` and `GaussianMixture`: moments of documents or rows."""

    sums_only = True
    inference_only = ("restarts", "iterations", "smoothing")
    kind: ClassVar[type[SpectralEstimator]]

    def __init__(self, proposal: Proposal) -> None:
        super().__init__(proposal)
        privacy = proposal.guarantee()
        check_trust(proposal)
        self._columns = tuple(proposal.settings.get("columns", ()))
        settings = {k: v for k, v in proposal.settings.items() if k != "columns"}
        self.model: SpectralEstimator = estimator(
            self.kind, settings, {"privacy": privacy, "random_state": proposal.seed}
        )
        self.coordinator()

    @property
    def _shares(self) -> int:
        return self.proposal.threshold or 1

    @property
    def rounds(self) -> int:
        """The most products it may take, and the third moment."""
        return (MOST_ROUNDS + 1) * (1 if self.proposal.threshold is None else 4)

    def event(self) -> DpEvent:
        """Second and third moments."""
        return self.model.schedule()

    def coordinator(self) -> Spectrum:
        """Look for the leading eigenvectors of the sum."""
        return self.model.coordinator_side(len(self.proposal.sites), self._shares)

    def site(self, name: str, tables: Mapping[str, Any], ledger: Ledger | None) -> SiteSide:
        """Read documents or rows from the one table."""
        site = Site(name, self._data(the_table(tables)), ledger)
        return self.model.site_side(
            site, len(self.proposal.sites), self._shares, self.proposal.run
        )

    @abstractmethod
    def _data(self, found: Mapping[str, Any]) -> Any:
        """Return a table's content as the estimator takes it."""

    def conclude(
        self, coordinator: Coordinator, record: RunRecord, certificates: Mapping[str, Certificate]
    ) -> SpectralEstimator:
        """Learn the components."""
        assert isinstance(coordinator, Spectrum)
        self.model.conclude(coordinator, record, certificates)
        return self.model


class Topics(Spectral):
    """Documents, one row per document and word: columns ``document``, ``word``, ``count``."""

    kind = SingleTopicModel

    @property
    def bounds(self) -> Any:
        """The vocabulary."""
        return self.proposal.settings.get("vocabulary")

    def _data(self, found: Mapping[str, Any]) -> Any:
        words = self.proposal.settings.get("vocabulary")
        names = {e: found["columns"].get(e, e) for e in ("document", "word")}
        cells = Relation.from_frame(
            found["table"], names, found.get("value"),
            labels={"word": range(words) if isinstance(words, int) else words or ()},
        )  # fmt: skip
        return coo_array((cells.values, tuple(cells.indices.T)), shape=cells.shape).tocsr()

    def outcome(self) -> dict[str, Any]:
        """Topics and their weights."""
        assert isinstance(self.model, SingleTopicModel)
        return {"topics": self.model.topics_, "weights": self.model.weights_}


class Mixture(Spectral):
    """Rows of numbers; ``columns`` names the features in their order."""

    kind = GaussianMixture

    @property
    def bounds(self) -> Any:
        """The radius about the centre."""
        return self.proposal.settings.get("radius")

    def _data(self, found: Mapping[str, Any]) -> Any:
        return np.column_stack(list(numeric_columns(found["table"], self._columns).values()))

    def outcome(self) -> dict[str, Any]:
        """Means, weights and the common variance."""
        assert isinstance(self.model, GaussianMixture)
        return {"means": self.model.means_, "weights": self.model.weights_,
                "variance": np.array([self.model.variance_])}  # fmt: skip
