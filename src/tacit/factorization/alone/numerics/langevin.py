"""Preconditioned stochastic gradient Langevin dynamics: any loss, real or non-negative factors.

Source: Ermiş (2020), (3.16)–(3.18) and appendix A, whose step along a gradient g of the log
posterior, estimated from a minibatch of cells, is θ + κ·g + N(0, 2κ) with κ_t = κ₀/t^ρ (PRIVACY
B1). The gradient of −d_p(x, x̂)/φ along a factor entry is (x − x̂)·x̂^(−p)·q/φ: numerator minus
denominator of the sweep. With observed zeros the denominator is exact, only listed cells are
sampled. Such a step is stable only where κ is below the inverse of the largest curvature, which
members with many cells set for those with few. Here every row has the step its own curvature
allows, and κ is a share of the way: the exact transition, over that time, of the diffusion whose
drift is held fixed. So it is bounded whatever κ is, and its law is right as κ → 0.

- **Real factors** (p = 0, or a logit link). With the precision P of a row given everything else
  (`tacit.factorization.alone.numerics.normal_rows`), the Ornstein–Uhlenbeck step is
  θ + (1 − e^(−κ))·P⁻¹·g + N(0, (1 − e^(−2κ))·P⁻¹): a Gibbs draw for κ → ∞. Under a logit link P
  is the most that the curvature can be, a quarter for each cell (Böhning 1992), which depends on
  other factors only; where the curvature is less, variances are too small by the share κ/2, and
  so κ is at most 0.2 by default.
- **Non-negative factors.** θ·g = a − 1 − b·θ with a = A + θ·numerator, b = A/B + denominator. The
  Riemannian diffusion dθ = (a − b·θ)dt + √(2θ)dW (Patterson and Teh 2013) never crosses zero and
  has an exact transition over time h (Baker et al. 2018): θ' ~ Gamma(a + n, rate
  b/(1 − e^(−bh))) with n ~ Poisson(bθ/(e^(bh) − 1)). The time is κ over b of all cells.

The noise of the minibatch adds about κ·ω/2 to variances, where a batch of one and ω more of its
size are all cells: by default κ falls to 0.3/ω. P and b of all cells, and the noise variances, are
renewed in each of the first ten steps and in every tenth one after that; in every one where a
batch is all cells. P depends on other factors only, and so does b for p = 1: they need no
correction term. Of other losses b depends on the row itself, and a pace that follows it would
favour slow places: the law would be b times what it should be. There the pace is that of the mean
b along the chain, which settles (diminishing adaptation). None of this noise is what a privacy
guarantee rests on.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from tacit._core.check import AnyOf, Integer, OneOf, Real, check
from tacit.factorization.alone.numerics.normal_gibbs import (
    NormalGibbs,
    check_real,
    start_dispersions,
)
from tacit.factorization.alone.numerics.normal_prior import (
    Components,
    NormalPrior,
    squared_errors,
)
from tacit.factorization.alone.numerics.normal_rows import (
    normal_equations,
    row_chunks,
    solve_rows,
)
from tacit.factorization.alone.numerics.priors import per_factor
from tacit.factorization.alone.numerics.sums import Engine, Expanded, fresh_factors
from tacit.factorization.arrays import Factors, Floats
from tacit.factorization.divergences import LOGIT

__all__ = ["LangevinInfo", "LangevinSampler", "LangevinState"]

# of the default κ: with all cells, beside log odds, and of its product with ω
LARGEST, _OF_ODDS, _NOISE = 1.0, 0.2, 0.3
_RENEW = 10


class LangevinState(NamedTuple):
    """The factors, the prior of their components and the noise (real factors), steps taken."""

    factors: Factors
    components: Mapping[str, Components]
    dispersions: Mapping[str, float]
    steps: int


class LangevinInfo(NamedTuple):
    """The share κ of the way that the step went."""

    step_size: float


class LangevinSampler:
    """A kernel: preconditioned SGLD over minibatches of cells.

    The prior is ``"gamma"`` (non-negative factors; ``stated`` are the shape A and mean B of some
    factors' entries, others have 1 and the data's size) or ``"normal"`` (real factors, p = 0;
    ``stated`` are those of the precisions of components). ``batch`` is cells per relation and
    step; ``step`` and ``decay`` are κ₀ and ρ of κ₀/t^ρ. Without κ₀ it is 1, less where batches are
    a part of the data. ``learned`` are the relations whose noise variance is drawn as well (real
    factors); factors that are ``fixed`` stay.
    """

    def __init__(
        self,
        engine: Engine,
        stated: Mapping[str, tuple[float, float]] | None = None,
        learned: Set[str] = frozenset(),
        *,
        prior: str = "gamma",
        batch: int = 100_000,
        step: float | None = None,
        decay: float = 0.0,
        fixed: Factors | None = None,
    ) -> None:
        check("prior", prior, OneOf("gamma", "normal"))
        check("batch", batch, Integer(1))
        check("step", step, AnyOf(Real(0, open_low=True), None))
        check("decay", decay, Real(0, 1))
        self.engine, self.learned, self.batch = engine, learned, batch
        self.fixed, self.stated = fixed or {}, stated or {}
        self.normal = None
        if prior == "normal":
            check_real(engine)
            self.normal = NormalPrior(engine, stated or {}, fixed)
        self.gamma = per_factor(engine, stated or {}, known=fixed)
        cells = max((found.cells for found in engine.data.values()), default=0)
        self.excess = max(0.0, cells / batch - 1.0)  # ω
        links = any(r.power == LOGIT for r in engine.model.relations)
        self.largest = _OF_ODDS if links else LARGEST
        self.step_size, self.decay = step, float(decay)
        self._kept: dict[str, list[Floats]] = {}
        self._renewed: dict[str, int] = {}

    def init(self, rng: np.random.Generator) -> LangevinState:
        """Draw random factors of the data's size."""
        if self.normal is None:
            return LangevinState(fresh_factors(self.engine, rng, self.fixed), {}, {}, 0)
        if not self.excess and any(len(r.factors) > 2 for r in self.engine.model.relations):
            chain = NormalGibbs(
                self.engine, self.stated, self.learned, self.fixed, exact=False
            ).init(rng)
            return LangevinState(chain.factors, {}, chain.dispersions, 0)
        dispersions = start_dispersions(self.engine, self.normal, self.learned)
        return LangevinState({**self.normal.start(rng), **self.fixed}, {}, dispersions, 0)

    def share(self, time: int) -> float:
        """Return κ of a step."""
        if self.step_size is not None:
            return float(self.step_size / time**self.decay)
        # one cell stands for 1 + ω: in a longer step a row that has few would overshoot
        first = self.largest / (1.0 + self.excess)
        least = min(first, _NOISE / self.excess) if self.excess > 0.0 else first
        return float(max(least, first / time**0.5) / time**self.decay)

    def step(
        self, rng: np.random.Generator, state: LangevinState
    ) -> tuple[LangevinState, LangevinInfo]:
        """Move every factor, one after the other, along a stochastic gradient."""
        time = state.steps + 1
        share = self.share(time)
        renew = not self._kept or not self.excess or time <= _RENEW or time % _RENEW == 0
        batch, scales = self._minibatch(rng)
        expanded = Expanded(self.engine.model, state.factors)
        factors, components = dict(state.factors), dict(state.components)
        dispersions = dict(state.dispersions)
        for name in factors:
            if self.normal is not None:
                components[name] = self.normal.components(rng, name, factors[name])
            if name in self.fixed:
                continue
            if renew:
                self._kept[name] = self._paced(name, self._curvature(expanded, name, dispersions))
            now = state._replace(factors=factors, components=components, dispersions=dispersions)
            factors[name] = self._moved(rng, batch, scales, expanded, now, name, share)
            expanded.put(name, factors[name])
        for relation in dispersions:
            if self.normal is not None and renew and relation in self.learned:
                squares = squared_errors(self.engine, expanded, relation)
                dispersions[relation] = self.normal.noise[relation].variance(rng, squares)
        return LangevinState(factors, components, dispersions, time), LangevinInfo(share)

    def _minibatch(self, rng: np.random.Generator) -> tuple[Engine, dict[str, float]]:
        """Return the engine of a part of the cells, and what stands for one of them."""
        sampled, scales = dict(self.engine.data), {}
        for name, found in self.engine.data.items():
            scales[name] = 1.0
            if found.cells > self.batch:
                picked = rng.choice(found.cells, self.batch, replace=False)
                sampled[name] = found.subset(np.sort(picked))
                scales[name] = found.cells / self.batch
        whole = all(scale == 1.0 for scale in scales.values())
        return (self.engine if whole else Engine(self.engine.model, sampled)), scales

    def _curvature(
        self, expanded: Expanded, name: str, dispersions: Mapping[str, float]
    ) -> list[Floats]:
        """Return what sets the pace of each row or entry, from all cells."""
        spec = self.engine.model.factors[name]
        if self.normal is not None:
            parts = row_chunks(spec.rows, spec.columns)
            spread = self._spread(dispersions)
            return [
                normal_equations(self.engine, expanded, name, spread, part)[0] for part in parts
            ]
        exact = dict.fromkeys(self.engine.data, 1.0)
        return [self.slopes(self.engine, exact, expanded, {}, name)[1]]

    def _paced(self, name: str, now: list[Floats]) -> list[Floats]:
        """Return the pace of a factor: the present one, or its mean where rows set their own."""
        counts = all(relation.power == 1.0 for relation, _ in self.engine.model.using(name))
        if self.normal is not None or counts or name not in self._kept:
            return now
        self._renewed[name] = self._renewed.get(name, 1) + 1
        share = 2.0 / (1.0 + self._renewed[name])  # later ones count for more: 1, 2, 3, …
        pairs = zip(self._kept[name], now, strict=True)
        return [kept + share * (found - kept) for kept, found in pairs]

    def _spread(self, dispersions: Mapping[str, float]) -> dict[str, float]:
        """Return the variance that cells seem to have: of log odds the least, 4φ."""
        return {
            relation.name: (4.0 if relation.power == LOGIT else 1.0) * dispersions[relation.name]
            for relation in self.engine.model.relations
        }

    def slopes(
        self,
        batch: Engine,
        scales: Mapping[str, float],
        expanded: Expanded,
        dispersions: Mapping[str, float],
        name: str,
    ) -> tuple[Floats, Floats]:
        """Return the rising and the falling part of the log likelihood's gradient.

        A gamma prior's rate is part of what falls; the gradient is the first minus the second.
        """
        spec = self.engine.model.factors[name]
        rate = 0.0 if self.normal is not None else self.gamma[name][0] / self.gamma[name][1]
        rising, falling = np.zeros(spec.table), np.full(spec.table, rate)
        for relation, position in self.engine.model.using(name):
            phi = dispersions.get(relation.name, 1.0 / relation.weight)
            scale = scales[relation.name] / phi
            exact = batch.data[relation.name].zeros == "observed"
            up, down = batch.both(expanded, relation, position)
            # of a divergence whose data are negative, what pulls down is on the falling side
            negative = np.minimum(up, 0.0) if self.normal is None else 0.0
            rising += scale * (up - negative)
            falling += (1.0 / phi if exact else scale) * down - scale * negative
        return rising, falling

    def _moved(
        self,
        rng: np.random.Generator,
        batch: Engine,
        scales: Mapping[str, float],
        expanded: Expanded,
        state: LangevinState,
        name: str,
        share: float,
    ) -> Floats:
        """Return one factor after its step."""
        theta = np.asarray(state.factors[name])
        rising, falling = self.slopes(batch, scales, expanded, state.dispersions, name)
        if self.normal is None:
            time = share / self._kept[name][0]
            return _cox_ingersoll_ross(rng, theta, self.gamma[name][0], rising, falling, time)
        mean, precision = state.components[name]
        gradient = rising - falling - precision * (theta - mean)
        moved = np.empty_like(theta)
        along, spread = -np.expm1(-share), np.sqrt(-np.expm1(-2.0 * share))
        parts = row_chunks(*theta.shape)
        for part, kept in zip(parts, self._kept[name], strict=True):
            noise = spread * rng.standard_normal(theta[part].shape)
            moved[part] = theta[part] + solve_rows(kept, precision, along * gradient[part], noise)
        return moved


def _cox_ingersoll_ross(
    rng: np.random.Generator, theta: Any, shape: float, rising: Any, falling: Any, time: Any
) -> Floats:
    """Return θ after dθ = (A + θ·rising − falling·θ)dt + √(2θ)dW, with A + θ·rising held fixed."""
    pulled = falling * time
    # θ/h for no pull at all; beyond 1e15 the Poisson draw is its mean
    mean = theta * falling / np.expm1(np.minimum(pulled, 700.0))
    drawn = np.where(mean < 1e15, rng.poisson(np.minimum(mean, 1e15)), mean)
    scale = -np.expm1(-pulled) / falling
    found = rng.standard_gamma(shape + theta * rising + drawn) * scale
    return np.asarray(np.maximum(found, 1e-290))  # a gamma draw may underflow to zero
