"""`PrivateLinearRegression` over a federation: one release per site."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.errors import ParameterError
from tacit.estimators.base import SiteSide
from tacit.estimators.regression import PrivateLinearRegression
from tacit.estimators.regression_rounds import Collector
from tacit.estimators.site import Site
from tacit.federation.computations.base import Computation, estimator, the_table
from tacit.federation.proposal import Proposal
from tacit.privacy.events import DpEvent
from tacit.privacy.guarantee import Certificate
from tacit.privacy.ledger import Ledger
from tacit.rounds.protocol import Coordinator, RunRecord

__all__ = ["Regression"]


class Regression(Computation):
    """`PrivateLinearRegression`: one release per site."""

    inference_only = ("method", "chains", "draws", "warmup")

    def __init__(self, proposal: Proposal) -> None:
        super().__init__(proposal)
        settings = dict(proposal.settings)
        bounds = settings.get("bounds")
        if not isinstance(bounds, Mapping) or "target" not in settings:
            raise ParameterError("regression needs bounds = {feature: [low, high]} and a target")
        settings["bounds"] = {name: tuple(pair) for name, pair in bounds.items()}
        if isinstance(settings.get("y_bounds"), list):
            settings["y_bounds"] = tuple(settings["y_bounds"])
        self.model: PrivateLinearRegression = estimator(
            PrivateLinearRegression, settings,
            {"privacy": proposal.guarantee(), "random_state": proposal.seed},
        )  # fmt: skip
        self.model.coordinator_side()  # refuses what makes no sense, on either side

    @property
    def rounds(self) -> int:
        """One."""
        return 1

    @property
    def bounds(self) -> Any:
        """Features' and response's ranges."""
        settings = self.proposal.settings
        return {**settings["bounds"], settings["target"]: settings.get("y_bounds")}

    def event(self) -> DpEvent:
        """One release."""
        return self.model.schedule()

    def coordinator(self) -> Collector:
        """Ask every site once."""
        return self.model.coordinator_side()

    def site(self, name: str, tables: Mapping[str, Any], ledger: Ledger | None) -> SiteSide:
        """Add up the rows of the one table."""
        table = the_table(tables)["table"]
        return self.model.site_side(Site(name, table, ledger), self.proposal.run)

    def conclude(
        self, coordinator: Coordinator, record: RunRecord, certificates: Mapping[str, Certificate]
    ) -> PrivateLinearRegression:
        """Infer the coefficients from all summaries."""
        assert isinstance(coordinator, Collector)
        summaries = [
            self.model.summary_of(name, reply, certificates[name])
            for name, reply in coordinator.replies_by_site.items()
        ]
        self.model.record_ = record
        return self.model.fit(summaries)

    def outcome(self) -> dict[str, Any]:
        """Coefficients, intercept and their standard deviations."""
        found = self.model
        return {"coef": found.coef_, "coef_sd": found.coef_sd_,
                "intercept": np.array([found.intercept_, found.intercept_sd_])}  # fmt: skip
