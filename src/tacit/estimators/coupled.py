"""`CoupledFactorization`: joint factorization of matrices and tensors that share entities."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real
from tacit._core.rng import generator, streams
from tacit.data.relations import Relation
from tacit.errors import ParameterError
from tacit.estimators.coupled_files import read_factorization, write_factorization
from tacit.estimators.coupled_fitted import FittedFactorization
from tacit.estimators.joint import JointMethod
from tacit.estimators.joint_methods import METHODS
from tacit.estimators.progress import progress_bar
from tacit.estimators.site import Site
from tacit.inference.dispersion import estimate_dispersions
from tacit.inference.engine import Engine
from tacit.inference.gibbs import GibbsSampler
from tacit.inference.langevin import LangevinSampler
from tacit.inference.updates import AcceleratedUpdates, MultiplicativeUpdates
from tacit.inference.variational import VariationalBayes
from tacit.models.binding import as_relations
from tacit.models.structure import CoupledModel
from tacit.privacy.guarantee import Privacy
from tacit.privacy.ledger import Ledger

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.float64]]

__all__ = ["CoupledFactorization"]

_METHODS = ("map", "vb", "gibbs", "sgld")
_LOOK = 10  # the objective is looked at every so many iterations


class CoupledFactorization(FittedFactorization):
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

    def _publish(self) -> None:
        """Set `factors_` from the state."""
        flat = self._flat_means()
        self.factors_ = {
            name: values.reshape(self._bound.factors[name].shape) for name, values in flat.items()
        }

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
