"""`CoupledFactorization`: joint factorization of matrices and tensors that share entities."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from zipfile import BadZipFile

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tacit._core.check import AnyOf, Constraint, InstanceOf, Integer, OneOf, Real
from tacit._core.rng import streams
from tacit.data.relations import Relation
from tacit.errors import ParameterError, VerificationFailed
from tacit.estimators.base import Estimator
from tacit.inference.engine import Engine, Expanded
from tacit.inference.gibbs import GibbsSampler, GibbsState
from tacit.inference.langevin import LangevinSampler, LangevinState
from tacit.inference.sweep import estimate_cells
from tacit.inference.updates import MultiplicativeUpdates, UpdateState
from tacit.inference.variational import VariationalBayes, VariationalState
from tacit.models.structure import BoundModel, CoupledModel

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Arrays = dict[str, NDArray[np.float64]]

__all__ = ["CoupledFactorization"]

_METHODS = ("map", "vb", "gibbs", "sgld")
_LOOK = 10  # the objective is looked at every so many iterations


class CoupledFactorization(Estimator):
    """Factorize any collection of matrices and tensors that share entities.

    Parameters
    ----------
    model
        The forms in the model language, ``{"visits": "user:k place:k", …}`` or one string, or a
        `CoupledModel` (then the next three are taken from it).
    rank, divergence, dispersion
        As in `CoupledModel`.
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
    burn_in, thin
        For ``"gibbs"`` and ``"sgld"``: steps that are dropped first, and the distance of the
        samples that are kept.
    batch, step, decay, real_factors
        For ``"sgld"``: cells per step, step size κ₀ and decay ρ, and whether factors may be
        negative (Euclidean divergence).
    warm_start
        Whether `fit` goes on from the state of an earlier (or interrupted) fit.
    progress
        Whether a progress bar is shown.
    random_state
        The seed of the inference generators.

    Attributes
    ----------
    factors_
        Factor → array (rows, latents …); means for the Bayesian methods.
    history_
        The objective (``"map"``: falls) or evidence bound (``"vb"``: rises) as looked at.
    n_iter_, converged_
        Iterations done, and whether the tolerance was reached.

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
        "burn_in": Integer(0),
        "thin": Integer(1),
        "batch": Integer(1),
        "step": Real(0, open_low=True),
        "decay": Real(0, 1),
        "real_factors": OneOf(True, False),
        "warm_start": OneOf(True, False),
        "progress": OneOf(True, False),
        "random_state": AnyOf(Integer(0), None, InstanceOf(np.random.SeedSequence)),
    }

    def __init__(
        self,
        model: Any = "row:k column:k",
        *,
        rank: Any = 5,
        divergence: Any = "kl",
        dispersion: Any = 1.0,
        inference: str = "map",
        prior_shape: float | None = None,
        prior_mean: float | None = None,
        adapt: bool = False,
        iterations: int = 500,
        tolerance: float = 1e-5,
        restarts: int = 1,
        burn_in: int = 100,
        thin: int = 5,
        batch: int = 10_000,
        step: float = 1e-4,
        decay: float = 0.51,
        real_factors: bool = False,
        warm_start: bool = False,
        progress: bool = False,
        random_state: Any = None,
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
        self.burn_in = burn_in
        self.thin = thin
        self.batch = batch
        self.step = step
        self.decay = decay
        self.real_factors = real_factors
        self.warm_start = warm_start
        self.progress = progress
        self.random_state = random_state

    # -- fitting --------------------------------------------------------------------------------

    def coupled_model(self) -> CoupledModel:
        """Return the model that the parameters describe."""
        if isinstance(self.model, CoupledModel):
            return self.model
        return CoupledModel(self.model, self.rank, self.divergence, self.dispersion)

    def fit(self, data: Any, y: None = None) -> CoupledFactorization:
        """Fit the factors.

        Parameters
        ----------
        data
            Relation name → `Relation` (or an array whose modes are in the order of the form,
            NaN for missing); for a single relation, just that.
        y
            Ignored.
        """
        self._check_parameters()
        model = self.coupled_model()
        relations = _as_relations(model, data)
        bound = model.bind(relations)
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
            if shape is None and mean is None:
                return MultiplicativeUpdates(engine)
            shape = 1.0 if shape is None else shape
            return MultiplicativeUpdates(engine, shape, 0.0 if mean is None else shape / mean)
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
        with _progress(self.progress, self.iterations * len(starts)) as advance:
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
        self, kernel: Any, state: Any, advance: Callable[[], None]
    ) -> tuple[Any, list[float], int, bool, bool]:
        """Iterate until the objective settles, the iterations are used up, or Ctrl-C.

        Returns the state, the objectives looked at, the iterations done, whether the objective
        settled, and whether the user interrupted.
        """
        history: list[float] = []
        done, settled, interrupted = 0, False, False
        try:
            while done < self.iterations and not settled:
                look = (done + 1) % _LOOK == 0 or done + 1 == self.iterations
                state, info = kernel.step(state, objective=look)
                done += 1
                advance()
                if look:
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
        with _progress(self.progress, self.iterations) as advance:
            try:
                for _ in range(self.iterations):
                    state, _ = kernel.step(rng, state)
                    self.n_iter_ += 1
                    past = self.n_iter_ - self.burn_in
                    if past > 0 and past % self.thin == 0:
                        self._samples.append(dict(state.factors))
                    advance()
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

    def predict(self, relation: str, cells: Any, *, return_variance: bool = False) -> Any:
        """Return the expected value of any cells of a relation.

        Parameters
        ----------
        relation
            Which relation.
        cells
            (cells, modes) indices.
        return_variance
            Also return the posterior variance of the expected value (Bayesian methods); add
            the likelihood's own variance for that of a new observation.
        """
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
        return mean, self._variational_variance(relation, index)

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

    def _variational_variance(
        self, relation: str, cells: NDArray[np.int32]
    ) -> NDArray[np.float64]:
        """Return Var Σ_r Π_f θ under independent gammas.

        E[x̂²] = Σ_{r,s} Π_f E[θ_f(r)·θ_f(s)], where the expectation is E[θ²] if both combinations
        use the same entry of a factor and E·E otherwise.
        """
        bound, state = self._relation(relation), self._state
        means = state.means
        variances = {n: means[n] * state.scales[n] for n in means}
        combinations = bound.combinations
        out = np.empty(len(cells))
        chunk = max(1, (1 << 20) // combinations**2)
        for start in range(0, len(cells), chunk):
            part = cells[start : start + chunk]
            second = np.ones((len(part), combinations, combinations))
            first = np.ones((len(part), combinations))
            for position, name in enumerate(bound.factors):
                rows = part[:, position] if position < bound.modes else np.zeros(len(part), int)
                columns = bound.columns[position]
                mean = means[name][rows][:, columns]
                same = columns[:, None] == columns[None, :]
                spread = variances[name][rows][:, columns]
                second *= mean[:, :, None] * mean[:, None, :] + same * spread[:, :, None]
                first *= mean
            out[start : start + chunk] = second.sum(axis=(1, 2)) - first.sum(axis=1) ** 2
        return np.maximum(out, 0.0)

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
        data = _as_relations(model, data)
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
        engine = Engine(bound, data)
        if self.inference == "sgld" and self.real_factors:
            return self._fold_in_real(entity, bound, data)
        fixed = {n: v for n, v in self._flat_means().items() if n in bound.factors and n != entity}
        spec = bound.factors[entity]
        start = self._flat_means()[entity].mean(axis=0)
        rows = np.tile(np.maximum(start, 1e-6), (spec.rows, 1))
        kernel = MultiplicativeUpdates(engine, *self._fold_in_prior())
        expanded = Expanded(bound, {**fixed, entity: rows})
        for _ in range(200):
            updated = kernel.update(expanded, entity, rows)
            expanded.put(entity, updated)
            moved = np.abs(updated - rows).max() / max(np.abs(rows).max(), 1e-300)
            rows = updated
            if moved < 1e-8:
                break
        return rows.reshape((spec.rows, *spec.ranks))

    def _check_labels(self, data: Mapping[str, Relation], but: str | None = None) -> None:
        """Refuse data whose members have other labels than those of the fit."""
        for found in data.values():
            for entity, names in found.labels.items():
                if entity != but and _texts(self.labels_.get(entity, names)) != _texts(names):
                    raise ParameterError(
                        f"the members of {entity!r} differ from those of the fit: pass its labels"
                    )

    def _fold_in_real(
        self, entity: str, bound: BoundModel, data: Mapping[str, Relation]
    ) -> NDArray[np.float64]:
        """Return the ridge regression of new members' cells on the fixed factors."""
        spec, means = bound.factors[entity], self._flat_means()
        ridge = float(self._state.precisions[entity])
        left = np.tile(ridge * np.eye(spec.columns), (spec.rows, 1, 1))
        right = np.zeros((spec.rows, spec.columns))
        for relation, position in bound.using(entity):
            found = data[relation.name]
            if found.zeros == "observed":
                raise ParameterError("list the new members' cells: pass zeros='missing'")
            product = np.ones((found.cells, relation.combinations))
            for other, name in enumerate(relation.factors):
                if other != position:
                    core = other >= relation.modes
                    rows = np.zeros(found.cells, int) if core else found.indices[:, other]
                    product *= means[name][rows][:, relation.columns[other]]
            design = np.zeros((found.cells, spec.columns))
            for r, column in enumerate(relation.columns[position]):
                design[:, column] += product[:, r]
            owner = found.indices[:, position]
            np.add.at(left, owner, design[:, :, None] * design[:, None, :] / relation.dispersion)
            np.add.at(right, owner, design * found.values[:, None] / relation.dispersion)
        rows = np.linalg.solve(left, right[:, :, None])[:, :, 0]
        return np.asarray(rows.reshape((spec.rows, *spec.ranks)))

    def _fold_in_prior(self) -> tuple[float, float]:
        """Return (shape, rate) of the prior that new rows are fitted with."""
        shape, mean = self.prior_shape, self.prior_mean
        if self.inference == "map":
            shape = 1.0 if shape is None else shape
            return shape, 0.0 if mean is None else shape / mean
        shape = 0.5 if shape is None else shape
        return max(1.0, shape), shape / (10.0 if mean is None else mean)

    def score(self, data: Any, y: None = None) -> float:
        """Return minus the mean divergence per listed cell, over all relations."""
        relations = _as_relations(self.coupled_model(), data)
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
        if isinstance(self.model, CoupledModel):
            raise ParameterError("pass the forms as text to save a model")
        arrays: Arrays = {}
        if self.inference == "vb":
            arrays = {f"shape/{n}": v for n, v in self._state.shapes.items()}
            arrays |= {f"scale/{n}": v for n, v in self._state.scales.items()}
        elif self.inference == "map":
            arrays = {f"factor/{n}": v for n, v in self._state.factors.items()}
        else:
            arrays = {f"state/{n}": v for n, v in self._state.factors.items()}
            for k, sample in enumerate(self._samples):
                arrays |= {f"sample/{k:06d}/{n}": v for n, v in sample.items()}
        settings = {
            "format": 1,
            "parameters": self.get_params(deep=False),
            "labels": {
                entity: [name if isinstance(name, str | int | float) else str(name)
                         for name in names]
                for entity, names in self.labels_.items()
            },
            "chain": (
                [dict(self._state.precisions), self._state.steps]
                if self.inference == "sgld" else None
            ),
            "entities": {r.name: list(r.factors[: r.modes]) for r in self._bound.relations},
            "rows": {name: spec.rows for name, spec in self._bound.factors.items()},
            "prior": (
                [dict(self._state.prior_shape), dict(self._state.prior_mean)]
                if self.inference == "vb" else None
            ),
            "history": self.history_, "n_iter": self.n_iter_, "converged": self.converged_,
        }  # fmt: skip
        text = np.frombuffer(json.dumps(settings, default=_plain).encode(), np.uint8)
        buffer = io.BytesIO()
        np.savez_compressed(buffer, allow_pickle=False, settings=text, **arrays)
        Path(path).write_bytes(buffer.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> CoupledFactorization:
        """Read a fitted model that `save` wrote."""
        try:
            with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            settings = json.loads(bytes(arrays.pop("settings")))
            if settings["format"] != 1:
                raise ValueError(f"format {settings['format']} is unknown here: update tacit")
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile) as error:
            raise VerificationFailed(f"{path} is not a saved factorization: {error}") from None
        fitted = cls(**settings["parameters"])
        fitted._forget()
        rows = settings["rows"]
        empty = {
            name: Relation.from_cells(entities, np.empty((0, len(entities)), int), np.empty(0),
                                      shape=[rows[e] for e in entities])
            for name, entities in settings["entities"].items()
        }  # fmt: skip
        fitted._bound = fitted.coupled_model().bind(empty)
        fitted.labels_ = {e: tuple(names) for e, names in settings["labels"].items()}
        fitted._method = fitted.inference
        fitted.history_, fitted.n_iter_ = settings["history"], settings["n_iter"]
        fitted.converged_ = settings["converged"]
        names = list(fitted._bound.factors)
        if fitted.inference == "vb":
            fitted._state = VariationalState(
                {n: arrays[f"shape/{n}"] for n in names}, {n: arrays[f"scale/{n}"] for n in names},
                *settings["prior"],
            )  # fmt: skip
        elif fitted.inference == "map":
            fitted._state = UpdateState({n: arrays[f"factor/{n}"] for n in names})
        else:
            keys = sorted({key.split("/")[1] for key in arrays if key.startswith("sample/")})
            fitted._samples = [{n: arrays[f"sample/{k}/{n}"] for n in names} for k in keys]
            last = {n: arrays[f"state/{n}"] for n in names}
            fitted._state = (
                GibbsState(last) if fitted.inference == "gibbs"
                else LangevinState(last, *settings["chain"])
            )  # fmt: skip
        fitted._publish()
        return fitted


def _texts(names: tuple[Any, ...]) -> list[str]:
    """Return labels as text: a saved model keeps those that JSON cannot hold that way."""
    return [str(name) for name in names]


def _plain(value: Any) -> Any:
    """Return what JSON can hold for a NumPy number."""
    if isinstance(value, np.generic):
        return value.item()
    raise ParameterError(f"a parameter of type {type(value).__name__} cannot be saved")


def _as_relations(model: CoupledModel, data: Any) -> dict[str, Relation]:
    """Return the data as relations; arrays take their entities from the form, in order."""
    if not isinstance(data, Mapping):
        if len(model.forms) != 1:
            raise ParameterError(f"data must name the relations {sorted(model.forms)}")
        data = {next(iter(model.forms)): data}
    found = {}
    for name, value in data.items():
        if isinstance(value, Relation):
            found[name] = value
        elif name in model.forms:
            if hasattr(value, "tocoo"):
                raise ParameterError(
                    f"relation {name!r} is a SciPy matrix: pass Relation.from_scipy(entities, …), "
                    "which says what its unstored cells are"
                )
            array = np.asarray(value, np.float64)
            found[name] = Relation.from_dense(_modes(name, model.forms[name], array.ndim), array)
        else:
            raise ParameterError(f"the model has no relation {name!r}")
    return found


def _modes(name: str, tokens: tuple[tuple[str, str], ...], modes: int) -> list[str]:
    """Return which factors of a form are the modes of an array, the others being cores.

    A core is a factor over several latent indices that all occur in other factors.
    """
    names = [factor for factor, _ in tokens]
    if len(names) == modes:
        return names
    cores = [
        factor
        for factor, latents in tokens
        if len(latents) > 1
        and set(latents) <= {k for other, ks in tokens if other != factor for k in ks}
    ]
    if len(names) - len(cores) != modes:
        raise ParameterError(
            f"relation {name!r} names {names}, but the array has {modes} modes: pass a Relation, "
            "which says what its modes are"
        )
    return [factor for factor in names if factor not in cores]


@contextmanager
def _progress(shown: bool, total: int) -> Iterator[Callable[[], None]]:
    """Yield a function that advances a progress bar, or does nothing."""
    if not shown:
        yield lambda: None
        return
    from rich.progress import Progress

    with Progress() as bar:
        task = bar.add_task("factorizing", total=total)
        yield lambda: bar.advance(task)
