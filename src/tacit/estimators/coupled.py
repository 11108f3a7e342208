"""`CoupledFactorization`: joint factorization of matrices and tensors that share entities."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real
from tacit._core.rng import generator, streams
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.coupled_files import read_factorization, write_factorization
from tacit.estimators.coupled_sites import OverSites
from tacit.estimators.joint import JointMethod
from tacit.estimators.joint_methods import METHODS
from tacit.estimators.progress import progress_bar
from tacit.estimators.site import Site
from tacit.inference.dispersion import estimate_dispersions
from tacit.inference.engine import Engine, Expanded
from tacit.inference.fold import fold_in_positive, fold_in_real
from tacit.inference.gibbs import GibbsSampler
from tacit.inference.langevin import LangevinSampler
from tacit.inference.sweep import estimate_cells
from tacit.inference.updates import AcceleratedUpdates, MultiplicativeUpdates
from tacit.inference.variational import VariationalBayes, variance_of_estimates
from tacit.models.binding import as_relations
from tacit.models.structure import BoundModel, CoupledModel
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.float64]]

__all__ = ["CoupledFactorization"]

_METHODS = ("map", "vb", "gibbs", "sgld")
_LOOK = 10  # the objective is looked at every so many iterations


class CoupledFactorization(OverSites):
    """Factorize any collection of matrices and tensors that share entities.

    Alone or over sites, with or without a guarantee: with ``privacy`` or a list of `Site` the fit
    is a joint computation in rounds (`method`), otherwise one of the inferences below.

    Parameters
    ----------
    model
        The forms in the model language, ``{"visits": "user:k place:k", …}`` or one string, or a
        `CoupledModel` (then the next three are taken from it).
    rank, divergence, dispersion
        As in `CoupledModel` (divergence None: Euclidean over sites, else KL); a dispersion of
        ``"estimate"`` is estimated before the fit
        (`tacit.inference.dispersion`).
    inference
        ``"map"`` (multiplicative updates; maximum likelihood with the default prior), ``"vb"``
        (variational Bayes), ``"gibbs"`` or ``"sgld"``.
    prior_shape, prior_mean
        The gamma prior of every factor entry: shape A and mean B (for ``"map"`` the rate is
        A/B). None: no prior for ``"map"``, A = 0.5 and B = 10 otherwise.
    adapt
        Whether ``"vb"`` adapts A and B per factor.
    iterations, tolerance
        The most iterations, and the relative change of the objective over ten of them below
        which ``"map"`` and ``"vb"`` stop.
    restarts
        Random starts, of which the best objective is kept (``"map"`` and ``"vb"``).
    accelerate
        Whether ``"map"`` extrapolates (`tacit.inference.updates.AcceleratedUpdates`): the same
        objective in fewer iterations, and never a worse one.
    burn_in, thin
        For ``"gibbs"`` and ``"sgld"``: steps that are dropped first, and the distance of the
        samples that are kept.
    batch, step, decay, real_factors
        For ``"sgld"``: cells per step, step size κ₀ (None: from the data's curvature) and
        decay ρ, and whether factors may be negative (Euclidean divergence).
    warm_start
        Whether `fit` goes on from the state of an earlier (or interrupted) fit.
    progress
        Whether a progress bar is shown.
    random_state
        The seed of the inference generators; over sites also of the noise, for tests and tables
        (a certificate then says so).
    privacy
        The guarantee that every site asks for; None runs the same rounds without noise.
    method
        Over sites: ``"auto"``, a name from `tacit.estimators.joint_methods.METHODS`, or one of
        its classes with settings of its own.
    bounds
        Over sites: the public range (low, high) of the values, for all relations or one each.
    protected
        The entity whose members are protected; the first one of the first form unless given.
    shared
        The factors that sites learn together; all but the protected entity's unless given.
    calibration, accountant
        ``"certified"``, or ``"published"`` for a paper's own noise; and whose ε must meet the
        request (``"pld"``, ``"rdp"``, ``"zcdp"``, ``"advanced"``).
    ledger
        The budget of a single holder; sites have their own.
    on_failure
        ``"stop"`` at a site's first failure, or ``"exclude"`` it.
    checkpoint
        A folder that records every round; a run that died goes on from there.

    Attributes
    ----------
    factors_
        Factor → array (rows, latents …); means for the Bayesian methods.
    dispersion_
        Relation → dispersion, given or estimated.
    history_
        The objective (``"map"``: falls) or evidence bound (``"vb"``: rises) as looked at.
    n_iter_, converged_
        Iterations done, and whether the tolerance was reached.
    shared_factors_, certificates_, certificate_, budget_, record_, failures_
        Over sites: what was learned together, the certificate of each site and the weakest of
        them, how the budget was split, and what happened in the rounds.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.outer([1.0, 2, 3], [2.0, 1, 4, 3])
    >>> X[0, 0] = np.nan
    >>> fitted = CoupledFactorization("row:k column:k", rank=1, random_state=0).fit(X)
    >>> round(float(fitted.predict("data", [[0, 0]])[0]), 3)
    2.0
    """

    _constraints: ClassVar[Mapping[str, Constraint]] = {
        "inference": OneOf(*_METHODS),
        "prior_shape": AnyOf(Real(0, open_low=True), None),
        "prior_mean": AnyOf(Real(0, open_low=True), None),
        "adapt": OneOf(True, False),
        "iterations": Integer(1),
        "tolerance": Real(0),
        "restarts": Integer(1),
        "accelerate": OneOf(True, False),
        "burn_in": Integer(0),
        "thin": Integer(1),
        "batch": Integer(1),
        "step": AnyOf(Real(0, open_low=True), None),
        "decay": Real(0, 1),
        "real_factors": OneOf(True, False),
        "warm_start": OneOf(True, False),
        "progress": OneOf(True, False),
        "random_state": AnyOf(Integer(0), None, InstanceOf(np.random.SeedSequence)),
        "privacy": AnyOf(InstanceOf(Privacy), None),
        "method": AnyOf(OneOf("auto", *METHODS), InstanceOf(JointMethod)),
        "protected": AnyOf(InstanceOf(str), None),
        "calibration": OneOf("certified", "published"),
        "accountant": OneOf("pld", "rdp", "zcdp", "advanced"),
        "ledger": AnyOf(InstanceOf(Ledger), None),
        "on_failure": OneOf("stop", "exclude"),
    }

    def __init__(
        self,
        model: Any = "row:k column:k",
        *,
        rank: Any = 5,
        divergence: Any = None,
        dispersion: Any = 1.0,
        inference: str = "map",
        prior_shape: float | None = None,
        prior_mean: float | None = None,
        adapt: bool = False,
        iterations: int = 500,
        tolerance: float = 1e-5,
        restarts: int = 1,
        accelerate: bool = True,
        burn_in: int = 100,
        thin: int = 5,
        batch: int = 10_000,
        step: float | None = None,
        decay: float = 0.51,
        real_factors: bool = False,
        warm_start: bool = False,
        progress: bool = False,
        random_state: Any = None,
        privacy: Privacy | None = None,
        method: Any = "auto",
        bounds: Any = None,
        protected: str | None = None,
        shared: Sequence[str] | None = None,
        calibration: str = "certified",
        accountant: str = "pld",
        ledger: Ledger | None = None,
        on_failure: str = "stop",
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> None:
        self.model = model
        self.rank = rank
        self.divergence = divergence
        self.dispersion = dispersion
        self.inference = inference
        self.prior_shape = prior_shape
        self.prior_mean = prior_mean
        self.adapt = adapt
        self.iterations = iterations
        self.tolerance = tolerance
        self.restarts = restarts
        self.accelerate = accelerate
        self.burn_in = burn_in
        self.thin = thin
        self.batch = batch
        self.step = step
        self.decay = decay
        self.real_factors = real_factors
        self.warm_start = warm_start
        self.progress = progress
        self.random_state = random_state
        self.privacy = privacy
        self.method = method
        self.bounds = bounds
        self.protected = protected
        self.shared = shared
        self.calibration = calibration
        self.accountant = accountant
        self.ledger = ledger
        self.on_failure = on_failure
        self.checkpoint = checkpoint

    # -- fitting --------------------------------------------------------------------------------

    def coupled_model(self) -> CoupledModel:
        """Return the model that the parameters describe, with dispersions once estimated."""
        model = self.model
        if not isinstance(model, CoupledModel):
            divergence = self.divergence
            if divergence is None:
                divergence = "kl" if self.privacy is None and not self._over_sites else "euclidean"
            model = CoupledModel(model, self.rank, divergence, self.dispersion)
        return model.with_dispersions(getattr(self, "dispersion_", {}))

    def fit(
        self, data: Any, y: None = None, *, public: Mapping[str, Relation] | None = None
    ) -> CoupledFactorization:
        """Fit the factors.

        Parameters
        ----------
        data
            Relation name → `Relation` (or an array whose modes are in the order of the form,
            NaN for missing); for a single relation, just that. Or a `Site`, or a list of them,
            that hold such data.
        y
            Ignored.
        public
            Over sites: relations that are no secret, which the coordinator holds.
        """
        self._check_parameters()
        sites = data if isinstance(data, list | tuple) else [data]
        self._over_sites = bool(sites) and all(isinstance(part, Site) for part in sites)
        if self.privacy is not None or self._over_sites:
            self._fit_sites(data, public or {})
            return self
        fresh = not (self.warm_start and hasattr(self, "dispersion_"))
        if fresh:
            self.dispersion_: dict[str, float] = {}
        model = self.coupled_model()
        relations = as_relations(model, data)
        if self.inference in ("map", "vb"):  # the same cells, in whichever form is shorter
            relations = {name: found.compact() for name, found in relations.items()}
        if fresh and model.open:
            rng = generator(self.random_state, "dispersion")
            self.dispersion_ = estimate_dispersions(model, relations, rng)
            model = self.coupled_model()
        bound = model.bind(relations)
        self.dispersion_ = {relation.name: relation.dispersion for relation in bound.relations}
        engine = Engine(bound, relations)
        known = getattr(self, "_bound", None)
        labels = {e: names for found in relations.values() for e, names in found.labels.items()}
        alike = (
            known is not None
            and known.factors == bound.factors
            and getattr(self, "labels_", {}) == labels
        )
        method = getattr(self, "_method", None)
        if not (self.warm_start and alike and method == self.inference):
            self._forget()
        self._bound, self._method = bound, self.inference
        self.labels_ = labels
        if self.inference in ("map", "vb"):
            self._optimise(engine)
        else:
            self._sample(engine)
        return self

    def _forget(self) -> None:
        """Drop the state of an earlier fit."""
        self._state: Any = None
        self._samples: list[Arrays] = []
        self.history_: list[float] = []
        self.n_iter_ = 0

    def _kernel(self, engine: Engine) -> Any:
        shape, mean = self.prior_shape, self.prior_mean
        if self.inference == "map":
            shape = 1.0 if shape is None else shape
            plain = MultiplicativeUpdates(engine, shape, 0.0 if mean is None else shape / mean)
            return AcceleratedUpdates(plain) if self.accelerate else plain
        shape = 0.5 if shape is None else shape
        mean = 10.0 if mean is None else mean
        if self.inference == "vb":
            return VariationalBayes(engine, shape, mean, adapt=self.adapt)
        if self.inference == "gibbs":
            return GibbsSampler(engine, shape, mean)
        return LangevinSampler(
            engine, prior="normal" if self.real_factors else "gamma", shape=shape, mean=mean,
            batch=self.batch, step=self.step, decay=self.decay,
        )  # fmt: skip

    def _optimise(self, engine: Engine) -> None:
        kernel = self._kernel(engine)
        sign = 1.0 if self.inference == "map" else -1.0
        starts = [self._state] if self._state is not None else [
            kernel.init(rng)
            for rng in streams(self.random_state, *(f"start {k}" for k in range(self.restarts)))
        ]  # fmt: skip
        best = None
        with progress_bar(self.progress, self.iterations * len(starts), "factorizing") as advance:
            for start in starts:
                *run, interrupted = self._descend(kernel, start, advance)
                if best is None or sign * run[1][-1] < sign * best[1][-1]:
                    best = run
                if interrupted:
                    break
        assert best is not None
        self._state, history, done, self.converged_ = best
        self.history_ = [*self.history_, *history]
        self.n_iter_ += done
        self._publish()

    def _descend(
        self, kernel: Any, state: Any, advance: Callable[[int], None]
    ) -> tuple[Any, list[float], int, bool, bool]:
        """Iterate until the objective settles, the iterations are used up, or Ctrl-C.

        Returns the state, the objectives looked at, the iterations done, whether the objective
        settled, and whether the user interrupted.
        """
        history: list[float] = []
        done, settled, interrupted, looked = 0, False, False, 0
        try:
            while done < self.iterations and not settled:
                each = getattr(kernel, "sweeps", 1)
                if done + each > self.iterations:  # what is left is too short to accelerate
                    kernel, each = kernel.updates, 1
                look = done + each >= min(looked + _LOOK, self.iterations)
                state, info = kernel.step(state, objective=look)
                done += each
                advance(each)
                if look:
                    looked = done
                    history.append(float(info[0]))
                if look and len(history) > 1:
                    change = abs(history[-1] - history[-2])
                    settled = change <= self.tolerance * max(abs(history[-2]), 1e-12)
        except KeyboardInterrupt:
            interrupted = True
            measure = kernel.objective if self.inference == "map" else kernel.bound
            history.append(float(measure(state)))
        return state, history, done, settled, interrupted

    def _sample(self, engine: Engine) -> None:
        kernel = self._kernel(engine)
        rng_start, rng = streams(self.random_state, "start 0", f"chain {self.n_iter_}")
        state = self._state if self._state is not None else kernel.init(rng_start)
        with progress_bar(self.progress, self.iterations, "factorizing") as advance:
            try:
                for _ in range(self.iterations):
                    state, _ = kernel.step(rng, state)
                    self.n_iter_ += 1
                    past = self.n_iter_ - self.burn_in
                    if past > 0 and past % self.thin == 0:
                        self._samples.append(dict(state.factors))
                    advance(1)
            except KeyboardInterrupt:
                pass
        self._state, self.converged_ = state, False
        self._publish()

    def _draws(self) -> list[Arrays]:
        """Return the samples kept so far; within the burn-in, the current state."""
        return self._samples or [dict(self._state.factors)]

    def _publish(self) -> None:
        """Set `factors_` from the state."""
        flat = self._flat_means()
        self.factors_ = {
            name: values.reshape(self._bound.factors[name].shape) for name, values in flat.items()
        }

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

    # -- using it -------------------------------------------------------------------------------

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
            from tacit.inference.sweep import cell_divergence

            predicted = np.asarray(self.predict(name, found.indices))
            total += cell_divergence(found.values, predicted, self._relation(name).power)
            cells += found.cells
        return -total / max(cells, 1)

    # -- keeping it -----------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model: arrays and JSON, never pickle."""
        if hasattr(self, "parts_"):
            raise ParameterError("a fit over sites is kept by release(folder): what may leave")
        write_factorization(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CoupledFactorization:
        """Read a fitted model that `save` wrote."""
        fitted: CoupledFactorization = read_factorization(cls, path)
        return fitted


def _texts(names: tuple[Any, ...]) -> list[str]:
    """Return labels as text: a saved model keeps those that JSON cannot hold that way."""
    return [str(name) for name in names]
