"""`CoupledFactorization`: joint factorization of matrices and tensors that share entities."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY
from functools import partial
from inspect import signature
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit._core.answers import Answer
from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real
from tacit._core.progress import progress_bar
from tacit._core.rng import generator, streams
from tacit.data.members import Members, cells_of
from tacit.errors import ParameterError
from tacit.estimators.features import check_fitted
from tacit.estimators.parameters import stores_parameters
from tacit.estimators.plain import Estimator
from tacit.factorization.alone.coupling import find_dispersions
from tacit.factorization.alone.files import read_factorization, write_factorization
from tacit.factorization.alone.inference import (
    best_descent,
    kernel_of,
    mean_divergence,
    predicted,
    sample,
)
from tacit.factorization.alone.mixing import Mixing, mixing_of
from tacit.factorization.alone.newcomers import folded_in
from tacit.factorization.alone.numerics.sums import Engine
from tacit.factorization.alone.stated import (
    INFERENCES,
    check_defined,
    check_prior,
    check_read,
    constraints_of,
    has_real_factors,
    labels_of,
)
from tacit.factorization.answers import alone_answer, arviz_of, drawn_alone
from tacit.factorization.arrays import Arrays, Floats
from tacit.factorization.divergences import LOGIT
from tacit.factorization.language.binding import as_relations
from tacit.factorization.language.structure import BoundRelation, CoupledModel, FromData
from tacit.factorization.ranking import top_members

__all__ = ["CoupledFactorization"]


@stores_parameters
class CoupledFactorization(Estimator):
    """Factorize any collection of matrices and tensors that share entities.

    One holder, without a guarantee: over sites, or with one, use `tacit.PrivateFactorization`.

    Parameters
    ----------
    model
        The forms in the model language, ``{"visits": "user:k place:k", …}`` or one string, or a
        `CoupledModel` (then the next three are taken from it).
    rank, divergence, dispersion
        As in `CoupledModel`. Dispersions that are not given are learned along with real factors,
        and 1 otherwise; ``"estimate"`` then estimates them before the fit. ``"choose"``: as much
        weight, possibly none, as helps to predict held-out cells of the relations that do not say
        so, or of the first one; the rest are fits of their own and take their time.
    inference
        ``"map"`` (maximum a posteriori), ``"vb"`` (variational Bayes), ``"gibbs"`` or ``"sgld"``.
    prior
        The gamma prior, (shape A, mean B), of every factor entry (its rate is A/B); or of the
        precision λ_dk of every component, where factors are real (for ``"map"``, B is that
        precision). For all factors, or factor → pair. None: B on the scale of the data and A = 1
        (2 for gamma priors of ``"vb"``; by how much the data vary for ``"map"``). ``"flat"``: none
        at all, which makes ``"map"`` maximum likelihood. An entry of a mapping may be a
        `tacit.factorization.Factor`: one that is given, or whose neighbours are alike.
    adapt
        Whether ``"vb"`` adapts A and B per factor.
    iterations, tolerance
        The most, and the relative change of the objective over ten of them that stops others.
    restarts
        Random starts, of which the best objective is kept (``"map"`` and ``"vb"``).
    accelerate
        Whether ``"map"`` extrapolates: the same objective in fewer iterations, never a worse one.
    burn_in, thin
        Of chains: steps that are dropped first, and the distance of samples that are kept.
    batch, step_size, decay
        For ``"sgld"``: cells per step, share κ₀ of the way that each row goes in a step (None: 1,
        less where batches are small), and decay ρ of κ₀/t^ρ.
    real_factors
        Whether factors may be negative, for ``"map"`` also which. None: where every relation is
        Euclidean or of log odds; for ``"map"``, factors of log odds only.
    warm_start
        Whether `fit` goes on from the state of an earlier (or interrupted) fit.
    progress, random_state
        Whether a progress bar is shown; the seed of the inference generators.

    Attributes
    ----------
    factors_
        Factor → array (rows, latents …); means for the Bayesian methods. `factors` has names.
    labels_
        Entity → the names of its members in the order of rows, where they have any.
    dispersion_
        Relation → dispersion: given, estimated or chosen.
    history_
        The objective (``"map"``: falls) or evidence bound (``"vb"``: rises) as looked at.
    n_iter_, converged_
        Iterations done, and whether the tolerance was reached; of chains, an R-hat up to 1.1.
    mixing_
        Of chains: draws kept, R-hat, effective draws (`tacit.factorization.alone.mixing.Mixing`).

    Examples
    --------
    >>> import numpy as np
    >>> X = np.outer([1.0, 2, 3], [2.0, 1, 4, 3])
    >>> X[0, 0] = np.nan
    >>> fitted = CoupledFactorization("row:k column:k", rank=1, prior="flat").fit(X)
    >>> round(float(fitted.predict("data", [[0, 0]])[0]), 3)
    2.0
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "inference": OneOf(*INFERENCES),
        "prior": AnyOf(InstanceOf(tuple, list, Mapping), OneOf("flat", None)),
        "adapt": OneOf(True, False),
        "iterations": Integer(1),
        "tolerance": Real(0),
        "restarts": Integer(1),
        "accelerate": OneOf(True, False),
        "burn_in": Integer(0),
        "thin": Integer(1),
        "batch": Integer(1),
        "step_size": AnyOf(Real(0, open_low=True), None),
        "decay": Real(0, 1),
        "real_factors": AnyOf(
            OneOf(True, False, None), InstanceOf(str, list, tuple, set, frozenset)
        ),
        "warm_start": OneOf(True, False),
        "progress": OneOf(True, False),
        "random_state": AnyOf(Integer(0), None, InstanceOf(np.random.SeedSequence)),
    }

    model: Any = "row:k column:k"
    _: KW_ONLY
    rank: Any = 5
    divergence: Any = "kl"
    dispersion: Any = None
    inference: str = "map"
    prior: Any = None
    adapt: bool = False
    iterations: int = 500
    tolerance: float = 1e-5
    restarts: int = 1
    accelerate: bool = True
    burn_in: int = 100
    thin: int = 5
    batch: int = 100_000
    step_size: float | None = None
    decay: float = 0.0
    real_factors: Any = None
    warm_start: bool = False
    progress: bool = False
    random_state: Any = None

    # -- fitting --------------------------------------------------------------------------------

    def coupled_model(self) -> CoupledModel:
        """Return the model that the parameters describe, with dispersions once estimated."""
        model = self.model
        if not isinstance(model, CoupledModel):
            given = 1.0 if self.dispersion is None else self.dispersion
            model = CoupledModel(model, self.rank, self.divergence, given)
            if self.dispersion is None and self._real(model):
                noisy = [name for name, power in model.powers.items() if power != LOGIT]
                model.dispersions = {**model.dispersions, **dict.fromkeys(noisy, "estimate")}
        return model.with_dispersions(getattr(self, "dispersion_", {}))

    def _real(self, model: CoupledModel) -> bool:
        return has_real_factors(self.get_params(deep=False), model)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.prior is not None:
            check_prior(self.prior, self.inference)
        check_read(self.inference, self.get_params(deep=False), signature(type(self).__init__))

    def _try(self, data: Any) -> Any:
        model = self.coupled_model()
        return model.bind(as_relations(model, data))

    def fit(self, data: Any, y: None = None) -> Self:
        """Fit the factors.

        Parameters
        ----------
        data
            Relation name → `Relation`, a table with one row per cell, a wide frame of pandas, or
            an array in the order of the form (NaN for missing); for a single relation, just that.
        y
            Ignored.
        """
        self._check_parameters()
        fresh = not (self.warm_start and hasattr(self, "dispersion_"))
        if fresh:
            self.dispersion_: dict[str, float] = {}
        model = self.coupled_model()
        check_defined(self.inference, model, self.real_factors)
        relations = as_relations(model, data)
        if self.inference in ("map", "vb"):  # the same cells, in whichever form is shorter
            relations = {name: found.compact() for name, found in relations.items()}
        labels = labels_of(model, relations)
        stated = constraints_of(self.get_params(deep=False), model, relations, labels)
        if fresh:
            rng = generator(self.random_state, "dispersion")
            self.dispersion_, self._learned = find_dispersions(self, model, relations, rng, stated)
            model = self.coupled_model()
        bound = model.bind(relations)
        self.dispersion_ = {r.name: model.dispersions[r.name] for r in bound.relations}
        known = getattr(self, "_bound", None)
        columns = {name: dict(found.columns) for name, found in relations.items()}
        alike = known is not None and known.factors == bound.factors
        alike = alike and getattr(self, "labels_", {}) == labels
        if not (self.warm_start and alike and vars(self).get("_method") == self.inference):
            self._forget()
        self._bound, self._method = bound, self.inference
        self.labels_, self._columns = labels, columns
        self._stated = stated
        infer = self._optimise if self.inference in ("map", "vb") else self._sample
        infer(Engine(bound, relations, bounded=self.inference == "vb"))
        return self

    def _forget(self) -> None:
        """Drop the state of an earlier fit."""
        self._state: Any = None
        self._samples: list[Arrays] = []
        self._noises: list[dict[str, float]] = []
        self.mixing_ = Mixing(0, float("nan"), float("nan"), 0)
        self.history_: list[float] = []
        self.n_iter_ = 0

    def _optimise(self, engine: Engine) -> None:
        kernel = self._kernel(engine)
        sign = 1.0 if self.inference == "map" else -1.0
        names = [f"start {k}" for k in range(self.restarts)]
        fresh = streams(self.random_state, *names)
        starts = list(fresh) if self._state is None else [self._state]
        found = best_descent(kernel, starts, self.get_params(deep=False), sign)
        self._state, history, done, self.converged_ = found
        self.history_ = [*self.history_, *history]
        self.n_iter_ += done
        self._publish()

    def _kernel(self, engine: Engine) -> Any:
        given = self.get_params(deep=False)
        real = self._real(self.coupled_model())
        kernel = kernel_of(engine, given, real, self._learned, self._stated)
        if self.inference == "map":
            self._penalties = getattr(kernel, "updates", kernel).priors
        return kernel

    def _sample(self, engine: Engine) -> None:
        kernel = self._kernel(engine)
        rng_start, rng = streams(self.random_state, "start 0", f"chain {self.n_iter_}")
        state = self._state if self._state is not None else kernel.init(rng_start)

        def keep(state: Any) -> None:
            self.n_iter_ += 1
            past = self.n_iter_ - self.burn_in
            if past > 0 and past % self.thin == 0:
                self._samples.append(dict(state.factors))
                self._noises.append(dict(getattr(state, "dispersions", {})))

        with progress_bar(self.progress, self.iterations, "factorizing") as advance:
            self._state = sample(kernel, rng, state, self.iterations, keep, advance)
        self.mixing_ = mixing_of(engine, self._samples)
        self.converged_ = self.mixing_.settled
        self._publish()

    def _publish(self) -> None:
        """Set `factors_` and learned dispersions from the state."""
        for name in self._learned:
            drawn = [one[name] for one in self._noises or [self._state.dispersions]]
            self.dispersion_[name] = FromData(np.mean(drawn))
        flat = self._flat_means()
        specs = self._bound.factors
        self.factors_ = {n: values.reshape(specs[n].shape) for n, values in flat.items()}

    # -- using it -------------------------------------------------------------------------------

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
        self, relation: str, cells: Any, *, return_variance: bool = False, positions: bool = False
    ) -> Any:
        """Return the expected value of any cells of a relation.

        Parameters
        ----------
        relation
            Which one.
        cells
            A table with a column for each mode, or rows of members in the order of the relation,
            (cells, modes). Members go by their names, where the data had any.
        return_variance
            Also return the posterior variance of the expected value (Bayesian methods); add
            the likelihood's own variance for that of a new observation.
        positions
            Whether members are given by position all the same.
        """
        index = self._cells(relation, cells, positions)
        return predicted(self, relation, index, return_variance)

    def _cells(self, relation: str, cells: Any, positions: bool) -> NDArray[np.int32]:
        bound = self._relation(relation)
        members = [self._members(mode) for mode in bound.entities]
        columns = self._columns.get(relation, {})
        try:
            return cells_of(cells, members, columns, positions=positions).astype(np.int32)
        except ParameterError as error:
            raise ParameterError(f"{error} (in {relation!r}; fold new members in first)") from None

    def _members(self, mode: str) -> Members:
        entity = self.coupled_model().entity(mode)
        return Members(mode, self._bound.factors[entity].rows, self.labels_.get(entity))

    def _relation(self, name: str) -> BoundRelation:
        check_fitted(self, "factors_")
        return self._bound.relation(name)

    def factors(self, entity: str) -> dict[Any, Floats]:
        """Return the factor of an entity: member → its row; without names they are numbered."""
        check_fitted(self, "factors_")
        if entity not in self._bound.factors or self._bound.factors[entity].core:
            raise ParameterError(f"there is no entity {entity!r}: there are {self._entities()}")
        return self._members(entity).named(self.factors_[entity])

    def _entities(self) -> list[str]:
        return [name for name, spec in self._bound.factors.items() if not spec.core]

    def top(
        self,
        relation: str,
        entity: str,
        given: Mapping[str, Any],
        n: int = 10,
        skip: Any = (),
        *,
        positions: bool = False,
    ) -> list[tuple[Any, float]]:
        """Return the n members of an entity with the highest expected values.

        Parameters
        ----------
        relation, entity
            Where to look, and for what.
        given
            The member of every other mode; ``top("friends", "user", {"user": "anna"})``.
        n
            How many.
        skip
            Members to leave out, such as those already seen.
        positions
            Whether members are positions, going in and coming out.
        """
        bound = self._relation(relation)
        members = [self._members(mode) for mode in bound.entities]
        if (
            entity in given and bound.times(entity) > 1
        ):  # one member of an entity is given, and its partners are wanted
            modes = [m for m in bound.entities if m not in given]
            entity = modes[0] if len(modes) == 1 else entity
        values = partial(self.predict, relation, positions=True)
        return top_members(values, members, entity, given, n, skip, positions)

    def fold_in(self, entity: str, data: Any, *, return_names: bool = False) -> Any:
        """Return factor rows for new members of an entity, all other factors fixed.

        Parameters
        ----------
        entity
            Whose members are new; of an entity with itself, the mode that they stand in.
        data
            Relation name → `Relation` or table in which only the new members occur; side ones
            alone suffice (cold start). Other members are found by name, or stand in the order of
            the fit.
        return_names
            Also return the names of the new members, in the order of the rows; first.
        """
        check_fitted(self, "factors_")
        names, rows = folded_in(self, entity, data)
        return (names, rows) if return_names else rows

    def _stated_members(self) -> dict[str, Any]:
        """Return the members of every entity as the fit knew them."""
        check_fitted(self, "factors_")
        return {e: self._members(e).names or self._members(e).size for e in self._entities()}

    def score(self, data: Any, y: None = None) -> float:
        """Return minus the mean divergence per listed cell, over all relations."""
        relations = as_relations(self.coupled_model(), data, self._stated_members())

        def predicted(name: str, found: Any) -> Any:
            return self.predict(name, found.indices, positions=True)

        losses = {relation.name: relation.loss for relation in self._bound.relations}
        return -mean_divergence(predicted, losses, relations)

    def _answer(self, level: float) -> Answer:
        check_fitted(self, "factors_")
        return alone_answer(self, level)

    def to_arviz(self) -> Any:
        """Return the draws of ``"gibbs"`` and ``"sgld"`` as ArviZ ``InferenceData``: one chain."""
        check_fitted(self, "factors_")
        return arviz_of(drawn_alone(self))

    # -- keeping it -----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model: arrays and JSON, never pickle."""
        write_factorization(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a fitted model that `save` wrote."""
        return read_factorization(cls, path)  # type: ignore[no-any-return]
