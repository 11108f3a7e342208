"""What a fitted factorization is used for: predictions, the best members, fold-in, scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.coupled_sites import OverSites
from tacit.inference.engine import Engine, Expanded
from tacit.inference.fold import fold_in_positive, fold_in_real
from tacit.inference.sweep import cell_divergence, estimate_cells
from tacit.inference.variational import variance_of_estimates
from tacit.models.binding import as_relations
from tacit.models.structure import BoundModel, CoupledModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.float64]]

__all__ = ["FittedFactorization"]


class FittedFactorization(OverSites):
    """The half of `CoupledFactorization` that only reads what a fit left."""

    inference: str
    prior_shape: float | None
    prior_mean: float | None
    real_factors: bool
    labels_: dict[str, tuple[Any, ...]]
    _bound: BoundModel
    _state: Any
    _samples: list[Arrays]

    def _draws(self) -> list[Arrays]:
        """Return the samples kept so far; within the burn-in, the current state."""
        return self._samples or [dict(self._state.factors)]

    def _flat_means(self) -> Arrays:
        if self.inference == "map":
            return dict(self._state.factors)
        if self.inference == "vb":
            means: Arrays = self._state.means
            return means
        draws = self._draws()
        return {
            name: np.add.reduce([draw[name] for draw in draws]) / len(draws) for name in draws[0]
        }

    def predict(
        self,
        where: str,
        cells: Any,
        *,
        relation: str | None = None,
        return_variance: bool = False,
    ) -> Any:
        """Return the expected value of any cells of a relation.

        Parameters
        ----------
        where
            Which relation; after a fit over sites, at which site.
        relation
            After a fit over sites with several relations: which one.
        cells
            (cells, modes) indices.
        return_variance
            Also return the posterior variance of the expected value (Bayesian methods); add
            the likelihood's own variance for that of a new observation.
        """
        if hasattr(self, "parts_"):
            return self._predict_at(where, cells, relation)
        relation = where
        index = self._cells(relation, cells)
        if self.inference in ("gibbs", "sgld"):
            draws = np.array([self._estimate(relation, index, d) for d in self._draws()])
            mean = draws.mean(axis=0)
            return (mean, draws.var(axis=0)) if return_variance else mean
        mean = self._estimate(relation, index, self._flat_means())
        if not return_variance:
            return mean
        if self.inference == "map":
            raise ParameterError(
                "a point estimate has no posterior variance: use inference='vb', 'gibbs' or 'sgld'"
            )
        return mean, variance_of_estimates(self._state, self._relation(relation), index)

    def _cells(self, relation: str, cells: Any) -> NDArray[np.int32]:
        bound = self._relation(relation)
        sizes = [self._bound.factors[name].rows for name in bound.factors[: bound.modes]]
        index = np.asarray(cells)
        if index.ndim != 2 or index.shape[1] != bound.modes:
            raise ParameterError(
                f"cells must have shape (cells, {bound.modes}) for {relation!r}, got {index.shape}"
            )
        if index.size and not (index == np.floor(index)).all():
            raise ParameterError("cells must hold whole numbers")
        if index.size and ((index < 0).any() or (index >= np.array(sizes)).any()):
            raise ParameterError(f"cells must lie within {sizes}: fold new members in first")
        return index.astype(np.int32)

    def _relation(self, name: str) -> Any:
        check_is_fitted(self, "factors_")
        for relation in self._bound.relations:
            if relation.name == name:
                return relation
        known = [relation.name for relation in self._bound.relations]
        raise ParameterError(f"there is no relation {name!r}: the model has {known}")

    def _estimate(
        self, relation: str, cells: NDArray[np.int32], factors: Arrays
    ) -> NDArray[np.float64]:
        only = BoundModel(self._bound.factors, (self._relation(relation),))
        needed = {name: factors[name] for name in self._relation(relation).factors}
        return estimate_cells(cells, Expanded(only, needed).banks[relation])

    def top(
        self, relation: str, entity: str, given: Mapping[str, int], n: int = 10, skip: Any = ()
    ) -> list[tuple[int, float]]:
        """Return the n members of an entity with the highest expected values.

        Parameters
        ----------
        relation, entity
            Where to look, and for what.
        given
            The member of every other entity of the relation.
        n
            How many.
        skip
            Members to leave out, such as those already seen.
        """
        bound = self._relation(relation)
        names = bound.factors[: bound.modes]
        if set(given) != set(names) - {entity} or entity not in names:
            raise ParameterError(
                f"given must hold one member for each of {sorted(set(names) - {entity})}"
            )
        size = self._bound.factors[entity].rows
        candidates = np.setdiff1d(np.arange(size), np.asarray(list(skip), int))
        cells = np.column_stack(
            [candidates if name == entity else np.full(len(candidates), given[name])
             for name in names]
        )  # fmt: skip
        scores = np.asarray(self.predict(relation, cells))
        order = np.argsort(-scores, kind="stable")[:n]
        return [(int(candidates[k]), float(scores[k])) for k in order]

    def fold_in(self, entity: str, data: Mapping[str, Relation]) -> NDArray[np.float64]:
        """Return factor rows for new members of an entity, all other factors fixed.

        Parameters
        ----------
        entity
            Whose members are new.
        data
            Relation name → `Relation` in which only the new members occur, numbered from 0;
            side relations alone suffice (cold start).
        """
        model = self.coupled_model()
        data = as_relations(model, data)
        for name in data:
            self._relation(name)
            if entity not in model.names(name):
                raise ParameterError(f"relation {name!r} does not name the entity {entity!r}")
        forms = {name: " ".join(f"{f}:{k}" for f, k in model.forms[name]) for name in data}
        part = CoupledModel(
            forms, model.ranks, {n: model.powers[n] for n in data},
            {n: model.dispersions[n] for n in data},
        )  # fmt: skip
        bound = part.bind(data)
        self._check_labels(data, but=entity)
        for name, spec in bound.factors.items():
            if name != entity and spec.rows != self._bound.factors[name].rows:
                raise ParameterError(
                    f"{name!r} has {self._bound.factors[name].rows} members, the new data "
                    f"{spec.rows}"
                )
        means = self._flat_means()
        if self.inference == "sgld" and self.real_factors:
            precision = float(self._state.precisions[entity])
            return fold_in_real(entity, Engine(bound, data), means, precision)
        return fold_in_positive(entity, Engine(bound, data), means, *self._fold_in_prior(entity))

    def _check_labels(self, data: Mapping[str, Relation], but: str | None = None) -> None:
        """Refuse data whose members have other labels than those of the fit."""
        for found in data.values():
            for entity, names in found.labels.items():
                if entity != but and _texts(self.labels_.get(entity, names)) != _texts(names):
                    raise ParameterError(
                        f"the members of {entity!r} differ from those of the fit: pass its labels"
                    )

    def _fold_in_prior(self, entity: str) -> tuple[float, float]:
        """Return (shape, rate) of the prior that new rows are fitted with."""
        shape, mean = self.prior_shape, self.prior_mean
        if self.inference == "map":
            shape = 1.0 if shape is None else shape
            return shape, 0.0 if mean is None else shape / mean
        if self.inference == "vb":  # given, or adapted
            shape = float(self._state.prior_shape[entity])
            return max(1.0, shape), shape / float(self._state.prior_mean[entity])
        shape = 0.5 if shape is None else shape
        return max(1.0, shape), shape / (10.0 if mean is None else mean)

    def score(self, data: Any, y: None = None) -> float:
        """Return minus the mean divergence per listed cell, over all relations."""
        relations = as_relations(self.coupled_model(), data)
        self._check_labels(relations)
        total, cells = 0.0, 0
        for name, found in relations.items():
            predicted = np.asarray(self.predict(name, found.indices))
            total += cell_divergence(found.values, predicted, self._relation(name).power)
            cells += found.cells
        return -total / max(cells, 1)


def _texts(names: tuple[Any, ...]) -> list[str]:
    """Return labels as text: a saved model keeps those that JSON cannot hold that way."""
    return [str(name) for name in names]
