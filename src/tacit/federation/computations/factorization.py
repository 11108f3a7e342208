"""`CoupledFactorization` over a federation: what is public comes from the proposal alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.base import SiteSide
from tacit.estimators.coupled import CoupledFactorization
from tacit.estimators.joint import JointCoordinator, Problem, state_problem
from tacit.estimators.joint_als import AlternatingLeastSquares
from tacit.estimators.joint_langevin import Langevin
from tacit.estimators.joint_local import LocalCounts
from tacit.estimators.site import Site
from tacit.federation.computations.base import Computation, estimator
from tacit.federation.proposal import Proposal
from tacit.models.structure import CoupledModel
from tacit.privacy.events import DpEvent
from tacit.privacy.guarantee import Certificate
from tacit.privacy.ledger import Ledger
from tacit.rounds.protocol import Coordinator, RunRecord

__all__ = ["Factorization"]

_METHODS = {
    "als": AlternatingLeastSquares, "local": LocalCounts, "sgld": Langevin,
}  # fmt: skip


class Factorization(Computation):
    """`CoupledFactorization` over sites."""

    sums_only = True

    def __init__(self, proposal: Proposal) -> None:
        super().__init__(proposal)
        settings = dict(proposal.settings)
        self._entities = settings.pop("entities", {})
        members = settings.pop("members", 0)
        method = settings.pop("method", "auto")
        options = settings.pop("options", {})
        if options and method in _METHODS:
            try:
                method = _METHODS[method](**options)
            except TypeError as error:
                raise ParameterError(
                    f"options do not fit the method {method!r}: {error}"
                ) from None
        elif options:
            raise ParameterError(f"options go with a method, one of {sorted(_METHODS)}")
        self.model: CoupledFactorization = estimator(
            CoupledFactorization, settings,
            {"method": method, "privacy": proposal.guarantee(), "random_state": proposal.seed},
        )  # fmt: skip
        self.model._over_sites = True
        self.problem = self._state(self.model.coupled_model(), int(members))
        if isinstance(self.model.method, str) and self.model.method == "local":
            raise ParameterError("pass options for method 'local'")
        self.model.coordinator_side(self.problem)

    def _modes(self, model: CoupledModel, relation: str, protected: str) -> list[str]:
        """Return the entities of a relation: what is protected or has public members."""
        names = [factor for factor, _ in model.forms[relation]]
        return [name for name in names if name == protected or name in self._entities]

    def _state(self, model: CoupledModel, members: int) -> Problem:
        """Return what is public, from the proposal alone."""
        protected = self.model.protected or next(iter(model.forms.values()))[0][0]
        if protected in self._entities:
            raise ParameterError(f"the members of {protected!r} are protected: do not list them")
        sizes, labels = {}, {}
        for entity, found in self._entities.items():
            sizes[entity] = found if isinstance(found, int) else len(found)
            if not isinstance(found, int):
                labels[entity] = tuple(found)
        data = []
        for k in range(len(self.proposal.sites)):
            relations = {}
            for name in model.forms:
                modes = self._modes(model, name, protected)
                shape = [(members if k == 0 else 0) if e == protected else sizes[e] for e in modes]
                # sizes and labels are all that is looked at
                relations[name] = Relation(
                    tuple(modes), tuple(shape), np.empty((0, len(modes)), np.int32), np.empty(0),
                    labels={e: labels[e] for e in modes if e in labels},
                )  # fmt: skip
            data.append(relations)
        settings = self.model
        return state_problem(
            model, data, bounds=settings.bounds, privacy=self.proposal.guarantee(),
            protected=protected, shared=settings.shared, accountant=settings.accountant,
        )  # fmt: skip

    @property
    def rounds(self) -> int:
        """As many as the method has, four exchanges each under secure aggregation."""
        return self.model.rounds_of(self.problem) * (1 if self.proposal.threshold is None else 4)

    @property
    def bounds(self) -> Any:
        """Each relation's range."""
        return {name: list(pair) for name, pair in self.problem.bounds.items()}

    def event(self) -> DpEvent:
        """The method's whole schedule."""
        return self.model.schedule()

    def coordinator(self) -> JointCoordinator:
        """Hold the shared factors."""
        return self.model.coordinator_side(self.problem)

    def site(self, name: str, tables: Mapping[str, Any], ledger: Ledger | None) -> SiteSide:
        """Turn tables into relations, one row per cell."""
        known = {e: f for e, f in self._entities.items() if not isinstance(f, int)}
        relations = {}
        for relation, found in tables.items():
            if relation not in self.problem.model.forms:
                raise ParameterError(f"the model has no relation {relation!r}")
            modes = self._modes(self.problem.model, relation, self.problem.protected)
            columns = {e: found["columns"].get(e, e) for e in modes}
            labels = {e: known[e] for e in modes if e in known}
            labels |= {
                e: range(self._entities[e])
                for e in modes
                if isinstance(self._entities.get(e), int)
            }
            relation_found = Relation.from_frame(
                found["table"], columns, found.get("value"), labels=labels
            )
            kept = {e: n for e, n in relation_found.labels.items()
                    if e in known or e == self.problem.protected}  # fmt: skip
            relations[relation] = Relation.from_cells(
                relation_found.entities, relation_found.indices, relation_found.values,
                shape=relation_found.shape, labels=kept,
            )  # fmt: skip
        return self.model.site_side(self.problem, Site(name, relations, ledger), self.proposal.run)

    def shared(self, coordinator: Coordinator) -> dict[str, Any]:
        """Return the shared factors."""
        assert isinstance(coordinator, JointCoordinator)
        return dict(coordinator.shared())

    def conclude(
        self, coordinator: Coordinator, record: RunRecord, certificates: Mapping[str, Certificate]
    ) -> CoupledFactorization:
        """Keep the shared factors with their certificates."""
        assert isinstance(coordinator, JointCoordinator)
        self.model.conclude(coordinator, record, certificates)
        return self.model

    def outcome(self) -> dict[str, Any]:
        """The shared factors."""
        return dict(self.model.shared_factors_)
